"""Do a study: check all runs, do the runs that are not done yet, and write the study's table.

    DIRECTORY/
        study.toml      the study, from which it can be continued
        table.csv       a row for each run: directory, state, settings and results
        columns.csv     labels and units of the columns
        runs/           a directory for each run
        .lock           locked while a sweep works on the study

All runs are checked before the first run starts, so that mistakes in settings are found at once.
"""

from __future__ import annotations

import fcntl
import re
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mpinodes.core.errors import BadInput
from mpinodes.finished.runs import COLUMNS, RUNS, TABLE, FinishedRun, columns_of, csv_text, summary_of
from mpinodes.presentation import run_warnings
from mpinodes.runlog.directories import write_text
from mpinodes.runlog.progress import Bar, in_minutes
from mpinodes.studies.forecast import Forecast, in_order, timed
from mpinodes.studies.plans import PlannedRun, Run, failure, in_lockstep, note_failure, performed, planned, shown
from mpinodes.studies.pools import Pool
from mpinodes.studies.study import FILE, SEED, GridPoint, Study

if TYPE_CHECKING:
    import pandas

LOCK = ".lock"
EPSILONS = "privacy.epsilon", "privacy.budget.epsilon"  # keys that most often change only the scale of the noise
MOST_TOGETHER = 100  # the most runs of a group
MOST_NAMED = 20  # the most mistakes or failures that a message lists
DIED = "its process died: it was killed, or ran out of memory"


@dataclass(frozen=True)
class Swept:
    """Hold the outcome of a study; as text, it is the output of `mpinodes sweep`.

    Attributes:
        study: the study.
        plans: the runs of the study, or of the part K/N that the user chose.
        before: the number of runs that were already done.
        failed: the reason of each failure, by the name of the run's directory.
        seconds: the wall-clock time that the runs of this sweep took.
        cpu: the CPU seconds of these runs.
    """

    study: Study
    plans: list[PlannedRun]
    before: int
    failed: dict[str, str]
    seconds: float
    cpu: float

    @property
    def directory(self) -> Path:
        """Return the directory of the study."""
        return self.study.place

    @cached_property
    def table(self) -> pandas.DataFrame:
        """Return a table with a row for each run in `plans`, as in table.csv.

        A row has the directory, the state, the settings and the results of the run.
        """
        import pandas

        return pandas.DataFrame(rows_of(self.directory, self.plans)[0], dtype=object)

    def __repr__(self) -> str:
        runs, failed = len(self.plans), self.failed
        done = runs - self.before - len(failed)
        rounds = sum(plan.experiment.rounds for plan in self.plans if not plan.is_done and plan.name not in failed)
        before = f", {self.before} done before" if self.before else ""
        lines = [f"{self.study.name}: {runs} runs: {done} done now{before}, {len(failed)} failed"]
        if done:
            took = in_minutes(self.seconds) if self.seconds >= 10 else f"{self.seconds:.1f} s"
            lines.append(f"  {took}, {rounds / self.seconds:.0f} rounds/s together")
        lines += [f"  failed: {name}: {reason.splitlines()[0]}" for name, reason in [*failed.items()][:MOST_NAMED]]
        if len(failed) > MOST_NAMED:
            lines.append(f"  and {len(failed) - MOST_NAMED} more: see {self.directory / TABLE}")
        noises = Counter(plan.noise for plan in self.plans if plan.noise)
        if shared := [plan for plan in self.plans if noises[plan.noise] > 1]:
            first, second, *_ = (plan.name for plan in shared if plan.noise == shared[0].noise)
            reason = "because they differ in no setting that a message depends on, except perhaps the rounds"
            lines.append(f"  {len(shared)} runs share their noise with others, such as {first} and {second}, {reason}")
        runs_here, names = self.directory / RUNS, {plan.name for plan in self.plans}
        summaries = filter(None, (summary_of(runs_here / name) for name in names))
        lines += [f"  WARNING: {line}" for line in run_warnings.counted([*map(run_warnings.of, summaries)]).values()]
        if others := [run for run in runs_here.glob("*") if run.name not in names and summary_of(run)]:
            lines.append(f"  {len(others)} finished runs in {runs_here} are of another study, and not in {TABLE}")
        return "\n".join([*lines, f"  study: {self.directory}"])


