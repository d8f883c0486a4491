"""The squared error (a·x − b)²."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from mpinodes.core import Features, Vector
from mpinodes.losses.linear import SmoothLoss, dense

__all__ = ["LeastSquares"]


@dataclass(frozen=True, slots=True)
class LeastSquares(SmoothLoss):
    """Define the loss ℓ(m, b) = (m − b)² of a prediction m = a·x and a target b, without the factor ½."""

    convex: ClassVar[bool] = True
    strongly_convex_link: ClassVar[bool] = True

    @staticmethod
    def point(prediction: Vector, target: Vector) -> Vector:
        """Compute the loss ℓ = (m − b)² of prediction m and target b, elementwise."""
        error = prediction - target
        return error * error

    @staticmethod
    def slope(prediction: Vector, target: Vector) -> Vector:
        """Compute the derivative ℓ' = 2(m − b) in the prediction m, elementwise."""
        return 2.0 * (prediction - target)

    @staticmethod
    def bend(prediction: Vector, target: Vector) -> Vector:
        """Return the second derivative ℓ'' = 2 in the prediction, for each prediction."""
        return np.full_like(prediction, 2.0)

    @classmethod
    def condensed(cls, features: Features, targets: Vector) -> tuple[Features, Vector]:
        """Return at most d + 1 samples whose losses have the same sum as the losses of the given samples.

        The sums are equal at every point x, up to rounding. The new samples are the rows of R in the QR decomposition
        of the matrix (A, b) of features and targets, because ‖Ax − b‖² = ‖R (x, −1)‖².
        """
        left = np.asarray(np.linalg.qr(np.column_stack([dense(features), targets]), mode="r"))
        return left[:, :-1].copy(), left[:, -1].copy()

    @staticmethod
    def curvature() -> float:
        """Return 2, the constant value of the second derivative ℓ''."""
        return 2.0
