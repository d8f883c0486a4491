"""The numerical composition of secret batches against a Fourier integral that is written here."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from mpinodes.core import Kind
from mpinodes.core.events import Sampling
from mpinodes.privacy.accountant import price
from mpinodes.privacy.ledger import Uses
from mpinodes.privacy.recursive import open_ledger
from tests.privacy.test_sampled_accounts import SETTINGS, events


def tight(made, delta: float):
    ledger = open_ledger(made, Uses.of(made, lambda t: [0]))
    return price([ledger], [1], len(made), delta, tight=True)


def epsilon_by_fourier(q: float, sigma: float, rounds: int, delta: float) -> float:
    """Return ε at δ of a composition of Poisson-subsampled Gaussians, for the worse direction.

    With L the sum of the losses of all rounds, δ = P(L > ε) − e^ε Q(L > ε), where L is the log-ratio of P to Q. Both
    tails follow from the characteristic function of one round, which is an integral over the release (Davies 1973).
    """
    y = np.linspace(-13 * sigma, 1 + 13 * sigma, 1501)  # the trapezoidal rule is exact to rounding
    base, shifted = norm.logpdf(y, 0, sigma), norm.logpdf(y, 1, sigma)
    mixture = np.logaddexp(np.log1p(-q) + base, np.log(q) + shifted)
    epsilons = []
    for p, other in ((mixture, base), (base, mixture)):
        weights, loss = [np.exp(law) / np.exp(law).sum() for law in (p, other)], p - other
        mean = weights[0] @ loss
        spread = np.sqrt(rounds * (weights[0] @ loss**2 - mean**2))
        step = np.pi / (abs(rounds * mean) + 40 * spread + 30)
        u, values = np.zeros(0), np.zeros((0, 2), complex)
        while not len(u) or abs(values[-1]).max() > 1e-14:
            more = (len(u) + np.arange(128) + 0.5) * step
            waves = np.exp(1j * np.outer(more, loss))
            u, values = np.append(u, more), np.concatenate([values, (waves @ np.transpose(weights)) ** rounds])

        def excess(epsilon: float, u=u, values=values, step=step) -> float:
            tails = 0.5 + step / (np.pi * u) @ (values * np.exp(-1j * u * epsilon)[:, None]).imag
            return float(tails[0] - np.exp(epsilon) * tails[1] - delta)

        above = next(top for top in np.arange(0.25, 60, 0.25) if excess(top) < 0)
        epsilons.append(brentq(excess, 1e-6, above, xtol=1e-12))
    return max(epsilons)


@pytest.mark.parametrize(("q", "sigma", "rounds", "delta"), SETTINGS)
def test_gaussian_compositions_are_those_of_a_fourier_integral(
    q: float, sigma: float, rounds: int, delta: float
) -> None:
    found = tight(events(rounds, scale=sigma, rate=q, sampling=Sampling.POISSON), delta)
    wanted = epsilon_by_fourier(q, sigma, rounds, delta)
    assert found.rule == "PLD"
    # At ε = 8.8, a tail of 1e-5 is the difference of tails that rounding changes by 1e-11: ε is known to 5e-6.
    assert wanted * (1 - 5e-6) <= found.epsilon <= wanted * (1 + 1e-3)


def test_a_laplace_round_is_exact() -> None:
    """At δ = 0 one round costs ln(1 + q(e^ε − 1)); the PLD costs no less, and at larger δ less."""
    made = events(1, kind=Kind.LAPLACE, scale=1.0, rate=0.3, sampling=Sampling.POISSON)
    pure = np.log1p(0.3 * np.expm1(1.0))
    assert tight(made, 1e-12).epsilon == pytest.approx(pure, rel=1e-3)
    assert tight(made, 0.05).epsilon < 0.9 * pure


def test_fixed_sizes_have_no_composition_and_replaced_samples_count_twice() -> None:
    fixed = tight(events(20, scale=2.0, l2=2.0, rate=0.1, sampling=Sampling.FIXED), 1e-5)
    assert fixed.rule == "RDP"
    zeroed = events(20, scale=2.0, rate=0.1, sampling=Sampling.POISSON)
    replaced = tight(events(20, scale=2.0, l2=2.0, rate=0.1, sampling=Sampling.POISSON_REPLACED), 1e-5)
    assert replaced.rule == "PLD, twice"
    part = replaced.epsilon / 2
    assert tight(zeroed, 1e-5 / (1 + np.exp(part))).epsilon == pytest.approx(part, rel=1e-4)
