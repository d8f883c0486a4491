"""Define the L2 ball: all vectors x with ‖x‖₂ ≤ radius."""

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
    """Define the L2 ball: all vectors x with ‖x‖₂ ≤ radius."""

    solid = True

    def project(self, x: Vector) -> Vector:
        """Return the projection of x onto the ball: x itself, or x scaled to the norm `radius` if x is outside."""
        return shortened(x, self.radius)

    def support(self, g: Vector) -> float:
        """Return the support function of the ball at g, the largest ⟨g, v⟩ over v in the ball: radius · ‖g‖₂."""
        return self.radius * norm(g)

    def reach(self, d: int) -> float:
        """Return the largest L2 norm of a point of the ball: `radius`, for any dimension d."""
        return self.radius

    @property
    def inradius(self) -> float:
        """Return the radius of the largest ball around 0 inside this set: `radius`."""
        return self.radius

    def within(self, margin: float) -> Self:
        """Return the set of all points of this set that are at least `margin` away from its boundary.

        The result has the same class, with the radius `radius` − `margin`.
        """
        return replace(self, radius=self.radius - margin)

    def cones(self, used: NDArray[np.int64]) -> list[Cone]:
        """Describe the ball by a cone constraint: the vector of the coordinates `used` has L2 norm at most `radius`.

        Returns:
            A list with this one constraint, for the solver of the best fixed decision.
        """
        return [self.cone(np.arange(len(used)), len(used))]

    def cone(self, places: NDArray[np.int64], d: int) -> Cone:
        """Return the constraint that the coordinates `places` of a vector (d,) have L2 norm at most `radius`."""
        from scipy import sparse  # imported here because agents run without scipy

        at = np.arange(1, len(places) + 1), places
        rows = sparse.csr_array((np.full(len(places), -1.0), at), shape=(len(places) + 1, d))
        return Cone(rows, np.append(self.radius, np.zeros(len(places))), second_order=True)
