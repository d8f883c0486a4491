"""Define metrics of offline methods, for the average decision x̃_i(t) or the last decision x_i(t) of agent i."""

from __future__ import annotations

import numpy as np

from mpinodes.core.messages import Vector
from mpinodes.core.parts import Judged, Metric


class OptimalityGap(Metric):
    """Measure F at an agent's decision minus the minimum of F, where F is the mean of all losses of the run."""

    name = "optimality_gap"
    dims = ("horizon", "agent")
    label = "optimality gap, mean over agents"
    figure, title, compared = "gap", "Optimality gap", 2
    long_name = "optimality gap of an agent"

    def judge(self, run: Judged) -> Vector | None:
        """Return the values at each horizon (h, n); None for online methods."""
        if not run.judged_by:
            return None
        return np.asarray(run.whole - float(run.least[-1]) / (int(run.horizons[-1]) * run.agents))


class DecisionError(Metric):
    """Measure the squared distance between the mean decision and the best decision."""

    name = "decision_error"
    dims = ("horizon",)
    label = "‖mean decision − best‖²"
    figure, title = "error", "Distance to the best decision"

    def judge(self, run: Judged) -> Vector | None:
        """Return the values at each horizon (h,); None for online methods."""
        return ((run.judged.mean(axis=1) - run.best[-1]) ** 2).sum(axis=1) if run.judged_by else None


class AgentDecisionError(Metric):
    """Measure the squared distance between each agent's decision and the best decision."""

    name = "agent_decision_error"
    dims = ("horizon", "agent")
    label = "‖decision − best‖², mean over agents"
    long_name = "‖decision − best‖² of an agent"
    figure, title = "error", "Distance to the best decision"

    def judge(self, run: Judged) -> Vector | None:
        """Return the values at each horizon (h, n); None for online methods."""
        return ((run.judged - run.best[-1]) ** 2).sum(axis=2) if run.judged_by else None
