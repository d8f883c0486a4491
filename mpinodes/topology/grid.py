"""Define the two-dimensional grid graph."""

from __future__ import annotations

from dataclasses import dataclass

from mpinodes.core.parts import Edges
from mpinodes.topology.base import both_ways
from mpinodes.topology.torus import Torus

__all__ = ["Grid"]


@dataclass(frozen=True)
class Grid(Torus):
    """Join each agent to its neighbors in its row and column of a grid. Unlike a torus, the grid does not wrap around.

    Raises:
        BadInput: the number of agents does not fit the number of rows, as in `Torus`.
    """

    kind = "grid"
    line = "path"

    def graph(self) -> Edges:
        """Return the edges of every round."""
        n, columns = self.agents, self.sides[1]
        across = {(j, j + 1) for j in range(n - 1) if (j + 1) % columns}
        down = {(j, j + columns) for j in range(n - columns)}
        return both_ways(frozenset(across | down))
