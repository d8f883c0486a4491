"""Define the path graph."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from mpinodes.core.parts import Edges
from mpinodes.topology.base import Periodic, both_ways

__all__ = ["Path"]


@dataclass(frozen=True)
class Path(Periodic):
    """Join the agents in a line: agent i and agent i + 1 send to each other, 0 - 1 - ... - (n − 1)."""

    title = "path"

    @cached_property
    def phases(self) -> tuple[Edges, ...]:
        """Return a tuple with one set of edges, because the graph is the same in every round."""
        return (both_ways(frozenset((i - 1, i) for i in range(1, self.agents))),)
