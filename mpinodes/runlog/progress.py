"""Show the progress of a run or a study: a bar on a terminal, else a line every few seconds; and `progress.jsonl`.

`warn` tells of results of a finished run that cannot be drawn or worded; such a failure is not one of the run.
"""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from contextlib import suppress
from math import isfinite
from pathlib import Path
from typing import Any

LAUNCHERS = {"mpirun", "mpiexec", "mpiexec.hydra", "mpirun.hydra", "orterun", "prterun", "prun", "srun"}
SECONDS_BETWEEN_LINES = 5.0
FILE = "progress.jsonl"


def on_terminal() -> bool:
    """Return whether stderr is a terminal, or that of the mpirun that started this process."""
    if getattr(sys.stderr, "closed", True):  # or None, as a daemon's is
        return False
    if sys.stderr.isatty():
        return True
    pid = os.getppid()
    with suppress(OSError, ValueError, IndexError):
        while pid > 1:
            name, _, rest = Path(f"/proc/{pid}/stat").read_text("utf-8").partition("(")[2].rpartition(")")
            if name in LAUNCHERS:
                return os.readlink(f"/proc/{pid}/fd/2").startswith(("/dev/pts/", "/dev/tty"))
            pid = int(rest.split()[1])
    return False


class Bar:
    """Show how much of a run or of a study is done: a bar on a terminal, elsewhere a line every few seconds.

    Args:
        title: what is done.
        total: number of units that there are to do.
        unit: what is counted, as "round".
        done: number of units that were done before.
    """

    def __init__(self, title: str, total: int, unit: str, done: int = 0) -> None:
        self._title, self._total, self._unit, self._begin = title, total, unit, done
        self._start = self._last_line = time.perf_counter()
        self._bar: Any = None
        with suppress(Exception):  # tqdm reads its TQDM_ variables as it is imported, and fails for wrong ones
            if on_terminal():
                from tqdm import tqdm

                self._bar = tqdm(
                    total=total, initial=done, desc=title, unit=unit, file=sys.stderr, ncols=90, leave=False
                )

    def show(self, done: int, note: str = "") -> float:
        """Show the number of units done, and a note; return how many units a second takes."""
        now = time.perf_counter()
        rate = (done - self._begin) / max(now - self._start, 1e-9)
        if self._bar is not None:
            self._bar.set_postfix_str(note, refresh=False)
            self._bar.update(done - self._bar.n)
        elif now - self._last_line > SECONDS_BETWEEN_LINES:
            self._last_line = now
            pace = f"{rate:.0f}" if rate >= 10 else f"{rate:.2g}"
            left = in_minutes((self._total - done) / max(rate, 1e-9))
            parts = [f"{self._title}: {self._unit} {done} of {self._total}", note, f"{pace} {self._unit}s/s"]
            write_stderr(f"{', '.join(filter(None, parts))}, {left} left\n")
        return rate

    def say(self, text: str, is_last: bool) -> None:
        """Show a line of text in the place of the bar; the last line is taken away again."""
        now = time.perf_counter()
        line = f"{self._title}: {text}"
        if self._bar is not None:
            end = "\r\x1b[K" * is_last
            write_stderr(f"\r{line}\x1b[K{end}")
        elif now - self._last_line > SECONDS_BETWEEN_LINES:
            self._last_line = now
            write_stderr(f"{line}\n")

    def close(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.close()


def in_minutes(seconds: float) -> str:
    """Return a time for people."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def progress_of(directory: Path) -> dict[str, Any]:
    """Return the last entry of a run's progress.jsonl; empty if there is none."""
    with suppress(OSError, ValueError, LookupError):
        return dict(json.loads((directory / FILE).read_text("utf-8").splitlines()[-1]))
    return {}


class Progress:
    """Show the rounds of a run to people and to programs; of a run that goes on, from a round on."""

    def __init__(self, directory: Path, title: str, rounds: int, begin: int = 0) -> None:
        self._file = directory / FILE
        before = []  # the lines of these rounds that an earlier attempt has written
        with suppress(OSError, ValueError, LookupError, TypeError):  # a torn line is the last
            for line in self._file.read_text("utf-8").splitlines(keepends=True):
                progress = json.loads(line)
                if progress["round"] <= begin and "finishing" not in progress and line.endswith("\n"):
                    before.append(line)
        self._jsonl = self._file.open("w", encoding="utf-8")
        self._jsonl.writelines(before)
        self._rounds = rounds
        self._last: dict[str, float | int | str | None] = {}
        self._bar = Bar(title, rounds, "round", begin)

    def show(self, t: int, average_fitness: float) -> None:
        """Show that round t is done, and that the mean loss so far is `average_fitness`."""
        rate = self._bar.show(t, f"F/T {average_fitness:.4g}")
        fitness = average_fitness if isfinite(average_fitness) else None
        self._last = {"round": t, "rounds": self._rounds, "average_fitness": fitness, "rounds_per_second": rate}
        self._jsonl.write(json.dumps(self._last) + "\n")
        self._jsonl.flush()

    def finishing(self, step: str, done: int, of: int) -> None:
        """Show how many parts are done of a step that follows the rounds."""
        with suppress(OSError), self._file.open("a", encoding="utf-8") as file:  # a full disk must not cost the results
            file.write(json.dumps(self._last | {"finishing": step, "done": done, "of": of}) + "\n")
        self._bar.say(f"{step}, {done} of {of} horizons", is_last=done == of)

    def close(self) -> None:
        """Take the bar away."""
        self._jsonl.close()
        self._bar.close()


def write_stderr(text: str) -> None:
    """Write to stderr, unless that is full, closed or, as in a daemon, None."""
    with suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(text)
        sys.stderr.flush()


def warn(directory: Path, failure: str, error: Exception) -> None:
    """Print one line on stderr, and write the traceback into the log of the run.

    Args:
        directory: the run directory.
        failure: what cannot be done, for the message.
        error: the reason.
    """
    log = directory / "log.txt"
    with suppress(OSError), log.open("a", encoding="utf-8", errors="backslashreplace") as file:
        file.write("".join(traceback.format_exception(error)))
    why = " ".join(f"{type(error).__name__}: {error}".split())[:300]
    write_stderr(f"mpinodes: warning: {failure}, but all numbers are in {directory} ({why}; traceback in {log})\n")
