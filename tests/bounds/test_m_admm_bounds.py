"""Theorem 3.2's bounds on how far M-ADMM's decisions are from the best: their formulas, and real errors."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest

from mpinodes.bounds import bounds
from mpinodes.bounds.admm import contraction
from mpinodes.evaluation import comparator
from mpinodes.evaluation.meter import Meter
from mpinodes.rounds.lockstep import simulate
from tests.helpers.parts import setup_of

SMALL = "topology.agents=5 data.total=200 data.dimension=3 problem.weight=3 problem.regularizer=0.3 rounds=60"
ADMM = f"algorithm.name=admm {SMALL}"
MADMM = f"algorithm.name=m-admm {SMALL}"
KEPT = f"{MADMM} algorithm.penalty=0.8 algorithm.penalty_growth=1"
NAMES = ("decision_error", "agent_decision_error")


def measured(words: str, at: np.ndarray):
    """The run's set-up, its best decision, and by variable its errors at horizons."""
    setup = setup_of(words)
    meter = Meter(setup, at)
    for rows in simulate(setup):
        meter.take(rows.transpose(1, 0, 2)[:, :, : setup.dimension])
    best = comparator.best(meter.losses.everything.upto(1), setup.feasible, meter.mean[-1]).point
    away = meter.judged - best
    mean, one = (away.mean(axis=1) ** 2).sum(axis=1), (away**2).sum(axis=2).max(axis=1)
    return setup, best, dict(zip(NAMES, (mean, one), strict=True))


def found(words: str, at, best):
    """By (form, of)."""
    made = bounds(setup_of(words), np.asarray(at), best)
    by_key = {(b.name.removeprefix("Theorem 3.2, "), b.of): b for b in made}
    assert set(by_key) == {(form, of) for form in ("as printed", "checked") for of in NAMES}
    return by_key


RUNS = [
    ADMM,
    MADMM,
    KEPT,
    f"{MADMM} algorithm.penalty_cap=0.9 topology.name=complete",
    f"{KEPT} topology.agents=6",  # a bipartite graph
    f"{KEPT} problem.regularizer=2 problem.weight=1 rounds=300",  # down to what the local solver leaves
    f"{KEPT} problem.regularizer=2 problem.weight=1 rounds=300 algorithm.tolerance=1e-7",
    f"{MADMM} topology.name=erdos-renyi topology.agents=8 data.total=320 data.partition=by-label",
    f"{SMALL} algorithm.name=pp-admm privacy.epsilon=inf",
    f"{SMALL} algorithm.name=dvp-admm privacy.epsilon=inf",
    f"{SMALL} algorithm.name=pvp-admm privacy.epsilon=inf",
    "algorithm.name=admm data.name=mean data.points=30 problem.loss=squared-distance rounds=60 topology.agents=5 "
    "problem.weight=1 problem.regularizer=0",
]


@pytest.mark.parametrize("words", RUNS)
def test_no_decision_is_farther_than_the_checked_bound(words):
    at = np.arange(1, setup_of(words).experiment.rounds + 1)
    setup, best, errors = measured(words, at)
    for bound in bounds(setup, at, best):
        if "checked" in bound.name:
            assert bound.applies, bound.why
            assert np.isfinite(bound.values).all()
            assert (errors[bound.of] <= bound.values * (1 + 1e-9)).all(), bound.of
            assert bound.values[0] == pytest.approx(errors[bound.of][0], rel=1e-9)  # round 1 decides the known f(0)


def test_where_losses_are_well_conditioned_the_bound_falls_to_what_the_solver_leaves():
    words = f"{KEPT} topology.name=complete problem.regularizer=2 problem.weight=1 rounds=600"
    at = np.array([1, 100, 600])
    _, best, _ = measured(words, at)
    for of in NAMES:
        values = found(words, at, best)["checked", of].values
        assert values[2] < 1e-16 < values[1] < values[0]


