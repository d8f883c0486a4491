"""Regret and its comparator."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog, lsq_linear, minimize
from scipy.sparse import csr_array
from sklearn.svm import LinearSVC

import mpinodes
from mpinodes.config.public_constants import shared_blocks
from mpinodes.core.parts import Stretch
from mpinodes.evaluation import comparator
from mpinodes.evaluation.comparator import _dual, best
from mpinodes.evaluation.meter import Meter
from mpinodes.losses.absolute import Absolute
from mpinodes.losses.hinge import Hinge
from mpinodes.losses.least_squares import LeastSquares
from mpinodes.losses.logistic import Logistic
from mpinodes.metrics.built_in import consensus_error
from mpinodes.rounds.lockstep import simulate
from mpinodes.sets.ball import Ball
from mpinodes.sets.box import Box
from mpinodes.sets.none import Unconstrained
from mpinodes.sets.product_of_balls import ProductOfBalls
from tests.helpers.parts import decisions, run_of, setup_of
from tests.helpers.records import summary_of

SETS = [Box(0.4), Ball(0.4), ProductOfBalls(0.4, shared_blocks(9, 4)), Unconstrained()]
RUNS = [
    "algorithm.name=dpsda-ps rounds=40", "algorithm.name=dpsda-ps data.name=olr rounds=40",
    "algorithm.name=dpcda rounds=40 data.batch=3",
]  # fmt: skip


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
    found = best(LeastSquares(a, b), Box(radius), np.zeros(9))
    assert found.value == pytest.approx(2 * wanted.cost, rel=1e-9)
    assert found.certificate <= 1e-8 * found.value


def test_nearly_separable_data_on_a_box_are_solved_too():
    """As the papers' mushrooms: the value is small, and first-order steps alone end 30 % above it."""
    rng = np.random.default_rng(5)
    a = (rng.random((600, 30)) < 0.2).astype(float)
    f = Logistic(a, np.where(a @ rng.standard_normal(30) > 0, 1.0, -1.0))
    found = best(f, Box(20.0), np.zeros(30))
    assert found.certificate <= 1e-5 * found.value
    assert found.value < 0.1 * f.value(np.zeros(30))


@pytest.mark.parametrize("radius", [0.3, 2.0])
@pytest.mark.parametrize("loss", [Logistic, LeastSquares])
def test_the_ball_agrees_with_a_general_solver(loss, radius):
    f = loss(*labelled(np.random.default_rng(2)))
    wanted = minimize(
        f.value, np.zeros(9), jac=f.grad, method="SLSQP", tol=1e-13,
        constraints={"type": "ineq", "fun": lambda x: radius**2 - x @ x, "jac": lambda x: -2 * x},
    )  # fmt: skip
    found = best(f, Ball(radius), np.zeros(9))
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
    from mpinodes.evaluation.comparator import _certified

    f = LeastSquares(*data(np.random.default_rng(4)))
    least = best(f, Box(1.0), np.zeros(9)).value
    for x in (np.zeros(9), np.full(9, 0.5)):
        value, gap = _certified(f, Box(1.0), x)
        assert gap >= value - least > 0


def stretch_of(estimates: np.ndarray) -> Stretch:
    """Rounds of which a metric looks at the estimates alone."""
    return Stretch(np.arange(1, len(estimates) + 1), estimates, estimates, *np.zeros((2, len(estimates))), None)


@pytest.mark.parametrize("words", RUNS)
def test_the_meter_equals_the_formulas_written_out(words):
    setup = setup_of(words)
    horizons = np.array([1, 3, 17, 40])
    meter, y, apart = Meter(setup, horizons), [], []
    for rows in simulate(setup):
        estimates = rows.transpose(1, 0, 2)[:, :, : setup.dimension]
        y.append(estimates.copy())
        meter.take(estimates)
        apart.append(consensus_error(stretch_of(estimates)))
    y = np.concatenate(y)
    losses = setup.stream.of(0)
    x = np.zeros(y.shape[::2])
    for i, block in enumerate(setup.blocks):
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
    np.testing.assert_allclose(np.concatenate(apart), error, rtol=1e-11, atol=1e-13)


