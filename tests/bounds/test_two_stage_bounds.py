"""The bounds on how far two-stage Gaussian consensus ends from the best point: their formulas, and real errors."""

from __future__ import annotations

from math import inf, log, sqrt

import numpy as np
import pytest

from mpinodes import load
from mpinodes.bounds import bounds
from mpinodes.bounds.constants import clipped
from mpinodes.evaluation import comparator
from mpinodes.streams.labelled import in_memory
from mpinodes.streams.mean import Mean
from tests.helpers.parts import metered, run_of, setup_of

T = 20
BASE = f"algorithm.name=two-stage-gaussian topology.agents=6 algorithm.gradient_rounds={T} rounds=40 data.seed=3"
MEAN = f"{BASE} data.points=30 topology.name=ring"
LOGISTIC = (
    f"{BASE} data.name=unit-ball data.total=300 data.dimension=3 problem.loss=logistic problem.regularizer=4 "
    "problem.set=ball problem.radius=1 privacy.clip=1"
)
AT = np.array([1, 2, 5, T, T + 1, T + 2, T + 3, 40])
PRINTED = {"Theorem 2, as printed": "decision_error", "Corollary 2, as printed": "agent_decision_error"}
CHECKED = {"Theorem 2, checked": "decision_error", "Corollary 2, checked": "agent_decision_error"}


def found(words: str, minimizer, at=AT):
    setup = setup_of(words)
    made = {b.name: b for b in bounds(setup, at, np.asarray(minimizer, dtype=float))}
    assert {b.name: b.of for b in made.values()} == PRINTED | CHECKED
    return made


def ring_rate(n: int) -> float:
    """1 − (2/3) λ₂/λ_max of a ring's Laplacian."""
    values = np.sort(2 - 2 * np.cos(2 * np.pi * np.arange(n) / n))
    return float(1 - 2 / 3 * values[1] / values[-1])


def of_mean(epsilon: float = 4.0, delta: float = 1e-3):
    """G, K and 1/√κ of 30 points of the cube of half width 5 in 5 dimensions, μ = L = 30."""
    return 30 * 2 * 5 * sqrt(5), 1 / 30, 2 * 5 * sqrt(5) * sqrt(epsilon + 2 * log(2 / delta)) / epsilon


def closed_form(steep: float, k: float, root: float, rate: float, p: int, t: int) -> float:
    """The checked bound in closed form."""
    mixing = 1 / (1 - rate)
    return (
        steep**2 * k**2 * (1 + 2 * mixing) * (1 + log(t)) / t
        + 2 * sqrt(2 * p) * steep * root * k**2 * (4 + 8 * mixing) / sqrt(t)
        + 4 * p * (k * root) ** 2
    )


def test_as_printed_they_are_their_formulas():
    best, (steep, k, root), mixing = np.full(5, 3.5), of_mean(), 1 / (1 - ring_rate(6))
    theorem = (
        5 * 3.5**2 / T
        + steep**2 * (1 + mixing) * k**2 * log(T) / T
        + 2 * sqrt(10) * steep * root * (4 + 3 * mixing) * k**2 / T**0.25
        + 10 * (k * root) ** 2
    )
    made = found(f"{MEAN} algorithm.handover=clean", best)
    mean, one = (made[name] for name in PRINTED)
    assert mean.why == one.why == ""
    np.testing.assert_allclose(mean.values, [inf] * 4 + [theorem] * 4, rtol=1e-12)
    stage_two = [4 * 6 * 125 * ring_rate(6) ** (2 * k) + 2 * theorem for k in (1, 2, 19)]
    np.testing.assert_allclose(one.values, [inf] * 5 + stage_two, rtol=1e-12)


def by_hand(best, steep, k, noise, rate, p, n, reach):
    """B_t with the D_t as sums over all rounds before, for the paper's steps."""
    m = np.concatenate([[0.0], noise])
    errors = [best @ best]
    for t in range(1, T + 1):
        apart = sum(rate ** (t - s) * (sqrt(p) * (m[s] + m[s - 1]) + k / s * steep) for s in range(1, t))
        pull = 2 * k / t * steep * (apart + sqrt(p) * m[t - 1])
        errors.append((1 - 1 / t) * (errors[-1] + p * m[t - 1] ** 2) + (k / t * steep) ** 2 + pull)
    mean = [errors[t - 1] if t <= T + 1 else errors[T] + p * m[T] ** 2 / n for t in AT.tolist()]
    one = [
        n * e if t <= T + 1
        else 2 * n * rate ** (2 * (t - 1 - T)) * (min(errors[T], reach**2) + p * m[T] ** 2) + 2 * e
        for t, e in zip(AT.tolist(), mean, strict=True)
    ]  # fmt: skip
    return mean, one


@pytest.mark.parametrize("handover", ["noised", "clean"])
def test_checked_they_are_the_sums_of_the_proof(handover):
    best, (steep, k, root) = np.linspace(3, 4, 5), of_mean()
    noise = k * root * sqrt(2) * T**0.25 * np.arange(1, T + 1) ** -0.75
    noise[-1] *= handover == "noised"
    made = found(f"{MEAN} algorithm.handover={handover}", best)
    for name, values in zip(CHECKED, by_hand(best, steep, k, noise, ring_rate(6), 5, 6, sqrt(125)), strict=True):
        assert made[name].applies, made[name].why
        np.testing.assert_allclose(made[name].values, values, rtol=1e-10)


