"""How far a run is: a bar on a terminal, a tidy line every few seconds elsewhere, `progress.jsonl` always."""

from __future__ import annotations

import json
import os
import sys
import time
from contextlib import suppress
from math import isfinite
from pathlib import Path
from typing import Any

LAUNCHERS = {"mpirun", "mpiexec", "mpiexec.hydra", "mpirun.hydra", "orterun", "prterun", "prun", "srun"}
SECONDS_BETWEEN_LINES = 5.0


def on_terminal() -> bool:
    """Whether a person watches: our own stderr is a terminal, or that of the mpirun that started us."""
    if getattr(sys.stderr, "closed", True):  # or None, as a daemon's is
        return False
    if sys.stderr.isatty():
        return True
    pid = os.getppid()
    while pid > 1:
        try:
            stat = Path(f"/proc/{pid}/stat").read_text("utf-8")
            name, _, rest = stat.partition("(")[2].rpartition(")")
            if name in LAUNCHERS:
                return os.readlink(f"/proc/{pid}/fd/2").startswith(("/dev/pts/", "/dev/tty"))
            pid = int(rest.split()[1])
        except (OSError, ValueError, IndexError):
            return False
    return False


def bar(title: str, total: int, unit: str, done: int = 0) -> Any:
    """Return a progress bar; None: nobody watches, or tqdm cannot use the TQDM_ variables of the environment."""
    with suppress(Exception):
        if on_terminal():
            from tqdm import tqdm  # which reads these variables as it is imported

            return tqdm(total=total, initial=done, desc=title, unit=unit, file=sys.stderr, ncols=90, leave=False)
    return None


def _shown(path: Path, rounds: int) -> list[str]:
    """Return the lines that an attempt before has written of these rounds."""
    lines = []
    with suppress(OSError, ValueError, LookupError, TypeError):  # a torn line is the last
        for line in path.read_text("utf-8").splitlines(keepends=True):
            told = json.loads(line)
            if told["round"] <= rounds and "finishing" not in told and line.endswith("\n"):
                lines.append(line)
    return lines


class Progress:
    """Shows the rounds done, to people and to programs; of a run that goes on, from a round on."""

    def __init__(self, directory: Path, title: str, rounds: int, begin: int = 0) -> None:
        self._rounds, self._title, self._begin = rounds, title, begin
        self._file = directory / "progress.jsonl"
        before = _shown(self._file, begin) if begin else []
        self._jsonl = self._file.open("w", encoding="utf-8")
        self._jsonl.writelines(before)
        self._last: dict[str, float | int | str | None] = {}
        self._start = self._last_line = time.perf_counter()
        self._bar = bar(title, rounds, "round", begin)

    def show(self, t: int, average_fitness: float) -> None:
        """Round t is done; the mean loss so far is `average_fitness`."""
        now = time.perf_counter()
        rate = (t - self._begin) / max(now - self._start, 1e-9)
        fitness = average_fitness if isfinite(average_fitness) else None
        line = {"round": t, "rounds": self._rounds, "average_fitness": fitness, "rounds_per_second": rate}
        self._last = dict(line)
        self._jsonl.write(json.dumps(line) + "\n")
        self._jsonl.flush()
        if self._bar is not None:
            self._bar.set_postfix_str(f"F/T {average_fitness:.4g}", refresh=False)
            self._bar.update(t - self._bar.n)
        elif now - self._last_line > SECONDS_BETWEEN_LINES:
            self._last_line = now
            left = (self._rounds - t) / rate
            done = f"{self._title}: round {t} of {self._rounds}, F/T {average_fitness:.4g}"
            write_stderr(f"{done}, {rate:.0f} rounds/s, {left:.0f} s left\n")

    def finishing(self, what: str, done: int, of: int) -> None:
        """After the rounds: so many parts of what is left to do are done."""
        now = time.perf_counter()
        line = f"{self._title}: {what}, {done} of {of} horizons"
        with suppress(OSError), self._file.open("a", encoding="utf-8") as file:  # the results matter more
            file.write(json.dumps(self._last | {"finishing": what, "done": done, "of": of}) + "\n")
        if self._bar is not None:
            end = "" if done < of else "\r\x1b[K"
            write_stderr(f"\r{line}\x1b[K{end}")
        elif now - self._last_line > SECONDS_BETWEEN_LINES:
            self._last_line = now
            write_stderr(f"{line}\n")

    def close(self) -> None:
        """Take the bar away."""
        self._jsonl.close()
        if self._bar is not None:
            self._bar.close()


def write_stderr(text: str) -> None:
    """Write to stderr, unless that is full, closed or, as in a daemon, None."""
    with suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(text)
        sys.stderr.flush()
