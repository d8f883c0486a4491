"""Theorem 4's bounds on the gap of Algorithm 2's average decisions: their formulas, and real gaps."""

from __future__ import annotations

from math import inf, log, sqrt

import numpy as np
import pytest

from mpinodes.bounds import bounds
from mpinodes.bounds.dola import regrets
from mpinodes.bounds.weights import Weights
from mpinodes.evaluation import comparator
from mpinodes.evaluation.meter import Meter
from mpinodes.rounds.lockstep import simulate
from tests.helpers.parts import setup_of

PRINTED, CHECKED = "Theorem 4, as printed, 95% sure", "Theorem 4, checked"
BASE = "algorithm.name=dola-minibatch data.total=2000 topology.agents=4 topology.name=complete rounds=80"
PUBLIC = f"{BASE} algorithm.regularizer_at=public"
STEEP = f"{PUBLIC} problem.regularizer=0.5 problem.radius=1.5"
CONVEX = f"{PUBLIC} problem.regularizer=0 problem.radius=2 step.kind=inverse-sqrt step.initial=0.5"


def found(words: str, at=(80,)):
    setup = setup_of(words)
    made = {b.name: b for b in bounds(setup, np.array(at), np.ones(setup.dimension))}
    assert set(made) == {PRINTED, CHECKED}
    assert {b.of for b in made.values()} == {"optimality_gap"}
    return made


def test_as_printed_it_is_its_formula():
    """Complete graph of 4, T = 400 samples of each agent in batches of 5, ε = 1, gradients clipped at 1."""
    m, d, lam, h, t, across = 4, 10, 0.5, 5, 400, 3.0
    lip, eta = 1 + lam * 1.5, 0.25
    theta, beta = (1 - eta / 64) ** -2, 1 - eta / 64
    shared = 3 * beta * theta * m * lip / (1 - beta)
    a, b = across + shared + 6.5 * lip, shared + (2 * lip + 1) / (2 * m)
    regret_d = (m * lip * a + b * 2 * sqrt(2) * m * d) * (1 + log(t / h)) / lam + m * across / 2
    gamma = 0.05 / (4 * log(t))
    wanted = (
        h**2 * regret_d / (m * t)
        + 4 * sqrt(lip**2 * log(t / h) / lam) * h * sqrt(h * regret_d / m) / t
        + max(16 * lip**2 / lam, 6) * h * log(1 / gamma) / t
    )
    bound = found(STEEP)[PRINTED]
    assert bound.applies, bound.why
    assert bound.values[0] == pytest.approx(wanted, rel=1e-12)


def shifts(alpha: np.ndarray, phi: float, lip: float, across: float) -> np.ndarray:
    """Σ_{s < r} U_{s,r} by round r, each U by itself."""
    found = np.zeros(len(alpha))
    for s, first in enumerate(alpha):
        u = min(2 * lip * first, across)
        for r in range(s + 1, len(alpha)):
            found[r] += u
            kept, kink = 1 - alpha[r] * phi, 2 * lip * alpha[r]
            u = sqrt((kept * u) ** 2 + kink**2) if kept >= 0 else -kept * u + kink
            u = min(u, across)
    return found


@pytest.mark.parametrize("words", [STEEP, CONVEX, f"{STEEP} step.modulus=0.2", f"{PUBLIC} problem.radius=0.7"])
def test_checked_is_its_sums_but_for_the_mean_square_in_place_of_the_mean(words):
    setup, at = setup_of(words), np.array([1, 2, 20, 80])
    phi, across = setup.experiment.problem.regularizer, setup.feasible.diameter(10)
    alpha = np.array([setup.algorithm.run.step(t) for t in range(1, 81)])
    own = regrets(setup, Weights.of(setup), at)[1] / (4 * at)
    wanted = np.cumsum(shifts(alpha, phi, 1.0, across))[at - 1] / (at * 80)
    rest = found(words, at)[CHECKED].values - own
    assert rest[0] == pytest.approx(0, abs=1e-9)
    assert (rest[1:] >= wanted[1:] * (1 - 1e-9)).all()
    assert (rest[1:] <= wanted[1:] * 1.15).all()


