"""The papers' regret bounds: against their formulas written out once more, and against what runs really cost."""

from __future__ import annotations

from dataclasses import replace
from math import inf, log, sqrt

import numpy as np
import pytest

from mpinodes.bounds import bounds
from mpinodes.bounds.weights import Weights, matrices
from mpinodes.core import Setup
from mpinodes.evaluation import comparator
from mpinodes.schedules.doubling import Doubling
from mpinodes.schedules.inverse_sqrt import InverseSqrt
from tests.helpers import parts as helpers
from tests.helpers import reference
from tests.helpers.parts import metered

UNCUT = "privacy.clip=3.2"  # no gradient of a block of digits is longer
SMALL = "data.total=2000 topology.agents=4"
DOLA = f"algorithm.name=dola {SMALL} rounds=200 topology.name=complete problem.regularizer=0.5 problem.radius=1.5"
BALANCING = f"algorithm.name=weight-balancing {SMALL} rounds=200"


def setup_of(words: str) -> Setup:
    """With doubling or 1/√t put in afterwards for weight balancing, whose default step.offset they refuse."""
    for kind, step in [("doubling", Doubling()), ("inverse-sqrt", InverseSqrt())]:
        if words.startswith(BALANCING) and f"step.kind={kind}" in words:
            setup = helpers.setup_of(words.replace(f"step.kind={kind}", "step.modulus=1"))
            run = replace(setup.algorithm.run, steps=step)
            return replace(setup, run=run, algorithm=replace(setup.algorithm, run=run))
    return helpers.setup_of(words)


def found(words: str, horizons=None, minimizer=None):
    """By (name, of)."""
    setup = setup_of(words)
    at = np.array([setup.experiment.rounds] if horizons is None else horizons)
    point = np.ones(setup.dimension) if minimizer is None else minimizer
    return {(b.name, b.of): b for b in bounds(setup, at, point)}


def value(words: str, name: str, of: str) -> float:
    return float(found(words)[name, of].values[-1])


def test_the_matrices_are_those_the_agents_mix_with():
    for words, weights in [
        ("algorithm.name=dpsda-ps rounds=9", reference.column_stochastic),
        ("algorithm.name=dpsda-c rounds=9", reference.uniform),
        ("algorithm.name=dola rounds=9 data.total=200", reference.metropolis),
    ]:
        setup = setup_of(words)
        for t, found in enumerate(matrices(setup, 9), start=1):
            np.testing.assert_allclose(found, weights(7, setup.topology.edges(t)), rtol=1e-14)


def test_balancing_matrices_follow_the_balancing_weights():
    setup = setup_of(BALANCING)
    sends = setup.topology.sends(1)
    out, w = sends.sum(axis=1), np.full(4, 1 / sends.sum())
    for found in matrices(setup, 30):
        wanted = np.diag(1 - w * out) + (w[:, None] * sends).T
        np.testing.assert_allclose(found, wanted, atol=1e-15)
        w = w / 2 + sends.T @ w / 2 / out


@pytest.mark.parametrize(
    "graph",
    ["ring topology.agents=5", "seven-agent-digraph topology.undirected=true", "erdos-renyi-each-round", "matchings"],
)
def test_sums_over_lags_are_at_least_those_of_the_products_and_not_much_more(graph):
    weights = Weights.of(setup_of(f"algorithm.name=dola data.total=2100 topology.name={graph} rounds=60"))
    n, places = weights.first.shape[1], weights.places(400)
    norms, entries = np.zeros(300), np.zeros(300)
    for start in range(len(weights.first)):
        product = np.eye(n)
        for k in range(300):
            norms[k] = max(norms[k], np.linalg.norm(product - 1 / n, 2))
            entries[k] = max(entries[k], np.abs(product - 1 / n).max())
            product = weights.first[places[start + k]] @ product
    spectral, largest = weights.sums()
    assert norms.sum() <= spectral * (1 + 1e-9) < 2.5 * norms.sum()
    assert entries[1:].sum() <= largest * (1 + 1e-9) < 1.6 * entries.sum()


