"""Subgradient rescaling: row-stochastic a_ij = 1/deg_i on a fixed digraph, and r_i <- Σ_j a_ij r_j from r_i(1) = e_i.

[r_i]_i tends to the i-th entry of the left Perron vector of A, by which an agent divides its gradients (Xi, Mai, Xin,
Abed, Khan 2018; in DPSR, Xiong et al. 2020). deg_i counts agent i itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mpinodes.core import Mixing, Neighborhood, Vector

__all__ = ["Rescaling"]


@dataclass(frozen=True)
class Rescaling(Mixing):
    """Every agent says its whole r_j; the state is r_i: (n,)."""

    anytime = True
    fixed = True

    @property
    def width(self) -> int:
        """One scalar for each agent."""
        return self.graph.agents

    def init(self, agent: int) -> Vector:
        """e_i."""
        start = np.zeros(self.graph.agents)
        start[agent] = 1.0
        return start

    def outgoing(self, s: Vector, here: Neighborhood) -> Vector:
        """r_i."""
        return s

    def weights(self, s: Vector, here: Neighborhood, incoming: Sequence[Vector]) -> tuple[Vector, list[float], float]:
        """r_i of the next round, the weights, and the old [r_i]_i as the scale."""
        share = 1 / len(incoming)
        r = share * incoming[0]
        for other in incoming[1:]:
            r += share * other
        return r, [share] * len(incoming), float(s[here.agent])
