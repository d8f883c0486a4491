"""Mechanisms, sensitivities, and what is reported where nothing is proven."""

from __future__ import annotations

import json
from math import exp, factorial, sqrt

import numpy as np
import pytest
from scipy.stats import kstest

from mpinodes.core import RELEASED, Event, Kind, Query
from mpinodes.core.seeds import Draws, Purpose
from mpinodes.mechanisms.laplace import Laplace
from tests.helpers.parts import run_of, setup_of, told
from tests.helpers.records import summary_of, typed


def test_laplace_noise_has_its_law_and_scale():
    """50,000 draws against the exact distribution; the p-value is fixed by the seed."""
    query = Query(np.full(50_000, 3.0), l1=4.0, l2=1.0, uses=1, leaks=RELEASED)
    out = np.empty(50_000)
    event = Laplace(epsilon=2.0, constant=None).release(query, 5, Draws(0, Purpose.NOISE, 0), out)
    assert event == Event.of(query, Kind.LAPLACE, 2.0)
    assert (event.draws, event.l1, event.uses) == (1, 4.0, 1)
    assert kstest((out - 3.0) / event.scale, "laplace").pvalue > 0.01
    assert Laplace(0.5, 3.0).release(query, 5, Draws(0, Purpose.NOISE, 0), out).scale == 6.0


def test_a_query_without_sensitivity_is_refused():
    with pytest.raises(ValueError, match="sensitivities of a Query must be > 0"):
        Query(np.zeros(3), l1=0.0, l2=1.0, uses=0, leaks=RELEASED)


@pytest.mark.parametrize("words", ["algorithm.name=dpsda-c", "algorithm.name=dpsda-ps", "algorithm.name=dpcda"])
@pytest.mark.parametrize("adjacency", ["one-sample", "one-round"])
@pytest.mark.parametrize("average", ["true", "false"])
def test_a_changed_round_moves_the_next_release_by_no_more_than_claimed(words, adjacency, average):
    """One agent on adjacent data, given the same inbox: the realised change of z against the claim."""
    from mpinodes.core import Inbox

    setup = setup_of(f"{words} data.batch=5 privacy.adjacency={adjacency} problem.average={average} privacy.clip=0.3")
    rng, worst = np.random.default_rng(0), 0.0
    make = type(setup.stream.of(0)(1))
    settings = {
        "clip": 0.3,
        "whole": adjacency == "one-round",
        "divisor": 5.0 if average == "true" else 1.0,
    }
    me = setup.topology.agents - 1
    place = setup.topology.neighborhood(2, me)
    said = [rng.standard_normal(64) for _ in place.senders]
    inbox = Inbox(said, [1 / len(said)] * len(said), 0.7, said[0])
    state = setup.algorithm.init(np.zeros(64))
    for _ in range(200):
        a, b = 10 * rng.standard_normal((5, 64)), rng.choice([-1.0, 1.0], 5)
        a2, b2 = a.copy(), b.copy()
        rows = slice(None) if adjacency == "one-round" else 2
        a2[rows] = 10 * rng.standard_normal(a2[rows].shape)
        after = [setup.algorithm.update(state, place, inbox, make(x, y, **settings)) for x, y in ((a, b), (a2, b2))]
        queries = [setup.algorithm.message(s, setup.topology.neighborhood(3, me)) for s in after]
        change = queries[0].value - queries[1].value
        assert np.linalg.norm(change) <= queries[0].l2 * (1 + 1e-12)
        assert np.abs(change).sum() <= queries[0].l1 * (1 + 1e-12)
        worst = max(worst, np.linalg.norm(change) / queries[0].l2)
    assert worst > 0.5  # the claim is not vacuous


def test_a_run_without_clipping_reports_unproven_as_null(tmp_path):
    run = run_of(tmp_path / "run", "algorithm.name=dpsda-ps privacy.clip=inf privacy.scale=3 rounds=5")
    text = (run / "summary.json").read_text()
    privacy = json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} in JSON"))["privacy"]
    assert privacy["network"] == {"claimed": 5.0, "proven_pure": None, "proven": None, "rule": "unproven"}
    assert privacy["agents"] == [privacy["network"]] * 7


