"""Uniform row-stochastic weights: a_ij = 1/deg_i, where deg_i counts agent i itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from mpinodes.core.protocol import Round, Vector

__all__ = ["Uniform"]


@dataclass(frozen=True)
class Uniform:
    """Needs no scalars: an agent counts what it hears. Its columns need not sum to 1."""

    width: ClassVar[int] = 0
    undirected: ClassVar[bool] = True

    def init(self, me: int) -> None:
        """No state."""

    def say(self, s: None, round: Round) -> tuple[()]:
        """Nothing."""
        return ()

    def hear(self, s: None, round: Round, said: Sequence[Vector]) -> tuple[None, list[float], float]:
        """The mean of all that was heard."""
        degree = len(said)
        return None, [1 / degree] * degree, 1.0
