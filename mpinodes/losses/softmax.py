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
    """Define the softmax loss ln Σ_c exp(m_c) − m_b of features a and class b, with the predictions m_c = W_c·a.

    The point x is the concatenation of the weight vectors W_1, ..., W_K of the K classes. Let p be the vector of the
    probabilities exp(m_c)/Σ exp(m), and e_b the unit vector of the class b. For one sample,

        gradient = (p − e_b) ⊗ a,           ‖p − e_b‖² = (1 − p_b)² + Σ_{c ≠ b} p_c² ≤ 2 (1 − p_b)² < 2
        Hessian  = (diag p − ppᵀ) ⊗ aaᵀ,    diag p − ppᵀ ⪯ ½ I

    So the norm of the gradient is below √2 ‖a‖ if a is not 0. The bound ½ I follows from Gershgorin's theorem, because
    the absolute row sums are 2 p_c (1 − p_c) ≤ ½. No smaller numbers than √2 and ½ are valid, even with two classes.
    """

    per_class = True
    convex = True

    @staticmethod
    def point(prediction: Vector, target: Vector) -> Vector:
        """Raise NotImplementedError, because the loss depends on K predictions, one for each class."""
        raise NotImplementedError

    slope = point

    @staticmethod
    def curvature() -> float:
        """Return ½, a bound on the norm of the Hessian of the loss with respect to the K class predictions."""
        return 0.5

    @classmethod
    def slope_bound(cls) -> float:
        """Return √2, a bound on the norm of the gradient of the loss with respect to the K class predictions."""
        return sqrt(2)

    def value(self, x: Vector) -> float:
        """Compute f(x), the loss of the round's samples plus the regularizer, at a point x (d,)."""
        losses = self.values(self.features, self.targets[None], x[None, None])[0, 0]
        return float((losses / self.divisor).sum()) + 0.5 * self.regularizer * float(x @ x)

    def data_grad(self, x: Vector, block: slice = ALL) -> Vector:
        """Compute the clipped gradient of the samples at x, without the gradient λx of the regularizer.

        The result is a new vector with the coordinates `block`.
        """
        rows = self.features
        slopes = self._slopes(x)
        if self.clip < inf and not self.whole:
            norms = plain_norms(slopes) * plain_norms(rows)
            if block != ALL or not is_ordinary(norms, norms):
                # A block of x, or possible overflow, needs each sample's gradient as a row of its own.
                whole = (slopes[:, :, None] * dense(rows)[:, None, :]).reshape(len(slopes), -1)[:, block]
                return clipped_sum(np.ones(len(whole)), whole, self.clip, self.divisor)
            slopes = slopes * (self.clip / np.maximum(norms, self.clip))[:, None]
        weighted = slopes / np.reshape(self.divisor, (-1, 1))
        gradient: Vector = np.asarray((rows.T @ weighted).T).ravel()[block].copy()
        return reclipped(gradient, self.clip) if self.clip < inf and self.whole else gradient

    def _slopes(self, x: Vector) -> Vector:
        """Compute the gradient p − e_b of each sample's loss with respect to its K class predictions.

        Here p are the probabilities of the K classes, and e_b is the unit vector of the sample's class. The result is
        an array (samples, K).
        """
        logits = np.asarray(self.features @ x.reshape(-1, self.features.shape[1]).T)
        chances: Vector = np.exp(logits - logits.max(axis=1, keepdims=True))
        chances /= chances.sum(axis=1, keepdims=True)
        chances[np.arange(len(chances)), _classes(self.targets, logits.shape[1])] -= 1.0
        return chances

    def hessian(self, x: Vector) -> Vector:
        """Compute the Hessian ∇²f(x) of the unclipped loss, an array (d, d).

        The Hessian is the sum of (diag p − ppᵀ) ⊗ aaᵀ/divisor over the samples, plus λI. Here a are the features of a
        sample, and p are the probabilities of its classes.
        """
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
        """Return the class with the largest prediction W_c·a for each of k samples and p points, as indices (k, p)."""
        rows = points.reshape(len(labels), -1, points.shape[1])
        return np.asarray(np.argmax([features @ row for row in rows], axis=0))

    @classmethod
    def values(cls, features: Features, targets: Vector, points: Vector) -> Vector:
        """Compute the softmax loss of each single sample at many points x.

        The result is an array (groups, points of a group, samples). `SampleLoss.values` describes the arguments.
        """
        g, p, _ = points.shape
        k = targets.shape[1]
        rows = points.reshape(g, -1, features.shape[1])
        logits = predictions(features, rows, len(targets)).reshape(g, p, -1, k)
        most = logits.max(axis=2)
        sums = most + np.log(np.exp(logits - most[:, :, None]).sum(axis=2))
        chosen = np.broadcast_to(_classes(targets, logits.shape[2])[:, None, None], (g, p, 1, k))
        return np.asarray(sums - np.take_along_axis(logits, chosen, axis=2)[:, :, 0])


def _classes(targets: Vector, number: int) -> Any:
    """Return targets as class indices from 0 to `number` − 1. An invalid target becomes an arbitrary valid index."""
    return np.clip(np.nan_to_num(targets), 0, number - 1).astype(np.intp)
