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

    def shares(tau: float, side: tuple[Vector, Vector], runs: slice) -> tuple[float, float]:
        """Return bounds on the probabilities that a ratio of each data set reaches tau: from below and from above."""
        hits, alarms = (int((ratios[runs] >= tau).sum()) for ratios in side)
        return least_share(hits, len(own[runs]), alpha / 2), largest_share(alarms, len(own[runs]), alpha / 2)

    def bound(low: float, high: float, delta: float = 0.0) -> float:
        """Return the lower bound on ε that follows from the bounds on both probabilities."""
        return max(0.0, log((low - delta) / high)) if low > delta else 0.0

    tau, side = 0.0, (own, other)
    if not gaussian:
        chosen = np.linspace(0, half - 1, 50).astype(int)
        sides = (own, other), (-other, -own)  # a large ratio, or a small one, suggests the own data
        # Equal shifts give ratios that differ by rounding only.
        choices = [
            (tau - 1e-9 * (1 + abs(tau)) if np.isfinite(tau) else tau, side)
            for side in sides
            for tau in np.unique(np.sort(side[0][:half])[chosen]).tolist()
        ]
        tau, side = max(choices, key=lambda choice: bound(*shares(choice[0], choice[1], slice(half))))
    low, high = shares(tau, side, slice(half, None))
    if not gaussian:
        return Shown(bound(low, high), bound(low, high, delta))
    mu = float(stats.norm.ppf(low) - stats.norm.ppf(high))
    return Shown(bound(low, high), gdp_epsilon(mu, delta) if mu > 0 else 0.0)


def guessed(right: int, guesses: int, alpha: float) -> float:
    """Return the pure ε that guesses of independent fair secrets show; abstentions do not count.

    Under pure ε-DP each guess is right with probability at most e^ε/(1 + e^ε), whatever the earlier guesses were
    (Steinke, Nasr, Jagielski 2023).
    """
    low = least_share(right, guesses, alpha) if guesses else 0.0
    return max(0.0, log(low / (1 - low))) if low > 0 else 0.0
