"""Compute three sections of the summary: delayed or two-point feedback, lost messages, and bounds of theorems."""

from __future__ import annotations

from math import isfinite

import numpy as np

from mpinodes.core import Bound, Setup
from mpinodes.losses.two_point import Directions
from mpinodes.runlog.log import Variable
from mpinodes.summary.summary import BoundSummary, FaultsSummary, FeedbackSummary, times


def feedback_of(setup: Setup, rounds: int) -> FeedbackSummary | None:
    """Return the section of summary.json on delayed or two-point feedback.

    The section has the delay of the feedback, the number of points that an agent plays in a round (`feedback.points`),
    and the distance between a decision and its two points, as set for round 1 and as computed for round `rounds`. The
    latter is None without two-point feedback. The result is None if agents get plain gradients without delay.
    """
    asked = setup.experiment.feedback
    if not (asked.points or asked.delay):
        return None
    last = Directions(setup.experiment, setup.blocks, setup.dimension).radius(rounds) if asked.points else None
    return FeedbackSummary(points=asked.points, radius=asked.radius, last_radius=last, delay=asked.delay)


def faults_of(setup: Setup, rounds: int) -> FaultsSummary | None:
    """Count the faults of the first `rounds` rounds; return None if no faults are simulated.

    The counts are the messages sent, lost and late, the total lateness in rounds, and the rounds of absent agents.
    """
    if setup.links is None:
        return None
    asked, weights, agent_rounds = setup.experiment.faults, setup.mixing.under_faults, setup.topology.agents * rounds
    faults = FaultsSummary(asked=asked, weights=weights, agent_rounds=agent_rounds)
    for t in range(1, rounds + 1):
        sends, lateness = setup.links.sends(t), setup.links.lateness(t)
        faults.sent += int(sends.sum())
        faults.lost += int((sends & (lateness < 0)).sum())
        faults.late += int((lateness > 0).sum())
        faults.rounds_late += int(np.maximum(lateness, 0).sum())
        faults.rounds_away += int(setup.links.away(t).sum())
    return faults


def bound_section(bound: Bound, measured: Variable | None) -> BoundSummary:
    """Return the bound of a theorem at the last round, together with the measured value of the bounded quantity.

    The measured value is the largest value at the last horizon, for example of all agents. If `measured` is None, or if
    the bound itself does not apply, the result states that the bound does not apply, and why. The ratio `times` is None
    if the bound is not finite, or if the measured value is missing or not above 0.
    """
    value, most = float(bound.values[-1]), float(np.max(measured.values[-1])) if measured else None
    return BoundSummary(
        name=bound.name, of=bound.of, label=measured.label if measured else bound.of,
        unit=measured.unit if measured else "", variable=bound.variable, value=value, measured=most,
        times=times(value, most) if isfinite(value) else None, applies=bound.applies and measured is not None,
        why_not=bound.why if measured else f"this run has no {bound.of}",
    )  # fmt: skip
