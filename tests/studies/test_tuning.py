"""Tuning: what trials cost, which samples they see, and what the run with the best settings says."""

from __future__ import annotations

import contextlib
import re
import tomllib
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from mpinodes import load, run_lockstep
from mpinodes.config.building import build
from mpinodes.core.asked import parse
from mpinodes.core.errors import BadInput
from mpinodes.core.experiment import Experiment
from mpinodes.finished import joint_cost
from mpinodes.finished.result import Result
from mpinodes.studies import pools, tuning
from mpinodes.studies.comparing import Comparison
from mpinodes.tune import main
from tests.helpers.records import summary_of

N = 120
RNG = np.random.default_rng(5)
LABELS = RNG.integers(0, 2, N)
FEATURES = (2 * LABELS[:, None] - 1) * [0.6, -0.3] + RNG.normal(0, 0.2, (N, 2))
EXPERIMENT = """
rounds = 6
algorithm.name = "dp-dsgd"
topology = {name = "ring", agents = 3}
step = {kind = "linear-decay", initial = 4.0}
data = {file = "own.csv", columns = 2, header = false, labels = [0, 1], train = 0.8, batch = "all"}
privacy = {clip = 0.5, budget = {epsilon = 6.0}}
"""
LISTS = ["step.initial=1,4,16", "rounds=4,6"]


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    """Two files of samples, an experiment, and one process for all trials."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(pools, "processes", lambda _: contextlib.nullcontext(pools.one_by_one))
    for name, labels in (("own", LABELS), ("copy", LABELS), ("public", 1 - LABELS)):
        write(name, labels)
    (tmp_path / "e.toml").write_text(EXPERIMENT)


def write(name, labels):
    rows = (f"{a!r},{b!r},{y}\n" for (a, b), y in zip(FEATURES.tolist(), labels, strict=True))
    with open(f"{name}.csv", "w") as file:
        file.writelines(rows)


def epsilon(mu, delta=1e-5):
    """The ε of μ-GDP at δ, from the trade-off of two Gaussians."""
    over = lambda e: norm.cdf(mu / 2 - e / mu) - np.exp(e) * norm.cdf(-mu / 2 - e / mu) - delta  # noqa: E731
    return brentq(over, 0, 100)


@pytest.mark.parametrize(("adjacency", "sensitivity"), [("one-sample", 2), ("zero-out", 1)])
def test_all_that_is_released_composes_within_the_budget(monkeypatch, adjacency, sensitivity):
    """Every trial, every noised count and the final run; recomputed from the noise of each run alone."""
    scales = []

    class Quiet:
        def __init__(self, *_):
            pass

        def at(self, _):
            return self

        def normal(self, mean, scale):
            scales.append(scale)
            return mean

    monkeypatch.setattr(tuning, "Draws", Quiet)
    tuned = tuning.tune("e.toml", [*LISTS, f"privacy.adjacency={adjacency}"], "accounted", 4, "", tuning.Path("t.toml"))
    runs = sorted((tuned.study / "runs").iterdir())
    assert (len(runs), len(tuned.scores), len(scales)) == (4, 4, 12)
    cost = re.fullmatch(r"4 runs: \d+ s, \d+ CPU seconds; budget of the final run ε = (.*), with tuning 6", tuned.cost)
    assert f"# {tuned.cost}.\n" in tuning.Path("t.toml").read_text()
    costs = []
    for run in runs:
        e = Experiment.read(run / "experiment.toml")
        costs.append(sensitivity**2 * e.rounds / e.privacy.noise_multiplier**2)
        stream, decisions = build(e).stream, load(run)["decision"].to_numpy()[-1]
        train, held = stream._sources
        assert (len(train.targets), len(held.targets)) == (72, 24)
        rows = {tuple(x) for x in train.features(np.arange(72))}
        assert not rows & {tuple(x) for x in held.features(np.arange(24))}
        right = 0
        for agent, x in enumerate(decisions):  # by hand: the counts of the agents' own models
            own = stream.held_by(agent)
            right += np.sum((held.features(own) @ x > 0) == (held.targets[own] > 0))
        assert tuned.scores[int(e.name[-1])] == right / 24
    counts = [1 / scale**2 for scale in scales[::3]]  # a sample is in the count of one agent
    final = summary_of(run_lockstep(parse("t.toml", ["output.dir=final", "report=false"])))
    e = Experiment.read(tuning.Path("final/experiment.toml"))
    last = sensitivity**2 * e.rounds / e.privacy.noise_multiplier**2
    assert float(cost[1]) == pytest.approx(epsilon(last**0.5), rel=1e-3)
    for used in (costs, counts):  # a sample is in the training rows of the trials, or in their held-out rows
        whole = epsilon((sum(used) + last) ** 0.5)
        assert 5.98 < whole <= 6 + 1e-9
        assert whole == pytest.approx(final["privacy"]["tuning"]["epsilon"], rel=1e-3)
    assert final["privacy"]["network"]["proven"] == pytest.approx(epsilon(last**0.5), rel=1e-6)
    assert len({Experiment.read(run / "experiment.toml").privacy.noise_multiplier for run in runs}) == 2


def test_private_trials_never_see_the_test_samples(capsys):
    """What the test samples are changes no score; ε does not include the trials, and the run says so."""
    settings = Experiment.read(run_lockstep(parse("e.toml", ["output.dir=first", "report=false"])) / "experiment.toml")
    stream = build(settings).stream
    _, test = stream._sources
    texts = {tuple(x): k for k, x in enumerate(FEATURES.tolist())}
    rows = [texts[tuple(x)] for x in test.features(np.arange(24)).tolist()]
    scores = []
    for labels in (LABELS, np.where(np.isin(np.arange(N), rows), 1 - LABELS, LABELS)):
        write("own", labels)
        words = [*LISTS, "noise.key=7"]  # otherwise, the noise depends on the file
        tuned = tuning.tune("e.toml", words, "private", 3, "", tuning.Path("t.toml"))
        scores.append(tuned.scores)
        tuned.study.rename(f"{tuned.study}-{len(scores)}")
    assert scores[0] == scores[1]
    final = summary_of(run_lockstep(parse("t.toml", ["output.dir=final", "report=false"])))
    assert final["privacy"]["tuning"] == {"mode": "private", "trials": 3, "epsilon": None}
    assert main(["e.toml", "rounds=4,6", "--private", "--trials", "1"]) == 0
    assert "1 trials (0 failed)" in (out := capsys.readouterr().out)
    assert "  cost: 3 runs: " in out


def test_public_trials_run_on_the_public_file_alone():
    tuned = tuning.tune("e.toml", LISTS, "public", 2, "public.csv", tuning.Path("t.toml"))
    for run in (tuned.study / "runs").iterdir():
        assert Experiment.read(run / "experiment.toml").data["file"].endswith("public.csv")
    tree = tomllib.loads(tuning.Path("t.toml").read_text())
    assert tree["data"]["file"] == "own.csv"
    assert tree["privacy"]["tuning"]["mode"] == "public"
    assert tree["privacy"]["budget"]["epsilon"] == 6
    assert tree["step"]["initial"] == tuned.settings["step.initial"]


def test_a_public_file_has_the_columns_of_the_private_file(capfd):
    for name, head in (("own", "a,b,y"), ("public", "b,a,y")):
        text = tuning.Path(f"{name}.csv").read_text()
        tuning.Path(f"{name}.csv").write_text(f"{head}\n{text}")
    assert main(["e.toml", "data.header=true", "--public=public.csv"]) == 2
    (line,) = capfd.readouterr().err.splitlines()
    assert "--public public.csv: the columns are b, a, y, but a, b, y in the private data: give both" in line


def test_trials_are_fixed_beforehand_and_begin_with_the_given_settings():
    tuned = tuning.tune("e.toml", [], "accounted", 3, "", tuning.Path("t.toml"))
    read = (Experiment.read(run / "experiment.toml") for run in (tuned.study / "runs").iterdir())
    first, *_ = trials = sorted(read, key=lambda e: e.name)
    assert (first.step["initial"], first.privacy.clip, first.rounds) == (4, 0.5, 6)
    assert all(trial.privacy.budget == other.privacy.budget for trial, other in pairwise(trials))


@pytest.mark.parametrize(
    ("words", "mode", "message"),
    [
        ([], "--public=none.csv", "none.csv: cannot be read: No such file"),
        (["noise.key=1"], "--accounted", "leave out data.sampling, noise.key and"),
        (["algorithm.name=dola", "data.batch=1"], "--accounted", "only methods that add Gaussian noise to gradients"),
        (["data.targets=real", "data.labels=[]", "problem.loss=least-squares"], "--accounted", "counts of correct"),
        (["privacy.budget.epsilon=1,2"], "--private", "privacy.budget.epsilon: all trials have the same ε"),
        (["privacy.budget.epsilon=0"], "--private", "privacy.budget.epsilon = 0"),
        (["data.facts=read"], "--accounted", "nothing is proven: facts about the file were read from the data"),
        (["data.partition=by-label"], "--accounted", "nothing is proven: "),
        ([], "--public=own.csv", "--public own.csv: this is a file of the private data"),
        ([], "--public=copy.csv", "--public copy.csv: this is a file of the private data"),
    ],
)
def test_what_cannot_be_tuned_is_refused(capfd, words, mode, message):
    assert main(["e.toml", *words, mode]) == 2
    (line,) = capfd.readouterr().err.splitlines()
    assert message in line
    assert main(["--private"]) == 2
    tuning.Path("n.toml").write_text(EXPERIMENT.replace(", budget = {epsilon = 6.0}", ""))
    with pytest.raises(BadInput, match=r"privacy.budget.epsilon is missing"):
        tuning.tune("n.toml", [], "private", 2, "", tuning.Path("t.toml"))


def test_the_cost_of_tuning_is_neither_lost_nor_proven_for_another_adjacency(capfd):
    """A tuned experiment is not tuned again, and the cost of trials holds for the adjacency of the trials alone."""
    words = ["rounds=4,6", "privacy.adjacency=zero-out"]
    assert main(["e.toml", *words, "--accounted", "--trials", "1", "--output", "t.toml"]) == 0
    for mode in (["--public", "public.csv"], ["--private"], ["--accounted"]):
        assert main(["t.toml", *mode, "--output", "again.toml"]) == 2
        assert "privacy.tuning: the settings were tuned on the private data" in capfd.readouterr().err
    assert not Path("again.toml").exists()
    for adjacency, is_proven in (("zero-out", True), ("one-sample", False), ("one-agent", False)):
        asked = parse("t.toml", [f"privacy.adjacency={adjacency}", f"output.dir={adjacency}", "report=false"])
        privacy = summary_of(run_lockstep(asked))["privacy"]
        assert privacy["network"]["proven"] is not None
        assert (privacy["tuning"]["epsilon"] is not None) is is_proven
    for name, words in (("seed", ["seed=1"]), ("changed", ["privacy.tuning.mu=0.01", "repeats=2"])):
        asked = parse("t.toml", [*words, f"output.dir={name}", "report=false"])
        assert ("stated" in summary_of(run_lockstep(asked))["privacy"]["tuning"]) is (name == "changed")
    text = " ".join(repr(Result(Path("changed"))).split())
    assert re.search(r"was changed, comes from another .* `mpinodes spent` adds up tuning and all runs\.", text)
    mu = tomllib.loads(Path("t.toml").read_text())["privacy"]["tuning"]["mu"]
    final = brentq(lambda mu: epsilon(mu) - summary_of(Path("zero-out"))["privacy"]["network"]["proven"], 0.1, 9)
    runs = joint_cost.read([Path("zero-out"), Path("seed")])  # tuning is counted once
    whole = summary_of(Path("zero-out"))["privacy"]["tuning"]["epsilon"]
    assert runs[0].results["epsilon_with_tuning"] == whole > runs[0].results["epsilon_proven"]
    loss, notes, _ = joint_cost.in_all(runs, None)
    assert loss.epsilon == pytest.approx(epsilon((mu**2 + 2 * final**2) ** 0.5), rel=1e-3)
    assert "The cost of choosing settings by mpinodes tune is included." in notes
    words = ["privacy.tuning.mode=private", "privacy.tuning.tag=x", "seed=2", "output.dir=private", "report=false"]
    run_lockstep(parse("t.toml", words))
    notes = joint_cost.in_all(joint_cost.read([Path("zero-out"), Path("private")]), None)[1]
    assert [note for note in notes if "mpinodes tune" in note] == [
        "The cost of choosing settings by mpinodes tune is included for 1 of 2 tuned runs."
    ]
    compared = Comparison.of([Path("zero-out"), Path("private")], "privacy.tuning.mode", [])
    assert not [key for key, _ in compared.beyond() if key.startswith("privacy.tuning")]
    notes = joint_cost.in_all(joint_cost.read([Path("changed")]), None)[1]
    assert any("as privacy.tuning states it: " in note for note in notes)


def test_trials_of_an_earlier_tuning_are_named(capsys):
    for trials in ("1", "2"):
        assert main(["e.toml", "rounds=4,6", "--accounted", "--trials", trials]) == 0
    assert "ε does not include 1 other trials in this directory" in capsys.readouterr().out


def test_only_files_of_tune_are_overwritten_and_a_missing_folder_is_refused_first(capfd):
    words = ["e.toml", "rounds=4,6", "--private", "--trials", "1", "--output"]
    for output, message in (("e.toml", "did not write this file"), ("none/t.toml", "the folder does not exist")):
        assert main([*words, output]) == 2
        assert message in capfd.readouterr().err
    assert Path("e.toml").read_text() == EXPERIMENT
    assert not Path("studies").exists()
    assert [main([*words, "t.toml"]), main([*words, "t.toml"])] == [0, 0]
