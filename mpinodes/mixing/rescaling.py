"""Subgradient rescaling: row-stochastic a_ij = 1/deg_i on a fixed digraph, and r_i <- Σ_j a_ij r_j from r_i(1) = e_i.

[r_i]_i converges to entry i of the left Perron vector of A. An agent divides its gradients by [r_i]_i (Xi, Mai, Xin,
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
    """Mix by uniform row-stochastic weights. Every agent sends its whole vector r_j; the state is r_i (n,)."""

    anytime = True
    fixed = True

    @property
    def width(self) -> int:
        """Return n: the agent sends one scalar for each agent."""
        return self.graph.agents

    def init(self, agent: int) -> Vector:
        """Return r_i(1) = e_i, a vector (n,)."""
        start = np.zeros(self.graph.agents)
        start[agent] = 1.0
        return start

    def outgoing(self, s: Vector, here: Neighborhood) -> Vector:
        """Return the vector r_i (n,) to send."""
        return s

    def weights(self, s: Vector, here: Neighborhood, incoming: Sequence[Vector]) -> tuple[Vector, list[float], float]:
        """Return r_i of the next round, the weights a_ij (k,), and the old [r_i]_i as the scale."""
        share = 1 / len(incoming)
        r = share * incoming[0]
        for other in incoming[1:]:
            r += share * other
        return r, [share] * len(incoming), float(s[here.agent])
