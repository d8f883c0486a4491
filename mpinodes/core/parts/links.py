"""The contract of topologies, and of what gets through on their edges."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Annotated, ClassVar

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from mpinodes.core.messages import Neighborhood

Edges = frozenset[tuple[int, int]]
Matrix = NDArray[np.bool_]  # (n, n): at [j, i] whether j sends to i
Agents = Annotated[int, Meta(ge=1, description="how many; under mpirun it must be the ranks less the logger")]


@dataclass(frozen=True, repr=False, eq=False)
class Topology(ABC):
    """A possibly time-varying graph: who hears whom in round t, a pure function of t, alike on every rank.

    Edge (j, i) means: j sends to i. `topology.base` has the two usual cases: `Periodic`, sets of edges that repeat, and
    `EachRound`, a graph drawn anew in every round.

    Attributes:
        agents: n.
        seed: the run's, for graphs that are drawn; no key of its own.
    """

    agents: Agents
    seed: int = field(default=0, kw_only=True)

    from_file: ClassVar[bool] = False  # whether `topology.undirected` makes its edges go both ways

    @property
    @abstractmethod
    def title(self) -> str:
        """What a person would call it."""

    @property
    def source(self) -> str:
        """What error messages call it: its file, where it is from one."""
        return f"topology {self.title!r}"

    @property
    @abstractmethod
    def period(self) -> int | None:
        """After how many rounds the graph repeats; None: never."""

    @abstractmethod
    def edges(self, t: int) -> Edges:
        """The edges of round t = 1, 2, ..."""

    @abstractmethod
    def sends(self, t: int) -> Matrix:
        """The same as an (n, n) matrix, read only: at [j, i] whether j sends to i."""

    @abstractmethod
    def neighborhood(self, t: int, agent: int) -> Neighborhood:
        """An agent's place in round t."""


@dataclass(frozen=True, repr=False, eq=False)
class Links(ABC):
    """What gets through of a run's messages, and when: a pure function of t, alike on every rank.

    Attributes:
        graph: on whose edges they are sent.
        most_late: rounds that one comes late at most.
    """

    graph: Topology
    most_late: int

    @abstractmethod
    def neighborhood(self, t: int, agent: int) -> Neighborhood:
        """An agent's place in round t: whom it hears, and who hears, then or later, what it says."""

    @abstractmethod
    def heard(self, t: int, agent: int) -> tuple[tuple[int, int], ...]:
        """What an agent hears in round t: (sender, round in which it was said), ascending, its own among them."""

    @abstractmethod
    def carried(self, t: int, agent: int) -> Neighborhood:
        """Whose messages of round t get through to an agent, then or later, and to whom its own does."""

    @abstractmethod
    def lateness(self, t: int) -> NDArray[np.int64]:
        """By how many rounds what j says to i in round t comes late, at [j, i]; −1: it is lost, or was never said."""

    @abstractmethod
    def away(self, t: int) -> NDArray[np.bool_]:
        """Which agents are away in round t: (n,)."""

    @abstractmethod
    def sends(self, t: int) -> Matrix:
        """Whether j says anything to i in round t, lost or not, at [j, i]."""
