"""The tests of an algorithm, in order."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from mpinodes.auditing.checks.elsewhere import alone, over_mpi, without_noise
from mpinodes.auditing.checks.failures import Fault, Report
from mpinodes.auditing.checks.purity import purity
from mpinodes.auditing.checks.statements import statements
from mpinodes.auditing.checks.walks import TriedRun, finite, made
from mpinodes.auditing.small_experiments import experiments, others
from mpinodes.config.compose import compose
from mpinodes.core import Diverged
from mpinodes.core.asked import Tree
from mpinodes.core.errors import BadInput

ENOUGH, LENGTHY = 5, 60  # after so many runs, a fault ends the tests; so many rounds make a run long
APART = 3  # runs whose agents also run in another process


def check_algorithm(algorithm: Any, path: str, folder: Path, seed: int, report: Report) -> None:
    """Run an algorithm on all experiments that fit it; test its purity and statements, and its runs elsewhere."""
    runs = list(_runs(algorithm, path, folder, seed, report))
    if not runs and not report.faults:
        reasons = "; ".join(report.notes[-2:])
        report.take("", [Fault("no experiment fits it", reasons, "an algorithm must run on data of a file")], 0)
    for k, run in enumerate(runs):
        if report.faults and (k > ENOUGH or len(run.frames) > LENGTHY):
            report.notes.append(f"{run.what}: not tried, because faults were found before")
            continue
        size = run.frames.shape[0] * run.frames.shape[1]
        _take(report, "calls made again", run, partial(purity, run, seed), size)
        if k < APART:
            _take(report, "messages without noise", run, partial(without_noise, run), size)
        try:
            statements(run, seed, report)
        except Exception as error:
            report.take("", [_failed(run.what, error)], 0)
    if not runs:
        return
    lengthy = [run for run in runs if len(run.frames) > LENGTHY]
    first = [*[run for run in runs if len(run.frames) <= LENGTHY][:APART], *lengthy[:1]]
    size = sum(run.frames.shape[0] * run.frames.shape[1] for run in first)
    _take(report, "messages in another process", runs[0], lambda: alone(first, folder), size)
    if report.faults:
        return
    _take(report, "runs over MPI", runs[0], lambda: over_mpi(runs[0], folder, report), 1)


def _take(report: Report, name: str, run: TriedRun, test: Callable[[], Iterable[Fault]], times: int) -> None:
    """Run a test and report its faults; an exception of the part is a fault too."""
    try:
        report.take(name, list(test()), times)
    except Exception as error:
        report.take(name, [_failed(run.what, error)], times)


def _failed(label: str, error: Exception) -> Fault:
    """Describe an exception of the part as a fault."""
    if "read-only" in str(error):
        return Fault(
            "inbox mutated",
            f"{label}: {type(error).__name__}: {error}",
            "the inbox is read-only in every run: make new arrays, as inbox.mix() does",
        )
    return Fault(
        "it fails where it is called by itself",
        f"{label}: {type(error).__name__}: {error}",
        "a method must work on its arguments, whenever it is called",
    )


def _runs(algorithm: Any, path: str, folder: Path, seed: int, report: Report) -> Iterable[TriedRun]:
    """Yield runs of the experiments that fit the algorithm."""
    for label, asked in experiments(algorithm, path, folder, seed):
        try:
            run = _on_some_graph(label, asked)
        except (BadInput, Diverged) as error:
            report.notes.append(f"{label}: not tried: {error}")
            continue
        except Exception as error:
            report.take("", [_failed(label, error)], 0)
            continue
        report.take("experiments", finite(run))
        yield run


def _on_some_graph(label: str, asked: Tree) -> TriedRun:
    """Run an experiment on its own graph, or on another graph if the algorithm cannot run on that.

    Raises:
        BadInput, Diverged: no graph fits; the error of the experiment's own graph.
    """
    try:
        return made(label, compose(asked, ranks=None))
    except (BadInput, Diverged) as error:
        if isinstance(error, BadInput) and "topology" not in str(error):
            raise
        for other in others(asked):
            with suppress(BadInput, Diverged):
                return made(label, compose(other, ranks=None))
        raise
