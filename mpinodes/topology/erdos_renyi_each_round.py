"""Define an Erdős–Rényi graph that is drawn anew in every round."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mpinodes.core.parts import Matrix
from mpinodes.topology.base import EachRound, PositiveProbability, erdos_renyi, titled

__all__ = ["ErdosRenyiEachRound"]


@dataclass(frozen=True)
class ErdosRenyiEachRound(EachRound):
    """Draw an undirected Erdős–Rényi graph G(n, p) anew in every round.

    The graph of a round need not be connected; p is `probability`.
    """

    probability: PositiveProbability = 0.5

    title = titled("Erdős–Rényi graph drawn anew each round, p = {0.probability:g}")

    def draw(self, rng: np.random.Generator) -> Matrix:
        """Draw the graph of one round, and return its adjacency matrix (n, n)."""
        return erdos_renyi(self.agents, self.probability, rng)
