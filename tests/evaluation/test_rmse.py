"""The error on real targets: of decisions, of the mean target, of the start."""

from __future__ import annotations

import json

import numpy as np
import pytest

import mpinodes
from mpinodes.evaluation.gathered import RealValued
from mpinodes.presentation import findings, run_warnings
from mpinodes.presentation import run_figures as figures
from mpinodes.presentation.plots import Drawn
from mpinodes.presentation.terminal import text
from mpinodes.streams.labelled import in_memory
from tests.helpers.parts import run_of, setup_of
from tests.helpers.records import typed

TRUTH = np.array([1.0, -2.0, 0.5])


def rmse(x, features, targets) -> float:
    return float(np.sqrt(np.mean([(a @ x - b) ** 2 for a, b in zip(features, targets, strict=True)])))


@pytest.fixture(scope="module")
def asked(tmp_path_factory) -> dict:
    rng, file = np.random.default_rng(0), tmp_path_factory.mktemp("rmse") / "houses.csv"
    features = rng.uniform(-1, 1, (200, 3))
    targets = features @ TRUTH + 0.5 + 0.1 * rng.normal(size=200)
    header = "width,height,age,price"
    np.savetxt(file, np.column_stack([features, targets]), "%.17g", ",", header=header, comments="")
    data = {"file": str(file), "targets": "real", "header": True, "columns": 3, "bound": 1.0, "train": 0.8}
    return {
        "algorithm": {"name": "dola"}, "topology": {"agents": 4}, "data": data, "privacy": {"epsilon": "inf"},
        "problem": {"loss": "least-squares"}, "record": {"decisions": True}, "rounds": 40,
    }  # fmt: skip


@pytest.fixture(scope="module")
def run(asked, tmp_path_factory):
    return run_of(tmp_path_factory.mktemp("rmse") / "run", asked)


def test_errors_are_those_of_the_agents_decisions_and_their_means(run, asked):
    summary, record = json.loads((run / "summary.json").read_text()), mpinodes.load(run)
    estimates = record.decision.transpose("round", "agent", "coordinate").values
    sets = setup_of(asked).stream.real_valued()
    assert sets.keys() == {"train", "test"}
    mean = sets["train"].targets.mean()
    for name, source in sets.items():
        samples = source.features(np.arange(len(source.targets))), source.targets
        running = np.mean([rmse(x, *samples) for x in estimates.mean(axis=0)])
        last = np.mean([rmse(x, *samples) for x in estimates[-1]])
        assert summary["rmse"][name] == pytest.approx(running)
        assert summary["rmse_last_decision"][name] == pytest.approx(last)
        assert summary["baselines"]["mean_target"][name] == pytest.approx(np.sqrt(np.mean((samples[1] - mean) ** 2)))
        assert summary["baselines"]["start"]["rmse"][name] == pytest.approx(np.sqrt(np.mean(samples[1] ** 2)))
    assert summary["rmse"]["test"] < summary["baselines"]["mean_target"]["test"]  # it learns
    assert summary["accuracy"] is None
    assert record.rmse.attrs["long_name"] == "RMSE, running mean, test data"


def test_the_error_is_told_in_words_and_drawn(run):
    summary = json.loads((run / "summary.json").read_text())
    test, naive = (f"{tree['test']:.4g}" for tree in (summary["rmse"], summary["baselines"]["mean_target"]))
    said = f"error of {test} on the test samples (guessing {naive}, "
    assert findings.findings(typed(summary), None)[0].count(said) == 1
    assert any(
        "RMSE, running mean, test data" in line and test in line for line in text(typed(summary), run).splitlines()
    )
    poor = summary | {"rmse": {"test": 1e9, "train": 0.0}}
    assert [warning.partition(":")[0] for warning in run_warnings.sentences(typed(poor | {"warnings": None}))[:2]] == [
        "Worse than always predicting the mean target", "Worse than doing nothing",
    ]  # fmt: skip
    with Drawn(run) as data:
        drawers = figures.drawers(typed(summary))
        assert drawers["accuracy"][1](data, typed(summary)) is None
        figure = drawers["rmse"][1](data, typed(summary))
    labels = figure.axes[0].get_legend_handles_labels()[1]
    assert {"RMSE, last decision, test data", "RMSE, running mean, training data", "always the mean target"} <= {
        *labels
    }


def test_online_regression_has_a_test_set_of_its_own_law(tmp_path):
    words = "algorithm.name=dola data.name=olr data.dimension=6 rounds=5 problem.gradient_noise=0"
    sets = setup_of(words).stream.real_valued()
    assert sets.keys() == {"test"}
    found = json.loads((run_of(tmp_path / "run", words) / "summary.json").read_text())
    assert found["rmse"].keys() == {"test"}
    seen = [setup_of(words).losses(0)(t) for t in range(1, 6)]
    source = sets["test"]
    features = source.features(np.arange(len(source.targets)))
    assert not np.isin(features, np.concatenate([loss.features for loss in seen])).any()
    best = np.linalg.lstsq(features, source.targets, rcond=None)[0]
    assert rmse(best, features, source.targets) == pytest.approx(np.sqrt(0.2), rel=0.03)  # its variance is 0.2


def test_many_samples_and_points_are_as_one_by_one():
    rng = np.random.default_rng(1)
    features, targets, points = rng.normal(size=(5000, 2)), rng.normal(size=5000), rng.normal(size=(2, 9))
    marks = RealValued(in_memory(features, targets), 0.0).marks(points)
    np.testing.assert_allclose(marks, [rmse(x, features, targets) for x in points.T])


@pytest.mark.parametrize("words", ["algorithm.name=dola data.name=mean data.batch=1 rounds=4", "rounds=4"])
def test_without_targets_or_with_labels_there_is_no_error(words, tmp_path):
    assert json.loads((run_of(tmp_path / "run", words) / "summary.json").read_text())["rmse"] is None


def test_a_loss_that_predicts_nothing_has_no_error(asked, tmp_path):
    distance = asked | {"problem": {"loss": "squared-distance"}, "rounds": 4}
    assert json.loads((run_of(tmp_path / "run", distance) / "summary.json").read_text())["rmse"] is None
