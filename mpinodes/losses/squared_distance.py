"""Squared distance, ½‖x − a‖²: its minimizer is the mean of the points a; targets are not used."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np

from mpinodes.core import ALL, Features, Vector
from mpinodes.losses.clipping import clipped_sum, is_ordinary, plain_norms, reclipped
from mpinodes.losses.linear import SmoothLoss, dense, predictions

__all__ = ["SquaredDistance"]


@dataclass(frozen=True, slots=True)
class SquaredDistance(SmoothLoss):
    """As if of a linear prediction in all but this: a sample's gradient is x − a, its Hessian I."""

    predicts = False
    convex = True
    sample_modulus = 1.0

    @classmethod
    def sample_sensitivity(cls, norm: float) -> float:
        """‖a − a'‖."""
        return 2 * norm

    @classmethod
    def sample_smoothness(cls, norm: float, other: float) -> float:
        """1."""
        return 1.0

    @classmethod
    def largest_gradient(cls, norm: float, radius: float) -> float:
        """‖x − a‖."""
        return norm + radius

    @classmethod
    def hessian_rank(cls, dimension: int) -> int:
        """Return 1: the Hessian is I whatever the sample, so that another sample changes no determinant."""
        return 1

    @property
    def weight(self) -> float:
        """Σ over samples of 1/divisor."""
        return float((np.ones(len(self.targets)) / self.divisor).sum())

    def value(self, x: Vector) -> float:
        """f(x)."""
        distances = x - dense(self.features)
        data = float((np.vecdot(distances, distances) / (2 * np.asarray(self.divisor))).sum())
        return data + 0.5 * self.regularizer * float(x @ x)

    def data_grad(self, x: Vector, block: slice = ALL) -> Vector:
        """See `LinearLoss.data_grad`."""
        distances = (x - dense(self.features))[:, block]
        weights = np.ones(len(distances)) / self.divisor
        if self.clip < inf and not self.whole:
            norms = plain_norms(distances)
            if not is_ordinary(norms, norms):
                return clipped_sum(np.ones(len(distances)), distances, self.clip, self.divisor)
            weights = weights * (self.clip / np.maximum(norms, self.clip))
        gradient: Vector = weights @ distances
        return reclipped(gradient, self.clip) if self.clip < inf and self.whole else gradient

    def hessian(self, x: Vector) -> Vector:
        """(Σ 1/divisor + λ) I."""
        return np.eye(len(x)) * (self.weight + self.regularizer)

    @classmethod
    def values(cls, features: Features, targets: Vector, points: Vector) -> Vector:
        """See `SampleLoss.values`."""
        if isinstance(features, np.ndarray):
            norms = np.vecdot(features, features)
        else:
            norms = features.multiply(features).sum(axis=1)
        squares = np.vecdot(points, points)[:, :, None] + norms.reshape(targets.shape)[:, None, :]
        return np.asarray(0.5 * squares - predictions(features, points, len(targets)))

    @staticmethod
    def point(prediction: Vector, target: Vector) -> Vector:
        """None: it is no function of a·x."""
        raise NotImplementedError

    slope = bend = point

    @staticmethod
    def curvature() -> float:
        """None, likewise."""
        raise NotImplementedError

    @classmethod
    def slope_bound(cls) -> float:
        """Inf."""
        return inf
