"""Define metrics of the decisions themselves."""

from __future__ import annotations

import numpy as np

from mpinodes.core.messages import Vector
from mpinodes.core.parts import Judged, Metric, Stretch

AT_ONCE = 2048  # coordinates


class ConsensusError(Metric):
    """Measure the consensus error, sqrt( (1/n) Σ_i ‖y_i(t) − mean_j y_j(t)‖² )."""

    name = "consensus_error"
    compared = 7
    dims = ("round",)

    def take(self, rounds: Stretch) -> Vector:
        """Return the consensus error of the agents' estimates in each round (r,)."""
        r, n, d = rounds.estimates.shape
        squares = np.zeros((r, n))
        for start in range(0, d, AT_ONCE):  # a block of coordinates fits into the processor's cache
            some = rounds.estimates[:, :, start : start + AT_ONCE]
            apart = some - some.mean(axis=1, keepdims=True)
            squares += np.vecdot(apart, apart)
        return np.asarray(np.sqrt(squares.mean(axis=1)))


class Norm(Metric):
    """Measure the L2 norm of the last decision."""

    name = "decision_norm"
    dims = ("horizon",)
    label = "norm of the last decision"

    def judge(self, run: Judged) -> Vector:
        """Return the norm of the last decision, averaged over deciders, at each horizon (h,)."""
        return np.array([np.linalg.norm(x) for x in run.last])


class Last(Metric):
    """Record the last decision."""

    name = "decision_last"
    long_name = "last decision, mean over deciders"
    dims = ("horizon", "coordinate")
    summarized = False

    def judge(self, run: Judged) -> Vector:
        """Return the last decision, averaged over deciders, at each horizon (h, d)."""
        return run.last


class MeanDecision(Metric):
    """Record the average decision."""

    name = "decision_mean"
    long_name = "average decision, mean over deciders"
    dims = ("horizon", "coordinate")
    summarized = False

    def judge(self, run: Judged) -> Vector:
        """Return the average decision, averaged over deciders, at each horizon (h, d)."""
        return run.mean
