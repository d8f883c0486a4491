"""What people and programs are shown of a run under way."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

from mpinodes.results import progress


def test_a_batch_log_gets_a_tidy_line_now_and_then(tmp_path, monkeypatch, capsys):
    """By a clock of its own: two seconds a round, a line for more than five."""
    monkeypatch.setattr(progress, "time", SimpleNamespace(perf_counter=itertools.count(0, 2).__next__))
    monkeypatch.setattr(progress, "on_terminal", lambda: False)
    shown = progress.Progress(tmp_path, "dola", 10)
    for t in range(1, 11):
        shown.show(t, 0.25)
    shown.close()
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(",")[0] for line in lines] == [f"dola: round {t} of 10" for t in (3, 6, 9)]
    assert lines[0].endswith("F/T 0.25, 0 rounds/s, 14 s left")
    assert len((tmp_path / "progress.jsonl").read_text().splitlines()) == 10


def test_what_comes_after_the_rounds_is_told_too(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(progress, "time", SimpleNamespace(perf_counter=itertools.count(0, 2).__next__))
    monkeypatch.setattr(progress, "on_terminal", lambda: False)
    shown = progress.Progress(tmp_path, "dola", 10)
    shown.close()
    for k in range(1, 8):
        shown.finishing("comparators", k, 7)
    assert capsys.readouterr().err.splitlines() == [f"dola: comparators, {k} of 7 horizons" for k in (3, 6)]
    monkeypatch.setattr(progress, "on_terminal", lambda: True)
    watched = progress.Progress(tmp_path, "dola", 10)
    watched.close()
    capsys.readouterr()
    watched.finishing("comparators", 1, 2)
    watched.finishing("comparators", 2, 2)
    first, last = capsys.readouterr().err.split("\r")[1:3]
    assert first == "dola: comparators, 1 of 2 horizons\x1b[K"
    assert last == "dola: comparators, 2 of 2 horizons\x1b[K"
