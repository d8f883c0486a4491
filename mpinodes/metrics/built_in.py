"""The metrics of every run, in the order in which they are printed."""

from __future__ import annotations

from mpinodes.core.parts import Metric
from mpinodes.metrics import accuracy, comparator, decisions, losses, offline, regret, rmse

BUILT_IN: tuple[type[Metric], ...] = (
    losses.NetworkLoss, losses.TrainingLoss,
    accuracy.TestAccuracy, accuracy.TrainingAccuracy, accuracy.TestAccuracyOfLast, accuracy.TrainingAccuracyOfLast,
    accuracy.TestAccuracyOfAgents, accuracy.TrainingAccuracyOfAgents,
    rmse.TestRmse, rmse.TrainingRmse, rmse.TestRmseOfLast, rmse.TrainingRmseOfLast,
    losses.AverageFitness, decisions.Norm, decisions.ConsensusError,
    regret.OfNetwork, regret.OfRunningAverage, regret.OfAgents, regret.Dynamic, regret.PathLength,
    offline.OptimalityGap, offline.DecisionError, offline.AgentDecisionError,
    comparator.Value, comparator.Gap, comparator.BestDecision, decisions.Last, decisions.MeanDecision,
)  # fmt: skip
