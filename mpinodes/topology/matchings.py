"""Define a random matching (agents in pairs) that is drawn anew in every round."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mpinodes.core.parts import Matrix
from mpinodes.topology.base import EachRound

__all__ = ["Matchings"]


@dataclass(frozen=True)
class Matchings(EachRound):
    """Join the agents in random pairs, which are drawn anew in every round, as in gossip algorithms (Boyd et al. 2006).

    If the number of agents is odd, one random agent has no neighbor in the round.
    """

    title = "random matching drawn anew each round"

    def draw(self, rng: np.random.Generator) -> Matrix:
        """Draw the pairs of one round, and return the adjacency matrix (n, n) of the graph."""
        first, second = rng.permutation(self.agents)[: self.agents // 2 * 2].reshape(2, -1)
        sends = np.zeros((self.agents, self.agents), dtype=bool)
        sends[first, second] = sends[second, first] = True
        return sends
