"""Losses of a linear prediction: f(x) = Σ_k ℓ(a_k·x, b_k), or the mean over the round's samples."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, sqrt
from typing import ClassVar

import numpy as np

from mpinodes.protocol import Loss, Vector
from mpinodes.seeds import Stream

ALL = slice(None)


@dataclass(frozen=True, slots=True)
class LinearLoss(ABC):
    """The loss of one round.

    Attributes:
        features: (k, d) the a_k as rows.
        targets: (k,) the b_k.
        clip: L2 bound on the gradient (restricted to the block asked for) of one sample or, where `whole`,
            of the round; inf = not clipped.
        whole: clip the round's gradient rather than each sample's.
        divisor: 1 for the sum over the round's samples, k for their mean.
    """

    features: Vector
    targets: Vector
    clip: float = inf
    whole: bool = False
    divisor: float = 1.0

    needs_labels: ClassVar[bool] = False
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
        """Sup ℓ''."""

    def value(self, x: Vector) -> float:
        """f(x)."""
        return float(self.point(self.features @ x, self.targets).sum()) / self.divisor

    def grad(self, x: Vector, block: slice = ALL) -> Vector:
        """The coordinates `block` of ∇f(x), clipped, as a new vector."""
        slope = self.slope(self.features @ x, self.targets)
        rows = self.features[:, block]
        if self.clip < inf and not self.whole:
            norms = np.abs(slope) * np.sqrt(np.vecdot(rows, rows))
            slope = slope * (self.clip / np.maximum(norms, self.clip))
        gradient: Vector = slope @ rows
        if self.divisor != 1:
            gradient /= self.divisor
        if self.clip < inf and self.whole and (norm := sqrt(gradient @ gradient)) > self.clip:
            gradient *= self.clip / norm
        return gradient

    @classmethod
    def values(cls, losses: Sequence[LinearLoss], points: Vector) -> Vector:
        """f^t at many points of round t, (rounds, points, d) -> (rounds, points), by one batched product."""
        features = np.stack([loss.features for loss in losses])
        targets = np.stack([loss.targets for loss in losses])[:, None, :]
        predictions = points @ features.transpose(0, 2, 1)
        return np.asarray(cls.point(predictions, targets).sum(axis=2)) / losses[0].divisor


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
        gradient = self.loss.grad(x, block)
        gradient += self.noise.at(self.t).normal(0.0, sqrt(self.variance), gradient.shape)
        return gradient
