"""Accounts of secret batches: the ledger's curves against dp-accounting's, and what a replaced sample costs."""

from __future__ import annotations

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent, NeighboringRelation, PoissonSampledDpEvent, rdp

from mpinodes.core import RELEASED, Event, Kind
from mpinodes.core.events import OF_SAMPLING, Events, Layout, Sampling
from mpinodes.core.messages import HIDDEN_KIND
from mpinodes.privacy.accountant import price, price_curves
from mpinodes.privacy.curves import ORDERS
from mpinodes.privacy.ledger import Costs, Uses
from mpinodes.privacy.recursive import open_ledger
from mpinodes.privacy.subsampling import poisson_laplace_rdp

# (q, σ, T, δ)
SETTINGS = [
    (0.004, 1.1, 3750, 1e-5), (256 / 60000, 1.3, 3515, 1e-5), (64 / 60000, 1.0, 9375, 1e-5), (0.01, 0.8, 1000, 1e-6),
    (0.01, 2.0, 10000, 1e-5), (0.05, 1.0, 200, 1e-4), (0.1, 4.0, 1000, 1e-5), (0.25, 1.0, 10, 0.1),
    (0.5, 1.0, 10, 0.1), (0.5, 5.0, 100, 1e-6), (0.9, 10.0, 400, 1e-5), (0.02, 0.6, 50, 1e-3),
]  # fmt: skip
INTEGERS = [int(a) for a in ORDERS if a == int(a) and a <= 512]


def events(rounds: int, hidden: tuple[str, ...] = (), **fields: float) -> Events:
    """Return the events of one agent that releases a secret batch of all its samples in every round."""
    data = np.zeros(rounds, Layout(1, ("x",), hidden, sampled=True).record)
    defaults = {"kind": Kind.GAUSSIAN, "scale": 1.0, "draws": 1.0, "l1": 1.0, "l2": 1.0, "uses": 1.0}
    for name, value in (defaults | fields).items():
        data["event"][name][:, 0] = value
    return Events(data)


def loss(made: Events, delta: float = 1e-5):
    ledger = open_ledger(made, Uses.of(made, lambda t: [0]))
    return price([ledger], [1], len(made), delta, tight=False)


def curve(made: Events) -> np.ndarray:
    return Costs(made).rdp(np.array([0]), np.array([1.0]))[0]


@pytest.mark.parametrize(("q", "sigma", "rounds", "delta"), SETTINGS)
def test_curves_and_epsilon_are_those_of_dp_accounting(q, sigma, rounds, delta) -> None:
    made = events(rounds, scale=sigma, rate=q, sampling=Sampling.POISSON)
    accountant = rdp.RdpAccountant(INTEGERS, NeighboringRelation.REPLACE_SPECIAL)
    accountant.compose(PoissonSampledDpEvent(q, GaussianDpEvent(sigma)), rounds)
    here = np.isin(ORDERS, INTEGERS)
    theirs = np.asarray(accountant._rdp)  # there is no public way to the curve
    known = np.isfinite(theirs)
    np.testing.assert_allclose(rounds * curve(made)[here][known], theirs[known], rtol=1e-6)
    at_integers = rdp.compute_epsilon(ORDERS[here], rounds * curve(made)[here], delta)[0]
    assert at_integers == pytest.approx(accountant.get_epsilon(delta), rel=1e-6)
    found = loss(made, delta)
    assert found.epsilon <= at_integers * (1 + 1e-9)
    assert found.rule == "RDP"
    assert np.isnan(found.pure)


# σ, epochs, ε: the tables of two versions of tutorials/README.md.
TUTORIAL = [(1.3, 15, 1.19), (1.1, 60, 3.01), (0.7, 45, 7.10), (1.12, 60, 2.92), (0.6, 30, 9.74), (1.2, 10, 1.20)]


