"""scripts/papers/frontier.py: what it makes of a run, and that its statistics are what they are called."""

from __future__ import annotations

import sys
import tomllib

import numpy as np
import pytest

import mpinodes
from mpinodes.core.asked import merge
from tests.helpers.running import CHECKOUT

PAPERS = CHECKOUT / "scripts" / "papers"
sys.path.insert(0, str(PAPERS))

import frontier  # noqa: E402
from frontier_data import Rows, shares  # noqa: E402
from frontier_models import Reader  # noqa: E402

AGENTS, SAMPLES, D = 4, 100, 5
STEP, RADIUS, BATCH = 0.5, 20.0, 50


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


def run_of(name, own, place, **more):
    """A run of a trial of the study, at ε = 2."""
    base = tomllib.loads((PAPERS / "frontier.toml").read_text())
    base.pop("design")
    trial = next(case for case in base.pop("study")["cases"] if case["name"] == name)
    asked = {
        "rounds": 3, "data": {"columns": D, "file": own[1]}, "topology": {"agents": AGENTS}, "comparator": False,
        "privacy": {"budget": {"epsilon": 2.0}}, "record": {"transcript": True}, "output": {"dir": str(place)},
    }  # fmt: skip
    mpinodes.run_lockstep(merge(merge(merge(base, trial), asked), more))
    return place


def released(place):
    return mpinodes.load(place).transcript.values[:, :, 3 : 3 + D]


def test_only_models_made_of_messages_are_scored(own, tmp_path):
    place = run_of("dpps-4", own, tmp_path / "run", rounds=5, data={"epochs": 3})
    out = Reader(place).outcome(place, own[0])
    np.testing.assert_array_equal(out.models[0], -released(place)[4])  # of a dual method
    np.testing.assert_allclose(out.models[1], -released(place)[3:].mean(axis=0))  # rounds 4 and 5
    assert 1.99 < out.proven <= 2
    assert (
        out.bytes == (8 * 5 + 4 * 2) * (3 + D + 2) * 8
    )  # 5 rounds on 8 links, and 2 to average; push-sum sends 2 numbers


@pytest.mark.parametrize(("name", "own_weight", "is_dual"), [("dola-4", 1 / 3, 0), ("dpps-4", 1 / 3, 1),
                                                            ("weight-balancing-4", 1 / 2, 0)])  # fmt: skip
def test_an_online_method_loses_what_the_mix_of_what_is_heard_loses(name, own_weight, is_dual, own, tmp_path):
    place = run_of(name, own, tmp_path / "run")
    lost = []
    for t, points in enumerate(released(place)[:2]):
        for i, rows in enumerate(own[0]):
            heard = own_weight * points[i] + (1 - own_weight) / 2 * (points[i ^ 1] + points[i ^ 2])
            played = -STEP * heard if is_dual else heard
            if not name.startswith("weight"):
                played = played * min(1, RADIUS / np.linalg.norm(played)) if played.any() else played
            margins = rows.targets * (rows.features @ played)
            lost.append(np.log1p(np.exp(-margins[t * BATCH : (t + 1) * BATCH])).mean())
    assert Reader(place).outcome(place, own[0]).lost == pytest.approx(np.mean(lost), rel=1e-12)


def test_agents_alone_and_a_curator_are_runs_of_one_agent(own, tmp_path):
    alone = run_of("two-stage-gaussian-0", own, tmp_path / "alone", baseline="alone", rounds=6)
    out = Reader(alone).outcome(alone, own[0])
    assert (out.models.shape, out.bytes) == ((2, AGENTS, D), AGENTS * 2 * (3 + D) * 8)  # what one shot sends
    data = {"file": own[1].format(agent=0)}
    curator = run_of("two-stage-gaussian-0", own, tmp_path / "one", baseline="curator", rounds=6, data=data)
    assert Reader(curator).outcome(curator, own[0]).models.shape == (2, 1, D)
    rows = Rows(np.eye(2), np.array([1.0, -1.0]))
    models = np.array([[1.0, -3.0], [1.0, 1.0]])
    assert (frontier.score("alone", models, rows), frontier.score("one shot", models, rows)) == (0.75, 1.0)


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


def test_the_trial_and_the_reading_that_do_best_are_chosen():
    method = frontier.Method({"first": {}, "second": {}}, ("alone", "one shot"))
    scores = {
        "first": {"": np.array([0.6, 0.7]), "alone": np.array([0.8, 0.5])},
        "second": {"": np.array([0.9, 0.7]), "alone": np.array([0.7, 0.7])},
        "of another method": {"": np.array([1.0, 1.0]), "alone": np.array([1.0, 1.0])},
    }
    assert frontier.best(method, "one shot", scores) == ("second", 0, 0.9)
    assert frontier.best(method, "alone", scores) == ("first", 0, 0.8)
