"""The page of a run."""

from __future__ import annotations

import html
import json
import re

import numpy as np
import pytest

import mpinodes
from mpinodes import report
from mpinodes.presentation import draw, findings, run_warnings
from mpinodes.presentation.terminal import text
from mpinodes.summary.summary import Summary
from tests.helpers.parts import run_of, setup_of
from tests.helpers.records import typed

MARK = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    directory = tmp_path_factory.mktemp("page") / "run"
    return mpinodes.run_lockstep({"rounds": 8, "report": False, "output": {"dir": str(directory)}})


@pytest.fixture
def summary(run):
    whole = (run / "summary.json").read_text("utf-8")
    yield json.loads(whole)
    (run / "summary.json").write_text(whole, "utf-8")


def told(tree, path=()):
    """Places of all words and numbers."""
    if isinstance(tree, dict | list):
        for key, inner in tree.items() if isinstance(tree, dict) else enumerate(tree):
            yield from told(inner, (*path, key))
    else:
        yield path


def put(tree, path, value):
    for key in path[:-1]:
        tree = tree[key]
    tree[path[-1]] = value


@pytest.fixture(autouse=True)
def no_figures(monkeypatch):
    monkeypatch.setattr("mpinodes.presentation.run_figures.draw_all", lambda *_: {})


def test_nothing_in_a_summary_reaches_the_page_as_markup(run, summary, capsys):
    drawn = 0
    for path in list(told(summary)):
        doctored = json.loads(json.dumps(summary))
        put(doctored, path, MARK)
        (run / "summary.json").write_text(json.dumps(doctored), "utf-8")
        code = report.main([str(run)])
        if code == 0:
            drawn += 1
            assert MARK not in (run / "report.html").read_text("utf-8"), path
        else:
            assert capsys.readouterr().err.count("\n") == 1, path
    assert drawn > 20


def test_nothing_in_an_experiment_or_a_noise_free_run_reaches_the_page_as_markup(run):
    whole = (run / "experiment.toml").read_text("utf-8")
    (run / "experiment.toml").write_text(f"# {MARK}\n{whole}", "utf-8")
    assert report.main(["--noise-free", str(run)]) == 0
    silent = json.loads((run / "noise_free.json").read_text("utf-8"))
    page = (run / "report.html").read_text("utf-8")
    assert MARK not in page
    assert "--noise-free" not in page
    assert f"{silent['summary']['accuracy']['test']:.1%}" in page
    for path in [("horizon", 1), ("accuracy", 2), *(path for path in told(silent) if path[0] == "summary")][:12]:
        doctored = json.loads(json.dumps(silent))
        put(doctored, path, MARK)
        (run / "noise_free.json").write_text(json.dumps(doctored), "utf-8")
        assert report.main([str(run)]) in (0, 2)
        assert MARK not in (run / "report.html").read_text("utf-8")
    (run / "noise_free.json").unlink()
    (run / "experiment.toml").write_text(whole, "utf-8")


def test_bounds_that_do_not_apply_lie_behind_a_fold_and_words_come_first(tmp_path):
    run = run_of(tmp_path / "run", "algorithm.name=dpsda-ps rounds=8")
    assert report.main([str(run)]) == 0
    page = (run / "report.html").read_text("utf-8")
    fold = page.index("<details><summary>Bounds that do not apply")
    assert page.index("an accuracy of") < page.index("<summary>Results</summary>") < fold
    assert "; does not apply" not in page[:fold]
    assert "; does not apply" in page[fold : page.index("</details>", fold)]
    words = text(Summary.read(run), run)
    assert "; does not apply" not in words
    assert re.search(r"  theorems that do not apply +\d+    \(report.html and summary.json say why\)\n", words)
    last = f"mpinodes report --noise-free {run}\n  page: {run}/report.html\n  run: {run}"
    assert words.endswith(f"  the same run without noise: {last}")
    assert "outside the feasible set" in page
    assert "mpinodes report --noise-free RUN" in page


def test_where_nothing_is_told_no_odds_are(summary):
    summary["privacy"]["network"] |= {"proven": 0.0, "proven_pure": 0.0}
    said = findings.findings(typed(summary), None)
    assert any("learns nothing about one sample" in each for each in said)
    assert not any("odds" in each for each in said)


def doctored(run, **changes) -> list[str]:
    summary = json.loads((run / "summary.json").read_text("utf-8"))
    return run_warnings.sentences(typed(summary | changes | {"warnings": None}))


def test_what_is_worse_than_nothing_is_said(run):
    good = {"accuracy": {"test": 0.9, "train": 0.9}, "average_fitness": 0.0}
    assert doctored(run, **good) == []
    assert doctored(run, **good | {"average_fitness": 1e9})[0].startswith("Worse than doing nothing: 1e+09 lost")
    poor = doctored(run, **good | {"accuracy": {"test": 0.44, "train": 0.9}})
    assert [said.partition(":")[0] for said in poor] == [
        "Worse than always predicting the largest class", "Worse than doing nothing",
    ]  # fmt: skip
    offline = {"judged": "average", "decomposable": True, "optimality_gap_mean": 1e9, **good}
    assert doctored(run, **offline)[0].startswith("Worse than doing nothing: an optimality gap of 1e+09")
    assert doctored(run, **offline | {"optimality_gap_mean": -1e9}) == []