@pytest.mark.parametrize(("sigma", "epochs", "published"), TUTORIAL)
def test_the_mnist_tutorial_of_tensorflow_privacy(sigma: float, epochs: int, published: float) -> None:
    """Batches of 256 of 60,000, 234 rounds an epoch, δ = 1e-5, zero-out, the conversion of Mironov 2017.

    The orders of the tutorial are 1.1 to 10.9 in steps of 0.1, and 12 to 63. For σ = 1.2 its best order is 15, and the
    nearest orders here are 13 and 15.07. From order 16 on the divergence is ten times as large, so a curve that is
    interpolated between 15 and 16 gave 1.26. At an order of `EXACT_UP_TO` or less, nothing is interpolated.
    """
    rounds = epochs * (60_000 // 256)
    made = events(rounds, scale=sigma, rate=256 / 60_000, sampling=Sampling.POISSON)
    by_mironov = (rounds * curve(made) + np.log(1e5) / (ORDERS - 1)).min()
    assert by_mironov == pytest.approx(published, abs=0.01)
    assert loss(made).epsilon < published  # today's conversion is tighter


def test_laplace_noise_has_a_pure_epsilon_and_a_curve() -> None:
    made = events(50, kind=Kind.LAPLACE, scale=2.0, rate=0.1, sampling=Sampling.POISSON)
    np.testing.assert_allclose(curve(made), np.minimum(poisson_laplace_rdp(0.1, 0.5), ORDERS / 8))
    found = loss(made)
    assert found.pure == pytest.approx(50 * np.log1p(0.1 * np.expm1(0.5)), rel=1e-12)
    assert found.epsilon <= found.pure


def test_several_draws_share_the_coins() -> None:
    """Two draws of noise on one batch are one release with √2 times the shift, and not two subsampled releases."""
    once = events(1, scale=2.0, l2=2**0.5, rate=0.01, sampling=Sampling.POISSON)
    twice = events(1, scale=2.0, draws=2.0, rate=0.01, sampling=Sampling.POISSON)
    np.testing.assert_allclose(
        Costs(twice).rdp(np.array([0]), np.array([1.0])), Costs(once).rdp(np.array([0]), np.array([2**0.5])), rtol=1e-9
    )


def test_a_replaced_sample_counts_as_two_zeroed_samples() -> None:
    zeroed = events(100, scale=4.0, l2=1.0, rate=0.02, sampling=Sampling.POISSON)
    replaced = events(100, scale=4.0, l2=2.0, rate=0.02, sampling=Sampling.POISSON_REPLACED)
    found, delta = loss(replaced), 1e-5
    assert found.rule == "RDP, twice"
    part = found.epsilon / 2
    assert loss(zeroed, delta / (1 + np.exp(part))).epsilon == pytest.approx(part, rel=1e-6)
    assert found.epsilon > loss(zeroed).epsilon
    laplace = [
        loss(events(9, kind=Kind.LAPLACE, scale=4.0, l1=change, l2=change, rate=0.2, sampling=law))
        for change, law in ((1.0, Sampling.POISSON), (2.0, Sampling.POISSON_REPLACED))
    ]
    assert laplace[1].pure == pytest.approx(2 * laplace[0].pure, rel=1e-12)


def test_a_batch_of_fixed_size_costs_more_than_the_poisson_price_of_a_zeroed_sample() -> None:
    """n = 10, b = 1, σ = 1: δ at ε = 0.5 is 0.016 and not 0.002, so the Poisson price would be too small."""
    fixed = curve(events(1, l2=2.0, rate=0.1, sampling=Sampling.FIXED))
    poisson = curve(events(1, l2=1.0, rate=0.1, sampling=Sampling.POISSON))
    assert (fixed > poisson).all()


def test_amplification_is_never_more_than_the_price_of_all_samples() -> None:
    for kind in (Kind.GAUSSIAN, Kind.LAPLACE, Kind.PURE):
        for law in (Sampling.POISSON, Sampling.FIXED):
            for scale in (0.02, 0.3, 3.0, 300.0):
                found = curve(events(1, kind=kind, scale=scale, rate=0.3, sampling=law))
                whole = Costs(events(1, kind=kind, scale=scale)).rdp(np.array([0]), np.array([1.0]))[0]
                assert (found <= whole * (1 + 1e-9)).all()


def test_many_costs_are_rounded_up() -> None:
    made = events(200, scale=np.linspace(1, 3, 200), rate=0.1, sampling=Sampling.POISSON)
    every = Costs(made).rdp(np.arange(200), np.ones(200))
    alone = np.array([curve(made[k:]) for k in range(0, 200, 40)])
    assert (every[::40] >= alone * (1 - 1e-12)).all()
    np.testing.assert_allclose(every[::40], alone, rtol=0.02)


def test_nothing_is_proven_of_hidden_state_on_top_of_a_secret_batch() -> None:
    made = events(5, hidden=("x",), rate=0.1, sampling=Sampling.POISSON)
    assert loss(made).rule != "unproven"
    made.data["leakage"]["kind"] = HIDDEN_KIND
    assert loss(made).rule == "unproven"


def test_rows_without_secret_batches_have_no_columns_of_them() -> None:
    plain, sampled = Layout(2), Layout(2, sampled=True)
    assert plain.fields == tuple(name for name in Event._fields if name not in OF_SAMPLING)
    assert sampled.width == plain.width + 2
    row, event = np.zeros(sampled.width), Event(Kind.GAUSSIAN, 1.0, 1.0, 1.0, 1.0, 1.0, rate=0.25, sampling=1.0)
    sampled.write(row, [event], RELEASED)
    assert sampled.open(row)[1].rate == [0.25]
    row = np.zeros(plain.width)
    plain.write(row, [event], RELEASED)
    assert plain.open(row)[1].rate == [0.0]


def test_two_changes_of_which_nothing_is_proven_prove_nothing() -> None:
    unproven = price_curves(np.array([np.inf]), np.array([np.inf]), lambda at: np.inf * ORDERS[None], False, 1e-5, True)
    assert np.isnan(unproven.epsilon)
