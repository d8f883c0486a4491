"""What people and programs are shown of a run under way."""

from __future__ import annotations

import io
import itertools
import sys
from types import SimpleNamespace

import pytest

from mpinodes.runlog import progress
from mpinodes.runlog.progress import warn
from tests.helpers.running import command


def test_a_bar_that_cannot_be_made_costs_no_run(tmp_path, monkeypatch):
    """As of the user's TQDM_ variables, which tqdm reads when it is imported and when it draws."""

    def refuse(**_: object) -> None:
        raise ValueError("could not convert string to float: 'abc'")

    monkeypatch.setattr(progress, "on_terminal", lambda: True)
    monkeypatch.setattr("tqdm.tqdm", refuse)
    shown = progress.Progress(tmp_path, "dola", 10)
    shown.show(1, 0.25)
    shown.finishing("comparators", 1, 2)
    shown.close()
    assert len((tmp_path / "progress.jsonl").read_text().splitlines()) == 2
    code = "from mpinodes.runlog.progress import Progress; Progress(__import__('pathlib').Path(), 'dola', 9).close()"
    words = [sys.executable, "-c", f"import sys; sys.stderr.isatty = lambda: True; {code}"]
    for name in ("TQDM_MININTERVAL", "TQDM_BAR_FORMAT", "TQDM_POSITION"):
        done = command(words, tmp_path, env={name: "{abc"})
        assert (done.code, done.out) == (0, ""), done.err


class Mute:
    """A stream of somebody's own that can only be written to."""

    def write(self, _: str) -> None:
        """Take it."""


class Full(io.StringIO):
    """A stream that there is no room in."""

    def write(self, _: str) -> int:
        raise OSError(28, "No space left on device")


@pytest.mark.parametrize("stderr", [None, Mute(), Full()])
def test_progress_is_shown_on_no_stderr_and_on_any(stderr, tmp_path, monkeypatch):
    monkeypatch.setattr(progress.sys, "stderr", stderr)
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", 0.0)
    shown = progress.Progress(tmp_path, "dola", 10)
    shown.show(1, 0.25)
    shown.finishing("comparators", 1, 2)
    shown.close()
    warn(tmp_path, "nothing can be drawn", ValueError("of a test"))
    assert "of a test" in (tmp_path / "log.txt").read_text()


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
    assert lines[0].endswith("F/T 0.25, 0.5 rounds/s, 14 s left")
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


def test_a_notebook_shows_one_output_whose_text_is_replaced(tmp_path, monkeypatch):
    """Without IPython: a kernel's stderr is known by its module, and `display` returns a handle to the output."""
    shown = []
    handle = SimpleNamespace(update=lambda data, raw: shown.append(data["text/plain"]))
    display = SimpleNamespace(display=lambda data, raw, display_id: handle)
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(display=display))
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    stderr = type("OutStream", (io.StringIO,), {"__module__": "ipykernel.iostream"})()
    monkeypatch.setattr(progress.sys, "stderr", stderr)
    bar = progress.Progress(tmp_path, "dola", 10)
    bar.show(5, 0.25)
    bar.close()
    bar.finishing("comparators", 1, 2)
    bar.finishing("comparators", 2, 2)
    assert stderr.getvalue() == ""
    assert shown[0].startswith("dola:   0%|")
    assert shown[-2:] == ["dola: comparators, 1 of 2 horizons", ""]
