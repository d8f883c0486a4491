"""Finished runs side by side."""

from __future__ import annotations

import csv
import json
import random
import re
import shutil
import tomllib
from dataclasses import replace

import numpy as np
import pandas
import pytest
import tomli_w
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text
from pylatexenc.latexwalker import LatexEnvironmentNode, LatexWalker
from scipy.stats import ttest_rel

import mpinodes
import mpinodes.studies
from mpinodes.core.errors import BadInput
from mpinodes.finished import joint_cost as spent
from mpinodes.finished.runs import CLAIMED, PROVEN
from mpinodes.presentation import plots as drawing
from mpinodes.studies import comparison_report as report
from mpinodes.studies import figures
from mpinodes.studies.comparing import Comparison
from mpinodes.studies.pools import one_by_one
from mpinodes.studies.study import Study
from mpinodes.studies.sweeping import sweep
from tests.helpers.parts import run_of
from tests.helpers.records import compared, summary_of
from tests.helpers.running import run_here

REGRET = "regret_per_round"
STUDY = """
rounds = 8
topology.agents = 3
problem.preset = "digits"
[study]
seeds = 3
[study.grid]
algorithm.name = ["dola", "dpsda-c"]
privacy.epsilon = [1, 10.5]
topology.name = ["ring"]
"""


@pytest.fixture(autouse=True)
def few_are_rendered(request, monkeypatch):
    """Lay out and render all figures in one test; in the others, two kinds of figures, and write the rest empty."""
    save = figures.drawing.save
    if request.function is not test_everything_is_written_and_can_be_read:
        rendered = {"regret.png", "result-by-epsilon.png"} if "mixed" in request.fixturenames else set()
        monkeypatch.setattr(
            figures.drawing, "save", lambda figure, path: save(figure, path) if path.name in rendered else path.touch()
        )


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """2 x 2 settings, 3 seeds."""
    where = tmp_path_factory.mktemp("studies")
    (where / "small.toml").write_text(STUDY)
    asked = Study.of([str(where / "small.toml"), f"output.dir={where}/small"])
    assert not sweep(asked, one_by_one, one_by_one).failed
    return where / "small"


def test_runs_are_a_data_frame(study):
    frame = mpinodes.runs(study)
    assert len(frame) == 12
    assert {"algorithm.name", "privacy.epsilon", "seed", REGRET, PROVEN, "bytes_sent", "rounds"} <= set(frame.columns)
    assert not {"topology.name", "problem.radius", "name", "report"} & set(frame.columns)
    assert frame.attrs["labels"][REGRET] == "network regret per round, R(T)/T, per loss"
    assert frame.attrs["labels"].keys() <= set(frame.columns)
    assert (frame.attrs["units"]["accuracy_test"], frame.attrs["units"]["bytes_sent"]) == ("share", "B")
    for _, row in frame.iterrows():
        summary = json.loads((study.parent / row["run"] / "summary.json").read_text())
        agents = 3 if row["algorithm.name"] == "dola" else 1
        assert row[REGRET] == summary["network_regret_per_round"] / agents
        assert row["average_fitness"] == summary["average_fitness"] / agents
        assert row["comparator_value_per_round"] == summary["comparator"]["value_per_round"] / agents
        assert row["consensus_error"] == summary["consensus_error"]
        assert row[PROVEN] == summary["privacy"]["network"]["proven"]


def test_axes_are_those_of_the_study_or_as_few_as_tell_the_runs_apart(study):
    of_study = Comparison.of([study], None)
    assert of_study.axes == ["algorithm.name", "privacy.epsilon"]
    of_runs = Comparison.of(sorted((study / "runs").iterdir()), None)
    assert of_runs.axes == of_study.axes
    assert {values: len(runs) for values, runs in of_runs.groups.items()} == {
        (name, epsilon): 3 for name in ("dola", "dpsda-c") for epsilon in (1.0, 10.5)
    }
    assert Comparison.of([study], "privacy.epsilon").axes == ["privacy.epsilon", "algorithm.name"]
    with pytest.raises(BadInput, match=r"did you mean algorithm\.name"):
        Comparison.of([study], "algorithm.nam")