@pytest.mark.parametrize("form", ["as printed", "checked"])
def test_it_is_its_formula(form):
    """Written out once more, on the ring of 5, for growing penalties: Z and J as block matrices."""
    n, theta, m, smooth, rounds = 5, 0.5, 0.3, 0.3 + 3 / 4, 12
    at = np.arange(1, rounds + 1)
    setup, best, errors = measured(MADMM, at)
    first = next(iter(simulate(setup)))[:, 0, :3]  # f(0)
    a = np.roll(np.eye(n), 1, axis=1) + np.roll(np.eye(n), -1, axis=1)
    laplacian, signless = 2 * np.eye(n) - a, 2 * np.eye(n) + a
    values, vectors = np.linalg.eigh(laplacian)
    root = vectors * np.sqrt(values.clip(0)) @ vectors.T
    gradients = np.array([setup.stream.of(i)(1).grad(best) for i in range(n)])
    z = np.vstack([np.linalg.pinv(root, rcond=1e-6) @ gradients, first - best])  # Y(0) − Y*, f(0) − f*
    eta = 0.5 * 1.02 ** np.arange(rounds - 1)
    j = np.block([[np.eye(n) / theta, np.zeros((n, n))], [np.zeros((n, n)), eta[0] * signless]])
    reach = np.trace(z.T @ j @ z) ** 0.5
    mean, one = [errors["decision_error"][0]], [errors["agent_decision_error"][0]]
    for k, e in enumerate(eta):
        reach *= (e / eta[max(k - 1, 0)]) ** 0.5
        left = reach / (1 + contraction(a, e, theta, m, smooth, printed=form == "as printed")) ** 0.5
        if form == "as printed":
            inverse, short, moved, shown = np.linalg.inv(e * signless), 0.0, 0.0, left
        else:
            inverse = np.linalg.inv(e * signless + (2 * e - theta) * laplacian + 2 * m * np.eye(n))
            short = 1e-10 / (m + 4 * e)
            top = np.linalg.eigvalsh(theta * laplacian + e * signless)[-1]
            moved, shown = short * (n * top) ** 0.5, reach
        mean.append(((inverse.sum() / n**2) ** 0.5 * shown + short) ** 2)
        one.append((inverse[0, 0] ** 0.5 * shown + short) ** 2)
        reach = left + moved
    made = found(MADMM, at, best)
    np.testing.assert_allclose(made[form, "decision_error"].values, mean, rtol=1e-7)
    np.testing.assert_allclose(made[form, "agent_decision_error"].values, one, rtol=1e-7)


def test_the_printed_bound_does_not_hold_for_weakly_convex_losses():
    """5-ring, η = 0.8, m = M = 1e-3, where (23) promises 150 times the contraction there is."""
    words = (
        "algorithm.name=m-admm algorithm.penalty=0.8 algorithm.penalty_growth=1 topology.agents=5 rounds=500 "
        "data.name=mean data.points=30 problem.loss=squared-distance problem.weight=0.001 problem.regularizer=0 "
        "problem.average=true"
    )
    _, best, errors = measured(words, np.array([500]))
    made = found(words, [500], best)
    for of in NAMES:
        assert made["as printed", of].applies
        assert made["as printed", of].values[0] < errors[of][0] < made["checked", of].values[0]


@pytest.mark.parametrize(
    ("words", "why", "also_checked", "finite"),
    [
        (f"{SMALL} algorithm.name=pp-admm", "without noise", True, True),
        (f"{SMALL} algorithm.name=dvp-admm", "without noise", True, True),
        (f"{SMALL} algorithm.name=pvp-admm", "without noise", True, True),
        (f"{SMALL} algorithm.name=dvp-admm privacy.epsilon=inf algorithm.grid=0.01", "algorithm.grid", True, True),
        (f"{ADMM} algorithm.dual_growth=1.01", "one dual step", True, False),
        (f"{ADMM} algorithm.dual_step=[0.5,0.5,0.5,0.5,0.6]", "one dual step", True, False),
        (f"{MADMM} algorithm.penalty=[0.5,0.5,0.5,0.5,0.6]", "penalties differ", True, False),
        (f"{MADMM} problem.regularizer=0", "0 < modulus", True, False),
        (f"{KEPT} topology.agents=6", "bipartite", False, False),
    ],
)
def test_a_run_that_breaks_an_assumption_says_which(words, why, also_checked, finite):
    for (form, _), bound in found(words, [1, 60], np.zeros(3)).items():
        broken = also_checked or form == "as printed"
        assert bound.applies != broken
        assert (why in bound.why) == broken
        assert np.isfinite(bound.values).all() == (finite or not broken)
        if not np.isfinite(bound.values).all():
            assert (bound.values == inf).all()
