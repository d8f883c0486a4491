"""The logistic loss ln(1 + exp(−b a·x)) for labels b = ±1."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mpinodes.core import Vector
from mpinodes.losses.linear import SmoothLoss

__all__ = ["Logistic"]

ROUNDING_UNIT = 2.0**-53


@dataclass(frozen=True, slots=True)
class Logistic(SmoothLoss):
    """Define the logistic loss ℓ(m, b) = ln(1 + exp(−b m)) of a prediction m = a·x and a label b = ±1.

    The derivatives in m are bounded: |ℓ'| ≤ 1 and ℓ'' ≤ 1/4.
    """

    needs_labels = True
    convex = True

    @staticmethod
    def point(prediction: Vector, target: Vector) -> Vector:
        """Compute the loss ℓ = ln(1 + exp(−b m)) of prediction m and label b, elementwise."""
        # With z = b m this is log(1 + e^-|z|) + max(0, -z), computed in place: `logaddexp` takes six times as long.
        margin = np.asarray(target * prediction)
        tail = np.abs(margin)
        np.negative(tail, out=tail)
        np.log1p(np.exp(tail, out=tail), out=tail)
        tail -= np.minimum(margin, 0.0, out=margin)
        return tail

    @staticmethod
    def slope(prediction: Vector, target: Vector) -> Vector:
        """Compute the derivative ℓ' = −b / (1 + exp(b m)) in the prediction m, without overflow."""
        half = 0.5 * target
        return -half * (1.0 - np.tanh(half * prediction))

    @staticmethod
    def bend(prediction: Vector, target: Vector) -> Vector:
        """Compute the second derivative ℓ'' = 1/(4 cosh²(m/2)) in the prediction m, without overflow."""
        tanh = np.tanh(0.5 * prediction)
        return 0.25 * (1.0 - tanh * tanh)

    @classmethod
    def value_rounding(cls, dimension: int, norm: float, radius: float) -> float:
        """Return a bound on the rounding error of the loss ℓ(a·x, b) of a sample, as computed in double precision.

        The bound holds for all features a and points x of length `dimension` with ‖a‖ ≤ `norm` and ‖x‖ ≤ `radius`.
        """
        return (2 * dimension + 20) * ROUNDING_UNIT * (norm * radius + 1)

    @staticmethod
    def curvature() -> float:
        """Return 1/4, the largest value of the second derivative ℓ''."""
        return 0.25
