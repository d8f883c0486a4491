"""The papers' bounds, computed for a run's own constants; one file per theorem, called by its algorithm.

"As printed" is the paper's own formula. "Checked" is what its proof gives once its slips are mended: where it says so,
the proof's sums as they stand, for the steps and the noise of the run, instead of their closed forms.
"""

from __future__ import annotations

import numpy as np

from mpinodes.core import Bound, Horizons, Setup, Vector

__all__ = ["bounds"]


def bounds(setup: Setup, horizons: Horizons, minimizer: Vector) -> list[Bound]:
    """The bounds that the algorithm's paper proves; none where it has none.

    Args:
        setup: of one run.
        horizons: (h,) rounds from 1, ascending.
        minimizer: (h, d) the comparator's point at each.
    """
    with np.errstate(all="ignore"):  # what overflows is inf
        theorems = setup.algorithm.bounds(setup, horizons, minimizer)
    budget = setup.experiment.privacy.budget
    if budget and any(budget.stops):
        return [
            b._replace(applies=False, why="agents stopped to tell of their data, to keep a budget") for b in theorems
        ]
    return theorems
