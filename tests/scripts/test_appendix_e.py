"""Appendix E on an ADMM written here from (24) and (25), all runs at once."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pytest
from scipy.special import expit

from mpinodes.auditing.transcripts import Recorded
from mpinodes.core.errors import BadInput
from tests.helpers.parts import run_of
from tests.helpers.running import CHECKOUT

sys.path.insert(0, str(CHECKOUT / "scripts" / "papers"))
from appendix_e import Known, cosine, fit_growth, infer, known

AGENTS, SAMPLES, DIMENSION = 3, 50, 5
STEP, REGULARIZER = 0.5, 0.3 / AGENTS
RUNS = range(6)


@dataclass(frozen=True)
class Setting:
    weight: float = 50.0
    growth: float = 1.0
    dual_growth: float = 1.0
    rate: float = 3.0
    rounds: int = 1000

    @property
    def penalty(self):
        return STEP * self.growth ** np.arange(self.rounds)

    @property
    def dual_step(self):
        return STEP * self.dual_growth ** np.arange(self.rounds)

    @property
    def claimed(self):
        """(T,) β of Theorem 4.1 after each round."""
        return np.cumsum(self.weight * (1.4 / 4 + self.rate) / (self.penalty * (AGENTS - 1) * SAMPLES))


def samples(seed):
    """(agents, B, d) on the sphere and labels of which a fifth is wrong, that of the sample in question for certain."""
    rng = np.random.default_rng((seed, 1))
    x = rng.normal(size=(AGENTS, SAMPLES, DIMENSION))
    x /= np.linalg.norm(x, axis=2, keepdims=True)
    truth = np.sign(x @ rng.normal(size=DIMENSION))
    wrong = rng.random(truth.shape) < 0.2
    wrong[0, 0] = True
    return x, np.where(wrong, -truth, truth)


def releases(x, y, setting, seed):
    """f(0), …, f(T) on the complete graph: (runs, agents, T + 1, d) of x (runs, agents, B, d) and y."""
    rng = np.random.default_rng(seed)
    runs, agents, count, d = x.shape
    f, dual = rng.normal(size=(runs, agents, d)), np.zeros((runs, agents, d))
    said = [f]
    for eta, step in zip(setting.penalty, setting.dual_step, strict=True):
        noise = rng.normal(size=f.shape)
        noise *= (rng.gamma(d, 1 / setting.rate, f.shape[:2]) / np.linalg.norm(noise, axis=2))[..., None]
        mean = (f.sum(axis=1, keepdims=True) - f) / (agents - 1)
        stiffness = 2 * eta * (agents - 1)
        shift = 2 * dual + stiffness * (noise - (f + mean) / 2)
        f = newton(x, y, setting.weight / count, REGULARIZER + stiffness, shift, f)
        dual = dual + step / 2 * (agents * f - f.sum(axis=1, keepdims=True))
        said.append(f)
    return np.stack(said, axis=2)


def newton(x, y, scale, stiffness, shift, f):
    """Argmin of scale Σ_n ℓ(y f·x) + stiffness/2 ‖f‖² + shift·f, from f."""
    for _ in range(50):
        p = expit(-y * (x @ f[..., None])[..., 0])
        gradient = -scale * ((y * p)[..., None, :] @ x)[..., 0, :] + stiffness * f + shift
        if np.abs(gradient).max() < 1e-12 * stiffness:
            return f
        hessian = scale * np.swapaxes(x * (p * (1 - p))[..., None], -1, -2) @ x + stiffness * np.eye(x.shape[-1])
        f = f - np.linalg.solve(hessian, gradient[..., None])[..., 0]
    raise AssertionError(f"no minimum: the gradient is still {np.abs(gradient).max()}")


@lru_cache
def attacked(setting, seed=7, repeats=1):
    """By run: what the attacker knows, and y x of the sample that it does not."""
    drawn = [samples(run) for run in RUNS] * repeats
    x, y = (np.stack(arrays) for arrays in zip(*drawn, strict=True))
    rates = np.full(setting.rounds, setting.rate)
    return [
        (
            Known(f[0], f[1:], a[0, 1:], b[0, 1:], setting.weight, REGULARIZER, setting.dual_step, rates),
            b[0, 0] * a[0, 0],
        )
        for f, a, b in zip(releases(x, y, setting, seed), x, y, strict=True)
    ]


def cosines(setting, penalty=None, **draws):
    """(T,) the mean over runs."""
    penalty = setting.penalty if penalty is None else penalty
    return np.mean(
        [cosine(infer(knowledge, penalty), sample) for knowledge, sample in attacked(setting, **draws)], axis=0
    )


@pytest.mark.parametrize("setting", [Setting(growth=1.1), Setting(dual_growth=1.01), Setting(weight=1.0)], ids=str)
def test_without_noise_one_round_tells_the_sample_and_every_other_the_same(setting):
    quiet = Setting(setting.weight, setting.growth, setting.dual_growth, rate=1e9, rounds=40)
    for knowledge, sample in attacked(quiet):
        found = infer(knowledge, quiet.penalty)
        assert cosine(found, sample).min() > 1 - 1e-9
        lengths = np.linalg.norm(found, axis=1) / (quiet.weight / SAMPLES)
        assert (lengths > 0).all()  # |ℓ'|, the direction's sign being in the cosine
        assert (lengths < 1).all()


def test_the_sample_is_found_where_the_proven_loss_is_in_the_hundreds_and_more():
    """The figures of an independent attack on data of the same law: .822, .920, .989."""
    found = cosines(Setting())
    assert Setting().claimed[[49, 199, 999]] == pytest.approx([168, 670, 3350], rel=0.003)
    assert found[[49, 199, 999]] == pytest.approx([0.822, 0.920, 0.989], abs=0.06)
    assert found[999] > 0.95


def test_the_sample_is_not_found_where_its_weight_is_small_or_the_rounds_are_few():
    chance = 1 / np.sqrt(DIMENSION)
    assert abs(cosines(Setting(weight=1.0), repeats=5)[999]) < chance
    assert abs(cosines(Setting(rounds=1), repeats=20)[0]) < chance


def test_equal_losses_claimed_do_not_find_the_sample_equally_well():
    """What is found grows with C√T, what is claimed with C T."""
    few, many = Setting(rounds=100), Setting(weight=1.0, rounds=5000)
    assert few.claimed[-1] == pytest.approx(many.claimed[-1])
    assert cosines(few, repeats=3)[-1] > 0.8
    assert cosines(many, repeats=3)[-1] < 0.4


@pytest.mark.parametrize("growth", [1.001, 1.002])
def test_private_penalties_are_found_too_and_serve_as_well_as_known_ones(growth):
    setting = Setting(growth=growth)
    runs = attacked(setting)
    growths = [fit_growth(knowledge, STEP) for knowledge, _ in runs]
    assert np.mean(growths) == pytest.approx(growth, abs=1e-4)
    assert growths == pytest.approx([growth] * len(runs), abs=4e-4)
    fitted = [
        cosine(infer(knowledge, STEP * q ** np.arange(setting.rounds))[-1], sample)
        for q, (knowledge, sample) in zip(growths, runs, strict=True)
    ]
    assert np.mean(fitted) == pytest.approx(cosines(setting)[-1], abs=0.01)
    assert np.mean(fitted) > 0.9


def test_wrongly_assumed_penalties_cost_the_attacker():
    setting = Setting(growth=1.002)
    assert cosines(setting, penalty=STEP)[-1] < cosines(setting)[-1] - 0.05


def test_a_constant_penalty_is_found_to_be_constant():
    growths = [fit_growth(knowledge, STEP) for knowledge, _ in attacked(Setting())]
    assert min(growths) >= 1
    assert max(growths) < 1 + 2e-4


def test_fewer_rounds_tell_what_the_first_of_more_tell():
    setting = Setting(growth=1.002, dual_growth=1.001, rounds=30)
    for knowledge, _ in attacked(setting):
        few = infer(knowledge.until(12), setting.penalty[:12])
        np.testing.assert_allclose(few, infer(knowledge, setting.penalty)[:12], rtol=1e-12)


def recorded(tmp_path, epsilon=1.0, rounds=41, **algorithm):
    """Agents of 20, 30, 40 and 50 samples on a ring: each has two neighbours and one that is none."""
    experiment = {
        "rounds": rounds, "record": {"transcript": True},
        "algorithm": {"name": "pp-admm", "noise_growth": 1.0} | algorithm,
        "data": {"name": "unit-ball", "dimension": 5, "total": 140, "partition": "uneven", "sizes": [20, 30, 40, 50]},
        "topology": {"name": "ring", "agents": 4}, "privacy": {"epsilon": epsilon},
        "problem": {"weight": 15.0, "regularizer": 0.1},
    }  # fmt: skip
    return Recorded(run_of(tmp_path / "run", experiment))


@pytest.mark.parametrize("agent", [0, 2])
def test_of_a_recorded_run_nearly_without_noise_every_round_tells_the_sample(tmp_path, agent):
    run = recorded(tmp_path, 1e9, dual_step=0.5, dual_growth=1.01, penalty=[0.6, 0.7, 0.8, 0.9], penalty_growth=1.05)
    knowledge, loss = known(run, agent, 3), run.setup.losses(agent)(1)
    found = infer(knowledge, run.setup.algorithm.eta(agent, np.arange(1, 41)))
    assert cosine(found, loss.targets[3] * loss.features[3]).min() > 1 - 1e-6


def test_of_a_recorded_run_the_growth_of_the_penalty_is_found(tmp_path):
    run = recorded(tmp_path, rounds=601, dual_step=0.5, penalty=0.5, penalty_growth=1.01)
    knowledge = known(run, 1, 0)
    assert knowledge.noise_rate == pytest.approx(np.full(600, 3.0))
    assert fit_growth(knowledge, 0.5) == pytest.approx(1.01, abs=1e-3)


def test_of_another_run_or_sample_nothing_can_be_known(tmp_path):
    with pytest.raises(BadInput, match="agent 0 has no sample 20: it has 20"):
        known(recorded(tmp_path / "few"), 0, 20)
    with pytest.raises(BadInput, match="attack is on noisy penalties"):
        known(recorded(tmp_path / "quiet", epsilon="inf"), 0, 1)
    with pytest.raises(BadInput, match="pvp-admm on logistic losses"):
        known(recorded(tmp_path / "other", name="pvp-admm"), 0, 1)


def test_an_attack_needs_what_it_is_made_of(tmp_path):
    """Agent 0 of a ring of five has the neighbors 1 and 4; agent 1 does not hear 4, and 0 and 2 do not hear enough."""
    words = (
        "algorithm.name=dvp-admm topology.name=ring topology.agents=5 rounds=12 data.name=unit-ball data.total=250 "
        "data.dimension=3 problem.weight=20 record.transcript=true"
    )

    def run(view: str) -> Recorded:
        return Recorded(run_of(tmp_path / view.replace(":", "-").replace(",", "-"), f"{words} audit.view={view}"))

    assert len(known(run("links"), 0, 1).neighbors) == 2
    assert len(known(run("agents:1,4"), 0, 1).neighbors) == 2
    with pytest.raises(BadInput, match=r"audit.view = 'agent:1': the attack on agent 0 needs .* and agent 4 is not"):
        known(run("agent:1"), 0, 1)
