"""Define metrics of the losses of a run."""

from __future__ import annotations

from mpinodes.core.messages import Vector
from mpinodes.core.parts import Judged, Metric, Stretch


class NetworkLoss(Metric):
    """Measure the loss of the network in a round, which network regret sums up."""

    name = "loss"
    long_name = "loss of the network in a round"
    dims = ("round",)
    sums_agents = True
    summarized = False

    def take(self, rounds: Stretch) -> Vector:
        """Return the loss of the network in each round (r,)."""
        return rounds.losses


class TrainingLoss(Metric):
    """Measure the mean loss of an agent's own samples at its decision, averaged over agents, for losses that stay."""

    name = "training_loss"
    dims = ("round",)
    label = "training loss L(T)"
    figure, title, compared = "training", "Training loss", 3

    def take(self, rounds: Stretch) -> Vector | None:
        """Return the training loss in each round (r,); None if losses change."""
        return rounds.training_losses


class AverageFitness(Metric):
    """Measure the loss of the network per round, F(T)/T."""

    name = "average_fitness"
    dims = ("horizon",)
    sums_agents = True
    label = "average fitness F(T)/T"
    compared = 4

    def judge(self, run: Judged) -> Vector:
        """Return F(T)/T at each horizon (h,)."""
        return run.total[:, 0] / run.horizons
