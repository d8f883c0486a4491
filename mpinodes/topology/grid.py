"""The grid, a torus cut open."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from mpinodes.core.parts import Edges
from mpinodes.topology.base import both_ways
from mpinodes.topology.torus import Torus

__all__ = ["Grid"]


@dataclass(frozen=True)
class Grid(Torus):
    """As the torus, but rows and columns end where they end."""

    kind = "grid"
    line = "path"

    @cached_property
    def phases(self) -> tuple[Edges, ...]:
        """One."""
        n, columns = self.agents, self.sides[1]
        across = {(j, j + 1) for j in range(n - 1) if (j + 1) % columns}
        down = {(j, j + columns) for j in range(n - columns)}
        return (both_ways(frozenset(across | down)),)
