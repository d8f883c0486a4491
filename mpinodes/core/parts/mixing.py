"""Define the base class of mixings. A mixing computes the weights with which an agent adds up received releases."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from msgspec import Struct

from mpinodes.core.messages import Neighborhood, Vector
from mpinodes.core.parts.links import Links, Topology


class GraphFacts(Struct, frozen=True, dict=True):
    """Hold public facts about the graph of a run, from which a mixing computes its weights.

    All facts except the number of agents are computed when they are first read, from the graphs of all rounds. If the
    graph never repeats, only the graphs of the first `topology.facts.LONGEST_CHECK` rounds are examined.

    A mixing that states `anytime` may read only the number of agents: any other fact raises a ValueError.

    Attributes:
        agents: n, the number of agents.
        compute: computes another fact, given the name of a function in `topology.facts`.
    """

    agents: int
    compute: Callable[[str], Any]

    @cached_property
    def is_eulerian(self) -> bool:
        """Return whether each agent has as many in-neighbors as out-neighbors in every examined round."""
        return bool(self.compute("is_eulerian"))

    @cached_property
    def most_edges(self) -> int:
        """Return the largest number of directed edges in an examined round."""
        return int(self.compute("out_edges"))

    @cached_property
    def laplacian_max(self) -> float:
        """Return the largest eigenvalue of the graph's Laplacian in any round; n if the graph never repeats."""
        return float(self.compute("laplacian_max"))


@dataclass(frozen=True, repr=False, eq=False)
class Mixing(ABC):
    """Compute the weights a_ij that agent i gives to the releases of agents j.

    With each release an agent may send public scalars, from which the receivers compute their weights. A mixing never
    receives the state or the loss of an agent, so the scalars do not depend on data.

    Attributes:
        graph: public facts of the graph.
    """

    graph: GraphFacts

    undirected: ClassVar[bool] = False  # whether the mixing needs every edge in both directions
    fixed: ClassVar[bool] = False  # whether the mixing needs the same graph in every round
    anytime: ClassVar[bool] = False  # whether the mixing works without facts about the graphs of all rounds
    # A sentence for users: which property the weights keep if messages are lost or late. If the text is empty, mpinodes
    # rejects runs with faults. With faults, the in-neighbors of `here` are the senders whose messages arrive in the
    # round, and the out-neighbors are the agents that receive the agent's message in this or a later round.
    under_faults: ClassVar[str] = ""
    # Which messages the mixing uses if several messages of one sender arrive in one round: only the newest, or each of
    # them. With "each", the sender appears among the senders once for each message.
    hears: ClassVar[Literal["newest", "each"]] = "newest"

    @property
    def width(self) -> int:
        """Return how many public numbers (scalars) an agent sends with each release, for the computation of weights."""
        return 0

    def init(self, agent: int) -> Any:
        """Return the state of the mixing of one agent before round 1; by default None."""
        return None

    def outgoing(self, s: Any, here: Neighborhood) -> Sequence[float] | Vector:
        """Return the public numbers (scalars) that an agent sends with its release of this round: `width` numbers."""
        return ()

    @abstractmethod
    def weights(self, s: Any, here: Neighborhood, incoming: Sequence[Vector]) -> tuple[Any, Sequence[float], float]:
        """Return the next state of the mixing, the weights a_ij of the k received messages, and a scale.

        Most algorithms divide the weighted sum of the messages by the scale. With the mixing `mixing.rescaling`, an
        algorithm divides its gradient by the scale instead.

        Args:
            s: the state of the mixing in this round.
            here: the agent's neighbors in this round.
            incoming: the scalars of the k received messages, in ascending order of senders; the agent itself is one of
                the senders.
        """


class MixedRound(NamedTuple):
    """Hold the mixing weights of all agents in one round, with the public scalars and the states behind the weights.

    Attributes:
        here: the neighbors of each agent.
        said: the public numbers (scalars) that each agent sends, (width,).
        weights: (n, n); entry [i, j] is the weight that agent i gives to the release of agent j.
        states: the state of the mixing of each agent after the round.
    """

    here: dict[int, Neighborhood]
    said: dict[int, Vector]
    weights: Vector
    states: dict[int, Any]


def mixed(mixing: Mixing, graph: Topology | Links, agents: Sequence[int], first: int = 1) -> Iterator[MixedRound]:
    """Yield the mixing weights of all agents, round after round, without end.

    Args:
        mixing: the mixing of the run.
        graph: the topology, or the links if there are faults.
        agents: all agents, in the order in which this function computes their weights.
        first: the first round to yield. If the mixing has a state, or if messages may be late, the rounds before
            `first` are computed too.
    """
    links = graph if isinstance(graph, Links) else None
    late = links.faults.most_late if links else 0
    states, sent = {i: mixing.init(i) for i in agents}, dict[int, dict[int, Vector]]()
    for t in count(1 if late or any(s is not None for s in states.values()) else first):
        here = {i: graph.neighborhood(t, i) for i in agents}
        sent[t] = {i: np.array(mixing.outgoing(states[i], here[i]), dtype=float) for i in agents}
        weights = np.zeros((len(agents), len(agents)))
        for i in agents:
            received = links.heard(t, i) if links else [(j, t) for j in here[i].senders]
            states[i], of_senders, _ = mixing.weights(states[i], here[i], [sent[s][j] for j, s in received])
            np.add.at(weights[i], [j for j, _ in received], of_senders)
        if t >= first:
            yield MixedRound(here, sent[t], weights, dict(states))
        sent.pop(t - late, None)
