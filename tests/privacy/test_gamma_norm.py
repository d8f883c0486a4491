"""Gamma-norm noise: its curve against the integral itself, high precision, simulation, and runs by the command."""

from __future__ import annotations

from math import comb, inf, log, sqrt

import mpmath
import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad
from scipy.special import beta, gamma

from mpinodes.auditing.noise import examine
from mpinodes.auditing.transcripts import Replayed
from mpinodes.core import RELEASED, Event, Kind, Query
from mpinodes.privacy.curves import ORDERS, laplace_rdp, pure_rdp, pure_rho
from mpinodes.privacy.gamma_norm import EXPONENT, LARGEST, MARGIN, gamma_norm_rdp
from mpinodes.privacy.ledger import Costs
from tests.helpers.accounting import DELTA, events, loss
from tests.helpers.parts import run_of
from tests.helpers.records import read, summary_of

DIMENSIONS = (1, 2, 3, 10, 105, 2001)
SHIFTS = (1e-7, 1e-3, 0.1, 1.0, 6.0, 50.0, 300.0, 1000.0)


def curve(d: int, x: float) -> np.ndarray:
    return gamma_norm_rdp(d, np.array([x]))[0]


def truth(d: int, x: float, order: float) -> float:
    """The closed form at sixty digits."""
    with mpmath.workdps(60):
        a, z, nu = mpmath.mpf(order), mpmath.mpf(x) / 2, mpmath.mpf(d) / 2 - 1
        k = 2 * a - 1
        first, second = (mpmath.besseli(n, k * z, maxterms=10**6) for n in (nu, nu + 1))
        one, other = (mpmath.besselk(n, z) for n in (nu + 1, nu))
        return float(mpmath.log(z * k**-nu * (one * first + other * second / k)) / (a - 1))


def integral(d: int, x: float, order: float) -> float:
    """E over norm and cosine of the noise of exp(a(‖e‖ − ‖e − xu‖)): what the curve is by definition."""

    def at(r: float) -> float:
        def over(c: float) -> float:
            return (1 - c * c) ** ((d - 3) / 2) * np.exp(order * (r - sqrt(r * r + x * x - 2 * r * x * c)))

        return r ** (d - 1) * np.exp(-r) * quad(over, -1, 1, points=[0.8, 0.97], epsrel=1e-9)[0]

    total = sum(quad(at, *span, epsrel=1e-9, limit=200)[0] for span in ((0, x), (x, 3 * x + d), (3 * x + d, 200)))
    return log(total / gamma(d) / beta(0.5, (d - 1) / 2)) / (order - 1)


@pytest.mark.parametrize(("d", "x"), [(3, 0.5), (3, 3.0), (10, 0.3), (10, 4.0), (50, 6.0)])
def test_the_curve_is_the_renyi_divergence(d, x):
    for k in (0, 9, 29, 50):
        assert curve(d, x)[k] == pytest.approx(integral(d, x, ORDERS[k]), rel=1e-6)


@pytest.mark.parametrize("d", DIMENSIONS)
@pytest.mark.parametrize("x", SHIFTS)
def test_it_is_never_below_sixty_digits_and_hardly_above(d, x):
    found, exact = curve(d, x), np.array([truth(d, x, a) for a in ORDERS[::17]])
    assert (found[::17] >= exact).all()
    sound = ORDERS[::17] * x < EXPONENT
    np.testing.assert_allclose(found[::17][sound], exact[sound], rtol=1.01 * MARGIN)
    if ORDERS[0] * x < EXPONENT:
        np.testing.assert_allclose(found[::17], exact, rtol=1e-4)


@pytest.mark.parametrize("x", [0.05, 1.0, 7.0, 80.0])
def test_in_one_dimension_it_is_laplace(x):
    sound = ORDERS * x < EXPONENT
    np.testing.assert_allclose(curve(1, x)[sound], laplace_rdp(np.array([x]))[0][sound], rtol=2 * MARGIN)


