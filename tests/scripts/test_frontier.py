"""scripts/papers/frontier.py: its runs are the package's, and its statistics what they are called."""

from __future__ import annotations

import sys
import tomllib

import numpy as np
import pytest
import tomli_w

from mpinodes.core.asked import merge
from mpinodes.core.messages import HEADER, Query
from mpinodes.core.seeds import Draws, Purpose
from mpinodes.rounds.lockstep import simulate
from mpinodes.running.setup import set_up
from mpinodes.studies.study import Study
from tests.helpers.running import CHECKOUT

PAPERS = CHECKOUT / "scripts" / "papers"
sys.path.insert(0, str(PAPERS))

import frontier  # noqa: E402
import frontier_runs  # noqa: E402
from frontier_data import Rows, shares  # noqa: E402

AGENTS, SAMPLES, D, SEEDS = 4, 100, 5, (3, 4)
METHODS = [
    "dola", "dpps", "dpsr", "weight-balancing", "two-stage-gaussian", "huang-dp", "gossip-averaging", "pp-admm",
    "pvp-admm",
]  # fmt: skip


class Package(frontier_runs.Noise):
    """The package's own draws, of a set-up for each seed."""

    def __init__(self, setups) -> None:
        super().__init__(len(setups), [0])
        self._setups = setups

    def start(self, agent, d):
        drawn = [Draws(each.experiment.seed, Purpose.START, agent).at(0).standard_normal(d) for each in self._setups]
        return np.array(drawn)

    def release(self, setup, query, t, agent):
        out = np.empty_like(query.value)
        for each, value, place in zip(self._setups, query.value, out, strict=True):
            single = Query(value, query.l1, query.l2, query.uses, query.leaks, query.calibration)
            each.mechanism.release(single, t, Draws(each.noise_key, Purpose.NOISE, agent, 0), place)
        return out


@pytest.fixture(scope="module")
def trials(tmp_path_factory):
    tree = tomllib.loads((PAPERS / "frontier.toml").read_text())
    tree.pop("design")
    tree["data"]["columns"] = D
    place = tmp_path_factory.mktemp("trials")
    (place / "study.toml").write_text(tomli_w.dumps(tree))
    return {point.settings["name"]: point.asked for point in Study.of([str(place / "study.toml")]).points()}


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    draws = np.random.default_rng(0)
    rows = []
    place = tmp_path_factory.mktemp("rows")
    for i in range(AGENTS):
        features = draws.standard_normal((SAMPLES, D)) / 8
        features /= np.maximum(1, np.linalg.norm(features, axis=1, keepdims=True)) * (1 + 1e-12)
        rows.append(Rows(features, np.where(draws.random(SAMPLES) < 0.4, 1.0, -1.0)))
        np.savez(place / f"part-{i}.npz", features=features, targets=rows[-1].targets)
    return rows, str(place / "part-{agent}.npz")


@pytest.mark.parametrize("name", METHODS)
def test_runs_side_by_side_say_what_the_package_says_seed_by_seed(name, trials, own):
    rows, where = own
    trial = trials[f"{name}-4"]
    price = frontier_runs.priced(trial, 2.0, AGENTS, SAMPLES, where)
    assert 1.99 < price.proven <= 2
    tree = merge(_of(price.setup), {"record": {"transcript": True}})
    setups = [set_up(merge(tree, {"seed": seed}), None) for seed in SEEDS]
    theirs = np.array([_released(each) for each in setups])  # (s, rounds, agents, d)
    ours = np.array([said.released for said in frontier_runs.said(price.setup, rows, Package(setups))])
    assert ours.shape == (price.setup.experiment.rounds, AGENTS, len(SEEDS), D)
    np.testing.assert_allclose(ours, theirs.transpose(1, 2, 0, 3), rtol=1e-6, atol=1e-8)
    assert not np.allclose(ours[-1, :, 0], ours[-1, :, 1])


def _of(setup):
    """What was asked for, with the noise that the budget found."""
    return tomllib.loads(setup.experiment.toml())


def _released(setup):
    rounds = np.concatenate([rows.copy() for rows in simulate(setup)], axis=1)
    return rounds[..., setup.layout.message_end :][..., HEADER : HEADER + D].transpose(1, 0, 2)


def test_only_models_made_of_releases_are_scored(trials, own):
    rows, where = own
    price = frontier_runs.priced(trials["dpps-4"], 2.0, AGENTS, SAMPLES, where)
    rounds = list(frontier_runs.said(price.setup, rows, frontier_runs.Noise(2, [1])))
    (last, late), lost = frontier_runs.models(price.setup, rows, frontier_runs.Noise(2, [1]))
    np.testing.assert_array_equal(last, -np.array(rounds[-1].released))
    np.testing.assert_allclose(late, -np.mean([said.released for said in rounds[2:]], axis=0))  # rounds 2 and 3 of 3
    assert lost.shape == (2,)


def test_skewed_shares_are_equal_in_size_and_unequal_in_labels():
    labels = np.where(np.random.default_rng(0).random(800) < 0.5, 1.0, -1.0)
    dealt = shares(Rows(np.arange(800.0)[:, None], labels), 4, 0.8)
    assert [len(each.targets) for each in dealt] == [200] * 4
    assert len(np.unique(np.concatenate([each.features for each in dealt]))) == 800
    positive = [float((each.targets > 0).mean()) for each in dealt]
    assert max(positive[:2]) < 0.25 < 0.75 < min(positive[2:])
    assert {len(each.targets) for each in shares(Rows(labels[:, None], labels), 4, 0.0)} == {200}


def test_holm_rejects_in_order_and_leaders_are_those_not_told_apart():
    assert frontier.holm([0.01, 0.04, 0.03]) == [True, False, False]  # 0.05/3, then 0.03 against 0.05/2
    assert frontier.holm([0.01, 0.02, 0.04]) == [True] * 3
    split = np.array([0.0, 0.1, 0.2, 0.3, 0.4])  # what all methods have in common
    values = {
        "low": split + 0.1 + np.array([0.001, 0, 0, 0, -0.001]),
        "high": split + 0.5,
        "as high": split + 0.5 + np.array([0.01, -0.01, 0.01, -0.01, -0.001]),
    }
    assert frontier.leaders(values) == ["high", "as high"]
    mean, half = frontier.interval(np.array([1.0, 2, 3, 4, 5]))
    assert (mean, half) == (3.0, pytest.approx(2.776 * np.sqrt(2.5 / 5), rel=1e-3))