def test_of_logistic_loss_the_gradient_is_bounded_by_the_data_and_the_regularizer():
    """50 samples of norm 1 an agent, λ = 4 on the unit ball: G = 54, μ = 4, L = 4 + 50/4."""
    k = (4 + 16.5) / (2 * 4 * 16.5)
    setup = setup_of(f"{LOGISTIC} topology.name=ring")
    assert setup.algorithm.noise(1) == pytest.approx(2 * k * sqrt(4 + 2 * log(2000)) / 4 * sqrt(2) * T**0.25)
    best = np.array([0.3, 0, 0.1])
    made = found(f"{LOGISTIC} topology.name=ring", best)
    noise = setup.algorithm.noise(np.arange(1, T + 1))
    for name, values in zip(CHECKED, by_hand(best, 54, k, noise, ring_rate(6), 3, 6, 1), strict=True):
        np.testing.assert_allclose(made[name].values, values, rtol=1e-10)


@pytest.mark.parametrize("rounds", [1, 2, 3, 10, 100, 3000])
@pytest.mark.parametrize("epsilon", ["0.1", "4", "1000"])
def test_the_sums_stay_within_their_closed_form(rounds, epsilon):
    words = f"{MEAN} algorithm.gradient_rounds={rounds} rounds={rounds + 1} privacy.epsilon={epsilon}"
    sums = found(words, np.full(5, 5.0), [rounds + 1])["Theorem 2, checked"].values[-1]
    closed = closed_form(*of_mean(float(epsilon)), ring_rate(6), 5, rounds)
    assert sums <= closed
    assert sums > 0.1 * closed or rounds < 10  # little noise has been heard by then


RUNS = [
    MEAN,
    f"{MEAN} privacy.epsilon=0.05",
    f"{MEAN} privacy.mechanism=none",
    f"{MEAN} algorithm.handover=clean",
    f"{MEAN} algorithm.calibration=exact algorithm.noise_decay=0.3",
    f"{MEAN} algorithm.noise_scale=0.5 algorithm.noise_decay=0 algorithm.handover=clean",
    f"{MEAN} algorithm.mixing=metropolis problem.gradient_noise=400",
    f"{MEAN} topology.name=erdos-renyi-each-round",
    f"{MEAN} algorithm.modulus=3 algorithm.largest_curvature=20",
    f"{MEAN} problem.radius=2",
    f"{MEAN} data.points=1 data.partition=even",
    f"{LOGISTIC} topology.name=erdos-renyi",
    f"{LOGISTIC} topology.name=ring problem.set=ball problem.radius=0.05 privacy.epsilon=1",
]


def errors_of(words: str, seeds: int, at=AT):
    """x*, and by seed the errors of the mean decision, (seeds, h), and of each agent's, (seeds, h, n)."""
    mean, each = [], []
    for seed in range(seeds):
        setup = setup_of(f"{words} seed={seed}")
        meter = metered(setup, at.copy())
        if not seed:
            best = comparator.best(meter.losses.everything.upto(1), setup.feasible, meter.mean[-1]).point
        mean.append(((meter.last - best) ** 2).sum(axis=1))
        each.append(((meter.judged - best) ** 2).sum(axis=2))
    return best, np.array(mean), np.array(each)


@pytest.mark.parametrize("words", RUNS)
def test_no_run_ends_farther_off_than_a_checked_bound(words):
    """In the mean over 12 seeds of the noise on the same data, in both stages."""
    best, mean, each = errors_of(words, 12)
    made = found(words, best)
    for name, measured in zip(CHECKED, (mean, each.max(axis=2)), strict=True):
        bound = made[name]
        assert bound.applies, bound.why
        assert np.isfinite(bound.values).all()
        assert (bound.values * (1 + 1e-12) >= measured.mean(axis=0)).all(), (bound, measured.mean(axis=0))
    assert made["Theorem 2, checked"].values[0] == pytest.approx(mean[0, 0])


@pytest.mark.parametrize(("rounds", "noise", "most"), [(1, 100, 3), (3, 1, 50)])
def test_of_two_agents_with_points_in_opposite_corners_the_bounds_are_not_far_off(rounds, noise, most, monkeypatch):
    """Gradients as steep as can be, and noise that outweighs them: here a bound too small by a little would show."""
    points = np.array([[1.0, 1.0], [-1.0, -1.0]])
    monkeypatch.setattr(Mean, "open", lambda self: (in_memory(points, np.zeros(2)), None))
    words = (
        "algorithm.name=two-stage-gaussian topology.agents=2 topology.name=complete data.points=1 data.dimension=2 "
        f"data.radius=1 problem.radius=1 algorithm.noise_scale={noise} "
        f"algorithm.noise_decay=0 algorithm.gradient_rounds={rounds} rounds=10"
    )
    at = np.arange(rounds + 2, 11)
    best, mean, each = errors_of(words, 100, at)
    made = found(words, best, at)
    for name, measured in zip(CHECKED, (mean, each.max(axis=2)), strict=True):
        ratio = made[name].values / measured.mean(axis=0)
        error = measured.std(axis=0) / measured.mean(axis=0) / sqrt(100)
        assert (ratio >= 1 - 3 * error).all()
        assert (ratio < most).all()


