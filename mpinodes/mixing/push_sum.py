"""Push-sum: column-stochastic weights a_ij = 1/out_j, where out_j counts agent j itself, and w <- A w.

The weights w sum to n in every round; dividing by w_i removes the bias of the columns (Kempe et al. 2003).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from mpinodes.core.protocol import Round, Vector

__all__ = ["PushSum"]


@dataclass(frozen=True)
class PushSum:
    """Every agent says its share 1/out_j and its scalar w_j; the state is w_i."""

    width: ClassVar[int] = 2
    undirected: ClassVar[bool] = False

    def init(self, me: int) -> float:
        """w_i(1) = 1."""
        return 1.0

    def say(self, s: float, round: Round) -> tuple[float, float]:
        """(1/out_j, w_j)."""
        return 1 / (len(round.out) + 1), s

    def hear(self, s: float, round: Round, said: Sequence[Vector]) -> tuple[float, list[float], float]:
        """w_i of the next round, the row, and the same w_i as the scale."""
        pairs = [scalars.tolist() for scalars in said]
        w = sum(share * w_j for share, w_j in pairs)
        return w, [share for share, _ in pairs], w
