"""Where the value of a key comes from, and what becomes of keys that older versions had."""

from __future__ import annotations

import math
import tomllib

import pytest
import tomli_w

import mpinodes
from mpinodes.auditing.transcripts import Recorded
from mpinodes.config.compose import compose
from mpinodes.config.defaults import unlike_first
from mpinodes.core.asked import asked_for, merge
from mpinodes.core.errors import BadInput
from mpinodes.core.experiment import RETIRED, Experiment
from mpinodes.finished.runs import found
from mpinodes.presentation.draw import draw
from mpinodes.run import main
from mpinodes.running.resuming import reopen
from tests.helpers.running import run_here

PRESET = '[data]\nname = "unit-ball"\nbatch = 5\n'


def test_naming_the_default_algorithm_says_which_settings_this_changes():
    line = unlike_first(asked_for(["algorithm.name=dola", "rounds=3"]))
    assert line.endswith(
        'data.name="unit-ball" data.total=25000 data.batch=25 problem.average=true privacy.delta=1e-06'
    )
    named = compose(asked_for(["algorithm.name=dola", *line.split(": ")[1].split()]), None).experiment
    assert named == compose({}, None).experiment
    for words in ([], ["algorithm.name=dpps"], ["algorithm.name=dola", "data.batch=25"]):
        assert unlike_first(asked_for(words)) == ""


@pytest.mark.parametrize(
    ("words", "key", "line"),
    [
        ("", "data.batch", "data.batch = 25   from the base"),
        ("", "step.kind", "step.kind = strongly-convex   from the algorithm dola"),
        ("data.name=adult", "problem.radius", "problem.radius = 10.0   from the algorithm dola"),
        ("algorithm.name=dpsda-ps", "privacy.scale", "privacy.scale = 4.5   from the data digits"),
        ("algorithm.name=dola problem.preset=mine.toml", "data.batch", "data.batch = 5   from the preset mine.toml"),
        ("algorithm.name=dola problem.preset=digits", "data.epochs", "data.epochs = 100   from the preset digits"),
        (
            "algorithm.name=dola problem.preset=mine.toml data.batch=3",
            "data.batch",
            "data.batch = 3   from the command line",
        ),
        ("e.toml", "privacy.clip", "privacy.clip = 2.0   from e.toml, line 3"),
        ("e.toml privacy.clip=3", "privacy.clip", "privacy.clip = 3.0   from the command line"),
        ("algorithm.name=m-admm", "algorithm.penalty", "algorithm.penalty = 0.5   from the default of the key"),
        ("", "rounds", "rounds: as many as the data give"),
        ("", "problem.loss", "problem.loss = hinge   from the algorithm dola"),
    ],
)
def test_explain_names_the_layer_that_a_value_comes_from(words, key, line, tmp_path, monkeypatch, capsys):
    (tmp_path / "mine.toml").write_text(PRESET)
    (tmp_path / "e.toml").write_text("rounds = 5\n[privacy]\nclip = 2.0\n")
    monkeypatch.chdir(tmp_path)
    assert main([*words.split(), "--explain", key]) == 0
    meaning, value = capsys.readouterr().out.splitlines()
    assert meaning.startswith(f"{key}: ")
    assert value == line


def test_explain_by_the_command_itself(tmp_path):
    done = run_here("--explain", "data.batch", "algorithm.name=dola", "problem.preset=digits", cwd=tmp_path)
    assert done.code == 0
    assert done.out.splitlines()[-1] == "data.batch = 1   from the preset digits"


