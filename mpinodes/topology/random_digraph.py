"""One random digraph."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Annotated

from msgspec import Meta

from mpinodes.core.parts import Edges
from mpinodes.core.seeds import Draws, Purpose
from mpinodes.topology.base import Periodic, as_edges
from mpinodes.topology.drawn import PROBABILITY, random_digraph

__all__ = ["RandomDigraph"]


@dataclass(frozen=True)
class RandomDigraph(Periodic):
    """One digraph for the whole run: a random directed ring of all agents, and random edges besides."""

    probability: Annotated[float, Meta(ge=0, le=1, description=PROBABILITY)] = 0.5

    @property
    def title(self) -> str:
        """With its p."""
        return f"random digraph, p = {self.probability:g}"

    @cached_property
    def phases(self) -> tuple[Edges, ...]:
        """One."""
        rng = Draws(self.seed, Purpose.TOPOLOGY).at(0)
        return (as_edges(random_digraph(self.agents, self.probability, rng)),)
