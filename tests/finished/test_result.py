"""A run from a notebook: what may be asked, and what the result holds."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import numpy as np
import pandas
import pytest
from matplotlib.figure import Figure

import mpinodes
from mpinodes.core.asked import gathered
from mpinodes.core.errors import BadInput

SMALL = {"rounds": 12, "topology.agents": 3, "algorithm.name": "dola", "data.name": "unit-ball", "data.dimension": 3}
KINDS = {
    "dpsda-ps": {"record": {"dynamic_regret": True, "decisions": True, "transcript": True}},
    "dola": {"data.name": "unit-ball", "record": {"metrics": ["disagreement", "comparator-distance"]}},
    "pp-admm": {"rounds": 4, "topology.agents": 3},
    "gossip-averaging": {"rounds": 10},
    "two-stage-gaussian": {"topology.agents": 3, "rounds": 12, "algorithm.gradient_rounds": 4},
}


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    """An empty directory to run in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_files_words_dictionaries_and_keywords_say_the_same(here):
    (here / "mine.toml").write_text('rounds = 12\n[topology]\nagents = 3\n[algorithm]\nname = "dola"\n')
    small = {"rounds": 12, "topology": {"agents": 3}, "algorithm": {"name": "dola"}}
    for asked in (
        ("mine.toml",),
        (here / "mine.toml", {"rounds": np.int64(12)}),
        ("rounds=12", "topology.agents=3", "algorithm.name=dola"),
        ({"rounds": 99, "algorithm.name": "dola"}, {"topology": {"agents": 3}}, {"rounds": 12}),
    ):
        assert gathered(*asked) == small
    assert gathered({"data": {"sizes": np.arange(3), "file": Path("x.csv")}}) == {
        "data": {"sizes": [0, 1, 2], "file": "x.csv"}
    }


def test_the_resolved_experiment_runs_again(here):
    first = mpinodes.simulate(SMALL, "privacy.epsilon=2", rounds=12)
    again = mpinodes.simulate(first.directory / "experiment.toml")
    assert again.directory != first.directory
    np.testing.assert_array_equal(again.record.loss, first.record.loss)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ((3,), "3: expected the path"), (({3: 4},), "3: expected the name of a key"), (({"a..b": 1},), "'a..b'"),
        (("nowhere.toml",), "nowhere.toml: cannot be read"), (({"roundz": 3},), "roundz"),
        (({"privacy": {"epsilon": None}},), "privacy.epsilon"), (({"rounds": np.float64(2.5)},), "rounds"),
    ],
)  # fmt: skip
def test_what_cannot_be_asked_is_said_in_a_line(here, asked, said):
    with pytest.raises(BadInput, match=said) as caught:
        mpinodes.simulate(*asked)
    assert "\n" not in str(caught.value)
    assert not (here / "runs").exists()


def test_a_data_frame_is_data(here):
    rng = np.random.default_rng(0)
    frame = pandas.DataFrame({"bought": ["no", "yes"] * 10, "a, b": rng.random(20), "2": rng.random(20, np.float32)})
    stated = {"target": "bought", "labels": ["no", "yes"], "columns": 2, "bound": 1.0}
    asked = {"topology.agents": 2, "algorithm.name": "dola", "noise.key": 1}  # else another file has other noise
    result = mpinodes.simulate(asked, data={"file": frame} | stated)
    assert result.summary["privacy"]["network"]["proven"] == pytest.approx(1)
    again = mpinodes.simulate(result.directory / "experiment.toml")
    np.testing.assert_array_equal(again.record.loss, result.record.loss)
    frame.to_parquet("mine.parquet")
    other = mpinodes.simulate(asked, "data.file=mine.parquet", data=stated)
    np.testing.assert_array_equal(other.record.loss, result.record.loss)
    with pytest.raises(BadInput, match="each column needs a name of printable"):
        mpinodes.simulate(asked, data={"file": pandas.DataFrame(np.eye(2), columns=["a", "a"])})


def test_the_file_of_a_data_frame_is_named_by_a_number(here):
    frame = pandas.DataFrame({"x": np.arange(20.0), "y": [0, 1] * 10})
    other = frame.assign(y=[1, 0] * 10)
    asked = {"topology.agents": 2, "algorithm.name": "dola", "report": False}
    stated = {"labels": [0, 1], "columns": 1}
    names, losses = [], []
    for each in (frame, other, frame, other.iloc[:19], other):
        result = mpinodes.simulate(asked, data={"file": each} | stated)
        names.append(Path(tomllib.loads((result.directory / "experiment.toml").read_text())["data"]["file"]).name)
        losses.append(result.record.loss.values)
    assert names == [f"frame-{n}.csv" for n in (1, 2, 1, 3, 2)]
    np.testing.assert_array_equal(losses[0], losses[2])
    assert (losses[0] != losses[1]).any()


def test_the_result_is_the_run_directory(here):
    result = mpinodes.simulate(SMALL, topology={"agents": 3, "name": "ring"}, record={"decisions": True})
    assert result.summary == json.loads((result.directory / "summary.json").read_text())
    assert "network regret per round" in repr(result)
    assert not list(result.directory.glob("*.html"))
    page = result.report()
    assert page == result.directory / "report.html"
    assert "ring" in page.read_text()
    assert result.record.decision.sel(round=12, agent=2).shape == (result.summary["dimension"],)


def test_figures_are_shown_by_a_notebook(here):
    result = mpinodes.simulate(SMALL)
    html = result._repr_html_()
    assert all(word in html for word in ("network regret per round", "privacy loss, ε", str(result.directory)))
    assert len(html) < 150_000
    for figure in (result.plot.regret(), result.plot.topology()):
        assert isinstance(figure, Figure)
        assert figure._repr_png_()[:4] == b"\x89PNG"
    with pytest.raises(BadInput, match="figure gap"):
        result.plot.gap()


@pytest.mark.parametrize("algorithm", KINDS)
def test_every_variable_says_what_it_is_and_in_what_it_counts(algorithm, here):
    record = mpinodes.simulate({"rounds": 8, "algorithm.name": algorithm}, KINDS[algorithm]).record
    for name, variable in record.variables.items():
        assert len(variable.attrs["long_name"]) > 3, name
        assert variable.attrs["units"], name
        assert "per round" not in variable.attrs["long_name"], name
    assert record["round"].attrs["units"] == "rounds"
    assert record.network_regret.attrs["long_name"] == "network regret R(T)"


def test_repeats_carry_their_seeds(here):
    record = mpinodes.simulate(SMALL, repeats=2, seed=7).record
    assert record.seed.dims == ("repeat",)
    assert record.loss.seed.values.tolist() == [7, 8]
    alone = mpinodes.simulate(SMALL, seed=8).record
    of_seed_8 = record.set_xindex("seed").sel(seed=8)
    np.testing.assert_array_equal(of_seed_8.loss, alone.loss)
    assert all(v.attrs["long_name"] and v.attrs["units"] for v in record.variables.values())
