"""Uniform weights: a_ij = 1/deg_i, where deg_i is the number of senders to agent i, including i itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mpinodes.core import Mixing, Neighborhood, Vector

__all__ = ["Uniform"]


@dataclass(frozen=True)
class Uniform(Mixing):
    """Mix by the mean of the received messages and the agent's own message. Agents send no scalars.

    The weights of each agent sum to 1, but the columns of the weight matrix need not sum to 1.
    """

    undirected = True
    under_faults = "the rows of the weight matrix sum to 1, but the columns do not: agents agree, but not on the mean"

    def weights(self, s: None, here: Neighborhood, incoming: Sequence[Vector]) -> tuple[None, list[float], float]:
        """Return None (this mixing has no state), the equal weights 1/k of the k senders, and the divisor 1.

        The senders include the agent itself. The algorithm divides the weighted sum of messages by the divisor.
        """
        degree = len(incoming)
        return None, [1 / degree] * degree, 1.0
