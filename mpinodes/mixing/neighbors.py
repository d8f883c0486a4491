"""The mean over the neighbors: a_ij = 1/V_i for each of the V_i neighbors j of agent i, and a_ii = 0."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mpinodes.core import Mixing, Neighborhood, Vector

__all__ = ["Neighbors"]


@dataclass(frozen=True)
class Neighbors(Mixing):
    """Mix by the mean of the neighbors' messages, without the agent's own message. Agents send no scalars.

    If an agent has no neighbors, its only weight is the weight 0 of its own message.
    """

    anytime = True
    undirected = True
    fixed = True

    def weights(self, s: None, here: Neighborhood, incoming: Sequence[Vector]) -> tuple[None, list[float], float]:
        """Return None (this mixing has no state), the weights a_ij of all senders j, and the divisor 1.

        The senders include the agent i itself, with the weight 0. The algorithm divides the weighted sum of messages by
        the divisor.
        """
        return None, [0.0 if j == here.agent else 1 / len(here.in_neighbors) for j in here.senders], 1.0
