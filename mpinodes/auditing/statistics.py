"""Exact statistics: bounds and p-values that hold at any number of samples."""

from __future__ import annotations

from math import inf, log
from typing import NamedTuple

import numpy as np
from scipy import stats

from mpinodes.core import Vector
from mpinodes.privacy.curves import gdp_epsilon


def least_share(hits: int, tries: int, alpha: float) -> float:
    """A bound from below on a probability, wrong with probability alpha at most (Clopper, Pearson 1934)."""
    return float(stats.beta.ppf(alpha, hits, tries - hits + 1)) if hits else 0.0


def largest_share(hits: int, tries: int, alpha: float) -> float:
    """A bound from above, likewise."""
    return 1 - least_share(tries - hits, tries, alpha)


class Shown(NamedTuple):
    """What a game shows from below.

    Attributes:
        pure: ε that no pure ε-DP release could stay below.
        at_delta: the same of (ε, δ)-DP.
    """

    pure: float
    at_delta: float


CERTAIN = Shown(inf, inf)


def told_apart(own: Vector, other: Vector, delta: float, alpha: float, gaussian: bool) -> Shown:
    """From log-likelihood ratios of runs on two adjacent data sets, (N,) each; both wrong with probability alpha.

    The rule is chosen on the first half of the runs and judged on the second. Where all noise is Gaussian it is fixed,
    and ε at δ follows from the trade-off of the two errors (Nasr et al. 2023), which the best rule has at 0.
    """
    half = len(own) // 2
    if gaussian:
        hits, alarms = int((own[half:] >= 0).sum()), int((other[half:] >= 0).sum())
        found = _bound(hits, alarms, len(own) - half, 0.0, alpha)
        low, high = _shares(hits, alarms, len(own) - half, alpha)
        mu = float(stats.norm.ppf(low) - stats.norm.ppf(high))
        return Shown(found, gdp_epsilon(mu, delta) if mu > 0 else 0.0)
    one, two = (own, other), (-other, -own)  # which of the two is guessed where the ratio is large
    choices = [(tau, side) for side in (one, two) for tau in _thresholds(side[0][:half])]
    tau, side = max(choices, key=lambda c: _bound(*_counts(c, 0, half), half, 0.0, alpha))
    counts, rest = _counts((tau, side), half, len(own)), len(own) - half
    return Shown(_bound(*counts, rest, 0.0, alpha), _bound(*counts, rest, delta, alpha))


def _thresholds(ratios: Vector) -> list[float]:
    chosen = np.linspace(0, len(ratios) - 1, 50).astype(int)
    found: list[float] = np.unique(np.sort(ratios)[chosen]).tolist()
    return found


def _counts(choice: tuple[float, tuple[Vector, Vector]], start: int, end: int) -> tuple[int, int]:
    # Equal shifts give ratios that are equal but for rounding.
    tau, (own, other) = choice
    if np.isfinite(tau):
        tau -= 1e-9 * (1 + abs(tau))
    return int((own[start:end] >= tau).sum()), int((other[start:end] >= tau).sum())


def _shares(hits: int, alarms: int, tries: int, alpha: float) -> tuple[float, float]:
    return least_share(hits, tries, alpha / 2), largest_share(alarms, tries, alpha / 2)


def _bound(hits: int, alarms: int, tries: int, delta: float, alpha: float) -> float:
    low, high = _shares(hits, alarms, tries, alpha)
    return max(0.0, log((low - delta) / high)) if low > delta else 0.0


def guessed(right: int, guesses: int, alpha: float) -> float:
    """Pure ε from guesses of independent fair secrets, abstentions not counted (Steinke, Nasr, Jagielski 2023).

    Under pure ε-DP each is right with probability e^ε/(1 + e^ε) at most, whatever was guessed before.
    """
    low = least_share(right, guesses, alpha) if guesses else 0.0
    return max(0.0, log(low / (1 - low))) if low > 0 else 0.0


def signs_agree(agreements: Vector, trials: Vector) -> Vector:
    """P-values, elementwise, of as many agreements of independent fair signs or more, or as few or fewer."""
    extreme = np.maximum(agreements, trials - agreements)
    return np.asarray(np.minimum(1.0, 2 * stats.binom.sf(extreme - 1, trials, 0.5)))
