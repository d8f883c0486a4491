"""Metropolis weights: a_ij = 1/(1 + max(d_i, d_j)), a_ii the rest; d_i = number of neighbours without i itself.

The weight matrix is doubly stochastic on every undirected graph (Xiao, Boyd, Kim 2007).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mpinodes.core import Mixing, Neighborhood, Vector

__all__ = ["Metropolis"]


@dataclass(frozen=True)
class Metropolis(Mixing):
    """Mix by Metropolis weights. Every agent sends its degree."""

    anytime = True
    undirected = True
    under_faults = "rows sum to 1, but columns do not: agents reach consensus, but not on the mean"
    width = 1

    def outgoing(self, s: None, here: Neighborhood) -> tuple[float]:
        """Return the degree d_i to send."""
        return (float(len(here.out_neighbors)),)

    def share(self, degree: int, other: float) -> float:
        """Return a_ij, given the degrees of agents i and j."""
        return 1 / (1 + max(degree, other))

    def weights(self, s: None, here: Neighborhood, incoming: Sequence[Vector]) -> tuple[None, list[float], float]:
        """Return no state, the weights a_ij (k,), and the scale 1."""
        degree, own = len(here.in_neighbors), here.senders.index(here.agent)
        weights = [0.0 if k == own else self.share(degree, scalars.item(0)) for k, scalars in enumerate(incoming)]
        weights[own] = 1.0 - sum(weights)
        return None, weights, 1.0
