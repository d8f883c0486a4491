"""All of R^d: no constraint."""

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
    """Define the set R^d, for decisions without constraint."""

    bounded = False
    by_blocks = True
    solid = True
    inradius = inf

    def project(self, x: Vector) -> Vector:
        """Return the point x itself."""
        return x

    def support(self, g: Vector) -> float:
        """Return the support function at g, the largest ⟨g, v⟩ over v in R^d: inf, or 0 if g = 0."""
        return inf if g.any() else 0.0

    def reach(self, d: int) -> float:
        """Return the largest L2 norm of a point: inf, because R^d is unbounded."""
        return inf

    def within(self, margin: float) -> Unconstrained:
        """Return R^d itself, because the ball of any radius around any point is contained in R^d."""
        return self

    def cones(self, used: NDArray[np.int64]) -> list[Cone]:
        """Return an empty list, because there are no constraints."""
        return []
