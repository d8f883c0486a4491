"""A random digraph drawn anew in every round."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from msgspec import Meta

from mpinodes.core.parts import Matrix
from mpinodes.topology.base import EachRound
from mpinodes.topology.drawn import PROBABILITY, random_digraph

__all__ = ["RandomDigraphEachRound"]


@dataclass(frozen=True)
class RandomDigraphEachRound(EachRound):
    """In every round a new random directed ring of all agents, and random edges besides."""

    probability: Annotated[float, Meta(ge=0, le=1, description=PROBABILITY)] = 0.5

    @property
    def title(self) -> str:
        """With its p."""
        return f"random digraph drawn anew each round, p = {self.probability:g}"

    def draw(self, rng: np.random.Generator) -> Matrix:
        """The ring, and the edges besides."""
        return random_digraph(self.agents, self.probability, rng)