def test_differences_are_paired_by_seed(study):
    frame = mpinodes.runs(study)
    found = {(d.at, d.one, d.other): d.estimate for d in Comparison.of([study], None).differences([REGRET])}
    assert set(found) == {((1.0,), "dola", "dpsda-c"), ((10.5,), "dola", "dpsda-c")}
    for (at, one, other), estimate in found.items():
        sides = [
            frame[(frame["algorithm.name"] == name) & (frame["privacy.epsilon"] == at[0])].sort_values("seed")[REGRET]
            for name in (one, other)
        ]
        expected = ttest_rel(*map(np.array, sides)).confidence_interval(0.95)
        assert estimate.number == 3
        assert (estimate.mean - estimate.half, estimate.mean + estimate.half) == pytest.approx(tuple(expected))


def test_what_differs_beyond_the_axes_is_said(study, tmp_path):
    assert {key for key, _ in Comparison.of([study], None).beyond()} == {
        "data.partition", "algorithm.gradient_at", "algorithm.mixing",
    }  # fmt: skip
    asked = Study.of(["rounds=5", "algorithm.name=dola,dpps", "topology.name=ring", f"output.dir={tmp_path}/bare"])
    sweep(asked, one_by_one, one_by_one)
    found = dict(Comparison.of([tmp_path / "bare"], None).beyond())
    assert found["problem.regularizer"] == "0.01 (dola); 0 (dpps)"
    assert found["problem.loss"] == "hinge (dola); logistic (dpps)"
    assert {"step.kind", "data.total"} <= set(found)


