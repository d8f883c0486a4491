"""Metropolis weights: a_ij = 1/(1 + max(d_i, d_j)), a_ii the rest; d_i = neighbours without i itself.

Doubly stochastic on every undirected graph (Xiao, Boyd, Kim 2007).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from mpinodes.core.protocol import Round, Vector

__all__ = ["Metropolis"]


@dataclass(frozen=True)
class Metropolis:
    """Every agent says its degree."""

    width: ClassVar[int] = 1
    undirected: ClassVar[bool] = True

    def init(self, me: int) -> None:
        """No state."""

    def say(self, s: None, round: Round) -> tuple[float]:
        """d_i."""
        return (float(len(round.out)),)

    def hear(self, s: None, round: Round, said: Sequence[Vector]) -> tuple[None, list[float], float]:
        """The row of agent `round.me`."""
        mine = len(round.inn)
        row = [1 / (1 + max(mine, float(scalars[0]))) for scalars in said]
        own = round.senders.index(round.me)
        row[own] = 0.0
        row[own] = 1.0 - sum(row)
        return None, row, 1.0
