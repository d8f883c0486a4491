"""Define the box [−radius, radius]^d."""

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
    """Define the box [−radius, radius]^d: all vectors whose coordinates are between −radius and radius."""

    by_blocks = True
    solid = True

    def project(self, x: Vector) -> Vector:
        """Return the projection of x onto the box: each coordinate is clipped to [−radius, radius]."""
        return np.minimum(np.maximum(x, -self.radius), self.radius)

    def support(self, g: Vector) -> float:
        """Return the support function of the box at g, the largest ⟨g, v⟩ over v in the box: radius · ‖g‖₁."""
        return self.radius * float(np.abs(g).sum())

    def reach(self, d: int) -> float:
        """Return the largest L2 norm of a point of the box: radius · √d."""
        return self.radius * sqrt(d)

    @property
    def inradius(self) -> float:
        """Return the radius of the largest ball around 0 inside the box: `radius`."""
        return self.radius

    def within(self, margin: float) -> Box:
        """Return the box of all points that are at least `margin` away from the boundary of this box."""
        return replace(self, radius=self.radius - margin)

    def cones(self, used: NDArray[np.int64]) -> list[Cone]:
        """Describe the box by linear constraints on the coordinates `used`: x_k ≤ radius and −x_k ≤ radius.

        Returns:
            A list with one `Cone` that has all these constraints, for the solver of the best fixed decision.
        """
        from scipy import sparse  # imported here because agents run without scipy

        d = len(used)
        at = np.arange(2 * d), np.tile(np.arange(d), 2)
        rows = sparse.csr_array((np.repeat([1.0, -1.0], d), at), shape=(2 * d, d))
        return [Cone(rows, np.full(2 * d, self.radius))]
