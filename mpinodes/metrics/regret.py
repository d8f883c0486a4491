"""Regrets; `results.regret` has their formulas."""

from __future__ import annotations

from mpinodes.core.messages import Vector
from mpinodes.core.parts import Judged, Metric


class OfNetwork(Metric):
    """R(T)."""

    name = "network_regret"
    dims = ("horizon",)
    sums_agents = True
    label = "network regret per round, R(T)/T"
    long_name = "network regret R(T)"
    per_round = True

    def judge(self, run: Judged) -> Vector:
        """Of the decisions."""
        return run.total[:, 0] - run.least


class OfRunningAverage(Metric):
    """R̃(T)."""

    name = "network_regret_average_iterate"
    dims = ("horizon",)
    sums_agents = True
    label = "running average's regret per round"
    long_name = "regret of the running average"
    per_round = True

    def judge(self, run: Judged) -> Vector:
        """Of the running averages of the decisions."""
        return run.total[:, 1] - run.least


class OfAgents(Metric):
    """R_i(T)."""

    name = "agent_regret"
    dims = ("horizon", "agent")
    sums_agents = True
    label = "agents' regret per round, their mean"
    long_name = "regret of an agent"
    per_round = True

    def judge(self, run: Judged) -> Vector:
        """Of each agent's estimates."""
        return run.total[:, 2:] - run.least[:, None]


class Dynamic(Metric):
    """Regret against the best decision of every single round."""

    name = "dynamic_regret"
    dims = ("horizon",)
    sums_agents = True
    label = "dynamic regret per round"
    long_name = "dynamic regret"
    per_round = True

    def judge(self, run: Judged) -> Vector | None:
        """Its values, where they were asked for."""
        return None if run.best_of_rounds is None else run.total[:, 0] - run.best_of_rounds[0]


class PathLength(Metric):
    """Σ_t ‖v(t) − v(t − 1)‖, of the best decisions v(t) of every single round."""

    name = "path_length"
    dims = ("horizon",)
    label = "path length of the best decisions"

    def judge(self, run: Judged) -> Vector | None:
        """Its values, where they were asked for."""
        return None if run.best_of_rounds is None else run.best_of_rounds[1]