def test_explain_lists_the_keys_of_a_section(capsys):
    for section, first in (("privacy.budget", "privacy.budget.delta: "), ("topology", "topology: ")):
        assert main(["--explain", section]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert lines[0].startswith(first)
        assert len(lines) > 3
        assert all(line.startswith(f"{section}.") for line in lines[1:])


def test_epsilon_is_a_number_from_the_command_line_to_the_mechanism():
    for word, epsilon in (("0.5", 0.5), ("2", 2.0), ("inf", math.inf), ('"inf"', math.inf)):
        setup = compose(asked_for(["algorithm.name=dola", f"privacy.epsilon={word}"]), None)
        assert type(setup.experiment.privacy.epsilon) is float
        assert setup.experiment.privacy.epsilon == setup.run.epsilon == epsilon
        assert setup.mechanism.epsilon == epsilon


WORDS = ["algorithm.name=dola", "topology.name=ring", "topology.agents=3", "data.total=60", "rounds=8", "report=false"]
OLD = {"record": {"chunk": 65536, "agent_regret_every": 1}}


def test_a_key_that_is_gone_is_ignored_at_its_default(tmp_path, capsys):
    now = compose(asked_for(WORDS), None).experiment
    (tmp_path / "old.toml").write_text(tomli_w.dumps(merge(tomllib.loads(now.toml()), OLD)))
    assert main(["--dry-run", str(tmp_path / "old.toml")]) == 0
    told = capsys.readouterr()
    assert sorted(told.err.splitlines()) == [
        f"mpinodes: {key}: this key no longer exists; the key is ignored, because its value is the old default"
        for key in ("record.agent_regret_every", "record.chunk")
    ]
    assert "chunk" not in told.out


@pytest.mark.parametrize("key", RETIRED)
def test_another_value_of_a_key_that_is_gone_is_refused(key):
    budget = ["privacy.budget.epsilon=1"] if "budget" in key else []
    value = "each" if "budget" in key else 7
    with pytest.raises(BadInput, match=rf"^{key} = '?{value}'?: this key no longer exists; ") as caught:
        compose(asked_for([*WORDS, *budget, f"{key}={value}"]), None)
    assert "\n" not in str(caught.value)


def test_runs_that_older_versions_wrote_are_read(tmp_path, undrawn):
    """Whatever the values of keys that are gone: load, runs, report, resume and replay."""
    run = tmp_path / "run"
    mpinodes.run_lockstep(asked_for([*WORDS, f"output.dir={run}", "checkpoint.every=4", "record.transcript=true"]))
    experiment = Experiment.read(run / "experiment.toml")
    text = (run / "experiment.toml").read_text()
    old = merge(
        tomllib.loads(text), {"record": {"chunk": 100, "agent_regret_every": 3}, "checkpoint": {"seconds": 5.0}}
    )
    comments = "".join(f"{line}\n" for line in text.splitlines() if line.startswith("#"))
    (run / "experiment.toml").write_text(comments + tomli_w.dumps(old))
    assert Experiment.read(run / "experiment.toml") == experiment
    assert mpinodes.load(run).sizes["round"] == 8
    assert len(mpinodes.runs(tmp_path)) == 1
    assert found([run])[0].keys["rounds"] == 8
    assert draw(run, vector=False).is_file()
    (run / "summary.json").unlink()
    assert reopen(run, [], None)[0].experiment.rounds == 8
    assert Recorded(run).setup.experiment.rounds == 8


def test_a_run_of_an_older_version_whose_repeats_have_a_budget_each_is_read_but_not_resumed(tmp_path):
    run = tmp_path / "run"
    words = [*WORDS, "repeats=2", "data.seed=0", "privacy.budget.epsilon=5", f"output.dir={run}", "checkpoint.every=4"]
    mpinodes.run_lockstep(asked_for(words))
    old = merge(tomllib.loads((run / "experiment.toml").read_text()), {"privacy": {"budget": {"covers": "each"}}})
    (run / "experiment.toml").write_text(tomli_w.dumps(old))
    assert Experiment.read(run / "experiment.toml").repeats == 2
    assert len(mpinodes.runs(tmp_path)) == 2
    with pytest.raises(BadInput, match=rf"^--resume {run}: .*privacy\.budget\.covers.* start a new run$") as caught:
        reopen(run, ["rounds=16"], None)
    assert "\n" not in str(caught.value)
