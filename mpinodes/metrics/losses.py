"""What was lost."""

from __future__ import annotations

from mpinodes.core.messages import Vector
from mpinodes.core.parts import Judged, Metric, Stretch


class NetworkLoss(Metric):
    """The summand of network regret."""

    name = "loss"
    long_name = "loss of the network in a round"
    dims = ("round",)
    sums_agents = True
    summarized = False

    def take(self, rounds: Stretch) -> Vector:
        """What the network lost."""
        return rounds.losses


class TrainingLoss(Metric):
    """The mean over agents of the mean of ℓ over an agent's own samples at its decision, of losses that stay."""

    name = "training_loss"
    dims = ("round",)
    label = "training loss L(T)"
    figure, title, compared = "training", "Training loss", 3

    def take(self, rounds: Stretch) -> Vector | None:
        """Its values, where losses stay the same."""
        return rounds.training_losses


class AverageFitness(Metric):
    """What the network lost, per round."""

    name = "average_fitness"
    dims = ("horizon",)
    sums_agents = True
    label = "average fitness F(T)/T"
    compared = 4

    def judge(self, run: Judged) -> Vector:
        """F(T)/T."""
        return run.total[:, 0] / run.horizons
