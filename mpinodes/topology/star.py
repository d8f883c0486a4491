"""Define the star graph."""

from __future__ import annotations

from dataclasses import dataclass

from mpinodes.core.parts import Edges
from mpinodes.topology.base import Fixed, both_ways

__all__ = ["Star"]


@dataclass(frozen=True)
class Star(Fixed):
    """Join agent 0 to all other agents: agent 0 and each other agent send to each other."""

    title = "star"

    def graph(self) -> Edges:
        """Return the edges of every round."""
        return both_ways(frozenset((0, i) for i in range(1, self.agents)))