# ---- whole runs of agents with data of their own, against the sums of SPECS written out

EPSILON = 0.7


def privacy_of(words: str, tmp_path) -> dict:
    """The summary's `privacy` of a lockstep run of three agents and ten rounds."""
    always = f"topology.agents=3 data.total=30 data.dimension=4 privacy.epsilon={EPSILON} privacy.clip=0.5"
    return summary_of(run_of(tmp_path / "run", f"{always} {words}"))["privacy"]


def pure(words: str, tmp_path) -> float:
    """Proven pure ε of the network, in units of the label."""
    return privacy_of(words, tmp_path)["network"]["proven_pure"] / EPSILON


def leaks(rounds: int, alpha, moved, noise_step) -> float:
    """The worst over t0 of Σ_t δ(t)/(2 clip · noise step(t)), clip = 0.5.

    f^t0 first moves message t0 + 1, by 2·clip·α(t0); `moved(t, δ)` is what message t then gets of δ(t − 1).
    """
    sums = []
    for t0 in range(1, rounds):
        delta = alpha(t0)
        total = delta / noise_step(t0 + 1)
        for t in range(t0 + 2, rounds + 1):
            delta = moved(t, delta)
            total += delta / noise_step(t)
        sums.append(total)
    return max(sums)


DOUBLING = {t: 1 / sqrt(2 ** (t.bit_length() - 1)) for t in range(1, 20)}.get


def falling(modulus: float, offset: int):
    return lambda t: 1 / (modulus * (t + offset))


@pytest.mark.parametrize("epochs", [1, 2, 3])
@pytest.mark.parametrize("shuffle", ["true", "false"])
def test_dola_costs_its_label_once_for_each_pass_over_the_data(epochs, shuffle, tmp_path):
    """Theorem 1, and parallel composition only where a sample is used once: claimed anew for every pass."""
    found = privacy_of(f"algorithm.name=dola data.epochs={epochs} data.shuffle={shuffle}", tmp_path)
    for loss in (found["network"], *found["agents"]):
        assert loss["proven_pure"] == pytest.approx(epochs * EPSILON, rel=1e-12)
        assert loss["claimed"] == pytest.approx(epochs * EPSILON, rel=1e-12)


@pytest.mark.parametrize("mixing", ["metropolis", "lazy-metropolis", "laplacian"])
@pytest.mark.parametrize("rest", ["problem.regularizer=0 step.kind=inverse-sqrt step.initial=0.5", "data.batch=2"])
def test_dola_costs_its_label_on_any_weights_and_steps(mixing, rest, tmp_path):
    assert pure(f"algorithm.name=dola algorithm.mixing={mixing} {rest}", tmp_path) == pytest.approx(1, rel=1e-12)


def test_samples_that_all_agents_share_cost_the_network_n_times(tmp_path):
    found = privacy_of("algorithm.name=dola data.partition=shared rounds=10", tmp_path)
    assert found["network"]["proven_pure"] == pytest.approx(3 * EPSILON, rel=1e-12)
    assert [agent["proven_pure"] for agent in found["agents"]] == pytest.approx([EPSILON] * 3, rel=1e-12)


@pytest.mark.parametrize(("phi", "modulus"), [(0.3, 0.3), (0.3, 0.15), (0.3, 3.0)])
@pytest.mark.parametrize("rounds", [4, 10])
def test_a_hidden_regularizer_costs_mini_batches_an_exponential_series(phi, modulus, rounds, tmp_path):
    """ε Σ_k (φ/λ)^k/k!, a term for each of the T − 1 messages that hold data."""
    words = (
        f"algorithm.name=dola-minibatch data.batch=1 rounds={rounds} problem.regularizer={phi} step.modulus={modulus}"
    )
    series = sum((phi / modulus) ** k / factorial(k) for k in range(rounds - 1))
    assert pure(words, tmp_path) == pytest.approx(series, rel=1e-9)


def test_mini_batches_with_the_step_of_their_regularizer_cost_e(tmp_path):
    words = "algorithm.name=dola-minibatch data.total=300"
    assert pure(words, tmp_path) == pytest.approx(exp(1), rel=1e-9)


