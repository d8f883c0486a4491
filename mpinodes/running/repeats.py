"""Log all repeats of an experiment: runs that differ only in the seed.

Repeat number r = 0, 1, ... has the seed of the experiment plus r. If there are several repeats, each repeat has a
subdirectory of the run directory:

    <run directory>/
        experiment.toml, record.h5, summary.json    of all repeats together
        repeat-<number>/                            the run directory of one repeat
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec.structs import replace

from mpinodes.config import own_files as sources
from mpinodes.config.building import build
from mpinodes.core import Setup
from mpinodes.core.experiment import single_run
from mpinodes.evaluation.accounting import Accounting, together_section
from mpinodes.finished.siblings import files_mark_of, headed
from mpinodes.privacy.together import Together, other_data
from mpinodes.runlog.checkpoints import Kept, Stopped, discard, places
from mpinodes.runlog.directories import write_text
from mpinodes.runlog.export import add_dimension, add_variable, new_record
from mpinodes.runlog.log import Variable
from mpinodes.runlog.reader import Reader
from mpinodes.running.closing import combined, conclude
from mpinodes.running.logger import Logger
from mpinodes.summary.summary import Summary
from mpinodes.summary.timing import Stopwatch

if TYPE_CHECKING:
    from mpinodes.running.job import Job


def log(setup: Setup, directory: Path, mpi: str, job: Job, begun: float) -> Summary:
    """Log and finish all repeats of an experiment, and return the summary of all repeats together.

    Args:
        setup: the set-up of the first repeat.
        directory: the run directory.
        mpi: the name of the MPI library, for the record.
        job: provides the numbers that the agents log. The ranks of the agents send them, or the job computes them.
        begun: the time at which the command started, from `time.perf_counter`.

    Raises:
        Stopped: a signal stopped the run.
        Diverged: a decision in a repeat is not finite.
    """
    e = setup.experiment
    same_data = e.repeats > 1 and e.private and not other_data(setup)
    together = Together(e.privacy.adjacency)
    all_places = places(directory, e.repeats)
    done, checkpoint = job.first(all_places, setup.topology.agents)

    def follow(run: Setup, place: Path, watch: Stopwatch, checkpoint: Kept | None) -> Summary:
        logger = Logger(run, place, mpi, watch, checkpoint)
        if stopped := logger.follow(job.chunks(run, place)):
            raise Stopped(directory, stopped)
        watch.of_ranks(job.times)
        summary = logger.finish()
        if same_data:
            logger.accounting.publish(together, files_mark_of(place / "experiment.toml"))
        if not e.checkpoint.every:
            discard(place)
        return summary

    sources.keep(e, directory)
    if e.repeats == 1:
        return follow(setup, directory, Stopwatch(begun), checkpoint)
    write_text(directory / "experiment.toml", e.toml())
    summaries: list[Summary] = []
    for r, place in enumerate(all_places):
        alone = build(replace(single_run(e, r), report=False))
        run = dataclasses.replace(alone, connected_over=setup.connected_over, metrics=setup.metrics, asked=setup.asked)
        place.mkdir(exist_ok=True)
        watch = Stopwatch(None if summaries else begun)
        if r >= done:
            summaries.append(follow(run, place, watch, checkpoint if r == done else None))
        else:  # this repeat was complete before the run was resumed
            summaries.append(Summary.read(place))
            if same_data:
                accounting = Accounting(run)
                horizons = np.array([summaries[r].rounds])
                accounting.close(Reader(place).events(run.layout), horizons, lambda done, of: None)
                accounting.publish(together, files_mark_of(place / "experiment.toml"))
        if e.privacy.budget and e.privacy.budget.kept_by == "noise":  # a rerun of one repeat must not choose less noise
            single = replace(run.experiment, privacy=replace(run.experiment.privacy, budget=None))
            write_text(place / "experiment.toml", headed(dataclasses.replace(run, experiment=single)))
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


def _combine_records(run: Path, places: dict[int, Path], metrics: set[str]) -> None:
    """Write one record of all repeats, in which the first dimension of each variable is `repeat`.

    The record has the metrics of each round, the variables with a dimension `horizon` (rounds at which results are
    measured), and the seeds. Variables with a dimension `coordinate`, or that a repeat lacks, are left out.

    Args:
        run: the run directory, to which the record is written.
        places: the directory of each repeat, by seed.
        metrics: the names of the metrics.
    """
    with ExitStack() as opened:
        sources = [opened.enter_context(Reader(place)) for place in places.values()]
        first = sources[0]
        texts = {name: text for name, text in first.attrs.items() if isinstance(text, str)}
        # xarray reads the attribute "coordinates", which names variables that label a dimension.
        merged = opened.enter_context(new_record(run, {**texts, "coordinates": "seed"}))
        # Repeats may end in different rounds. The record contains the rounds and horizons that all repeats have, and
        # the last horizon of each repeat.
        rounds = min(source.rounds for source in sources)
        horizons = [source.read("horizon").values.tolist() for source in sources]
        shared = [h for h in horizons[0][:-1] if all(h in others[:-1] for others in horizons)]
        add_dimension(merged, "repeat", np.arange(len(places)))
        add_dimension(merged, "horizon", np.array([*shared, max(of_repeat[-1] for of_repeat in horizons)]))
        add_dimension(merged, "agent", first.read("agent").values)
        add_dimension(merged, "round", np.arange(1, rounds + 1))
        ends = [[*map(of_repeat.index, shared), -1] for of_repeat in horizons]
        for name in first.names:
            variable = first.read(name, slice(0))
            dims, by_horizon = variable.dims, variable.dims[0] == "horizon"
            is_merged = by_horizon or (dims[0] == "round" and name in metrics)
            if not is_merged or dims == (name,) or "coordinate" in dims or any(name not in s for s in sources):
                continue
            parts: Sequence[Any] = ends if by_horizon else [slice(rounds)] * len(sources)
            values = [source.read(name).values[part] for source, part in zip(sources, parts, strict=True)]
            add_variable(merged, name, variable._replace(dims=("repeat", *dims), values=np.stack(values)))
        add_variable(merged, "seed", Variable(("repeat",), np.array(list(places))))
