"""Subgradient rescaling: row-stochastic a_ij = 1/deg_i on a fixed digraph, and r_i <- Σ_j a_ij r_j from r_i(1) = e_i.

[r_i]_i tends to the i-th entry of the left Perron vector of A, by which an agent divides its gradients (Xi, Mai, Xin,
Abed, Khan 2018; in DPSR, Xiong et al. 2020). deg_i counts agent i itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from mpinodes.core.protocol import Round, Vector

__all__ = ["Rescaling"]


@dataclass(frozen=True)
class Rescaling:
    """Every agent says its whole r_j; the state is r_i: (n,)."""

    agents: int

    undirected: ClassVar[bool] = False
    fixed: ClassVar[bool] = True

    @property
    def width(self) -> int:
        """One scalar for each agent."""
        return self.agents

    def init(self, me: int) -> Vector:
        """e_i."""
        start = np.zeros(self.agents)
        start[me] = 1.0
        return start

    def say(self, s: Vector, round: Round) -> Vector:
        """r_i."""
        return s

    def hear(self, s: Vector, round: Round, said: Sequence[Vector]) -> tuple[Vector, list[float], float]:
        """r_i of the next round, the row, and the old [r_i]_i as the scale."""
        share = 1 / len(said)
        r = share * said[0]
        for other in said[1:]:
            r += share * other
        return r, [share] * len(said), float(s[round.me])