def test_the_fitted_rate_bounds_all_products():
    weights = Weights.of(setup_of(BALANCING))
    c, rate = weights.fitted()
    places = weights.places(200)
    assert rate < 1
    for start in (0, 1, 5, 20):
        product = np.eye(4)
        for k in range(1, 60):
            product = weights.first[places[start + k - 1]] @ product
            assert np.abs(product - 1 / 4).max() <= c * rate**k * (1 + 1e-9) + 1e-10


def test_theorem_3_is_its_formula():
    """Complete graph of 4, 64 coordinates, box of half width 5; σ = 2n√d_i·clip/ε; a sample's gradient is ≤ 3.2."""
    words = "algorithm.name=dpsda-c topology.name=complete topology.agents=4 rounds=50"
    words = f"{words} problem.set=box privacy.clip=4 privacy.scale=calibrated"
    n, d, lip2 = 4, 64, 4**2 + 0.1 * 16
    s, across, k = 2 * 4 * sqrt(16) * 4, 10 * sqrt(64), 1 / ((1 - 0.25 / 64) * (0.25 / 64))
    q = 3 * n**4 * lip2 * k**2 + 3 * n**4 * lip2 + 6 * n**3 * d * s**2 * k**2
    m = 4 * d * s**2 / n + 2 * n * lip2 + across**2 / 8 + 2 * (sqrt(n) * 4 + across * 0.25 * 4 * 8) * sqrt(n * q)
    bound = found(words)["Theorem 3, as printed", "network_regret"]
    assert bound.values[0] == pytest.approx(m * sqrt(50), rel=1e-12)
    assert bound.applies, bound.why
    assert value(words, "Corollary 1, as printed", "network_regret_average_iterate") == pytest.approx(2 * m * sqrt(50))
    own = found(words)["Theorem 3, checked, own mixing", "network_regret"]  # all is mixed at once: K = 1
    q = 6 * n**4 * lip2 + 6 * n**3 * d * s**2
    m = 4 * d * s**2 / n + 2 * n * lip2 + across**2 / 8 + 2 * (sqrt(n) * 4 + across * 0.25 * 4 * 8) * sqrt(n * q)
    assert own.values[0] == pytest.approx(m * sqrt(50), rel=1e-12)


def test_theorem_5_is_its_formula_and_the_checked_one_has_a_factor_n_more():
    """Complete graph of 2: λ = 3/4, γ = 1; ball of radius 5, of which a block is not one."""
    words = (
        "algorithm.name=dpsda-ps topology.name=complete topology.agents=2 rounds=50 privacy.clip=6 privacy.epsilon=0.5"
    )
    n, d, lip2, s, rate = 2, 64, 6**2 + 0.1 * 32, 4.5 / 0.5, 2 / (1 / 4)
    q = 8 * n**2 * rate**2 * lip2 / 0.75**2 + 16 * n * d * rate**2 * s**2
    head = 4 * d * s**2 / n + 2 * n * lip2 + 12.5
    rest = 2 * (sqrt(n) * 6 + 10 * 0.25 * sqrt(32) * 8) * sqrt(n * q)
    assert value(words, "Theorem 5, as printed", "network_regret") == pytest.approx((head + rest) * sqrt(50), rel=1e-12)
    assert value(words, "Theorem 5, checked", "network_regret") == pytest.approx(
        (head + n * rest) * sqrt(50), rel=1e-12
    )


def test_theorem_5_says_so_where_its_rate_underflows():
    graph = "topology.name=matchings topology.agents=64"
    bound = found(f"algorithm.name=dpsda-ps {graph} privacy.clip=4")["Theorem 5, checked", "network_regret"]
    assert bound.values[0] == inf
    assert "overflow" in bound.why


