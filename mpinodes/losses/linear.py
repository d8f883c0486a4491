"""Losses of a linear prediction: f(x) = Σ_k ℓ(a_k·x, b_k), or the mean over the round's samples, plus (λ/2)‖x‖².

A concrete loss extends `LinearLoss`, `SmoothLoss` or `PiecewiseLinearLoss` and states ℓ and its derivatives. `Around`
and `NoisyGradient` wrap a loss and change its gradient.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from math import inf, sqrt
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mpinodes.core import ALL, Features, Loss, SampleLoss, Solved, Vector
from mpinodes.core.seeds import Draws
from mpinodes.losses.clipping import LONGEST, STEEPEST, clipped_sum, is_ordinary, plain_norms, reclipped
from mpinodes.losses.newton import newton

DOUBLE = np.dtype(np.float64)


class LinearLoss(SampleLoss):
    """A loss in which ℓ depends on the prediction a_k·x and the target b_k alone.

    A subclass states `point`, its derivative `slope` and its largest `curvature`; everything else follows.
    """

    __slots__ = ()

    predicts = True
    strongly_convex_link: ClassVar[bool] = False  # whether ℓ'' is constant, and so bounded below

    @staticmethod
    @abstractmethod
    def point(prediction: Vector, target: Vector) -> Vector:
        """Compute ℓ, elementwise."""

    @staticmethod
    @abstractmethod
    def slope(prediction: Vector, target: Vector) -> Vector:
        """Compute ℓ', the derivative in the prediction, elementwise."""

    @staticmethod
    @abstractmethod
    def curvature() -> float:
        """Return sup ℓ''; inf if ℓ has a kink."""

    @classmethod
    def sample_smoothness(cls, norm: float, other: float) -> float:
        """Return sup ℓ'' times both norms if ℓ is convex, else inf.

        Without convexity ℓ'' may be negative, so that sup ℓ'' bounds nothing.
        """
        return cls.curvature() * norm * other if cls.convex else inf

    @classmethod
    def slope_bound(cls) -> float:
        """Return sup |ℓ'|, read off at m = ±∞, for a convex ℓ of labels ±1; else inf."""
        if not (cls.convex and cls.needs_labels):
            return inf
        ends, labels = np.array([-inf, inf, -inf, inf]), np.array([-1.0, -1.0, 1.0, 1.0])
        largest = float(np.abs(cls.slope(ends, labels)).max())
        return inf if np.isnan(largest) else largest

    def value(self, x: Vector) -> float:
        """Compute f(x), the loss of the round's samples plus the regularizer."""
        data = float((self.point(self.features @ x, self.targets) / self.divisor).sum())
        return data + 0.5 * self.regularizer * float(x @ x) if self.regularizer else data

    def data_grad(self, x: Vector, block: slice = ALL) -> Vector:
        """Compute the coordinates `block` of the samples' part of ∇f(x), clipped, as a new vector."""
        features, clip = self.features, self.clip
        if len(self.targets) == 1 and isinstance(features, np.ndarray) and features.dtype == float:
            # The same numbers as below in a third of the time, which is felt: one sample a round is the usual batch.
            slope, row = self.slope(features.dot(x), self.targets).item(), features[0, block]
            if clip < inf and not self.whole:
                norm = abs(slope) * sqrt(row.dot(row))
                if not (slope * slope < STEEPEST and norm * norm < LONGEST):
                    return clipped_sum(np.array([slope]), row[None], clip, self.divisor)
                slope *= clip / norm if norm > clip else 1.0
            alone: Vector = row * (slope / self.divisor)
            return reclipped(alone, clip) if clip < inf and self.whole else alone
        rows = features if block == ALL else features[:, block]
        slopes = self.slope(features @ x, self.targets)
        if clip < inf and not self.whole:
            norms = np.abs(slopes) * plain_norms(rows)
            if not is_ordinary(slopes, norms):
                return clipped_sum(slopes, rows, clip, self.divisor)
            slopes = slopes * (clip / np.maximum(norms, clip))
        gradient: Vector = (slopes / self.divisor) @ rows
        return reclipped(gradient, clip) if clip < inf and self.whole else gradient

    @classmethod
    def values(cls, features: Features, targets: Vector, points: Vector) -> Vector:
        """Compute ℓ(a_k·x, b_k) for groups of samples and of points, with the shapes of `SampleLoss.values`."""
        return cls.point(predictions(features, points, len(targets)), targets[:, None, :])

    @classmethod
    def predict(cls, features: Features, points: Vector, labels: Vector) -> NDArray[Any]:
        """Predict the label by the sign of a·x; losses with other values use the rule of `SampleLoss`."""
        if cls.per_class or cls.values.__func__ is not LinearLoss.values.__func__:  # type: ignore[attr-defined]
            return super().predict(features, points, labels)
        return np.asarray(features @ points) > 0


