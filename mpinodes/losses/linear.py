"""Losses of a linear prediction: f(x) = Σ_k ℓ(a_k·x, b_k), or the mean over the round's samples, plus (λ/2)‖x‖²."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from math import inf, sqrt
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mpinodes.core import ALL, Features, Loss, SampleLoss, Solved, Vector
from mpinodes.core.seeds import Draws
from mpinodes.losses.clipping import clipped_sum, is_ordinary, plain_norms, reclipped
from mpinodes.losses.newton import newton

DOUBLE = np.dtype(np.float64)


class LinearLoss(SampleLoss):
    """ℓ is a function of a_k·x and b_k: `point`, its `slope` and its largest `curvature` are all there is to say."""

    __slots__ = ()

    predicts = True
    strongly_convex_link: ClassVar[bool] = False  # whether ℓ'' is constant, and so bounded below

    @staticmethod
    @abstractmethod
    def point(prediction: Vector, target: Vector) -> Vector:
        """ℓ, elementwise."""

    @staticmethod
    @abstractmethod
    def slope(prediction: Vector, target: Vector) -> Vector:
        """ℓ', the derivative in the prediction, elementwise."""

    @staticmethod
    @abstractmethod
    def curvature() -> float:
        """Sup ℓ''; inf where ℓ has a kink."""

    @classmethod
    def sample_smoothness(cls, norm: float, other: float) -> float:
        """See `SampleLoss`: sup ℓ'' times both norms. Without convexity sup ℓ'' bounds nothing, for ℓ'' may be < 0."""
        return cls.curvature() * norm * other if cls.convex else inf

    @classmethod
    def slope_bound(cls) -> float:
        """Return sup |ℓ'| where ℓ is convex and labels are ±1, at one end of the line; else inf, unless stated."""
        if not (cls.convex and cls.needs_labels):
            return inf
        ends, labels = np.array([-inf, inf, -inf, inf]), np.array([-1.0, -1.0, 1.0, 1.0])
        largest = float(np.abs(cls.slope(ends, labels)).max())
        return inf if np.isnan(largest) else largest

    def value(self, x: Vector) -> float:
        """f(x)."""
        data = float((self.point(self.features @ x, self.targets) / self.divisor).sum())
        return data + 0.5 * self.regularizer * float(x @ x) if self.regularizer else data

    def data_grad(self, x: Vector, block: slice = ALL) -> Vector:
        """The coordinates `block` of the samples' part of ∇f(x), clipped, as a new vector."""
        features, clip = self.features, self.clip
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
        """See `SampleLoss.values`: ℓ(a_k·x, b_k)."""
        return cls.point(predictions(features, points, len(targets)), targets[:, None, :])

    @classmethod
    def predict(cls, features: Features, points: Vector, labels: Vector) -> NDArray[Any]:
        """See `SampleLoss.predict`: the sign of a·x, of a function of it."""
        if cls.per_class or cls.values.__func__ is not LinearLoss.values.__func__:  # type: ignore[attr-defined]
            return super().predict(features, points, labels)
        return np.asarray(features @ points) > 0


class SmoothLoss(LinearLoss):
    """ℓ is twice differentiable."""

    __slots__ = ()
    has_prox = True

    @staticmethod
    @abstractmethod
    def bend(prediction: Vector, target: Vector) -> Vector:
        """ℓ'', the second derivative in the prediction, elementwise."""

    @classmethod
    def hessian_rank(cls, dimension: int) -> int:
        """Return 1, for ℓ'' a a', where a class computes derivatives and minimizers as here; else d."""
        names = ("value", "grad", "data_grad", "prox", "hessian")
        as_here = all(getattr(cls, name) is getattr(SmoothLoss, name) for name in names)
        return 1 if as_here else super().hessian_rank(dimension)

    def hessian(self, x: Vector) -> Vector:
        """∇²f(x): (d, d), of the loss unclipped."""
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
        """Argmin f(x) + ‖x − v‖²/(2·step), of the loss unclipped, by Newton's method from a point near it.

        Args:
            v: (d,).
            step: > 0; inf leaves the second term out.
            near: (d,).
            tolerance: of the gradient's L2 norm; what rounding makes of it may be more.
        """
        exact = replace(self, clip=inf)

        # In x − v, of which a short step leaves so little that x itself would round it away.
        def gradient(shift: Vector) -> Vector:
            return exact.grad(v + shift) + shift / step

        def hessian(shift: Vector) -> Vector:
            second = exact.hessian(v + shift)
            second.flat[:: len(second) + 1] += 1 / step
            return second

        solved = newton(gradient, hessian, near - v, tolerance)
        return solved._replace(x=v + solved.x)


class PiecewiseLinearLoss(LinearLoss):
    """ℓ(m, b) = the largest of s (m − b) over the slopes s between two bounds."""

    __slots__ = ()

    @staticmethod
    @abstractmethod
    def slopes(target: Vector) -> tuple[Vector, Vector]:
        """The least and the largest slope, elementwise."""


def dense(features: Features) -> Vector:
    """Return a dense array of what may be sparse."""
    return np.asarray(features if isinstance(features, np.ndarray) else features.toarray())


def predictions(features: Features, points: Vector, groups: int) -> Vector:
    """Every a_k·x of a group: features (groups k, d), and points (g, p, d) of as many groups or of one -> (g, p, k).

    What a dense product of a group comes to does not depend, to the bit, on how many groups there are.
    """
    g, p, d = points.shape
    k = features.shape[0] // groups
    if isinstance(features, np.ndarray):
        return points @ features.reshape(groups, k, d).transpose(0, 2, 1)
    if groups == 1:
        return np.ascontiguousarray((features @ points.reshape(-1, d).T).T).reshape(g, p, k)
    # One product with a matrix of the groups' blocks, side by side on its diagonal.
    group = np.repeat(np.arange(groups) * d, np.diff(features.indptr[::k]))
    diagonal = type(features)(
        (features.data, features.indices + group, features.indptr), shape=(features.shape[0], groups * d)
    )
    found = diagonal @ points.transpose(0, 2, 1).reshape(-1, p)
    return np.ascontiguousarray(found.reshape(groups, k, p).transpose(0, 2, 1))


@dataclass(slots=True, repr=False, eq=False)  # made in every round, as those below: a frozen one takes twice as long
class Around(Loss):
    """A loss that differs from another in its gradient alone.

    Attributes:
        loss: the other.
    """

    loss: Loss

    def value(self, x: Vector) -> float:
        """f(x)."""
        return self.loss.value(x)

    def prox(self, v: Vector, step: float, near: Vector, tolerance: float) -> Solved:
        """Of the other: what is minimized is neither sampled nor clipped."""
        return self.loss.prox(v, step, near, tolerance)


@dataclass(slots=True, repr=False, eq=False)
class NoisyGradient(Around):
    """A loss whose gradient carries the stochastic error ξ ~ N(0, variance) per coordinate.

    ξ comes after the clipping and does not depend on the data, so it changes no sensitivity.
    """

    variance: float
    t: int
    noise: Draws

    def grad(self, x: Vector, block: slice = ALL) -> Vector:
        """∇f(x) + ξ on the block."""
        return self._disturbed(self.loss.grad(x, block))

    def data_grad(self, x: Vector, block: slice = ALL) -> Vector:
        """The samples' part of it, + ξ."""
        return self._disturbed(self.loss.data_grad(x, block))

    def _disturbed(self, gradient: Vector) -> Vector:
        gradient += sqrt(self.variance) * self.noise.at(self.t).standard_normal(len(gradient))
        return gradient
