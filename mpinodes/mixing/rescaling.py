"""Subgradient rescaling: a_ij = 1/deg_i on a fixed digraph, and vectors r_i <- Σ_j a_ij r_j that start at r_i(1) = e_i.

Here deg_i is the number of senders to agent i, including i itself, so the weights of agent i sum to 1. On a strongly
connected digraph the entry [r_i]_i converges to entry i of the left Perron eigenvector of the weight matrix. Agent i
divides its gradients by [r_i]_i, because otherwise agents would have unequal influence (Xi, Mai, Xin, Abed, Khan 2018;
in DPSR, Xiong et al. 2020).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mpinodes.core import Mixing, Neighborhood, Vector

__all__ = ["Rescaling"]


@dataclass(frozen=True)
class Rescaling(Mixing):
    """Mix by uniform weights that sum to 1 over the senders, and estimate the factor by which gradients are divided.

    Every agent j also sends a vector r_j (n,), its estimate of the left Perron eigenvector of the weight matrix. The
    state of agent i is r_i. Agent i divides its gradients by the entry [r_i]_i.
    """

    anytime = True
    fixed = True

    @property
    def width(self) -> int:
        """Return n, because an agent sends a vector r with one scalar for each agent."""
        return self.graph.agents

    def init(self, agent: int) -> Vector:
        """Return the vector r_i (n,) of round 1, which is the unit vector e_i."""
        start = np.zeros(self.graph.agents)
        start[agent] = 1.0
        return start

    def outgoing(self, s: Vector, here: Neighborhood) -> Vector:
        """Return the scalars to send with the release: the agent's vector r_i (n,)."""
        return s

    def weights(self, s: Vector, here: Neighborhood, incoming: Sequence[Vector]) -> tuple[Vector, list[float], float]:
        """Return the vector r_i of the next round, the weights a_ij of the senders j, and the scale.

        The scale is the entry [r_i]_i of the vector r_i of this round. The algorithm divides its gradient by the scale.
        """
        share = 1 / len(incoming)
        r = share * incoming[0]
        for other in incoming[1:]:
            r += share * other
        return r, [share] * len(incoming), float(s[here.agent])