class SmoothLoss(LinearLoss):
    """A loss whose ℓ is twice differentiable, so that Newton's method can minimize it."""

    __slots__ = ()
    has_prox = True

    @staticmethod
    @abstractmethod
    def bend(prediction: Vector, target: Vector) -> Vector:
        """Compute ℓ'', the second derivative in the prediction, elementwise."""

    @classmethod
    def hessian_rank(cls, dimension: int) -> int:
        """Return 1 for a class that inherits all derivatives and minimizers: its Hessian is ℓ'' a aᵀ. Else return d."""
        names = ("value", "grad", "data_grad", "prox", "hessian")
        as_here = all(getattr(cls, name) is getattr(SmoothLoss, name) for name in names)
        return 1 if as_here else super().hessian_rank(dimension)

    def hessian(self, x: Vector) -> Vector:
        """Compute the Hessian ∇²f(x) of the unclipped loss: (d, d)."""
        weights = np.sqrt(self.bend(self.features @ x, self.targets) / self.divisor)[:, None]
        if isinstance(self.features, np.ndarray):
            rows = weights * self.features
            second = rows.T @ rows
        else:
            rows = self.features.multiply(weights).tocsr()
            second = (rows.T @ rows).toarray()
        second.flat[:: len(second) + 1] += self.regularizer
        return np.asarray(second)

    def prox(self, v: Vector, step: float, near: Vector, tolerance: float) -> Solved:
        """Minimize f(x) + ‖x − v‖²/(2·step), with the loss unclipped, by Newton's method.

        Args:
            v: (d,) the center.
            step: > 0; inf leaves the second term out.
            near: (d,) the first iterate.
            tolerance: of the gradient's L2 norm; rounding may leave a larger one.

        Returns:
            The last iterate, its gradient norm and the number of steps.
        """
        exact = replace(self, clip=inf)

        # The variable is x − v: for a short step, rounding of x itself would lose it.
        def gradient(shift: Vector) -> Vector:
            return exact.grad(v + shift) + shift / step

        def hessian(shift: Vector) -> Vector:
            second = exact.hessian(v + shift)
            second.flat[:: len(second) + 1] += 1 / step
            return second

        solved = newton(gradient, hessian, near - v, tolerance)
        return solved._replace(x=v + solved.x)


class PiecewiseLinearLoss(LinearLoss):
    """A loss ℓ(m, b) = max s (m − b) over the slopes s of an interval."""

    __slots__ = ()

    @staticmethod
    @abstractmethod
    def slopes(target: Vector) -> tuple[Vector, Vector]:
        """Return the least and the largest slope, elementwise."""

    @staticmethod
    def curvature() -> float:
        """Return inf, because the loss has a kink."""
        return inf


def dense(features: Features) -> Vector:
    """Return features, dense or sparse, as a dense array."""
    return np.asarray(features if isinstance(features, np.ndarray) else features.toarray())


def predictions(features: Features, points: Vector, groups: int) -> Vector:
    """Compute every a_k·x within each group of samples.

    The dense product of a group is the same, to the bit, for any number of groups.

    Args:
        features: (groups k, d), dense or sparse.
        points: (g, p, d), with g = groups or g = 1.
        groups: how many groups of equal size the rows form.

    Returns:
        The predictions: (g, p, k).
    """
    g, p, d = points.shape
    k = features.shape[0] // groups
    if isinstance(features, np.ndarray):
        return points @ features.reshape(groups, k, d).transpose(0, 2, 1)
    if groups == 1:
        return np.ascontiguousarray((features @ points.reshape(-1, d).T).T).reshape(g, p, k)
    # One product with the block-diagonal matrix of all groups.
    group = np.repeat(np.arange(groups) * d, np.diff(features.indptr[::k]))
    diagonal = type(features)(
        (features.data, features.indices + group, features.indptr), shape=(features.shape[0], groups * d)
    )
    products = diagonal @ points.transpose(0, 2, 1).reshape(-1, p)
    return np.ascontiguousarray(products.reshape(groups, k, p).transpose(0, 2, 1))


@dataclass(slots=True, repr=False, eq=False)  # not frozen: made in every round, and a frozen one takes twice as long
class Around(Loss):
    """A loss that wraps another loss and changes its gradient only.

    Attributes:
        loss: the wrapped loss.
    """

    loss: Loss

    def value(self, x: Vector) -> float:
        """Return the value of the wrapped loss."""
        return self.loss.value(x)

    def prox(self, v: Vector, step: float, near: Vector, tolerance: float) -> Solved:
        """Return the minimizer of the wrapped loss, because minimizations neither sample nor clip gradients."""
        return self.loss.prox(v, step, near, tolerance)


@dataclass(slots=True, repr=False, eq=False)
class NoisyGradient(Around):
    """A loss whose gradient carries a stochastic error ξ ~ N(0, variance) in each coordinate.

    The error is added after clipping and does not depend on the data, so that it changes no sensitivity.
    """

    variance: float
    t: int
    noise: Draws

    def grad(self, x: Vector, block: slice = ALL) -> Vector:
        """Return the coordinates `block` of ∇f(x) + ξ."""
        return self._disturbed(self.loss.grad(x, block))

    def data_grad(self, x: Vector, block: slice = ALL) -> Vector:
        """Return the coordinates `block` of the samples' gradient plus ξ."""
        return self._disturbed(self.loss.data_grad(x, block))

    def _disturbed(self, gradient: Vector) -> Vector:
        gradient += sqrt(self.variance) * self.noise.at(self.t).standard_normal(len(gradient))
        return gradient