def test_the_printed_theorem_is_wrong_for_one_step(monkeypatch):
    """Steps of 2/3 on 3, 3 and 1 points at 0.9, −0.6 and −0.9, of mean 0, end at 1, −1 and −0.6; log 1 = 0."""
    points = np.repeat([0.9, -0.6, -0.9], [3, 3, 1])[:, None]
    monkeypatch.setattr(Mean, "open", lambda self: (in_memory(points, np.zeros(7)), None))
    monkeypatch.setattr(Mean, "shares", property(lambda self: np.split(np.arange(7), [3, 6])))
    words = (
        "algorithm.name=two-stage-gaussian topology.agents=3 topology.name=complete data.dimension=1 data.radius=1 "
        "problem.radius=1 privacy.epsilon=1e9 algorithm.gradient_rounds=1 rounds=2"
    )
    best, mean, _ = errors_of(words, 1, at := np.array([2]))
    assert abs(best[0]) < 1e-12
    assert mean[0, 0] == pytest.approx(0.2**2)
    made = found(words, best, at)
    assert made["Theorem 2, as printed"].applies
    assert made["Theorem 2, as printed"].values[0] < 0.005
    assert made["Theorem 2, checked"].values[0] == pytest.approx((6 * 2 / 3) ** 2)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (f"{MEAN} privacy.clip=20", "may reach 22.4, and privacy.clip = 20"),
        (f"{MEAN} problem.set=none", "the gradients of an agent's loss have no bound"),
        (f"{LOGISTIC} privacy.clip=0.5", "may reach 1, and privacy.clip = 0.5"),
    ],
)
def test_a_run_that_breaks_an_assumption_says_which(words, why):
    for bound in found(words, np.zeros(setup_of(words).dimension)).values():
        assert not bound.applies
        assert why in bound.why


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (MEAN, "hand-over"),
        (f"{MEAN} algorithm.calibration=theorem-1", "scales of Theorem 2"),
        (f"{MEAN} algorithm.noise_scale=1", "scales of Theorem 2"),
        (f"{MEAN} algorithm.noise_scale=0.25 algorithm.noise_decay=0", "scales of Theorem 2"),
        (f"{MEAN} algorithm.modulus=31 algorithm.largest_curvature=31", "the losses are known to have 30 and 30"),
        (f"{MEAN} problem.gradient_noise=1", "stochastic"),
        (f"{MEAN} topology.name=matchings", "not connected in every round"),
    ],
)
def test_what_only_the_printed_forms_need_is_held_against_them_alone(words, why):
    for name, bound in found(words, np.ones(5)).items():
        assert bound.applies == (name in CHECKED)
        assert (why in bound.why) == (name in PRINTED)


def test_the_printed_theorem_ends_with_stage_one_where_the_hand_over_is_noised():
    made = found(f"{MEAN} rounds={T + 1}", np.ones(5), AT[:5])
    assert made["Theorem 2, as printed"].applies
    assert not made["Corollary 2, as printed"].applies


def test_steps_for_less_convexity_than_the_losses_have_are_as_the_theorem_has_them():
    made = found(f"{MEAN} algorithm.modulus=10 algorithm.largest_curvature=40 algorithm.handover=clean", np.ones(5))
    assert all(bound.applies for bound in made.values())


def test_numbers_that_overflow_are_infinite_and_no_error():
    for bound in found(f"{LOGISTIC} privacy.clip=1e100 problem.regularizer=1e-60", np.ones(3)).values():
        assert bound.values[-1] == inf
        assert bound.why


def test_a_cut_of_squared_distances_is_one_within_the_set_alone():
    setup = setup_of(f"{MEAN} privacy.clip=23")
    assert clipped(setup, within=5 * sqrt(5)) == ""
    assert "have no bound" in clipped(setup)


def test_the_record_has_every_agents_error_and_both_bounds(tmp_path):
    words = "algorithm.name=two-stage-gaussian algorithm.gradient_rounds=5 rounds=9 topology.agents=4"
    data = load(run_of(tmp_path / "run", f"{words} record.decisions=true"))
    last = data.decision.isel(round=data.horizon.values - 1).values
    best = data.comparator_point.values[-1]
    np.testing.assert_allclose(data.agent_decision_error, ((last - best) ** 2).sum(axis=2), rtol=1e-12)
    np.testing.assert_allclose(data.decision_error, ((last.mean(axis=1) - best) ** 2).sum(axis=1), rtol=1e-12)
    assert (data.bound_decision_error_theorem_2_checked >= data.decision_error).all()
    assert (data.bound_agent_decision_error_corollary_2_checked >= data.agent_decision_error.max("agent")).all()
