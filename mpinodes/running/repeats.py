"""Repeats of an experiment: repeat r is the run with seed + r, in a run directory of its own below the job's."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol

import numpy as np
from msgspec.structs import replace

from mpinodes.config import own_files as sources
from mpinodes.config.building import build
from mpinodes.core import Setup
from mpinodes.core.experiment import single_run
from mpinodes.evaluation.accounting import Accounting, together_section
from mpinodes.finished.siblings import files_mark_of, headed
from mpinodes.privacy.together import Together, other_data
from mpinodes.runlog.checkpoints import Chunk, Kept, Stopped, discard, places
from mpinodes.runlog.directories import write_text
from mpinodes.runlog.export import add_dimension, add_variable, new_record
from mpinodes.runlog.log import Variable
from mpinodes.runlog.reader import Reader
from mpinodes.running.closing import combined, conclude
from mpinodes.running.logger import Logger
from mpinodes.summary.summary import Summary
from mpinodes.summary.timing import Stopwatch


class RoundsSource(Protocol):
    """Where the rounds of a job come from.

    Attributes:
        times: what those of the last repeat took of each rank, the logger last: seconds at work, and waiting; None: all
            were done in one process.
    """

    times: list[list[float]] | None

    def first(self, places: Sequence[Path], agents: int) -> tuple[int, Kept | None]:
        """How many repeats are done, and what the logger goes on from in the next one; None: that begins."""

    def chunks(self, run: Setup, place: Path) -> Iterable[Chunk]:
        """Of the next repeat, in its directory."""


def log(setup: Setup, directory: Path, mpi: str, rounds: RoundsSource, begun: float) -> Summary:
    """Follow every run of an experiment, whose first set-up is built already; returns the summary of them all.

    Args:
        setup: of the first.
        directory: where they are recorded.
        mpi: the library's name.
        rounds: of all of them.
        begun: when the command did, by `time.perf_counter`.

    Raises:
        Stopped: a run was asked to.
    """
    e = setup.experiment
    same_data = e.repeats > 1 and e.private and not other_data(setup)
    together = Together(e.privacy.adjacency)
    all_places = places(directory, e.repeats)
    done, kept = rounds.first(all_places, setup.topology.agents)

    def follow(run: Setup, place: Path, watch: Stopwatch, kept: Kept | None) -> Summary:
        logger = Logger(run, place, mpi, watch, kept)
        if stopped := logger.follow(rounds.chunks(run, place)):
            raise Stopped(directory, stopped)
        watch.of_ranks(rounds.times)
        summary = logger.finish()
        if same_data:
            logger.accounting.publish(together, files_mark_of(place / "experiment.toml"))
        if not e.checkpoint.every:
            discard(place)
        return summary

    def followed(run: Setup, place: Path) -> Summary:
        """One that was done before."""
        summary = Summary.read(place)
        if same_data:
            accounting = Accounting(run)
            accounting.take(Reader(place).events(run.layout))
            accounting.close(np.array([summary.rounds]), lambda done, of: None)
            accounting.publish(together, files_mark_of(place / "experiment.toml"))
        return summary

    sources.keep(e, directory)
    if e.repeats == 1:
        return follow(setup, directory, Stopwatch(begun), kept)
    write_text(directory / "experiment.toml", e.toml())
    summaries: list[Summary] = []
    for r, place in enumerate(all_places):
        alone = build(replace(single_run(e, r), report=False))
        run = dataclasses.replace(alone, connected_over=setup.connected_over, metrics=setup.metrics)
        place.mkdir(exist_ok=True)
        watch = Stopwatch(None if summaries else begun)
        known = followed(run, place) if r < done else follow(run, place, watch, kept if r == done else None)
        summaries.append(known)
        if e.privacy.budget and e.privacy.budget.kept_by == "noise":  # alone it would take less
            write_text(place / "experiment.toml", headed(_without_budget(run)))
    watch = Stopwatch()
    records = dict(enumerate(all_places, e.seed))
    _combine_records(directory, records, {metric.name for metric in setup.metrics})
    summary = combined(setup.metrics, summaries)
    if same_data:
        summary.privacy.together = together_section(together, e.privacy.delta)
    assert summary.timing is not None
    watch.add(summary.timing)
    watch.lap("report")
    return conclude(setup, directory, summary, watch)


def _without_budget(run: Setup) -> Setup:
    """The same run, with the noise that the budget of all chose."""
    e = run.experiment
    return dataclasses.replace(run, experiment=replace(e, privacy=replace(e.privacy, budget=None)))


def _combine_records(run: Path, places: dict[int, Path], metrics: set[str]) -> None:
    """What is known by horizon, and metrics by round, with a dimension `repeat` in front; the rest stays where it is.

    Args:
        run: where it is to be made.
        places: run directories of the repeats, by seed.
        metrics: their names.
    """
    with ExitStack() as opened:
        sources = [opened.enter_context(Reader(place)) for place in places.values()]
        first = sources[0]
        words = {name: word for name, word in first.attrs.items() if isinstance(word, str)}
        whole = opened.enter_context(new_record(run, {**words, "coordinates": "seed"}))  # as xarray reads it
        # Repeats may stop in different rounds: kept are those that all have, and of horizons each one's last.
        rounds = min(source.rounds for source in sources)
        horizons = [source.read("horizon").values.tolist() for source in sources]
        shared = [h for h in horizons[0][:-1] if all(h in others[:-1] for others in horizons)]
        add_dimension(whole, "repeat", np.arange(len(places)))
        add_dimension(whole, "horizon", np.array([*shared, max(each[-1] for each in horizons)]))
        add_dimension(whole, "agent", first.read("agent").values)
        add_dimension(whole, "round", np.arange(1, rounds + 1))
        for name in first.names:
            if any(name not in source for source in sources):
                continue
            found = first.read(name, slice(0))
            by_horizon = found.dims[0] == "horizon"
            told = by_horizon or (found.dims[0] == "round" and name in metrics)
            if found.dims == (name,) or "coordinate" in found.dims or not told:
                continue
            if by_horizon:
                kept = zip(sources, ([*map(each.index, shared), -1] for each in horizons), strict=True)
                values = [source.read(name).values[at] for source, at in kept]
            else:
                values = [source.read(name, slice(rounds)).values for source in sources]
            add_variable(whole, name, found._replace(dims=("repeat", *found.dims), values=np.stack(values)))
        add_variable(whole, "seed", Variable(("repeat",), np.array(list(places))))
