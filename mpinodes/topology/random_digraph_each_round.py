"""Define a random digraph that is drawn anew in every round."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mpinodes.core.parts import Matrix
from mpinodes.topology.base import EachRound, Probability, random_digraph, titled

__all__ = ["RandomDigraphEachRound"]


@dataclass(frozen=True)
class RandomDigraphEachRound(EachRound):
    """Draw a digraph in every round: a directed ring of all agents in random order, and further random edges.

    Each edge outside the ring is in the graph with the probability `probability`.
    """

    probability: Probability = 0.5

    title = titled("random digraph drawn anew each round, p = {0.probability:g}")

    def draw(self, rng: np.random.Generator) -> Matrix:
        """Draw the graph of one round, and return its adjacency matrix (n, n)."""
        return random_digraph(self.agents, self.probability, rng)
