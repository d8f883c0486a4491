"""Define the path graph."""

from __future__ import annotations

from dataclasses import dataclass

from mpinodes.core.parts import Edges
from mpinodes.topology.base import Fixed, both_ways

__all__ = ["Path"]


@dataclass(frozen=True)
class Path(Fixed):
    """Join the agents in a line: agent i and agent i + 1 send to each other, 0 - 1 - ... - (n − 1)."""

    title = "path"

    def graph(self) -> Edges:
        """Return the edges of every round."""
        return both_ways(frozenset((i - 1, i) for i in range(1, self.agents)))
