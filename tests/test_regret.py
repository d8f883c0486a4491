"""Regret and its comparator."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import lsq_linear, minimize

from mpinodes import sets
from mpinodes.comparator import best
from mpinodes.lockstep import simulate
from mpinodes.losses.least_squares import LeastSquares
from mpinodes.losses.logistic import Logistic
from mpinodes.regret import gathered, make_meter
from tests.test_algorithms import parts_of

SETS = [sets.Box(0.4), sets.Ball(0.4), sets.ProductOfBalls(0.4, sets.blocks(9, 4)), sets.Unconstrained()]
RUNS = ["rounds=40 record.chunk=3000", "data.name=olr rounds=40", "algorithm.name=dpcda rounds=40 data.batch=3"]


def data(rng: np.random.Generator, n: int = 120, d: int = 9):
    a = rng.standard_normal((n, d))
    return a, a @ rng.standard_normal(d) + 0.5 * rng.standard_normal(n)


def labelled(rng: np.random.Generator, n: int = 120, d: int = 9):
    a, b = data(rng, n, d)
    return a, np.where(b > 0, 1.0, -1.0)


@pytest.mark.parametrize("radius", [0.1, 1.0, 50.0])
def test_least_squares_on_a_box_agrees_with_scipy(radius):
    rng = np.random.default_rng(1)
    a, b = data(rng)
    wanted = lsq_linear(a, b, (-radius, radius), method="bvls", tol=1e-14)
    found = best(LeastSquares(a, b), sets.Box(radius), np.zeros(9))
    assert found.value == pytest.approx(2 * wanted.cost, rel=1e-9)
    assert found.certificate <= 1e-8 * found.value


@pytest.mark.parametrize("radius", [0.3, 2.0])
@pytest.mark.parametrize("loss", [Logistic, LeastSquares])
def test_the_ball_agrees_with_a_general_solver(loss, radius):
    f = loss(*labelled(np.random.default_rng(2)))
    wanted = minimize(
        f.value, np.zeros(9), jac=f.grad, method="SLSQP", tol=1e-13,
        constraints={"type": "ineq", "fun": lambda x: radius**2 - x @ x, "jac": lambda x: -2 * x},
    )  # fmt: skip
    found = best(f, sets.Ball(radius), np.zeros(9))
    assert found.value == pytest.approx(wanted.fun, rel=1e-7)
    assert found.certificate <= 1e-8 * found.value


@pytest.mark.parametrize("loss", [Logistic, LeastSquares])
@pytest.mark.parametrize("feasible", SETS, ids=lambda s: type(s).__name__)
def test_no_point_beats_the_comparator_by_more_than_its_certificate(loss, feasible):
    rng = np.random.default_rng(3)
    f = loss(*labelled(rng))
    found = best(f, feasible, np.zeros(9))
    assert found.value == f.value(found.point)
    np.testing.assert_allclose(feasible.project(found.point), found.point, atol=1e-12)
    for _ in range(300):
        other = feasible.project(found.point + 0.1 * rng.standard_normal(9))
        assert f.value(other) >= found.value - found.certificate


def test_the_certificate_of_a_point_that_is_not_the_best_says_how_far():
    """A start at the optimum of another problem, no iterations allowed to hide behind."""
    from mpinodes.comparator import _certified

    f = LeastSquares(*data(np.random.default_rng(4)))
    least = best(f, sets.Box(1.0), np.zeros(9)).value
    for x in (np.zeros(9), np.full(9, 0.5)):
        value, gap = _certified(f, sets.Box(1.0), x)
        assert gap >= value - least > 0


@pytest.mark.parametrize("words", RUNS)
def test_the_meter_equals_the_formulas_written_out(words):
    parts = parts_of(words)
    horizons = np.array([1, 3, 17, 40])
    meter, y, per_round = make_meter(parts, horizons), [], []
    for rows in simulate(parts):
        estimates = rows.transpose(1, 0, 2)[:, :, : parts.dimension]
        y.append(estimates.copy())
        per_round.append(meter.take(estimates))
    y = np.concatenate(y)
    losses = parts.stream.of(0)
    x = np.zeros(y.shape[::2])
    for i, block in enumerate(parts.blocks):
        x[:, block] = y[:, i, block]
    for k, horizon in enumerate(horizons):
        rounds = range(1, horizon + 1)
        network = sum(losses(t).value(x[t - 1]) for t in rounds)
        average = sum(losses(t).value(x[:t].mean(axis=0)) for t in rounds)
        agents = [sum(losses(t).value(y[t - 1, i]) for t in rounds) for i in range(y.shape[1])]
        np.testing.assert_allclose(meter.total[k], [network, average, *agents], rtol=1e-11)
        np.testing.assert_allclose(meter.mean[k], x[:horizon].mean(axis=0), rtol=1e-11, atol=1e-13)
        np.testing.assert_array_equal(meter.last[k], x[horizon - 1])
    error = [
        np.sqrt(np.mean([np.sum((y[t, i] - y[t].mean(axis=0)) ** 2) for i in range(y.shape[1])])) for t in range(40)
    ]
    np.testing.assert_allclose(np.concatenate([r.consensus_error for r in per_round]), error, rtol=1e-11, atol=1e-13)


def test_the_comparator_takes_the_losses_of_the_rounds_seen():
    parts = parts_of("rounds=30")
    found = best(gathered(parts).upto(30), parts.feasible, np.zeros(64))
    losses = parts.stream.of(0)
    assert found.value == pytest.approx(sum(losses(t).value(found.point) for t in range(1, 31)), rel=1e-12)