def test_everything_is_written_and_can_be_read(study, tmp_path):
    said = compared([study], None, tmp_path)
    names = {path.name for path in tmp_path.iterdir()}
    figures = {"regret.png", "accuracy.png", "privacy.png", "result-by-epsilon.png", "accuracy-by-epsilon.png"}
    assert figures | {"compare.md", "table.csv", "table.md", "table.tex", "differences.csv"} <= names
    frame = mpinodes.runs(study)
    expected = frame.groupby(["algorithm.name", "privacy.epsilon"])[REGRET].agg(["mean", "std"])
    with (tmp_path / "table.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            mean, std = expected.loc[row["algorithm.name"], float(row["privacy.epsilon"])]
            assert (float(row[REGRET]), float(row[f"{REGRET}_std"])) == pytest.approx((mean, std))
    named = pandas.read_csv(tmp_path / "columns.csv").set_index("column")
    assert named.loc["accuracy_test", ["label", "unit"]].tolist() == ["accuracy, running mean, test data", "share"]
    read = pandas.read_parquet(tmp_path / "table.parquet").set_index(["algorithm.name", "privacy.epsilon"])
    pandas.testing.assert_series_equal(read[REGRET], expected["mean"], check_names=False, check_like=True)
    assert_tabular((tmp_path / "table.tex").read_text(), rows=4)
    page = (tmp_path / "compare.html").read_text()
    for who in ("guessing", "the best fixed decision, which is not private"):
        accuracy = re.search(rf"Test accuracy of {who}: [\d.]+%", page)
        assert accuracy
        assert accuracy[0] in said
    assert not re.search(r"(src|href)=\"(?!data:)", page)
    assert page.count("data:image/png;base64,") == len({name for name in names if name.endswith(".png")})
    head, *rows = re.findall(r"<tr>.*?</tr>", page, re.DOTALL)[:5]
    assert '<th>algorithm</th><th class="word">nominal ε</th><th>network regret per round' in head
    assert [row.count("</td>") for row in rows] == [head.count("</th>")] * 4
    assert page.count('class="best"') == (tmp_path / "table.md").read_text().count("**") // 2
    keys = set(re.findall(r"<td>([a-z._]+)</td><td class=\"word\">", page[page.index("Further settings") :]))
    assert keys == {key for key, _ in Comparison.of([study], None).beyond()}
    cost = spent.in_all(spent.read(sorted((study / "runs").iterdir())), None)[0]
    assert f"pure ε {cost.pure:.4g}" in said
    assert "Beyond the axes: algorithm.mixing: metropolis (dola); uniform (dpsda-c)" in " ".join(said.split())


def test_a_comparison_in_python_has_the_tables_as_data_frames(study, tmp_path):
    done = mpinodes.studies.compare(study, by="privacy.epsilon", output=tmp_path / "out")
    assert done.directory == tmp_path / "out"
    assert "12 runs in 4 settings" in repr(done)
    for name, frame in (("table.csv", done.means), ("differences.csv", done.differences)):
        written = pandas.read_csv(done.directory / name)
        pandas.testing.assert_frame_equal(written, frame.infer_objects(), check_dtype=False)
    assert set(done.differences["one"]) == {1.0}
    with pytest.raises(BadInput, match="not a key to compare runs by"):
        mpinodes.studies.compare(study, by="nothing")


def test_parquet_has_words_and_numbers_in_a_column_and_is_left_out_without_an_engine(tmp_path, monkeypatch):
    rows = [{"epsilon": "inf", "x": None, "of": 1}, {"epsilon": 0.5, "x": 2.5, "of": 2.5}, {"epsilon": 1, "y": True}]
    assert report.write_parquet(tmp_path / "t.parquet", pandas.DataFrame(rows, dtype=object)) == ""
    read = pandas.read_parquet(tmp_path / "t.parquet")
    assert read["epsilon"].tolist() == ["inf", "0.5", "1"]
    assert read["of"].dropna().tolist() == [1, 2.5]
    monkeypatch.setattr(pandas.DataFrame, "to_parquet", lambda *_, **__: (_ for _ in ()).throw(ImportError()))
    assert "t.parquet is left out" in report.write_parquet(tmp_path / "t.parquet", pandas.DataFrame(rows, dtype=object))


def assert_tabular(text: str, rows: int) -> None:
    """As LaTeX would read it: cells as the columns are, every sign plain or escaped, mathematics closed."""
    parsed, _, _ = LatexWalker(text, tolerant_parsing=False).get_latex_nodes()
    (environment,) = [node for node in parsed if isinstance(node, LatexEnvironmentNode)]
    assert environment.environmentname == "tabular"
    lines = [line for line in text.splitlines() if not line.startswith("%")]
    columns = re.fullmatch(r"\\begin\{tabular\}\{([lr]+)\}", lines[0])[1]
    assert lines[-1] == r"\end{tabular}"
    body = [line for line in lines if line.endswith(r"\\")]
    assert len(body) == rows + 1
    for line in body:
        assert line.isascii()
        assert len(re.findall(r"(?<!\\)&", line)) == len(columns) - 1
        assert len(re.findall(r"(?<!\\)\$", line)) % 2 == 0
        outside = re.sub(r"(?<!\\)\$[^$]*\$", "", line)
        assert not re.search(r"(?<!\\)[#%_^~]", outside)


def test_a_run_without_a_seed_beside_it_has_no_interval(study):
    runs = sorted((study / "runs").iterdir())[:1]
    comparison = Comparison.of(runs, None)
    (values, estimate) = next(iter(comparison.estimates(REGRET).items()))
    assert (values, estimate.number, np.isnan(estimate.std)) == ((), 1, True)
    assert comparison.differences([REGRET]) == []


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([1.234, 1.466], "1.35 ± 0.16"), ([0.5, 0.5], "0.5"), ([152320, 152320], "152,320"), ([2.5], "2.5"),
        ([1e7, 3e7], "2e+07 ± 1e+07"), ([120.0, 160.0], "140 ± 28"), ([0.0, 0.0], "0"),
        ([0.1 + 0.2, 0.3], "0.3"), ([0.49968, 0.49968 + 1e-15], "0.4997"),
        ([0.49968, 0.49968 + 1e-10], "0.4997 ± 7e-11"),
    ],
)  # fmt: skip
def test_a_mean_is_as_precise_as_its_deviation(values, said):
    from mpinodes.studies.comparing import Estimate

    estimate = Estimate.of(values)
    assert report.mean_and_deviation(estimate.mean, estimate.std) == said


def test_signs_that_latex_reads_otherwise_are_escaped():
    rows = [
        {"x": "a_b & 5 % ε → ‖x‖²", "ε of a very_long title": "inf"},
        {"x": "run1e-05", "ε of a very_long title": "2.5e-05 ± 1e+07"},
    ]
    written = report.latex(pandas.DataFrame(rows, dtype=object), 1)
    assert r"x & \shortstack{$\varepsilon$ of a very\_long \\ title} \\" in written
    assert r"a\_b \& 5 \% $\varepsilon$ ? $\|$x$\|$$^2$ & $\infty$ \\" in written
    assert r"run1e-05 & 2.5$\times10^{-5}$ $\pm$ 1$\times10^{7}$ \\" in written


