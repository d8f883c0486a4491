"""The root of the mean squared error, where targets are real; of many deciders, their mean."""

from __future__ import annotations

from typing import ClassVar

from mpinodes.core.messages import Vector
from mpinodes.core.parts import Judged, Metric
from mpinodes.metrics.accuracy import AVERAGE, LAST


class _Error(Metric):
    dims = ("horizon",)
    of: ClassVar[str]  # a set
    decision: ClassVar[int] = AVERAGE

    def judge(self, run: Judged) -> Vector | None:
        """Its values, where there is such a set."""
        return run.rmse[self.of].mean(axis=2)[:, self.decision] if self.of in run.rmse else None


class Test(_Error):
    """Of the average decision, on test data."""

    name, key, of = "rmse", "rmse.test", "test"
    label = "RMSE, running mean, test data"


class Training(_Error):
    """Of the average decision, on training data."""

    name, key, of = "rmse_train", "rmse.train", "train"
    label = "RMSE, running mean, training data"


class TestOfLast(_Error):
    """Of the last decision, on test data."""

    name, key, of, decision = "rmse_last", "rmse_last_decision.test", "test", LAST
    label = "RMSE, last decision, test data"


class TrainingOfLast(_Error):
    """Of the last decision, on training data."""

    name, key, of, decision = "rmse_train_last", "rmse_last_decision.train", "train", LAST
    label = "RMSE, last decision, training data"