def test_the_comparator_takes_the_losses_of_the_rounds_seen():
    setup = setup_of("algorithm.name=dpsda-ps rounds=30")
    found = best(Meter(setup, np.array([30])).losses.everything.upto(30), setup.feasible, np.zeros(64))
    losses = setup.stream.of(0)
    assert found.value == pytest.approx(sum(losses(t).value(found.point) for t in range(1, 31)), rel=1e-12)


# ---- agents with losses of their own

OWN = [
    "algorithm.name=dola topology.agents=4",
    "algorithm.name=weight-balancing data.batch=2",
    "algorithm.name=dola-minibatch problem.regularizer=0.3 topology.agents=5",
    "algorithm.name=dola-minibatch data.partition=uneven data.sizes=[50,33,100] topology.agents=3 data.batch=3 "
    "rounds=11",
    "algorithm.name=dpps data.name=olr problem.loss=absolute data.batch=3 rounds=40",
    "algorithm.name=dpsr data.partition=shared problem.regularizer=0.1 problem.loss=least-squares",
    "algorithm.name=admm data.total=183 data.partition=uneven data.sizes=[50,33,100] topology.agents=3 "
    "problem.weight=7",
    "algorithm.name=dola data.batch=all data.total=90 data.partition=uneven data.sizes=[20,30,40] topology.agents=3 "
    "problem.weight=0.5",
    "algorithm.name=huang-dp data.points=9 topology.agents=4 problem.regularizer=0.1",
]


def losses_of(setup, i: int):
    """f_i^t(x) of one agent, from features and targets alone."""
    problem, stream = setup.experiment.problem, setup.stream.of(i)
    divisor = (setup.samples[i] if problem.average else 1) / problem.weight

    def value(t: int, x: np.ndarray) -> float:
        total = 0.0
        for a, b in zip(stream(t).features, stream(t).targets, strict=True):
            if problem.loss == "squared-distance":
                total += 0.5 * float((x - a) @ (x - a))
                continue
            m = float((a.toarray().ravel() if not isinstance(a, np.ndarray) else a) @ x)
            total += {
                "hinge": max(0.0, 1 - b * m), "logistic": np.log1p(np.exp(-b * m)),
                "absolute": abs(m - b), "least-squares": (m - b) ** 2,
            }[problem.loss]  # fmt: skip
        return total / divisor + problem.regularizer / 2 * float(x @ x)

    return value


def check_own(setup) -> None:
    """The meter against the formulas of its docstring, in plain loops."""
    rounds, n = setup.experiment.rounds, setup.topology.agents
    horizons = np.array([1, 3, 7, rounds])
    meter, x, summands = Meter(setup, horizons), [], []
    for rows in simulate(setup):
        estimates = rows.transpose(1, 0, 2)[:, :, : setup.dimension]
        x.append(estimates.copy())
        summands.append(meter.take(estimates).losses)
    meter.end()
    assert len(x) > 3
    x, f = np.concatenate(x), [losses_of(setup, i) for i in range(n)]
    linear = setup.experiment.algorithm["name"] == "weight-balancing"
    average = np.empty_like(x)
    for t in range(1, rounds + 1):
        weights = [s if linear else 1 for s in range(1, t + 1)]
        average[t - 1] = sum(w * x[s] for s, w in enumerate(weights)) / sum(weights)
    own = [sum(f[i](t, x[t - 1, i]) for i in range(n)) for t in range(1, rounds + 1)]
    averaged = [sum(f[i](t, average[t - 1, i]) for i in range(n)) for t in range(1, rounds + 1)]
    each = [[sum(f[i](t, x[t - 1, j]) for i in range(n)) for j in range(n)] for t in range(1, rounds + 1)]
    np.testing.assert_allclose(np.concatenate(summands), own, rtol=1e-11)
    for k, horizon in enumerate(horizons):
        wanted = [sum(own[:horizon]), sum(averaged[:horizon]), *np.sum(each[:horizon], axis=0)]
        np.testing.assert_allclose(meter.total[k], wanted, rtol=1e-11)
        np.testing.assert_allclose(meter.mean[k], average[horizon - 1].mean(axis=0), rtol=1e-11, atol=1e-13)
        np.testing.assert_allclose(meter.last[k], x[horizon - 1].mean(axis=0), rtol=1e-11, atol=1e-13)
        if offline := setup.algorithm.judged_by:
            judged = (average if offline == "average" else x)[horizon - 1]
            whole = [sum(f[i](t, v) for i in range(n) for t in range(1, rounds + 1)) / (rounds * n) for v in judged]
            np.testing.assert_allclose(meter.whole[k], whole, rtol=1e-11)
        else:
            assert not meter.whole.any()
    found = meter.losses.everything.upto(rounds)
    point = np.linspace(-1, 1, setup.dimension)
    everything = sum(f[i](t, point) for i in range(n) for t in range(1, rounds + 1))
    assert found.value(point) == pytest.approx(everything, rel=1e-11)
    one = meter.losses.everything.upto(3, first=3)
    assert one.value(point) == pytest.approx(sum(f[i](3, point) for i in range(n)), rel=1e-11)


