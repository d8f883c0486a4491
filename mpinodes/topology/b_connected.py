"""Define a random digraph whose edges are divided at random among the rounds of a period."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Annotated

from msgspec import Meta

from mpinodes.core.parts import Edges
from mpinodes.topology.base import Periodic, Probability, as_edges, random_digraph, titled

__all__ = ["BConnected"]


@dataclass(frozen=True)
class BConnected(Periodic):
    """Draw a random digraph, and let each of its edges exist in one random round of the period.

    The union of the graphs of any `period` consecutive rounds is strongly connected. If `period` is above 1, the graph
    of a single round usually is not. The model is from Nedić and Olshevsky (2015).

    Attributes:
        period: number of rounds among which the edges are divided
    """

    probability: Probability = 0.5
    period: Annotated[int, Meta(ge=1, le=100_000)] = 4

    title = titled("random digraph spread over {0.period} rounds, p = {0.probability:g}")

    @cached_property
    def phases(self) -> tuple[Edges, ...]:
        """Return the edges of each round of the period."""
        n, rng = self.agents, self.random_numbers.at(0)
        sends = random_digraph(n, self.probability, rng)
        phase = rng.integers(self.period, size=(n, n))
        return tuple(as_edges(sends & (phase == k)) for k in range(self.period))
