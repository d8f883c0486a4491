"""All of R^d."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np
from numpy.typing import NDArray

from mpinodes.core.messages import Vector
from mpinodes.core.parts import Cone, Set

__all__ = ["Unconstrained"]


@dataclass(frozen=True)
class Unconstrained(Set):
    """All of R^d."""

    bounded = False
    by_blocks = True
    solid = True
    inradius = inf

    def project(self, x: Vector) -> Vector:
        """Return the point itself."""
        return x

    def support(self, g: Vector) -> float:
        """Return inf, but 0 for g = 0."""
        return inf if g.any() else 0.0

    def reach(self, d: int) -> float:
        """Return inf."""
        return inf

    def within(self, margin: float) -> Unconstrained:
        """Return R^d."""
        return self

    def cones(self, used: NDArray[np.int64]) -> list[Cone]:
        """Return no constraint."""
        return []