@pytest.mark.parametrize("words", OWN)
def test_the_meter_of_own_losses_equals_the_formulas_written_out(words):
    size = "" if "olr" in words or "huang" in words else "data.total=600 "
    check_own(setup_of(f"rounds=24 {size}{words}"))


def test_the_meter_of_sparse_features_equals_the_formulas_written_out(tmp_path):
    rng, lines = np.random.default_rng(0), []
    for _ in range(60):
        here = np.sort(rng.choice(30, rng.integers(0, 5), replace=False)) + 1
        lines.append(" ".join([rng.choice(["+1", "-1"]), *(f"{k}:{rng.normal():.4f}" for k in here)]))
    (tmp_path / "samples.txt").write_text("\n".join(lines) + "\n")
    words = f"algorithm.name=dola-minibatch data.file={tmp_path}/samples.txt data.batch=2 data.columns=30"
    setup = setup_of(f"{words} topology.agents=3 problem.loss=hinge problem.regularizer=0.1")
    assert not isinstance(setup.stream.of(0)(1).features, np.ndarray)
    assert setup.experiment.rounds == 10
    check_own(setup)


@pytest.mark.parametrize("words", [OWN[0], OWN[3], OWN[5], OWN[6], OWN[7], OWN[8], RUNS[1], RUNS[2]])
def test_sums_do_not_depend_on_how_many_rounds_come_at_once(words):
    setup = setup_of(f"{'data.total=600 ' if 'dola' in words and 'all' not in words else ''}{words} rounds=11")
    rows = np.concatenate([rows.copy() for rows in simulate(setup)], axis=1)
    estimates = rows.transpose(1, 0, 2)[:, :, : setup.dimension]
    found = []
    for cuts in ([], [1, 2, 3, 9], range(1, len(estimates))):
        meter = Meter(setup, np.array([2, len(estimates)]))
        parts = [meter.take(part) for part in np.split(estimates, cuts)]
        meter.end()
        lost = [np.column_stack([part.losses, part.agent_losses]) for part in parts]
        found.append((np.concatenate(lost), meter.total, meter.mean, meter.whole))
    for other in found[1:]:
        for one, two in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(one, two)


