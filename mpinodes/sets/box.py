"""The box [−radius, radius]^d."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from mpinodes.core.messages import Vector
from mpinodes.core.parts import Cone, Set

__all__ = ["Box"]


@dataclass(frozen=True)
class Box(Set):
    """[−radius, radius]^d."""

    by_blocks = True
    solid = True

    def project(self, x: Vector) -> Vector:
        """Clip each coordinate."""
        return np.minimum(np.maximum(x, -self.radius), self.radius)

    def support(self, g: Vector) -> float:
        """Return radius · ‖g‖₁."""
        return self.radius * float(np.abs(g).sum())

    def reach(self, d: int) -> float:
        """Return radius · √d."""
        return self.radius * sqrt(d)

    @property
    def inradius(self) -> float:
        """Return the radius."""
        return self.radius

    def within(self, margin: float) -> Box:
        """Return (1 − margin/radius)𝒳."""
        return replace(self, radius=self.radius - margin)

    def cones(self, used: NDArray[np.int64]) -> list[Cone]:
        """Return both bounds of each coordinate."""
        from scipy import sparse  # which agents do without

        one = sparse.eye_array(len(used), format="csr")
        return [Cone(sparse.vstack([one, -one]), np.full(2 * len(used), self.radius))]
