"""Repeats of an experiment: repeat r is the run with seed + r, in a run directory of its own below the job's."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol

import h5py
import numpy as np
from msgspec.structs import replace

from mpinodes.config.building import build
from mpinodes.core import Setup
from mpinodes.core.checkpoints import Chunk, Kept, Stopped, discard, places
from mpinodes.core.experiment import single_run
from mpinodes.privacy.together import Together, other_data
from mpinodes.results import long_names, sources
from mpinodes.results.accounting import Accounting, together_section
from mpinodes.results.closing import combined, conclude
from mpinodes.results.logger import Logger
from mpinodes.results.record import events_in, fresh_file, write_text
from mpinodes.results.siblings import headed
from mpinodes.results.timing import Stopwatch

Json = dict[str, Any]


class Rounds(Protocol):
    """Where the rounds of a job come from."""

    def first(self, places: Sequence[Path], agents: int) -> tuple[int, Kept | None]:
        """How many repeats are done, and what the logger goes on from in the next one; None: that begins."""

    def chunks(self, run: Setup, place: Path) -> Iterable[Chunk]:
        """Of the next repeat, in its directory."""


def log(setup: Setup, directory: Path, mpi: str, rounds: Rounds, begun: float) -> Json:
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

    def follow(run: Setup, place: Path, watch: Stopwatch, kept: Kept | None) -> Json:
        logger = Logger(run, place, mpi, watch, kept)
        if stopped := logger.follow(rounds.chunks(run, place)):
            raise Stopped(directory, stopped)
        summary = logger.finish()
        if same_data:
            logger.accounting.publish(together)
        if not e.checkpoint.are_asked_for:
            discard(place)
        return summary

    def followed(run: Setup, place: Path) -> Json:
        """One that was done before."""
        summary: Json = json.loads((place / "summary.json").read_text("utf-8"))
        if same_data:
            accounting = Accounting(run)
            accounting.take(events_in(place, run.layout))
            accounting.close(np.array([summary["rounds"]]), lambda done, of: None)
            accounting.publish(together)
        return summary

    sources.keep(e, directory)
    if e.repeats == 1:
        return follow(setup, directory, Stopwatch(begun), kept)
    write_text(directory / "experiment.toml", e.toml())
    summaries: list[Json] = []
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
    records = {seed: place / "record.h5" for seed, place in enumerate(all_places, e.seed)}
    _combine_records(directory / "record.h5", records, {metric.name for metric in setup.metrics})
    summary = combined(setup.metrics, summaries)
    if same_data:
        summary["privacy"]["together"] = together_section(together, e.privacy.delta)
    watch.add(summary["timing"])
    watch.lap("report")
    conclude(e, directory, summary, watch)
    return summary


def _without_budget(run: Setup) -> Setup:
    """The same run, with the noise that the budget of all chose."""
    e = run.experiment
    return dataclasses.replace(run, experiment=replace(e, privacy=replace(e.privacy, budget=None)))


def _combine_records(path: Path, records: dict[int, Path], metrics: set[str]) -> None:
    """What is known by horizon, and metrics by round, with a dimension `repeat` in front; the rest stays where it is.

    Args:
        path: of the record to be made.
        records: of the repeats, by seed.
        metrics: their names.
    """
    with fresh_file(path) as whole:
        sources = [h5py.File(record) for record in records.values()]
        first = sources[0]
        whole.attrs.update(first.attrs)
        # Repeats may stop in different rounds: kept are those that all have, and of horizons each one's last.
        rounds = min(len(source["round"]) for source in sources)
        latest = max(int(source["horizon"][-1]) for source in sources)
        shared = [h for h in first["horizon"][:-1] if all(h in source["horizon"][:-1] for source in sources)]
        for name, values in (
            ("repeat", np.arange(len(records))),
            ("horizon", np.array([*shared, latest])),
            ("agent", first["agent"][:]),
            ("round", np.arange(1, rounds + 1)),
        ):
            dataset = whole.create_dataset(name, data=values)
            dataset.make_scale(name)
            dataset.attrs.update(long_names.attributes(name, "", ""))
        for name, dataset in first.items():
            dimensions = [axis.keys()[0] for axis in dataset.dims if axis.keys()]
            told = dimensions[:1] == ["horizon"] or (dimensions[:1] == ["round"] and name in metrics)
            if name in ("horizon", "round") or "coordinate" in dimensions or not told:
                continue
            if any(name not in source for source in sources):
                continue
            made = whole.create_dataset(
                name, data=np.stack([_kept(source, name, shared, rounds) for source in sources])
            )
            made.attrs.update({key: dataset.attrs[key] for key in ("long_name", "units")})
            for axis, dimension in enumerate(["repeat", *dimensions]):
                made.dims[axis].attach_scale(whole[dimension])
        made = whole.create_dataset("seed", data=list(records))
        made.dims[0].attach_scale(whole["repeat"])
        made.attrs.update(long_names.attributes("seed", "", ""))
        whole.attrs["coordinates"] = "seed"  # as xarray reads it
        for source in sources:
            source.close()


def _kept(source: h5py.File, name: str, shared: list[int], rounds: int) -> np.ndarray:
    """A variable of one repeat, at the horizons that all repeats have and its last, or for the rounds that all have."""
    values: np.ndarray = source[name][:]
    if source[name].dims[0].keys()[0] == "round":
        return values[:rounds]
    horizons = source["horizon"][:].tolist()
    return values[[*(horizons.index(h) for h in shared), -1]]