def test_sparse_samples_are_judged_in_the_coordinates_they_have(tmp_path):
    """As dense ones are, with and without a regularizer, which is of all coordinates."""
    rng, lines = np.random.default_rng(1), []
    for _ in range(80):
        here = np.sort(rng.choice(200, 5, replace=False)) + 1
        lines.append(" ".join([rng.choice(["+1", "-1"]), *(f"{k}:{rng.normal():.4f}" for k in here)]))
    (tmp_path / "samples.txt").write_text("\n".join(lines) + "\n")
    features = np.zeros((80, 200))
    for row, line in enumerate(lines):
        for k, value in (word.split(":") for word in line.split()[1:]):
            features[row, int(k) - 1] = float(value)
    targets = np.array([float(line.split()[0]) for line in lines])
    np.savez(tmp_path / "samples.npz", features=features, targets=targets)
    estimates = rng.standard_normal((20, 3, 200))
    own = "rounds=20 data.scaling.intercept=0"
    for rest in ("algorithm.name=dola data.batch=3", "algorithm.name=dola data.batch=all rounds=6", own):
        for regularizer in (0, 0.3):
            rest = f"{rest} problem.regularizer={regularizer} step.kind=inverse-sqrt topology.agents=3"
            words = f"{rest} topology.name=ring problem.loss=logistic data.file="
            totals = []
            for name in ("samples.txt", "samples.npz"):
                setup = setup_of(f"{words}{tmp_path}/{name} data.columns=200")
                assert isinstance(setup.stream.of(0)(1).features, np.ndarray) == name.endswith("npz")
                meter = Meter(setup, np.array([1, 5, setup.experiment.rounds]))
                for part in np.split(estimates[: setup.experiment.rounds], [1, 4]):
                    meter.take(part)
                meter.end()
                totals.append(meter.total)
            np.testing.assert_allclose(*totals, rtol=1e-10)


def test_the_optimality_gap_is_that_of_the_average_iterate_over_the_whole_run(tmp_path):
    """Against SLSQP's minimum of F; F is a mean over agents and rounds."""
    words = (
        "algorithm.name=dola-minibatch problem.loss=logistic problem.regularizer=0.1 data.total=200 data.dimension=3 "
        "topology.agents=4 privacy.epsilon=5 rounds=10"
    )
    setup, n = setup_of(words), 4
    f = [losses_of(setup, i) for i in range(n)]

    def whole(x: np.ndarray) -> float:
        return sum(f[i](t, x) for i in range(n) for t in range(1, 11)) / (10 * n)

    x = decisions(setup).transpose(1, 0, 2)
    least = minimize(whole, np.zeros(3), method="SLSQP", tol=1e-12, options={"ftol": 1e-14}).fun
    wanted = [whole(x[j].mean(axis=0)) - least for j in range(n)]
    found = summary_of(run_of(tmp_path / "run", words))["optimality_gap"]
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-9)
    assert min(found) > 0


def test_dynamic_regret_is_against_the_best_of_every_round(tmp_path):
    """Least squares on a box, two samples each of three agents, by bounded least squares round by round."""
    words = (
        "algorithm.name=dola data.name=olr problem.loss=least-squares problem.regularizer=0.2 data.dimension=3 "
        "data.batch=2 problem.set=box problem.radius=1 topology.agents=3 rounds=9 record.dynamic_regret=true"
    )
    setup = setup_of(words)
    streams = [setup.stream.of(i) for i in range(3)]
    least, path = [], []
    for t in range(1, 10):
        a = np.concatenate([stream(t).features for stream in streams] + [np.sqrt(3 * 0.2 / 2) * np.eye(3)])
        b = np.concatenate([stream(t).targets for stream in streams] + [np.zeros(3)])
        found = lsq_linear(a, b, (-1, 1), method="bvls", tol=1e-14)
        least.append(2 * found.cost), path.append(found.x)
    summary = summary_of(run_of(tmp_path / "run", words))
    fitness = summary["average_fitness"] * 9
    assert summary["dynamic_regret"] == pytest.approx(fitness - sum(least), rel=1e-7)
    assert summary["dynamic_regret"] > summary["network_regret"]
    record = mpinodes.load(tmp_path / "run")
    length = np.linalg.norm(np.diff(path, axis=0), axis=1).sum()
    assert record.path_length.values[-1] == pytest.approx(length, rel=1e-4)
    assert record.dynamic_regret.values[0] == pytest.approx(record.network_regret.values[0], rel=1e-7)
    assert record.path_length.values[0] == 0


