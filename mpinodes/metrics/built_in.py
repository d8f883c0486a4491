"""List the metrics of every run, in the order in which they are printed."""

from __future__ import annotations

from mpinodes.core.parts import Metric
from mpinodes.metrics import comparator, decisions, losses, offline, regret
from mpinodes.metrics.on_sets import LAST, of_agents, on_a_set

BUILT_IN: tuple[type[Metric], ...] = (
    losses.NetworkLoss, losses.TrainingLoss,
    on_a_set("accuracy", "test"), on_a_set("accuracy", "train"),
    on_a_set("accuracy", "test", LAST), on_a_set("accuracy", "train", LAST), of_agents("test"), of_agents("train"),
    on_a_set("rmse", "test"), on_a_set("rmse", "train"),
    on_a_set("rmse", "test", LAST), on_a_set("rmse", "train", LAST),
    losses.AverageFitness, decisions.Norm, decisions.ConsensusError,
    regret.OfNetwork, regret.OfRunningAverage, regret.OfAgents, regret.Dynamic, regret.PathLength,
    offline.OptimalityGap, offline.DecisionError, offline.AgentDecisionError,
    comparator.Value, comparator.Gap, comparator.BestDecision, decisions.Last, decisions.MeanDecision,
)  # fmt: skip