def test_what_is_not_proven_is_said_so(tmp_path):
    asked = Study.of(["rounds=5", "algorithm.name=dpps", "privacy.epsilon=1,2", f"output.dir={tmp_path}/study"])
    sweep(asked, one_by_one, one_by_one)
    compared = Comparison.of([tmp_path / "study"], None)
    numbers = report.means(compared)
    assert CLAIMED not in numbers
    table = report.means_in_words(compared, numbers, [PROVEN])
    assert all(float(cell.replace(",", "")) > 0 for cell in table[PROVEN])


def test_the_command_compares_runs_and_says_what_it_cannot(study, tmp_path):
    runs = [str(summary.parent) for summary in sorted(study.glob("runs/dola*/summary.json"))]
    done = run_here(*runs, "--output", "here", cwd=tmp_path, module="mpinodes.compare")
    assert done.code == 0, done.err
    assert (tmp_path / "here" / "compare.md").exists()
    nothing = run_here(str(tmp_path), cwd=tmp_path, module="mpinodes.compare")
    assert (nothing.code, nothing.err.count("\n")) == (2, 1)
    assert "no finished run" in nothing.err
    assert summary_of(study / "runs" / runs[0])["rounds"] == 8


def test_cases_are_told_apart_by_their_names_and_what_goes_together_by_one_key(tmp_path):
    cases = 'study.cases=[{name="near", problem.radius=1}, {name="far", problem.radius=9, data.batch=2}]'
    together = "study.zip={privacy.epsilon=[1, 2], privacy.clip=[3.0, 4.0]}"
    asked = Study.of(["rounds=5", "algorithm.name=dola", cases, together, f"output.dir={tmp_path}/study"])
    sweep(asked, one_by_one, one_by_one)
    comparison = Comparison.of([tmp_path / "study"], None)
    assert comparison.axes == ["name", "privacy.epsilon"]
    assert list(comparison.groups) == [("near", 1.0), ("near", 2.0), ("far", 1.0), ("far", 2.0)]
    assert dict(comparison.beyond()) == {
        "problem.radius": "1 (near); 9 (far)", "data.batch": "1 (near); 2 (far)", "privacy.clip": "3 (1); 4 (2)",
    }  # fmt: skip
    (tmp_path / "study" / "table.csv").unlink()  # directories are read by their names, which sort otherwise
    assert list(Comparison.of([tmp_path / "study"], None).groups) == list(comparison.groups)


@pytest.mark.parametrize("runs", [1, 3])
def test_a_page_of_runs_along_no_axis_has_no_differences(study, tmp_path, runs):
    said = compared(sorted((study / "runs").iterdir())[:runs], None, tmp_path)
    assert f"{runs} runs in 1 settings" in said
    page = (tmp_path / "compare.md").read_text()
    assert "## Beyond the axes" in page
    assert "## Differences" not in page


def test_a_run_done_again_counts_once(study, tmp_path):
    runs = sorted((study / "runs").glob("*-epsilon1-*"))
    shutil.copytree(runs[0], tmp_path / "<b>again")
    alone, both = Comparison.of(runs, None), Comparison.of([*runs, tmp_path / "<b>again"], None)
    assert both.estimates(REGRET) == alone.estimates(REGRET)
    assert len(both.remarks) == 1
    assert f"bit for bit: {tmp_path / '<b>again'}." in both.remarks[0]
    said = compared([*runs, tmp_path / "<b>again"], None, tmp_path / "out")
    assert "6 runs in 2 settings" in said
    assert both.remarks[0] in (tmp_path / "out" / "compare.md").read_text()
    assert "&lt;b&gt;again." in (page := (tmp_path / "out" / "compare.html").read_text())
    assert "<b>" not in page


def test_runs_of_one_seed_with_other_noise_are_paired_by_their_mean(study, tmp_path):
    runs = sorted((study / "runs").glob("*-epsilon1-*"))
    (before,) = Comparison.of(runs, None).differences([REGRET])
    shutil.copytree(runs[0], tmp_path / "other")
    summary = json.loads((runs[0] / "summary.json").read_text())
    summary["network_regret_per_round"] += 18  # of three agents
    (tmp_path / "other" / "summary.json").write_text(json.dumps(summary))
    comparison = Comparison.of([*runs, tmp_path / "other"], None)
    assert [e.number for e in comparison.estimates(REGRET).values()] == [4, 3]
    (after,) = comparison.differences([REGRET])
    assert (after.estimate.number, after.estimate.mean) == (3, pytest.approx(before.estimate.mean + 1))


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("study.toml", b"[study", "not TOML"), ("study.toml", b"study.grid = 3", "runs are grouped by the keys"),
        ("table.csv", b"\xff\xfe,run\n", "not the table of a study"), ("table.csv", b"x\ny\n", "all runs in"),
        ("table.csv", b"", "not the table of a study"),
    ],
)  # fmt: skip
def test_a_study_whose_files_were_broken_is_read_from_its_runs(study, tmp_path, name, content, said):
    shutil.copytree(study, tmp_path / "study")
    (tmp_path / "study" / name).write_bytes(content)
    comparison = Comparison.of([tmp_path / "study"], None)
    assert comparison.groups.keys() == Comparison.of([study], None).groups.keys()
    (remark,) = comparison.remarks
    assert str(tmp_path / "study" / name) in remark or name == "study.toml"
    assert said in remark
    assert len(mpinodes.runs(tmp_path / "study")) == 12


