"""Privacy budgets: the noise that keeps one, and releases that end before it is overspent."""

from __future__ import annotations

import numpy as np
import pytest

import mpinodes
from mpinodes.auditing.adjacent_replay import replay
from mpinodes.auditing.transcripts import Recorded, Replayed
from mpinodes.config import registry
from mpinodes.config.registry import ALGORITHMS
from mpinodes.core.asked import parse
from mpinodes.core.errors import BadInput
from mpinodes.core.messages import HEADER
from mpinodes.privacy.accountant import Accountant
from mpinodes.running.budget import _events_by_epsilon, dry_events, events, within_budget
from tests.helpers.parts import run_of, setup_of
from tests.helpers.records import summary_of

RUNS = [
    "algorithm.name=dpsda-ps rounds=40",
    "algorithm.name=dpsda-c rounds=30 privacy.scale=calibrated algorithm.gradient_at=public",
    "algorithm.name=dola data.total=350",
    "algorithm.name=dola-minibatch data.total=210 data.epochs=2",
    "algorithm.name=weight-balancing rounds=20",
    "algorithm.name=dpps rounds=20",
    "algorithm.name=pvp-admm rounds=21 problem.weight=20",
    "algorithm.name=pp-admm rounds=21 problem.weight=20",
    "algorithm.name=dvp-admm rounds=21 problem.weight=20 data.partition=uneven "
    "data.sizes=[260,300,280,290,700,400,200]",
    "algorithm.name=two-stage-gaussian",
    "algorithm.name=huang-dp rounds=40",
]


def run(words: str, tmp_path) -> tuple[dict, object]:
    directory = run_of(tmp_path / "run", f"{words} comparator=false")
    return summary_of(directory), directory


@pytest.mark.parametrize(
    ("words", "epsilon"), [*((words, 1) for words in RUNS), *((RUNS[k], e) for k in (0, 7) for e in (0.5, 4))]
)
def test_noise_keeps_a_budget_to_within_a_hundredth(tmp_path, words, epsilon):
    proven = run(f"{words} privacy.budget.epsilon={epsilon}", tmp_path)[0]["privacy"]["network"]["proven"]
    assert 0.99 * epsilon <= proven <= epsilon


@pytest.mark.parametrize("words", [RUNS[0], RUNS[5]])
def test_where_the_search_for_noise_begins_changes_nothing_but_its_length(words, monkeypatch):
    setup = setup_of(f"{words} rounds=15 privacy.budget.epsilon=2")
    asked = []
    losses = Accountant.losses
    monkeypatch.setattr(Accountant, "losses", lambda *given: asked.append(1) or losses(*given))
    found = within_budget(setup).privacy.epsilon
    alone = len(asked)
    for near in (found, 1.0004 * found, 0.9 * found, 30 * found, 1e-9, 1e9):
        assert within_budget(setup, near).privacy.epsilon == found
    asked.clear()
    within_budget(setup, found)
    assert len(asked) < alone < 12  # bisection alone asks more often


ONE_ROUND = [
    "dola topology.agents=1", "dola-minibatch topology.agents=1", "dpsr", "dpps", "huang-dp", "pp-admm", "pvp-admm",
    "gossip-averaging", "weight-balancing",
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "more"),
    [
        *((name, "") for name in ONE_ROUND),
        *((name, more) for name in ("dpsr", "pp-admm") for more in ("privacy.budget.kept_by=stopping", "repeats=2")),
        ("dpps", "privacy.budget.delta=0"),
    ],
)
def test_one_round_releases_nothing_and_so_keeps_any_budget(name, more, tmp_path):
    agents = "" if "agents" in name else "topology.agents=3"
    summary = run(f"algorithm.name={name} {agents} rounds=1 privacy.budget.epsilon=1e-3 {more}", tmp_path)[0]
    assert summary["privacy"]["network"]["proven"] == 0


def test_a_budget_of_pure_epsilon(tmp_path):
    words = "algorithm.name=weight-balancing rounds=20 privacy.budget.epsilon=2 privacy.budget.delta=0"
    assert 1.98 <= run(words, tmp_path)[0]["privacy"]["network"]["proven_pure"] <= 2


def test_repeats_keep_it_too_each_of_them(tmp_path):
    words = "algorithm.name=dpps rounds=15 repeats=3 privacy.budget.epsilon=1"
    _, directory = run(words, tmp_path)
    proven = mpinodes.load(directory).epsilon_proven_network.values[:, -1]
    assert 0.99 <= proven.max() <= 1


