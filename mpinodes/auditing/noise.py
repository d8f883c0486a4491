"""Extract the noise of a run from its messages, and test whether the noise has the distribution that the run states.

Each message has an event, which states the distribution and the scale of the message's noise. The tests examine

- the scale of the noise: over all draws, and for each round, agent, vector and coordinate;
- the distribution of all draws;
- the signs, which must be independent of the values before noise;
- draws that occur twice in the run, and vectors whose draws all occur twice, perhaps in another order;
- dependence between neighbors: consecutive rounds, agents, vectors or coordinates.

A test is either exact or has a smaller probability of a false alarm than stated. Each test corrects for the number of
its comparisons by a union bound.

The noise of each coordinate is first transformed to a sign and a *size*. If the noise has the stated distribution, the
sign is fair and the size is exponential with mean 1. So the same tests fit every distribution:

- For Laplace noise, the size is the absolute value of the noise divided by its scale.
- For Gaussian noise z, divided by its standard deviation, the size is −ln P(|N| ≥ |z|) with N standard normal.
- For noise that is drawn as a norm and a direction, the norm has the distribution Gamma(d). It is first mapped to the
  norm of d independent normal numbers, and the noise is then treated as Gaussian noise.

All these maps are exact. Messages are known only up to rounding: `slack` bounds how far rounding may have moved a size.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil, log
from typing import Any, NamedTuple

import numpy as np
from scipy import special, stats
from scipy.optimize import brentq

from mpinodes.auditing.transcripts import Replayed, Transcript, clean_vectors, fresh_seed, reseeded
from mpinodes.core import Kind, Queries, Query, Solve, Vector
from mpinodes.rounds.step import Releaser

RELEASES, DRAWS = 30_000, 150_000  # about the largest numbers of noised releases and of draws of `drawn_again`
ROUNDS = 256  # `drawn_again` chooses rounds from at least this number of rounds
LEAST_SHARE = 0.2  # if few messages carry noise, more rounds are drawn, as if at least this share carried noise
EPSILON = 2.0**-52  # rounding unit of doubles
COARSE = 2.0**-48  # relative error of sizes: a few bits more than generators and logarithms lose
RADIAL = (Kind.PURE, Kind.GAMMA_NORM)  # noise that is drawn as a norm and a direction
AXES = {1: "round", 2: "agent", 3: "vector", 4: "coordinate"}  # axes of arrays of `NoiseDraws`, after the runs


class Check(NamedTuple):
    """Hold the result of one test of the noise.

    Attributes:
        name: what was tested.
        p: p-value of the test, corrected for all comparisons of this test.
    """

    name: str
    p: float


@dataclass(frozen=True)
class NoiseDraws:
    """Hold the noise of R runs of T rounds, with n agents and k vectors of d coordinates in each message.

    The noise of each coordinate is transformed to a sign, and to a size that is exponential with mean 1 if the noise
    has the stated distribution.

    Attributes:
        signs: (R, T, n, k, d) the sign of the noise, −1 or 1; 0 if there is no noise or if rounding hides the sign.
        sizes: (R, T, n, k, d) the size of the noise; nan if there is no noise.
        slack: (R, T, n, k, d) how far rounding may have moved a size.
        totals: (R, T, n, k) for each vector, a number that has a chi-squared distribution if the noise has the stated
            scale; nan if there is no noise.
        freedom: (R, T, n, k) the degrees of freedom of this chi-squared distribution.
        linear: whether totals are proportional to the noise scale. If not, totals are proportional to the square of the
            scale.
        clean: (R, T, n, k, d) the signs of the values before noise; (1, T, n, k, d) if all runs have the same values.
        broken: the number of draws that are not finite.
    """

    signs: Vector
    sizes: Vector
    slack: Vector
    totals: Vector
    freedom: Vector
    linear: bool
    clean: Vector
    broken: int

    @property
    def number(self) -> int:
        """Return the number of draws; the noise of one coordinate is one draw."""
        return int(np.isfinite(self.sizes).sum())

    @property
    def ratio(self) -> float:
        """Return the noise scale as estimated from all draws, divided by the noise scale that the mechanism states."""
        ratio = float(np.nansum(self.totals) / self.freedom[np.isfinite(self.totals)].sum())
        return ratio if self.linear else float(np.sqrt(ratio))

    @cached_property
    def checks(self) -> list[Check]:
        """Run all tests of the noise and return their results; empty if there is no noise.

        If a released number is not finite, the only result is a failed test that says so.
        """
        if self.broken:
            return [Check("numbers that are not finite", 0.0)]
        return [*_scale(self), *_law(self), *_signs_and_neighbors(self), *_repeats(self)] if self.number else []

    def fails(self, alpha: float) -> list[Check]:
        """Return the failed tests. If the noise is correct, the probability that any test fails is at most alpha."""
        return [check for check in self.checks if check.p * len(self.checks) < alpha]


def drawn_in(run: Transcript, agents: list[Replayed]) -> NoiseDraws:
    """Extract the noise of a run from its recorded messages and the replayed messages of all agents.

    - If an agent sends a rounded minimizer, its noise cannot be extracted, and is left out.
    - If the agents noise gradients, the noise is drawn again from the noise key, because the record does not hold it.
    """
    rounds, n, k, d = len(run.frames), len(agents), run.events.vectors, run.setup.dimension
    noise, rounding, value = (np.zeros((1, rounds, n, k, d)) for _ in range(3))
    places = [agent.agent for agent in agents]
    scale, kind = run.events.scale[None, :, places].copy(), run.events.kind[None, :, places].copy()
    lattice = run.events.event("rounding_l1") / d
    for i, agent in enumerate(agents):
        for t, message in enumerate(agent.messages, 1):
            releases = np.split(agent.said(t), k)
            for part, (drawn, release) in enumerate(zip(agent.drawn(t), releases, strict=True)):
                place = 0, t - 1, i, part
                if drawn is None:
                    kind[place] = Kind.CLEAN
                    continue
                noise[place], value[place] = drawn, release - drawn
                rounding[place] = lattice[t - 1, agent.agent, part] + EPSILON * (np.abs(release) + np.abs(value[place]))
                if isinstance(message, Solve):  # the noise of a minimizer is added to its center
                    value[place] = message.center
                    rounding[place] += message.step * message.tolerance
    return standardized(noise, rounding, value, scale, kind)


def drawn_again(run: Transcript, agents: list[Replayed], seed: int) -> NoiseDraws:
    """Draw the noise of the run's messages many more times, with other noise keys, for tests with more draws.

    The mechanism, its settings and the messages before noise are those of the run. Noise is drawn for evenly spaced
    rounds. For rounds after the last recorded round, the recorded messages are used again.

    Args:
        run: the run.
        agents: the replays of all agents.
        seed: the seed of the audit.
    """
    recorded, n, k, d = len(run.frames), len(agents), run.events.vectors, run.setup.dimension
    noised = np.asarray((run.events.scale > 0).any(axis=2))
    most = max(2 * n, int(min(RELEASES, DRAWS // (k * d)) / max(LEAST_SHARE, noised.mean())))
    last = max(recorded, ROUNDS)
    chosen = np.unique(np.linspace(1, last, min(last, max(2, most // n))).round().astype(np.int64))
    runs = max(1, most // (n * len(chosen)))
    shape = (runs, len(chosen), n, k, d)
    noise, rounding, scale, kind = np.full(shape, np.nan), np.zeros(shape), np.zeros(shape[:4]), np.zeros(shape[:4])
    value = np.zeros((1, *shape[1:]))
    out = np.empty(k * d)
    for r in range(runs):
        setup = reseeded(run.setup, fresh_seed(seed, r, 3))
        for i, agent in enumerate(agents):
            releaser = Releaser(setup, agent.agent, run.setup.losses(agent.agent))
            for place, t in enumerate(chosen.tolist()):
                source = (t - 1) % recorded
                message = agent.messages[source]
                if isinstance(message, Solve):  # the mechanism adds noise to the center
                    l1, leaks = np.sqrt(d) * message.l2, message.leaks
                    message = Query(message.center, l1, message.l2, message.uses, leaks, message.calibration)
                if not noised[source, agent.agent] or not isinstance(message, (Query, Queries)):
                    continue
                if setup.algorithm.noises_gradients and isinstance(message, Queries):
                    message = replace(message, uses=t)
                events, _ = releaser.release(message, t, None, out)
                noise[r, place, i], value[0, place, i] = out.reshape(k, d), clean_vectors(message)
                for part, event in enumerate(events):
                    scale[r, place, i, part], kind[r, place, i, part] = event.scale, event.kind
                    rounding[r, place, i, part] = event.rounding_l1 / d
    rounding += EPSILON * (np.abs(noise) + np.abs(value))
    noise -= value
    return standardized(noise, rounding, value, scale, kind)


def standardized(noise: Vector, rounding: Vector, value: Vector, scale: Vector, kind: Vector) -> NoiseDraws:
    """Transform noise to signs and sizes. Correct noise gets fair signs, and exponential sizes with mean 1.

    Args:
        noise: (R, T, n, k, d) the extracted noise of R runs, T rounds, n agents and k vectors of d coordinates.
        rounding: (R, T, n, k, d) bounds on the rounding error of the noise.
        value: (R, T, n, k, d) the values before noise; (1, T, n, k, d) if all runs have the same values.
        scale: (R, T, n, k) the noise scale that the run states.
        kind: (R, T, n, k) the distribution that the run states; `CLEAN` if there is no noise or the noise cannot be
            extracted.
    """
    there = (scale > 0) & (kind != Kind.CLEAN)
    d = noise.shape[-1]
    with np.errstate(all="ignore"):
        scales = np.where(there, scale, np.nan)[..., None]
        scaled, lost = noise / scales, rounding / scales
        broken = there[..., None] & ~np.isfinite(scaled)
        scaled[broken.any(axis=-1)] = np.nan
        totals, freedom = np.full(scale.shape, np.nan), np.full(scale.shape, float(d))
        normal = scaled.copy()
        for law in np.unique(kind[there]):
            mine = there & (kind == law)
            if law == Kind.GAUSSIAN:
                totals[mine] = np.vecdot(scaled[mine], scaled[mine])
                continue
            norms = np.abs(scaled[mine]).sum(axis=-1) if law == Kind.LAPLACE else np.linalg.norm(scaled[mine], axis=-1)
            totals[mine], freedom[mine] = 2 * norms, 2 * d
            if law in RADIAL:  # map norms from Gamma(d) to the norm of d normal numbers, quantile by quantile
                low, high = special.gammainc(d, norms), special.gammaincc(d, norms)
                squares = np.where(low < 0.5, special.gammaincinv(d / 2, low), special.gammainccinv(d / 2, high))
                normal[mine] *= np.where(norms > 0, np.sqrt(2 * squares) / norms, 0.0)[:, None]
        laplace = (kind == Kind.LAPLACE)[..., None]
        sizes = np.where(laplace, np.abs(scaled), -np.log(2) - special.log_ndtr(-np.abs(normal)))
        # The derivative of a size in |z| is the hazard rate, at most |z| + 1.
        slack = (1 + np.abs(normal)) * np.where(np.isin(kind, RADIAL)[..., None], 4 * np.sqrt(d), 1.0) * lost
        slack = np.where(np.isfinite(sizes), slack + COARSE * (1 + sizes), 0.0)
        signs = np.where(sizes > slack, np.sign(scaled), 0.0)
    linear = not (kind[there] == Kind.GAUSSIAN).any()
    clean = np.nan_to_num(np.sign(value))
    return NoiseDraws(signs, np.maximum(sizes, 0.0), slack, totals, freedom, linear, clean, int(broken.sum()))


def _sums(label: str, first: Vector, second: Vector) -> Iterator[tuple[str, Vector, Vector]]:
    """Yield the sums of two arrays: first over all draws, then for each round, agent, vector and coordinate.

    A yielded item has a label, the sums of `first`, and the sums of `second`. An axis with only one entry is left out.
    """
    yield label, first.sum(keepdims=True).ravel(), second.sum(keepdims=True).ravel()
    for axis in range(1, first.ndim):
        if first.shape[axis] > 1:
            rest = tuple(k for k in range(first.ndim) if k != axis)
            yield f"{label} of each {AXES[axis]}", first.sum(axis=rest), second.sum(axis=rest)


def _scale(drawn: NoiseDraws) -> Iterator[Check]:
    """Test the noise scale by sums that have a chi-squared distribution if the scale is correct.

    There is a sum over all draws, and a sum for each round, agent, vector and coordinate.
    """
    whole, held = np.isfinite(drawn.totals), np.isfinite(drawn.sizes)
    sums = [*_sums("scale", np.where(whole, drawn.totals, 0.0), np.where(whole, drawn.freedom, 0.0))]
    sums += [row for row in _sums("scale", 2 * np.where(held, drawn.sizes, 0.0), 2.0 * held) if AXES[4] in row[0]]
    for label, totals, freedom in sums:
        law, total = stats.chi2(freedom[freedom > 0]), totals[freedom > 0]
        yield Check(label, _union(2 * np.minimum(law.cdf(total), law.sf(total))))


def _union(p: Vector) -> float:
    """Return the p-value of several tests by a union bound: the least p-value times the number of tests, at most 1."""
    return float(min(1.0, np.min(p, initial=1.0) * max(p.size, 1)))


def _law(drawn: NoiseDraws) -> Iterator[Check]:
    """Test the distribution of all noise sizes (Kolmogorov-Smirnov tests), and the smallest and the largest size."""
    held = np.isfinite(drawn.sizes)
    low, high = (np.sort((drawn.sizes + sign * drawn.slack)[held]) for sign in (1, -1))  # sizes ± rounding
    n, high = len(low), np.maximum(high, 0.0)
    steps = np.arange(n + 1) / n
    apart = max((steps[1:] - stats.expon.cdf(low)).max(), (stats.expon.cdf(high) - steps[:-1]).max())
    yield Check("law", float(min(1.0, 2 * stats.ksone.sf(apart, n))))  # of both one-sided tests, the smaller p-value
    yield Check("the smallest number", 2 * min(0.5, -np.expm1(-n * low[0]), np.exp(-n * high[0])))
    above, below = (special.xlog1py(n, -np.exp(-size)) for size in (high[-1], low[-1]))
    yield Check("the largest number", 2 * min(0.5, -np.expm1(above), np.exp(below)))


def _signs_and_neighbors(drawn: NoiseDraws) -> Iterator[Check]:
    """Test that noise signs are fair and independent of the values before noise, and that neighbors are independent.

    - Signs: the number of positive noise signs must be binomial, and so must the number of noise signs that equal the
      sign of the value before noise.
    - Neighbors are the draws of two consecutive rounds, agents, vectors or coordinates. The signs of neighbors must be
      independent, and so must the sizes of neighbors. Of a size, only the sign of its difference from the median is
      tested.
    """
    off = drawn.sizes - log(2)  # ln 2 is the median of a size
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
        most = (np.abs(total[tosses > 0]) + trials) / 2  # number of heads or of tails, whichever is larger
        yield Check(label, _union(np.minimum(1.0, 2 * stats.binom.sf(most - 1, trials, 0.5))))


def _repeats(drawn: NoiseDraws) -> Iterator[Check]:
    """Test for noise sizes that occur twice, and for vectors whose sizes all occur twice, perhaps in another order.

    Two sizes count as equal if they differ by at most the sum of their rounding errors.
    """

    def bounded(near: Any, log_expected: float) -> float:
        """Return a bound on the probability that independent noise has as many close pairs as `near`.

        Two noise sizes are close if they differ by at most the sum of their rounding errors. If `near` has k disjoint
        close pairs, the bound is λ^k/k!, where λ bounds the expected number of close pairs.

        Args:
            near: for each pair of neighbors in sorted order, whether the two neighbors are close.
            log_expected: ln λ.
        """
        edges = np.diff(np.concatenate([[0], near.astype(np.int8), [0]]))
        lengths = np.flatnonzero(edges == -1) - np.flatnonzero(edges == 1)
        pairs = int(((lengths + 1) // 2).sum())
        return float(np.exp(min(0.0, pairs * log_expected - special.gammaln(pairs + 1)))) if pairs else 1.0

    held = np.isfinite(drawn.sizes)
    sizes, slack = drawn.sizes[held], drawn.slack[held]
    order = np.argsort(sizes)
    sizes, slack = sizes[order], slack[order]
    # The probability that two independent sizes are close is below the sum of their rounding errors.
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
    """Return the probability that the test of the noise scale notices a wrong scale.

    Args:
        factor: the noise scale divided by the stated scale.
        draws: the number of draws.
        linear: whether the test sums sizes, as for Laplace noise, instead of squares.
        alpha: the probability of a false alarm of the test.
    """
    law = stats.chi2(2 * draws if linear else draws)
    grown = factor if linear else factor**2
    return float(law.cdf(law.ppf(alpha / 2) / grown) + law.sf(law.isf(alpha / 2) / grown))


def least_found(draws: int, linear: bool, alpha: float, wanted: float) -> float:
    """Return the smallest relative error of a too small noise scale that the test detects with probability `wanted`.

    A result near 1 means that the test can detect only that almost all noise is missing.

    Args:
        draws: the number of draws.
        linear: whether the test sums sizes, as for Laplace noise, instead of squares.
        alpha: the probability of a false alarm of the test.
        wanted: the probability of detection.
    """
    return 1 - float(brentq(lambda factor: power(factor, draws, linear, alpha) - wanted, 1e-100, 1.0))


def draws_needed(off: float, linear: bool, alpha: float, wanted: float) -> int:
    """Return about how many draws the test of the noise scale needs to detect a scale that is too small.

    Args:
        off: the relative error: 0.05 if the noise scale is 5 % too small.
        linear: whether the test sums sizes, as for Laplace noise, instead of squares.
        alpha: the probability of a false alarm of the test.
        wanted: the probability of detection.
    """
    return ceil(brentq(lambda draws: power(1 - off, draws, linear, alpha) - wanted, 1, 1e12, xtol=0.5))
