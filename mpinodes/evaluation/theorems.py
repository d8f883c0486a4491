"""The bounds of theorems, for record and summary."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

import numpy as np

from mpinodes.core import Bound
from mpinodes.runlog.log import Variable, Variables
from mpinodes.summary.summary import BoundSummary, times


def variables(bounds: Sequence[Bound]) -> Variables:
    """Return the bounds as variables of record.h5."""
    return {bound.variable: Variable(("horizon",), bound.values, bound.name) for bound in bounds}


def beside(bound: Bound, measured: Variable | None) -> BoundSummary:
    """Return a bound and the measured value at the last horizon; without a measured value the bound does not apply."""
    value, most = float(bound.values[-1]), float(np.max(measured.values[-1])) if measured else None
    return BoundSummary(
        name=bound.name, of=bound.of, label=measured.label if measured else bound.of,
        unit=measured.unit if measured else "", variable=bound.variable, value=value, measured=most,
        times=times(value, most) if isfinite(value) else None, applies=bound.applies and measured is not None,
        why_not=bound.why if measured else f"this run has no {bound.of}",
    )  # fmt: skip
