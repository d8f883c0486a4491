"""The theorems' bounds in record and summary."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, isfinite
from typing import Any

import numpy as np

from mpinodes.core import Bound
from mpinodes.results.combining import first_words
from mpinodes.results.record import Variable, Variables

Json = dict[str, Any]


def variables(bounds: Sequence[Bound]) -> Variables:
    """Of record.h5."""
    return {bound.variable: Variable(("horizon",), bound.values, bound.name) for bound in bounds}


def section(bounds: Sequence[Bound], measured: Variables) -> list[Json]:
    """Each beside what it bounds, at the last horizon."""
    found = []
    for bound in bounds:
        value, most = float(bound.values[-1]), float(np.max(measured[bound.of].values[-1]))
        found.append(
            {
                "name": bound.name, "of": bound.of, "variable": bound.variable, "value": value, "measured": most,
                "times": _times(value, most), "applies": bound.applies, "why_not": bound.why,
            }
        )  # fmt: skip
    return found


def _times(value: float, measured: float) -> float | None:
    """How many times what was measured it is; None: 0 or less was, or it is no number."""
    return value / measured if measured > 0 and isfinite(value) else None


def combine(repeats: Sequence[list[Json]]) -> list[Json]:
    """A theorem bounds a mean over the noise: both sides in the mean."""
    combined = []
    for same in zip(*repeats, strict=True):
        value, measured = (float(np.mean([bound[key] for bound in same])) for key in ("value", "measured"))
        combined.append(
            {key: same[0][key] for key in ("name", "of", "variable")}
            | {"value": value, "measured": measured, "times": _times(value, measured if value < inf else 0.0)}
            | {"applies": all(bound["applies"] for bound in same)}
            | {"why_not": first_words([bound["why_not"] for bound in same])}
        )
    return combined
