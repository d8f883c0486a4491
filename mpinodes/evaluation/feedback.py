"""What agents were told of their losses, in the summary, where it is other than the gradient of the round, at once."""

from __future__ import annotations

from mpinodes.core import Setup
from mpinodes.losses.two_point import Directions
from mpinodes.summary.summary import FeedbackSummary


def feedback_of(setup: Setup, rounds: int) -> FeedbackSummary | None:
    """Say how late feedback is, and how far apart its points were in the last round; None: it is the gradient."""
    asked = setup.experiment.feedback
    if not (asked.points or asked.delay):
        return None
    last = Directions(setup.experiment, setup.blocks, setup.dimension).radius(rounds) if asked.points else None
    return FeedbackSummary(points=asked.points, radius=asked.radius, last_radius=last, delay=asked.delay)
