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
    """Define the box [−radius, radius]^d."""

    by_blocks = True
    solid = True

    def project(self, x: Vector) -> Vector:
        """Clip each coordinate to [−radius, radius]."""
        return np.minimum(np.maximum(x, -self.radius), self.radius)

    def support(self, g: Vector) -> float:
        """Return the support function at g, the largest ⟨g, v⟩ over v in the box: radius · ‖g‖₁."""
        return self.radius * float(np.abs(g).sum())

    def reach(self, d: int) -> float:
        """Return the largest L2 norm of a point of the box: radius · √d."""
        return self.radius * sqrt(d)

    @property
    def inradius(self) -> float:
        """Return the radius of the largest ball around 0 that lies in the box."""
        return self.radius

    def within(self, margin: float) -> Box:
        """Return the smaller box of all points that are at least `margin` away from the boundary of this box."""
        return replace(self, radius=self.radius - margin)

    def cones(self, used: NDArray[np.int64]) -> list[Cone]:
        """Return the constraints x_k ≤ radius and −x_k ≤ radius for all k in `used`, as a list of one `Cone`."""
        from scipy import sparse  # imported here because agents run without scipy

        identity = sparse.eye_array(len(used), format="csr")
        return [Cone(sparse.vstack([identity, -identity]), np.full(2 * len(used), self.radius))]
