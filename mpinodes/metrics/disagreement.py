"""Disagreement: how far apart the two agents are that are farthest apart."""

from __future__ import annotations

import numpy as np

from mpinodes.core.messages import Vector
from mpinodes.core.parts import Metric, Stretch

__all__ = ["Disagreement"]


class Disagreement(Metric):
    """Max over i, j of ‖y_i(t) − y_j(t)‖."""

    name = "disagreement"
    dims = ("round",)
    label = "disagreement, max ‖y_i − y_j‖"

    def take(self, rounds: Stretch) -> Vector:
        """From differences, not from inner products: near consensus those cancel."""
        y = rounds.estimates
        squared = [((y - y[:, i : i + 1]) ** 2).sum(axis=2).max(axis=1) for i in range(y.shape[1])]
        return np.asarray(np.sqrt(np.max(squared, axis=0)))
