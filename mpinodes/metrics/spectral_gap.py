"""Define a metric: the spectral gap of the mixing, which says how fast agents' vectors approach their mean."""

from __future__ import annotations

from itertools import islice

import numpy as np

from mpinodes.core.messages import Vector
from mpinodes.core.parts import Judged, Metric

__all__ = ["SpectralGap"]


class SpectralGap(Metric):
    """Measure 1 minus the mean of ‖W(t) − 11ᵀ/n‖₂ over the rounds t up to a horizon.

    W(t) is the mixing matrix of round t, and n is the number of agents. If W is the same symmetric matrix in all
    rounds, the gap is 1 − max(λ₂, −λₙ), where λ₂ and λₙ are the second largest and the least eigenvalue of W. The
    metric has no values if a row or column of a matrix does not sum to 1, because such a mixing does not keep the mean.
    """

    name = "spectral_gap"
    dims = ("horizon",)
    label = "spectral gap of the mixing"

    def judge(self, run: Judged) -> Vector | None:
        """Return the gap at each horizon; None if a matrix is not doubly stochastic."""
        norms, factors = dict[bytes, float](), list[float]()
        for weights in islice(run.weights(), int(run.horizons[-1])):
            if (key := weights.tobytes()) not in norms:
                if not np.allclose([weights.sum(axis=0), weights.sum(axis=1)], 1):
                    return None
                norms[key] = float(np.linalg.norm(weights - 1 / len(weights), 2))
            factors.append(norms[key])
        return np.asarray(1 - np.cumsum(factors)[run.horizons - 1] / run.horizons)
