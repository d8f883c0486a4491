"""The contract of losses."""

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
    """f^t as one agent sees it: a loss of its samples, and perhaps a regularizer (λ/2)‖x‖²."""

    __slots__ = ()

    @property
    def played(self) -> Vector | None:
        """Of bandit feedback, the point (d,) between those played, once they are; None: gradients are revealed."""
        return None

    @abstractmethod
    def value(self, x: Vector) -> float:
        """f(x) at x: (d,)."""

    @abstractmethod
    def grad(self, x: Vector, block: slice = ALL) -> Vector:
        """The coordinates `block` of ∇f(x) as a new vector; the samples' part of it is clipped."""

    @abstractmethod
    def data_grad(self, x: Vector, block: slice = ALL) -> Vector:
        """The same without the regularizer."""

    @abstractmethod
    def prox(self, v: Vector, step: float, near: Vector, tolerance: float) -> Solved:
        """Argmin f(x) + ‖x − v‖²/(2·step), of the loss unclipped, to a gradient norm, from a point near it."""


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class SampleLoss(Loss):
    """A loss of samples (a_k, b_k): f(x) = Σ_k ℓ(x; a_k, b_k)/divisor + (λ/2)‖x‖².

    `losses.linear` has the usual case, ℓ a function of a_k·x: a new loss is then three short methods.
    One with a gradient of its own is clipped once more, sample by sample, before an agent sees it (`losses.enforced`).

    Attributes:
        features: (k, d) the a_k as rows, dense or a sparse CSR array.
        targets: (k,) the b_k.
        clip: L2 bound on the gradient (restricted to the block asked for) of one sample or, where `whole`,
            of the round; inf = not clipped.
        whole: clip the round's gradient rather than each sample's.
        divisor: 1 for the sum over the round's samples, k for their mean; or one for each sample, (k,).
        regularizer: λ.
    """

    features: Features
    targets: Vector
    clip: float = inf
    whole: bool = False
    divisor: float | Vector = 1.0
    regularizer: float = 0.0

    needs_labels: ClassVar[bool] = False  # targets are ±1
    predicts: ClassVar[bool] = False  # whether a_k·x is meant to be near b_k, where targets are real
    per_class: ClassVar[bool] = False  # targets are classes 0, 1, ..., and x has a row of coordinates for each of them
    has_prox: ClassVar[bool] = False  # whether `prox` is there: ℓ is twice differentiable
    convex: ClassVar[bool] = False  # whether ℓ is known to be convex in x for every sample
    sample_modulus: ClassVar[float] = 0.0  # of strong convexity, of one sample's loss in x

    @classmethod
    def sample_sensitivity(cls, norm: float) -> float:
        """The most that replacing a sample moves its gradient by at one point, features having norms up to this.

        Inf: clipping alone is relied on.
        """
        return inf

    @classmethod
    def sample_smoothness(cls, norm: float, other: float) -> float:
        """The most that a sample's gradient, over a block where its features have this norm, moves per move of x.

        Inf: nothing is known.

        Args:
            norm: of the features in the block.
            other: of those that the move is along.
        """
        return inf

    @classmethod
    def slope_bound(cls) -> float:
        """Sup |ℓ'| in the prediction a_k·x; inf where there is none."""
        return inf

    @classmethod
    def hessian_rank(cls, dimension: int) -> int:
        """Return the largest rank of a sample's Hessian, less what all samples share; unless stated, the full one."""
        return dimension

    @classmethod
    def value_rounding(cls, dimension: int, norm: float, radius: float) -> float:
        """Return how far rounding can move the computed loss of a sample; inf: unknown.

        Args:
            dimension: d.
            norm: the largest L2 norm of the sample's features.
            radius: the largest L2 norm of the point.
        """
        return inf

    def grad(self, x: Vector, block: slice = ALL) -> Vector:
        """The coordinates `block` of ∇f(x), the samples' part clipped, as a new vector."""
        gradient = self.data_grad(x, block)
        if self.regularizer:
            gradient += self.regularizer * (x if block is ALL else x[block])
        return gradient

    def prox(self, v: Vector, step: float, near: Vector, tolerance: float) -> Solved:
        """See `Loss.prox`; unless stated there is none."""
        raise NotImplementedError(f"{type(self).__name__} has no prox")

    @classmethod
    def predict(cls, features: Features, points: Vector, labels: Vector) -> NDArray[Any]:
        """Return which label each point predicts for each sample: unless stated, the one with the least loss.

        Args:
            features: (k, d).
            points: (d, p), each a column.
            labels: (K,) all that targets can be.

        Returns:
            (k, p) places in `labels`.
        """
        k = features.shape[0]
        losses = [cls.values(features, np.full((1, k), label), points.T[None])[0] for label in labels]
        return np.asarray(np.argmin(losses, axis=0).T)

    @classmethod
    @abstractmethod
    def values(cls, features: Features, targets: Vector, points: Vector) -> Vector:
        """Losses of single samples, unclipped, unaveraged, unregularized, at many points: (g, p, k).

        Of g groups of points, each is for k samples of its own; or all are for the same k.

        Args:
            features: (g k, d), group by group, or (k, d); dense or a sparse CSR array.
            targets: (g, k), or (1, k).
            points: (g, p, d).
        """
