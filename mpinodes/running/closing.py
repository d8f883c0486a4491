"""What summary.json holds, and how that of repeats is made of theirs."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from mpinodes.config import own_files as sources
from mpinodes.core import Setup
from mpinodes.core.experiment import Experiment
from mpinodes.core.parts import Metric
from mpinodes.evaluation import accounting, evaluator, feedback, theorems
from mpinodes.evaluation import message_faults as faults
from mpinodes.presentation import run_warnings
from mpinodes.runlog.layout_version import VERSION
from mpinodes.runlog.record import write_text
from mpinodes.runlog.warning import warn
from mpinodes.summary import timing
from mpinodes.summary.combining import Json, Rules, combine, largest, least, same, spreads, total
from mpinodes.summary.timing import Stopwatch

FACTS: Rules = {
    "version": same, "name": same, "algorithm": same, "data": same, "partition": same, "decomposable": same,
    "topology": same, "connectivity": same, "agents": same, "rounds": largest, "rounds_asked": same,
    "partial": largest, "dimension": same,
    "seed": least, "reproducible": same, "judged": same, "agent_regret_every": same, "bounds": theorems.combine,
    "versions": same, "checked": same, "faults": faults.RULES, "feedback": same, "bytes_sent": total,
    "warnings": run_warnings.of_some, "timing": timing.RULES, "seconds": total,
    "rounds_per_second": same,  # made of the sums
}  # fmt: skip


def facts(setup: Setup, rounds: int, seconds: float, versions: dict[str, str]) -> Json:
    """What was run."""
    e = setup.experiment
    befell = faults.told(setup, rounds)
    return {
        "version": VERSION,
        "name": e.name,
        "algorithm": e.algorithm.get("name", e.algorithm.get("path")),
        "data": setup.stream.title,
        "partition": e.data["partition"],
        "decomposable": setup.algorithm.decomposable,
        "topology": setup.topology.title,
        "connectivity": setup.connected_over,
        "agents": setup.topology.agents,
        "rounds": rounds,
        "rounds_asked": e.rounds,
        "partial": False,
        "dimension": setup.dimension,
        "seed": e.seed,
        "reproducible": e.reproducible,
        "judged": setup.algorithm.judged_by,
        "agent_regret_every": e.record.agent_regret_every,
        "checked": sources.checked(e),
        "faults": befell,
        "feedback": feedback.told(setup, rounds),
        "bytes_sent": 8 * setup.frame_width * (befell["sent"] if befell else messages(setup, rounds)),
        "seconds": seconds,
        "rounds_per_second": rounds / seconds,
        "versions": versions,
    }


def messages(setup: Setup, rounds: int) -> int:
    """Of all agents in so many rounds: one on every edge."""
    graph, period = setup.topology, setup.topology.period or rounds
    edges = [int(graph.sends(t).sum()) for t in range(1, min(period, rounds) + 1)]
    whole, rest = divmod(rounds, period)
    return whole * sum(edges) + sum(edges[:rest])


def combined(metrics: Sequence[type[Metric]], summaries: Sequence[Json]) -> Json:
    """The summary of all repeats, every key by its rule, and the spread of means."""
    rules = {**FACTS, **evaluator.rules(metrics), **accounting.RULES}
    whole: Json = combine(rules, summaries) or {}
    whole["rounds_per_second"] = sum(s["rounds"] for s in summaries) / whole["seconds"]
    return whole | {
        "repeats": len(summaries),
        "seeds": [s["seed"] for s in summaries],
        "spread": spreads(rules, summaries),
    }


def conclude(
    experiment: Experiment, directory: Path, summary: Json, watch: Stopwatch, beside: Callable[[], None]
) -> None:
    """Write `summary.json` and then, where asked for, draw the report, once the record is complete.

    A report that cannot be drawn, for whatever reason, is one line on stderr: the run is done, and its numbers stand.

    Args:
        experiment: the run's.
        directory: the run's.
        summary: of it.
        watch: where its time went.
        beside: makes what a report shows beside the run, where that takes no time to speak of.
    """
    summary["warnings"] = (summary.get("warnings") or {}) | run_warnings.of_numbers(summary)
    _write(directory, summary, watch)
    try:
        if experiment.report:
            from mpinodes.presentation.draw import draw

            beside()
            draw(directory)
            _write(directory, summary, watch)
    except Exception as error:
        warn(directory, "the report cannot be drawn", error)


def _write(directory: Path, summary: Json, watch: Stopwatch) -> None:
    watch.lap("report")
    summary["timing"] = watch.seconds()
    write_text(directory / "summary.json", json.dumps(without_infinity(summary), indent=2, allow_nan=False) + "\n")


def without_infinity(value: Any) -> Any:
    """JSON has no infinity: a number that is not finite (a run that almost diverged) becomes null."""
    if isinstance(value, dict):
        return {key: without_infinity(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [without_infinity(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
