"""Compute the privacy cost of one noised vector in zCDP and Rényi DP, and the ε at δ of the total cost of many vectors.

A Rényi curve is the vector of the Rényi divergences at all orders of `ORDERS`. The axis `orders` of an array is the
axis of these orders.
"""

from __future__ import annotations

import numpy as np

from mpinodes.core.messages import Vector

ROUNDING = 4e-16  # rounding error of a difference of two probabilities, relative to the larger
SMALL = 1e-4  # below this cost logarithms lose most digits of a curve, so a parabola above the curve replaces them
LOST = 1e-15  # rounding error of the logarithms in a curve
ORDERS = np.concatenate([np.linspace(1.1, 4, 30), np.linspace(4.25, 12, 32), np.geomspace(13, 4096, 40)])


def laplace_rdp(x: Vector) -> Vector:
    """Return the Rényi divergences between Laplace noise of scale 1 and the same noise shifted by x, for each x.

    The array has a row for each shift in `x`, and a column for each order of `ORDERS`. The entries are upper bounds.
    For a vector with the L1 sensitivity D1 and noise of scale b in each coordinate, x = D1/b gives upper bounds, too.
    Source: Mironov 2017, Proposition 6.
    """
    # A shift of one coordinate costs at least as much as the same shift split over several coordinates.
    a, x = ORDERS, np.asarray(x, dtype=float)[:, None]
    up, down = np.log(a / (2 * a - 1)) + (a - 1) * x, np.log((a - 1) / (2 * a - 1)) - a * x
    curve = (np.logaddexp(up, down) + LOST) / (a - 1)
    return np.asarray(np.where(x < SMALL, a * x**2 / 2, np.maximum(curve, 0.0)))


def pure_rdp(epsilon: Vector) -> Vector:
    """Return the largest Rényi divergences that an ε-DP mechanism can have: a row for each ε, a column for each order.

    Randomized response has these divergences. The entries are rounded up. If ε is below `SMALL`, the entry at order a
    is the smaller of a ε²/2 and ε. The orders are `ORDERS`.
    """
    a, e = ORDERS, np.asarray(epsilon, dtype=float)[:, None]
    curve = (np.logaddexp(a * e, (1 - a) * e) - np.logaddexp(0.0, e) + LOST) / (a - 1)
    return np.asarray(np.where(e < SMALL, a * e**2 / 2, curve.clip(0.0)).clip(None, e))


def pure_rho(epsilon: Vector) -> Vector:
    """Return the ρ of zCDP of an ε-DP mechanism: ε²/2 (Bun, Steinke 2016)."""
    return np.asarray(epsilon) ** 2 / 2


def shift_rho(d2: Vector, scale: Vector) -> Vector:
    """Return the ρ of zCDP of a vector with Laplace or Gaussian noise: D2²/(2 scale²).

    For Laplace noise the formula is an upper bound, in every dimension.

    Args:
        d2: D2, the L2 sensitivity of the vector; 0 gives ρ = 0.
        scale: the Laplace scale or the Gaussian standard deviation; 0 gives ρ = inf, unless D2 is 0.
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return np.asarray(np.where(d2 == 0, 0.0, (d2 / scale) ** 2 / 2))


def zcdp_epsilon(rho: Vector, delta: float) -> Vector:
    """Return an ε at δ that ρ-zCDP implies: ρ + 2√(ρ ln(1/δ)) (Bun, Steinke 2016)."""
    return np.asarray(rho + 2 * np.sqrt(rho * np.log(1 / delta)))


def rdp_epsilon(rdp: Vector, delta: float) -> Vector:
    """Return an ε at δ for each Rényi curve: a row of `rdp`, with a column for each order of `ORDERS`.

    Each order gives an upper bound on ε. The result is the smallest of these bounds, but at least 0. Source: Canonne,
    Kamath, Steinke 2020, Proposition 12.
    """
    a = ORDERS
    at = rdp + np.log1p(-1 / a) - (np.log(delta) + np.log(a)) / (a - 1)
    return np.asarray(np.maximum(at.min(axis=1), 0.0))


def gdp_delta(mu: float, epsilon: float) -> float:
    """Return the smallest δ for which μ-GDP implies (ε, δ)-DP, rounded up.

    δ = Φ(−ε/μ + μ/2) − e^ε Φ(−ε/μ − μ/2) (Balle, Wang 2018; Dong et al. 2022).
    """
    from scipy.special import log_ndtr, ndtr

    largest = ndtr(-epsilon / mu + mu / 2)
    return float(largest * (1 + ROUNDING) - np.exp(epsilon + log_ndtr(-epsilon / mu - mu / 2)))


def gdp_epsilon(mu: float, delta: float) -> float:
    """Return the smallest ε for which μ-GDP implies (ε, δ)-DP.

    The result is inf if μ is inf or ε exceeds every double-precision number. For μ above 1e6, the result is an upper
    bound on ε with a relative error of at most 1e-12.
    """
    if mu == 0 or np.isinf(mu):
        return mu
    if mu > 1e6:  # the second term of the formula in `gdp_delta` is negligible, and rounding would hide the solution
        from scipy.special import ndtri

        return mu * (mu / 2 - float(ndtri(delta)))
    if gdp_delta(mu, 0.0) <= delta:
        return 0.0
    from scipy.optimize import brentq

    most = mu * mu / 2 + 40 * mu
    return float(brentq(lambda epsilon: gdp_delta(mu, epsilon) - delta, 0.0, most, xtol=1e-12, rtol=1e-12))


def gdp_mu(epsilon: float, delta: float) -> float:
    """Return the largest μ for which μ-GDP implies (ε, δ)-DP; inf if ε is inf."""
    if np.isinf(epsilon):
        return float(epsilon)
    from scipy.optimize import brentq

    low = high = 1.0
    while gdp_delta(low, epsilon) > delta:
        low /= 2
    while gdp_delta(high, epsilon) <= delta:
        high *= 2
    return float(brentq(lambda mu: gdp_delta(mu, epsilon) - delta, low, high, xtol=1e-300, rtol=1e-12))
