"""What a study file means: axes, seeds, exclusions, the command line, and every mistake in it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mpinodes.core.errors import BadInput
from mpinodes.studies.study import Study
from tests.helpers.parts import resolved

FILE = """
rounds = 9
data.name = "digits"
[study]
seeds = 2
exclude = [{ algorithm.name = "dola", topology.name = ["star", "ring"] }]
[study.grid]
algorithm.name = ["dola", "dpps"]
topology.name = ["ring", "complete"]
[study.zip]
data.batch = [1, 5]
privacy.clip = [1.0, 0.2]
[[study.cases]]
name = "plain"
[[study.cases]]
privacy.epsilon = 4
"""


def study_of(tmp_path, text=FILE, *words):
    file = tmp_path / "mine.toml"
    file.write_text(text)
    return Study.of([str(file), *words])


def test_every_combination_is_a_run(tmp_path):
    study = study_of(tmp_path)
    points = study.points()
    assert (study.name, [axis.key for axis in study.axes]) == (
        "mine", ["algorithm.name", "topology.name", "data.batch", "name", "seed"],
    )  # fmt: skip
    assert len(points) == (2 * 2 - 1) * 2 * 2 * 2
    assert {(p.settings["data.batch"], p.settings["privacy.clip"]) for p in points} == {(1, 1.0), (5, 0.2)}
    assert {p.settings["name"] for p in points} == {"plain", "epsilon4"}
    first = points[0].asked
    assert first["algorithm"]["name"] == "dola"
    assert (first["rounds"], first["report"], first["seed"]) == (9, False, 0)
    assert "study" not in first
    assert all(p.settings["topology.name"] == "complete" for p in points if p.settings["algorithm.name"] == "dola")


def test_a_word_of_the_command_makes_an_axis_or_takes_one_away(tmp_path):
    study = study_of(
        tmp_path, FILE, "rounds=9,12", "topology.name=complete", "seed=4,7", "study.exclude=[{rounds=12, seed=7}]"
    )
    assert [axis.key for axis in study.axes] == ["algorithm.name", "rounds", "data.batch", "name", "seed"]
    assert [p["seed"] for p in study.axes[-1].points] == [4, 7]
    assert len(study.points()) == 2 * 2 * 2 * 2 * 2 - 8
    assert {p.asked["topology"]["name"] for p in study.points()} == {"complete"}
    assert [p["seed"] for p in study_of(tmp_path, FILE, "seed=3").axes[-1].points] == [3, 4]
    study = study_of(tmp_path, "[study.grid]\nseed = [5, 6]", "seed=4,7")
    assert [[p["seed"] for p in axis.points] for axis in study.axes] == [[4, 7]]


def test_lists_hold_what_has_commas_in_it(tmp_path):
    axes = Study.of(["data.labels=[0,1],[1,2]", 'audit.view="agents:1,2",links', "data.sizes=[3,4]"]).axes
    values = [[value for p in axis.points for value in p.values()] for axis in axes]
    assert values == [[[0, 1], [1, 2]], ["agents:1,2", "links"]]


def test_a_study_written_down_is_the_same_study(tmp_path):
    study = study_of(tmp_path, FILE, "rounds=9,12", f"output.dir={tmp_path}/there")
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "study.toml").write_text(study.toml())
    again = Study.of([str(tmp_path / "there")])
    assert (again.points(), again.place) == (study.points(), study.place)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[study]\nseed = 3", "did you mean study.seeds"),
        ("[study]\nseeds = 0", "study.seeds = 0"),
        ("seed = 3\n[study]\nseeds = [1, 2]", "leave one of the two keys out"),
        ("[study]\nseeds = [1, 1]", "different seeds"),
        ("[study]\ngrid = 3", "study.grid = 3: expected table"),
        ("[study.grid]\nrounds = 3", "expected a list"),
        ("[study.grid]\nrounds = []", "expected a list"),
        ("[study.grid]\nrounds = [3, 3]", "comes twice"),
        ("rounds = 5\n[study.grid]\nrounds = [3, 4]", "has one value for all runs"),
        ("[study.zip]\nrounds = [3, 4]\nseed = [1]", "rounds 2, seed 1"),
        ("[study.zip]\nrounds = [3, 3]\nseed = [1, 1]", "one list must have different values only"),
        ("[study.grid]\nrounds = [3]\n[study.zip]\nrounds = [3]", "varied twice, in study.grid and in study.zip"),
        ('[study.grid]\nalgorithm.name = "dola"', r"in \[algorithm\] of the file"),
        ("[study]\nseeds = 2000000000", "study.seeds = 2000000000: .* 100000"),
        ("[study]\nseeds = 60000\n[study.grid]\nrounds = [3, 4]", "120000 runs"),
        ("[study]\ncases = 3", "study.cases = 3: expected list"),
        ('[[study.cases]]\nname = "a"\n[[study.cases]]\nname = "a"', "two cases are called 'a'"),
        ("repeats = 3", "study.seeds"),
        ("[study.grid]\nrepeats = [2, 3]", "repeats cannot be varied; .* study.seeds"),
        ("[study]\nexclude = [3]", r"study.exclude = \[3\]: expected table"),
        ("[study]\nseeds = 2\nexclude = [{ sed = 1 }]", "did you mean seed"),
        ("[study]\nseeds = 2\nexclude = [{ seed = 9 }]", "no run of this study has seed = 9"),
        ("[study]\nseeds = 1\nexclude = [{ seed = 0 }]", "every run is excluded"),
        ("name = 3", "name = 3: expected str"),
        ("rounds = ", "not TOML"),
    ],
)
def test_a_mistake_is_said(text, says, tmp_path):
    with pytest.raises(BadInput, match=says):
        study_of(tmp_path, text).points()


@pytest.mark.parametrize("word", ["rounds=3,,4", "repeats=2,3", "study.seeds=1,2", "study.seds=3", "name='a,b"])
def test_a_mistake_on_the_command_line_is_said(word):
    with pytest.raises(BadInput):
        Study.of([word])


def test_a_study_is_no_experiment():
    with pytest.raises(BadInput, match=r"mpinodes.sweep"):
        resolved({"study": {"seeds": 3}})


def test_the_study_of_the_documentation_is_one(tmp_path):
    page = (Path(__file__).parents[2] / "docs" / "studies.md").read_text()
    text = re.search(r"```toml\n# study\.toml\n(.*?)```", page, re.DOTALL)[1]
    assert len(text.splitlines()) < 20
    points = study_of(tmp_path, text).points()
    assert len(points) == 180
    for point in points[:: 180 // 3 + 7]:
        assert resolved(point.asked).rounds == 200
    further = re.search(r"```toml\n(rounds.*?)```", page, re.DOTALL)[1]
    points = study_of(tmp_path, further).points()
    assert len(points) == 2 * 3
    assert {resolved(point.asked).faults.loss for point in points} == {0, 0.2}
