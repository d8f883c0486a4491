"""Losses of a linear prediction: f(x) = Σ_k ℓ(a_k·x, b_k), or the mean over the round's samples, plus (λ/2)‖x‖²."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, sqrt
from typing import ClassVar

import numpy as np

from mpinodes.protocol import Features, Loss, Vector
from mpinodes.seeds import Stream

ALL = slice(None)


@dataclass(frozen=True, slots=True)
class LinearLoss(ABC):
    """The loss of one round.

    Attributes:
        features: (k, d) the a_k as rows, dense or a sparse CSR array.
        targets: (k,) the b_k.
        clip: L2 bound on the gradient (restricted to the block asked for) of one sample or, where `whole`,
            of the round; inf = not clipped.
        whole: clip the round's gradient rather than each sample's.
        divisor: 1 for the sum over the round's samples, k for their mean.
        regularizer: λ.
    """

    features: Features
    targets: Vector
    clip: float = inf
    whole: bool = False
    divisor: float = 1.0
    regularizer: float = 0.0

    needs_labels: ClassVar[bool] = False  # ±1
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

    def value(self, x: Vector) -> float:
        """f(x)."""
        data = float(self.point(self.features @ x, self.targets).sum()) / self.divisor
        return data + 0.5 * self.regularizer * float(x @ x) if self.regularizer else data

    def grad(self, x: Vector, block: slice = ALL) -> Vector:
        """The coordinates `block` of ∇f(x), the samples' part clipped, as a new vector."""
        gradient = self.data_grad(x, block)
        if self.regularizer:
            gradient += self.regularizer * x[block]
        return gradient

    def data_grad(self, x: Vector, block: slice = ALL) -> Vector:
        """The coordinates `block` of the samples' part of ∇f(x), clipped, as a new vector."""
        slope = self.slope(self.features @ x, self.targets)
        rows = self.features if block == ALL else self.features[:, block]
        if self.clip < inf and not self.whole:
            norms = np.abs(slope) * row_norms(rows)
            slope = slope * (self.clip / np.maximum(norms, self.clip))
        gradient: Vector = slope @ rows
        if self.divisor != 1:
            gradient /= self.divisor
        if self.clip < inf and self.whole and (norm := sqrt(gradient @ gradient)) > self.clip:
            gradient *= self.clip / norm
        return gradient

    @classmethod
    def values(cls, losses: Sequence[LinearLoss], points: Vector) -> Vector:
        """Losses ℓ(a_k·x, b_k) of every sample of round t at many points, unclipped, unaveraged, unregularized.

        (rounds, points, d) -> (rounds, points, samples), by one batched product where features are dense.
        """
        targets = np.stack([loss.targets for loss in losses])[:, None, :]
        if isinstance(losses[0].features, np.ndarray):
            features = np.stack([loss.features for loss in losses])
            predictions = points @ features.transpose(0, 2, 1)
        else:
            pairs = zip(losses, points, strict=True)
            predictions = np.stack([np.asarray(loss.features @ x.T).T for loss, x in pairs])
        return cls.point(predictions, targets)


class PiecewiseLinearLoss(LinearLoss):
    """ℓ(m, b) = the largest of s (m − b) over the slopes s between two bounds."""

    __slots__ = ()

    @staticmethod
    @abstractmethod
    def slopes(target: Vector) -> tuple[Vector, Vector]:
        """The least and the largest slope, elementwise."""


def row_norms(rows: Features) -> Vector:
    """‖·‖₂ of every row: (k,)."""
    if isinstance(rows, np.ndarray):
        return np.asarray(np.sqrt(np.vecdot(rows, rows)))
    return np.asarray(np.sqrt(rows.multiply(rows).sum(axis=1)))


def row_sizes(rows: Features) -> Vector:
    """The largest |entry| of every row: (k,)."""
    size = abs(rows).max(axis=1)
    return np.asarray(size if isinstance(size, np.ndarray) else size.toarray()).ravel()


def stack(rows: Sequence[Features]) -> Features:
    """Feature matrices on top of each other."""
    if len(rows) == 1:
        return rows[0]
    if isinstance(rows[0], np.ndarray):
        return np.concatenate(rows)
    from scipy.sparse import vstack

    return vstack(rows, format="csr")


@dataclass(frozen=True, slots=True)
class NoisyGradient:
    """A loss whose gradient carries the stochastic error ξ ~ N(0, variance) per coordinate.

    ξ comes after the clipping and does not depend on the data, so it changes no sensitivity.
    """

    loss: Loss
    variance: float
    t: int
    noise: Stream

    def value(self, x: Vector) -> float:
        """f(x), without error."""
        return self.loss.value(x)

    def grad(self, x: Vector, block: slice = ALL) -> Vector:
        """∇f(x) + ξ on the block."""
        return self._disturbed(self.loss.grad(x, block))

    def data_grad(self, x: Vector, block: slice = ALL) -> Vector:
        """The samples' part of it, + ξ."""
        return self._disturbed(self.loss.data_grad(x, block))

    def _disturbed(self, gradient: Vector) -> Vector:
        gradient += self.noise.at(self.t).normal(0.0, sqrt(self.variance), gradient.shape)
        return gradient
