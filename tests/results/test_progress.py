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
