"""Lazy Metropolis weights: a_ij = 1/(2 max(d_i, d_j)), a_ii the rest; d_i = number of neighbours without i itself.

The weight matrix is doubly stochastic and positive definite on every undirected graph. On fixed graphs it mixes in a
time quadratic in n (Olshevsky 2017).
"""

from __future__ import annotations

from dataclasses import dataclass

from mpinodes.mixing.metropolis import Metropolis

__all__ = ["LazyMetropolis"]


@dataclass(frozen=True)
class LazyMetropolis(Metropolis):
    """Mix by lazy Metropolis weights. Every agent sends its degree, as with Metropolis weights."""

    def share(self, degree: int, other: float) -> float:
        """Return a_ij, given the degrees of agents i and j."""
        return 0.5 / max(degree, other)
