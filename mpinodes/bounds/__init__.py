"""The papers' bounds, computed with a run's own constants; one file per theorem, called by its algorithm.

"As printed" evaluates the paper's own formula. "Checked" evaluates a bound that a corrected proof gives. Where a file
says so, that is the proof's sums for the steps and the noise of the run, instead of their closed forms.

`constants` has what several theorems need of a run, and `weights` the properties of its mixing matrices.
"""

from __future__ import annotations

import numpy as np

from mpinodes.bounds.constants import first_broken
from mpinodes.core import Bound, Horizons, Setup, Vector

__all__ = ["bounds"]


def bounds(setup: Setup, horizons: Horizons, minimizer: Vector) -> list[Bound]:
    """Compute the bounds of the algorithm's paper; an algorithm without bounds gives an empty list.

    A bound whose assumptions the run breaks is returned too, with the reason.

    Args:
        setup: of one run.
        horizons: (h,) rounds from 1, ascending.
        minimizer: (h, d) the comparator's point at each horizon; with a nan the list is empty.
    """
    if np.isnan(minimizer).any():
        return []
    with np.errstate(all="ignore"):  # overflow gives inf
        theorems = setup.algorithm.bounds(setup, horizons, minimizer)
    e = setup.experiment
    budget, feedback, faults = e.privacy.budget, e.feedback, e.faults
    # The bounds of a run with faults are computed as if it had none.
    broken = first_broken(
        "agents stopped using their data, to keep a budget" if budget and any(budget.stops) else "",
        "gradients are estimated from two values, and the theorem has exact ones" if feedback.points else "",
        "gradients arrive late, and the theorem applies each in its own round" if feedback.delay else "",
        "messages arrive late, and the theorem assumes that none does" if faults.most_late else "",
        "agents are absent, and the theorem assumes that all take part in every round" if faults.churn else "",
        "messages are lost at random: no number of rounds is sure to connect the graph" if faults.loss else "",
    )
    return [b._replace(applies=False, why=broken) for b in theorems] if broken else theorems