def test_dola_as_printed_is_its_formula():
    m, d, lam, t, across = 4, 10, 0.5, 200, 3.0
    lip, eta = 1 + lam * 1.5, 0.25
    theta, beta = (1 - eta / 64) ** -2, 1 - eta / 64
    shared = 3 * beta * theta * m * lip / (1 - beta)
    a, b = across + shared + 6.5 * lip, shared + (2 * lip + 1) / (2 * m)
    noise = 2 * sqrt(2) * m * d * 1.0  # of gradients clipped at 1, ε = 1
    wanted = (m * lip * a + b * noise) * (1 + log(t)) / lam + m * across / 2
    assert value(DOLA, "Theorem 2, as printed", "agent_regret") == pytest.approx(wanted, rel=1e-12)
    convex = f"{DOLA} problem.regularizer=0 step.kind=inverse-sqrt step.initial=0.5"
    shared = 3 * beta * theta * m / (1 - beta)
    a, b = across + shared + 6.5, shared + 3 / (2 * m)
    wanted = (m * a + b * noise) * (sqrt(t) - 0.5) + m * across / 2
    assert value(convex, "Theorem 2, as printed", "agent_regret") == pytest.approx(wanted, rel=1e-12)


def test_dola_checked_is_its_sums_one_round_at_a_time():
    """On one round's complete graph K = 1."""
    m, d, lam = 4, 10, 0.5
    own = one = late = 0.0
    for t in range(1, 201):
        alpha = 1 / (lam * t)
        mu = 2 * sqrt(d) / (lam * (t - 1)) if t > 1 else 0.0
        steep = 1 + lam * (1.5 + sqrt(2 * d) * mu)
        own += m * d * mu**2 * lam * (t - 1) + m / 2 * alpha * steep**2 + 2 * sqrt(m) * late
        one += (m + sqrt(m)) * late
        late = sqrt(m) * (1 + lam * 1.5) * (sqrt(2 * d) * mu + alpha * steep) if t < 200 else 0.0
    assert value(DOLA, "Theorem 2, checked", "network_regret") == pytest.approx(own, rel=1e-9)
    assert value(DOLA, "Theorem 2, checked", "agent_regret") == pytest.approx(own + one, rel=1e-9)


@pytest.mark.parametrize("epsilon", ["0.3", "1", "10", "inf"])
def test_dola_checked_stays_within_its_closed_form_at_the_gradient_points(epsilon):
    """One agent has no one to agree with, and no regularizer any gradient that noise makes longer."""
    words = "algorithm.name=dola data.total=400 topology.name=complete topology.agents=1 problem.regularizer=0"
    words = f"{words} step.kind=inverse-sqrt step.initial=0.5 problem.radius=2 privacy.epsilon={epsilon}"
    at, d = np.array([1, 2, 5, 40, 400]), 10
    e = 1 / float(epsilon)
    closed = 16 * np.sqrt(at) + (0.5 + 4 * d**2 * e**2) * np.sqrt(at) + 3 * d**2 * e**2
    sums = found(words, at)["Theorem 2, checked", "network_regret"].values
    assert (sums <= closed).all()
    assert sums[-1] > 0.8 * closed[-1]


def balancing_by_hand(n, d, t_max, lam, norm, scale, place, share):
    """M, S and the sums of the checked form, at 1/(share·λ(t+1)): network and agent."""
    m = s = own = one = 0.0
    for t in range(1, t_max + 1):
        a = 1 / (share * lam * (t + 1))
        weights, sigma = place(t), scale * a
        away = np.linalg.norm(weights - 1 / n, ord=2)
        off = np.linalg.norm(weights @ np.ones(n) - 1)
        gain = 1 / a - (share * lam * t if t > 1 else 0.0) - lam
        own += n / 2 * max(0.0, gain) * (m + norm) ** 2 + d * sigma**2 / a
        own += n * a / 2 * (1 + lam * m) ** 2 + sqrt(n) * s + lam / 2 * s**2
        one += (n + sqrt(n)) * s + n * lam / 2 * (s**2 + 2 * s * m)
        s, m = (
            sqrt(((away + a * lam) * s + off * m + a * sqrt(n)) ** 2 + 2 * n * d * away**2 * sigma**2),
            sqrt((abs(1 - a * lam) * m + a) ** 2 + 2 * d * sigma**2 / n),
        )
    return own, own + one