def test_axes_with_one_last_word_are_told_by_their_whole_keys(study, tmp_path):
    comparison = Comparison.of(sorted((study / "runs").glob("*-epsilon1-*-seed0-*")), None)
    axes = ["algorithm.name", "faults.delay", "feedback.delay"]
    clash = replace(comparison, axes=axes)
    assert [figures.word(clash, axis) for axis in axes] == ["algorithm", "faults.delay", "feedback.delay"]
    assert figures.word(replace(clash, axes=axes[:2]), "faults.delay") == "delay"
    drawn = [path.name for path in figures.draw_all(clash, tmp_path)]
    assert {"result-by-faults.delay.png", "result-by-feedback.delay.png"} <= set(drawn)
    assert len(set(drawn)) == len(drawn)


def test_what_a_budget_chooses_is_no_axis_and_is_said_to_be_chosen(tmp_path):
    words = ["rounds=5", "topology.agents=3", "algorithm.name=dola", "privacy.budget.epsilon=1,2", "seed=0,1"]
    sweep(Study.of([*words, f"output.dir={tmp_path}/study"]), one_by_one, one_by_one)
    runs = sorted((tmp_path / "study" / "runs").iterdir())
    for places in ([tmp_path / "study"], runs):
        comparison = Comparison.of(places, None)
        assert comparison.axes == ["privacy.budget.epsilon"]
        assert dict(comparison.beyond())["privacy.epsilon"].startswith("chosen by privacy.budget (")


# ------------------------------------------------------------------------------------------ runs that form no grid
KEYS = {
    "algorithm.name": ["dola", "dpps", "dpsda-c", "pushing", "averaging-of-a-name-that-is-much-longer-than-a-column"],
    "data.name": ["digits", "unit-ball", "olr"], "topology.name": ["ring", "complete", "star"],
    "privacy.epsilon": [0.1, 0.5, 1.0, 2.0, 10.0], "topology.agents": [3, 5, 7], "rounds": [8, 12, 20],
    "data.file": ["/data/of/the/first/house.csv", "/data/of/the/second/house.csv"],
}  # fmt: skip


@pytest.fixture(scope="module")
def mixed(study, tmp_path_factory):
    """Runs whose experiments name one of many settings each, 45 of them, a partial one and an unfinished one."""
    runs, rng, mixed = sorted((study / "runs").iterdir()), random.Random(0), tmp_path_factory.mktemp("of") / "mixed"
    for k in range(47):
        place = mixed / f"run{k:02d}"
        shutil.copytree(runs[k % len(runs)], place)
        tree = tomllib.loads((place / "experiment.toml").read_text())
        for key, values in KEYS.items():
            section, _, name = key.rpartition(".")
            (tree[section] if section else tree)[name] = rng.choice(values)
        (place / "experiment.toml").write_text(tomli_w.dumps(tree))
    summary = json.loads((place / "summary.json").read_text())
    (place / "summary.json").write_text(json.dumps(summary | {"partial": True, "rounds_asked": 99}))
    (mixed / "run00" / "summary.json").unlink()
    return mixed