@pytest.mark.parametrize("d", [*DIMENSIONS, 50_001, LARGEST, LARGEST + 1, 10**7])
def test_it_grows_with_shift_and_order_and_stays_below_all_closed_forms(d):
    x = np.geomspace(1e-6, 1e5, 120)
    found = gamma_norm_rdp(d, x)
    assert np.isfinite(found).all()
    assert (found > 0).all()
    assert (np.diff(found, axis=0) >= 0).all()
    assert (np.diff(found, axis=1) >= -2 * MARGIN * found[:, 1:]).all()
    assert (found <= x[:, None] ** 2 / (2 * d) * ORDERS * (1 + MARGIN)).all()
    known = x >= 1e-3  # below, the closed form of a pure mechanism is lost in rounding
    assert (found[known] <= pure_rdp(x[known])).all()


def test_more_dimensions_hide_more():
    found = [curve(d, 2.0) for d in (1, 2, 3, 10, 50, 105, 784)]
    assert (np.diff(found, axis=0) < 0).all()


# ---- from below, by simulation


def losses(d: int, x: float, runs: int, rng: np.random.Generator) -> np.ndarray:
    """Log density ratios of one release."""
    r, g = rng.gamma(d, size=runs), rng.standard_normal(runs)
    c = g / np.sqrt(g * g + rng.chisquare(d - 1, runs))
    return np.sqrt(r * r + 2 * r * x * c + x * x) - r


@pytest.mark.parametrize(("d", "x"), [(2, 1.0), (10, 0.5), (10, 3.0), (105, 5.0)])
def test_simulated_moments_lie_on_the_curve(d, x):
    """E exp((a − 1) L) for small orders, to five standard errors."""
    drawn = losses(d, x, 400_000, np.random.default_rng(1))
    for k in (0, 4, 9):
        moments = np.exp((ORDERS[k] - 1) * drawn)
        error = 5 * moments.std() / sqrt(len(moments))
        assert abs(moments.mean() - np.exp((ORDERS[k] - 1) * curve(d, x)[k])) < error


@pytest.mark.parametrize(("d", "rounds", "x"), [(3, 5, 1.0), (10, 20, 1.0), (30, 20, 3.0)])
def test_shifts_that_follow_what_was_said_tell_no_more_than_is_proven(d, rounds, x):
    """Hockey-stick divergence from below: whoever shifts along what was said, and less where the loss is low."""
    rng, runs, delta = np.random.default_rng(2), 100_000, 1e-3
    told, along = np.zeros(runs), np.eye(d)[np.zeros(runs, int)]
    for _ in range(rounds):
        e = rng.standard_normal((runs, d))
        e *= (rng.gamma(d, size=runs) / np.linalg.norm(e, axis=1))[:, None]
        shift = np.where(told < np.median(told), 0.97, 1.0)[:, None] * x * along
        told += np.linalg.norm(e + shift, axis=1) - np.linalg.norm(e, axis=1)
        along = (e + shift) / np.linalg.norm(e + shift, axis=1)[:, None]
    made = events(rounds, Kind.GAMMA_NORM, l1=x, l2=x, uses=1)
    made.dimension = d
    shown = epsilon_from_below(told, delta)
    proven = price_at(made, delta)
    assert 0.6 * proven < shown <= proven
    made.dimension = 0
    assert proven < 0.75 * price_at(made, delta)


def epsilon_from_below(told: np.ndarray, delta: float) -> float:
    """The largest ε at which, with probability 0.999, the losses show more than δ: P(L > ε + 1)(1 − 1/e) is less."""
    above = np.sort(told)[::-1]
    needed = delta / (1 - np.exp(-1))
    counts = np.arange(1, 2000)
    enough = stats.beta(counts, len(told) - counts + 1).ppf(0.001) > needed
    return float(above[counts[enough][0]] - 1)


def price_at(made, delta: float) -> float:
    from mpinodes.privacy.accountant import price
    from mpinodes.privacy.ledger import Uses, open_ledger

    return price([open_ledger(made, Uses.of(made, lambda r: [0]))], [1], len(made), delta, False).epsilon
