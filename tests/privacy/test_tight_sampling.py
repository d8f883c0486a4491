"""The numerical composition of secret batches against an FFT of the privacy loss that is written here."""

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
from tests.privacy.test_sampled_accounts import events

STEP = 2e-4  # of the losses; rounding to the nearest multiple has no bias


def tight(made, delta: float):
    ledger = open_ledger(made, Uses.of(made, lambda t: [0]))
    return price([ledger], [1], len(made), delta, tight=True)


def epsilon_by_fft(q: float, sigma: float, rounds: int, delta: float) -> float:
    """Return ε at δ of a composition of Poisson-subsampled Gaussians, for the worse direction."""
    y = np.linspace(-12 * sigma, 1 + 12 * sigma, 400_001)
    base, shifted = norm.pdf(y, 0, sigma), norm.pdf(y, 1, sigma)
    mixture = (1 - q) * base + q * shifted
    ratio = np.log(mixture) - np.log(base)
    epsilons = []
    for density, losses in ((mixture, ratio), (base, -ratio)):
        cells = np.rint(losses / STEP).astype(np.int64)
        mass = np.bincount(cells - cells.min(), density) * (y[1] - y[0])
        size = 2 ** int(np.ceil(np.log2(rounds * len(mass))))
        size = min(size, 2**22)
        total = np.fft.irfft(np.fft.rfft(np.pad(mass, (0, size - len(mass)))) ** rounds, size)
        place = np.arange(size, dtype=float)
        first = rounds * int(cells.min())
        mean = rounds * float((np.arange(len(mass)) * mass).sum())
        place = place + size * np.rint((mean - place) / size)  # undo the wrap: all mass is near the mean
        loss = (place + first) * STEP

        def excess(epsilon: float, total=total, loss=loss) -> float:
            over = loss > epsilon
            return float((total[over] * -np.expm1(epsilon - loss[over])).sum() - delta)

        epsilons.append(brentq(excess, 0, 200))
    return max(epsilons)


@pytest.mark.parametrize(
    ("q", "sigma", "rounds", "delta"),
    [(0.25, 1.0, 10, 0.1), (0.5, 1.0, 10, 0.1), (0.01, 0.8, 200, 1e-5), (0.1, 2.0, 100, 1e-6)],
)
def test_gaussian_compositions_are_those_of_an_fft(q: float, sigma: float, rounds: int, delta: float) -> None:
    found = tight(events(rounds, scale=sigma, rate=q, sampling=Sampling.POISSON), delta)
    wanted = epsilon_by_fft(q, sigma, rounds, delta)
    assert found.rule == "PLD"
    assert wanted * (1 - 1e-5) <= found.epsilon <= wanted * (1 + 1e-3)


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