def sweep(study: Study, planner: Pool, runner: Pool, run: Run = in_lockstep, part: str | None = None) -> Swept:
    """Do all runs of a study that are not done yet, and write the table of the study before and after the runs.

    If a run fails, the other runs are still done, and the reason of the failure is written into the run's directory.

    Args:
        study: the study.
        planner: the pool (parallel map) that checks the settings of all runs.
        runner: the pool that does the runs.
        run: a function that does runs in their directories, and returns for each "", or the reason if the run fails.
        part: K/N: only runs K, K + N, K + 2N, ... are done, and no table is written; None means all runs.

    Raises:
        BadInput: no run was started, for one of the reasons in `ready`.
    """
    place = study.place.absolute()
    failed: dict[str, str] = {}
    with ready(study, planner, part) as plans:
        to_do = in_order([plan for plan in plans if not plan.is_done])
        if part is None:
            write_table(place, plans)  # the table shows already now which runs are not done
        groups = _groups(to_do, 4 * runner.size if run is in_lockstep else len(to_do))
        begun, done, cpu = time.perf_counter(), 0, 0.0
        perform = partial(performed, runs=place / RUNS, run=run)
        forecast = Forecast(to_do, runner.size)
        with closing(Bar(f"{study.name}: done", len(to_do), "run")) as bar:
            while groups:
                died: list[list[int]] = []  # runs whose process died while it did several runs: each is done alone
                for number, outcome in runner.apply(partial(timed, perform), [[to_do[k] for k in ks] for ks in groups]):
                    group, cpu = groups[number], cpu + (outcome.cpu if outcome else 0.0)
                    share = outcome and outcome._replace(seconds=outcome.seconds / len(group))
                    for i, k in enumerate(group):
                        directory, reason = place / RUNS / to_do[k].name, outcome.result[i] if outcome else ""
                        if outcome is None and summary_of(directory) is None:
                            if len(group) > 1:
                                died.append([k])
                                continue
                            note_failure(directory, reason := DIED)
                        if reason:
                            failed[to_do[k].name] = reason
                        forecast.done(k, share)
                        done += 1
                    bar.show(done, f"{len(failed)} failed" if failed else "", forecast.left())
                groups = died
        seconds = time.perf_counter() - begun
        if part is None:
            write_table(place, plans)
    return Swept(study, plans, len(plans) - len(to_do), failed, seconds, cpu)


