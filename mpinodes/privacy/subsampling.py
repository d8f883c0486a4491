"""Compute the privacy cost of a noised vector that uses a secret random batch of the samples, instead of all samples.

The vector is a sum over the samples of the batch, plus noise. Secret coins draw the batch, by one of two schemes:

- *Poisson* sampling takes each sample with probability q, independently of the other samples.
- *Fixed-size* sampling takes b of n samples.

The public functions return pure ε or bounds on a Rényi curve (the Rényi divergences D_a at the orders a of
`curves.ORDERS`); `by_two_zero_outs` returns ε at δ for a replaced sample.

Let P0 be the distribution of the vector if the changed sample is not in the batch, and P1 the distribution if it is. P1
is P0 shifted by at most `x` noise scales.

- If a sample of a Poisson batch is zeroed (zero-out adjacency), (1 − q) P0 + q P1 is compared with P0. The curve is the
  larger of the two directions of the divergence. For Gaussian noise, the larger direction is the divergence of the
  mixture from P0 (Mironov, Talwar, Zhang 2019, Theorem 5). A shift of the full size `x` costs at least as much as any
  smaller shift (Zhu, Dong, Wang 2022, Theorem 11).
- If a sample of a batch of fixed size is replaced, the bound is that of Wang, Balle, Kasiviswanathan 2019, Theorem 27.

Some exact formulas need an integer order a. Between integers, (a − 1) D_a is interpolated, which gives an upper bound
because (a − 1) D_a is convex in a.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import floor

import numpy as np

from mpinodes.core.events import Kind, Sampling
from mpinodes.core.messages import Vector
from mpinodes.privacy.curves import LOST, ORDERS, laplace_rdp, pure_rdp

EXACT_UP_TO = 24.0  # largest order at which `poisson_gaussian_rdp` integrates; above, it uses binomial sums
TAIL = 14.0  # integrals end this many standard deviations of the Gaussian noise beyond the peaks of the integrand
MOST_CENTRAL = 256  # central moments up to this order sharpen the bound of fixed-size sampling
STEP = 0.1  # of the trapezoidal rule, in standard deviations, for x ≤ 1; above, the step is STEP / x
LARGEST = 20.0, 5.0  # Gaussian shifts up to which Poisson and fixed-size sampling are computed; above, this takes long
SMALL = 1e-4  # if a·|R − 1| in `_moment` is below this number, a series replaces a difference


@lru_cache(maxsize=4096)
def poisson_gaussian_rdp(rate: float, x: float) -> Vector:
    """Return an upper bound on the Rényi curve (orders,) of Gaussian noise on the sum of a Poisson batch.

    Adjacent data differ in one zeroed sample. The bound is nearly exact up to the order `EXACT_UP_TO` and at all
    integer orders. At all other orders the bound is interpolated.

    Args:
        rate: q, the probability with which each sample is taken; 1 means that the batch has all samples.
        x: the L2 change of the sum if a sample of the batch is zeroed, in standard deviations of the noise; above 0.
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
    """Return log(1 − q + q L), where q is `rate`, and `log_ratio` is the logarithm of the likelihood ratio L."""
    return np.asarray(np.logaddexp(np.log1p(-rate), np.log(rate) + log_ratio))


def _moment(a: float, log_ratio: Vector, log_weight: Vector) -> float:
    """Return log E[R^a], where E is a weighted sum over points, and R is a likelihood ratio with E[R] = 1.

    Args:
        a: the order, above 1.
        log_ratio: (points,) log R.
        log_weight: (points,) the logarithms of the weights.
    """
    # E[R^a] − 1 = E[R^a − 1 − a (R − 1)]. No term of the right side is negative, so no digits are lost.
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
    """Return log E[(1 − q + q L)^a] for an integer a, by its binomial sum; q is `rate`.

    L is the likelihood ratio of N(x, 1) to N(0, 1), and E is the mean over N(0, 1).
    """
    from scipy.special import gammaln, logsumexp

    k = np.arange(a + 1)
    log_choose = gammaln(a + 1) - gammaln(k + 1) - gammaln(a - k + 1)
    return float(logsumexp(log_choose + (a - k) * np.log1p(-rate) + k * np.log(rate) + k * (k - 1) * x**2 / 2))


