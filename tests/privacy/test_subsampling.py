"""Curves of subsampled mechanisms: against quadrature, dp-accounting and published settings."""

from __future__ import annotations

from itertools import pairwise
from math import inf, log

import numpy as np
import pytest
from dp_accounting.rdp import rdp_privacy_accountant as rdp
from scipy.integrate import quad
from scipy.stats import norm

from mpinodes.privacy import subsampling
from mpinodes.privacy.curves import ORDERS, gdp_epsilon, laplace_rdp, rdp_epsilon

DELTA = 1e-5
INTEGERS = np.array([k for k, a in enumerate(ORDERS.tolist()) if a.is_integer()])
# (q, σ, T, δ), with σ the noise multiplier.
SETTINGS = [
    (q, sigma, rounds, delta)
    for q, sigma, rounds in ((0.001, 0.7, 10_000), (0.01, 1.0, 1000), (0.05, 1.5, 400), (0.25, 1.0, 10), (0.5, 4.0, 50))
    for delta in (1e-5, 1e-3)
] + [(0.9, 0.5, 1, 1e-6), (0.004, 1.1, 15_000, 1e-5)]


def mixture(a: float, rate: float, density, shifted) -> float:
    """log E[(1 - q + q P1/P0)^a] under P0, by quadrature."""

    def integrand(z):
        return density(z) * (1 - rate + rate * shifted(z) / density(z)) ** a

    return log(sum(quad(integrand, *span, epsabs=0, epsrel=1e-11)[0] for span in ((-12, 0), (0, 3), (3, 30))))


@pytest.mark.parametrize(("rate", "x"), [(0.01, 1.0), (0.25, 1.0), (0.5, 2.0), (0.9, 0.5)])
def test_poisson_gaussian_curve_is_the_divergence_of_mixture_and_base(rate, x):
    curve = subsampling.poisson_gaussian_rdp(rate, x)
    for k in (0, 5, 20, 40):
        exact = mixture(ORDERS[k], rate, norm.pdf, norm(x).pdf) / (ORDERS[k] - 1)
        assert curve[k] == pytest.approx(exact, rel=1e-6)


@pytest.mark.parametrize("setting", SETTINGS)
def test_poisson_gaussian_epsilon_is_dp_accountings_on_its_integer_orders(setting):
    """dp-accounting cuts its series for fractional orders off (7 % off at 1.1), so integer orders are compared."""
    rate, sigma, rounds, delta = setting
    curve = subsampling.poisson_gaussian_rdp(rate, 1 / sigma)
    theirs = rdp._compute_rdp_poisson_subsampled_gaussian(rate, sigma, ORDERS[INTEGERS])
    np.testing.assert_allclose(curve[INTEGERS], theirs, rtol=1e-6)
    epsilon = rdp.compute_epsilon(ORDERS[INTEGERS], rounds * theirs, delta)[0]
    only_integers = np.full((1, len(ORDERS)), inf)
    only_integers[0, INTEGERS] = rounds * curve[INTEGERS]
    assert rdp_epsilon(only_integers, delta)[0] == pytest.approx(epsilon, rel=1e-6)
    assert rdp_epsilon(rounds * curve[None], delta)[0] <= epsilon * (1 + 1e-9)


def test_between_integer_orders_a_curve_is_bounded_from_above():
    rate, x = 0.1, 0.7
    curve = subsampling.poisson_gaussian_rdp(rate, x)
    for k in range(62, 70):
        exact = mixture(ORDERS[k], rate, norm.pdf, norm(x).pdf) / (ORDERS[k] - 1)
        assert exact <= curve[k] * (1 + 1e-9)
        assert curve[k] == pytest.approx(exact, rel=0.01)


@pytest.mark.parametrize(("rate", "x"), [(0.1, 1.0), (0.5, 3.0)])
def test_poisson_laplace_curve_is_the_larger_of_both_directions(rate, x):
    def base(z):
        return np.exp(-abs(z)) / 2

    def shifted(z):
        return np.exp(-abs(z - x)) / 2

    def mixed(z):
        return (1 - rate) * base(z) + rate * shifted(z)

    curve = subsampling.poisson_laplace_rdp(rate, x)
    for k in (0, 20, 45):
        a = ORDERS[k]
        divergences = []
        for p, q in ((mixed, base), (base, mixed)):
            spans = ((-60, 0), (0, x), (x, 60))

            def integrand(z, p=p, q=q, a=a):
                return q(z) * (p(z) / q(z)) ** a

            total = sum(quad(integrand, *span, epsabs=0, epsrel=1e-11)[0] for span in spans)
            divergences.append(log(total) / (a - 1))
        assert curve[k] == pytest.approx(max(divergences), rel=1e-7)


@pytest.mark.parametrize(("rate", "x"), [(0.01, 2.0), (0.25, 2.0), (0.001, 0.5)])
def test_fixed_size_curve_is_dp_accountings(rate, x):
    curve = subsampling.fixed_gaussian_rdp(rate, x)
    for k in INTEGERS[ORDERS[INTEGERS] <= 64]:
        theirs = rdp._compute_rdp_sample_wor_gaussian_scalar(rate, 1 / x, ORDERS[k])
        assert curve[k] == pytest.approx(min(theirs, ORDERS[k] * x**2 / 2), rel=1e-6)


def test_without_subsampling_the_curves_are_those_of_the_mechanism():
    np.testing.assert_allclose(subsampling.poisson_gaussian_rdp(1.0, 0.5), ORDERS / 8)
    np.testing.assert_allclose(subsampling.fixed_gaussian_rdp(1.0, 0.5), ORDERS / 8)
    np.testing.assert_allclose(subsampling.poisson_laplace_rdp(1.0, 0.5), laplace_rdp(np.array([0.5]))[0])


@pytest.mark.parametrize("curve_of", [subsampling.poisson_gaussian_rdp, subsampling.poisson_laplace_rdp])
def test_a_smaller_rate_costs_less(curve_of):
    curves = [curve_of(rate, 1.0) for rate in (0.001, 0.01, 0.1, 0.5, 1.0)]
    assert all((low <= high * (1 + 1e-9)).all() for low, high in pairwise(curves))


def test_pure_epsilon_is_amplified_by_the_known_rule():
    for epsilon in (0.1, 1.0, 800.0):
        expected = log(1 + 0.1 * np.expm1(epsilon)) if epsilon < 700 else epsilon + log(0.1)
        amplified = subsampling.amplified_pure(np.array([0.1]), np.array([epsilon]))
        assert amplified.tolist() == pytest.approx([expected])


def test_replace_one_is_priced_as_two_zero_outs():
    """Of an unsampled Gaussian both are known: under zero-out μ = 1, under replace-one μ = 2."""
    epsilon = subsampling.by_two_zero_outs(lambda delta: gdp_epsilon(1.0, delta), DELTA)
    assert epsilon >= gdp_epsilon(2.0, DELTA)
    half = epsilon / 2
    part = DELTA / (1 + np.exp(half))
    assert half == pytest.approx(gdp_epsilon(1.0, part), rel=1e-6)
