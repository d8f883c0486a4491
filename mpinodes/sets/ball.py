"""The ball ‖x‖₂ ≤ radius, of the full vector."""

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
    """‖x‖₂ ≤ radius, of the full vector."""

    solid = True

    def project(self, x: Vector) -> Vector:
        """Scale x back to the sphere if it lies outside."""
        return shortened(x, self.radius)

    def support(self, g: Vector) -> float:
        """Return radius · ‖g‖₂."""
        return self.radius * norm(g)

    def reach(self, d: int) -> float:
        """Return the radius."""
        return self.radius

    @property
    def inradius(self) -> float:
        """Return the radius."""
        return self.radius

    def within(self, margin: float) -> Self:
        """Return (1 − margin/radius)𝒳."""
        return replace(self, radius=self.radius - margin)

    def cones(self, used: NDArray[np.int64]) -> list[Cone]:
        """Return the bound on the norm."""
        return [self.cone(np.arange(len(used)), len(used))]

    def cone(self, places: NDArray[np.int64], d: int) -> Cone:
        """Return the constraint that some of d coordinates have a norm of at most the radius."""
        from scipy import sparse  # which agents do without

        rows = sparse.vstack([sparse.csr_array((1, d)), -sparse.eye_array(d, format="csr")[places]])
        return Cone(rows, np.append(self.radius, np.zeros(len(places))), second_order=True)