# ---- losses with kinks

SMALL_SETS = [Box(0.4), Ball(0.4), ProductOfBalls(0.4, shared_blocks(5, 2)), Unconstrained()]
KINKED = [Hinge, Absolute]


def kinked(kind, regularizer: float, divisor: float = 1.0, seed: int = 5, n: int = 30, d: int = 5):
    """A loss with noisy targets: labels for hinge, so that no plane separates them."""
    rng = np.random.default_rng(seed)
    a, b = data(rng, n, d)
    if kind is Hinge:
        b = np.where(b + 3 * rng.standard_normal(n) > 0, 1.0, -1.0)
    return kind(a, b, divisor=divisor, regularizer=regularizer)


def least_by_slsqp(f, feasible) -> float:
    """Min F over (v, e): Σ e/divisor + (λ/2)‖v‖², e above every linear piece, v in the set."""
    a, b, (n, d) = f.features, f.targets, f.features.shape
    lo, hi = (np.zeros(n), -b) if isinstance(f, Hinge) else (-np.ones(n), np.ones(n))
    eye = np.eye(n)
    rows = [np.hstack([-s[:, None] * a, eye]) for s in (lo, hi)]
    constraints = [
        {"type": "ineq", "fun": lambda u, r=r, s=s: r @ u + s * b, "jac": lambda u, r=r: r}
        for r, s in zip(rows, (lo, hi), strict=True)
    ]
    blocks = {Ball: [slice(0, d)], ProductOfBalls: getattr(feasible, "blocks", [])}.get(type(feasible), [])
    for block in blocks:

        def within(u, block=block):
            return feasible.radius**2 - u[block] @ u[block]

        def slope(u, block=block):
            g = np.zeros(len(u))
            g[block] = -2 * u[block]
            return g

        constraints.append({"type": "ineq", "fun": within, "jac": slope})
    radius = feasible.radius if isinstance(feasible, Box) else None
    bounds = [(None if radius is None else -radius, radius)] * d + [(None, None)] * n
    found = minimize(
        lambda u: u[d:].sum() / f.divisor + f.regularizer / 2 * (u[:d] @ u[:d]),
        np.concatenate([np.zeros(d), 1 + np.abs(b)]),
        jac=lambda u: np.concatenate([f.regularizer * u[:d], np.full(n, 1 / f.divisor)]),
        method="SLSQP", bounds=bounds, constraints=constraints, options={"maxiter": 500, "ftol": 1e-14},
    )  # fmt: skip
    assert found.success or found.status == 8, found.message
    return f.value(feasible.project(found.x[:d]))


@pytest.mark.parametrize("divisor", [1.0, 7.0])
@pytest.mark.parametrize("regularizer", [0.0, 0.5])
@pytest.mark.parametrize("feasible", SMALL_SETS, ids=lambda s: type(s).__name__)
@pytest.mark.parametrize("kind", KINKED)
def test_losses_with_kinks_agree_with_a_general_solver(kind, feasible, regularizer, divisor):
    f = kinked(kind, regularizer, divisor)
    found, wanted = best(f, feasible, np.zeros(5)), least_by_slsqp(f, feasible)
    assert found.value == f.value(found.point)
    assert found.value == pytest.approx(wanted, rel=1e-6)
    assert found.value - found.certificate <= wanted
    np.testing.assert_allclose(feasible.project(found.point), found.point, atol=1e-12)
    if feasible.bounded or regularizer:
        assert found.certificate <= 1e-6 * found.value


