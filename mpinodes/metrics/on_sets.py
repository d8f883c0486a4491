"""Define accuracy and root mean squared error of decisions on test and training data, averaged over deciders."""

from __future__ import annotations

from typing import Literal

from mpinodes.core.messages import Vector
from mpinodes.core.parts import Judged, Metric

AVERAGE, LAST = 0, 1  # indices of the decisions in a `Judged`
DATA = {"test": "test data", "train": "training data"}


def on_a_set(marks: Literal["accuracy", "rmse"], of: str, decision: int = AVERAGE) -> type[Metric]:
    """Return the metric of average or last decisions on a set of samples.

    Args:
        marks: the attribute of `Judged` that holds the values by set.
        of: the set, "test" or "train".
        decision: AVERAGE or LAST.
    """

    class OnASet(Metric):
        name = f"{marks}{'_train' * (of == 'train')}{'_last' * decision}"
        key = f"{marks}{'_last_decision' * decision}.{of}"
        dims = ("horizon",)
        unit = "share" if marks == "accuracy" else ""
        figure = "" if of == "train" and decision == LAST else marks
        title = "Accuracy" if marks == "accuracy" else "Root mean squared error"
        compared = (5 if marks == "accuracy" else 6) if of == "test" and decision == AVERAGE else 0
        label = f"{'accuracy' if unit else 'RMSE'}, {'last decision' if decision else 'running mean'}, {DATA[of]}"

        def judge(self, run: Judged) -> Vector | None:
            by_set = getattr(run, marks)
            # the mean before the index, because the order of summation must not depend on the decision
            return by_set[of].mean(axis=2)[:, decision] if of in by_set else None

    return OnASet


def of_agents(of: str) -> type[Metric]:
    """Return the metric of the accuracy of each agent's average decision on a set, where every agent decides."""

    class AgentsOnASet(Metric):
        name = f"accuracy{'_train' * (of == 'train')}_agents"
        dims = ("horizon", "agent")
        unit = "share"
        summarized = False
        long_name = f"accuracy of an agent, running mean, {DATA[of]}"

        def judge(self, run: Judged) -> Vector | None:
            accuracy = run.accuracy.get(of)
            return accuracy[:, AVERAGE] if accuracy is not None and accuracy.shape[2] > 1 else None

    return AgentsOnASet
