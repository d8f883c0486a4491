"""Lazy Metropolis weights: a_ij = 1/(2 max(d_i, d_j)), a_ii the rest; d_i = number of neighbours without i itself.

The weight matrix is doubly stochastic and positive definite on every undirected graph. On fixed graphs it mixes in a
time quadratic in n (Olshevsky 2017).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mpinodes.core import Neighborhood, Vector
from mpinodes.mixing.metropolis import Metropolis

__all__ = ["LazyMetropolis"]


@dataclass(frozen=True)
class LazyMetropolis(Metropolis):
    """Mix by lazy Metropolis weights. Every agent sends its degree, as with Metropolis weights."""

    def weights(self, s: None, here: Neighborhood, incoming: Sequence[Vector]) -> tuple[None, list[float], float]:
        """Return no state, the lazy Metropolis weights a_ij (k,), and the scale 1."""
        mine, own = len(here.in_neighbors), here.senders.index(here.agent)
        weights = [0.0 if k == own else 0.5 / max(mine, scalars.item(0)) for k, scalars in enumerate(incoming)]
        weights[own] = 1.0 - sum(weights)
        return None, weights, 1.0
