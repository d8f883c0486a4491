"""Define the disagreement: the largest distance between the estimates of two agents."""

from __future__ import annotations

import numpy as np

from mpinodes.core.messages import Vector
from mpinodes.core.parts import Metric, Stretch

__all__ = ["Disagreement"]


class Disagreement(Metric):
    """Measure the largest distance between two agents' estimates in each round, max over i, j of ‖y_i(t) − y_j(t)‖."""

    name = "disagreement"
    dims = ("round",)
    label = "disagreement, max ‖y_i − y_j‖"

    def take(self, rounds: Stretch) -> Vector:
        """Return the disagreement in each round: the largest distance between two agents' estimates.

        The distance is computed from differences of estimates. A formula with inner products would lose digits if all
        estimates are nearly equal.
        """
        y = rounds.estimates
        squared = [((y - y[:, i : i + 1]) ** 2).sum(axis=2).max(axis=1) for i in range(y.shape[1])]
        return np.asarray(np.sqrt(np.max(squared, axis=0)))
