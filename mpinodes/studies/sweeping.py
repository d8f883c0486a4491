"""A study from its file to its table: every run planned before the first begins, then done, and what failed named."""

from __future__ import annotations

import fcntl
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from mpinodes.core.errors import BadInput
from mpinodes.finished.runs import COLUMNS, RUNS, TABLE, FinishedRun, columns_of, csv_of, summary_of
from mpinodes.presentation import run_warnings
from mpinodes.runlog.directories import write_text
from mpinodes.runlog.progress import SECONDS_BETWEEN_LINES, bar, write_stderr
from mpinodes.studies.plans import Mistake, PlannedRun, failure, in_lockstep, note_failure, performed, planned
from mpinodes.studies.pools import DIED, Died, Pool
from mpinodes.studies.study import FILE, SEED, Study

LOCK = ".lock"
MOST_NAMED = 20  # mistakes, or failures, that are told one by one
Perform = Callable[[PlannedRun, Path], str]


class Part(NamedTuple):
    """Which runs are this command's: every `of`-th, from `first`."""

    first: int = 0
    of: int = 1


class Swept(NamedTuple):
    """What came of a study.

    Attributes:
        plans: of its runs.
        before: how many were there already.
        failed: why, by directory.
        seconds: that the runs took together.
    """

    plans: list[PlannedRun]
    before: int
    failed: dict[str, str]
    seconds: float


def sweep(study: Study, pool: Pool, runner: Pool, run: Perform = in_lockstep, part: Part = Part()) -> Swept:  # noqa: B008
    """Do what is not done yet.

    Args:
        study: the study.
        pool: who plans.
        runner: who runs.
        run: how.
        part: of it.

    Raises:
        BadInput: a run cannot be; all such are named, and none was begun.
    """
    place = study.place.absolute()
    with _ready(study, pool, part) as plans:
        to_do = [plan for plan in plans if not plan.is_done]
        if part.of == 1:
            write_table(place, plans)  # which says what runs there are to be
        begun = time.perf_counter()
        failed: dict[str, str] = {}
        with _progress(f"{study.name}: done", len(to_do)) as show:
            for k, outcome in runner.each(partial(performed, runs=place / RUNS, run=run), to_do):
                if isinstance(outcome, Died):
                    note_failure(place / RUNS / to_do[k].name, DIED)
                    outcome = DIED
                if outcome:
                    failed[to_do[k].name] = outcome
                show(len(failed))
        seconds = time.perf_counter() - begun
        if part.of == 1:
            write_table(place, plans)
    return Swept(plans, len(plans) - len(to_do), failed, seconds)


def prepared(study: Study, pool: Pool) -> list[PlannedRun]:
    """The runs of a study, and its directory ready for them.

    Raises:
        BadInput: a run cannot be; all such are named.
    """
    with _ready(study, pool, Part()) as plans:
        return plans


@contextmanager
def _ready(study: Study, pool: Pool, part: Part) -> Iterator[list[PlannedRun]]:
    """Everything planned, and the directory this command's own; nothing is made where a run cannot be."""
    place, points = study.place.absolute(), study.points()[part.first :: part.of]
    is_ours = (place / FILE).is_file() or (place / LOCK).is_file()
    if place.is_dir() and not is_ours and any(place.iterdir()):
        raise BadInput(f"{study.place}: not empty, and no study's (no {FILE} in it); set output.dir to another place")
    with ExitStack() as held:
        if is_ours:
            held.enter_context(_locked(study.place, alone=part.of == 1))
        plans = _plans(study, points, pool, place / RUNS)
        try:
            (place / RUNS).mkdir(parents=True, exist_ok=True)
            if not is_ours:
                held.enter_context(_locked(study.place, alone=part.of == 1))
            if part.of == 1:
                write_text(place / FILE, study.toml())
        except OSError as error:
            raise BadInput(
                f"{study.place}: cannot be written: {error.strerror}; set output.dir to a place of yours"
            ) from error
        yield plans


