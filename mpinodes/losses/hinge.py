"""The hinge loss max(0, 1 − b a·x) for labels b = ±1."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mpinodes.core import Vector
from mpinodes.losses.linear import PiecewiseLinearLoss

__all__ = ["Hinge"]


@dataclass(frozen=True, slots=True)
class Hinge(PiecewiseLinearLoss):
    """Define the hinge loss ℓ(m, b) = max(0, 1 − b m) of a prediction m = a·x and a label b = ±1.

    At b m = 1 the subgradient is 0. Because b² = 1, the loss equals max(0, −b (m − b)), the maximum of two lines in m.
    """

    needs_labels = True
    convex = True

    @staticmethod
    def point(prediction: Vector, target: Vector) -> Vector:
        """Compute the loss ℓ = max(0, 1 − b m) of prediction m and label b, elementwise."""
        short = np.asarray(target * prediction)
        np.subtract(1.0, short, out=short)
        return np.maximum(0.0, short, out=short)

    @staticmethod
    def slope(prediction: Vector, target: Vector) -> Vector:
        """Compute the subgradient in the prediction m, elementwise: −b if b m < 1, else 0."""
        return np.where(target * prediction < 1.0, -target, 0.0)

    @staticmethod
    def slopes(target: Vector) -> tuple[Vector, Vector]:
        """Return the two slopes of the loss in the prediction m, 0 and −b, for each label b: the smaller one first."""
        return np.minimum(-target, 0.0), np.maximum(-target, 0.0)
