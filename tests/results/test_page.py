"""The page of a run."""

from __future__ import annotations

import json

import pytest

import mpinodes
from mpinodes import report

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
    monkeypatch.setattr("mpinodes.results.report.figures.draw_all", lambda *_: {})


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


def test_a_summary_that_lacks_a_key_is_refused_in_a_line(run, summary, capsys):
    for key in summary:
        (run / "summary.json").write_text(json.dumps({k: v for k, v in summary.items() if k != key}), "utf-8")
        code = report.main([str(run)])
        assert code in (0, 2), key
        if code:
            assert capsys.readouterr().err.count("\n") == 1, key