@pytest.mark.parametrize(("by", "along"), [(None, None), ("data.name", ["privacy.epsilon"])])
def test_runs_that_form_no_grid_are_compared_in_few_figures_of_short_names(mixed, tmp_path, capsys, by, along):
    said = " ".join(compared([mixed], by, tmp_path / "out", along).split())
    drawn = [path.name for path in (tmp_path / "out").glob("*.png")]
    assert 3 <= len(drawn) <= 12
    assert max(map(len, drawn)) <= 60
    assert "mixed: 45 runs in" in said
    assert "2 runs are left out, because they are not finished: " in said
    assert "run46 ended after" in said
    assert "--resume" in said
    assert "run00: not finished" in said
    told = capsys.readouterr().err.splitlines()
    assert len(told) >= 2 + len(drawn)
    assert all(any(name in line for line in told) for name in drawn)
    if along is None:
        assert "lines of one colour differ in keys without panels" in said
    else:
        comparison = Comparison.of([mixed], by, along)
        assert comparison.axes == [by, *along]
        assert {"algorithm.name", "topology.name"} <= set(comparison.over)
        assert f"Means are over runs that differ in {comparison.over[0]}, " in said
        assert "| runs |" not in said
        assert "runs" in (tmp_path / "out" / "table.csv").read_text().partition("\n")[0].split(",")


def test_what_is_left_out_of_figures_is_said(mixed, tmp_path, monkeypatch):
    monkeypatch.setattr(figures, "MOST_FIGURES", 2)
    comparison = Comparison.of([mixed], None)
    drawn = figures.draw_all(comparison, tmp_path)
    assert [path.name for path in drawn] == ["regret.png", "accuracy.png"]
    (remark,) = (remark for remark in comparison.remarks if remark.startswith("Figures left out: privacy, "))
    assert "--along" in remark


@pytest.mark.parametrize("option", ["by", "along"])
def test_keys_in_which_the_runs_do_not_differ_are_refused(mixed, option):
    asked = {"by": None, "along": None, option: "privacy.epsilo" if option == "by" else ["data.name", "privacy.epsilo"]}
    with pytest.raises(BadInput, match=rf"--{option} privacy\.epsilo: .* did you mean privacy\.epsilon\?"):
        Comparison.of([mixed], **asked)


@pytest.mark.parametrize("words", ["--by nothing", "--along ,"])
def test_keys_that_are_refused_are_one_line(mixed, tmp_path, words):
    done = run_here(str(mixed), *words.split(), cwd=tmp_path, module="mpinodes.compare")
    assert done.code == 2
    assert re.fullmatch(rf"mpinodes: error: {words.split()[0]} (nothing|): not a key to compare .*\n", done.err)


def test_panels_whose_values_differ_much_have_axes_of_their_own(study, tmp_path):
    comparison = Comparison.of([study], None)
    for factor, is_shared in ((1.0, True), (1e9, False)):
        groups = {
            group: (np.arange(1, 4), np.full(3, factor if group[1] == 1 else 2.0), np.zeros(3))
            for group in comparison.groups
        }
        plot = figures.Plot("file", "rounds", "y", comparison.axes, groups, {})
        low, high = (axes.get_ylim() for axes in figures._drawn(comparison, plot).axes)
        assert (low == high) == is_shared
        if not is_shared:
            assert low[0] < factor < low[1]
            assert high[0] < 2.0 < high[1]


@pytest.mark.parametrize("width", ["column", "page", ""])
def test_a_figure_for_a_paper_has_readable_text_none_cut_and_bands_within_its_axes(study, width, monkeypatch):
    comparison = Comparison.of([study], None)
    inches = figures.WIDTHS.get(width, 0.0)
    plots = [plot for plot in figures._plots(comparison) if plot.lines]
    assert [plot.y for plot in plots if "regret" in plot.y] == [comparison.columns[REGRET].label] * 2
    names = [f"a-{'very-' * k}long_name.of/a method" for k in range(8)]
    monkeypatch.setattr(Comparison, "points", lambda self, axis, points=Comparison.points: (
        points(self, axis) + names * (axis == "algorithm.name")
    ))  # fmt: skip
    line = next(iter(plots[0].lines.values()))
    for side in (1.0, 10.5):
        plots[0].lines.update({(name, side): line for name in names})
    for shares in (plot.lines for plot in plots if plot.y.endswith("(%)")):
        shares.update({group: (x, mean, mean - 0.5) for group, (x, mean, _) in shares.items()})
    with drawing.style("", {"font.size": 7.5} if width else {}):
        for plot in plots:
            figure = figures._drawn(comparison, plot, inches)
            assert figure.get_figwidth() == inches or not width
            FigureCanvasAgg(figure).draw()
            written = [text for text in figure.findobj(Text) if text.get_text().strip() and text.get_visible()]
            assert min(text.get_fontsize() for text in written) >= 7
            assert any("WARNING" in text.get_text() for text in written) == (not width)
            box = figure.get_tightbbox()
            assert min(box.x0, box.y0) >= -0.01
            assert max(box.x1 - figure.get_figwidth(), box.y1 - figure.get_figheight()) <= 0.01
            assert not {"privacy.epsilon", "algorithm.name"} & {text.get_text() for text in written}
            for axes in filter(lambda axes: axes.get_visible() and axes.collections, figure.axes):
                low, high = axes.get_ylim()
                assert axes.get_yscale() == "linear" or "(%)" not in plot.y
                ends = np.concatenate([path.vertices[:, 1] for band in axes.collections for path in band.get_paths()])
                assert ends.max() <= high * (1 + 1e-9)
                assert ends.min() >= low or axes.get_yscale() == "log"


