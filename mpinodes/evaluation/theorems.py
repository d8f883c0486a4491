"""The theorems' bounds in record and summary."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, isfinite, nan

import numpy as np

from mpinodes.core import Bound
from mpinodes.runlog.reading import Variable
from mpinodes.runlog.record import Variables
from mpinodes.summary.combining import Json, first_words


def variables(bounds: Sequence[Bound]) -> Variables:
    """Of record.h5."""
    return {bound.variable: Variable(("horizon",), bound.values, bound.name) for bound in bounds}


def section(bounds: Sequence[Bound], measured: Variables) -> list[Json]:
    """Each beside what it bounds, at the last horizon."""
    return [_beside(bound, measured.get(bound.of)) for bound in bounds]


def _beside(bound: Bound, measured: Variable | None) -> Json:
    """A bound beside what was measured; of a quantity that this run has not, it does not apply."""
    value = float(bound.values[-1])
    most = float(np.max(measured.values[-1])) if measured else nan
    return {
        "name": bound.name, "of": bound.of, "label": measured.label if measured else bound.of,
        "unit": measured.unit if measured else "", "variable": bound.variable, "value": value, "measured": most,
        "times": _times(value, most), "applies": bound.applies and measured is not None,
        "why_not": bound.why if measured else f"this run has no {bound.of}",
    }  # fmt: skip


def _times(value: float, measured: float) -> float | None:
    """How many times what was measured it is; None: 0 or less was, or it is no number."""
    return value / measured if measured > 0 and isfinite(value) else None


def combine(repeats: Sequence[list[Json]]) -> list[Json]:
    """A theorem bounds a mean over the noise: both sides in the mean."""
    combined = []
    for same in zip(*repeats, strict=True):
        value, measured = (float(np.mean([bound[key] for bound in same])) for key in ("value", "measured"))
        combined.append(
            {key: same[0][key] for key in ("name", "of", "label", "unit", "variable")}
            | {"value": value, "measured": measured, "times": _times(value, measured if value < inf else 0.0)}
            | {"applies": all(bound["applies"] for bound in same)}
            | {"why_not": first_words([bound["why_not"] for bound in same])}
        )
    return combined
