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
    """The loss ℓ(m, b) = (m − b)² of a prediction m = a·x, without the factor ½; ℓ'' = 2."""

    convex: ClassVar[bool] = True
    strongly_convex_link: ClassVar[bool] = True

    @staticmethod
    def point(prediction: Vector, target: Vector) -> Vector:
        """Compute ℓ = (m − b)², elementwise."""
        error = prediction - target
        return error * error

    @staticmethod
    def slope(prediction: Vector, target: Vector) -> Vector:
        """Compute ℓ' = 2(m − b), elementwise."""
        return 2.0 * (prediction - target)

    @staticmethod
    def bend(prediction: Vector, target: Vector) -> Vector:
        """Return ℓ'' = 2 for each prediction."""
        return np.full_like(prediction, 2.0)

    @classmethod
    def condensed(cls, features: Features, targets: Vector) -> tuple[Features, Vector]:
        """Return R of a QR decomposition of (A, b), because ‖Ax − b‖² = ‖R (x, −1)‖²."""
        left = np.asarray(np.linalg.qr(np.column_stack([dense(features), targets]), mode="r"))
        return left[:, :-1].copy(), left[:, -1].copy()

    @staticmethod
    def curvature() -> float:
        """Return 2, the constant value of ℓ''."""
        return 2.0
