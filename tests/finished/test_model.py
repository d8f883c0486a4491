"""The model of a run: made of releases alone, in a file, for new samples."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas
import pytest
from scipy.sparse import csr_array

import mpinodes.studies
from mpinodes.core.errors import BadInput
from mpinodes.core.messages import HEADER
from mpinodes.finished.result import Result
from tests.helpers.running import run_here, run_mpi

SMALL = {"topology.agents": 3, "data.dimension": 3, "data.total": 60, "report": False, "comparator": False}
KINDS = {
    "dola": {"rounds": 20},
    "dpps": {"rounds": 20},
    "weight-balancing": {"rounds": 20},
    "dpsr": {"rounds": 20},
    "dp-dsgd": {"rounds": 9, "data.batch": 2},
    "pp-admm": {"rounds": 6, "topology.agents": 3},
}
RUN = ["algorithm.name=dola", "data.total=60", "rounds=20", "comparator=false", "report=false"]


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", KINDS)
def test_without_noise_the_model_is_the_decision_by_which_the_method_is_judged(name):
    run = mpinodes.simulate(SMALL, KINDS[name], {"algorithm.name": name, "privacy.epsilon": "inf"})
    judged = run.record.decision_last if run.summary["judged"] == "last" else run.record.decision_mean
    np.testing.assert_allclose(run.model.point, judged[-1], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("name", "weights"), [("dola", np.ones(20)), ("weight-balancing", np.arange(1, 21.0))])
def test_the_model_is_computed_from_the_sent_messages_alone(name, weights):
    run = mpinodes.simulate(SMALL, KINDS[name], {"algorithm.name": name, "record.transcript": True})
    sent = run.record.transcript.values[:, :, HEADER : HEADER + 3]
    mean = np.average(sent.mean(axis=1), axis=0, weights=weights)
    radius = min(1.0, 10.0 / np.linalg.norm(mean)) if name == "dola" else 1.0
    np.testing.assert_allclose(run.model.point, radius * mean, rtol=1e-9)


def test_the_model_has_the_same_bits_under_mpi_after_a_resumption_and_in_a_study(here):
    words = [*RUN, "topology.agents=3", "checkpoint.every=4"]
    done = run_mpi(4, *words, "output.dir=a", cwd=here)
    assert done.code == 0, done.err
    point = mpinodes.load_model("a").point
    np.testing.assert_array_equal(mpinodes.simulate(*words).model.point, point)
    assert run_here(*words, "rounds=12", "output.dir=b", "--lockstep", cwd=here).code == 0
    resumed = run_here("--resume", "b", "rounds=20", "--lockstep", cwd=here)
    assert resumed.code == 0, resumed.err
    np.testing.assert_allclose(mpinodes.load_model("b").point, point, rtol=1e-12)
    study = mpinodes.studies.sweep(*RUN, "topology.agents=3", "seed=0,1,2", "name=s")
    assert study is not None
    points = [mpinodes.load_model(run).point for run in (study.directory / "runs").iterdir()]
    assert [np.array_equal(other, point) for other in points].count(True) == 1


def table(rng: np.random.Generator) -> pandas.DataFrame:
    features = rng.uniform(-1, 1, (300, 3)).round(3)
    return pandas.DataFrame(features, columns=["a", "b", "c"])


def own(frame: pandas.DataFrame, loss: str = "logistic", **keys: object) -> Result:
    data = {"file": frame, "target": "y", "train": 0.8, "batch": 20, "epochs": 3, **keys}
    return mpinodes.simulate(
        {
            "problem.loss": loss,
            "algorithm.name": "dola",
            "topology.agents": 3,
            "privacy.epsilon": 100,
            "data": data,
            "comparator": False,
        }
    )


@pytest.mark.parametrize("kind", ["labels", "classes", "real"])
def test_a_model_predicts_the_targets_of_the_file_from_raw_features(kind):
    frame = table(np.random.default_rng(1))
    score = frame["a"] - frame["b"]
    words = np.array(["no", "yes", "never"])
    if kind == "real":
        frame["y"] = score
        run = own(frame, "least-squares", targets="real")
    else:
        labels = words[: 2 + (kind == "classes")].tolist()
        frame["y"] = words[np.digitize(score, [0.0, 0.7][: len(labels) - 1])]
        loss = "softmax" if kind == "classes" else "logistic"
        run = own(frame, loss, targets=kind, labels=labels)
    shuffled = frame[["y", "c", "a", "b"]]
    model = mpinodes.load_model(run.directory)
    predicted = model.predict(shuffled)
    np.testing.assert_array_equal(predicted, model.predict(frame[["a", "b", "c"]].to_numpy()))
    everything, marks = model.score(shuffled, frame["y"]), run.summary["model"]
    if kind == "real":
        squares = ((predicted - frame["y"]) ** 2).mean()
        assert squares == pytest.approx(0.8 * marks["rmse.train"] ** 2 + 0.2 * marks["rmse.test"] ** 2)
        assert everything == pytest.approx(1 - squares / frame["y"].var(ddof=0))
        for wrong in ("a", np.nan):
            with pytest.raises(BadInput, match="y: a target is not a finite number"):
                model.score(shuffled, [wrong] * len(frame))
        for few, message in ((0, "y: no samples"), (5, "y: all targets are 2.0")):
            with pytest.raises(BadInput, match=message):
                model.score(shuffled[:few], [2.0] * few)
    else:
        assert everything == pytest.approx(0.8 * marks["accuracy.train"] + 0.2 * marks["accuracy.test"])
        assert set(predicted) <= set(labels)
        assert everything > frame["y"].value_counts(normalize=True).max()


def test_a_model_of_the_agents_files_finds_the_columns_by_name(here):
    frame = table(np.random.default_rng(1)).assign(y=[0, 1] * 150)
    for k in range(3):
        frame[k::3].to_csv(here / f"part-{k}.csv", index=False)
    data = {"file": "part-{agent}.csv", "columns": 3, "labels": [0, 1], "header": True, "batch": 5}
    model = mpinodes.simulate({"topology.agents": 3, "rounds": 5, "report": False, "data": data}).model
    shuffled = frame[["y", "c", "a", "b"]]
    np.testing.assert_array_equal(model.predict(shuffled), model.predict(frame[["a", "b", "c"]].to_numpy()))
    with pytest.raises(BadInput, match="column 'b'"):
        model.predict(frame[["a", "c", "y"]])


def test_a_model_with_an_intercept_takes_the_features_of_the_file(here):
    frame = table(np.random.default_rng(1)).assign(y=[0, 1] * 150)
    model = own(frame, labels=[0, 1], scaling={"norm": 1, "intercept": 0.5}).model
    rows = frame[["a", "b", "c"]].to_numpy()
    margins = rows / np.linalg.norm(rows, axis=1, keepdims=True) @ model.point[:3] + 0.5 * model.point[3]
    np.testing.assert_array_equal(model.predict(rows), (margins > 0).astype(int))
    np.testing.assert_array_equal(model.predict(csr_array(rows)), model.predict(frame))
    with pytest.raises(BadInput, match=r"\(4, 4\); \(samples, 3 features\) expected"):
        model.predict(np.zeros((4, 4)))


def test_a_model_takes_the_columns_of_true_and_false_on_which_it_was_trained(here):
    """Beside other numbers, pandas makes objects of them."""
    frame = table(np.random.default_rng(1)).assign(y=[0, 1] * 150)
    frame["b"] = frame["b"] > frame["b"].mean()
    model = own(frame, labels=[0, 1]).model
    rows = frame[["a", "b", "c"]].astype(float)
    np.testing.assert_array_equal(model.predict(frame), model.predict(rows.to_numpy()))
    for wrong, message in (("x", "could not convert"), (None, "no.* finite number"), (pandas.NA, "NAType")):
        with pytest.raises(BadInput, match=rf"X: .*{message}"):
            model.predict(rows.astype(object).replace(rows.iloc[0, 0], wrong))


def test_a_model_names_what_does_not_fit(here):
    frame = table(np.random.default_rng(1)).assign(y=[0, 1] * 150)
    scaled = own(frame, labels=[0, 1], scaling={"lower": -1, "upper": [1, 1, 2]}).model
    rows = frame[["a", "b", "c"]].to_numpy()
    np.testing.assert_array_equal(scaled.predict(csr_array(rows)), scaled.predict(rows))
    model = own(frame, labels=[0, 1]).model
    with pytest.raises(BadInput, match="column 'b'"):
        model.predict(frame[["a", "c"]])
    with pytest.raises(BadInput, match="3 features"):
        model.predict(np.zeros((4, 2)))
    with pytest.raises(BadInput, match=r"y: .*\(4,\) expected"):
        model.score(np.zeros((4, 3)), [0, 1])
    for wrong, message in ((np.nan, "finite number"), (np.inf, "finite number"), ("a", "X: features .* no real")):
        with pytest.raises(BadInput, match=message):
            model.predict([[0.0, 1.0, wrong]])
    with pytest.raises(BadInput, match=r"X: .* inhomogeneous"):
        model.predict([[0.0, 1.0, 2.0], [0.0]])
    with pytest.raises(BadInput, match=r"y: no target is a label of the model: \[0\.0, 1\.0\]"):
        model.score(np.zeros((2, 3)), ["no", "yes"])
    (here / "half.py").write_text(
        'from dataclasses import dataclass\n\nfrom mpinodes.algorithms.dola import DOLA\n\n__all__ = ["Half"]\n\n\n'
        "@dataclass(frozen=True)\nclass Half(DOLA):\n"
        "    def message(self, s, here):\n        query = super().message(s, here)\n"
        "        query.value = query.value / 2 + 1\n        return query\n"
    )
    for keys in (
        {"algorithm.name": "gossip-averaging", "topology.agents": 3},
        {**SMALL, "algorithm.name": "dola", "rounds": 5, "baseline": "alone"},
        {**SMALL, "algorithm.path": "half.py", "rounds": 5},
    ):
        run = mpinodes.simulate(keys)
        assert run.summary["model"] is None
        with pytest.raises(BadInput, match=r"no model.npz"):
            _ = run.model
    run = mpinodes.simulate({**SMALL, "algorithm.name": "dola", "rounds": 5, "repeats": 2})
    with pytest.raises(BadInput, match="repeat-0"):
        _ = run.model
    assert mpinodes.load_model(run.directory / "repeat-0").point.shape == (3,)
