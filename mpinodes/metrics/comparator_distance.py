"""Define a metric: the distance between the network's decision and the best fixed decision of the rounds so far."""

from __future__ import annotations

import numpy as np

from mpinodes.core.messages import Vector
from mpinodes.core.parts import Judged, Metric

__all__ = ["ComparatorDistance"]


class ComparatorDistance(Metric):
    """Measure the distance ‖x(T) − v(T)‖ between a decision and the best fixed decision in hindsight.

    x(T) is the decision of round T or, if each agent has its own decision, their mean. v(T) is the best fixed decision
    of rounds 1 to T: the computed minimizer, over the feasible set, of the sum of all loss functions of these rounds.

    The metric has no values if the run does not compute the best fixed decisions.
    """

    name = "comparator_distance"
    dims = ("horizon",)
    label = "distance to the best fixed decision"

    def judge(self, run: Judged) -> Vector:
        """Return the distance ‖x(T) − v(T)‖ at each horizon T (a round at which results are measured)."""
        return np.asarray(np.linalg.norm(run.last - run.best, axis=1))