@contextmanager
def _locked(place: Path, alone: bool) -> Iterator[None]:
    """One sweep at a time, or parts of one."""
    with (place.absolute() / LOCK).open("w") as lock:
        try:
            fcntl.flock(lock, (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | fcntl.LOCK_NB)
        except OSError as error:
            raise BadInput(f"{place}: another sweep is at it") from error
        yield


def _plans(study: Study, points: Sequence[Any], pool: Pool, runs: Path) -> list[PlannedRun]:
    """Of every point.

    Raises:
        BadInput: some cannot be.
    """
    found: dict[int, PlannedRun | Mistake] = {}
    with _progress(f"{study.name}: composed", len(points)) as show:
        for k, plan in pool.each(partial(planned, runs=runs), points):
            found[k] = Mistake(points[k].settings, DIED) if isinstance(plan, Died) else plan
            show(sum(isinstance(one, Mistake) for one in found.values()))
    in_order = [found[k] for k in sorted(found)]
    if mistakes := [one for one in in_order if isinstance(one, Mistake)]:
        raise BadInput(_named(study, mistakes, len(points)))
    plans = [one for one in in_order if isinstance(one, PlannedRun)]
    by_digits: dict[str, PlannedRun] = {}
    for plan in plans:
        if (other := by_digits.setdefault(plan.digits, plan)) is not plan:
            raise BadInput(f"two runs of the study are one and the same: {_shown(other)}; and {_shown(plan)}")
    return _beside_their_first_seeds(plans)


def _beside_their_first_seeds(plans: Sequence[PlannedRun]) -> list[PlannedRun]:
    """The plans, those whose noise is still to be found with the label of one that differs in its seed alone."""
    setting: Callable[[PlannedRun], str] = lambda plan: repr({k: v for k, v in plan.settings.items() if k != SEED})  # noqa: E731
    labels = {setting(plan): plan.near for plan in plans if plan.near}
    return [plan if plan.is_ready else replace(plan, near=labels.get(setting(plan), 0.0)) for plan in plans]


def _shown(plan: PlannedRun | Mistake) -> str:
    return ", ".join(f"{key}={value}" for key, value in plan.settings.items()) or "the only one"


def _named(study: Study, mistakes: Sequence[Mistake], runs: int) -> str:
    """Each mistake once, with the runs that have it."""
    by_reason: dict[str, list[Mistake]] = {}
    for mistake in mistakes:
        by_reason.setdefault(mistake.reason, []).append(mistake)
    lines = [
        f"{study.name}: {len(mistakes)} of {runs} runs cannot be, and none was begun; mend them, or study.exclude:"
    ]
    for reason, those in by_reason.items():
        lines += [f"  {reason}", *(f"    {_shown(each)}" for each in those[:MOST_NAMED])]
        lines += [f"    and {len(those) - MOST_NAMED} more"] * (len(those) > MOST_NAMED)
    return "\n".join(lines)


# ------------------------------------------------------------------------------------------------------------- progress
@contextmanager
def _progress(title: str, runs: int) -> Iterator[Callable[[int], None]]:
    """How far it is, and how long it will take: a bar, or a line now and then."""
    begun = last = time.perf_counter()
    done = 0
    shown = bar(title, runs, "run")

    def show(failed: int) -> None:
        nonlocal done, last
        done += 1
        now = time.perf_counter()
        if shown is not None:
            shown.set_postfix_str(f"{failed} failed" if failed else "", refresh=False)
            shown.update()
        elif now - last > SECONDS_BETWEEN_LINES:
            last = now
            left = (runs - done) * (now - begun) / done
            said = f"{title} {done} of {runs} runs{f', {failed} failed' if failed else ''}"
            write_stderr(f"{said}, {in_minutes(left)} left\n")

    try:
        yield show
    finally:
        if shown is not None:
            shown.close()


def in_minutes(seconds: float) -> str:
    """A time for people."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


# --------------------------------------------------------------------------------------------------------- what is left
def write_table(place: Path, plans: Sequence[PlannedRun]) -> None:
    """Write a row for each run: where it is, what came of it, its settings and its results; and the columns' labels."""
    rows, done = [], []
    for plan in plans:
        directory = place / RUNS / plan.name
        summary = summary_of(directory)
        reason = "" if summary else failure(directory)
        row = {"run": plan.name, "state": "done" if summary else "failed" if reason else "not done", **plan.settings}
        done += [FinishedRun(directory, summary)] if summary else []
        rows.append(row | (done[-1].results if summary else {"reason": reason}))
    write_text(place / TABLE, csv_of(rows))
    write_text(place / COLUMNS, columns_of(done))


def text(study: Study, swept: Swept) -> str:
    """What a person wants to read when a study is over."""
    runs, failed = len(swept.plans), swept.failed
    done = runs - swept.before - len(failed)
    rounds = sum(plan.rounds for plan in swept.plans if not plan.is_done and plan.name not in failed)
    before = f", {swept.before} were there before" if swept.before else ""
    lines = [f"{study.name}: {runs} runs: {done} done now{before}, {len(failed)} failed"]
    if done:
        took = f"{in_minutes(swept.seconds)}" if swept.seconds >= 10 else f"{swept.seconds:.1f} s"
        lines.append(f"  {took}, {rounds / swept.seconds:.0f} rounds/s together")
    for name, reason in list(failed.items())[:MOST_NAMED]:
        lines.append(f"  failed: {name}: {reason.splitlines()[0]}")
    if len(failed) > MOST_NAMED:
        lines.append(f"  and {len(failed) - MOST_NAMED} more: see {study.place / TABLE}")
    lines += [f"  {line}" for line in shared_noise(swept.plans)]
    summaries = filter(None, (summary_of(study.place / RUNS / plan.name) for plan in swept.plans))
    lines += [f"  WARNING: {line}" for line in run_warnings.counted([*map(run_warnings.of, summaries)]).values()]
    runs_here, names = study.place / RUNS, {plan.name for plan in swept.plans}
    if others := [each for each in runs_here.glob("*") if each.name not in names and summary_of(each)]:
        lines.append(f"  {len(others)} finished runs in {runs_here} are of another study, and not in {TABLE}")
    return "\n".join([*lines, f"  study: {study.place}"])


def shared_noise(plans: Sequence[PlannedRun]) -> list[str]:
    """What is to be said where runs have the same noise, though no key was given for it."""
    by_noise: dict[str, list[PlannedRun]] = {}
    for plan in plans:
        if plan.noise:
            by_noise.setdefault(plan.noise, []).append(plan)
    shared = [those for those in by_noise.values() if len(those) > 1]
    if not shared:
        return []
    one, other = shared[0][:2]
    return [
        f"{sum(map(len, shared))} runs share their noise with others, as {one.name} and {other.name}: they differ in "
        "nothing that a message depends on, but perhaps in how long they are"
    ]
