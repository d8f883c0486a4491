"""Compute confidence bounds that hold for any number of samples, without approximations."""

from __future__ import annotations

from math import inf, log
from typing import NamedTuple

import numpy as np
from scipy import stats

from mpinodes.core import Vector
from mpinodes.privacy.curves import gdp_epsilon


def least_share(hits: int, tries: int, alpha: float) -> float:
    """Return a lower confidence bound on a probability, from `hits` in `tries` (Clopper, Pearson 1934).

    The bound is wrong (above the true probability of a hit) with probability at most alpha.
    """
    return float(stats.beta.ppf(alpha, hits, tries - hits + 1)) if hits else 0.0


def largest_share(hits: int, tries: int, alpha: float) -> float:
    """Return an upper confidence bound on a probability, from `hits` in `tries` (Clopper, Pearson 1934).

    The bound is wrong (below the true probability of a hit) with probability at most alpha.
    """
    return 1 - least_share(tries - hits, tries, alpha)


class Shown(NamedTuple):
    """Hold the lower bounds on ε that a game gives.

    Attributes:
        pure: a lower bound on the ε of all messages that the adversary sees, for pure ε-DP.
        at_delta: a lower bound on the ε of all messages that the adversary sees, for (ε, δ)-DP.
    """

    pure: float
    at_delta: float


CERTAIN = Shown(inf, inf)


def told_apart(own: Vector, other: Vector, delta: float, alpha: float, gaussian: bool, sampled: bool = False) -> Shown:
    """Return lower bounds on pure ε, and on ε at δ, from the runs of a game on two adjacent data sets.

    The adversary decides between the data sets by a threshold on the log-likelihood ratio of a run. The success of the
    threshold, on the second half of the runs, gives the bounds.

    - If `gaussian` is true: the threshold is 0, which is optimal. ε at δ follows from the trade-off between the two
      error probabilities (Nasr et al. 2023).
    - If `gaussian` is false: the first half of the runs chooses the threshold with the best bound on pure ε. If
      `sampled` is true, the first half chooses the threshold with the best bound on ε at δ.

    Args:
        own: (N,) the log-likelihood ratios of N runs on the run's data.
        other: (N,) the ratios of N runs on adjacent data.
        delta: δ.
        alpha: a bound on the probability that at least one of the two bounds is wrong.
        gaussian: whether all noise is Gaussian and all batches are public.
        sampled: whether the batches are secret.
    """
    half, aim = len(own) // 2, delta if sampled else 0.0

    def shares(tau: float, side: tuple[Vector, Vector], runs: slice) -> tuple[float, float]:
        """Return bounds on P(ratio ≥ tau): a lower bound on the first data set, an upper bound on the second.

        Args:
            tau: the threshold on the log-likelihood ratio.
            side: the ratios of the runs on the first data set, and the ratios of the runs on the second data set.
            runs: selects the runs that are counted.
        """
        hits, alarms = (int((ratios[runs] >= tau).sum()) for ratios in side)
        return least_share(hits, len(own[runs]), alpha / 2), largest_share(alarms, len(own[runs]), alpha / 2)

    def bound(low: float, high: float, delta: float = 0.0) -> float:
        """Return a lower bound on ε at `delta` from the probabilities of one event on two adjacent data sets.

        The bound is ln((low − delta)/high), or 0 if this is negative.

        Args:
            low: a lower bound on the probability of an event on one data set.
            high: an upper bound on the probability of the same event on the adjacent data set.
            delta: δ.
        """
        return max(0.0, log((low - delta) / high)) if low > delta else 0.0

    tau, side = 0.0, (own, other)
    if not gaussian:
        chosen = np.linspace(0, half - 1, 50).astype(int)
        sides = (own, other), (-other, -own)  # large ratios suggest the run's data, small ratios adjacent data
        # Subtract a margin from tau, because ratios that should be equal may differ by rounding.
        choices = [
            (tau - 1e-9 * (1 + abs(tau)) if np.isfinite(tau) else tau, side)
            for side in sides
            for tau in np.unique(np.sort(side[0][:half])[chosen]).tolist()
        ]
        tau, side = max(choices, key=lambda choice: bound(*shares(choice[0], choice[1], slice(half)), aim))
    low, high = shares(tau, side, slice(half, None))
    if not gaussian:
        return Shown(bound(low, high), bound(low, high, delta))
    mu = float(stats.norm.ppf(low) - stats.norm.ppf(high))
    return Shown(bound(low, high), gdp_epsilon(mu, delta) if mu > 0 else 0.0)


def guessed(right: int, guesses: int, alpha: float) -> float:
    """Return a lower bound on pure ε from the number of right guesses of independent fair secrets.

    Under pure ε-DP each guess is right with probability at most e^ε/(1 + e^ε), whatever the earlier guesses were
    (Steinke, Nasr, Jagielski 2023).

    Args:
        right: the number of right guesses.
        guesses: the number of guesses; secrets that were not guessed do not count.
        alpha: the probability of a wrong bound.
    """
    low = least_share(right, guesses, alpha) if guesses else 0.0
    return max(0.0, log(low / (1 - low))) if low > 0 else 0.0
