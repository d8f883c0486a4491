"""The contract of mixings."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal

from msgspec import Struct

from mpinodes.core.messages import Neighborhood, Vector


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
