"""Push-sum: column-stochastic weights a_ij = 1/out_j, and push-sum scalars w_i <- Σ_j a_ij w_j.

Here out_j is the number of receivers of agent j, including j itself. The w_i, with the shares of late messages that are
under way, sum to n after every round. The weights of agent i need not sum to 1. Dividing the mix by the new w_i
corrects for this (Kempe et al. 2003).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mpinodes.core import Mixing, Neighborhood, Vector

__all__ = ["PushSum"]


@dataclass(frozen=True)
class PushSum(Mixing):
    """Mix by push-sum. Every agent j sends two scalars, 1/out_j and w_j; the state of agent i is w_i.

    Here out_j is the number of receivers of agent j, including j itself, and w_j is the push-sum scalar of agent j.
    """

    anytime = True
    under_faults = "the columns of the weight matrix sum to 1 if delayed messages are counted: agents agree on the mean"
    hears = "each"
    width = 2

    def init(self, agent: int) -> float:
        """Return 1, the push-sum scalar w_i of round 1."""
        return 1.0

    def outgoing(self, s: float, here: Neighborhood) -> tuple[float, float]:
        """Return the two scalars that agent j sends with its release: 1/out_j and w_j."""
        return 1 / (len(here.out_neighbors) + 1), s

    def weights(self, s: float, here: Neighborhood, incoming: Sequence[Vector]) -> tuple[float, list[float], float]:
        """Return the push-sum scalar w_i of the next round, the weights a_ij of the senders j, and the scale.

        The scale equals the new w_i. The algorithm divides the mixed vector by the scale.
        """
        w, shares = 0.0, []
        for scalars in incoming:
            share, w_j = scalars.tolist()
            shares.append(share)
            w += share * w_j
        return w, shares, w