def _groups(plans: Sequence[PlannedRun | GridPoint], number: int) -> list[list[int]]:
    """Divide runs into groups of runs that differ only in the seed and in ε; return the indices of each group.

    Args:
        plans: the runs.
        number: about how many groups to make at least, so that all workers have work until the end.
    """
    most, by_group = max(1, min(MOST_TOGETHER, len(plans) // number)), defaultdict[str, list[int]](list)
    for k, plan in enumerate(plans):
        by_group[repr({key: value for key, value in plan.settings.items() if key not in (SEED, *EPSILONS)})].append(k)
    return [same[k : k + most] for same in by_group.values() for k in range(0, len(same), most)]


@contextmanager
def ready(study: Study, planner: Pool, part: str | None = None) -> Iterator[list[PlannedRun]]:
    """Check the settings of all runs, and yield the plans of the runs; the directory of the study is locked meanwhile.

    The directory is made if necessary. Without `part`, study.toml is written.

    Args:
        study: the study.
        planner: the pool (parallel map) that checks the settings.
        part: K/N: only runs K, K + N, K + 2N, ... are planned; None means all runs.

    Raises:
        BadInput: `part` is malformed; some runs cannot be done (the message names these runs); or the directory of the
            study contains something else, is locked by another sweep, or cannot be written.
    """
    numbers = re.fullmatch(r"(\d{1,9})/(\d{1,9})", part or "0/1")
    if not numbers or int(numbers[1]) >= int(numbers[2]):
        raise BadInput(f"--part {part}: expected K/N, with K from 0 to N - 1")
    place, points = study.place.absolute(), study.points()[int(numbers[1]) :: int(numbers[2])]
    is_ours = (place / FILE).is_file() or (place / LOCK).is_file()
    if place.is_dir() and not is_ours and any(place.iterdir()):
        raise BadInput(f"{study.place}: not empty, and not a study (no {FILE} in it); set another output.dir")
    with ExitStack() as stack:
        if is_ours:
            stack.enter_context(_locked(study.place, alone=part is None))
        plans = _plans(study, points, planner, place / RUNS)
        try:
            (place / RUNS).mkdir(parents=True, exist_ok=True)
            if not is_ours:
                stack.enter_context(_locked(study.place, alone=part is None))
            if part is None:
                write_text(place / FILE, study.toml())
        except OSError as error:
            raise BadInput(f"{study.place}: cannot be written: {error.strerror}; set another output.dir") from error
        yield plans


@contextmanager
def _locked(place: Path, alone: bool) -> Iterator[None]:
    """Lock the directory of a study for a `with` block.

    Args:
        place: the directory.
        alone: whether no other sweep may hold a lock at the same time. False: sweeps of other parts of the study may.

    Raises:
        BadInput: another sweep holds a lock.
    """
    with (place.absolute() / LOCK).open("w") as lock:
        try:
            fcntl.flock(lock, (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | fcntl.LOCK_NB)
        except OSError as error:
            raise BadInput(f"{place}: another sweep works on this study; wait until it has ended") from error
        yield


def _plans(study: Study, points: Sequence[GridPoint], planner: Pool, runs: Path) -> list[PlannedRun]:
    """Check the settings of each run of a study, and return the plans of the runs.

    Args:
        study: the study.
        points: the settings of the runs.
        planner: the pool (parallel map) that checks the settings.
        runs: the directory that contains the directories of all runs.

    Raises:
        BadInput: some runs cannot be done, or two runs are the same.
    """
    plans: dict[int, PlannedRun] = {}
    mistakes: dict[int, str] = {}
    with closing(Bar(f"{study.name}: composed", len(points), "run")) as bar:
        groups = _groups(points, 4 * planner.size)
        while groups:
            died: list[list[int]] = []  # runs whose process died while it planned several runs: each is planned alone
            for index, some in planner.apply(partial(planned, runs=runs), [[points[k] for k in ks] for ks in groups]):
                if some is None and len(groups[index]) > 1:
                    died += [[k] for k in groups[index]]
                    continue
                for k, plan in zip(groups[index], some or [DIED], strict=True):
                    if isinstance(plan, PlannedRun):
                        plans[k] = plan
                    else:
                        mistakes[k] = plan
                bar.show(len(plans) + len(mistakes), f"{len(mistakes)} failed" if mistakes else "")
            groups = died
    if mistakes:
        number = f"{len(mistakes)} of {len(points)} runs"
        lines = [f"{study.name}: {number} cannot be done, and none was started; correct them, or use study.exclude:"]
        for reason in dict.fromkeys(mistakes[k] for k in sorted(mistakes)):
            same = [k for k in sorted(mistakes) if mistakes[k] == reason]
            lines += [f"  {reason}", *(f"    {shown(points[k].settings)}" for k in same[:MOST_NAMED])]
            lines += [f"    and {len(same) - MOST_NAMED} more"] * (len(same) > MOST_NAMED)
        raise BadInput("\n".join(lines))
    by_digits: dict[str, PlannedRun] = {}
    for _, plan in sorted(plans.items()):
        if (other := by_digits.setdefault(plan.digits, plan)) is not plan:
            raise BadInput(f"two runs of the study are the same: {shown(other.settings)}; and {shown(plan.settings)}")
    # `near` is known for the first seed of each setting; runs with other seeds start their search at that value.
    near = {plan.setting: plan.near for plan in by_digits.values() if plan.near}
    return [plan if plan.is_ready else replace(plan, near=near.get(plan.setting, 0.0)) for plan in by_digits.values()]


def rows_of(place: Path, plans: Sequence[PlannedRun]) -> tuple[list[dict[str, Any]], list[FinishedRun]]:
    """Return a row of the table of a study for each run, and the list of the finished runs.

    A row has the directory, the state ("done", "failed" or "not done"), and the settings. A finished run also has
    results, and a failed run the reason of the failure.
    """
    rows, done = [], []
    for plan in plans:
        directory = place / RUNS / plan.name
        summary = summary_of(directory)
        reason = "" if summary else failure(directory)
        row = {"run": plan.name, "state": "done" if summary else "failed" if reason else "not done", **plan.settings}
        done += [FinishedRun(directory, summary)] if summary else []
        rows.append(row | (done[-1].results if summary else {"reason": reason}))
    return rows, done


def write_table(place: Path, plans: Sequence[PlannedRun]) -> None:
    """Write table.csv, and columns.csv with the labels and units of the results, into the directory `place`."""
    rows, done = rows_of(place, plans)
    names = dict.fromkeys(name for row in rows for name in row)
    write_text(place / TABLE, csv_text(names, [map(row.get, names) for row in rows]))
    write_text(place / COLUMNS, columns_of(done))
