"""Compute three sections of summary.json: on feedback, on faults of messages, and on bounds of theorems."""

from __future__ import annotations

from math import isfinite

import numpy as np

from mpinodes.core import Bound, Setup
from mpinodes.losses.two_point import Directions
from mpinodes.runlog.log import Variable
from mpinodes.summary.summary import BoundSummary, FaultsSummary, FeedbackSummary, times


def feedback_of(setup: Setup, rounds: int) -> FeedbackSummary | None:
    """Return the section of summary.json on delayed and bandit feedback; None if agents learn gradients at once.

    The section has the delay in rounds, the number of points at which an agent learns its loss, and the distance of
    these points from the decision in round 1 and in round `rounds`.
    """
    asked = setup.experiment.feedback
    if not (asked.points or asked.delay):
        return None
    last = Directions(setup.experiment, setup.blocks, setup.dimension).radius(rounds) if asked.points else None
    return FeedbackSummary(points=asked.points, radius=asked.radius, last_radius=last, delay=asked.delay)


def faults_of(setup: Setup, rounds: int) -> FaultsSummary | None:
    """Return the section of summary.json on faults of messages; None if no faults are simulated.

    The section has five sums over the first `rounds` rounds: the numbers of sent, lost and late messages, the delays of
    the late messages in rounds, and the numbers of absent agents.
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
    """Return the section of summary.json that compares a theorem's bound with the measured value, at the last round.

    - If the run has several measured values, such as one for each agent: the largest value counts.
    - If the run violates an assumption of the theorem, or `measured` is None: the section says why the bound does not
      apply.
    - If the bound is not finite, or the measured value is missing or not above 0: the ratio `times` is None.
    """
    value, most = float(bound.values[-1]), float(np.max(measured.values[-1])) if measured else None
    return BoundSummary(
        name=bound.name, of=bound.of, label=measured.label if measured else bound.of,
        unit=measured.unit if measured else "", variable=bound.variable, value=value, measured=most,
        times=times(value, most) if isfinite(value) else None, applies=bound.applies and measured is not None,
        why_not=bound.why if measured else f"this run has no {bound.of}",
    )  # fmt: skip