@pytest.mark.parametrize("style", ["ggplot", "dark_background"])
def test_a_style_cuts_no_label_and_shows_the_line_of_guessing(study, style):
    plots = [plot for plot in figures._plots(Comparison.of([study], None)) if plot.lines]
    with drawing.style(style, {"font.size": 7.5}):
        for plot in plots:
            figure = figures._drawn(Comparison.of([study], None), plot, figures.WIDTHS["page"])
            FigureCanvasAgg(figure).draw()
            box = figure.get_tightbbox()
            assert min(box.x0, box.y0) >= -0.01
            assert max(box.x1 - figure.get_figwidth(), box.y1 - figure.get_figheight()) <= 0.01
            dotted = [line for axes in figure.axes for line in axes.lines if line.get_linestyle() == ":"]
            assert bool(dotted) == bool(plot.guesses)
            assert {line.get_color() for line in dotted} <= {"black" if style == "ggplot" else "white"}


def test_a_study_for_a_paper_has_vector_figures_a_wide_table_and_axes_of_the_user(study, tmp_path):
    axes = Figure().subplots()
    done = mpinodes.studies.compare(study, output=tmp_path / "c", table="wide", width="column", style="ggplot", ax=axes)
    pictures = {path.stem: path.suffix for path in done.directory.glob("*.p*") if path.suffix != ".parquet"}
    assert {f"{stem}{suffix}" for stem in pictures for suffix in (".png", ".pdf", ".svg")} <= {
        path.name for path in done.directory.iterdir()
    }
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["dola", "dpsda-c", "guessing"]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("nominal ε", "accuracy, running mean, test\ndata (%)")
    (head, _, *rows) = (done.directory / "table.md").read_text().splitlines()
    assert head == "| nominal ε | dola | dpsda-c |"
    means = done.means.set_index(["algorithm.name", "privacy.epsilon"])["accuracy_test"]
    for row in rows:
        epsilon, *cells = [cell.strip() for cell in row.strip("|").split("|")]
        best = max(("dola", "dpsda-c"), key=lambda name: means[name, float(epsilon)])
        assert [cell.startswith("**") for cell in cells] == [name == best for name in ("dola", "dpsda-c")]
    assert (done.directory / "table.tex").read_text().count("\\textbf") == len(rows)
    for keys, reason in (({"width": "narrow"}, "column, page"), ({"style": "ggplo"}, "did you mean ggplot")):
        with pytest.raises(BadInput, match=reason):
            mpinodes.studies.compare(study, output=tmp_path / "d", **keys)


def test_lines_that_differ_in_two_keys_have_labels_of_both_in_axes_of_the_user():
    line = (np.array([1.0, 2.0]), np.array([50.0, 60.0]), np.zeros(2))
    lines = {(graph, name): line for graph in ("ring", "complete") for name in ("dola", "dpps")}
    plot = figures.Plot("accuracy", "rounds", "accuracy (%)", ["graph", "name"], lines, {("ring", "dola"): 40.0})
    axes, one = Figure().subplots(), plot.in_one_panel()
    one.draw(axes, one.lines, [group[0] for group in one.lines])
    shown = [drawn for drawn in axes.lines if not drawn.get_label().startswith("_")]
    assert [drawn.get_label() for drawn in shown] == ["ring, dola", "ring, dpps", "complete, dola", "complete, dpps"]
    assert len({drawn.get_color() for drawn in shown}) == 4
    assert one.guesses == {("ring, dola",): 40.0}
    assert plot._replace(axes=["graph"]).in_one_panel().lines is plot.lines


