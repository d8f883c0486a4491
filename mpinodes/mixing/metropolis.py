"""Metropolis weights: a_ij = 1/(1 + max(d_i, d_j)) and a_ii = 1 − Σ_j a_ij, where d_i is the degree of agent i.

The weight matrix is doubly stochastic on every undirected graph (Xiao, Boyd, Kim 2007).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mpinodes.core import Mixing, Neighborhood, Vector

__all__ = ["Metropolis"]


@dataclass(frozen=True)
class Metropolis(Mixing):
    """Mix messages by Metropolis weights. Every agent sends its degree, its number of neighbors in the round."""

    anytime = True
    undirected = True
    under_faults = "the rows of the weight matrix sum to 1, but the columns do not: agents agree, but not on the mean"
    width = 1

    def outgoing(self, s: None, here: Neighborhood) -> tuple[float]:
        """Return the scalar that an agent sends with its message: its degree, its number of neighbors in the round."""
        return (float(len(here.out_neighbors)),)

    def share(self, degree: int, other: float) -> float:
        """Return the weight a_ij for two neighbors i and j of degrees `degree` and `other`."""
        return 1 / (1 + max(degree, other))

    def weights(self, s: None, here: Neighborhood, incoming: Sequence[Vector]) -> tuple[None, list[float], float]:
        """Return None (this mixing has no state), the Metropolis weights a_ij of all senders j, and the divisor 1.

        The senders include the agent i itself. The algorithm divides the weighted sum of messages by the divisor.

        Args:
            s: None.
            here: the agent i, and its neighbors in this round.
            incoming: the degree of each sender.
        """
        degree, own = len(here.in_neighbors), here.senders.index(here.agent)
        weights = [0.0 if k == own else self.share(degree, scalars.item(0)) for k, scalars in enumerate(incoming)]
        weights[own] = 1.0 - sum(weights)
        return None, weights, 1.0
