"""Define the base classes of losses that depend on a linear prediction a·x of a sample.

The loss of a round is f(x) = Σ_k ℓ(a_k·x, b_k)/divisor + (λ/2)‖x‖². The sum is over the samples (a_k, b_k) of the
round: features a_k and target b_k. With the divisor 1, f contains the sum of the samples' losses. With the divisor
equal to the number of samples, f contains their mean.

- `LinearLoss` is the base class; a loss defines ℓ and its derivative ℓ' in the prediction m = a_k·x.
- `SmoothLoss` is for twice differentiable ℓ; a loss also defines ℓ''.
- `PiecewiseLinearLoss` is for a maximum of lines; a loss also defines the slopes of the lines.
- `Around` is the base class of losses that wrap another loss and change its gradient.
- `NoisyGradient` wraps a loss and adds a random error to its gradient.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
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
    """Define a loss that depends on a sample only through the prediction m = a·x and the target b: ℓ(m, b).

    A subclass defines `point` (ℓ), `slope` (ℓ') and `curvature` (sup ℓ''). From these methods, this class computes
    values, clipped gradients, predictions and bounds on gradients.
    """

    __slots__ = ()

    predicts = True
    strongly_convex_link: ClassVar[bool] = False  # whether ℓ'' is constant, and so bounded below

    @staticmethod
    @abstractmethod
    def point(prediction: Vector, target: Vector) -> Vector:
        """Compute the loss ℓ of predictions and targets, elementwise."""

    @staticmethod
    @abstractmethod
    def slope(prediction: Vector, target: Vector) -> Vector:
        """Compute ℓ', the derivative of the loss in the prediction, elementwise."""

    @staticmethod
    @abstractmethod
    def curvature() -> float:
        """Return sup ℓ'', the largest second derivative in the prediction; inf if ℓ is not differentiable."""

    @classmethod
    def sample_smoothness(cls, norm: float, other: float) -> float:
        """Return an upper bound on the L2 change of a sample's gradient per unit of L2 change of the point x.

        The bound is sup ℓ'' · `norm` · `other`. If the loss ℓ is not convex, ℓ'' may be negative, and the bound is inf.

        Args:
            norm: the largest L2 norm of a sample's features in the coordinates of the gradient.
            other: the largest L2 norm of a sample's features in the coordinates of x that change.
        """
        return cls.curvature() * norm * other if cls.convex else inf

    @classmethod
    def slope_bound(cls) -> float:
        """Return sup |ℓ'|, the largest absolute slope of the loss, if ℓ is convex and has labels ±1; otherwise inf.

        If `slope` returns nan at the predictions +∞ or −∞, the result is inf.
        """
        if not (cls.convex and cls.needs_labels):
            return inf
        # The slope of a convex ℓ is monotone in the prediction, so the largest absolute slope is at +∞ or −∞.
        ends, labels = np.array([-inf, inf, -inf, inf]), np.array([-1.0, -1.0, 1.0, 1.0])
        largest = float(np.abs(cls.slope(ends, labels)).max())
        return inf if np.isnan(largest) else largest

    @property
    def takes_runs(self) -> bool:
        """Return whether this loss has one sample, and `data_grad` is the method of this class."""
        is_here = type(self).grad is LinearLoss.grad and type(self).data_grad is LinearLoss.data_grad
        return is_here and len(self.targets) == 1 and isinstance(self.features, np.ndarray)

    def value(self, x: Vector) -> float:
        """Compute f(x), the loss of the round's samples plus the regularizer, at a point x (d,)."""
        data = float((self.point(self.features @ x, self.targets) / self.divisor).sum())
        return data + 0.5 * self.regularizer * float(x @ x) if self.regularizer else data

    def data_grad(self, x: Vector, block: slice = ALL) -> Vector:
        """Compute the clipped gradient of the samples at x, without the gradient λx of the regularizer.

        The result is a new vector with the coordinates `block`. If x has an axis of independent runs (runs, d), each
        run has one sample: `features` has one row for each run, or one row that all runs share.
        """
        if x.ndim > 1:
            return self._grads_of_runs(x, block)
        features, clip = self.features, self.clip
        if len(self.targets) == 1 and isinstance(features, np.ndarray) and features.dtype == float:
            # This case gives the same numbers as the code below in a third of the time. One sample a round is the usual
            # batch.
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

    def _grads_of_runs(self, x: Vector, block: slice) -> Vector:
        """Compute what `data_grad` computes for one sample, in each of several runs: (runs, coordinates of `block`)."""
        features, clip = np.asarray(self.features), self.clip
        rows = features[:, block]
        # The function vecdot gives the same bits as a scalar product of one pair of vectors.
        slopes = self.slope(np.vecdot(features, x), self.targets)
        norms = np.abs(slopes) * plain_norms(rows)
        if clip < inf and (self.whole or not ((slopes * slopes < STEEPEST) & (norms * norms < LONGEST)).all()):
            samples = [
                replace(self, features=a[None], targets=b[None]) for a, b in zip(features, self.targets, strict=True)
            ]
            samples *= len(x) // len(samples)
            return np.stack([sample.data_grad(point, block) for sample, point in zip(samples, x, strict=True)])
        if clip < inf:
            slopes = slopes * (clip / np.maximum(norms, clip))
        gradients: Vector = rows * (slopes / self.divisor)[:, None]
        return gradients

    @classmethod
    def values(cls, features: Features, targets: Vector, points: Vector) -> Vector:
        """Compute the loss ℓ(a_k·x, b_k) of each single sample at many points x.

        The result is an array (groups, points of a group, samples). `SampleLoss.values` describes the arguments.
        """
        return cls.point(predictions(features, points, len(targets)), targets[:, None, :])

    @classmethod
    def predict(cls, features: Features, points: Vector, labels: Vector) -> NDArray[Any]:
        """Predict a label for each sample at each point x: the label +1 if a·x > 0, otherwise −1.

        The result is an array (samples, points) of indices into `labels`. If a subclass overrides `values`, or if a
        point has one weight vector for each class, the label with the smallest loss is predicted instead
        (`SampleLoss.predict`).
        """
        if cls.per_class or cls.values.__func__ is not LinearLoss.values.__func__:  # type: ignore[attr-defined]
            return super().predict(features, points, labels)
        return np.asarray(features @ points) > 0


class SmoothLoss(LinearLoss):
    """Define a loss ℓ(m, b) that is twice differentiable in the prediction m = a·x, so that Newton's method applies."""

    __slots__ = ()
    has_prox = True

    @staticmethod
    @abstractmethod
    def bend(prediction: Vector, target: Vector) -> Vector:
        """Compute ℓ'', the second derivative of the loss in the prediction, elementwise."""

    @classmethod
    def hessian_rank(cls, dimension: int) -> int:
        """Return 1, the rank of the Hessian ℓ'' a aᵀ of one sample's loss.

        If a subclass overrides `value`, `grad`, `data_grad`, `prox` or `hessian`, the result is the bound `dimension`.
        """
        names = ("value", "grad", "data_grad", "prox", "hessian")
        as_here = all(getattr(cls, name) is getattr(SmoothLoss, name) for name in names)
        return 1 if as_here else super().hessian_rank(dimension)

    def hessian(self, x: Vector) -> Vector:
        """Compute the Hessian ∇²f(x) of the unclipped loss, as an array (d, d)."""
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
        """Minimize f(x) + ‖x − v‖²/(2·step) over x by Newton's method, where f is the loss without clipping.

        Args:
            v: (d,) the center.
            step: a positive number; if inf, f alone is minimized.
            near: (d,) the first iterate.
            tolerance: the L2 norm of the gradient at which the method stops. Rounding may keep the norm above this
                number.

        Returns:
            The last iterate, the L2 norm of its gradient, and the number of steps.
        """
        exact = replace(self, clip=inf)

        # The variable is x − v, because x − v would be lost by rounding of x if `step` is small.
        def gradient(shift: Vector) -> Vector:
            return exact.grad(v + shift) + shift / step

        def hessian(shift: Vector) -> Vector:
            second = exact.hessian(v + shift)
            second.flat[:: len(second) + 1] += 1 / step
            return second

        solved = newton(gradient, hessian, near - v, tolerance)
        return solved._replace(x=v + solved.x)


class PiecewiseLinearLoss(LinearLoss):
    """Define a loss that is a maximum of lines in the prediction m = a·x: ℓ(m, b) = max of s (m − b) over slopes s.

    Here b is the target, and the slopes s form an interval. The method `slopes` returns the two ends of the interval.
    """

    __slots__ = ()

    @staticmethod
    @abstractmethod
    def slopes(target: Vector) -> tuple[Vector, Vector]:
        """Return the ends of the interval of slopes for each target: the smallest slopes and the largest slopes."""

    @staticmethod
    def curvature() -> float:
        """Return inf, because ℓ' jumps where the linear pieces of ℓ meet."""
        return inf


def dense(features: Features) -> Vector:
    """Return dense or sparse features (k, d) as a dense array."""
    return np.asarray(features if isinstance(features, np.ndarray) else features.toarray())


def predictions(features: Features, points: Vector, groups: int) -> Vector:
    """Compute the predictions a_k·x of several groups of samples, each group at its own points x.

    Args:
        features: (groups · k, d) the features a_k of all samples, sorted by group; dense or sparse.
        points: (g, p, d) p points for each of g groups.
        groups: the number of groups of samples, g or 1, each of k samples. If 1, all points get the same samples.

    Returns:
        The predictions, (g, p, k).
    """
    g, p, d = points.shape
    k = features.shape[0] // groups
    if isinstance(features, np.ndarray):
        return points @ features.reshape(groups, k, d).transpose(0, 2, 1)
    if groups == 1:
        return np.ascontiguousarray((features @ points.reshape(-1, d).T).T).reshape(g, p, k)
    # One product with the block-diagonal matrix whose blocks are the features of the groups.
    group = np.repeat(np.arange(groups) * d, np.diff(features.indptr[::k]))
    diagonal = type(features)(
        (features.data, features.indices + group, features.indptr), shape=(features.shape[0], groups * d)
    )
    products = diagonal @ points.transpose(0, 2, 1).reshape(-1, p)
    return np.ascontiguousarray(products.reshape(groups, k, p).transpose(0, 2, 1))


# Not frozen, because a frozen object takes twice as long to make, and one is made in every round.
@dataclass(slots=True, repr=False, eq=False)
class Around(Loss):
    """Define a base class of losses that wrap another loss and change its gradient. Subclasses define the gradient.

    Attributes:
        loss: the wrapped loss.
    """

    loss: Loss

    def value(self, x: Vector) -> float:
        """Return the value of the wrapped loss."""
        return self.loss.value(x)

    def batch(self, draw: Callable[[int], NDArray[np.int64]], rate: float) -> Loss:
        """Return a copy of this wrapper around a batch of the wrapped loss: the samples that `draw` chooses."""
        return replace(self, loss=self.loss.batch(draw, rate))

    def prox(self, v: Vector, step: float, near: Vector, tolerance: float) -> Solved:
        """Return the result of `prox` of the wrapped loss. This wrapper does not change the result."""
        return self.loss.prox(v, step, near, tolerance)


@dataclass(slots=True, repr=False, eq=False)
class NoisyGradient(Around):
    """Add a random error ξ ~ N(0, variance) to each coordinate of the gradient of a wrapped loss.

    The error is added after clipping and does not depend on the data, so the error changes no sensitivity. All
    gradients of one round have the same error ξ.

    Attributes:
        variance: the variance of ξ.
        t: the round of the loss.
        noise: the random generators of ξ, one for each round.
    """

    variance: float
    t: int
    noise: Draws

    def grad(self, x: Vector, block: slice = ALL) -> Vector:
        """Return the coordinates `block` of the wrapped loss's gradient at x, plus the random error ξ of the round."""
        return self._disturbed(self.loss.grad(x, block))

    def data_grad(self, x: Vector, block: slice = ALL) -> Vector:
        """Return the gradient of the samples at x plus the random error ξ of the round, without λx.

        Only the coordinates `block` are computed.
        """
        return self._disturbed(self.loss.data_grad(x, block))

    def _disturbed(self, gradient: Vector) -> Vector:
        gradient += sqrt(self.variance) * self.noise.at(self.t).standard_normal(len(gradient))
        return gradient
