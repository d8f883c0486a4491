"""How the summary of a run is made and written, and that of repeats is made of theirs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from msgspec import structs

from mpinodes.config import own_files
from mpinodes.core import Bound, Setup
from mpinodes.core.experiment import Experiment
from mpinodes.core.parts import Metric
from mpinodes.evaluation import evaluator
from mpinodes.evaluation.accounting import Accounting
from mpinodes.evaluation.evaluator import Evaluator
from mpinodes.evaluation.feedback import feedback_of
from mpinodes.evaluation.message_faults import faults_of
from mpinodes.evaluation.theorems import beside
from mpinodes.presentation import run_warnings
from mpinodes.runlog.directories import write_text
from mpinodes.runlog.layout_version import VERSION
from mpinodes.runlog.warning import warn
from mpinodes.summary.merging import merged
from mpinodes.summary.summary import FILE, FileSummary, Summary
from mpinodes.summary.timing import Stopwatch


def summed_up(
    setup: Setup, rounds: int, evaluator: Evaluator, bounds: Sequence[Bound], accounting: Accounting, **known: Any
) -> Summary:
    """Return the summary of a run.

    Args:
        setup: of the run.
        rounds: that were done.
        evaluator: of the run, closed.
        bounds: of theorems.
        accounting: of the run, closed.
        known: other fields of the summary.
    """
    e, faults, measured = setup.experiment, faults_of(setup, rounds), evaluator.variables()
    checked = own_files.checked(e)
    return Summary(
        version=VERSION, name=e.name, algorithm=e.algorithm.get("name", e.algorithm.get("path")),
        data=setup.stream.title, partition=e.data["partition"], decomposable=setup.algorithm.decomposable,
        topology=setup.topology.title, connectivity=setup.connected_over, agents=setup.topology.agents, rounds=rounds,
        rounds_asked=e.rounds, dimension=setup.dimension, seed=e.seed, reproducible=e.reproducible,
        judged=setup.algorithm.judged_by, agent_regret_every=e.record.agent_regret_every,
        checked=[FileSummary(**file) for file in checked] if checked else None, faults=faults,
        feedback=feedback_of(setup, rounds),
        bytes_sent=8 * setup.frame_width * (faults.sent if faults else messages(setup, rounds)),
        rounds_per_second=rounds / known["seconds"], **structs.asdict(evaluator.summary()),
        bounds=[beside(bound, measured.get(bound.of)) for bound in bounds], solver=accounting.solver(), **known,
    )  # fmt: skip


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
    whole.warnings = run_warnings.of_some(whole.warnings or {})
    whole.rounds_per_second = sum(summary.rounds for summary in summaries) / whole.seconds if whole.seconds else None
    whole.repeats, whole.seeds = len(summaries), [summary.seed or 0 for summary in summaries]
    return whole


def conclude(
    experiment: Experiment, directory: Path, summary: Summary, watch: Stopwatch, beside: Callable[[], None]
) -> Summary:
    """Write summary.json, then draw the report if the experiment asks for one; return the summary as it is read.

    A report that cannot be drawn, for whatever reason, is one line on stderr: the run is done, and its numbers stand.

    Args:
        experiment: of the run.
        directory: of the run, whose record is complete.
        summary: of the run.
        watch: where its time went.
        beside: makes what a report shows beside the run, where that takes no time to speak of.
    """
    summary = summary.finite()
    summary.warnings = (summary.warnings or {}) | run_warnings.of_numbers(summary)
    _write(directory, summary, watch)
    try:
        if experiment.report:
            from mpinodes.presentation.draw import draw

            beside()
            draw(directory)
            _write(directory, summary, watch)
    except Exception as error:
        warn(directory, "the report cannot be drawn", error)
    return summary


def _write(directory: Path, summary: Summary, watch: Stopwatch) -> None:
    watch.lap("report")
    summary.timing = watch.timing()
    write_text(directory / FILE, summary.json().decode())
