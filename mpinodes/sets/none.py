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
    """All of R^d: no constraint."""

    bounded = False
    by_blocks = True
    solid = True
    inradius = inf

    def project(self, x: Vector) -> Vector:
        """Return the point x itself."""
        return x

    def support(self, g: Vector) -> float:
        """Return inf, or 0 for g = 0."""
        return inf if g.any() else 0.0

    def reach(self, d: int) -> float:
        """Return inf, since R^d is unbounded."""
        return inf

    def within(self, margin: float) -> Unconstrained:
        """Return R^d itself for every margin."""
        return self

    def cones(self, used: NDArray[np.int64]) -> list[Cone]:
        """Return an empty list of constraints."""
        return []
