"""Hinge loss, max(0, 1 − b a·x), for labels b = ±1."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np

from mpinodes.core import Vector
from mpinodes.losses.linear import PiecewiseLinearLoss

__all__ = ["Hinge"]


@dataclass(frozen=True, slots=True)
class Hinge(PiecewiseLinearLoss):
    """ℓ(m, b) = max(0, 1 − b m) = max(0, −b (m − b)), for b² = 1; at the kink the subgradient is 0."""

    needs_labels = True
    convex = True

    @staticmethod
    def point(prediction: Vector, target: Vector) -> Vector:
        """ℓ."""
        short = np.asarray(target * prediction)
        np.subtract(1.0, short, out=short)
        return np.maximum(0.0, short, out=short)

    @staticmethod
    def slope(prediction: Vector, target: Vector) -> Vector:
        """−b where b m < 1, else 0."""
        slope = -target
        slope[~(target * prediction < 1.0)] = 0.0  # half the time of np.where
        return slope

    @staticmethod
    def curvature() -> float:
        """Inf."""
        return inf

    @staticmethod
    def slopes(target: Vector) -> tuple[Vector, Vector]:
        """0 and −b."""
        return np.minimum(-target, 0.0), np.maximum(-target, 0.0)
