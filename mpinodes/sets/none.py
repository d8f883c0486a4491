"""Define R^d as the set of decisions: there is no constraint."""

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
    """Define R^d as the set of decisions: there is no constraint."""

    bounded = False
    by_blocks = True
    solid = True
    inradius = inf

    def project(self, x: Vector) -> Vector:
        """Return x itself, because x is in the set."""
        return x

    def support(self, g: Vector) -> float:
        """Return the support function of R^d at g, the largest ⟨g, v⟩ over v in R^d: inf, or 0 if g = 0."""
        return inf if g.any() else 0.0

    def reach(self, d: int) -> float:
        """Return the largest L2 norm of a point: inf, because R^d is unbounded."""
        return inf

    def within(self, margin: float) -> Unconstrained:
        """Return R^d itself, because R^d has no boundary."""
        return self

    def cones(self, used: NDArray[np.int64]) -> list[Cone]:
        """Return an empty list, because there are no constraints."""
        return []