def _by_integers(orders: Vector, moment: Callable[[int], float]) -> list[float]:
    """Return an upper bound on a log-moment at each order, which is exact at integer orders.

    Between two integers the log-moment, which is convex in the order, is interpolated linearly.

    Args:
        orders: the orders.
        moment: maps an integer order to the log-moment.
    """
    moments = []
    for a in orders.tolist():
        low = floor(a)
        share = a - low
        moments.append((1 - share) * moment(low) + (share * moment(low + 1) if share else 0.0))
    return moments


@lru_cache(maxsize=4096)
def poisson_laplace_rdp(rate: float, x: float) -> Vector:
    """Return an upper bound on the Rényi curve (orders,) of Laplace noise on the sum of a Poisson batch.

    Adjacent data differ in one zeroed sample. If the sum moves in one coordinate only, the bound is nearly exact.

    Args:
        rate: q, the probability with which each sample is taken; 1 means that the batch has all samples.
        x: the L1 change of the sum if a sample of the batch is zeroed, in scales of the noise.
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
    """Return an upper bound on the Rényi curve (orders,) of Gaussian noise on the sum of a batch of fixed size.

    Adjacent data differ in one replaced sample. Each entry is the bound of Wang, Balle, Kasiviswanathan 2019, Theorem
    27, or the divergence with all samples if that is smaller.

    Args:
        rate: b/n, the share of the samples that a batch contains; 1 means that the batch has all samples.
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
    """Return log E[(L − 1)^k] for even k.

    L is the likelihood ratio of N(x, 1) to N(0, 1), and E is the mean over N(0, 1).
    """
    from scipy.special import logsumexp

    y = np.arange(-TAIL, k * x + TAIL, STEP * min(1.0, 1 / x))
    with np.errstate(divide="ignore", over="ignore"):
        log_ratio = np.log(np.abs(np.expm1(x * y - x**2 / 2)))
    return float(logsumexp(k * log_ratio - y**2 / 2) + np.log(y[1] - y[0]) - np.log(2 * np.pi) / 2)


def amplified_pure(rate: Vector, epsilon: Vector) -> Vector:
    """Return the pure ε of noised sums over secret batches: ln(1 + q (e^ε − 1)) for the rate q, or ε if q is 0.

    In adjacent data, a sample of a Poisson batch is zeroed, or a sample of a batch of fixed size is replaced. Source:
    Balle, Barthe, Gaboardi 2018, Theorems 8 and 9.

    Args:
        rate: the rate q of each batch; 0 if the batch is public.
        epsilon: ε, the pure ε of each noised sum if its batch had all samples.
    """
    if not np.any(rate):
        return epsilon
    drawn = np.where(rate > 0, rate, 1.0)
    small = np.log1p(drawn * np.expm1(np.minimum(epsilon, 700)))
    return np.asarray(np.where(rate > 0, np.where(epsilon < 700, small, epsilon + np.log(drawn)), epsilon))


def sampled_rdp(kind: float, sampling: float, rate: float, pure: float, rho: float) -> Vector:
    """Return an upper bound on the Rényi curve (orders,) of a noised sum over a secret batch.

    The bound is inf for Gaussian noise with a shift above `LARGEST`, and for other noise without a finite pure ε,
    unless `rho` is 0.

    Args:
        kind: the distribution of the noise, a `Kind`.
        sampling: how the batch is drawn, a `Sampling` other than NONE.
        rate: the probability with which a sample is taken, or the share of the samples that a batch of fixed size has.
        pure: the pure ε of the noised sum if its batch had all samples.
        rho: the ρ of zCDP of the noised sum if its batch had all samples; 0 gives a curve of zeros.
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
    """Return ε at δ for a replaced sample, computed as the privacy loss of two zeroed samples.

    If one zeroed sample costs ε' at δ', the replaced sample costs 2 ε' at (1 + e^ε') δ'. δ' is chosen nearly as large
    as δ allows. The result is inf if no δ' is found.

    Args:
        epsilon_of: maps δ' to the ε' of one zeroed sample; ε' does not grow with δ'.
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
