"""Shares of labels that decisions get right, where there are labels; of many deciders, their mean."""

from __future__ import annotations

from typing import ClassVar

from mpinodes.core.messages import Vector
from mpinodes.core.parts import Judged, Metric

AVERAGE, LAST = 0, 1


class OnASet(Metric):
    """What average or last decisions are worth on a set of samples; of many deciders, their mean."""

    dims = ("horizon",)
    marks: ClassVar[str]  # the attribute of `Judged` that holds the values by set
    of: ClassVar[str]  # a set
    decision: ClassVar[int] = AVERAGE

    def judge(self, run: Judged) -> Vector | None:
        """Return the values, where there is such a set."""
        by_set = getattr(run, self.marks)
        # The order of summation is that of all decisions at once.
        return by_set[self.of].mean(axis=2)[:, self.decision] if self.of in by_set else None


class _Accuracy(OnASet):
    marks = "accuracy"
    unit = "share"


class TestAccuracy(_Accuracy):
    """Of the average decision, on test data."""

    name, key, of = "accuracy", "accuracy.test", "test"
    label = "accuracy, running mean, test data"


class TrainingAccuracy(_Accuracy):
    """Of the average decision, on training data."""

    name, key, of = "accuracy_train", "accuracy.train", "train"
    label = "accuracy, running mean, training data"


class TestAccuracyOfLast(_Accuracy):
    """Of the last decision, on test data."""

    name, key, of, decision = "accuracy_last", "accuracy_last_decision.test", "test", LAST
    label = "accuracy, last decision, test data"


class TrainingAccuracyOfLast(_Accuracy):
    """Of the last decision, on training data."""

    name, key, of, decision = "accuracy_train_last", "accuracy_last_decision.train", "train", LAST
    label = "accuracy, last decision, training data"


class _OfAgents(Metric):
    dims = ("horizon", "agent")
    unit = "share"
    summarized = False
    of: ClassVar[str]  # a set

    def judge(self, run: Judged) -> Vector | None:
        """Its values, where there is such a set and every agent decides."""
        found = run.accuracy.get(self.of)
        return found[:, AVERAGE] if found is not None and found.shape[2] > 1 else None


class TestAccuracyOfAgents(_OfAgents):
    """Of each agent's average decision, on test data."""

    name, of = "accuracy_agents", "test"
    long_name = "accuracy of an agent, running mean, test data"


class TrainingAccuracyOfAgents(_OfAgents):
    """Of each agent's average decision, on training data."""

    name, of = "accuracy_train_agents", "train"
    long_name = "accuracy of an agent, running mean, training data"
