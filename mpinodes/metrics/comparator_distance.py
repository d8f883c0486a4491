"""Define a metric: the distance between the network's decision and the best fixed decision of the rounds so far."""

from __future__ import annotations

import numpy as np

from mpinodes.core.messages import Vector
from mpinodes.core.parts import Judged, Metric

__all__ = ["ComparatorDistance"]


class ComparatorDistance(Metric):
    """Measure the distance ‖x(T) − v(T)‖ between a decision and the best fixed decision in hindsight.

    The point x(T) is the decision of round T, and v(T) is the best fixed decision of rounds 1 to T. If the agents
    decide separately, x(T) is the mean of their decisions. The point v(T) is the computed minimizer, over the feasible
    set, of the sum of all loss functions of rounds 1 to T. The metric is defined for online and offline methods. It has
    no values if the run does not compute the best fixed decisions.
    """

    name = "comparator_distance"
    dims = ("horizon",)
    label = "distance to the best fixed decision"

    def judge(self, run: Judged) -> Vector:
        """Return the distance at each horizon (a round at which results are measured)."""
        return np.asarray(np.linalg.norm(run.last - run.best, axis=1))
