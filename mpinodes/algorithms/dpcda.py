"""DPCDA: differentially private centralized dual averaging, the baseline without a network.

H. Cheng, X. Liao, H. Li, "Distributed Online Private Learning of Convex Nondecomposable Objectives", section 3.1
("Discussion"). DPCDA is DPSDA with one agent, which owns all coordinates and receives only its own message:

    z <- z + η + g
    y <- Π(z, α(t))

The symbols are:

- z is the dual variable, and y is the decision.
- η is noise, and g is the gradient, by default at y (see `gradient_at` in the module `dpsda`).
- α(t) is the step size, and Π(z, α) is the projection of −αz onto the constraint set 𝒳.
"""

from __future__ import annotations

from dataclasses import dataclass

from mpinodes.algorithms.dpsda import DPSDA

__all__ = ["DPCDA"]


@dataclass(frozen=True)
class DPCDA(DPSDA):
    """Run differentially private dual averaging (DPSDA) with a single agent."""

    paper = "Cheng, Liao, Li, Distributed Online Private Learning of Convex Nondecomposable Objectives, section 3.1"
    mixings = ("uniform",)
    # Each of DPSDA's n agents adds n·u to its block, where u is the block's gradient. One agent adds only u, so the
    # constant c of `privacy.scale` is smaller in proportion.
    defaults = {"topology": {"name": "complete", "agents": 1}, "privacy": {"scale": 0.6}}
    probes = {"": {}}
    only_agents = 1
    bears_loss = False  # one agent has no links
    bears_delay = False