@pytest.mark.parametrize(("more", "share"), [("", 0.5), ("step.modulus=0.3", 3.0), ("topology.name=eulerian", 0.5)])
def test_weight_balancing_checked_is_its_recursion(more, share):
    words = f"{BALANCING} rounds=60 {more}"
    weights = list(matrices(setup_of(words), 60))
    own, one = balancing_by_hand(4, 10, 60, 0.1, sqrt(10), 2 * sqrt(10), lambda t: weights[t - 1], share)
    assert value(words, "Theorem 2, checked", "network_regret") == pytest.approx(own, rel=1e-9)
    assert value(words, "Theorem 2, checked", "agent_regret") == pytest.approx(one, rel=1e-9)


def test_weight_balancing_as_printed_is_its_formula():
    """Doubling, no regularizer, an Eulerian digraph: C = 1, λ = max ‖W − J‖."""
    words = f"{BALANCING} rounds=64 topology.name=eulerian problem.regularizer=0 step.kind=doubling"
    rate = max(np.linalg.norm(w - 1 / 4, 2) for w in matrices(setup_of(words), 64))
    n, d, big = 4, 10, 4.0
    both, near = 5 * big + 2 * n, big + 4 * n + 2 * n
    beta = (
        n * d + 2 * (big + 2 * n + 2 * n) + 2 * sqrt(2) * n * d * both / (1 - rate)
        + n + near * n / (1 - rate) + 8 * n * d
    )  # fmt: skip
    wanted = sqrt(2) / (sqrt(2) - 1) * beta * 8
    assert value(words, "Theorem 3, as printed", "agent_regret") == pytest.approx(wanted, rel=1e-12)


RUNS = [
    f"algorithm.name=dpsda-ps {UNCUT}",
    f"algorithm.name=dpsda-c algorithm.mixing=metropolis {UNCUT}",
    "algorithm.name=dpcda privacy.clip=8",
    DOLA,
    f"{DOLA} topology.name=erdos-renyi-each-round privacy.epsilon=10",
    f"{DOLA} problem.regularizer=0 step.kind=inverse-sqrt step.initial=0.5 privacy.epsilon=inf",
    BALANCING,
    f"{BALANCING} privacy.epsilon=inf",
    f"{BALANCING} algorithm.noise_index=corrected",
    f"{BALANCING} topology.name=eulerian privacy.epsilon=20",
    f"{BALANCING} problem.regularizer=0 step.kind=doubling",
]


@pytest.mark.parametrize("words", RUNS)
def test_no_run_costs_more_than_a_checked_bound_that_applies(words):
    """In the mean over five seeds of the noise, on the same data; regret against each horizon's own best point."""
    first = setup_of(f"{words} data.seed=0")
    at = np.array([1, 3, 20, first.experiment.rounds])
    totals = []
    for seed in range(5):
        setup = setup_of(f"{words} data.seed=0 seed={seed}")
        meter = metered(setup, at)
        totals.append(meter.total)
    everything = meter.losses.everything
    best = [comparator.best(everything.upto(t), first.feasible, meter.mean[-1]) for t in at.tolist()]
    cost = np.mean(totals, axis=0) - np.array([b.value for b in best])[:, None]
    measured = {"network_regret": cost[:, 0], "agent_regret": cost[:, 2:].max(axis=1)}
    checked = [
        b for b in bounds(first, at, np.stack([b.point for b in best])) if "checked" in b.name and b.of in measured
    ]
    assert checked
    for bound in checked:
        assert bound.applies, bound.why
        assert bound.why == ""
        assert np.isfinite(bound.values).all()
        assert (bound.values >= measured[bound.of]).all(), (bound, measured[bound.of])


