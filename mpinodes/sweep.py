"""Do all runs of a study: python -m mpinodes.sweep [study.toml | STUDY] [key=a,b,c ...].

A study is an experiment in which some keys have several values. There is a run for each combination of the values of
the keys in study.grid, of the seeds in study.seeds, and of the lists on the command line. The keys in study.zip vary
together, and so do the keys in study.cases. study.exclude leaves runs out.

The settings of all runs are checked before the first run starts. To continue a study, give the same command again, or
the directory of the study. Unless the noise is secret, the results are bit-identical to those under mpirun. The
processes that do the runs are:

- without options: as many processes as there are cores, but at most one for each run. A process may do several runs
  that differ only in the seed.
- with --mpi: a separate mpirun for each run, one after the other.
- under mpirun -n N: N - 1 ranks.

Exit code 1: a run failed. 2: the command line or the settings of a run are invalid, or the output cannot be written.
"""

from __future__ import annotations

import os

from mpinodes.launch.threads import ONE_THREAD

os.environ.update(ONE_THREAD)  # before numpy is imported, here and by workers

import signal
import sys

from mpinodes.core.errors import BadInput
from mpinodes.launch.arguments import Parser
from mpinodes.launch.launching import INTERRUPTED, command, find_world, launcher, say, show


@command
def main(argv: list[str]) -> int:
    """Run the command `mpinodes.sweep`, and return its exit code."""
    parser = Parser("sweep", __doc__)
    parser.add_words("study.toml | STUDY | key=a,b,c", "a study, then overrides")
    parser.add_argument("--mpi", action="store_true", help="start a separate mpirun for each run, one after the other")
    parser.add_argument("--slurm", action="store_true", help="write a job array for the study, and submit it to Slurm")
    parser.add_argument("--part", metavar="K/N", help="do only the runs K, K + N, K + 2N, ... of the study, from 0")
    options = parser.parse_intermixed_args(argv)
    started = launcher()
    world = find_world(started) if started and started.size > 1 else None
    if world and (options.mpi or options.slurm):
        raise BadInput("--mpi and --slurm start processes themselves: start the sweep without mpirun")
    if options.slurm and (options.mpi or options.part):
        raise BadInput("--slurm cannot be combined with --mpi or --part")
    from mpinodes.studies import slurm, sweep

    if not world:
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # SIGTERM ends the workers, as an interrupt does
    try:
        if options.slurm:
            show(slurm.submit(options.words))
            return 0
        swept = sweep(*options.words, mpi=options.mpi, part=options.part, world=world)
    except KeyboardInterrupt:
        say("interrupted; the same command continues the study")
        return INTERRUPTED
    if swept is None:
        return 0
    show(str(swept))
    return 1 if swept.failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
