"""Laplacian weights: W = I − 2/(3 λ_max) L, with λ_max the largest Laplacian eigenvalue over all rounds.

Doubly stochastic on every undirected graph; no weight is negative, for λ_max is at least the largest degree plus 1
where there is an edge (M. Showkatbakhsh, C. Karakus, S. Diggavi, "Differentially Private Consensus-Based Distributed
Optimization", section IV).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from mpinodes.core.protocol import Round, Vector

__all__ = ["Laplacian"]


@dataclass(frozen=True)
class Laplacian:
    """Needs no scalars: λ_max is a public fact of the topology."""

    laplacian_max: float

    width: ClassVar[int] = 0
    undirected: ClassVar[bool] = True

    def init(self, me: int) -> None:
        """No state."""

    def say(self, s: None, round: Round) -> tuple[()]:
        """Nothing."""
        return ()

    def hear(self, s: None, round: Round, said: Sequence[Vector]) -> tuple[None, list[float], float]:
        """The row of agent `round.me`."""
        own = round.senders.index(round.me)
        each = 2 / (3 * self.laplacian_max) if round.inn else 0.0
        row = [each] * len(said)
        row[own] = 1.0 - each * len(round.inn)
        return None, row, 1.0
