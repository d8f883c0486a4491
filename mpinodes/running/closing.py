"""Finish a run after its last round: evaluate it, account for privacy, write record.h5, summary.json and the report."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from msgspec import structs

from mpinodes.bounds import bounds
from mpinodes.config import own_files
from mpinodes.core import Setup, Vector
from mpinodes.core.parts import Metric
from mpinodes.evaluation import evaluator
from mpinodes.evaluation.accounting import Accounting
from mpinodes.evaluation.evaluator import Evaluator
from mpinodes.evaluation.sections import bound_section, faults_of, feedback_of
from mpinodes.finished import model
from mpinodes.finished.siblings import headed
from mpinodes.presentation import run_warnings
from mpinodes.runlog.directories import require_there, write_text
from mpinodes.runlog.export import export
from mpinodes.runlog.log import Variable
from mpinodes.runlog.progress import warn
from mpinodes.runlog.reader import Reader
from mpinodes.runlog.versions import VERSION
from mpinodes.summary.merging import merged
from mpinodes.summary.summary import FILE, FileSummary, Summary
from mpinodes.summary.timing import Stopwatch


def finish(
    setup: Setup,
    directory: Path,
    evaluator: Evaluator,
    accounting: Accounting,
    *,
    watch: Stopwatch,
    shares: list[str],
    seconds: float,
    models: Vector | None = None,
    is_partial: bool = False,
    tell: Callable[[str, int, int], None] = lambda part, done, of: None,
) -> Summary:
    """Evaluate a run after its last round, account for privacy, and write record.h5, summary.json and the report.

    Args:
        setup: the set-up of the run.
        directory: the run directory, whose log contains the rounds.
        evaluator: the evaluator of the run, which has received all recorded rounds.
        accounting: the privacy accounting of the run; this function completes it.
        watch: the stopwatch that measures how long each phase of the run takes.
        shares: the names of other run directories whose runs used the same noise on other data.
        seconds: how many seconds the rounds took.
        models: (agents, d) the models that the agents' releases state; None if they are unknown.
        is_partial: whether the run was interrupted before its last round.
        tell: called to report progress, with the name of a phase, the number of steps done, and the number of all
            steps.

    Returns:
        The summary of the run, as written to summary.json.

    Raises:
        OSError: the run directory was removed, or a file cannot be written.
    """
    evaluator.close(partial(tell, "comparators"))
    watch.lap("comparator")
    horizons, measured = evaluator.judged.horizons, evaluator.variables
    require_there(directory)
    record = Reader(directory)
    rounds = record.rounds
    events = record.events(setup.layout)  # read some rounds at a time
    accounting.close(events, horizons, partial(tell, "privacy accounting"))
    watch.lap("accounting")
    proven = bounds(setup, horizons, evaluator.judged.best)
    watch.lap("bounds")
    bounded = {bound.variable: Variable(("horizon",), bound.values, bound.name) for bound in proven}
    export(record, directory, horizons, {**measured, **accounting.variables(), **bounded})
    privacy = accounting.summary(shares)
    if is_partial:
        privacy.recorded = rounds
    marks = None
    if models is not None and np.isfinite(models).all() and setup.experiment.baseline != "alone":
        point = setup.feasible.project(models.mean(axis=0))
        if marks := evaluator.marks(point):
            model.write(directory, setup, point)
    e, faults, checked = setup.experiment, faults_of(setup, rounds), own_files.checked(setup.experiment)
    summary = Summary(
        version=VERSION, name=e.name, algorithm=e.algorithm.get("name", e.algorithm.get("path")),
        data=setup.stream.title, partition=e.data["partition"], decomposable=setup.algorithm.decomposable,
        topology=setup.topology.title, connectivity=setup.connected_over, agents=setup.topology.agents, rounds=rounds,
        rounds_asked=e.rounds, dimension=setup.dimension, seed=e.seed, reproducible=e.reproducible,
        judged=setup.algorithm.judged_by,
        checked=[FileSummary(**file) for file in checked] if checked else None, faults=faults,
        feedback=feedback_of(setup, rounds),
        bytes_sent=8 * setup.frame_width * (faults.sent if faults else messages(setup, rounds)),
        rounds_per_second=rounds / seconds, **structs.asdict(evaluator.summary()),
        bounds=[bound_section(bound, measured.get(bound.of)) for bound in proven], privacy=privacy,
        solver=accounting.solver, seconds=seconds, versions=json.loads(record.attrs["versions"]), partial=is_partial,
        asked=list(setup.asked), model=marks or None,
    )  # fmt: skip
    if sentence := setup.stream.warning:
        run_warnings.add(summary, "features-not-scaled", sentence)
    return conclude(setup, directory, summary, watch)


def messages(setup: Setup, rounds: int) -> int:
    """Return the number of messages in the first `rounds` rounds, if each edge carries one message in each round."""
    graph, period = setup.topology, setup.topology.period or rounds
    edges = [int(graph.sends(t).sum()) for t in range(1, min(period, rounds) + 1)]
    whole, rest = divmod(rounds, period)
    return whole * sum(edges) + sum(edges[:rest])


def combined(metrics: Sequence[type[Metric]], summaries: Sequence[Summary]) -> Summary:
    """Merge the summaries of all repeats into one summary, which also has the spread of each mean over the repeats.

    Args:
        metrics: the metrics of the experiment; `Metric.repeats` states how the values of a metric are merged.
        summaries: the summaries of the repeats.
    """
    whole, spread = merged(summaries, evaluator.rules(metrics))
    whole.spread = spread
    whole.warnings = run_warnings.sentences_of_some(code for summary in summaries for code in summary.warnings or {})
    whole.rounds_per_second = sum(summary.rounds for summary in summaries) / whole.seconds if whole.seconds else None
    whole.repeats, whole.seeds = len(summaries), [summary.seed or 0 for summary in summaries]
    return whole


def conclude(setup: Setup, directory: Path, summary: Summary, watch: Stopwatch) -> Summary:
    """Write summary.json, draw the report if `report` is true, and return the summary as written.

    - Before the report of a short and complete run is drawn, the experiment may be run again without noise
      (`noise_free.make_if_short`).
    - If the report cannot be drawn, a warning is printed, and the run counts as successful.

    Args:
        setup: the set-up of the run, or of its first repeat.
        directory: the run directory, with the record.
        summary: the summary of the run.
        watch: the stopwatch that measured how long each phase of the run took.
    """
    summary = summary.finite()
    summary.warnings = (summary.warnings or {}) | run_warnings.of_numbers(summary)
    _write(setup, directory, summary, watch)
    try:
        if setup.experiment.report:
            from mpinodes.presentation.draw import draw
            from mpinodes.running import noise_free  # imported here because plotting libraries load slowly

            if not summary.partial:
                noise_free.make_if_short(setup, directory)
            draw(directory)
            _write(setup, directory, summary, watch)
    except Exception as error:
        warn(directory, "the report cannot be drawn", error)
    return summary


def _write(setup: Setup, directory: Path, summary: Summary, watch: Stopwatch) -> None:
    if not (directory / "experiment.toml").exists():
        write_text(directory / "experiment.toml", headed(setup))
    watch.lap("report")
    summary.timing = watch.timing()
    write_text(directory / FILE, summary.json().decode())
