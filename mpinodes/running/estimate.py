"""Estimate, before the first round, the disk space and memory of a run, and the time of its start and of its end."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from mpinodes.core import Setup
from mpinodes.core.errors import BadInput
from mpinodes.core.events import STRETCH
from mpinodes.evaluation.samples import samples_of
from mpinodes.rounds.plan import longest_chunk
from mpinodes.runlog.directories import RUNS

# Measured constants.
PRICED = 3000  # bytes of memory of privacy accounting, per agent and per round of a block
STARTED = 0.3  # CPU seconds for the start of a rank; under mpirun the ranks start in parallel
ACCOUNTED = 1e-5  # seconds of privacy accounting after the last round, per agent and round
CLOSED = 1.0  # seconds of all other work after the last round
BYTES_AT_ONCE = 4_000_000  # the approximate memory in bytes that the logger needs in addition to its rows


def record_bytes(setup: Setup) -> int:
    """Estimate the size in bytes of the log of a run (rounds.log), summed over all repeats.

    Some parts are not counted, such as checksums, the offsets of two-point feedback (with `record.decisions`), and the
    lateness of messages (with `record.transcript` and faults).
    """
    e, n, layout = setup.experiment, setup.topology.agents, setup.layout
    metrics = sum(n if "agent" in metric.dims else 1 for metric in setup.metrics if metric.dims[0] == "round")
    numbers = 1 + metrics + n * (layout.message_end - layout.dimension)
    numbers += n * layout.dimension * e.record.decisions + n * (n + setup.frame_width) * e.record.transcript
    return 8 * numbers * e.rounds * e.repeats


def logger_bytes(setup: Setup) -> tuple[int, int]:
    """Estimate how many bytes of memory the logger needs: during the rounds, and after the last round.

    The memory of Python and of the data set is not counted. After the last round, the logger also needs memory for the
    samples of all rounds, unless `data.batch` = all.
    """
    e, n, layout = setup.experiment, setup.topology.agents, setup.layout
    buffers = 4 * 8 * n * layout.width * longest_chunk(setup) + BYTES_AT_ONCE
    events = (8 * (layout.message_end - layout.dimension) + PRICED) * n * min(e.rounds, STRETCH)
    owners = n if setup.algorithm.decomposable else 1
    samples = 0 if setup.stream.batch == "all" else samples_of(setup.stream, owners, e.rounds).held_at_the_end
    return buffers, buffers + events + samples


def require_room(setup: Setup) -> None:
    """Check that the disk has room for the log and record.h5 of a run, before the first round.

    Raises:
        BadInput: the free space is less than twice the estimate of `record_bytes`, or the output directory is invalid.
    """
    output = setup.experiment.output
    place = Path(output.dir if output else RUNS)
    try:
        place = place.absolute()
        place = next(path for path in (place, *place.parents) if path.exists())
        wanted, free = 2 * record_bytes(setup), shutil.disk_usage(place).free
    except OSError as error:  # for example a name that is too long, or a working directory that was removed
        raise BadInput(f"output.dir: {place}: {error.strerror}") from error
    if wanted > free:
        raise BadInput(
            f"output.dir: log and record of {setup.experiment.rounds} rounds need {in_words(wanted)}, but {place} has "
            f"{in_words(free)} left: set another output.dir, or fewer rounds"
        )


def as_comments(setup: Setup) -> str:
    """Return estimates for a run, as comments in TOML: disk space, memory, and the time before and after the rounds.

    The estimate of the time is for cores like those on which the constants of this module were measured.
    """
    e, n = setup.experiment, setup.topology.agents
    during, end = logger_bytes(setup)
    cores = max(1, min(len(os.sched_getaffinity(0)), n + 1))
    start, finish = STARTED * (1 + (n + 1) / cores), e.repeats * (CLOSED + ACCOUNTED * n * e.rounds)
    return (
        f"# estimate: rounds.log takes {in_words(record_bytes(setup))} during the run, record.h5 less after it;\n"
        f"# the logger takes {in_words(during)} of memory during the rounds, {in_words(end)} at the end, plus data;\n"
        f"# {start:.2g} s to start under mpirun on this host, and {finish:.2g} s to finish after the last round\n"
    )


def in_words(size: int) -> str:
    """Return a size in bytes as text with a unit from kB to TB, such as "1.5 MB"."""
    power = min(max(len(str(size)) - 1, 3) // 3, 4)
    return f"{size / 1000**power:.3g} {('kB', 'MB', 'GB', 'TB')[power - 1]}"
