"""The absolute error |a·x − b|."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mpinodes.core import Vector
from mpinodes.losses.linear import PiecewiseLinearLoss

__all__ = ["Absolute"]


@dataclass(frozen=True, slots=True)
class Absolute(PiecewiseLinearLoss):
    """Define the loss ℓ(m, b) = |m − b| of a prediction m = a·x and a target b; at m = b the subgradient is 0."""

    convex = True

    @staticmethod
    def point(prediction: Vector, target: Vector) -> Vector:
        """Compute the loss ℓ = |m − b| of prediction m and target b, elementwise."""
        return np.abs(prediction - target)

    @staticmethod
    def slope(prediction: Vector, target: Vector) -> Vector:
        """Compute the subgradient sign(m − b) in the prediction m, elementwise."""
        return np.sign(prediction - target)

    @classmethod
    def slope_bound(cls) -> float:
        """Return 1, the largest absolute slope |ℓ'|."""
        return 1.0

    @staticmethod
    def slopes(target: Vector) -> tuple[Vector, Vector]:
        """Return the slopes of the loss |m − b| in the prediction m, −1 and 1, as two arrays of the targets' shape."""
        ones = np.ones_like(target)
        return -ones, ones
