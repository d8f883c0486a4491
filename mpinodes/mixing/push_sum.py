"""Push-sum: column-stochastic weights a_ij = 1/out_j, where out_j counts agent j itself, and w <- A w.

The entries of w sum to n in every round. Division by w_i removes the bias of the weights, whose rows need not sum to 1
(Kempe et al. 2003).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mpinodes.core import Mixing, Neighborhood, Vector

__all__ = ["PushSum"]


@dataclass(frozen=True)
class PushSum(Mixing):
    """Mix by push-sum. Every agent sends its share 1/out_j and its scalar w_j; the state is w_i."""

    anytime = True
    under_faults = "columns sum to 1 if delayed messages are counted: no mass is lost, and agents agree on the mean"
    hears = "each"
    width = 2

    def init(self, agent: int) -> float:
        """Return w_i(1) = 1."""
        return 1.0

    def outgoing(self, s: float, here: Neighborhood) -> tuple[float, float]:
        """Return the scalars (1/out_j, w_j) to send."""
        return 1 / (len(here.out_neighbors) + 1), s

    def weights(self, s: float, here: Neighborhood, incoming: Sequence[Vector]) -> tuple[float, list[float], float]:
        """Return w_i of the next round, the weights a_ij (k,), and the same w_i as the scale."""
        w, shares = 0.0, []
        for scalars in incoming:
            share, w_j = scalars.tolist()
            shares.append(share)
            w += share * w_j
        return w, shares, w