def test_any_key_in_which_runs_differ_can_be_compared(study, tmp_path):
    comparison = Comparison.of([study], "algorithm.mixing")
    assert comparison.axes == ["algorithm.mixing", "privacy.epsilon"]
    assert Comparison.of([study], None, ["privacy.epsilon"]).axes == ["algorithm.name", "privacy.epsilon"]
    assert Comparison.of([study], None, []).axes == ["algorithm.name"]
    assert Comparison.of([study], None, []).over == ["privacy.epsilon"]
    done = run_here(
        str(study), "--by", "privacy.epsilon", "--along", "none", "--output", "here", cwd=tmp_path,
        module="mpinodes.compare",
    )  # fmt: skip
    assert done.code == 0, done.err
    assert "Means are over runs that differ in algorithm.name" in " ".join(done.out.split())


def test_a_run_that_is_named_and_not_done_is_refused(study, tmp_path):
    runs = sorted((study / "runs").glob("dola-epsilon1-*"))
    shutil.copytree(runs[0], tmp_path / "failed")
    (tmp_path / "failed" / "summary.json").unlink()
    for places in ([*runs, tmp_path / "failed"], [tmp_path / "failed"], [*runs, tmp_path / "nowhere"]):
        with pytest.raises(BadInput, match="no finished run in it"):
            Comparison.of(places, None)


def test_runs_of_different_lengths_share_a_figure(study, tmp_path):
    for k, rounds in enumerate((4, 8, 16)):
        run_of(tmp_path / "lengths" / str(k), f"rounds={rounds} algorithm.name=dola data.name=digits")
    comparison = Comparison.of([tmp_path / "lengths"], None)
    assert comparison.axes == ["rounds"]
    drawn = {path.name for path in figures.draw_all(comparison, tmp_path)}
    assert {"regret.png", "accuracy.png", "result-by-rounds.png"} <= drawn
    two = Comparison.of([tmp_path / "lengths" / "0", tmp_path / "lengths" / "2"], None, [])
    assert (two.axes, len(two.groups)) == (["rounds"], 2)
    assert len(figures.draw_all(two, tmp_path)) <= 12


def test_labels_are_short_and_distinct(mixed):
    comparison = Comparison.of([mixed], None)
    names = {x: figures.label(x) for x in comparison.points("algorithm.name")}
    assert max(len(line) for label in names.values() for line in label.splitlines()) <= 28
    assert len(set(names.values())) == len(names)
    houses = {x: figures.label(x) for x in comparison.points("data.file")}
    assert len(set(houses.values())) == 2
    assert all("house.csv" in label.replace("\n", "") for label in houses.values())


def test_a_run_without_noise_has_no_place_on_the_axis_of_epsilon(tmp_path):
    for k, epsilon in enumerate(("1", "2", "inf")):
        run_of(tmp_path / "runs" / str(k), f"rounds=4 algorithm.name=dola data.name=digits privacy.epsilon={epsilon}")
    comparison = Comparison.of([tmp_path], None)
    assert comparison.axes == ["privacy.epsilon"]
    plots = {plot.file: plot for plot in figures._plots(comparison)}
    assert plots["accuracy-by-epsilon"].ticks == (1.0, 2.0)
    assert len(plots["accuracy"].lines) == 3
    assert len(figures.draw_all(comparison, tmp_path)) == 6


def test_errors_have_a_figure_against_epsilon_and_no_band_below_zero(tmp_path):
    """With two seeds, half the width of an interval is nine standard errors or more."""
    rng = np.random.default_rng(0)
    features = rng.normal(size=(120, 2))
    pandas.DataFrame(features).assign(y=features @ [0.3, 0.2]).to_csv(tmp_path / "own.csv", index=False)
    words = f"data.file={tmp_path}/own.csv data.targets=real data.columns=2 data.header=true data.scaling={{norm=1}}"
    words += f" privacy.budget.epsilon=1,4 study.seeds=2 topology.agents=2 rounds=4 output.dir={tmp_path}/study"
    sweep(Study.of([*words.split(), "data.train=0.8"]), one_by_one, one_by_one)
    compared([tmp_path / "study"], None, tmp_path / "out")
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"rmse-by-epsilon.png", "rmse.png", "result-by-epsilon.png"} <= names
    plots = {plot.file: plot for plot in figures._plots(Comparison.of([tmp_path / "study"], None))}
    for name in ("rmse", "rmse-by-epsilon"):
        assert min((mean - half).min() for _, mean, half in plots[name].lines.values()) < 0
        assert min(plots[name].band(group)[0].min() for group in plots[name].lines) == 0
