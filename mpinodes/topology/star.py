"""The star."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from mpinodes.core.parts import Edges
from mpinodes.topology.base import Periodic, both_ways

__all__ = ["Star"]


@dataclass(frozen=True)
class Star(Periodic):
    """The star: agent 0 hears all others, and they it alone."""

    title = "star"

    @cached_property
    def phases(self) -> tuple[Edges, ...]:
        """One."""
        return (both_ways(frozenset((0, i) for i in range(1, self.agents))),)
