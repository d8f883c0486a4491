"""Lazy Metropolis weights: a_ij = 1/(2 max(d_i, d_j)) and a_ii = 1 − Σ_j a_ij, where d_i is the degree of agent i.

The weight matrix is doubly stochastic and positive semidefinite on every undirected graph. On fixed connected graphs
the number of rounds for consensus grows at most quadratically in n (Olshevsky 2017).
"""

from __future__ import annotations

from dataclasses import dataclass

from mpinodes.mixing.metropolis import Metropolis

__all__ = ["LazyMetropolis"]


@dataclass(frozen=True)
class LazyMetropolis(Metropolis):
    """Mix messages by lazy Metropolis weights. Every agent sends its degree, its number of neighbors in the round."""

    def share(self, degree: int, other: float) -> float:
        """Return the weight a_ij for two neighbors i and j of degrees `degree` and `other`."""
        return 0.5 / max(degree, other)
