"""The noise of a run against the law that its events name, and against itself.

Every test is exact, or errs toward no alarm, and counts all its comparisons (a union bound): of scale and law, over
all draws and over those of every agent, round, vector and coordinate and whatever two of these have in common; of
draws that come again, anywhere; of signs and sizes that go together, at every distance in rounds, agents and
coordinates.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from math import log
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

from mpinodes.auditing.draws import NoiseDraws
from mpinodes.auditing.statistics import signs_agree
from mpinodes.core import Vector

AXES = {1: "round", 2: "agent", 3: "vector", 4: "coordinate"}  # of a `NoiseDraws`'s arrays, beside the runs
PERIODS = range(2, 13)  # of rounds, in which a fault may come again
LAGS = 4  # rounds apart, for which every two coordinates are compared
PAIRS, COLUMNS, LARGEST = 64, 600, 1 << 21  # agents times vectors; these times coordinates; numbers that are compared
CANDIDATES = 500  # comparisons, of those furthest off, whose p-values are exact


class Check(NamedTuple):
    """One test of the noise.

    Attributes:
        name: of what was tested.
        p: how probable something as extreme is where all is as it should be, all comparisons of this test counted.
    """

    name: str
    p: float


class NoiseTests(NamedTuple):
    """All tests of the noise.

    Attributes:
        draws: how many numbers.
        ratio: their mean size over what it should be.
        checks: none where there is no noise.
    """

    draws: int
    ratio: float
    checks: list[Check]

    def fails(self, alpha: float) -> list[Check]:
        """Those that sound noise fails with probability alpha, all together."""
        return [check for check in self.checks if check.p * len(self.checks) < alpha]


def examine(drawn: NoiseDraws) -> NoiseTests:
    """Test the noise."""
    if drawn.broken:
        return NoiseTests(drawn.number, np.nan, [Check("said something that is not finite", 0.0)])
    if not drawn.number:
        return NoiseTests(0, 1.0, [])
    checks = [*_scale(drawn), *_law(drawn), *_signs(drawn), *_repeats(drawn), *_dependence(drawn)]
    return NoiseTests(drawn.number, drawn.ratio, checks)


def cells() -> Iterator[tuple[int, ...]]:
    """The axes that a family of cells is told apart by: none, one, two, ..."""
    for many in range(len(AXES) + 1):
        yield from combinations(AXES, many)


def _named(what: str, kept: tuple[int, ...]) -> str:
    return f"{what} of each {', '.join(AXES[axis] for axis in kept)}" if kept else what


def _families(drawn: NoiseDraws, largest: int = 4) -> Iterator[tuple[int, ...]]:
    """Those that differ in their cells, of as many axes at most."""
    shape = drawn.sizes.shape
    return (kept for kept in cells() if len(kept) <= largest and all(shape[axis] > 1 for axis in kept))


# --------------------------------------------------------------------------------------------------------------- scale
def _scale(drawn: NoiseDraws) -> Iterator[Check]:
    """Sums, which have exact laws: of vectors where cells hold whole ones, else of sizes."""
    there = np.isfinite(drawn.totals)
    totals, freedom = np.where(there, drawn.totals, 0.0), np.where(there, drawn.freedom, 0.0)
    held = np.isfinite(drawn.sizes)
    sizes, numbers = 2 * np.where(held, drawn.sizes, 0.0), 2.0 * held
    for kept in _families(drawn):
        one, two = (sizes, numbers) if 4 in kept else (totals, freedom)
        yield Check(_named("scale", kept), _of_sums(*(_summed(array, kept) for array in (one, two))))
    by_round = [_summed(array, (1, 2)) for array in (totals, freedom)]
    yield Check("scale of rounds in turn", _of_sums(*(_in_turn(array, drawn.rounds) for array in by_round)))
    yield Check("scale of stretches of rounds", _of_sums(*(_stretches(array) for array in by_round)))


def _summed(array: Vector, kept: tuple[int, ...]) -> Vector:
    return np.asarray(array.sum(axis=tuple(axis for axis in range(array.ndim) if axis not in kept)))


def _of_sums(totals: Vector, freedom: Vector) -> float:
    """The least two-sided p-value of chi-squared sums, times how many there are."""
    asked = freedom > 0
    half, shape = totals[asked] / 2, freedom[asked] / 2
    p = 2 * np.minimum(special.gammainc(shape, half), special.gammaincc(shape, half))
    return _union(p)


def _union(p: Vector) -> float:
    """The least of some p-values, times how many there are."""
    return float(min(1.0, np.min(p, initial=1.0) * max(p.size, 1)))


def _in_turn(by_round: Vector, rounds: NDArray[np.int64]) -> Vector:
    """Of (T, n): sums over every second, third, ... round, from each first one, of all agents and of each."""
    whole = np.column_stack([by_round, by_round.sum(axis=1)])
    periods = [p for p in PERIODS if p < len(rounds)]
    return np.concatenate([whole[rounds % p == k].sum(axis=0) for p in periods for k in range(p)] or [whole[:0].sum(0)])


def _stretches(by_round: Vector) -> Vector:
    """Of (T, n): sums over stretches of 2, 4, 8, ... rounds, half as far apart, of all agents and of each."""
    whole = np.column_stack([by_round, by_round.sum(axis=1)])
    ends = np.concatenate([np.zeros((1, whole.shape[1])), np.cumsum(whole, axis=0)])
    found, length = [whole[:0].sum(axis=0)], 2
    while length < len(whole):
        starts = np.arange(0, len(whole) - length + 1, length // 2)
        found.append((ends[starts + length] - ends[starts]).ravel())
        length *= 2
    return np.concatenate(found)


# ----------------------------------------------------------------------------------------------------------------- law
def _law(drawn: NoiseDraws) -> Iterator[Check]:
    """The sizes' distribution, and that of numbers with their signs."""
    for kept in _families(drawn, 2):
        low, high = (_rows(array, kept) for array in (drawn.sizes + drawn.slack, drawn.sizes - drawn.slack))
        yield Check(_named("law", kept), _of_sizes(low, high))
    signed = drawn.signs * -np.expm1(-drawn.sizes)  # uniform on [-1, 1]
    for kept in _families(drawn, 1):
        rows = _rows(np.where(drawn.signs == 0, np.nan, (1 + signed) / 2), kept)
        lost = float(np.max(drawn.slack, initial=0.0))
        yield Check(_named("law, signs and all,", kept), _union(_kolmogorov(rows, rows, lost)))


