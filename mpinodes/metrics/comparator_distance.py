"""Define the distance between the network's decision and the best fixed decision of the rounds so far."""

from __future__ import annotations

import numpy as np

from mpinodes.core.messages import Vector
from mpinodes.core.parts import Judged, Metric

__all__ = ["ComparatorDistance"]


class ComparatorDistance(Metric):
    """Measure ‖x(T) − v(T)‖, where v(T) minimizes the sum of all loss functions of rounds 1 to T over 𝒳.

    x(T) is the decision of round T, averaged over the deciders. The metric is defined for online and offline methods.
    """

    name = "comparator_distance"
    dims = ("horizon",)
    label = "distance to the best fixed decision"

    def judge(self, run: Judged) -> Vector:
        """Return the distance at each horizon, a round T at which results are measured: (h,)."""
        return np.asarray(np.linalg.norm(run.last - run.best, axis=1))
