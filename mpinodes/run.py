"""Run an experiment: mpirun -n N python -m mpinodes.run [experiment.toml] [key=value ...].

N - 1 agents and, on the last rank, the logger. Without arguments: 7 agents (-n 8) run DPSDA-PS on the digits
6 and 8. Keys are those of the TOML file, with dots: privacy.epsilon=0.5.
"""

from __future__ import annotations

import os

# Before numpy is imported: a matrix product may differ in its last bits between one thread and two.
for _library in ("OPENBLAS", "OMP", "MKL", "BLIS"):
    os.environ[f"{_library}_NUM_THREADS"] = "1"

import argparse
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from mpinodes.core.errors import BadInput

if TYPE_CHECKING:
    from mpi4py import MPI

    from mpinodes.config.setup import Parts
    from mpinodes.core.protocol import Vector
    from mpinodes.simulation.agent import Agent

BAD_INPUT, FAILED, INTERRUPTED = 2, 3, 130


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise BadInput(f"{message}; see python -m mpinodes.run --help")


def _arguments() -> _Parser:
    parser = _Parser(
        prog="python -m mpinodes.run", description=__doc__, add_help=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("words", nargs="*", metavar="experiment.toml | key=value", help="a file, then overrides")
    parser.add_argument("--lockstep", action="store_true", help="all agents in this one process, without mpirun")
    parser.add_argument("--dry-run", action="store_true", help="check everything and print the resolved experiment")
    parser.add_argument("--list", action="store_true", help="print the names of all parts")
    parser.add_argument("--explain", metavar="KEY", help="say what a key means; 'all' for every key")
    parser.add_argument("--help", action="store_true", help="print this")
    return parser


def _asked(words: list[str]) -> dict[str, Any]:
    from mpinodes.core.experiment import parse

    file = words[0] if words and "=" not in words[0] else None
    return parse(file, words[1:] if file else words)


class Launcher(NamedTuple):
    """What started this process says about it."""

    name: str
    size: int
    rank: int


def launcher() -> Launcher | None:
    """The launcher of this process, by the variables it sets; None: started by hand."""
    for name, size, rank in (
        ("Open MPI's mpirun", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"),
        ("MPICH's mpirun", "PMI_SIZE", "PMI_RANK"),
        ("srun", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID"),
    ):
        if size in os.environ and rank in os.environ:
            return Launcher(name, int(os.environ[size]), int(os.environ[rank]))
    return None


def say(message: str) -> None:
    """One line to stderr, whole."""
    os.write(2, f"mpinodes: {message}\n".encode())


def inform(options: argparse.Namespace, ranks: int | None) -> None:
    """Print what --help, --list, --explain or --dry-run ask for.

    Raises:
        BadInput: an unknown key, or an experiment that cannot be run.
    """
    from mpinodes import topology
    from mpinodes.config import explaining as explain
    from mpinodes.config import registry
    from mpinodes.config import setup as parts
    from mpinodes.config.resolve import resolve
    from mpinodes.simulation.budget import within_budget

    if options.help:
        _arguments().print_help()
    elif options.list:
        for kind in ("algorithms", "streams", "losses", "mixing", "mechanisms"):
            print(f"{kind + ':':12}", *registry.names(kind))
        print(f"{'topologies:':12}", *topology.names())
    elif options.explain:
        keys = explain.documented_keys()
        wanted = keys if options.explain == "all" else [k for k in keys if k == options.explain]
        if not wanted:
            raise BadInput(f"--explain {options.explain}: no such key; {registry.suggest(options.explain, list(keys))}")
        for key in wanted:
            print(f"{key}: {keys[key]}")
    else:
        built = parts.build(resolve(_asked(options.words), ranks))
        parts.check(built, ranks)
        print(within_budget(built.experiment).toml(), end="")


def main(argv: list[str]) -> int:
    """The whole command; returns its exit code."""
    started = launcher()
    ranks = started.size if started else None
    speaks = started is None or started.rank == 0
    try:
        options = _arguments().parse_args(argv)
        if options.help or options.list or options.explain or options.dry_run:
            if speaks:
                inform(options, ranks)
            return 0
        if options.lockstep:
            return _lockstep(options, started)
    except BadInput as error:
        if not speaks:
            time.sleep(2)  # let rank 0 be heard: some launchers end all ranks with the first that fails
        else:
            say(f"error: {error}")
        return BAD_INPUT
    return _under_mpi(options, started)


def _lockstep(options: argparse.Namespace, started: Launcher | None) -> int:
    if started and started.size > 1:
        raise BadInput("--lockstep runs all agents in one process: start it without mpirun")
    from mpinodes.core.protocol import Diverged
    from mpinodes.results import summary
    from mpinodes.simulation import lockstep

    try:
        directory, result = lockstep.run(_asked(options.words))
    except Diverged as error:
        say(f"error: {error}")
        return FAILED
    except KeyboardInterrupt:
        say("interrupted; the rounds recorded so far are kept")
        return INTERRUPTED
    except Exception as error:
        if isinstance(error, BadInput):
            raise
        say(f"error: {type(error).__name__}: {error}\n{traceback.format_exc()}")
        return FAILED
    print(summary.text(result, directory))
    return 0


def _under_mpi(options: argparse.Namespace, started: Launcher | None) -> int:
    # mpi4py warns of another MPI's launcher; `_alone` says the same, and what to do.
    warnings.filterwarnings("ignore", message="suspicious MPI execution environment")
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        say(f"error: no MPI library: {error}; pip install 'mpinodes[mpich]', or load your system's MPI")
        return BAD_INPUT
    world = MPI.COMM_WORLD
    if world.size == 1:
        return _alone(started)
    job = Job(world)
    return job.guarded(lambda: job.run(options))


def _alone(started: Launcher | None) -> int:
    """What to say where this process is a world of its own."""
    if started and started.size > 1:
        if started.rank != 0:
            time.sleep(2)
            return BAD_INPUT
        from mpi4py import MPI

        library = MPI.Get_library_version().splitlines()[0].strip().rstrip("\0")
        say(
            f"error: {started.name} started {started.size} processes, but each believes it is alone: mpi4py here uses "
            f"another MPI ({library}). Use the mpirun of that one (it lies beside this python: "
            f"{Path(sys.executable).parent / 'mpirun'}), or srun --mpi=pmi2 for MPICH and --mpi=pmix for Open MPI"
        )
        return BAD_INPUT
    say(
        "error: one process is not a network: start it with mpirun -n 8 python -m mpinodes.run (7 agents and the "
        "logger), or add --lockstep to run all agents in this process"
    )
    return BAD_INPUT


class Job:
    """One rank's part of a run: agent `rank`, or the logger on the last rank."""

    def __init__(self, world: MPI.Comm) -> None:
        self._world = world
        self._logger_rank = world.size - 1
        self._is_logger = world.rank == self._logger_rank
        self._name = "logger" if self._is_logger else f"agent {world.rank}"
        self._directory: Path | None = None
        self._agent: Agent | None = None  # of the first run

    def guarded(self, work: Callable[[], int]) -> int:
        """Run `work`; whatever it raises ends the whole job, with one line and the traceback in the log."""
        from mpinodes.core.protocol import Diverged

        try:
            return work()
        except BaseException as error:
            code = FAILED
            what = f"{type(error).__name__}: {error}"
            if isinstance(error, Diverged):
                what = str(error)
            elif isinstance(error, BadInput):
                code, what = BAD_INPUT, str(error)
            elif isinstance(error, SystemExit):
                what = f"exit({error.code})"
            elif isinstance(error, KeyboardInterrupt):
                code, what = INTERRUPTED, "interrupted; the rounds recorded so far are kept"
            self._report_failure(what)
        sys.stdout.flush()
        # Everything has been said: MPICH's own line about the abort would only be noise.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        self._world.Abort(code)
        return code

    def _report_failure(self, what: str) -> None:
        trace = f"{self._name}, rank {self._world.rank}, process {os.getpid()}\n{traceback.format_exc()}"
        message = f"error: {self._name} (rank {self._world.rank}): {what}"
        if self._directory is None:
            say(f"{message}\n{trace}")
            return
        try:
            self._directory.mkdir(parents=True, exist_ok=True)  # another host may not share the file system
            with (self._directory / "log.txt").open("a") as log:
                log.write(trace)
            # Where several ranks fail at once, the first to make this file is the one that speaks.
            with (self._directory / "failed.txt").open("x") as failed:
                failed.write(message + "\n")
        except FileExistsError:
            time.sleep(1)
            return
        except OSError:
            message += f"\n{trace}"
        say(f"{message} (traceback in {self._directory / 'log.txt'})")

    def run(self, options: argparse.Namespace) -> int:
        """Set up together, then act as agent or logger."""
        import numpy as np

        from mpinodes.simulation.network import make_wait

        np.seterr(all="ignore")  # where a run diverges the logger says so, once
        parts, b, error = self._set_up(options)
        if parts is None:
            if self._is_logger:
                say(f"error: {error}")
            return BAD_INPUT
        agents = self._world.Split(int(self._is_logger))
        channel = self._world.Dup()
        wait = make_wait(self._world)
        if self._is_logger:
            self._log(parts, b, channel)
        else:
            self._act(parts, agents, channel, wait)
        return 0

    def _set_up(self, options: argparse.Namespace) -> tuple[Parts | None, int, str]:
        """The parts on every rank, or the one error that some rank met.

        The logger alone reads the experiment and makes the run directory; every rank reads its own data.
        """
        import msgspec

        from mpinodes.config.setup import build
        from mpinodes.core.experiment import Experiment
        from mpinodes.simulation.agent import Agent
        from mpinodes.simulation.network import assemble

        parts, told = None, ("", b"", "", 0)
        if self._is_logger:
            try:
                parts, told = self._prepare(options)
            except BadInput as problem:
                told = (str(problem), b"", "", 0)
        assemble(self._world)
        error, resolved, directory, b = self._world.bcast(told, root=self._logger_rank)
        if error:
            return None, 0, error
        self._directory = Path(directory)
        if parts is None:
            try:
                parts = build(msgspec.msgpack.decode(resolved, type=Experiment))
                self._agent = Agent(self._world.rank, parts)  # which reads its samples
                parts.stream.forget()
            except BadInput as problem:
                error = f"{self._name}: {problem}"
        assemble(self._world)
        errors = [e for e in self._world.allgather(error) if e]
        if errors and self._is_logger:
            from mpinodes.results.record import unmake_directory

            unmake_directory(self._directory)
        return (None, 0, errors[0]) if errors else (parts, b, "")

    def _prepare(self, options: argparse.Namespace) -> tuple[Parts, tuple[str, bytes, str, int]]:
        import msgspec

        from mpinodes.config.resolve import resolve
        from mpinodes.config.setup import build, check
        from mpinodes.results.record import make_directory
        from mpinodes.simulation.budget import within_budget

        parts = build(resolve(_asked(options.words), self._world.size))
        b = check(parts, self._world.size)
        if parts.experiment.privacy.budget:
            parts = build(within_budget(parts.experiment))
        directory = make_directory(parts.experiment).absolute()
        return parts, ("", msgspec.msgpack.encode(parts.experiment), str(directory), b)

    def _act(self, parts: Parts, agents: MPI.Comm, comm: MPI.Comm, wait: Any) -> None:
        """The agent's whole life."""
        from mpinodes.config.setup import build
        from mpinodes.core.experiment import single_run
        from mpinodes.simulation.agent import Agent, row_width
        from mpinodes.simulation.network import Channel, Network, assemble, live

        for r in range(parts.experiment.repeats):
            mine = parts if r == 0 else build(single_run(parts.experiment, r))
            e = mine.experiment
            agent = self._agent if r == 0 and self._agent else Agent(self._world.rank, mine)
            mine.stream.forget()
            channel = Channel(comm, e.rounds, row_width(mine), e.record.chunk)
            live(agent, Network(agents, agent.frame, wait), channel, e.rounds)
        assemble(comm)  # the logger comes once the report is written

    def _log(self, parts: Parts, b: int, comm: MPI.Comm) -> None:
        """The logger's."""
        from mpi4py import MPI

        from mpinodes.results import repeats, summary
        from mpinodes.simulation.agent import row_width
        from mpinodes.simulation.network import assemble, receive_chunks

        assert self._directory is not None
        library = MPI.Get_library_version().splitlines()[0].strip().rstrip("\0")

        def rows(run: Parts) -> Iterator[Vector]:
            return receive_chunks(comm, run.experiment.rounds, row_width(run), run.experiment.record.chunk)

        text = summary.text(repeats.log(parts, self._directory, library, b, rows), self._directory)
        with (self._directory / "log.txt").open("a") as log:
            log.write(text + "\n")
        print(text, flush=True)
        assemble(comm)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
