"""Do all runs of a study: python -m mpinodes.sweep [study.toml | STUDY] [key=a,b,c ...].

A study is an experiment and axes over any of its keys: lists in its tables study.grid, study.zip and study.cases, and
on the command line, study.seeds, and study.exclude. Every run is composed before the first begins. Runs are done
in lockstep, to the bits of mpirun, as many at once as there are cores; under mpirun -n N, by N - 1 ranks. The same
command, or the directory of the study, takes up what was left. Exit code 1: a run failed; 2: a run cannot be, and none
was begun.
"""

from __future__ import annotations

import os

from mpinodes.launch.threads import ONE_THREAD

os.environ.update(ONE_THREAD)  # before numpy is imported, here and by workers

import argparse
import re
import signal
import sys
from concurrent.futures import Executor
from typing import TYPE_CHECKING, cast

from mpinodes.config.arguments import Parser
from mpinodes.core.errors import BadInput
from mpinodes.launch.launching import BAD_INPUT, INTERRUPTED, command, find_world, launcher, say, show

if TYPE_CHECKING:
    from mpi4py import MPI

    from mpinodes.studies.study import Study
    from mpinodes.studies.sweeping import Part, Swept


@command
def main(argv: list[str]) -> int:
    """The whole command; returns its exit code."""
    started = launcher()
    options = _arguments().parse_intermixed_args(argv)
    if started is None or started.size == 1:
        return _alone(options)
    if options.mpi or options.slurm:
        raise BadInput("--mpi and --slurm start processes of their own: start the sweep without mpirun")
    return _over_ranks(options, find_world(started))


def _arguments() -> argparse.ArgumentParser:
    parser = Parser("sweep", __doc__)
    parser.add_argument("words", nargs="*", metavar="study.toml | STUDY | key=a,b,c", help="a study, then overrides")
    parser.add_argument("--mpi", action="store_true", help="every run by an mpirun of its own, one after the other")
    parser.add_argument("--slurm", action="store_true", help="write a job array of the study, and submit it")
    parser.add_argument("--part", metavar="K/N", help="only runs K, K + N, K + 2N, ... of the study, from 0")
    return parser


def _alone(options: argparse.Namespace) -> int:
    """By processes of this machine."""
    from mpinodes.studies import pools, slurm, sweeping
    from mpinodes.studies.plans import in_lockstep
    from mpinodes.studies.study import Study

    study, part = Study.of(options.words), _part(options.part)
    if options.slurm and (options.mpi or options.part):
        raise BadInput("--slurm goes with neither --mpi nor --part")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as an interrupt: workers are taken along
    try:
        with pools.Processes(min(pools.cores(), len(study.points()))) as pool:
            if options.slurm:
                show(slurm.submitted(study, len(sweeping.prepared(study, pool))))
                return 0
            if options.mpi:
                with pools.Processes(1) as runner:
                    swept = sweeping.sweep(study, pool, runner, pools.by_mpirun, part)
            else:
                swept = sweeping.sweep(study, pool, pool, in_lockstep, part)
    except KeyboardInterrupt:
        say(f"interrupted; the same command, or python -m mpinodes.sweep {study.place}, takes it up again")
        return INTERRUPTED
    return _told(study, swept)


def _over_ranks(options: argparse.Namespace, world: MPI.Intracomm) -> int:
    """By all ranks of a job: the first hands out whole runs."""
    from mpi4py.futures import MPICommExecutor

    from mpinodes.studies import pools, sweeping
    from mpinodes.studies.study import Study

    code = 0
    with MPICommExecutor(world, root=0) as executor:
        if executor is not None:
            try:
                study = Study.of(options.words)
                pool = pools.Ranks(cast(Executor, executor), world.size - 1)
                code = _told(study, sweeping.sweep(study, pool, pool, part=_part(options.part)))
            except BadInput as error:  # said here: the others wait for this rank
                say(f"error: {error}")
                code = BAD_INPUT
    return code


def _part(text: str | None) -> Part:
    from mpinodes.studies.sweeping import Part

    if text is None:
        return Part()
    numbers = re.fullmatch(r"(\d{1,9})/(\d{1,9})", text)
    if not numbers or int(numbers[1]) >= int(numbers[2]):
        raise BadInput(f"--part {text}: expected K/N, with K from 0 to N - 1")
    return Part(int(numbers[1]), int(numbers[2]))


def _told(study: Study, swept: Swept) -> int:
    from mpinodes.studies import sweeping

    show(sweeping.text(study, swept))
    return 1 if swept.failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