@pytest.mark.parametrize("words", RUNS[:1] + RUNS[3:9])
def test_the_events_of_a_dry_run_are_those_of_the_run(words):
    setup = setup_of(words)
    dry, real = dry_events(setup), events(setup)
    assert dry.priced() == real.priced()  # all but what a solver tells of itself
    assert real.scale.any()


PURE = [n for n in registry.names(ALGORITHMS) if registry.find(ALGORITHMS, n).mechanism in ("laplace", "gamma-norm")]


@pytest.mark.parametrize("name", PURE)
def test_no_algorithm_with_pure_noise_reads_the_nominal_epsilon(name):
    setup = setup_of(f"algorithm.name={name} rounds=4")
    if not setup.algorithm.scale_key:
        expected, at = dry_events(setup, 3.0), _events_by_epsilon(setup)(3.0)
        np.testing.assert_allclose(at.scale, expected.scale, rtol=1e-14)
        at.event("scale")[...] = expected.scale
        assert at.data.tobytes() == expected.data.tobytes()


STOPPING = "privacy.budget.kept_by=stopping record.transcript=true"


@pytest.mark.parametrize(
    ("words", "epsilon"),
    [
        ("algorithm.name=dpsda-ps rounds=20", 300),
        (RUNS[3], 1.5),
        (RUNS[4], 2),
        (RUNS[7], 0.7),
        (RUNS[8], 0.3),
        ("algorithm.name=two-stage-gaussian algorithm.gradient_rounds=8 rounds=25", 2),
    ],
)
def test_an_agent_that_would_overspend_stops(tmp_path, words, epsilon):
    summary, directory = run(f"{words} {STOPPING} privacy.budget.epsilon={epsilon}", tmp_path)
    privacy, recorded = summary["privacy"], Recorded(directory)
    n, rounds, d = summary["agents"], summary["rounds"], summary["dimension"]
    assert privacy["network"]["proven"] <= epsilon
    stops = privacy["budget"]["stops"]
    assert any(0 < stop < rounds for stop in stops)
    unbound, _ = run(words, tmp_path / "unbound")
    assert unbound["privacy"]["network"]["proven"] > epsilon
    said = recorded.frames[:, :, HEADER : HEADER + d]
    told = mpinodes.load(directory).event_uses.values
    for i, stop in enumerate(stop or rounds for stop in stops):
        replayed = Replayed(recorded, i)
        assert not told[stop:, i].any()
        if stop < rounds:
            assert told[stop - 1, i] or stop == 1  # it went on for as long as it could
        for t in range(stop, rounds):  # said[t] is of round t + 1
            place = recorded.setup.topology.neighborhood(t, i)
            weights = list(replayed.heard(t).weights)  # the row that it mixed by, from the recorded scalars
            np.testing.assert_array_equal(said[t, i], _mixed(weights, [said[t - 1, j] for j in place.senders]))
    assert not any(replay(recorded, i, rounds=3, seed=0).exceeded for i in range(0, n, 3))


def _mixed(row: list[float], said: list[np.ndarray]) -> np.ndarray:
    mixed = row[0] * said[0]
    for weight, one in zip(row[1:], said[1:], strict=True):
        mixed = mixed + weight * one
    return mixed


def test_a_resolved_budget_runs_again_to_the_same_bits(tmp_path):
    _, first = run(f"{RUNS[0]} {STOPPING} privacy.budget.epsilon=300 record.decisions=true", tmp_path)
    again = mpinodes.run_lockstep(parse(str(first / "experiment.toml"), [f"output.dir={tmp_path}/again"]))
    one, other = mpinodes.load(first), mpinodes.load(again)
    np.testing.assert_array_equal(one.decision.values, other.decision.values)
    assert (first / "experiment.toml").read_text() == (again / "experiment.toml").read_text()


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ("privacy.budget.epsilon=1 privacy.epsilon=inf", "set privacy.epsilon and a mechanism"),
        ("privacy.budget.epsilon=-1", "privacy.budget.epsilon = -1"),
        ("privacy.budget.delta=0.1", "privacy.budget.epsilon is missing"),
        ("privacy.budget=1", "privacy.budget is a section"),
        ("privacy.budget.epsilom=1", "did you mean privacy.budget.epsilon"),
        ("algorithm.name=two-stage-gaussian algorithm.handover=clean privacy.budget.epsilon=1", "no epsilon is proven"),
        ("algorithm.name=pp-admm privacy.budget.epsilon=0.1", r"privacy.budget.epsilon = 0.1: no noise"),
        ("algorithm.name=two-stage-gaussian privacy.budget.epsilon=1 privacy.budget.delta=0", "no epsilon is proven"),
    ],
)
def test_a_budget_that_cannot_be_kept_is_refused(words, error):
    with pytest.raises(BadInput, match=error):
        within_budget(setup_of(words))
