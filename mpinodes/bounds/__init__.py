"""The papers' bounds, computed for a run's own constants; one file per theorem, called by its algorithm.

"As printed" is the paper's own formula. "Checked" is what its proof gives once its slips are mended: where it says so,
the proof's sums as they stand, for the steps and the noise of the run, instead of their closed forms.
"""

from __future__ import annotations

import numpy as np

from mpinodes.bounds.constants import first_broken
from mpinodes.core import Bound, Horizons, Setup, Vector
from mpinodes.core.experiment import Faults, Revealed

__all__ = ["bounds"]


def bounds(setup: Setup, horizons: Horizons, minimizer: Vector) -> list[Bound]:
    """The bounds that the algorithm's paper proves; none where it has none.

    Args:
        setup: of one run.
        horizons: (h,) rounds from 1, ascending.
        minimizer: (h, d) the comparator's point at each; nan: the comparator is left out, and with it all bounds.
    """
    if np.isnan(minimizer).any():
        return []
    with np.errstate(all="ignore"):  # what overflows is inf
        theorems = setup.algorithm.bounds(setup, horizons, minimizer)
    budget = setup.experiment.privacy.budget
    stopped = "agents stopped to tell of their data, to keep a budget" if budget and any(budget.stops) else ""
    broken = first_broken(stopped, _feedback(setup.experiment.feedback), _faults(setup.experiment.faults))
    return [b._replace(applies=False, why=broken) for b in theorems] if broken else theorems


def _feedback(told: Revealed) -> str:
    """What of that which agents are told no theorem here allows for; empty: nothing."""
    estimated = "gradients are estimated from two values, and the theorem has them revealed" if told.points else ""
    late = "gradients are told late, and the theorem has each applied in its own round" if told.delay else ""
    return first_broken(estimated, late)


def _faults(faults: Faults) -> str:
    """What of a run's faults no theorem here allows for; empty: it has none. Values are then those without faults."""
    late = "messages come late, and the theorem has every one heard in its own round" if faults.most_late else ""
    away = "agents are away, and the theorem has all take part in every round" if faults.churn else ""
    lost = "messages are lost at random: no number of rounds is sure to connect the graph" if faults.loss else ""
    return first_broken(late, away, lost)
