"""Laplacian weights: W = I − 2/(3 λ_max) L, where L is the Laplacian matrix of the graph in the round.

λ_max is the largest eigenvalue of the Laplacians of all rounds or, if the graph never repeats, its upper bound n. The
weight matrix W is doubly stochastic on every undirected graph. No weight is negative, because λ_max is at least the
largest degree plus 1 if the graph has an edge. Source: M. Showkatbakhsh, C. Karakus, S. Diggavi, "Differentially
Private Consensus-Based Distributed Optimization", section IV.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mpinodes.core import Mixing, Neighborhood, Vector

__all__ = ["Laplacian"]


@dataclass(frozen=True)
class Laplacian(Mixing):
    """Mix messages by Laplacian weights. Agents send no scalars, because the weights follow from the public graph."""

    undirected = True
    under_faults = "the rows of the weight matrix sum to 1, but the columns do not: agents agree, but not on the mean"

    def weights(self, s: None, here: Neighborhood, incoming: Sequence[Vector]) -> tuple[None, list[float], float]:
        """Return None (this mixing has no state), the Laplacian weights a_ij of all senders j, and the divisor 1.

        The senders include the agent i itself. The algorithm divides the weighted sum of messages by the divisor.
        """
        own = here.senders.index(here.agent)
        weight = 2 / (3 * self.graph.laplacian_max) if here.in_neighbors else 0.0
        weights = [weight] * len(incoming)
        weights[own] = 1.0 - weight * len(here.in_neighbors)
        return None, weights, 1.0
