"""What can be told of runs under way, by who reads their directories alone."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from math import inf, isnan, nan
from pathlib import Path
from threading import Thread
from typing import Any, TextIO

import numpy as np

from mpinodes.config.compose import compose
from mpinodes.core import Setup
from mpinodes.core.errors import BadInput
from mpinodes.core.experiment import parse
from mpinodes.evaluation.accounting import claim
from mpinodes.evaluation.comparator import best
from mpinodes.evaluation.hindsight import left_out
from mpinodes.evaluation.regret import make_meter
from mpinodes.presentation.privacy_words import number
from mpinodes.privacy.accountant import Accountant, groups
from mpinodes.runlog.directories import is_held
from mpinodes.runlog.layout_version import read_object
from mpinodes.running.budget import dry_events

SECONDS = 0.5  # between two looks at a directory
SECONDS_BETWEEN_LINES = 5.0  # where no terminal shows them
SHARE = 0.2  # of the time, at most, is for working out regret and ε
SILENCE = 600.0  # seconds without a word, after which a run counts as ended
UNBEGUN = 60.0  # seconds in which a run is to begin where there is none yet
LEFT = 2.0  # seconds in which nobody is at work on a run, after which it counts as ended
OF_A_RUN = ("experiment.toml", "progress.jsonl", "record.h5", "summary.json", "failed.txt")
AGENT_ROUNDS = 300_000  # above which ε so far is what the paper claims alone


class Worked:
    """Regret and ε so far, from the experiment: its data, and the events of a run on losses that are nowhere but 0.

    Raises:
        BadInput: the experiment cannot be set up here.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._setup = setup = compose(parse(str(directory / "experiment.toml"), []), None)
        meter = make_meter(setup, np.array([setup.experiment.rounds]))
        self._everything, self.regrets = meter.everything, not left_out(setup, meter)
        self._start = np.zeros(setup.dimension)
        self._accountant = _accountant(setup)

    def least(self, rounds: int) -> float:
        """What the best fixed decision loses per round."""
        found = best(self._everything.upto(rounds), self._setup.feasible, self._start)
        self._start = found.point
        return found.value / rounds

    def epsilon(self, rounds: int) -> str:
        """Of the network: claimed and proven."""
        if not self._setup.experiment.private:
            return "no noise"
        claimed = claim(self._setup)
        said = [f"claimed {number(float(np.max(claimed(rounds))))}"] if claimed else []  # type: ignore[arg-type]
        if self._setup.stream.unproven_because:
            said.append("unproven")
        elif self._accountant:
            privacy = self._setup.experiment.privacy
            lost = self._accountant.losses(np.array([rounds]), privacy.delta, None, privacy.tight).network[-1].epsilon
            said.append("unproven" if isnan(lost) else f"proven {number(lost)}")
        return "ε " + ", ".join(said)


def _accountant(setup: Setup) -> Accountant | None:
    if not setup.experiment.private or setup.experiment.rounds * setup.topology.agents > AGENT_ROUNDS:
        return None
    found = Accountant(groups(setup), shared=setup.experiment.data["partition"] == "shared")
    found.compose(dry_events(setup))
    return found


