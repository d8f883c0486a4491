"""The contract of mixings."""

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
    """Public facts of a run's graph, found when they are asked for.

    Attributes:
        agents: n.
    """

    agents: int
    of_eulerian: Callable[[], bool]
    of_edges: Callable[[], int]
    of_laplacian: Callable[[], float]

    @cached_property
    def is_eulerian(self) -> bool:
        """Whether each agent hears as many as it sends to, in every round."""
        return self.of_eulerian()

    @cached_property
    def most_edges(self) -> int:
        """The largest number of edges of any round, one for each way."""
        return self.of_edges()

    @cached_property
    def laplacian_max(self) -> float:
        """The largest eigenvalue of the Laplacian of any round."""
        return self.of_laplacian()


@dataclass(frozen=True, repr=False, eq=False)
class Mixing(ABC):
    """Weights a_ij, and the public scalars that an agent sends so that receivers can know them.

    It is never given state or loss of an algorithm: what it says is made of the graph alone.

    Attributes:
        graph: public facts of it.
    """

    graph: GraphFacts

    undirected: ClassVar[bool] = False  # whether it needs every edge both ways
    fixed: ClassVar[bool] = False  # whether it needs the same graph in every round
    anytime: ClassVar[bool] = False  # whether it works without facts of the graphs of all rounds: it is given none
    # Under faults, `here` has whom an agent hears in a round, and who hears, then or later, what it says in it.
    under_faults: ClassVar[str] = ""  # what its weights keep then, for people; empty: they are not run with faults
    # Of what one sender said in several rounds and comes in one: the newest is heard, or each, a sender for each.
    hears: ClassVar[Literal["newest", "each"]] = "newest"

    @property
    def width(self) -> int:
        """How many scalars travel with each release."""
        return 0

    def init(self, agent: int) -> Any:
        """The state before round 1; by default there is none."""
        return None

    def outgoing(self, s: Any, here: Neighborhood) -> Sequence[float] | Vector:
        """The `width` scalars that go out with this round's release."""
        return ()

    @abstractmethod
    def weights(self, s: Any, here: Neighborhood, incoming: Sequence[Vector]) -> tuple[Any, Sequence[float], float]:
        """New state, weights (k,) and scale, from the scalars of every sender (own among them, ascending)."""


class MixedRound(NamedTuple):
    """What the mixing of all agents does in one round.

    Attributes:
        here: by agent, its place in the round.
        said: by agent, the scalars that go out: (width,).
        weights: (n, n) at [i, j] the weight that agent i gives to what it hears of j.
        states: by agent, its state after the round.
    """

    here: dict[int, Neighborhood]
    said: dict[int, Vector]
    weights: Vector
    states: dict[int, Any]


def mixed(mixing: Mixing, graph: Topology | Links, agents: Sequence[int], first: int = 1) -> Iterator[MixedRound]:
    """Yield what the mixing of all agents does, round by round, for ever: it needs no algorithm and no data.

    Args:
        mixing: of the run.
        graph: whom an agent hears, and what gets through.
        agents: all of them, in the order in which they take their turns.
        first: the first round to yield; of a mixing without a state, no round before is gone through.
    """
    links = graph if isinstance(graph, Links) else None
    late = links.most_late if links else 0
    states, said = {i: mixing.init(i) for i in agents}, dict[int, dict[int, Vector]]()
    for t in count(1 if late or any(s is not None for s in states.values()) else first):
        here = {i: graph.neighborhood(t, i) for i in agents}
        said[t] = {i: np.array(mixing.outgoing(states[i], here[i]), dtype=float) for i in agents}
        weights = np.zeros((len(agents), len(agents)))
        for i in agents:
            heard = links.heard(t, i) if links else [(j, t) for j in here[i].senders]
            states[i], of_senders, _ = mixing.weights(states[i], here[i], [said[s][j] for j, s in heard])
            np.add.at(weights[i], [j for j, _ in heard], of_senders)
        if t >= first:
            yield MixedRound(here, said[t], weights, dict(states))
        said.pop(t - late, None)
