"""Logistic loss, ln(1 + exp(−b a·x)), for labels b = ±1."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mpinodes.core import Vector
from mpinodes.losses.linear import SmoothLoss

__all__ = ["Logistic"]

ROUNDING_UNIT = 2.0**-53


@dataclass(frozen=True, slots=True)
class Logistic(SmoothLoss):
    """ℓ(m, b) = ln(1 + exp(−b m)); |ℓ'| ≤ 1, ℓ'' ≤ 1/4."""

    needs_labels = True
    convex = True

    @staticmethod
    def point(prediction: Vector, target: Vector) -> Vector:
        """ℓ."""
        # As log(1 + e^-|m|) + max(0, -m), in place: `logaddexp` takes six times as long.
        margin = np.asarray(target * prediction)
        tail = np.abs(margin)
        np.negative(tail, out=tail)
        np.log1p(np.exp(tail, out=tail), out=tail)
        tail -= np.minimum(margin, 0.0, out=margin)
        return tail

    @staticmethod
    def slope(prediction: Vector, target: Vector) -> Vector:
        """−b / (1 + exp(b m)), written with tanh so that no exponential overflows."""
        half = 0.5 * target
        return -half * (1.0 - np.tanh(half * prediction))

    @staticmethod
    def bend(prediction: Vector, target: Vector) -> Vector:
        """1/(4 cosh²(m/2)), written with tanh."""
        tanh = np.tanh(0.5 * prediction)
        return 0.25 * (1.0 - tanh * tanh)

    @classmethod
    def value_rounding(cls, dimension: int, norm: float, radius: float) -> float:
        """Bound the rounding of a·x, of d products, and of ℓ, whose slope is at most 1."""
        return (2 * dimension + 20) * ROUNDING_UNIT * (norm * radius + 1)

    @staticmethod
    def curvature() -> float:
        """1/4."""
        return 0.25
