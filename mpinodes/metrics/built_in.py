"""The metrics of every run, in the order in which they are printed."""

from __future__ import annotations

from mpinodes.core.parts import Metric
from mpinodes.metrics import accuracy, comparator, decisions, losses, offline, regret, rmse

BUILT_IN: tuple[type[Metric], ...] = (
    losses.Loss, losses.TrainingLoss,
    accuracy.Test, accuracy.Training, accuracy.TestOfLast, accuracy.TrainingOfLast,
    accuracy.TestOfAgents, accuracy.TrainingOfAgents,
    rmse.Test, rmse.Training, rmse.TestOfLast, rmse.TrainingOfLast,
    losses.AverageFitness, decisions.Norm, decisions.ConsensusError,
    regret.OfNetwork, regret.OfRunningAverage, regret.OfAgents, regret.Dynamic, regret.PathLength,
    offline.OptimalityGap, offline.DecisionError, offline.AgentDecisionError,
    comparator.Value, comparator.Gap, comparator.Point, decisions.Last, decisions.Mean,
)  # fmt: skip
