"""Define the contract of mixings."""

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
    """Hold public facts of a run's graph. Each fact is computed when a mixing first asks for it.

    Attributes:
        agents: n.
        compute: computes a fact by the name of its function in `topology.facts`.
    """

    agents: int
    compute: Callable[[str], Any]

    @cached_property
    def is_eulerian(self) -> bool:
        """Return whether, in every round, each agent has as many in-neighbors as out-neighbors."""
        return bool(self.compute("is_eulerian"))

    @cached_property
    def most_edges(self) -> int:
        """Return the largest number of directed edges in any round."""
        return int(self.compute("out_edges"))

    @cached_property
    def laplacian_max(self) -> float:
        """Return the largest eigenvalue of the graph's Laplacian over all rounds."""
        return float(self.compute("laplacian_max"))


@dataclass(frozen=True, repr=False, eq=False)
class Mixing(ABC):
    """Compute the weights a_ij, and the public scalars that an agent sends so that receivers can compute their weights.

    A mixing never sees the state or the loss of an algorithm. Its scalars depend on the graph alone.

    Attributes:
        graph: public facts of the graph.
    """

    graph: GraphFacts

    undirected: ClassVar[bool] = False  # whether the mixing needs every edge in both directions
    fixed: ClassVar[bool] = False  # whether the mixing needs the same graph in every round
    anytime: ClassVar[bool] = False  # whether the mixing works without facts about the graphs of all rounds
    # A sentence for people: which property the weights keep if messages are lost or late. If it is empty, the mixing
    # is not run with faults. Under faults the in-neighbors of `here` are the senders received in the round, and the
    # out-neighbors are the agents that receive its message, then or later.
    under_faults: ClassVar[str] = ""
    # If several messages of one sender arrive in one round: whether the mixing uses only the newest, or each of them.
    # With "each", that sender appears once per message among the senders.
    hears: ClassVar[Literal["newest", "each"]] = "newest"

    @property
    def width(self) -> int:
        """Return the number of scalars that travel with each release."""
        return 0

    def init(self, agent: int) -> Any:
        """Return the state before round 1; by default there is none."""
        return None

    def outgoing(self, s: Any, here: Neighborhood) -> Sequence[float] | Vector:
        """Return the `width` scalars to send with this round's release."""
        return ()

    @abstractmethod
    def weights(self, s: Any, here: Neighborhood, incoming: Sequence[Vector]) -> tuple[Any, Sequence[float], float]:
        """Return the next state, the weights a_ij (k,), and the scale by which the mixed vector is divided.

        Args:
            s: the state of this round.
            here: the agent's neighbors in this round.
            incoming: the scalars of the k senders, in ascending order, the agent's own among them.
        """


class MixedRound(NamedTuple):
    """Hold the scalars, weights and states of all agents' mixing in one round.

    Attributes:
        here: the neighbors of each agent.
        said: the scalars that each agent sends, (width,).
        weights: (n, n) at [i, j] the weight that agent i gives to the release of agent j.
        states: the mixing's state of each agent after the round.
    """

    here: dict[int, Neighborhood]
    said: dict[int, Vector]
    weights: Vector
    states: dict[int, Any]


def mixed(mixing: Mixing, graph: Topology | Links, agents: Sequence[int], first: int = 1) -> Iterator[MixedRound]:
    """Yield the mixing of all agents, round by round without end. It needs neither an algorithm nor data.

    Args:
        mixing: the mixing of the run.
        graph: the topology, or the links if there are faults.
        agents: all agents, in the order in which they take their turns.
        first: the first round to yield. A mixing with a state, or with late messages, starts at round 1 all the same.
    """
    links = graph if isinstance(graph, Links) else None
    late = links.most_late if links else 0
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