@pytest.mark.parametrize("s", [1, 5, 30])
def test_batches_that_change_places_move_no_decision_further(s, monkeypatch):
    """Agent 0's of rounds s and 60, in runs with the same noise."""
    setup = setup_of(STEEP)
    decisions = np.concatenate([rows.copy() for rows in simulate(setup)], axis=1)[:, :, :10]
    of, places = type(setup.stream).of, {s: 60, 60: s}

    def swapped(stream, agent):
        loss = of(stream, agent)
        return (lambda t: loss(places.get(t, t))) if agent == 0 else loss

    monkeypatch.setattr(type(setup.stream), "of", swapped)
    others = np.concatenate([rows.copy() for rows in simulate(setup_of(STEEP))], axis=1)[:, :, :10]
    moved = np.linalg.norm(others - decisions, axis=2).max(axis=0)  # at [t − 1] the decisions of round t
    alpha = np.array([setup.algorithm.run.step(t) for t in range(1, 81)])
    u = 2 * alpha[s - 1]
    assert moved[s] > 0
    for r in range(s + 1, 61):
        assert moved[r - 1] <= u * (1 + 1e-9)
        u = sqrt(((1 - alpha[r - 1] * 0.5) * u) ** 2 + 4 * alpha[r - 1] ** 2)


RUNS = [
    STEEP,
    f"{STEEP} privacy.epsilon=inf",
    f"{STEEP} topology.name=erdos-renyi-each-round privacy.epsilon=10",
    f"{PUBLIC} privacy.epsilon=inf",
    f"{CONVEX} privacy.epsilon=inf",
    f"{STEEP} data.partition=by-label privacy.epsilon=inf data.batch=1 rounds=400",
    f"{BASE} problem.regularizer=0 problem.radius=2 step.kind=inverse-sqrt privacy.epsilon=inf",
]


@pytest.mark.parametrize("words", RUNS)
def test_no_gap_is_larger_than_a_checked_bound_in_the_mean(words):
    """Over ten seeds of the noise, and of the data and their order."""
    first = setup_of(words)
    at = np.array([1, 3, 20, first.experiment.rounds])
    gaps = []
    for seed in range(10):
        setup = setup_of(f"{words} seed={seed} data.seed={seed}")
        meter = Meter(setup, at)
        for rows in simulate(setup):
            meter.take(rows.transpose(1, 0, 2)[:, :, : setup.dimension])
        meter.end()
        total = meter.losses.everything.upto(int(at[-1]))
        least = comparator.best(total, setup.feasible, meter.mean[-1]).value
        gaps.append(meter.whole - least / (at[-1] * 4))
    bound = found(words, at)[CHECKED]
    assert bound.applies, bound.why
    assert (bound.values >= np.mean(gaps, axis=0).max(axis=1)).all()


@pytest.mark.parametrize(
    ("words", "why", "also_checked"),
    [
        (BASE, "regularizer_at", True),
        (f"{PUBLIC} problem.average=false", "problem.average", True),
        (f"{PUBLIC} data.shuffle=false", "data.shuffle", True),
        (f"{PUBLIC} data.epochs=2 rounds=120", "data.epochs", True),
        (f"{PUBLIC} problem.set=none", "diameter", True),
        (CONVEX, "no regularizer", False),
        (f"{STEEP} step.modulus=0.6", "0.6-strongly convex", False),
        (f"{STEEP} privacy.scale=0.1", "one scale", False),
    ],
)
def test_a_run_that_breaks_an_assumption_says_which(words, why, also_checked):
    for name, bound in found(words).items():
        broken = also_checked or name == PRINTED
        assert bound.applies != broken
        assert (why in bound.why) == broken


def test_without_strong_convexity_the_printed_form_is_infinite():
    made = found(CONVEX, (1, 80))
    assert (made[PRINTED].values == inf).all()
    assert np.isfinite(made[CHECKED].values).all()
