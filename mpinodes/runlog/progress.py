"""Show the progress of a run or a study: a bar on a terminal or in a notebook, otherwise a line every few seconds.

A run also writes its progress to progress.jsonl, which programs can read. The function `warn` prints a warning if the
report or the printed text of a finished run cannot be made.
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
    """Return whether stderr, or the stderr of the launcher, is a terminal.

    The launcher is mpirun, srun or another program in `LAUNCHERS` that started this process.
    """
    if getattr(sys.stderr, "closed", True):  # stderr is closed, or None in a daemon
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


class Cell:
    """Show a bar in the output of a notebook's cell. Each text replaces the text before."""

    def __init__(self) -> None:
        from IPython.display import display  # type: ignore[import-not-found]

        self._handle = display({"text/plain": ""}, raw=True, display_id=True)

    def write(self, text: str) -> None:
        """Show the part of a text that a terminal would show: the part after the last carriage return."""
        self._handle.update({"text/plain": text.replace("\x1b[K", "").rpartition("\r")[2].strip()}, raw=True)

    def flush(self) -> None:
        """Do nothing, because each text is shown at once."""


class Bar:
    """Show how much of a run or study is done: by a bar on a terminal or in a notebook, otherwise by lines.

    Args:
        title: the name of the task.
        total: the number of units of the whole task.
        unit: the name of a unit, such as "round".
        done: the number of units that were done before this process started.
    """

    def __init__(self, title: str, total: int, unit: str, done: int = 0) -> None:
        self._title, self._total, self._unit, self._begin = title, total, unit, done
        self._start = self._last_line = time.perf_counter()
        self._bar: Any = None
        with suppress(Exception):  # importing tqdm fails if an environment variable TQDM_... has a wrong value
            out = Cell() if type(sys.stderr).__module__.startswith("ipykernel.") else sys.stderr
            if out is not sys.stderr or on_terminal():
                from tqdm import tqdm

                self._bar = tqdm(total=total, initial=done, desc=title, unit=unit, file=out, ncols=90, leave=False)

    def show(self, done: int, note: str = "", left: float | None = None) -> float:
        """Show how many units are done, with a note and the remaining time.

        Args:
            done: the number of units that are done.
            note: the note.
            left: the remaining seconds. None: this process is assumed to go on at its rate so far.

        Returns:
            The number of units per second that this process has done.
        """
        now = time.perf_counter()
        rate = (done - self._begin) / max(now - self._start, 1e-9)
        if self._bar is not None:
            if left is not None:
                shown = f"{{elapsed}}<{in_minutes(left)}, {{rate_fmt}}{{postfix}}"
                self._bar.bar_format = f"{{l_bar}}{{bar}}| {{n_fmt}}/{{total_fmt}} [{shown}]"
            self._bar.set_postfix_str(note, refresh=False)
            self._bar.update(done - self._bar.n)
        elif now - self._last_line > SECONDS_BETWEEN_LINES:
            self._last_line = now
            pace = f"{rate:.0f}" if rate >= 10 else f"{rate:.2g}"
            left = (self._total - done) / max(rate, 1e-9) if left is None else left
            parts = [f"{self._title}: {self._unit} {done} of {self._total}", note, f"{pace} {self._unit}s/s"]
            write_stderr(f"{', '.join(filter(None, parts))}, {in_minutes(left)} left\n")
        return rate

    def say(self, text: str, is_last: bool) -> None:
        """Show a line of text in place of the bar.

        Without a bar, the line is printed, but at most one line every few seconds.

        Args:
            text: the text after the title.
            is_last: whether no further line follows; a line in place of the bar is then removed at once.
        """
        now = time.perf_counter()
        line = f"{self._title}: {text}"
        if self._bar is not None:
            end = "\r\x1b[K" * is_last
            write_stderr(f"\r{line}\x1b[K{end}", self._bar.fp)
        elif now - self._last_line > SECONDS_BETWEEN_LINES:
            self._last_line = now
            write_stderr(f"{line}\n")

    def close(self) -> None:
        """Remove the bar from the terminal."""
        if self._bar is not None:
            self._bar.close()


def in_minutes(seconds: float) -> str:
    """Return a number of seconds as text, such as "2 h 5 min", "3 min 7 s" or "12 s"."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def progress_of(directory: Path) -> dict[str, Any]:
    """Return the last entry of a run's progress.jsonl, or an empty dictionary if this entry cannot be read."""
    with suppress(OSError, ValueError, LookupError):
        return dict(json.loads((directory / FILE).read_text("utf-8").splitlines()[-1]))
    return {}


class Progress:
    """Show the progress of a run on stderr, and write its progress to progress.jsonl.

    Args:
        directory: the run directory.
        title: the name of the run.
        rounds: the number of rounds of the whole run.
        begin: the round after which a resumed run continues. Entries of rounds up to this round stay in the file.
    """

    def __init__(self, directory: Path, title: str, rounds: int, begin: int = 0) -> None:
        self._file = directory / FILE
        before = []  # the lines that an earlier attempt wrote for rounds up to `begin`
        with suppress(OSError, ValueError, LookupError, TypeError):  # only the last line can be incomplete
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
        """Show that round t is done, and append an entry to progress.jsonl.

        Args:
            t: the round.
            average_fitness: the mean loss per round so far.
        """
        rate = self._bar.show(t, f"F/T {average_fitness:.4g}")
        fitness = average_fitness if isfinite(average_fitness) else None
        self._last = {"round": t, "rounds": self._rounds, "average_fitness": fitness, "rounds_per_second": rate}
        self._jsonl.write(json.dumps(self._last) + "\n")
        self._jsonl.flush()

    def finishing(self, step: str, done: int, of: int) -> None:
        """Show the progress of a step after the last round, such as the search for best fixed decisions.

        The progress is also appended to progress.jsonl.

        Args:
            step: the name of the step.
            done: the number of horizons (rounds at which results are measured) that are done.
            of: the number of all horizons.
        """
        with suppress(OSError), self._file.open("a", encoding="utf-8") as file:  # a full disk must not stop the run
            file.write(json.dumps(self._last | {"finishing": step, "done": done, "of": of}) + "\n")
        self._bar.say(f"{step}, {done} of {of} horizons", is_last=done == of)

    def close(self) -> None:
        """Close progress.jsonl, and remove the bar from the terminal."""
        self._jsonl.close()
        self._bar.close()


def write_stderr(text: str, out: Any = None) -> None:
    """Write to stderr, or to `out`. If the stream is full, closed, or None (in a daemon), do nothing."""
    with suppress(OSError, ValueError, AttributeError):
        (out or sys.stderr).write(text)
        (out or sys.stderr).flush()


def warn(directory: Path, failure: str, error: Exception) -> None:
    """Print a warning of one line on stderr, and append the traceback of an error to log.txt in the run directory.

    Args:
        directory: the run directory.
        failure: the part of the message that says which result cannot be shown.
        error: the error.
    """
    log = directory / "log.txt"
    with suppress(OSError), log.open("a", encoding="utf-8", errors="backslashreplace") as file:
        file.write("".join(traceback.format_exception(error)))
    reason = " ".join(f"{type(error).__name__}: {error}".split())[:300]
    write_stderr(f"mpinodes: warning: {failure}, but all results are in {directory} ({reason}; traceback in {log})\n")
