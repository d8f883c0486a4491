"""The root of the mean squared error, where targets are real; of many deciders, their mean."""

from __future__ import annotations

from mpinodes.metrics.accuracy import LAST, OnASet


class _Error(OnASet):
    marks = "rmse"


class TestRmse(_Error):
    """Of the average decision, on test data."""

    name, key, of = "rmse", "rmse.test", "test"
    label = "RMSE, running mean, test data"


class TrainingRmse(_Error):
    """Of the average decision, on training data."""

    name, key, of = "rmse_train", "rmse.train", "train"
    label = "RMSE, running mean, training data"


class TestRmseOfLast(_Error):
    """Of the last decision, on test data."""

    name, key, of, decision = "rmse_last", "rmse_last_decision.test", "test", LAST
    label = "RMSE, last decision, test data"


class TrainingRmseOfLast(_Error):
    """Of the last decision, on training data."""

    name, key, of, decision = "rmse_train_last", "rmse_last_decision.train", "train", LAST
    label = "RMSE, last decision, training data"
