"""DPCDA: differentially private centralized dual averaging, the baseline without a network.

H. Cheng, X. Liao, H. Li, "Distributed Online Private Learning of Convex Nondecomposable Objectives",
section 3.1 ("Discussion"): DPSDA with one agent, who owns every coordinate and hears only itself.

    z <- z + η + g
    y <- Π(z, α(t))
"""

from __future__ import annotations

from dataclasses import dataclass

from mpinodes.algorithms.dpsda import DPSDA
from mpinodes.core import Inbox, Vector

__all__ = ["DPCDA"]


@dataclass(frozen=True)
class DPCDA(DPSDA):
    """DPSDA with n = 1."""

    paper = "Cheng, Liao, Li, Distributed Online Private Learning of Convex Nondecomposable Objectives, section 3.1"
    mixings = ("uniform",)
    # One agent adds u once where DPSDA's n agents add n·u each to its own block: c in proportion.
    defaults = {"topology": {"name": "complete", "agents": 1}, "privacy": {"scale": 0.6}}
    only_agents = 1
    bears_loss = False  # it has no links
    bears_delay = False

    def average(self, inbox: Inbox) -> Vector:
        """Its own release z + η."""
        return inbox.mix()

    def unbias(self, z: Vector, inbox: Inbox) -> Vector:
        """Nothing to correct."""
        return z
