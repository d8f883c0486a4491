"""Define the regrets of a run; `evaluation.regret` has their formulas."""

from __future__ import annotations

from typing import ClassVar

from mpinodes.core.messages import Vector
from mpinodes.core.parts import Judged, Metric


class _Regret(Metric):
    dims: ClassVar[tuple[str, ...]] = ("horizon",)
    sums_agents = True
    per_round = True
    figure = "regret"
    title = "Regret per round"


class OfNetwork(_Regret):
    """Measure network regret, R(T)."""

    name = "network_regret"
    label = "network regret per round, R(T)/T"
    long_name = "network regret R(T)"
    compared = 1

    def judge(self, run: Judged) -> Vector:
        """Return the regret of the decisions at each horizon (h,)."""
        return run.total[:, 0] - run.least


class OfRunningAverage(_Regret):
    """Measure the regret of the running average, R̃(T)."""

    name = "network_regret_average_iterate"
    label = "running average's regret per round"
    long_name = "regret of the running average"

    def judge(self, run: Judged) -> Vector:
        """Return the regret of the running averages of the decisions at each horizon (h,)."""
        return run.total[:, 1] - run.least


class OfAgents(_Regret):
    """Measure each agent's regret, R_i(T)."""

    name = "agent_regret"
    dims = ("horizon", "agent")
    label = "agents' regret per round, their mean"
    long_name = "regret of an agent"

    def judge(self, run: Judged) -> Vector:
        """Return the regret of each agent's estimates at each horizon (h, n)."""
        return run.total[:, 2:] - run.least[:, None]


class Dynamic(_Regret):
    """Measure the regret against the best decision of every single round."""

    name = "dynamic_regret"
    label = "dynamic regret per round"
    long_name = "dynamic regret"

    def judge(self, run: Judged) -> Vector | None:
        """Return the values at each horizon (h,); None unless `record.dynamic_regret` asks for them."""
        return None if run.best_of_rounds is None else run.total[:, 0] - run.best_of_rounds[0]


class PathLength(Metric):
    """Measure Σ_t ‖v(t) − v(t − 1)‖, where v(t) is the best decision of round t."""

    name = "path_length"
    dims = ("horizon",)
    label = "path length of the best decisions"

    def judge(self, run: Judged) -> Vector | None:
        """Return the values at each horizon (h,); None unless `record.dynamic_regret` asks for them."""
        return None if run.best_of_rounds is None else run.best_of_rounds[1]
