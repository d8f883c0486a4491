"""Metropolis weights: a_ij = 1/(1 + max(d_i, d_j)), a_ii the rest; d_i = neighbours without i itself.

Doubly stochastic on every undirected graph (Xiao, Boyd, Kim 2007).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mpinodes.core import Mixing, Neighborhood, Vector

__all__ = ["Metropolis"]


@dataclass(frozen=True)
class Metropolis(Mixing):
    """Every agent says its degree."""

    anytime = True
    undirected = True
    under_faults = "rows sum to 1, and columns do not: agents agree, but not on the mean"
    width = 1

    def outgoing(self, s: None, here: Neighborhood) -> tuple[float]:
        """d_i."""
        return (float(len(here.out_neighbors)),)

    def weights(self, s: None, here: Neighborhood, incoming: Sequence[Vector]) -> tuple[None, list[float], float]:
        """The weights of agent `here.agent`."""
        mine = len(here.in_neighbors)
        weights = [1 / (1 + max(mine, scalars.item(0))) for scalars in incoming]
        own = here.senders.index(here.agent)
        weights[own] = 0.0
        weights[own] = 1.0 - sum(weights)
        return None, weights, 1.0
