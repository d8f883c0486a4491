"""The faults section of the summary: messages that were sent, lost and late."""

from __future__ import annotations

import numpy as np

from mpinodes.core import Setup
from mpinodes.summary.summary import FaultsSummary


def faults_of(setup: Setup, rounds: int) -> FaultsSummary | None:
    """Return the numbers of messages sent, lost and late in a number of rounds; None: the run has no faults."""
    if setup.links is None:
        return None
    faults = FaultsSummary(asked=setup.experiment.faults, weights=setup.mixing.under_faults)
    faults.agent_rounds = setup.topology.agents * rounds
    for t in range(1, rounds + 1):
        sends, lateness = setup.links.sends(t), setup.links.lateness(t)
        faults.sent += int(sends.sum())
        faults.lost += int((sends & (lateness < 0)).sum())
        faults.late += int((lateness > 0).sum())
        faults.rounds_late += int(np.maximum(lateness, 0).sum())
        faults.rounds_away += int(setup.links.away(t).sum())
    return faults
