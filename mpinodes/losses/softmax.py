"""The multinomial logistic (softmax) loss: −ln of the probability of a sample's class."""

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
    """The loss ℓ(x; a, b) = ln Σ_c exp(m_c) − m_b with m_c = W_c·a; x holds the rows W_1, ..., W_K in turn.

    Let p be the probabilities exp(m_c)/Σ exp(m) and e_b the unit vector of the sample's class. A sample's gradient is
    (p − e_b) ⊗ a and its Hessian (diag p − pp') ⊗ aa'. The gradient is shorter than √2 ‖a‖, because
    ‖p − e_b‖² = (1 − p_b)² + Σ_{c ≠ b} p_c² ≤ 2 (1 − p_b)² < 2. By Gershgorin's theorem diag p − pp' ⪯ ½ I, because the
    absolute row sums are 2 p_c (1 − p_c) ≤ ½. Two classes reach both bounds in the limit.

    The number of classes K is the length of x divided by the number of features.
    """

    per_class = True
    convex = True

    @staticmethod
    def point(prediction: Vector, target: Vector) -> Vector:
        """Raise NotImplementedError: the loss is not a function of one prediction."""
        raise NotImplementedError

    slope = point

    @staticmethod
    def curvature() -> float:
        """Return ½, a bound on the Hessian in the predictions m."""
        return 0.5

    @classmethod
    def slope_bound(cls) -> float:
        """Return √2, a bound on the gradient's norm in the predictions m."""
        return sqrt(2)

    def value(self, x: Vector) -> float:
        """Compute f(x), the loss of the round's samples plus the regularizer."""
        losses = self.values(self.features, self.targets[None], x[None, None])[0, 0]
        return float((losses / self.divisor).sum()) + 0.5 * self.regularizer * float(x @ x)

    def data_grad(self, x: Vector, block: slice = ALL) -> Vector:
        """Compute the coordinates `block` of the samples' part of ∇f(x), clipped, as a new vector."""
        rows = self.features
        slopes = self._slopes(x)
        if self.clip < inf and not self.whole:
            norms = plain_norms(slopes) * plain_norms(rows)
            if block != ALL or not is_ordinary(norms, norms):
                # Blocks of x and extreme doubles need one row per sample.
                whole = (slopes[:, :, None] * dense(rows)[:, None, :]).reshape(len(slopes), -1)[:, block]
                return clipped_sum(np.ones(len(whole)), whole, self.clip, self.divisor)
            slopes = slopes * (self.clip / np.maximum(norms, self.clip))[:, None]
        weighted = slopes / np.reshape(self.divisor, (-1, 1))
        gradient: Vector = np.asarray((rows.T @ weighted).T).ravel()[block].copy()
        return reclipped(gradient, self.clip) if self.clip < inf and self.whole else gradient

    def _slopes(self, x: Vector) -> Vector:
        """Compute p − e_b for every sample: (k, K)."""
        logits = np.asarray(self.features @ x.reshape(-1, self.features.shape[1]).T)
        chances: Vector = np.exp(logits - logits.max(axis=1, keepdims=True))
        chances /= chances.sum(axis=1, keepdims=True)
        chances[np.arange(len(chances)), _classes(self.targets, logits.shape[1])] -= 1.0
        return chances

    def hessian(self, x: Vector) -> Vector:
        """Compute the Hessian ∇²f(x), the sum of (diag p − pp') ⊗ aa' over the samples, plus λI: (d, d)."""
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

    @classmethod
    def predict(cls, features: Features, points: Vector, labels: Vector) -> NDArray[Any]:
        """Predict the class with the largest W_c·a, for each sample."""
        rows = points.reshape(len(labels), -1, points.shape[1])
        return np.asarray(np.argmax([features @ row for row in rows], axis=0))

    @classmethod
    def values(cls, features: Features, targets: Vector, points: Vector) -> Vector:
        """Compute every sample's loss at every point of its group, with the shapes of `SampleLoss.values`."""
        g, p, _ = points.shape
        k = targets.shape[1]
        rows = points.reshape(g, -1, features.shape[1])
        logits = predictions(features, rows, len(targets)).reshape(g, p, -1, k)
        most = logits.max(axis=2)
        sums = most + np.log(np.exp(logits - most[:, :, None]).sum(axis=2))
        chosen = np.broadcast_to(_classes(targets, logits.shape[2])[:, None, None], (g, p, 1, k))
        return np.asarray(sums - np.take_along_axis(logits, chosen, axis=2)[:, :, 0])


def _classes(targets: Vector, number: int) -> Any:
    """Turn targets into class indices; invalid targets become some valid index."""
    return np.clip(np.nan_to_num(targets), 0, number - 1).astype(np.intp)
