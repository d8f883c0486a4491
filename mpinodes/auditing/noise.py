"""Tests of a run's noise: against the law that its events name, and for independence.

Every test is exact or errs toward no alarm, and corrects for its number of comparisons by a union bound. There are
tests of scale (of all draws and of each round, agent, vector and coordinate), of the law of all draws, of signs (which
must be independent of the values noised), of repeated draws anywhere, and of dependence between neighbors, such as one
round and the next.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil, log
from typing import Any, NamedTuple

import numpy as np
from scipy import special, stats
from scipy.optimize import brentq

from mpinodes.auditing.draws import NoiseDraws
from mpinodes.auditing.statistics import signs_agree
from mpinodes.core import Vector

EXPONENTIAL = stats.expon()
AXES = {1: "round", 2: "agent", 3: "vector", 4: "coordinate"}  # axes of arrays of `NoiseDraws`, after the runs


class Check(NamedTuple):
    """One test of the noise.

    Attributes:
        name: what was tested.
        p: p-value of the test, corrected for all comparisons of this test.
    """

    name: str
    p: float


class NoiseTests(NamedTuple):
    """All tests of the noise.

    Attributes:
        draws: the number of draws.
        ratio: the measured scale divided by the stated scale.
        checks: the tests; none if there is no noise.
    """

    draws: int
    ratio: float
    checks: list[Check]

    def fails(self, alpha: float) -> list[Check]:
        """Return the failed tests; correct noise fails any of them with probability at most alpha."""
        return [check for check in self.checks if check.p * len(self.checks) < alpha]


def examine(drawn: NoiseDraws) -> NoiseTests:
    """Run all tests of the noise."""
    if drawn.broken:
        return NoiseTests(drawn.number, np.nan, [Check("numbers that are not finite", 0.0)])
    if not drawn.number:
        return NoiseTests(0, 1.0, [])
    checks = [*_scale(drawn), *_law(drawn), *_signs_and_neighbors(drawn), *_repeats(drawn)]
    return NoiseTests(drawn.number, drawn.ratio, checks)


def _sums(label: str, first: Vector, second: Vector) -> Iterator[tuple[str, Vector, Vector]]:
    """Yield the sums of two arrays over all draws, and over the draws of each round, agent, ..., each with a label."""
    yield label, first.sum(keepdims=True).ravel(), second.sum(keepdims=True).ravel()
    for axis in range(1, first.ndim):
        if first.shape[axis] > 1:
            rest = tuple(k for k in range(first.ndim) if k != axis)
            yield f"{label} of each {AXES[axis]}", first.sum(axis=rest), second.sum(axis=rest)


def _scale(drawn: NoiseDraws) -> Iterator[Check]:
    """Test sums, which have chi-squared laws: of whole vectors, and of the sizes of each coordinate."""
    whole, held = np.isfinite(drawn.totals), np.isfinite(drawn.sizes)
    sums = [*_sums("scale", np.where(whole, drawn.totals, 0.0), np.where(whole, drawn.freedom, 0.0))]
    sums += [row for row in _sums("scale", 2 * np.where(held, drawn.sizes, 0.0), 2.0 * held) if AXES[4] in row[0]]
    for label, totals, freedom in sums:
        law, total = stats.chi2(freedom[freedom > 0]), totals[freedom > 0]
        yield Check(label, _union(2 * np.minimum(law.cdf(total), law.sf(total))))


def _union(p: Vector) -> float:
    """Return the smallest p-value times the number of p-values."""
    return float(min(1.0, np.min(p, initial=1.0) * max(p.size, 1)))


def _law(drawn: NoiseDraws) -> Iterator[Check]:
    """Test the distribution of all sizes (Kolmogorov, Smirnov), and its smallest and largest size."""
    held = np.isfinite(drawn.sizes)
    low, high = (np.sort((drawn.sizes + sign * drawn.slack)[held]) for sign in (1, -1))  # bounds, given rounding
    n, high = len(low), np.maximum(high, 0.0)
    too_small = stats.ks_1samp(low, EXPONENTIAL.cdf, alternative="greater").pvalue
    too_large = stats.ks_1samp(high, EXPONENTIAL.cdf, alternative="less").pvalue
    yield Check("law", float(2 * min(0.5, too_small, too_large)))
    yield Check("the smallest number", 2 * min(0.5, -np.expm1(-n * low[0]), np.exp(-n * high[0])))
    above, below = (special.xlog1py(n, -np.exp(-size)) for size in (high[-1], low[-1]))
    yield Check("the largest number", 2 * min(0.5, -np.expm1(above), np.exp(below)))


def _signs_and_neighbors(drawn: NoiseDraws) -> Iterator[Check]:
    """Test that signs are fair coins, independent of the values noised, of each other and of sizes' neighbors.

    The values were fixed before the noise was drawn, so the number of agreements with their signs is binomial too.
    Neighbors are one round and the next, one agent and the next, and so on for each axis. Products of neighboring fair
    independent signs are fair and independent too, because neighbors in a line form no cycle. Sizes have the sign of
    their distance to the median.
    """
    off = drawn.sizes - log(2)  # ln 2 is the median
    large = np.where(np.isfinite(off) & (np.abs(off) > drawn.slack), np.sign(off), 0.0)
    agreeing = drawn.signs * drawn.clean
    coins = [*_sums("signs", drawn.signs, np.abs(drawn.signs))]
    coins += _sums("signs and what is noised", agreeing, np.abs(agreeing))
    for label, coin in (("signs", drawn.signs), ("sizes", large)):
        for axis, name in AXES.items():
            lines = np.moveaxis(coin, axis, 0)
            products = lines[1:] * lines[:-1]
            if products.size:
                coins.append(next(_sums(f"{label} of each {name} and the next", products, np.abs(products))))
    for label, total, tosses in coins:
        trials = tosses[tosses > 0]
        yield Check(label, _union(signs_agree((total[tosses > 0] + trials) / 2, trials)))


def _repeats(drawn: NoiseDraws) -> Iterator[Check]:
    """Test for sizes that occur twice anywhere, and for vectors whose sizes all occur again, in any order.

    Two independent sizes are closer than s with probability below s. So the probability of k disjoint close pairs among
    N sizes is at most λ^k/k!, λ = s N²/2. The pairs counted are neighbors in sorted order.
    """

    def bounded(near: Any, log_expected: float) -> float:
        """Bound the p-value of neighbors that are close by λ^k/k! for k disjoint pairs, given ln λ."""
        edges = np.diff(np.concatenate([[0], near.astype(np.int8), [0]]))
        lengths = np.flatnonzero(edges == -1) - np.flatnonzero(edges == 1)
        pairs = int(((lengths + 1) // 2).sum())
        return float(np.exp(min(0.0, pairs * log_expected - special.gammaln(pairs + 1)))) if pairs else 1.0

    held = np.isfinite(drawn.sizes)
    sizes, slack = drawn.sizes[held], drawn.slack[held]
    order = np.argsort(sizes)
    sizes, slack = sizes[order], slack[order]
    expected = log(max(2 * len(sizes) * float(slack.sum()), 1e-300))
    yield Check("numbers that come again", bounded(np.diff(sizes) <= slack[1:] + slack[:-1], expected))
    d = drawn.sizes.shape[-1]
    if d == 1:
        return
    whole = held.all(axis=-1)
    vectors, most = np.sort(drawn.sizes[whole], axis=1), float(drawn.slack[whole].max(initial=0.0))
    vectors = vectors[np.argsort(vectors.sum(axis=1))]
    near = (np.abs(np.diff(vectors, axis=0)) <= 2 * most).all(axis=1)
    expected = float(2 * log(max(len(vectors), 1)) - log(2) + special.gammaln(d + 1) + d * log(4 * most))
    yield Check("vectors that come again", bounded(near, expected))


def power(factor: float, draws: float, linear: bool, alpha: float) -> float:
    """Compute the probability that the scale test over all draws fails if the noise's scale is wrong by a factor.

    Args:
        factor: the noise's scale divided by the stated scale.
        draws: the number of draws.
        linear: whether the test sums sizes, as for Laplace noise, instead of squares.
        alpha: the test's probability of a false alarm.
    """
    law = stats.chi2(2 * draws if linear else draws)
    grown = factor if linear else factor**2
    return float(law.cdf(law.ppf(alpha / 2) / grown) + law.sf(law.isf(alpha / 2) / grown))


def least_found(draws: int, linear: bool, alpha: float, wanted: float) -> float:
    """Return the smallest relative shortfall of a scale that the test detects with probability `wanted`; 1 if none."""
    return 1 - float(brentq(lambda factor: power(factor, draws, linear, alpha) - wanted, 1e-100, 1.0))


def draws_needed(off: float, linear: bool, alpha: float, wanted: float) -> int:
    """Return how many draws the test needs to detect a relative shortfall `off` with probability `wanted`."""
    return ceil(brentq(lambda draws: power(1 - off, draws, linear, alpha) - wanted, 1, 1e12, xtol=0.5))
