"""Distance to the comparator: of the network's decision to the best fixed one of the rounds so far."""

from __future__ import annotations

import numpy as np

from mpinodes.core.messages import Vector
from mpinodes.core.parts import Judged, Metric

__all__ = ["ComparatorDistance"]


class ComparatorDistance(Metric):
    """‖x(T) − v(T)‖, v(T) = argmin over v in 𝒳 of Σ f(v) over the rounds up to T, of online methods too."""

    name = "comparator_distance"
    dims = ("horizon",)
    label = "distance to the best fixed decision"

    def judge(self, run: Judged) -> Vector:
        """Of last decisions, averaged over the deciders."""
        return np.asarray(np.linalg.norm(run.last - run.best, axis=1))
