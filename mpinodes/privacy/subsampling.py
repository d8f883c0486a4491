"""Rényi curves of mechanisms that see a secret random batch instead of all samples.

A round draws its batch by secret coins, and releases the sum of the batch's bounded contributions with noise. Two
schemes: *Poisson* takes each sample with probability q on its own; *fixed-size* takes b of n samples. Let P0 be the law
of the release without the changed sample, and P1 its law with the sample: P0 shifted by at most `x` noise scales.

Poisson sampling under zero-out adjacency compares (1 - q) P0 + q P1 with P0. Of the two directions of the divergence,
mixture against base is the larger (Mironov, Talwar, Zhang 2019, Theorem 5), and one shift of the full size dominates
any other shift (Zhu, Dong, Wang 2022, Theorem 11). Fixed-size sampling under replace-one adjacency follows Wang, Balle,
Kasiviswanathan 2019, Theorem 27.

All curves are over `curves.ORDERS`. Integrals are computed up to the order `EXACT_UP_TO`. Above, (a - 1) D_a, which is
convex in a, is interpolated from above between integer orders.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import floor

import numpy as np

from mpinodes.core.events import Kind, Sampling
from mpinodes.core.messages import Vector
from mpinodes.privacy.curves import LOST, ORDERS, laplace_rdp, pure_rdp

EXACT_UP_TO = 24.0  # orders whose integrals are computed; above, the binomial sum at integer orders is exact
TAIL = 14.0  # standard deviations of Gaussian noise beyond which nothing is integrated
MOST_CENTRAL = 256  # orders up to which central moments sharpen the bound of fixed-size sampling
STEP = 0.1  # of the trapezoidal rule, in standard deviations; its error is below exp(-2π·π/STEP)
LARGEST = 20.0, 5.0  # shifts up to which Poisson and fixed-size sampling are priced; above, integrals take long
SMALL = 1e-4  # of an exponent, below which a series replaces a difference


@lru_cache(maxsize=4096)
def poisson_gaussian_rdp(rate: float, x: float) -> Vector:
    """Return the Rényi curve (orders,) of a Poisson-subsampled Gaussian mechanism under zero-out.

    Args:
        rate: q, with which each sample is taken.
        x: the L2 change of the sum by one sample, in standard deviations of the noise.
    """
    if rate == 1:
        return np.asarray(ORDERS * x**2 / 2)
    low = ORDERS <= EXACT_UP_TO
    curve = np.empty(len(ORDERS))
    step = STEP * min(1.0, 1 / x)
    y = np.arange(-TAIL, EXACT_UP_TO * x + TAIL, step)
    weight = -(y**2) / 2 + np.log(step / np.sqrt(2 * np.pi))
    log_ratio = _mixed(rate, x * y - x**2 / 2)
    curve[low] = [_moment(a, log_ratio, weight) for a in ORDERS[low]]
    curve[~low] = _by_integers(ORDERS[~low], lambda a: _binomial(a, rate, x))
    return np.asarray((curve + LOST) / (ORDERS - 1))


def _mixed(rate: float, log_ratio: Vector) -> Vector:
    """Return log(1 - q + q L), the log-ratio of a mixture to its base, for L given by its logarithm."""
    return np.asarray(np.logaddexp(np.log1p(-rate), np.log(rate) + log_ratio))


def _moment(a: float, log_ratio: Vector, log_weight: Vector) -> float:
    """Return log E[R^a] of a likelihood ratio R, given by logarithms as the weights are.

    E[R] = 1, so E[R^a] - 1 = E[R^a - 1 - a (R - 1)]. Every term of this sum is positive, so no digits are lost.
    """
    power = a * log_ratio
    with np.errstate(over="ignore", invalid="ignore"):
        change = np.expm1(log_ratio)
        series = a * (a - 1) / 2 * change**2 * (1 + (a - 2) / 3 * change)
        excess = np.where(np.abs(a * change) < SMALL, series, np.expm1(power) - a * change)
    if np.isfinite(excess).all():
        return float(np.log1p((np.exp(log_weight) * excess).sum()))
    from scipy.special import logsumexp

    return float(logsumexp(power + log_weight))


def _binomial(a: int, rate: float, x: float) -> float:
    """Return log E[(1 - q + q L)^a] of the Gaussian likelihood ratio L, by its binomial sum."""
    from scipy.special import gammaln, logsumexp

    k = np.arange(a + 1)
    log_choose = gammaln(a + 1) - gammaln(k + 1) - gammaln(a - k + 1)
    return float(logsumexp(log_choose + (a - k) * np.log1p(-rate) + k * np.log(rate) + k * (k - 1) * x**2 / 2))


def _by_integers(orders: Vector, moment: Callable[[int], float]) -> list[float]:
    """Return log-moments at some orders, interpolated from above between integer orders."""
    moments = []
    for a in orders.tolist():
        low = floor(a)
        share = a - low
        moments.append((1 - share) * moment(low) + (share * moment(low + 1) if share else 0.0))
    return moments


@lru_cache(maxsize=4096)
def poisson_laplace_rdp(rate: float, x: float) -> Vector:
    """Return the Rényi curve (orders,) of a Poisson-subsampled Laplace mechanism under zero-out.

    Both directions are computed, and the larger one is returned.

    Args:
        rate: q, with which each sample is taken.
        x: the L1 change of the sum by one sample, in scales of the noise.
    """
    if rate == 1:
        return np.asarray(laplace_rdp(np.array([x]))[0])
    nodes, weights = np.polynomial.legendre.leggauss(200)
    z = np.concatenate([[0.0], (nodes + 1) * x / 2, [x]])  # below 0, within [0, x], above x
    mass = np.log(np.concatenate([[0.5], np.exp(-z[1:-1]) * weights * x / 4, [np.exp(-x) / 2]]))
    log_ratio = _mixed(rate, 2 * z - x)  # of the mixture to the base; below 0 and above x it is constant
    upward = np.array([_moment(a, log_ratio, mass) for a in ORDERS])
    downward = np.array([_moment(a, -log_ratio, mass + log_ratio) for a in ORDERS])
    return np.asarray((np.maximum(upward, downward) + LOST) / (ORDERS - 1))


@lru_cache(maxsize=4096)
def fixed_gaussian_rdp(rate: float, x: float) -> Vector:
    """Return an upper bound on the Rényi curve (orders,) of a Gaussian mechanism on a batch of fixed size.

    Adjacent data differ in one sample that is replaced (Wang, Balle, Kasiviswanathan 2019, Theorem 27).

    Args:
        rate: b/n, the share of the samples that a batch holds.
        x: the L2 change of the sum if one sample of the batch is replaced, in standard deviations of the noise.
    """
    if rate == 1:
        return np.asarray(ORDERS * x**2 / 2)
    bounds = np.array(_by_integers(ORDERS, lambda a: _without_replacement(a, rate, x)))
    return np.asarray(np.minimum((bounds + LOST) / (ORDERS - 1), ORDERS * x**2 / 2))


def _without_replacement(a: int, rate: float, x: float) -> float:
    from scipy.special import gammaln, logsumexp

    if a == 1:
        return 0.0
    k = np.arange(2, a + 1)
    log_choose = gammaln(a + 1) - gammaln(k + 1) - gammaln(a - k + 1)
    terms = np.log(2) + k * (k - 1) * x**2 / 2
    terms[0] = min(np.log(4 * np.expm1(x**2)) if x**2 < 700 else np.inf, terms[0])
    for j in k[1 : MOST_CENTRAL - 1].tolist():
        central = (_central(j - j % 2, x) + _central(j + j % 2, x)) / 2
        terms[j - 2] = min(np.log(4) + central, terms[j - 2])
    return float(logsumexp(np.append(0.0, log_choose + k * np.log(rate) + terms)))


@lru_cache(maxsize=4096)
def _central(k: int, x: float) -> float:
    """Return log E[(L - 1)^k] for even k, with L the likelihood ratio of a Gaussian and its shift by x."""
    from scipy.special import logsumexp

    y = np.arange(-TAIL, k * x + TAIL, STEP * min(1.0, 1 / x))
    with np.errstate(divide="ignore", over="ignore"):
        log_ratio = np.log(np.abs(np.expm1(x * y - x**2 / 2)))
    return float(logsumexp(k * log_ratio - y**2 / 2) + np.log(y[1] - y[0]) - np.log(2 * np.pi) / 2)


def poisson_pure(rate: float, epsilon: float) -> float:
    """Return the pure ε of a Poisson-subsampled ε-DP mechanism: ln(1 + q (e^ε - 1))."""
    return float(np.log1p(rate * np.expm1(epsilon))) if epsilon < 700 else epsilon + float(np.log(rate))


def amplified_pure(rate: Vector, epsilon: Vector) -> Vector:
    """Return the pure ε of ε-DP releases of a secret batch: ln(1 + q (e^ε - 1)); ε where the rate q is 0.

    For zero-out a batch is drawn by Poisson sampling; for replace-one it has a fixed size (Balle, Barthe, Gaboardi
    2018, Theorems 8 and 9).
    """
    if not np.any(rate):
        return epsilon
    drawn = np.where(rate > 0, rate, 1.0)
    small = np.log1p(drawn * np.expm1(np.minimum(epsilon, 700)))
    return np.asarray(np.where(rate > 0, np.where(epsilon < 700, small, epsilon + np.log(drawn)), epsilon))


def sampled_rdp(kind: float, sampling: float, rate: float, pure: float, rho: float) -> Vector:
    """Return a bound on the Rényi curve (orders,) of a release of a secret batch; inf where amplification gives none.

    Args:
        kind: the law of the noise, a `Kind`.
        sampling: how the batch is drawn, a `Sampling` other than NONE.
        rate: the rate of the sampling.
        pure: pure ε of the release if it had all samples; for Laplace noise also the shift in scales.
        rho: ρ of the same; for Gaussian noise half the squared shift in standard deviations.
    """
    is_fixed = sampling == Sampling.FIXED
    if rho == 0:
        return np.zeros(len(ORDERS))
    if kind == Kind.GAUSSIAN:
        x, of_gaussian = float(np.sqrt(2 * rho)), fixed_gaussian_rdp if is_fixed else poisson_gaussian_rdp
        return of_gaussian(rate, x) if x <= LARGEST[is_fixed] else np.full(len(ORDERS), np.inf)
    if not np.isfinite(pure):
        return np.full(len(ORDERS), np.inf)
    if kind == Kind.LAPLACE and not is_fixed and pure < 700:
        return poisson_laplace_rdp(rate, pure)
    return np.asarray(pure_rdp(amplified_pure(np.array([rate]), np.array([pure])))[0])


def by_two_zero_outs(epsilon_of: Callable[[float], float], delta: float) -> float:
    """Return ε at δ under replace-one, which is two zero-outs: 2 ε' with (1 + e^ε') δ' = δ and ε' = `epsilon_of(δ')`.

    Args:
        epsilon_of: ε' at δ' under zero-out, which falls as δ' grows.
        delta: δ.
    """
    from scipy.optimize import brentq

    def excess(log_part: float) -> float:
        return float(log_part + np.logaddexp(0.0, epsilon_of(float(np.exp(log_part)))) - np.log(delta))

    top = float(np.log(delta / 2))
    # A numerical composition has ε = inf at δ below the mass that it truncates.
    least = next((low for low in (-690.0, -100.0, -60.0, -45.0, -35.0, -28.0, -22.0) if excess(low) < 0), None)
    if least is None:
        return np.inf
    part = top if excess(top) <= 0 else float(brentq(excess, least, top, xtol=1e-9))
    return 2 * epsilon_of(float(np.exp(part - 1e-9)))
