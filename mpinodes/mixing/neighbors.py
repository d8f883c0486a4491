"""The mean of the neighbours: a_ij = 1/V_i for each of the V_i neighbours j, 0 for agent i itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from mpinodes.core.protocol import Round, Vector

__all__ = ["Neighbors"]


@dataclass(frozen=True)
class Neighbors:
    """Needs no scalars."""

    width: ClassVar[int] = 0
    undirected: ClassVar[bool] = True
    fixed: ClassVar[bool] = True

    def init(self, me: int) -> None:
        """No state."""

    def say(self, s: None, round: Round) -> tuple[()]:
        """Nothing."""
        return ()

    def hear(self, s: None, round: Round, said: Sequence[Vector]) -> tuple[None, list[float], float]:
        """Equal weights, save for agent `round.me`."""
        return None, [0.0 if j == round.me else 1 / len(round.inn) for j in round.senders], 1.0
