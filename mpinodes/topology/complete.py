"""Define the complete graph."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from mpinodes.core.parts import Edges
from mpinodes.topology.base import Periodic

__all__ = ["Complete"]


@dataclass(frozen=True)
class Complete(Periodic):
    """Let every agent send to every other agent."""

    title = "complete graph"

    @cached_property
    def phases(self) -> tuple[Edges, ...]:
        """Return a tuple with one set of edges, because the graph is the same in every round."""
        n = range(self.agents)
        return (frozenset((j, i) for j in n for i in n if i != j),)