def _rows(array: Vector, kept: tuple[int, ...]) -> Vector:
    """By cell, its numbers in ascending order, nan at the end."""
    ordered = np.moveaxis(array, kept, range(len(kept)))
    cells = int(np.prod(ordered.shape[: len(kept)], dtype=int))
    return np.sort(ordered.reshape(cells, -1), axis=1)


def _of_sizes(low: Vector, high: Vector) -> float:
    """The least p-value of all cells: of the distance to the law, and of the 1st, 2nd, 4th, ... number of each end.

    Args:
        low: (cells, numbers) ascending, as large as rounding may have it.
        high: as small.
    """
    counts = np.isfinite(low).sum(axis=1)
    low, high = low[counts > 0], np.maximum(high[counts > 0], 0.0)
    counts = counts[counts > 0]
    if not len(counts):
        return 1.0
    found = [_kolmogorov(-np.expm1(-low), -np.expm1(-high), 0.0)]
    cell, k = np.arange(len(counts)), 1
    while k <= counts.max():
        asked = counts >= k
        n, rows = counts[asked], cell[asked]
        least, most = low[rows, k - 1], high[rows, k - 1]
        found.append(2 * special.betainc(k, n - k + 1, -np.expm1(-least)))  # so small
        found.append(2 * special.betaincc(k, n - k + 1, -np.expm1(-most)))
        least, most = low[rows, n - k], high[rows, n - k]
        found.append(2 * special.betainc(k, n - k + 1, np.exp(-most)))  # so large
        found.append(2 * special.betaincc(k, n - k + 1, np.exp(-least)))
        k *= 2
    return min(1.0, min(float(p.min()) * p.size for p in found) * len(found))


def _kolmogorov(low: Vector, high: Vector, lost: float) -> Vector:
    """P-values of the largest distance to the uniform law, by row (Massart 1990).

    Args:
        low: (cells, numbers) ascending, as large as rounding may have it; nan at the end.
        high: as small.
        lost: what rounding adds to the distance besides.
    """
    counts = np.isfinite(low).sum(axis=1)
    places = np.arange(1, low.shape[1] + 1)
    with np.errstate(all="ignore"):
        above = np.nan_to_num(places / counts[:, None] - low, nan=0.0, posinf=0.0).max(axis=1, initial=0.0)
        below = np.nan_to_num(high - (places - 1) / counts[:, None], nan=0.0, neginf=0.0).max(axis=1, initial=0.0)
    far = np.maximum(np.maximum(above, below) - lost, 0.0)
    return np.asarray(np.minimum(1.0, 2 * np.exp(-2 * counts * far**2)))


