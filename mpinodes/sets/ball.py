"""The L2 ball ‖x‖₂ ≤ radius of the full vector."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from mpinodes.core.messages import Vector
from mpinodes.core.norms import norm, shortened
from mpinodes.core.parts import Cone, Set

__all__ = ["Ball"]


@dataclass(frozen=True)
class Ball(Set):
    """The L2 ball ‖x‖₂ ≤ radius of the full vector."""

    solid = True

    def project(self, x: Vector) -> Vector:
        """Scale x to the sphere if it lies outside the ball."""
        return shortened(x, self.radius)

    def support(self, g: Vector) -> float:
        """Return the support function radius · ‖g‖₂."""
        return self.radius * norm(g)

    def reach(self, d: int) -> float:
        """Return the radius, which bounds ‖x‖₂."""
        return self.radius

    @property
    def inradius(self) -> float:
        """Return the radius of the ball."""
        return self.radius

    def within(self, margin: float) -> Self:
        """Return the ball of radius `radius` − `margin`."""
        return replace(self, radius=self.radius - margin)

    def cones(self, used: NDArray[np.int64]) -> list[Cone]:
        """Return the second-order cone ‖x‖₂ ≤ radius on the coordinates in `used`."""
        return [self.cone(np.arange(len(used)), len(used))]

    def cone(self, places: NDArray[np.int64], d: int) -> Cone:
        """Return the constraint that the coordinates `places`, of d, have an L2 norm of at most the radius."""
        from scipy import sparse  # imported here because agents run without scipy

        rows = sparse.vstack([sparse.csr_array((1, d)), -sparse.eye_array(d, format="csr")[places]])
        return Cone(rows, np.append(self.radius, np.zeros(len(places))), second_order=True)
