"""The papers' bounds, computed for a run's own constants; one file per theorem, named by an algorithm's `theorem`.

"As printed" is the paper's own formula. "Checked" is what its proof gives once its slips are mended: where it says so,
the proof's sums as they stand, for the steps and the noise of the run, instead of their closed forms.
"""

from __future__ import annotations

import importlib

import numpy as np
from numpy.typing import ArrayLike

from mpinodes.bounds.facts import Bound
from mpinodes.core import Setup, Vector

__all__ = ["Bound", "bounds"]


def bounds(parts: Setup, horizons: ArrayLike, minimizer: Vector) -> list[Bound]:
    """The bounds that the algorithm's paper proves; none where the algorithm names no theorem.

    Args:
        parts: those of one run.
        horizons: (h,) rounds from 1, ascending.
        minimizer: (d,) the comparator's point at the last horizon, or (h, d) that of each.
    """
    with np.errstate(all="ignore"):  # what overflows is inf
        found = parts.algorithm.bounds(parts, np.asarray(horizons, dtype=np.int64), minimizer)
    budget = parts.experiment.privacy.budget
    if budget and any(budget.stops):
        return [b._replace(applies=False, why="agents stopped to tell of their data, to keep a budget") for b in found]
    return found
