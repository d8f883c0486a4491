"""Uniform weights on a fixed digraph, and scalars by which agents divide their gradients (subgradient rescaling).

The weights are a_ij = 1/deg_i, where deg_i is the number of senders to agent i, including i itself. With these weights
alone, agents would have unequal influence on the result. Therefore each agent also updates a vector

    r_i <- Σ_j a_ij r_j,   which starts at the unit vector e_i,

and divides its gradients by entry i of r_i. On a strongly connected digraph, entry i of r_i converges to entry i of the
left Perron eigenvector of the weight matrix. Source: Xi, Mai, Xin, Abed, Khan 2018; in DPSR, Xiong et al. 2020.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mpinodes.core import Mixing, Neighborhood, Vector

__all__ = ["Rescaling"]


@dataclass(frozen=True)
class Rescaling(Mixing):
    """Mix messages by uniform weights, and estimate the numbers by which agents divide their gradients.

    Every agent j sends a vector r_j (n,) with each message: its estimate of the left Perron eigenvector of the weight
    matrix, which is also the state of the mixing. The agent divides its gradients by entry j of r_j.
    """

    anytime = True
    fixed = True

    @property
    def width(self) -> int:
        """Return the number of scalars that an agent sends with a message: n, the length of its vector r."""
        return self.graph.agents

    def init(self, agent: int) -> Vector:
        """Return the vector r_i (n,) of round 1, which is the unit vector e_i."""
        return np.asarray(np.eye(self.graph.agents)[agent])

    def outgoing(self, s: Vector, here: Neighborhood) -> Vector:
        """Return the scalars that agent i sends with its message: its vector r_i (n,)."""
        return s

    def weights(self, s: Vector, here: Neighborhood, incoming: Sequence[Vector]) -> tuple[Vector, list[float], float]:
        """Return the vector r_i of the next round, the equal weights a_ij of all senders j, and a divisor.

        The algorithm divides the agent's gradient by the divisor, which is entry i of the vector r_i of this round.

        Args:
            s: the vector r_i of this round.
            here: the agent i, and its neighbors in this round.
            incoming: the vectors r_j of all senders, of which the agent i itself is one.
        """
        share = 1 / len(incoming)
        r = share * incoming[0]
        for other in incoming[1:]:
            r += share * other
        return r, [share] * len(incoming), float(s[here.agent])
