"""DPSDA-C: DPSDA on time-varying undirected graphs, by circulation-based mixing.

H. Cheng, X. Liao, H. Li, "Distributed Online Private Learning of Convex Nondecomposable Objectives", Algorithm 1. The
base class `DPSDA` computes

    (12) z_i <- h_i + Σ_j W_ij (h_j − h_i) + n S_i u_i
    (13) y_i <- Π(z_i, α(t))

The symbols are:

- z_i is the dual variable of agent i, and y_i is its estimate of all coordinates.
- h_j is the message of agent j: its dual variable plus noise.
- W is the row-stochastic matrix of mixing weights. The rows sum to 1, so the first two terms of (12) are Σ_j W_ij h_j.
- u_i is the block of the gradient that belongs to agent i. S_i embeds this block in R^d. n is the number of agents.
- α(t) is the step size, and Π(z, α) is the projection of −αz onto the constraint set 𝒳.
"""

from __future__ import annotations

from dataclasses import dataclass

from mpinodes.algorithms.dpsda import DPSDA

__all__ = ["DPSDAC"]


@dataclass(frozen=True)
class DPSDAC(DPSDA):
    """Run private dual averaging (DPSDA) with circulation-based mixing, whose weights are row-stochastic."""

    paper = "Cheng, Liao, Li, Distributed Online Private Learning of Convex Nondecomposable Objectives, Algorithm 1"
    mixings = ("uniform", "metropolis")
    defaults = {"topology": {"name": "seven-agent-digraph", "undirected": True}}
