"""The squared distance ½‖x − a‖²: the mean of the points a minimizes the sum of the losses; targets are not used."""

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
    """Define the loss ½‖x − a‖² of a sample a. A sample's gradient is x − a, and its Hessian is the identity I.

    Unlike other subclasses of `SmoothLoss`, this loss is not a function of the prediction a·x.
    """

    predicts = False
    convex = True
    sample_modulus = 1.0

    @classmethod
    def sample_sensitivity(cls, norm: float) -> float:
        """Return 2 · `norm`, a bound on the change of a sample's gradient x − a if another sample b replaces a.

        Both samples have at most the norm `norm`.
        """
        return 2 * norm

    @classmethod
    def sample_smoothness(cls, norm: float, other: float) -> float:
        """Return 1, the Lipschitz constant of the gradient x − a in x."""
        return 1.0

    @classmethod
    def largest_gradient(cls, norm: float, radius: float) -> float:
        """Return `norm` + `radius`, a bound on the norm of the gradient x − a for ‖a‖ ≤ `norm` and ‖x‖ ≤ `radius`."""
        return norm + radius

    @classmethod
    def hessian_rank(cls, dimension: int) -> int:
        """Return 1, although the Hessian I of a sample's loss has the rank d.

        The rank only serves to bound how far replacing a sample changes the determinant of a Hessian. All samples have
        the same Hessian, so the determinant does not change.
        """
        return 1

    def value(self, x: Vector) -> float:
        """Compute f(x), the loss of the round's samples plus the regularizer, at a point x (d,)."""
        distances = x - dense(self.features)
        data = float((np.vecdot(distances, distances) / (2 * np.asarray(self.divisor))).sum())
        return data + 0.5 * self.regularizer * float(x @ x)

    def data_grad(self, x: Vector, block: slice = ALL) -> Vector:
        """Compute the clipped gradient of the samples at x, without the gradient λx of the regularizer.

        The result is a new vector with the coordinates `block`.
        """
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
        """Compute the Hessian of the loss without clipping: (Σ 1/divisor + λ) I, an array (d, d).

        The sum is over the samples of the round.
        """
        weight = float((np.ones(len(self.targets)) / self.divisor).sum())
        return np.eye(len(x)) * (weight + self.regularizer)

    @classmethod
    def values(cls, features: Features, targets: Vector, points: Vector) -> Vector:
        """Compute the loss ½‖x − a‖² of each single sample a at many points x.

        The result is an array (groups, points of a group, samples). `SampleLoss.values` describes the arguments.
        """
        if isinstance(features, np.ndarray):
            norms = np.vecdot(features, features)
        else:
            norms = features.multiply(features).sum(axis=1)
        squares = np.vecdot(points, points)[:, :, None] + norms.reshape(targets.shape)[:, None, :]
        return np.asarray(0.5 * squares - predictions(features, points, len(targets)))

    @staticmethod
    def point(prediction: Vector, target: Vector) -> Vector:
        """Raise NotImplementedError, because the loss is not a function of the prediction a·x."""
        raise NotImplementedError

    slope = bend = point

    @staticmethod
    def curvature() -> float:
        """Raise NotImplementedError, because the loss is not a function of the prediction a·x."""
        raise NotImplementedError

    @classmethod
    def slope_bound(cls) -> float:
        """Return inf, because the norm of the gradient x − a has no bound over all x."""
        return inf
