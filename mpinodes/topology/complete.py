"""Define the complete graph."""

from __future__ import annotations

from dataclasses import dataclass

from mpinodes.core.parts import Edges
from mpinodes.topology.base import Fixed

__all__ = ["Complete"]


@dataclass(frozen=True)
class Complete(Fixed):
    """Let every agent send to every other agent."""

    title = "complete graph"

    def graph(self) -> Edges:
        """Return the edges of every round."""
        n = range(self.agents)
        return frozenset((j, i) for j in n for i in n if i != j)
