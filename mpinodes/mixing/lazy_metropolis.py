"""Lazy Metropolis weights: a_ij = 1/(2 max(d_i, d_j)), a_ii the rest; d_i = neighbours without i itself.

Doubly stochastic on every undirected graph, and positive definite; mixes fixed graphs in a time quadratic in n
(Olshevsky 2017).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from mpinodes.core.protocol import Round, Vector

__all__ = ["LazyMetropolis"]


@dataclass(frozen=True)
class LazyMetropolis:
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
        mine, own = len(round.inn), round.senders.index(round.me)
        row = [0.0 if k == own else 0.5 / max(mine, float(scalars[0])) for k, scalars in enumerate(said)]
        row[own] = 1.0 - sum(row)
        return None, row, 1.0