class Watched:
    """One run directory.

    Attributes:
        ended: whether nothing more will come.
        failed: whether it ended without a result.
    """

    def __init__(self, directory: Path) -> None:
        self._directory, self._run = directory, directory
        self._line: dict[str, Any] = {}
        self._read = 0
        self._heard = self._held = time.monotonic()
        self._worked: Worked | None = None
        self._regret, self._epsilon, self._again = "", "", 0.0
        self.ended = self.failed = False

    def look(self) -> str:
        """What there is to say of it now, in a line."""
        name = "".join(sign if sign.isprintable() else "?" for sign in self._directory.resolve().name)
        return f"{name}: {self._told()}"

    def _told(self) -> str:
        summary = read_object(self._directory / "summary.json")
        if summary and "timing" in summary:
            self.ended, self.failed = True, bool(summary.get("partial"))
            return _result(summary, self._directory)
        if (failed := self._directory / "failed.txt").exists():
            self.ended = self.failed = True
            said = "".join(sign if sign.isprintable() else " " for sign in failed.read_text("utf-8", "replace"))
            return f"ended without a result: {said.strip()[:300]}"
        self._read_on()
        silent = time.monotonic() - self._heard
        if self._ends(silent):
            self.ended = self.failed = True
            return f"{self._ends(silent)}: it counts as ended; last: {self._progress()}"
        return self._progress() + (f", silent for {silent:.0f} s" if silent > 10 else "")

    def _ends(self, silent: float) -> str:
        """Why nothing more will come; empty: something may."""
        if is_held(self._directory):
            self._held = time.monotonic()
        if time.monotonic() - self._held > LEFT and (self._directory / "experiment.toml").exists():
            return "nobody is at work on it, and there is no result"
        if not self._line and silent > UNBEGUN and not _is_run(self._directory):
            return f"no run has begun there in {UNBEGUN:.0f} s"
        return f"no word for {SILENCE / 60:.0f} minutes" if silent > SILENCE else ""

    def _read_on(self) -> None:
        """The last whole line of progress, of the latest of repeats."""
        latest = sorted(self._directory.glob("repeat-*/progress.jsonl"))
        file = latest[-1] if latest else self._directory / "progress.jsonl"
        if file.parent != self._run:
            self._run, self._read, self._line, self._again = file.parent, 0, {}, 0.0
            self._regret = self._epsilon = ""
        try:
            with file.open("rb") as lines:
                lines.seek(self._read)
                whole, end, _ = lines.read().rpartition(b"\n")
            if end:
                self._read += len(whole) + 1
                self._line = json.loads(whole.rpartition(b"\n")[2])
                self._heard = time.monotonic()
        except (OSError, ValueError):
            return

    def _progress(self) -> str:
        if not self._line:
            return "not begun"
        t, rounds, rate = self._line["round"], self._line["rounds"], self._line["rounds_per_second"]
        of = f"{self._run.name.replace('-', ' ')}: " if self._run != self._directory else ""
        if "finishing" in self._line:
            left = f"{self._line['finishing']}, {self._line['done']} of {self._line['of']} horizons"
            return f"{of}all {t} rounds done; {left}"
        self._work(t)
        fitness = self._line["average_fitness"]
        parts = [f"{of}round {t} of {rounds}", "" if fitness is None else f"F/T {fitness:.4g}"]
        parts += [self._regret, self._epsilon, f"{rate:.3g} rounds/s"]
        parts.append(f"{(rounds - t) / rate:.0f} s left" if t < rounds else "rounds done; comparators are next")
        return ", ".join(part for part in parts if part)

    def _work(self, t: int) -> None:
        """Regret and ε at round t, where there is time for it: beside the telling, which goes on."""
        fitness = self._line["average_fitness"]
        if time.monotonic() >= self._again and fitness is not None:
            self._again = inf  # until this is done
            Thread(target=self._worked_out, args=(self._run, t, fitness), daemon=True).start()

    def _worked_out(self, run: Path, t: int, fitness: float) -> None:
        begun = time.monotonic()
        try:
            worked = self._worked if self._worked and self._worked.directory == run else Worked(run)
            with np.errstate(all="ignore"):
                regret = f"R/T {fitness - worked.least(t):.4g} at round {t}" if worked.regrets else ""
                epsilon = worked.epsilon(t)
        except Exception:
            return  # data or parts are not at hand here: the rest is told all the same
        self._worked, self._regret, self._epsilon = worked, regret, epsilon
        self._again = time.monotonic() + (time.monotonic() - begun) / SHARE


def _result(summary: dict[str, Any], directory: Path) -> str:
    network = (summary.get("privacy") or {}).get("network") or {}
    regret = summary.get("network_regret_per_round")
    seconds = summary.get("timing", {}).get("total", nan)
    how = "ended before its time, with {} rounds" if summary.get("partial") else f"done, {{}} rounds in {seconds:.1f} s"
    parts = [how.format(summary.get("rounds"))]
    parts.append("" if regret is None else f"R/T {regret:.4g}")
    if summary.get("privacy", {}).get("noise") is None:
        parts.append("no noise")
    else:
        ended = " (of the recorded rounds alone)" if summary.get("partial") else ""
        parts.append(
            f"ε claimed {number(network.get('claimed'), 'none')}, proven {number(network.get('proven'))}{ended}"
        )
    if (page := directory / "report.html").exists():
        parts.append(f"page: {page}")
    return ", ".join(part for part in parts if part)


def _is_run(directory: Path) -> bool:
    return any((directory / name).exists() for name in OF_A_RUN) or any(directory.glob("repeat-*"))


def _require_runs(directories: Sequence[Path]) -> None:
    """Refuse what is there and will not be a run."""
    for directory in directories:
        if directory.exists() and not (directory.is_dir() and (_is_run(directory) or not any(directory.iterdir()))):
            raise BadInput(f"{directory}: not the directory of a run: there is no experiment.toml in it")


def watch(directories: Sequence[Path], out: TextIO) -> int:
    """Tell of runs until all have ended: over each other on a terminal, elsewhere a line now and then.

    Args:
        directories: theirs.
        out: where it is told.

    Returns:
        0, or 1 where a run ended without a result, or before its time.

    Raises:
        BadInput: one of them is there, and no run's.
    """
    _require_runs(directories)
    runs = [Watched(directory) for directory in directories]
    said = [""] * len(runs)
    last = [-SECONDS_BETWEEN_LINES] * len(runs)
    terminal = out.isatty()
    while True:
        open_ones = [k for k, run in enumerate(runs) if not run.ended]
        lines = {k: runs[k].look() for k in open_ones}
        now = time.monotonic()
        if terminal:
            shown = [lines.get(k, line) for k, line in enumerate(said)]
            back = f"\x1b[{len(said)}A" if any(said) else ""
            out.write(back + "".join(f"\r{line}\x1b[K\n" for line in shown))
            said = shown
        for k in [] if terminal else open_ones:
            if lines[k] != said[k] and (runs[k].ended or now - last[k] >= SECONDS_BETWEEN_LINES):
                out.write(lines[k] + "\n")
                said[k], last[k] = lines[k], now
        out.flush()
        if all(run.ended for run in runs):
            return int(any(run.failed for run in runs))
        time.sleep(SECONDS)