def test_a_public_regularizer_costs_mini_batches_nothing(tmp_path):
    words = "algorithm.name=dola-minibatch data.batch=2 algorithm.regularizer_at=public"
    assert pure(words, tmp_path) == pytest.approx(1, rel=1e-12)


BALANCING = "algorithm.name=weight-balancing topology.name=eulerian"


@pytest.mark.parametrize("steps", ["step.kind=strongly-convex step.offset=1", "step.kind=doubling"])
@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_weight_balancing_costs_its_label_with_corrected_index_and_public_gradients(steps, loss, tmp_path):
    words = f"{BALANCING} algorithm.gradient_at=public algorithm.noise_index=corrected problem.loss={loss} {steps}"
    assert pure(words, tmp_path) == pytest.approx(1, rel=1e-12)


@pytest.mark.parametrize(("steps", "ratio"), [("step.kind=strongly-convex", 1.5), ("step.kind=doubling", sqrt(2))])
def test_the_printed_index_alone_costs_the_largest_ratio_of_steps(steps, ratio, tmp_path):
    """max α(t)/α(t + 1): 1.5 for 1/(μ(t + 1)), √2 for doubling."""
    assert pure(f"{BALANCING} algorithm.gradient_at=public {steps}", tmp_path) == pytest.approx(ratio, rel=1e-12)


@pytest.mark.parametrize("index", ["paper", "corrected"])
@pytest.mark.parametrize(
    ("steps", "alpha"),
    [("step.kind=doubling", DOUBLING), ("step.kind=strongly-convex step.modulus=2", falling(2.0, 1))],
)
def test_a_hidden_gradient_of_a_kink_costs_every_later_message_in_full(index, steps, alpha, tmp_path):
    """Hinge, β = ∞: r_k = 1, so T − t0 times ε with the corrected index, Σ_k α(t0 + k)/α(t0 + k + 1) as printed."""
    words = f"{BALANCING} problem.loss=hinge problem.regularizer=0 algorithm.noise_index={index} {steps}"
    wanted = {"corrected": 9, "paper": sum(alpha(t - 1) / alpha(t) for t in range(2, 11))}[index]
    assert pure(words, tmp_path) == pytest.approx(wanted, rel=1e-9)


@pytest.mark.parametrize("index", ["paper", "corrected"])
@pytest.mark.parametrize("regularizer", [0.0, 0.4])
@pytest.mark.parametrize(("steps", "alpha"), [("step.kind=doubling", DOUBLING), ("step.modulus=0.1", falling(0.1, 1))])
def test_a_hidden_gradient_of_a_smooth_loss_costs_the_recursion(index, regularizer, steps, alpha, tmp_path):
    """Logistic, β = ¼ in the unit ball: δ(t) = α(t − 1)(min(2·clip, β δ(t − 1)) + λ δ(t − 1))."""
    kind = "" if "kind" in steps else "step.kind=strongly-convex "
    words = f"{BALANCING} problem.regularizer={regularizer} algorithm.noise_index={index} {kind}{steps}"

    def moved(t: int, delta: float) -> float:
        return alpha(t - 1) * (min(1.0, 0.25 * delta) + regularizer * delta)

    wanted = leaks(10, alpha, moved, alpha if index == "paper" else lambda t: alpha(t - 1))
    assert pure(words, tmp_path) == pytest.approx(wanted, rel=1e-9)
    assert wanted > 1.3


def test_dual_averaging_costs_the_recursion_with_its_own_push_sum_weights(tmp_path):
    """DPPS, logistic: δ(t + 1) = min(2·clip, β α(t − 1) δ(t)/w_i(t)); every message carries noise for 2·clip."""
    words = "algorithm.name=dpps rounds=10 topology.agents=3 data.total=30 data.dimension=4"
    steps = "step.initial=6"
    setup = setup_of(f"{words} {steps} record.transcript=true")
    found = privacy_of(f"{words} {steps}", tmp_path)
    for i, agent in enumerate(found["agents"]):
        w = told(setup)["said"][:, i, 1]

        def moved(t: int, delta: float, w=w) -> float:
            return min(1.0, 0.25 * 6 / sqrt(t - 2) / w[t - 2] * delta)

        wanted = leaks(10, lambda t: 1.0, moved, lambda t: 1.0)
        assert agent["proven_pure"] / EPSILON == pytest.approx(wanted, rel=1e-9)
    assert pure(f"{words} problem.loss=hinge", tmp_path / "hinge") == pytest.approx(9)


