"""DPCDA: differentially private centralized dual averaging, the baseline without a network.

H. Cheng, X. Liao, H. Li, "Distributed Online Private Learning of Convex Nondecomposable Objectives",
section 3.1 ("Discussion"): DPSDA with one agent, who owns every coordinate and hears only itself.

    z <- z + η + g
    y <- Π(z, α(t))
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from mpinodes.algorithms.dpsda import DPSDA
from mpinodes.core.protocol import Inbox, Vector

__all__ = ["DPCDA"]


@dataclass(frozen=True)
class DPCDA(DPSDA):
    """DPSDA with n = 1."""

    mixing: Literal["uniform"] = "uniform"
    # One agent adds u once where DPSDA's n agents add n·u each to its own block: c in proportion.
    defaults: ClassVar = {"topology": {"name": "complete", "agents": 1}, "privacy": {"scale": 0.6}}
    only_agents: ClassVar[int] = 1

    def average(self, inbox: Inbox) -> Vector:
        """Its own release z + η."""
        return inbox.mix()

    def unbias(self, z: Vector, inbox: Inbox) -> Vector:
        """Nothing to correct."""
        return z
