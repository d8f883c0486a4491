"""Of each round: the loss of the network at the estimate of one agent in place of all, in the mean over agents."""

from typing import ClassVar

from mpinodes.core import Metric, Stretch, Vector

__all__ = ["AgentsLoss"]


class AgentsLoss(Metric):
    """Record the mean over agents of the loss of the network at the estimate of the agent."""

    name = "agents_loss"
    dims: ClassVar = ("round",)
    shown = False

    def take(self, rounds: Stretch) -> Vector:
        """Return the losses of some rounds."""
        return rounds.agent_losses.mean(axis=1)