def test_rescaled_subgradients_cost_the_recursion_with_their_own_perron_entries(tmp_path):
    """DPSR, logistic: δ(t + 1) = (α(t)/[r_i(t)]_i)·min(2·clip, β δ(t)), noise for 2·clip·α(t)/[r_i(t)]_i."""
    words = "algorithm.name=dpsr rounds=10 topology.agents=3 data.total=30 data.dimension=4"
    setup = setup_of(f"{words} record.transcript=true")
    found = privacy_of(words, tmp_path)
    for i, agent in enumerate(found["agents"]):
        r = told(setup)["said"][:, i, i]

        def alpha(t: int, r=r) -> float:
            return 1 / sqrt(t) / r[t - 1]

        def moved(t: int, delta: float, alpha=alpha) -> float:
            return alpha(t - 1) * min(1.0, 0.25 * delta)

        wanted = leaks(10, alpha, moved, lambda t, alpha=alpha: alpha(t - 1))
        assert agent["proven_pure"] / EPSILON == pytest.approx(wanted, rel=1e-9)
        assert wanted > 1.3
    assert pure(f"{words} problem.loss=hinge", tmp_path / "hinge") == pytest.approx(9)


OWN = """
from dataclasses import dataclass
import numpy as np
from mpinodes.core import Event, Kind, Mechanism

__all__ = ["Own"]

@dataclass(frozen=True)
class Own(Mechanism):
    def release(self, query, t, noise, out):
        scale = (self.constant or query.l1 if query.calibration is None else query.calibration) / self.epsilon
        draw = noise.at(t)
        out[:] = query.value + scale * {noise}
        return Event.of(query, Kind.LAPLACE, scale)
"""
SIZE = "size=out.shape"


@pytest.mark.parametrize(
    ("noise", "is_known"),
    [
        (f"draw.laplace({SIZE})", True),
        (f"(draw.geometric(0.3, {SIZE}) - draw.geometric(0.3, {SIZE}))", True),
        (f"np.random.default_rng(t).laplace({SIZE})", False),
        (f"np.random.default_rng([noise.agent, t]).laplace({SIZE})", False),
        (f"np.random.default_rng().laplace({SIZE})", False),
        (f"np.r_[1.0, draw.laplace({SIZE})[1:]]", False),
        (f"(draw if t % 3 else np.random.default_rng(t)).laplace({SIZE})", False),
        (f"(draw if noise.agent else np.random.default_rng(t)).laplace({SIZE})", False),
        ("[][t]", False),
    ],
)  # fmt: skip
@pytest.mark.parametrize(("entropy", "key"), [("os", "secret"), ("seed", "rehearsal")])
def test_only_noise_that_depends_on_its_key_is_said_to_be_of_a_secret_key(tmp_path, noise, is_known, entropy, key):
    from mpinodes.evaluation.accounting import Accounting
    from mpinodes.presentation.privacy_words import KEYS, lines

    (tmp_path / "own.py").write_text(OWN.format(noise=noise))
    words = "algorithm.name=dola rounds=6 data.total=24 topology.agents=3 data.dimension=2"
    asked = f"{words} privacy.path={tmp_path}/own.py noise.entropy={entropy}"
    if noise.startswith("[]"):
        assert Accounting(setup_of(asked))._key == "unknown"
        return
    summary = summary_of(run_of(tmp_path / "run", asked))
    privacy = summary["privacy"]
    assert (privacy["network"]["proven"] is not None) == is_known
    assert privacy["key"] == (key if is_known else "unknown")
    text = " ".join(" ".join(lines(typed(summary).privacy, None)).split())
    assert (KEYS["secret"] in text) == (is_known and entropy == "os")
    assert ("must draw each number from noise.at(t)" in text) == (not is_known)
