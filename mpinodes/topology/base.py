"""What every topology is: one that repeats, and one drawn anew in every round."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property, lru_cache
from typing import Annotated

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from mpinodes.core.protocol import Round
from mpinodes.core.seeds import Purpose, Draws

Edges = frozenset[tuple[int, int]]
Matrix = NDArray[np.bool_]  # (n, n): at [j, i] whether j sends to i
Neighbours = tuple[tuple[tuple[int, ...], ...], tuple[tuple[int, ...], ...]]  # inn, out, by agent

Agents = Annotated[int, Meta(ge=1, description="how many; under mpirun it must be the ranks less the logger")]


def as_matrix(agents: int, edges: Edges) -> Matrix:
    """Edges as an (n, n) matrix."""
    sends = np.zeros((agents, agents), dtype=bool)
    if edges:
        sends[tuple(np.array(list(edges)).T)] = True
    return sends


def as_edges(sends: Matrix) -> Edges:
    """An (n, n) matrix as edges."""
    j, i = np.nonzero(sends)
    return frozenset(zip(j.tolist(), i.tolist(), strict=True))


def both_ways(edges: Edges) -> Edges:
    """Every edge, and its reverse."""
    return edges | {(i, j) for j, i in edges}


def _neighbours(agents: int, edges: Edges) -> Neighbours:
    inn: list[list[int]] = [[] for _ in range(agents)]
    out: list[list[int]] = [[] for _ in range(agents)]
    for j, i in sorted(edges):
        out[j].append(i)
        inn[i].append(j)
    return tuple(map(tuple, inn)), tuple(map(tuple, out))


class Topology(ABC):
    """A possibly time-varying graph."""

    agents: int

    @property
    @abstractmethod
    def title(self) -> str:
        """What a person would call it."""

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
    def round(self, t: int, i: int) -> Round:
        """Agent i's place in round t."""


class Periodic(Topology):
    """One set of edges for each round of a period."""

    @property
    @abstractmethod
    def phases(self) -> tuple[Edges, ...]:
        """The edges by round of the period."""

    @property
    def period(self) -> int:
        """The number of phases."""
        return len(self.phases)

    def edges(self, t: int) -> Edges:
        """The edges of round t."""
        return self.phases[(t - 1) % len(self.phases)]

    def sends(self, t: int) -> Matrix:
        """The same as a matrix."""
        return as_matrix(self.agents, self.edges(t))

    @cached_property
    def _all(self) -> tuple[Neighbours, ...]:
        return tuple(_neighbours(self.agents, edges) for edges in self.phases)

    def round(self, t: int, i: int) -> Round:
        """Agent i's place in round t."""
        inn, out = self._all[(t - 1) % len(self._all)]
        return Round(t, i, inn[i], out[i])


class EachRound(Topology):
    """A graph that is drawn anew in every round: a pure function of (seed, t)."""

    seed: int

    @abstractmethod
    def draw(self, rng: np.random.Generator) -> Matrix:
        """One round's (n, n) matrix."""

    @property
    def period(self) -> None:
        """It never repeats."""

    @cached_property
    def _latest(self) -> Callable[[int], Matrix]:
        draws = Stream(self.seed, Purpose.TOPOLOGY)

        # in lockstep, all agents ask for the same round in turn
        @lru_cache(maxsize=1)
        def drawn(t: int) -> Matrix:
            sends = self.draw(draws.at(t))
            sends.setflags(write=False)
            return sends

        return drawn

    def edges(self, t: int) -> Edges:
        """The edges of round t."""
        return as_edges(self.sends(t))

    def sends(self, t: int) -> Matrix:
        """The same as a matrix."""
        return self._latest(t)

    def round(self, t: int, i: int) -> Round:
        """Agent i's place in round t."""
        sends = self.sends(t)
        inn, out = np.flatnonzero(sends[:, i]), np.flatnonzero(sends[i])
        return Round(t, i, tuple(inn.tolist()), tuple(out.tolist()))