@pytest.mark.parametrize("few", [4, comparator.FEW])
@pytest.mark.parametrize("radius", [0.1, 1.0, None])
@pytest.mark.parametrize("kind", KINKED)
def test_losses_with_kinks_on_a_box_are_linear_programs(kind, radius, few, monkeypatch):
    monkeypatch.setattr(comparator, "FEW", few)
    f = kinked(kind, 0.0, n=200)
    a, b = f.features, f.targets
    lo, hi = (np.zeros(200), -b) if kind is Hinge else (-np.ones(200), np.ones(200))
    upper = np.vstack([np.hstack([s[:, None] * a, -np.eye(200)]) for s in (lo, hi)])
    wanted = linprog(
        np.concatenate([np.zeros(5), np.ones(200)]), upper, np.concatenate([lo * b, hi * b]),
        bounds=[(None if radius is None else -radius, radius)] * 5 + [(None, None)] * 200,
    )  # fmt: skip
    found = best(f, Unconstrained() if radius is None else Box(radius), np.zeros(5))
    assert found.value == pytest.approx(wanted.fun, rel=1e-7)


@pytest.mark.parametrize("feasible", SMALL_SETS, ids=lambda s: type(s).__name__)
@pytest.mark.parametrize("regularizer", [0.0, 0.5])
@pytest.mark.parametrize("kind", KINKED)
def test_of_few_samples_the_comparator_is_that_of_all(kind, regularizer, feasible, monkeypatch):
    f = kinked(kind, regularizer, n=3000)
    plain, solved = comparator._conic, []

    def conic(total, within, some, side):
        solved.append(some.sum())
        return plain(total, within, some, side)

    earlier = kind(f.features[:2500], f.targets[:2500], regularizer=regularizer)
    near = best(earlier, feasible, np.zeros(5)).point
    monkeypatch.setattr(comparator, "_conic", conic)
    found = best(f, feasible, near)
    assert found.certificate <= 1e-8 * found.value or not (feasible.bounded or regularizer)
    assert max(solved) < 3000 or not (feasible.bounded or regularizer)
    whole = plain(f, feasible, np.ones(3000, bool), np.ones(3000))
    assert found.value == pytest.approx(whole.value, rel=1e-7)


@pytest.mark.parametrize("feasible", SMALL_SETS[:3], ids=lambda s: type(s).__name__)
@pytest.mark.parametrize("regularizer", [0.0, 0.5])
@pytest.mark.parametrize("samples", [3, 40, 2000])
@pytest.mark.parametrize("kind", [Logistic, LeastSquares])
def test_newton_ends_where_rounding_does(kind, samples, regularizer, feasible):
    f = kinked(Hinge, regularizer, n=samples)
    found = best(kind(f.features, f.targets, regularizer=regularizer), feasible, np.ones(5))
    assert found.certificate <= 1e-9 * max(found.value, 1e-3)


@pytest.mark.parametrize("set_", ["box", "product-of-balls", "ball", "none"])
def test_on_every_set_the_comparators_of_nearly_separable_data_are_found_soon(set_, tmp_path):
    begun = time.process_time()
    found = summary_of(run_of(tmp_path / "run", f"algorithm.name=dpsda-ps problem.set={set_} problem.radius=10"))
    assert found["comparator"]["certificate"] < 1e-6 * found["network_regret"]
    assert time.process_time() - begun < 30


def test_the_regularized_hinge_is_a_support_vector_machine():
    f = kinked(Hinge, 0.5, n=200)
    machine = LinearSVC(loss="hinge", fit_intercept=False, C=2.0, tol=1e-9, max_iter=10**7, random_state=0)
    wanted = f.value(machine.fit(f.features, f.targets).coef_[0])
    found = best(f, Unconstrained(), np.zeros(5))
    assert found.value == pytest.approx(wanted, rel=1e-7)
    assert found.value <= wanted * (1 + 1e-9)
    assert found.certificate <= 1e-7 * found.value


@pytest.mark.parametrize("feasible", SMALL_SETS, ids=lambda s: type(s).__name__)
@pytest.mark.parametrize("kind", KINKED)
@given(
    seed=st.integers(0, 2**31), regularizer=st.sampled_from([0.0, 0.01, 1.0]), size=st.sampled_from([1e-3, 0.1, 3.0])
)
@settings(max_examples=15)
def test_a_certificate_bounds_every_point_there_is(kind, feasible, seed, regularizer, size):
    f = kinked(kind, regularizer, seed=seed, n=12)
    found = best(f, feasible, np.zeros(5))
    rng = np.random.default_rng(seed)
    for _ in range(40):
        other = feasible.project(found.point + size * rng.standard_normal(5))
        assert f.value(other) >= found.value - found.certificate - 1e-12


