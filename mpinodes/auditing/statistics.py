"""Exact statistics: bounds and p-values that hold for any number of samples."""

from __future__ import annotations

from math import inf, log
from typing import NamedTuple

import numpy as np
from scipy import stats

from mpinodes.core import Vector
from mpinodes.privacy.curves import gdp_epsilon


def least_share(hits: int, tries: int, alpha: float) -> float:
    """Return a lower confidence bound on a probability (Clopper, Pearson 1934).

    The bound is wrong with probability at most alpha.
    """
    return float(stats.beta.ppf(alpha, hits, tries - hits + 1)) if hits else 0.0


def largest_share(hits: int, tries: int, alpha: float) -> float:
    """Return an upper confidence bound on a probability, likewise."""
    return 1 - least_share(tries - hits, tries, alpha)


class Shown(NamedTuple):
    """Lower bounds that a game shows.

    Attributes:
        pure: a release with pure ε-DP needs at least this ε.
        at_delta: a release with (ε, δ)-DP needs at least this ε.
    """

    pure: float
    at_delta: float


CERTAIN = Shown(inf, inf)


def told_apart(own: Vector, other: Vector, delta: float, alpha: float, gaussian: bool) -> Shown:
    """Bound ε from below by log-likelihood ratios of runs on two adjacent data sets, (N,) each.

    Both bounds together are wrong with probability at most alpha. The threshold is chosen on the first half of the runs
    and evaluated on the second half. If all noise is Gaussian the threshold is 0, where the best test has it, and ε at
    δ follows from the trade-off between the two errors (Nasr et al. 2023).
    """
    half = len(own) // 2
    if gaussian:
        hits, alarms = int((own[half:] >= 0).sum()), int((other[half:] >= 0).sum())
        pure = _bound(hits, alarms, len(own) - half, 0.0, alpha)
        low, high = _shares(hits, alarms, len(own) - half, alpha)
        mu = float(stats.norm.ppf(low) - stats.norm.ppf(high))
        return Shown(pure, gdp_epsilon(mu, delta) if mu > 0 else 0.0)
    usual, swapped = (own, other), (-other, -own)  # a large ratio, or a small one, suggests the own data
    chosen = np.linspace(0, half - 1, 50).astype(int)
    choices = [(tau, side) for side in (usual, swapped) for tau in np.unique(np.sort(side[0][:half])[chosen]).tolist()]
    tau, side = max(choices, key=lambda c: _bound(*_counts(c, 0, half), half, 0.0, alpha))
    counts, rest = _counts((tau, side), half, len(own)), len(own) - half
    return Shown(_bound(*counts, rest, 0.0, alpha), _bound(*counts, rest, delta, alpha))


def _counts(choice: tuple[float, tuple[Vector, Vector]], start: int, end: int) -> tuple[int, int]:
    # Equal shifts give ratios that differ by rounding only.
    """Count the hits and the false alarms of a threshold."""
    tau, (own, other) = choice
    if np.isfinite(tau):
        tau -= 1e-9 * (1 + abs(tau))
    return int((own[start:end] >= tau).sum()), int((other[start:end] >= tau).sum())


def _shares(hits: int, alarms: int, tries: int, alpha: float) -> tuple[float, float]:
    return least_share(hits, tries, alpha / 2), largest_share(alarms, tries, alpha / 2)


def _bound(hits: int, alarms: int, tries: int, delta: float, alpha: float) -> float:
    """Return the lower bound on ε from hits and false alarms."""
    low, high = _shares(hits, alarms, tries, alpha)
    return max(0.0, log((low - delta) / high)) if low > delta else 0.0


def guessed(right: int, guesses: int, alpha: float) -> float:
    """Return the pure ε that guesses of independent fair secrets show; abstentions do not count.

    Under pure ε-DP each guess is right with probability at most e^ε/(1 + e^ε), whatever the earlier guesses were
    (Steinke, Nasr, Jagielski 2023).
    """
    low = least_share(right, guesses, alpha) if guesses else 0.0
    return max(0.0, log(low / (1 - low))) if low > 0 else 0.0


def signs_agree(agreements: Vector, trials: Vector) -> Vector:
    """Compute two-sided p-values of numbers of agreements between independent fair signs, elementwise."""
    extreme = np.maximum(agreements, trials - agreements)
    return np.asarray(np.minimum(1.0, 2 * stats.binom.sf(extreme - 1, trials, 0.5)))
