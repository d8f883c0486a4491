"""DPSDA-PS: DPSDA on time-varying digraphs, by push-sum.

H. Cheng, X. Liao, H. Li, "Distributed Online Private Learning of Convex Nondecomposable Objectives", Algorithm 2. The
base class `DPSDA` computes (20) and (22), and the push-sum mixing computes (21):

    (20) z_i <- Σ_j A_ij h_j + n S_i u_i
    (21) w_i <- Σ_j A_ij w_j,  w_i(1) = 1
    (22) y_i <- Π(z_i / w_i, α(t))

The symbols are:

- z_i is the dual variable of agent i, w_i is its push-sum scalar, and y_i is its estimate of all coordinates.
- h_j is the message of agent j: its dual variable plus noise.
- A is the column-stochastic matrix of mixing weights.
- u_i is the block of the gradient that belongs to agent i. S_i embeds this block in R^d. n is the number of agents.
- α(t) is the step size, and Π(z, α) is the projection of −αz onto the constraint set 𝒳.
"""

from __future__ import annotations

from dataclasses import dataclass

from mpinodes.algorithms.dpsda import DPSDA

__all__ = ["DPSDAPS"]


@dataclass(frozen=True)
class DPSDAPS(DPSDA):
    """Run private dual averaging (DPSDA) with push-sum mixing, whose weights are column-stochastic."""

    paper = "Cheng, Liao, Li, Distributed Online Private Learning of Convex Nondecomposable Objectives, Algorithm 2"
    mixings = ("push-sum",)
    defaults = {"topology": {"name": "seven-agent-digraph"}}