@pytest.mark.parametrize("feasible", SMALL_SETS, ids=lambda s: type(s).__name__)
@pytest.mark.parametrize("kind", KINKED)
@given(seed=st.integers(0, 2**31), regularizer=st.sampled_from([0.0, 0.3]))
@settings(max_examples=25)
def test_any_multipliers_bound_from_below(kind, feasible, seed, regularizer):
    """The certificate rests on no property of the solver's answer."""
    f = kinked(kind, regularizer, divisor=2.0, seed=seed, n=12)
    rng = np.random.default_rng(seed)
    lo, hi = f.slopes(f.targets)
    lower = _dual(f, feasible, (lo + rng.choice([0.0, 1.0, rng.random()], 12) * (hi - lo)) / f.divisor)
    for _ in range(20):
        assert f.value(feasible.project(rng.standard_normal(5))) >= lower


@pytest.mark.parametrize("regularizer", [0.0, 0.2])
@pytest.mark.parametrize("feasible", SMALL_SETS, ids=lambda s: type(s).__name__)
@pytest.mark.parametrize("kind", [*KINKED, Logistic, LeastSquares])
def test_sparse_features_have_the_comparator_of_dense_ones(kind, feasible, regularizer):
    """With rows of zeros, and a coordinate that no sample has."""
    f = kinked(Hinge, regularizer, n=60)
    a = np.where(np.random.default_rng(0).random((60, 5)) < 0.6, f.features, 0.0)
    a[3:9], a[:, 4] = 0.0, 0.0
    dense, sparse = (
        best(kind(x, f.targets, regularizer=regularizer), feasible, np.zeros(5)) for x in (a, csr_array(a))
    )
    assert sparse.value == pytest.approx(dense.value, rel=1e-8)
    if feasible.bounded or regularizer:
        np.testing.assert_allclose(sparse.point, dense.point, atol=1e-3)
        assert sparse.certificate <= 1e-6 * sparse.value


@pytest.mark.parametrize("regularizer", [0.0, 0.2])
@pytest.mark.parametrize("feasible", SMALL_SETS, ids=lambda s: type(s).__name__)
@pytest.mark.parametrize("kind", KINKED)
def test_one_sample_has_a_comparator(kind, feasible, regularizer):
    f = kind(np.array([[1.0, 0, 0, 0, 0]]), np.array([1.0]), regularizer=regularizer)
    found = best(f, feasible, np.zeros(5))
    most = {Unconstrained: 1.0}.get(type(feasible), 0.4)  # 1 − v + (λ/2)v² falls up to 1
    assert found.value == pytest.approx(1 - most + regularizer / 2 * most**2, abs=1e-7)
    assert 0 <= found.certificate <= max(1e-6, found.value)


@pytest.mark.parametrize("kind", KINKED)
def test_samples_without_features_have_a_comparator(kind):
    f = kind(np.zeros((3, 5)), np.ones(3))
    for feasible in SMALL_SETS:
        assert best(f, feasible, np.zeros(5)).value == pytest.approx(3)


@pytest.mark.parametrize("regularizer", [0.01, 1.0])
@pytest.mark.parametrize("kind", [Logistic, LeastSquares])
def test_regularized_smooth_losses_are_certified_on_all_of_space(kind, regularizer):
    f = kinked(Hinge, 0.0, n=200)
    f = kind(f.features, f.targets, regularizer=regularizer)
    found = best(f, Unconstrained(), np.zeros(5))
    assert 0 <= found.certificate <= 1e-8 * found.value
    wanted = minimize(f.value, np.ones(5), jac=f.grad, method="BFGS", options={"gtol": 1e-9}).fun
    assert found.value - found.certificate <= wanted * (1 + 1e-14)
    assert found.value <= wanted * (1 + 1e-9)
