"""Define a random digraph whose edges are spread over the rounds of a period."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Annotated

from msgspec import Meta

from mpinodes.core.parts import Edges
from mpinodes.core.seeds import Draws, Purpose
from mpinodes.topology.base import PROBABILITY, Periodic, as_edges, random_digraph, titled

__all__ = ["BConnected"]


@dataclass(frozen=True)
class BConnected(Periodic):
    """Let each edge of a random digraph exist in one random round of the period (after Nedić and Olshevsky 2015).

    The union of any `period` consecutive rounds is strongly connected. A single round usually is not.
    """

    probability: Annotated[float, Meta(ge=0, le=1, description=PROBABILITY)] = 0.5
    period: Annotated[int, Meta(ge=1, le=100_000, description="number of rounds over which the edges are spread")] = 4

    title = titled("random digraph spread over {0.period} rounds, p = {0.probability:g}")

    @cached_property
    def phases(self) -> tuple[Edges, ...]:
        """Return the edges by round of the period."""
        n, rng = self.agents, Draws(self.seed, Purpose.TOPOLOGY).at(0)
        sends = random_digraph(n, self.probability, rng)
        phase = rng.integers(self.period, size=(n, n))
        return tuple(as_edges(sends & (phase == k)) for k in range(self.period))