# --------------------------------------------------------------------------------------------------------------- signs
def _signs(drawn: NoiseDraws) -> Iterator[Check]:
    """Signs and sizes are fair coins, and go with nothing: not with each other, nor with what the noise was added to.

    What is noised was fixed before its noise was drawn, so that agreements with it are binomial too.
    """
    signs, large = drawn.signs, _large(drawn)
    coins = {"signs": signs, "signs and sizes together": signs * large, "signs and what is noised": signs * drawn.clean}
    coins["sizes and what is noised"] = large * drawn.clean
    for what, coin in coins.items():
        used = np.abs(coin)
        p = []
        for kept in _families(drawn, 2):
            p.append(_worst(_summed(coin, kept), _summed(used, kept)))
        yield Check(what, min(1.0, min(p) * len(p)))


def _large(drawn: NoiseDraws) -> Vector:
    """1 where a size is above its median, −1 below; 0: there is none, or it cannot be told."""
    off = drawn.sizes - log(2)
    return np.where(np.isfinite(off) & (np.abs(off) > drawn.slack), np.sign(off), 0.0)


def _worst(products: Vector, trials: Vector) -> float:
    """The least p-value of sums of fair independent signs, times how many there are.

    Those furthest off in standard deviations have exact ones; what is left out can only be a false alarm less.
    """
    asked = trials > 0.5
    products, trials = np.rint(products[asked]), np.rint(trials[asked])
    if not len(products):
        return 1.0
    off = products**2 / trials
    top = np.argpartition(off, -CANDIDATES)[-CANDIDATES:] if len(off) > CANDIDATES else np.arange(len(off))
    p = signs_agree((products[top] + trials[top]) / 2, trials[top])
    return float(min(1.0, p.min() * len(products)))


# ------------------------------------------------------------------------------------------------------------- repeats
def _repeats(drawn: NoiseDraws) -> Iterator[Check]:
    """Sizes that come again anywhere, and vectors whose sizes all do, in whatever order.

    Two independent sizes are closer than s with probability below s. So k disjoint pairs among N are with probability
    λ^k/k! at most, λ = s N²/2; as many as there are in a row are counted.
    """
    held = np.isfinite(drawn.sizes)
    sizes, slack = drawn.sizes[held], drawn.slack[held]
    order = np.argsort(sizes)
    sizes, slack = sizes[order], slack[order]
    expected = log(max(2 * len(sizes) * float(slack.sum()), 1e-300))
    yield Check("numbers that come again", _of_pairs(_disjoint(np.diff(sizes) <= slack[1:] + slack[:-1]), expected))
    d = drawn.sizes.shape[-1]
    if d == 1:
        return
    whole = held.all(axis=-1)
    vectors, most = np.sort(drawn.sizes[whole], axis=1), float(drawn.slack[whole].max(initial=0.0))
    vectors = vectors[np.argsort(vectors.sum(axis=1))]
    near = (np.abs(np.diff(vectors, axis=0)) <= 2 * most).all(axis=1)
    m = len(vectors)
    expected = float(2 * log(max(m, 1)) - log(2) + special.gammaln(d + 1) + d * log(4 * most))
    yield Check("vectors that come again", _of_pairs(_disjoint(near), expected))


