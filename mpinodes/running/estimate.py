"""What a run will take of disk and memory, from the facts of its set-up: an estimate, made before the first round."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from mpinodes.core import Setup
from mpinodes.core.errors import BadInput
from mpinodes.core.events import STRETCH
from mpinodes.core.experiment import chunk_rounds
from mpinodes.evaluation.samples import Samples
from mpinodes.runlog.directories import RUNS
from mpinodes.runlog.log import BYTES_AT_ONCE

PRICED = 3000  # bytes of the ledger for a round of one agent, of those that are priced together, as measured
STARTED = 0.3  # seconds of a core for a rank, as measured: under mpirun ranks start side by side
ACCOUNTED = 1e-5  # seconds for a round of one agent, once all are done, as measured
CLOSED = 1.0  # seconds for all else then


def record_bytes(setup: Setup) -> int:
    """Return the size of rounds.log, all repeats together, without its checksums."""
    e, n, layout = setup.experiment, setup.topology.agents, setup.layout
    metrics = sum(n if "agent" in metric.dims else 1 for metric in setup.metrics if metric.dims[0] == "round")
    numbers = 1 + metrics + n * (layout.message_end - layout.dimension)
    numbers += n * layout.dimension * e.record.decisions + n * (n + setup.frame_width) * e.record.transcript
    return 8 * numbers * e.rounds * e.repeats


def logger_bytes(setup: Setup) -> tuple[int, int]:
    """Memory of the logger beside Python's and the data's own: while rounds come, and at the end.

    In the end the comparator has all samples before it, but of quadratic losses that are drawn anew in every round.
    """
    e, n, layout = setup.experiment, setup.topology.agents, setup.layout
    buffers = 4 * 8 * n * layout.width * chunk_rounds(e, layout.width) + BYTES_AT_ONCE
    together = n * min(e.rounds, STRETCH)
    return buffers, buffers + (8 * (layout.message_end - layout.dimension) + PRICED) * together + _held(setup)


def _held(setup: Setup) -> int:
    if setup.experiment.data.get("batch") == "all":
        return 0
    owners = setup.topology.agents if setup.algorithm.decomposable else 1
    return Samples(setup.stream, owners, setup.experiment.rounds).held_at_the_end


def seconds(setup: Setup) -> tuple[float, float]:
    """From the start to the first round under mpirun, and from the last round to the end, on cores like these."""
    e, n = setup.experiment, setup.topology.agents
    cores = max(1, min(len(os.sched_getaffinity(0)), n + 1))
    return STARTED * (1 + (n + 1) / cores), e.repeats * (CLOSED + ACCOUNTED * n * e.rounds)


def require_room(setup: Setup) -> None:
    """Refuse a run whose log and record.h5 do not fit on the disk beside each other, before its first round.

    Raises:
        BadInput: it does not, as far as that is known.
    """
    output = setup.experiment.output
    place = Path(output.dir if output else RUNS)
    try:
        place = place.absolute()
        while not place.exists() and place != place.parent:
            place = place.parent
        wanted, free = 2 * record_bytes(setup), shutil.disk_usage(place).free
    except OSError as error:  # a name that is too long, or a working directory that was removed
        raise BadInput(f"output.dir: {place}: {error.strerror}") from error
    if wanted > free:
        raise BadInput(
            f"output.dir: log and record of {setup.experiment.rounds} rounds take {in_words(wanted)}, and {place} has "
            f"{in_words(free)} left: write elsewhere, or take fewer rounds"
        )


def told(setup: Setup) -> str:
    """What to expect, as comments below an experiment."""
    rounds, end = logger_bytes(setup)
    start, finish = seconds(setup)
    return (
        f"# an estimate: rounds.log takes {in_words(record_bytes(setup))} while the run goes on, record.h5 then less;\n"
        f"# the logger, beside data, {in_words(rounds)} of memory while rounds come and {in_words(end)} at the end;\n"
        f"# {start:.2g} s to start under mpirun on this host, and {finish:.2g} s to finish after the last round\n"
    )


def in_words(size: int) -> str:
    """Bytes as people read them."""
    power = min(max(len(str(size)) - 1, 3) // 3, 4)
    return f"{size / 1000**power:.3g} {('kB', 'MB', 'GB', 'TB')[power - 1]}"
