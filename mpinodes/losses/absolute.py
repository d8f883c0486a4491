"""Absolute error, |a·x − b|."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np

from mpinodes.core import Vector
from mpinodes.losses.linear import PiecewiseLinearLoss

__all__ = ["Absolute"]


@dataclass(frozen=True, slots=True)
class Absolute(PiecewiseLinearLoss):
    """ℓ(m, b) = |m − b|; at the kink the subgradient is 0."""

    convex = True

    @staticmethod
    def point(prediction: Vector, target: Vector) -> Vector:
        """ℓ."""
        return np.abs(prediction - target)

    @staticmethod
    def slope(prediction: Vector, target: Vector) -> Vector:
        """Sign(m − b)."""
        return np.sign(prediction - target)

    @classmethod
    def slope_bound(cls) -> float:
        """1."""
        return 1.0

    @staticmethod
    def curvature() -> float:
        """Inf."""
        return inf

    @staticmethod
    def slopes(target: Vector) -> tuple[Vector, Vector]:
        """−1 and 1."""
        one = np.ones_like(target)
        return -one, one