def _disjoint(near: Any) -> int:
    """How many disjoint pairs of neighbors there are, given which neighbors are near."""
    edges = np.diff(np.concatenate([[0], near.astype(np.int8), [0]]))
    lengths = np.flatnonzero(edges == -1) - np.flatnonzero(edges == 1)
    return int(((lengths + 1) // 2).sum())


def _of_pairs(pairs: int, log_expected: float) -> float:
    return float(np.exp(min(0.0, pairs * log_expected - special.gammaln(pairs + 1)))) if pairs else 1.0


# ---------------------------------------------------------------------------------------------------------- dependence
def _dependence(drawn: NoiseDraws) -> Iterator[Check]:
    """Whether signs, or sizes, agree too often, or too seldom, between agents, rounds, vectors and coordinates.

    The products of signs that are one distance apart are fair and independent too, since these pairs close no circle.
    """
    coins = {"signs": _in_columns(drawn.signs), "sizes": _in_columns(_large(drawn))}
    for what, coin in coins.items():
        for where, p in _together(coin).items():
            yield Check(f"{what} {where}", p)


def _in_columns(coin: Vector) -> Vector:
    """(rounds of all runs, agents and vectors, coordinates), as many rounds as are compared."""
    runs, rounds, n, k, d = coin.shape
    columns = coin.reshape(runs * rounds, n * k, d)
    return columns[: max(2, LARGEST // (n * k * d))]


def _together(coin: Vector) -> dict[str, float]:
    _, streams, d = coin.shape
    used = np.abs(coin)
    found = {}
    near, far = _at_all_distances(coin, used)
    found["between neighbors"], found["at a distance"] = near, far
    if 1 < streams <= PAIRS:
        found["between agents"], found["between agents at a lag"] = _between_streams(coin, used)
    if 1 < streams * d <= COLUMNS:
        found["between coordinates"] = _between_columns(coin, used)
    if streams > 1:
        beside = [(a[:, 1:] * a[:, :-1]).sum(axis=(0, 1)) for a in (coin, used)]
        found["between agents, by coordinate"] = _worst(*beside)
    return found


def _at_all_distances(coin: Vector, used: Vector) -> tuple[float, float]:
    """Over all pairs at one distance in rounds, agents and coordinates: of near ones, and of all."""
    shape = tuple(2 * size - 1 for size in coin.shape)
    products, trials = (_correlated(a, a, shape) for a in (coin, used))
    # A distance and its opposite are one: of the first axis the half from 0 on is kept.
    products, trials = products[: coin.shape[0]], trials[: coin.shape[0]]
    trials = trials.copy()
    trials[0, 0, 0] = 0
    beside = np.ix_(range(min(LAGS + 1, products.shape[0])), *(_about(size) for size in shape[1:]))
    return _worst(products[beside], trials[beside]), _worst(products, trials)


def _about(size: int) -> list[int]:
    return sorted({0, 1 % size, size - 1})


def _correlated(one: Vector, other: Vector, shape: tuple[int, ...]) -> Vector:
    """Sums of products at all distances, by Fourier transforms."""
    padded = tuple(_even(size) for size in shape)
    axes = tuple(range(len(shape)))
    spectrum = np.conj(np.fft.rfftn(one, padded, axes)) * np.fft.rfftn(other, padded, axes)
    whole = np.fft.irfftn(spectrum, padded, axes)
    for axis, size in enumerate(shape):  # of each axis, distances from 0 on, then those below 0
        half = (size + 1) // 2
        keep = [*range(half), *range(padded[axis] - half + 1, padded[axis])]
        whole = np.take(whole, keep, axis)
    return np.asarray(np.rint(whole))


def _even(size: int) -> int:
    """The next size that a transform is fast for."""
    from scipy.fft import next_fast_len

    fast = int(next_fast_len(size, real=True))
    return fast + fast % 2 if size > 1 else 1


def _between_streams(coin: Vector, used: Vector) -> tuple[float, float]:
    """Over the coordinates of every two agents, or vectors: in the same round, and at all lags."""
    rounds, streams, _ = coin.shape
    at_once = [np.einsum("tid,tjd->ij", a, a)[np.triu_indices(streams, 1)] for a in (coin, used)]
    length = _even(2 * rounds - 1)
    spectra = [np.fft.rfft(a, length, axis=0) for a in (coin, used)]
    p = []
    for i in range(streams):
        lagged = [np.fft.irfft((np.conj(s[:, i : i + 1]) * s).sum(axis=2), length, axis=0) for s in spectra]
        p.append(_worst(*(a[1:rounds] for a in lagged)))
    return _worst(*at_once), min(1.0, min(p) * streams)


def _between_columns(coin: Vector, used: Vector) -> float:
    """Of every two coordinates, of all agents and vectors, a few rounds apart at most."""
    columns = [a.reshape(len(a), -1) for a in (coin, used)]
    upper = np.triu_indices(columns[0].shape[1], 1)
    p = [_worst(*((a.T @ a)[upper] for a in columns))]
    p += [_worst(*((a[:-lag].T @ a[lag:]).ravel() for a in columns)) for lag in range(1, min(LAGS, len(coin) - 1) + 1)]
    return min(1.0, min(p) * len(p))


# --------------------------------------------------------------------------------------------------------------- power
def power(factor: float, draws: int, linear: bool, alpha: float) -> float:
    """With which probability so many draws, of noise whose scale is off by a factor, fail the test of all of them.

    Args:
        factor: the noise's scale over what it should be.
        draws: how many.
        linear: whether sizes are summed, as of Laplace noise; else squares.
        alpha: with which the test fails where the factor is 1.
    """
    law = stats.chi2(2 * draws if linear else draws)
    grown = factor if linear else factor**2
    return float(law.cdf(law.ppf(alpha / 2) / grown) + law.sf(law.isf(alpha / 2) / grown))


def least_found(draws: int, linear: bool, alpha: float, wanted: float) -> float:
    """The smallest share that a scale can be too small by to be found with a probability; 1: none is."""
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (low, middle) if power(1 - middle, draws, linear, alpha) >= wanted else (middle, high)
    return high


def draws_needed(off: float, linear: bool, alpha: float, wanted: float) -> int:
    """How many draws find a scale too small by a share with a probability."""
    low, high = 1, 2
    while power(1 - off, high, linear, alpha) < wanted:
        low, high = high, 2 * high
    while high - low > max(1, low // 100):
        middle = (low + high) // 2
        low, high = (low, middle) if power(1 - off, middle, linear, alpha) >= wanted else (middle, high)
    return high
