"""The end of a run: its rounds are judged and accounted for, then record, summary and report are written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from msgspec import structs

from mpinodes.bounds import bounds
from mpinodes.config import own_files
from mpinodes.core import Setup
from mpinodes.core.parts import Metric
from mpinodes.evaluation import evaluator, theorems
from mpinodes.evaluation.accounting import Accounting
from mpinodes.evaluation.evaluator import Evaluator
from mpinodes.evaluation.feedback import feedback_of
from mpinodes.evaluation.message_faults import faults_of
from mpinodes.finished.siblings import headed
from mpinodes.presentation import run_warnings
from mpinodes.runlog.directories import require_there, write_text
from mpinodes.runlog.export import export
from mpinodes.runlog.layout_version import VERSION
from mpinodes.runlog.reader import Reader
from mpinodes.runlog.warning import warn
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
    versions: dict[str, str],
    is_partial: bool = False,
    tell: Callable[[str, int, int], None] = lambda part, done, of: None,
) -> Summary:
    """Judge and account for the rounds of a run, write record, summary and report, and return the summary.

    Args:
        setup: of the run.
        directory: of the run, whose log holds the rounds.
        evaluator: has taken all rounds.
        accounting: has taken no rounds.
        watch: where the time of the run goes.
        shares: runs that have the same noise on other data.
        seconds: that the rounds took.
        versions: of the packages that did them.
        is_partial: whether the run was ended before its time.
        tell: is called with a part of the work, and how much of it is done, of how much.
    """
    evaluator.close(partial(tell, "comparators"))
    watch.lap("comparator")
    horizons, measured = evaluator.judged.horizons, evaluator.variables()
    require_there(directory)
    record = Reader(directory)
    rounds = record.rounds
    accounting.take(record.events(setup.layout))  # read some rounds at a time
    accounting.close(horizons, partial(tell, "privacy accounting"))
    watch.lap("accounting")
    proven = bounds(setup, horizons, evaluator.judged.best)
    watch.lap("bounds")
    export(record, directory, horizons, {**measured, **accounting.variables(), **theorems.variables(proven)})
    privacy = accounting.summary(shares)
    if is_partial:
        privacy.recorded = rounds
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
        bounds=[theorems.beside(bound, measured.get(bound.of)) for bound in proven], privacy=privacy,
        solver=accounting.solver(), seconds=seconds, versions=versions, partial=is_partial,
    )  # fmt: skip
    return conclude(setup, directory, summary, watch)


def messages(setup: Setup, rounds: int) -> int:
    """Of all agents in so many rounds: one on every edge."""
    graph, period = setup.topology, setup.topology.period or rounds
    edges = [int(graph.sends(t).sum()) for t in range(1, min(period, rounds) + 1)]
    whole, rest = divmod(rounds, period)
    return whole * sum(edges) + sum(edges[:rest])


def combined(metrics: Sequence[type[Metric]], summaries: Sequence[Summary]) -> Summary:
    """Return the summary of all repeats, every field by its rule, and the spread of means."""
    whole, spread = merged(summaries, evaluator.rules(metrics))
    whole.spread = spread
    whole.warnings = run_warnings.sentences_of_some(whole.warnings or {})
    whole.rounds_per_second = sum(summary.rounds for summary in summaries) / whole.seconds if whole.seconds else None
    whole.repeats, whole.seeds = len(summaries), [summary.seed or 0 for summary in summaries]
    return whole


def conclude(setup: Setup, directory: Path, summary: Summary, watch: Stopwatch) -> Summary:
    """Write summary.json, then draw the report if the experiment asks for one; return the summary as it is read.

    An experiment.toml that was deleted during the run is written again. A report that cannot be drawn, for whatever
    reason, is one line on stderr: the run is done, and its numbers stand.

    Args:
        setup: of the run, or of the first of its repeats.
        directory: of the run, whose record is complete.
        summary: of the run.
        watch: where its time went.
    """
    if not (directory / "experiment.toml").exists():
        write_text(directory / "experiment.toml", headed(setup))
    summary = summary.finite()
    summary.warnings = (summary.warnings or {}) | run_warnings.of_numbers(summary)
    _write(directory, summary, watch)
    try:
        if setup.experiment.report:
            from mpinodes.presentation.draw import draw
            from mpinodes.running import noise_free  # what draws takes long to import

            if not summary.partial:
                noise_free.make_if_short(setup, directory)
            draw(directory)
            _write(directory, summary, watch)
    except Exception as error:
        warn(directory, "the report cannot be drawn", error)
    return summary


def _write(directory: Path, summary: Summary, watch: Stopwatch) -> None:
    watch.lap("report")
    summary.timing = watch.timing()
    write_text(directory / FILE, summary.json().decode())
