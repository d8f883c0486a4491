"""The feedback section of the summary: losses at two points instead of gradients, and delay."""

from __future__ import annotations

from mpinodes.core import Setup
from mpinodes.losses.two_point import Directions
from mpinodes.summary.summary import FeedbackSummary


def feedback_of(setup: Setup, rounds: int) -> FeedbackSummary | None:
    """Return the delay of feedback and the distance of its two points in the last round; None: plain gradients."""
    asked = setup.experiment.feedback
    if not (asked.points or asked.delay):
        return None
    last = Directions(setup.experiment, setup.blocks, setup.dimension).radius(rounds) if asked.points else None
    return FeedbackSummary(points=asked.points, radius=asked.radius, last_radius=last, delay=asked.delay)
