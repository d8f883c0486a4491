"""What runs warn of, wherever the results of a study are read."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

import mpinodes
from mpinodes.finished.runs import found
from mpinodes.presentation import plots as drawing
from mpinodes.presentation import run_warnings
from mpinodes.presentation.terminal import text as told
from mpinodes.running.closing import combined
from mpinodes.studies import sweeping
from mpinodes.studies.figures import GUESS
from mpinodes.studies.pools import one_by_one
from mpinodes.studies.study import Study
from mpinodes.summary.summary import Summary
from tests.helpers.parts import run_of, setup_of
from tests.helpers.records import compared, summary_of, typed

NO_BETTER, WORSE, MEAN = "no-better-than-guessing", "loss-above-start", "no-better-than-mean-target"


def swept(place, *words: str) -> str:
    """Do a study and return what its sweep prints."""
    study = Study.of([*words, f"output.dir={place}"])
    return str(sweeping.sweep(study, one_by_one, one_by_one))


@pytest.fixture
def figures(monkeypatch) -> dict[str, Figure]:
    """Figures by the names of the files that they are saved as."""
    saved = {}
    monkeypatch.setattr(drawing, "save", lambda figure, path: (saved.update({path.name: figure}), path.touch()))
    return saved


def guesses(figure: Figure) -> list[float]:
    """Return the heights of the dotted lines."""
    return [float(line.get_ydata()[0]) for axes in figure.axes for line in axes.lines if line.get_linestyle() == ":"]


def dotted(figure: Figure) -> set[str]:
    """Return the colours of the dotted lines, in the legend too."""
    lines = [*(line for axes in figure.axes for line in axes.lines), *figure.legends[0].get_lines()]
    return {str(line.get_color()) for line in lines if line.get_linestyle() == ":"}


def legend_of(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


def words_of(figure: Figure) -> str:
    return " ".join(text.get_text() for text in figure.texts).replace("\n", " ")


@pytest.fixture(scope="module")
def useless(tmp_path_factory):
    """A study of runs whose accuracy is about that of guessing, and what its sweep printed."""
    place = tmp_path_factory.mktemp("warnings") / "useless"
    words = ["rounds=6", "topology.agents=3", "algorithm.name=dola,dpps", "privacy.epsilon=0.01,0.02", "seed=0,1"]
    return place, swept(place, *words, "problem.preset=digits")


def test_a_study_of_useless_runs_says_so_wherever_it_is_read(useless, tmp_path, figures):
    place, printed = useless
    summaries = {path.parent.name: summary_of(path.parent) for path in place.glob("runs/*/summary.json")}
    assert len(summaries) == 8
    poor = {name for name, s in summaries.items() if s["accuracy"]["test"] <= s["baselines"]["majority"]["test"]}
    assert poor == {name for name, s in summaries.items() if NO_BETTER in s["warnings"]}
    assert len(poor) >= 4
    for name, summary in summaries.items():
        words_alone = told(typed(summary), place)
        assert ("than always predicting the largest class: " in words_alone) == (name in poor)
    line = f"{NO_BETTER}: {len(poor)} of 8 runs: "
    assert f"  WARNING: {line}" in printed
    with (place / "table.csv").open(newline="") as file:
        table = {row["run"]: row["warnings"].split() for row in csv.DictReader(file)}
    assert table == {name: [*summary["warnings"]] for name, summary in summaries.items()}
    frame = mpinodes.runs(place)
    assert sum(frame["warnings"].str.contains(NO_BETTER)) == len(poor)
    said = compared([place], None, tmp_path)
    assert f"WARNING: {line}" in " ".join(said.split())
    assert sum(NO_BETTER in row for row in said.partition("WARNING")[0].splitlines()) >= 2  # settings in the table
    for name in ("compare.md", "table.md", "table.tex", "table.csv"):
        assert NO_BETTER in (tmp_path / name).read_text()
    assert f"WARNING: {line}" in (tmp_path / "compare.md").read_text()
    assert {"accuracy.png", "regret.png", "accuracy-by-epsilon.png"} <= figures.keys()
    for name, figure in figures.items():
        assert f"{NO_BETTER}: {len(poor)} of 8 runs" in words_of(figure)
        assert bool(guesses(figure)) == (GUESS in legend_of(figure)) == name.startswith("accuracy")
        if guesses(figure):
            majority = 100 * next(iter(summaries.values()))["baselines"]["majority"]["test"]
            assert guesses(figure) == pytest.approx([majority] * len(guesses(figure)), abs=3)
            low, high = figure.axes[0].get_ylim()
            assert low < majority < high


def labelled(path, ones: int, of: int) -> str:
    """Write samples of which so many have the label 1, and return the words that read them."""
    rng = np.random.default_rng(0)
    rows = np.column_stack([rng.uniform(-1, 1, (of, 2)), np.arange(of) % of < ones])
    rng.shuffle(rows)
    np.savetxt(path, rows, "%.17g", ",", header="a,b,label", comments="")
    return f"data.file={path} data.header=true data.columns=2 data.bound=1 data.labels=[0,1] data.train=0.5"


def test_the_lines_of_guessing_have_one_colour_whatever_the_runs_are(tmp_path, figures):
    files = [labelled(tmp_path / f"{ones}.csv", ones, 200).split() for ones in (160, 120)]
    runs = []
    for k, (words, epsilon) in enumerate((words, epsilon) for words in files for epsilon in (0.01, 0.02)):
        for name in ("dola", "dola-minibatch"):
            asked = f"rounds=6 algorithm.name={name} privacy.epsilon={epsilon} {' '.join(words)}"
            runs.append(run_of(tmp_path / f"{name}-{k}", asked))
    compared(runs, "algorithm.name", tmp_path / "by-name", ["privacy.epsilon"])
    compared(runs[:1] + runs[5:6], "algorithm.name", tmp_path / "mixed", [])
    for name in ("accuracy.png", "accuracy-by-epsilon.png"):
        assert len({round(height) for height in guesses(figures[name])}) == 1 + (name == "accuracy.png")
        assert dotted(figures[name]) == {"black"}


@pytest.mark.parametrize("ones", [160, 20])
def test_guessing_is_the_share_of_the_largest_class_of_the_test_data(tmp_path, figures, ones):
    file = labelled(tmp_path / "unequal.csv", ones, 200)
    printed = swept(tmp_path / "study", "rounds=6", "algorithm.name=dola", "privacy.epsilon=0.01,0.02", *file.split())
    compared([tmp_path / "study"], None, tmp_path / "out")
    labels = setup_of(f"rounds=6 algorithm.name=dola {file}").stream.labelled()["test"].targets
    share = max(np.mean(labels == label) for label in (-1, 1))
    assert share > 0.6
    assert guesses(figures["accuracy.png"]) == pytest.approx([100 * share] * 2)
    poor = [run for run in found([tmp_path / "study"]) if run.summary.value("accuracy.test") <= share]
    assert poor
    assert all(NO_BETTER in run.results["warnings"].split() for run in poor)
    assert f"{NO_BETTER}: {len(poor)} of 2 runs" in printed


def test_regression_has_its_own_guess_and_no_figure_of_accuracy(tmp_path, figures):
    rng = np.random.default_rng(0)
    features = rng.uniform(-1, 1, (100, 3))
    np.savetxt(tmp_path / "houses.csv", np.column_stack([features, features.sum(axis=1)]), "%.17g", ",")
    data = f"data.file={tmp_path}/houses.csv data.header=false data.targets=real data.columns=3 data.bound=1"
    words = ["algorithm.name=dola", "privacy.epsilon=0.01,0.02", "problem.loss=least-squares", *data.split()]
    printed = swept(tmp_path / "study", "rounds=6", *words)
    assert f"WARNING: {MEAN}: 2 of 2 runs: " in printed
    said = compared([tmp_path / "study"], None, tmp_path / "out")
    assert MEAN in said
    assert NO_BETTER not in said
    assert not any(name.startswith("accuracy") for name in figures)
    assert all(f"{MEAN}: 2 of 2 runs" in words_of(figure) for figure in figures.values())


@pytest.mark.parametrize("share", [0.52, 0.5])
def test_the_accuracy_of_guessing_is_no_better_than_guessing(useless, share):
    summary = summary_of(next(useless[0].glob("runs/dola*"))) | {"warnings": None}
    summary |= {"accuracy": {"test": share, "train": 0.9}, "average_fitness": 0.0}
    summary["baselines"] |= {
        "majority": {"test": 0.52, "train": 0.5},
        "start": {"average_fitness": 1.0, "accuracy": None},
    }
    (only,) = run_warnings.sentences(typed(summary))
    assert only.startswith("No better than" if share == 0.52 else "Worse than")
    assert "mpinodes tune" not in only  # tuning needs a budget
    summary["privacy"]["budget"] = {"epsilon": 8, "delta": 1e-5, "kept_by": "noise", "stops": [None]}
    (only,) = run_warnings.sentences(typed(summary))
    assert only.endswith("To search better settings: mpinodes tune.")
    assert NO_BETTER in run_warnings.of(typed(summary))
    summary["accuracy"]["test"] = 0.53
    assert run_warnings.sentences(typed(summary)) == []


def changed(summary: dict, path: str, value) -> dict:
    *sections, last = path.split(".")
    tree = summary
    for section in sections:
        tree = tree[section]
    tree[last] = value
    return summary


UNPROVEN = {"proven": None, "proven_pure": None, "rule": "unproven"}
TOGETHER = {"runs": 2, "by": "sample", "network": UNPROVEN, "agents": [UNPROVEN], "unproven_because": ""}
BUDGET = {"epsilon": 1.0, "delta": 1e-6, "kept_by": "stopping", "stops": [None, 3]}
SOLVER = {"tolerance": 1e-6, "largest_residual": 1.0, "unsolved": 2, "steps": 3.0, "most_steps": 4}


@pytest.mark.parametrize(
    ("path", "value", "code"),
    [
        ("privacy.shares_noise_with", ["other"], "shared-noise"), ("privacy.noise.key", "k", "noise-key"),
        ("privacy.unproven_because", "so", "unproven"), ("privacy.network.proven", None, "unproven"),
        ("privacy.together", TOGETHER, "unproven"), ("average_fitness", None, "diverged"),
        ("privacy.budget", BUDGET, "budget-spent"), 
        ("privacy.delta", 0.5, "delta-too-large"), ("privacy.network.proven", 10.0, "epsilon-too-large"),
        ("privacy.network.claimed", 1e-9, "above-claim"), ("privacy.noise.release", 99.0, "label-not-kept"),
        ("privacy.noise.release", None, "label-not-kept"), ("privacy.noise", None, "no-noise"),
        ("privacy.key", "secret", "floating-point-noise"), ("solver", SOLVER, "unsolved"),
        ("checked", [{"key": "k", "path": "p", "tested": False, "sha256": "0"}], "not-tested"),
        ("partial", True, "partial"),
    ],
)  # fmt: skip
def test_every_warning_has_a_code_with_a_meaning(useless, path, value, code):
    summary = summary_of(next(useless[0].glob("runs/dola*")))
    before = run_warnings.of_numbers(typed(summary))
    after = run_warnings.of_numbers(typed(changed(summary, path, value)))
    assert code in after.keys() - before.keys()
    assert after[code].endswith(".")
    assert {*after, *before} <= run_warnings.MEANINGS.keys()


def test_a_warning_of_any_cause_is_added_by_its_code_and_read_everywhere(useless, tmp_path):
    """Another part of the package adds a warning by one call, and a code without a meaning is a mistake."""
    run = next(useless[0].glob("runs/dola*"))
    shutil.copytree(run, tmp_path / "runs" / "run")
    summary = Summary.read(run)
    run_warnings.add(summary, "unsolved", "Agent 2 gave up.")
    (tmp_path / "runs" / "run" / "summary.json").write_bytes(summary.json())
    assert "WARNING: Agent 2 gave up." in told(summary, run)
    assert "unsolved" in mpinodes.runs(tmp_path)["warnings"][0].split()
    assert "unsolved: 1 of 1 runs: " in compared([tmp_path], None, tmp_path / "out")
    with pytest.raises(KeyError):
        run_warnings.add(summary, "no-such-code", "Why.")


def test_every_code_is_in_the_documentation():
    page = (Path(__file__).parents[2] / "docs" / "studies.md").read_text("utf-8")
    documented = {code for line in page.splitlines() if line.startswith("| `") for code in line.split("|")[1].split()}
    assert {f"`{code}`" for code in run_warnings.MEANINGS} == documented


def test_repeats_have_the_warnings_of_each_and_say_so(useless):
    good, poor = (summary_of(run) for run in sorted(useless[0].glob("runs/dola-epsilon0.01*")))
    good["warnings"], poor["warnings"] = {WORSE: "One."}, {"unsolved": "Two.", WORSE: "Three."}
    both = combined(setup_of("algorithm.name=dola").metrics, [typed(good), typed(poor)])
    assert [*both.warnings] == [WORSE, "unsolved"]
    meaning = run_warnings.MEANINGS["unsolved"]
    assert f"WARNING: Of some repeats: {meaning}." in told(both, useless[0])


def test_repeats_of_a_command_write_what_they_warn_of(tmp_path):
    job = run_of(tmp_path / "job", "rounds=4 repeats=2 algorithm.name=dpps privacy.epsilon=0.01 data.name=digits")
    each = [set(summary_of(repeat)["warnings"]) for repeat in job.glob("repeat-*")]
    assert len(each) == 2
    assert set.union(*each) <= set(summary_of(job)["warnings"])
    assert any(each)


def test_a_summary_of_before_is_read_by_its_numbers(useless, tmp_path):
    run = next(useless[0].glob("runs/dola*"))
    shutil.copytree(run, tmp_path / "old")
    summary = summary_of(run)
    codes = [*summary.pop("warnings")]
    (tmp_path / "old" / "summary.json").write_text(json.dumps(summary))
    assert mpinodes.runs(tmp_path)["warnings"].tolist() == [" ".join(codes)]
    del summary["baselines"]
    (tmp_path / "old" / "summary.json").write_text(json.dumps(summary))
    assert WORSE not in mpinodes.runs(tmp_path)["warnings"][0]


def test_a_run_that_warns_of_shared_noise_is_the_same_run_done_again(useless, tmp_path):
    run = next(useless[0].glob("runs/dola*"))
    shutil.copytree(run, tmp_path / "again")
    summary = summary_of(run)
    (tmp_path / "again" / "summary.json").write_text(json.dumps(summary | {"warnings": {"shared-noise": "So."}}))
    said = compared([run, tmp_path / "again"], None, tmp_path / "out")
    assert "1 runs in 1 settings" in said


def test_figures_of_groups_with_and_without_accuracy_draw_the_guess(useless, tmp_path, figures):
    """A group whose runs are partly regressions has the accuracy of the others, and the line for guessing."""
    run_of(tmp_path / "regression", "rounds=6 algorithm.name=dola data.name=olr problem.gradient_noise=0")
    run_of(tmp_path / "longer", "rounds=8 algorithm.name=dola data.name=digits")
    compared([tmp_path, *useless[0].glob("runs/dola-epsilon0.01*")], "rounds", tmp_path / "out", [])
    assert len(guesses(figures["accuracy.png"])) == 2
    assert GUESS in legend_of(figures["accuracy.png"])
