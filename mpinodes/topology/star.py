"""Define the star graph."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from mpinodes.core.parts import Edges
from mpinodes.topology.base import Periodic, both_ways

__all__ = ["Star"]


@dataclass(frozen=True)
class Star(Periodic):
    """Join agent 0 to all other agents: agent 0 and each other agent send to each other."""

    title = "star"

    @cached_property
    def phases(self) -> tuple[Edges, ...]:
        """Return a tuple with one set of edges, because the graph is the same in every round."""
        return (both_ways(frozenset((0, i) for i in range(1, self.agents))),)
