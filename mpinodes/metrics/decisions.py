"""What was decided."""

from __future__ import annotations

import numpy as np

from mpinodes.core.messages import Vector
from mpinodes.core.parts import Judged, Metric, Stretch

AT_ONCE = 2048  # coordinates


class ConsensusError(Metric):
    """Sqrt( (1/n) Σ_i ‖y_i(t) − mean_j y_j(t)‖² )."""

    name = "consensus_error"
    compared = 7
    dims = ("round",)

    def take(self, rounds: Stretch) -> Vector:
        """Of the agents' estimates."""
        r, n, d = rounds.estimates.shape
        squares = np.zeros((r, n))
        for start in range(0, d, AT_ONCE):  # a block of coordinates fits into the processor's cache
            some = rounds.estimates[:, :, start : start + AT_ONCE]
            apart = some - some.mean(axis=1, keepdims=True)
            squares += np.vecdot(apart, apart)
        return np.asarray(np.sqrt(squares.mean(axis=1)))


class Norm(Metric):
    """Of the last decision, in L2."""

    name = "decision_norm"
    dims = ("horizon",)
    label = "norm of the last decision"

    def judge(self, run: Judged) -> Vector:
        """Averaged over the deciders first."""
        return np.array([np.linalg.norm(x) for x in run.last])


class Last(Metric):
    """The last decision."""

    name = "decision_last"
    long_name = "last decision, mean over deciders"
    dims = ("horizon", "coordinate")
    summarized = False

    def judge(self, run: Judged) -> Vector:
        """Averaged over the deciders."""
        return run.last


class MeanDecision(Metric):
    """The average decision."""

    name = "decision_mean"
    long_name = "average decision, mean over deciders"
    dims = ("horizon", "coordinate")
    summarized = False

    def judge(self, run: Judged) -> Vector:
        """Averaged over the deciders."""
        return run.mean