@pytest.mark.parametrize("words", RUNS)
def test_bounds_grow_with_the_horizon_and_with_the_noise(words):
    at = np.array([1, 2, 9, 30, 80])
    for loud, quiet in [("0.1", "1"), ("1", "inf")]:
        more, less = (found(f"{words} privacy.epsilon={e}", at) for e in (loud, quiet))
        for key, bound in more.items():
            assert (np.diff(bound.values) >= 0).all()
            assert (bound.values >= less[key].values).all()


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("algorithm.name=dpsda-c privacy.clip=4", "1/deg"),
        ("algorithm.name=dpsda-ps", "may reach 3.16, and privacy.clip = 1"),
        ("algorithm.name=dpsda-ps data.name=olr rounds=20", "have no bound"),
        ("algorithm.name=dpsda-ps privacy.clip=4 step.initial=2", "1/sqrt(t)"),
        ("algorithm.name=dpsda-ps privacy.clip=4 problem.set=none", "unbounded"),
        ("algorithm.name=dpsda-ps privacy.clip=4 problem.loss=hinge", "kink"),
        ("algorithm.name=dpsda-ps privacy.clip=4 algorithm.gradient_at=public", "public"),
        (f"{DOLA} problem.set=none", "diameter"),
        (f"{DOLA} privacy.clip=0.5", "may reach 1, and privacy.clip = 0.5"),
        ("algorithm.name=dola-minibatch data.total=2000", "regularizer_at"),
        (f"{BALANCING} step.modulus=0.06", "(1/2n) sum mu_i"),
        (f"{BALANCING} problem.regularizer=0 step.modulus=0.1", "no regularizer"),
        (f"{BALANCING} step.offset=0", "offset"),
        (f"{BALANCING} step.kind=inverse-sqrt", "doubling"),
        (f"{BALANCING} algorithm.gradient_at=public", "public"),
    ],
)
def test_a_run_that_breaks_an_assumption_says_which(words, why):
    everything = found(words).values()
    assert everything
    for bound in everything:
        assert not bound.applies
        assert why in bound.why


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (f"{DOLA} step.kind=inverse-sqrt", "neither"),
        (f"{DOLA} step.modulus=0.6", "0.6-strongly convex"),
        (f"{DOLA} problem.regularizer=0 step.modulus=0.5", "no regularizer"),
        (f"{DOLA} privacy.scale=0.1", "one scale"),
        (f"{BALANCING} privacy.scale=0.1", "not of scale"),
        (f"{BALANCING} algorithm.noise_index=corrected", "not of scale"),
    ],
)
def test_what_only_the_printed_form_needs_is_held_against_it_alone(words, why):
    for (name, _), bound in found(words).items():
        assert bound.applies == ("checked" in name)
        assert (why in bound.why) == ("printed" in name)


@pytest.mark.parametrize("words", [f"algorithm.name=dpsda-ps {UNCUT}", DOLA, BALANCING])
def test_unclipped_gradients_bound_nothing(words):
    for bound in found(f"{words} privacy.clip=inf privacy.scale=1").values():
        assert not bound.applies
        assert (bound.values == inf).all()
        assert "privacy.clip = inf" in bound.why


def test_an_algorithm_without_a_theorem_has_no_bounds():
    assert bounds(setup_of("algorithm.name=dpps rounds=10"), [10], np.zeros(64)) == []


def test_numbers_that_overflow_are_infinite_and_no_error():
    curved = "problem.regularizer=1e-90"
    for words in (f"{DOLA} {curved}", f"{BALANCING} {curved}"):
        for bound in found(f"{words} privacy.clip=1e100 privacy.epsilon=1e-12").values():
            assert (bound.values == inf).all()


def test_balancing_is_followed_until_it_settles_also_in_a_short_run():
    """Ten rounds: the weights are far from balanced, and the bound needs what they tend to."""
    setup = setup_of("algorithm.name=weight-balancing topology.agents=4 rounds=10")
    weights = Weights.of(setup)
    assert len(weights.first) > 10
    assert np.abs(weights.first[-1].sum(axis=1) - 1).max() < 1e-12
    assert np.isfinite(weights.fitted()[0])
