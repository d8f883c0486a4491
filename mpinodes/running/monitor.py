"""Watch runs from another process, by reading the files in their directories, such as progress.jsonl."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from math import inf, nan
from pathlib import Path
from typing import Any, TextIO

from mpinodes.core.errors import BadInput
from mpinodes.presentation.privacy_words import number
from mpinodes.runlog.directories import is_held
from mpinodes.runlog.progress import in_minutes, progress_of
from mpinodes.summary.summary import Summary

SECONDS = 0.5  # seconds between two readings of a directory
SECONDS_BETWEEN_LINES = 5.0  # seconds between two printed lines, if the output is not a terminal
UNBEGUN = 60.0  # seconds within which a run must start in a directory that has no run yet
LEFT = 2.0  # a run without a process counts as ended after this many seconds without a new round
SILENCE = 600.0  # the same for a run with a process, before its last round; after its last round there is no limit


class WatchedRun:
    """Watch one run by the files in its directory; each call of `look` reads the files again.

    Attributes:
        ended: whether the run has ended. A run also counts as ended if no new round was logged for a long time.
        failed: whether the run has ended without a result, or was interrupted before its last round.
    """

    def __init__(self, directory: Path) -> None:
        self._directory, self._last, self._changed = directory, dict[str, Any](), time.monotonic()
        self.ended = self.failed = False

    def look(self) -> str:
        """Read the files of the run, update the attributes, and return one line of text on the progress of the run."""
        line = f"{self._directory.resolve().name}: {self._state()}"
        return "".join(sign if sign.isprintable() else "?" for sign in line)

    def _state(self) -> str:
        with suppress(BadInput):  # the summary is not written yet
            summary = Summary.read(self._directory)
            if summary.timing:
                self.ended, self.failed = True, summary.partial
                return result(summary, self._directory)
        if (failed := self._directory / "failed.txt").exists():
            self.ended = self.failed = True
            return f"ended without a result: {failed.read_text('utf-8', 'replace').strip()[:300]}"
        progress = self._progress()
        silent = time.monotonic() - self._changed
        if not (self._directory / "experiment.toml").exists():
            limit, reason = UNBEGUN, "no run has begun there"
        elif is_held(self._directory):
            sums_up = bool(self._last) and self._last["round"] == self._last["rounds"]
            limit, reason = inf if sums_up else SILENCE, "no new round came"
        else:
            limit, reason = LEFT, "no process works on this run, which has no result"
        if silent > limit:
            self.ended = self.failed = True
            return f"{reason}; {silent:.0f} s have passed, so the run counts as ended; last: {progress}"
        return progress

    def _progress(self) -> str:
        """Return a text on the latest repeat: the completed rounds, the mean loss and the remaining time."""
        place = max(self._directory.glob("repeat-*"), default=self._directory)
        if (last := progress_of(place)) != self._last:
            self._last, self._changed = last, time.monotonic()
        if not last:
            return "no round is logged"
        done, rounds, loss = last["round"], last["rounds"], last["average_fitness"]
        prefix = f"{place.name.replace('-', ' ')}: " if place != self._directory else ""
        if done == rounds:
            step = f"{last['finishing']}, {last['done']} of {last['of']} horizons" if "finishing" in last else ""
            return f"{prefix}all {rounds} rounds done; {step or 'the summary is being computed'}"
        rate = last["rounds_per_second"]
        parts = [f"{prefix}round {done} of {rounds}", f"mean loss {nan if loss is None else loss:.4g}"]
        return ", ".join([*parts, f"{rate:.3g} rounds/s", f"{in_minutes((rounds - done) / rate)} left"])


def result(summary: Summary, directory: Path) -> str:
    """Return one line of text with the main results of a run that has ended.

    The line has the number of rounds, the regret per round, the claimed and the proven ε, and the path of report.html.
    Without a regret or report.html, this part is left out. Without noise, the line says so in place of ε.
    """
    seconds, network = summary.timing.total if summary.timing else nan, summary.privacy.network
    done = f"done, {summary.rounds} rounds in {seconds:.1f} s"
    parts = [f"ended early, after {summary.rounds} rounds" if summary.partial else done]
    if (regret := summary.value("network_regret_per_round")) is not None:
        parts.append(f"R/T {regret:.4g}")
    recorded = " (for the recorded rounds only)" if summary.partial else ""
    account = f"ε claimed {number(network.claimed, 'none')}, proven {number(network.proven)}"
    account += f" ({summary.privacy.adjacency}){recorded}"
    parts.append(account if summary.privacy.noise else "no noise")
    if (page := directory / "report.html").exists():
        parts.append(f"page: {page}")
    return ", ".join(parts)


def watch(directories: Sequence[Path], out: TextIO) -> int:
    """Print one line on the progress of each run, again and again, until all runs have ended.

    On a terminal, the new lines replace the old lines. If the output is not a terminal, lines that have changed are
    printed every few seconds, and at the end.

    Returns:
        1 if a run has ended without a result or was interrupted, or if no new round was logged for a long time; else 0.

    Raises:
        BadInput: a path exists, but is neither the directory of a run nor an empty directory.
    """
    for path in directories:
        if path.exists() and not (path.is_dir() and ((path / "experiment.toml").exists() or not any(path.iterdir()))):
            raise BadInput(f"{path}: not the directory of a run: it has no experiment.toml")
    runs, due = [*map(WatchedRun, directories)], 0.0
    lines = shown = [""] * len(directories)
    while True:
        lines = [line if run.ended else run.look() for run, line in zip(runs, lines, strict=True)]
        over = all(run.ended for run in runs)
        if out.isatty():
            back = f"\x1b[{len(runs)}A" if any(shown) else ""
            out.write(back + "".join(f"\r{line}\x1b[K\n" for line in lines))
            shown = lines
        elif over or time.monotonic() >= due:
            out.writelines(f"{line}\n" for line, before in zip(lines, shown, strict=True) if line != before)
            shown, due = lines, time.monotonic() + SECONDS_BETWEEN_LINES
        out.flush()
        if over:
            return int(any(run.failed for run in runs))
        time.sleep(SECONDS)
