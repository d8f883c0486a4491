"""Define the contract of losses."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import inf
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mpinodes.core.messages import Features, Solved, Vector

ALL: slice = slice(None)


class Loss(ABC):
    """Define f^t of one agent: a loss of its samples, plus a regularizer (λ/2)‖x‖² if λ > 0."""

    __slots__ = ()

    @property
    def played(self) -> Vector | None:
        """Return the point (d,) midway between the points played, for bandit feedback.

        Return None if gradients are revealed, or if no points have been played yet.
        """
        return None

    @abstractmethod
    def value(self, x: Vector) -> float:
        """Return f(x) at a point x (d,)."""

    @abstractmethod
    def grad(self, x: Vector, block: slice = ALL) -> Vector:
        """Return the coordinates `block` of ∇f(x) as a new vector. The samples' part of the gradient is clipped."""

    @abstractmethod
    def data_grad(self, x: Vector, block: slice = ALL) -> Vector:
        """Return the coordinates `block` of the samples' part of ∇f(x), without the regularizer."""

    @abstractmethod
    def prox(self, v: Vector, step: float, near: Vector, tolerance: float) -> Solved:
        """Return argmin f(x) + ‖x − v‖²/(2·step) of the unclipped loss.

        Args:
            v: (d,) the center.
            step: the weight of f against the quadratic term.
            near: (d,) the point at which the solver starts.
            tolerance: the gradient norm at which the solver stops.
        """


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class SampleLoss(Loss):
    """Define a loss of samples (a_k, b_k): f(x) = Σ_k ℓ(x; a_k, b_k)/divisor + (λ/2)‖x‖².

    `losses.linear` implements the usual case, in which ℓ is a function of a_k·x; a new loss of this kind is three short
    methods. If a class computes its own gradient, mpinodes clips that gradient again, sample by sample, before an agent
    sees it (`losses.enforced`).

    Attributes:
        features: (k, d) the a_k as rows, dense or a sparse CSR array.
        targets: (k,) the b_k.
        clip: the L2 bound on the gradient, restricted to the requested block, of one sample or, if `whole`, of the
            round; inf means no clipping.
        whole: whether to clip the gradient of the round instead of each sample's gradient.
        divisor: 1 for the sum over the round's samples, k for their mean; or an array (k,), one divisor for each
            sample.
        regularizer: λ.
    """

    features: Features
    targets: Vector
    clip: float = inf
    whole: bool = False
    divisor: float | Vector = 1.0
    regularizer: float = 0.0

    needs_labels: ClassVar[bool] = False  # whether targets must be labels ±1
    predicts: ClassVar[bool] = False  # whether a_k·x predicts b_k, for real targets
    per_class: ClassVar[bool] = False  # whether targets are classes 0, 1, ..., each with a row of x of its own
    has_prox: ClassVar[bool] = False  # whether the class has `prox`, for which ℓ must be twice differentiable
    convex: ClassVar[bool] = False  # whether ℓ is known to be convex in x for every sample
    sample_modulus: ClassVar[float] = 0.0  # the modulus of strong convexity of one sample's loss in x

    @classmethod
    def sample_sensitivity(cls, norm: float) -> float:
        """Return the largest L2 change of the gradient at one point when one sample is replaced.

        Args:
            norm: the largest L2 norm of a sample's features.

        Returns:
            The bound. If it is inf, as by default, only clipping bounds the change.
        """
        return inf

    @classmethod
    def sample_smoothness(cls, norm: float, other: float) -> float:
        """Return the largest L2 change of a sample's gradient, over a block, per L2 change of x; inf if it is unknown.

        Args:
            norm: the L2 norm of the features in the block of the gradient.
            other: the L2 norm of the features in the coordinates of x that change.
        """
        return inf

    @classmethod
    def slope_bound(cls) -> float:
        """Return sup |ℓ'|, where ℓ' is the derivative in the prediction a_k·x; inf if ℓ' is unbounded."""
        return inf

    @classmethod
    def largest_gradient(cls, norm: float, radius: float) -> float:
        """Return the most that a sample's gradient is, unclipped, for features and points of at most these L2 norms."""
        return float(cls.slope_bound() * norm)

    @classmethod
    def hessian_rank(cls, dimension: int) -> int:
        """Return the largest rank of a sample's Hessian, without terms that all samples share; by default full rank."""
        return dimension

    @classmethod
    def value_rounding(cls, dimension: int, norm: float, radius: float) -> float:
        """Return the largest rounding error of the computed loss of a sample; inf if it is unknown.

        Args:
            dimension: d.
            norm: the largest L2 norm of the sample's features.
            radius: the largest L2 norm of the point.
        """
        return inf

    @classmethod
    def condensed(cls, features: Features, targets: Vector) -> tuple[Features, Vector]:
        """Return fewer samples, (m, d) and (m,), whose losses have the same sum at every point; a class need not."""
        raise NotImplementedError(f"no fewer samples are known to stand for those of {cls.__name__}")

    def grad(self, x: Vector, block: slice = ALL) -> Vector:
        """Return the coordinates `block` of ∇f(x) as a new vector: the clipped part of the samples plus λx."""
        gradient = self.data_grad(x, block)
        if self.regularizer:
            gradient += self.regularizer * (x if block is ALL else x[block])
        return gradient

    def prox(self, v: Vector, step: float, near: Vector, tolerance: float) -> Solved:
        """Raise NotImplementedError: by default a loss has no proximal operator."""
        raise NotImplementedError(f"{type(self).__name__} has no prox")

    @classmethod
    def predict(cls, features: Features, points: Vector, labels: Vector) -> NDArray[Any]:
        """Return the label that each point predicts for each sample: by default the label with the least loss.

        Args:
            features: (k, d).
            points: (d, p), each column a point.
            labels: (K,) all labels.

        Returns:
            (k, p) indices into `labels`.
        """
        k = features.shape[0]
        losses = [cls.values(features, np.full((1, k), label), points.T[None])[0] for label in labels]
        return np.asarray(np.argmin(losses, axis=0).T)

    @classmethod
    @abstractmethod
    def values(cls, features: Features, targets: Vector, points: Vector) -> Vector:
        """Return the losses of single samples at many points (g, p, k), without clipping, averaging and regularizer.

        The points come in g groups. Each group has k samples of its own, or all groups share the same k samples.

        Args:
            features: (g k, d), one group after the other, or (k, d) for shared samples; dense or a sparse CSR array.
            targets: (g, k), or (1, k) for shared samples.
            points: (g, p, d).
        """
