"""Multinomial logistic loss (softmax), −ln of the probability of a sample's class."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpinodes.core import ALL, Features, Vector
from mpinodes.losses.clipping import clipped_sum, is_ordinary, plain_norms, reclipped
from mpinodes.losses.linear import LinearLoss, dense, predictions

__all__ = ["Softmax"]


@dataclass(frozen=True, slots=True)
class Softmax(LinearLoss):
    """ℓ(x; a, b) = ln Σ_c exp(m_c) − m_b with m_c = W_c·a: x is the rows W_1, ..., W_K, one after the other.

    Of a sample, with p the probabilities exp(m_c)/Σ exp(m) and e_b the unit vector of its class, the gradient is
    (p − e_b) ⊗ a, and the Hessian (diag p − pp') ⊗ aa'. ‖p − e_b‖² = (1 − p_b)² + Σ_{c ≠ b} p_c² ≤ 2 (1 − p_b)² < 2, so
    the gradient is shorter than √2 ‖a‖; and diag p − pp' ⪯ ½ I, for half the sum of a row's sizes bounds it
    (Gershgorin): 2 p_c (1 − p_c) ≤ ½. Both are reached in the limit, by two classes.

    K is read off x: as many rows as its length has of the features.
    """

    per_class = True
    convex = True

    @staticmethod
    def point(prediction: Vector, target: Vector) -> Vector:
        """None: it is no function of one prediction."""
        raise NotImplementedError

    slope = point

    @staticmethod
    def curvature() -> float:
        """½, of the Hessian in the predictions."""
        return 0.5

    @classmethod
    def slope_bound(cls) -> float:
        """√2: the longest gradient in the predictions."""
        return sqrt(2)

    def value(self, x: Vector) -> float:
        """f(x)."""
        losses = self.values(self.features, self.targets[None], x[None, None])[0, 0]
        return float((losses / self.divisor).sum()) + 0.5 * self.regularizer * float(x @ x)

    def data_grad(self, x: Vector, block: slice = ALL) -> Vector:
        """See `LinearLoss.data_grad`."""
        rows = self.features
        slopes = self._slopes(x)
        if self.clip < inf and not self.whole:
            norms = plain_norms(slopes) * plain_norms(rows)
            if block != ALL or not is_ordinary(norms, norms):
                return self._clipped_by_rows(slopes, block)
            slopes = slopes * (self.clip / np.maximum(norms, self.clip))[:, None]
        weighted = slopes / np.reshape(self.divisor, (-1, 1))
        gradient: Vector = np.asarray((rows.T @ weighted).T).ravel()[block].copy()
        return reclipped(gradient, self.clip) if self.clip < inf and self.whole else gradient

    def _slopes(self, x: Vector) -> Vector:
        """P − e_b of every sample: (k, K)."""
        logits = np.asarray(self.features @ x.reshape(-1, self.features.shape[1]).T)
        chances: Vector = np.exp(logits - logits.max(axis=1, keepdims=True))
        chances /= chances.sum(axis=1, keepdims=True)
        chances[np.arange(len(chances)), _classes(self.targets, logits.shape[1])] -= 1.0
        return chances

    def hessian(self, x: Vector) -> Vector:
        """∇²f(x): (d, d), the sum of (diag p − pp') ⊗ aa' over the samples."""
        chances, rows = self._slopes(x), dense(self.features)
        chances[np.arange(len(chances)), _classes(self.targets, chances.shape[1])] += 1.0
        scaled = chances / np.reshape(self.divisor, (-1, 1))
        spread = (chances[:, :, None] * rows[:, None]).reshape(len(rows), -1)
        second = -spread.T @ (scaled[:, :, None] * rows[:, None]).reshape(spread.shape)
        p = rows.shape[1]
        for c, weights in enumerate(scaled.T):
            second[c * p : (c + 1) * p, c * p : (c + 1) * p] += rows.T @ (weights[:, None] * rows)
        second.flat[:: len(second) + 1] += self.regularizer
        return np.asarray(second)

    def _clipped_by_rows(self, slopes: Vector, block: slice) -> Vector:
        """The gradients of samples as rows, each clipped by itself: for parts of x, and for any doubles."""
        features: Any = self.features
        dense = features if isinstance(features, np.ndarray) else features.toarray()
        rows = (slopes[:, :, None] * dense[:, None, :]).reshape(len(slopes), -1)[:, block]
        return clipped_sum(np.ones(len(rows)), rows, self.clip, self.divisor)

    @classmethod
    def predict(cls, features: Features, points: Vector, labels: Vector) -> NDArray[Any]:
        """See `SampleLoss.predict`: the class with the largest W_c·a."""
        rows = points.reshape(len(labels), -1, points.shape[1])
        return np.asarray(np.argmax([features @ row for row in rows], axis=0))

    @classmethod
    def values(cls, features: Features, targets: Vector, points: Vector) -> Vector:
        """See `SampleLoss.values`."""
        g, p, _ = points.shape
        k = targets.shape[1]
        rows = points.reshape(g, -1, features.shape[1])
        logits = predictions(features, rows, len(targets)).reshape(g, p, -1, k)
        most = logits.max(axis=2)
        sums = most + np.log(np.exp(logits - most[:, :, None]).sum(axis=2))
        chosen = np.broadcast_to(_classes(targets, logits.shape[2])[:, None, None], (g, p, 1, k))
        return np.asarray(sums - np.take_along_axis(logits, chosen, axis=2)[:, :, 0])


def _classes(targets: Vector, number: int) -> Any:
    """Targets as places of classes, whatever they are."""
    return np.clip(np.nan_to_num(targets), 0, number - 1).astype(np.intp)