def test_a_run_that_loses_to_its_start_says_so_on_terminal_and_page(run):
    said = run_warnings.sentences(summary := Summary.read(run))
    assert said  # after 8 rounds
    assert all(words in text(summary, run) for words in said)
    report.main([str(run)])
    page = (run / "report.html").read_text("utf-8")
    assert all(f'<p class="warning">{words}</p>' in page for words in said)
    beside = findings.compared(summary, None, "accuracy.test")
    assert re.fullmatch(r"guessing [\d.]+%, best fixed decision [\d.]+%", beside)
    assert f"({beside})" in page
    assert f"({beside})" in text(summary, run)
    assert "<b>rounds = 8</b>" in page  # what the user set
    assert "<b>seed" not in page


def test_all_lines_of_a_list_that_the_user_set_are_marked():
    text = 'rounds = 8\n\n[data]\nlabels = [\n    "a = b",\n    "c",\n]\nsizes = []\nnorm = 1.0'
    marked = [line for line, is_set in draw._marked(text, ["data.labels", "data.norm"]) if is_set]
    assert marked == ["labels = [", '    "a = b",', '    "c",', "]", "norm = 1.0"]


def test_majority_and_start_are_counted(tmp_path):
    words = "rounds=3 data.total=350 data.batch=10"
    setup = setup_of(words)
    run = run_of(tmp_path / "run", words)
    baselines = json.loads((run / "summary.json").read_text())["baselines"]
    best = mpinodes.load(run).comparator_point.values[-1]
    for name, source in setup.stream.labelled().items():
        share = float(np.mean(source.targets > 0))
        assert baselines["majority"][name] == pytest.approx(max(share, 1 - share))
        assert baselines["start"]["accuracy"][name] == pytest.approx(1 - share)  # 0 names the first class
        rows = source.features(np.arange(len(source.targets)))
        right = (rows @ best > 0) == (source.targets > 0)
        assert baselines["best_fixed"][f"accuracy.{name}"] == pytest.approx(float(np.mean(right)))
    start = sum(setup.losses(i)(t).value(np.zeros(10)) for t in range(1, 4) for i in range(7)) / 3
    assert baselines["start"]["average_fitness"] == pytest.approx(start)


def test_a_run_without_noise_is_not_done_again_without_noise(tmp_path, capsys):
    run = run_of(tmp_path / "run", "rounds=3 data.total=350 data.batch=10 privacy.epsilon=inf")
    assert report.main(["--noise-free", str(run)]) == 2
    assert "this run has no noise, so a second run without noise is the same" in capsys.readouterr().err


def test_a_summary_that_lacks_a_key_is_refused_in_a_line(run, summary, capsys):
    for key in summary:
        (run / "summary.json").write_text(json.dumps({k: v for k, v in summary.items() if k != key}), "utf-8")
        code = report.main([str(run)])
        assert code in (0, 2), key
        if code:
            assert capsys.readouterr().err.count("\n") == 1, key


def test_the_numbers_behind_the_figures_are_in_the_page_by_horizon_and_by_agent(tmp_path):
    run = run_of(
        tmp_path / "run", "algorithm.name=dola rounds=20 data.total=350 record.metrics=['comparator-distance']"
    )
    assert report.main([str(run)]) == 0
    (horizons, agents), record = tables_of((run / "report.html").read_text("utf-8")), mpinodes.load(run)
    regret = record.network_regret / record.horizon
    assert horizons["horizon"] == [str(t) for t in record.horizon.values]
    assert horizons["network regret per round, R(T)/T"] == [f"{value:.4g}" for value in regret.values]
    assert horizons["accuracy, running mean, test data (%)"][-1] == f"{100 * record.accuracy.values[-1]:.4g}"
    assert horizons["distance to the best fixed decision"][-1] == f"{record.comparator_distance.values[-1]:.4g}"
    (proven,) = [column for name, column in horizons.items() if name.startswith("ε of the network, proven at δ = ")]
    assert proven[-1] == f"{record.epsilon_proven_network.values[-1]:.4g}"
    of_agents = (record.agent_regret / record.horizon).values[-1]
    assert agents["agents' regret per round, their mean"] == [f"{value:.4g}" for value in of_agents]


def tables_of(page: str) -> list[dict[str, list[str]]]:
    """Return the columns of the tables of values."""
    found = []
    for table in re.findall(r"<summary>Values by .*?</table>", page, re.DOTALL):
        head = [html.unescape(cell) for cell in re.findall(r"<th>(.*?)</th>", table)]
        rows = [re.findall(r"<td>(.*?)</td>", row) for row in re.findall(r"<tr>(<td>.*?)</tr>", table)]
        found.append(dict(zip(head, map(list, zip(*rows, strict=True)), strict=True)))
    return found
