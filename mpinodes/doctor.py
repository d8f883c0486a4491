"""Check whether runs will go well on this machine: [mpirun -n 8] python -m mpinodes.doctor [DIRECTORY].

Print one screen: shared memory, MPI and its launcher, ranks and cores, BLAS threads, DIRECTORY (where runs are to be
written; default: runs), versions, and the rate of a second of rounds on a ring. Each line is `ok`, a `note`, or `mend`,
which says what to change. The doctor changes nothing itself. Exit code 0: nothing is to be mended; 1: something is, or
a rank did not answer; another: MPI itself failed.
"""

from __future__ import annotations

import faulthandler
import importlib.metadata
import os
import platform
import shutil
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from mpinodes import __version__
from mpinodes.core.errors import BadInput, Overdue
from mpinodes.launch import launching
from mpinodes.launch.arguments import Parser
from mpinodes.launch.threads import ONE_THREAD

if TYPE_CHECKING:
    from mpi4py import MPI

    from mpinodes.rounds.waiting import Waits

PMI = {"MPICH": "pmi2", "Open MPI": "pmix"}  # the --mpi= of srun
PACKAGES = ("numpy", "scipy", "mpi4py", "h5py", "networkx", "msgspec")
LIMIT = 60.0  # seconds, beside one for each rank
HANGS = "a rank or its host hangs, or MPI's traffic does not pass between hosts (firewall, interface)"


class Line(NamedTuple):
    """Hold the result of one check, with what to change."""

    verdict: Literal["ok", "note", "mend"]
    about: str
    text: str
    advice: str = ""

    def __str__(self) -> str:
        head = f"{self.verdict:<5}{self.about:<9}"
        text = launching.plain(f"{self.text}: {self.advice}" if self.advice else self.text)
        return textwrap.fill(text, 110, initial_indent=head, subsequent_indent=" " * 14, break_on_hyphens=False)


class Facts(NamedTuple):
    """Hold what a rank sees of its host and its process.

    Attributes:
        host: name of the host.
        cores: cores that this rank may use.
        online: number of cores of the host.
        blas: name, version and architecture of BLAS.
        threads: number of its threads; 0: unknown.
        output: the check of the output directory, on the last rank, which writes there.
    """

    host: str
    cores: frozenset[int]
    online: int
    blas: str
    threads: int
    output: Line | None


@launching.command
def main(argv: list[str]) -> int:
    """Run the whole command and return its exit code; only rank 0 prints and fails, as far as it can."""
    os.environ.update(ONE_THREAD)  # before numpy is imported
    started = launching.launcher()
    rank = started.rank if started else 0
    parser = Parser("doctor", __doc__)
    parser.add_argument("directory", nargs="?", type=Path, default=Path("runs"), metavar="DIRECTORY")
    limit = LIMIT + (started.size if started else 0)
    options = parser.parse_args(argv)
    # mpi4py holds the lock of Python while MPI starts, so no thread of Python could end a start that hangs. This timer
    # can, and stays until the process is gone, because MPI can hang as it ends, too.
    faulthandler.dump_traceback_later(limit + 2 * (rank > 0), exit=True)
    if rank == 0:
        print(f"mpinodes {__version__} on {platform.node()}", flush=True)
    code = 0
    for line in examine(options.directory, started, limit):
        if rank == 0:
            print(line, flush=True)
            code = max(code, int(line.verdict == "mend"))
    return code


def examine(folder: Path, started: launching.Launcher | None, limit: float) -> Iterator[Line]:
    """Yield the result of each check, for rank 0 to print; a collective call.

    What can be seen without MPI comes first, because an MPI that cannot start may end its process.
    """
    yield shared_memory()
    if launching.shared_memory_lacks():
        return
    try:
        launching.load_mpi()
    except BadInput as error:
        yield Line("mend", "MPI", str(error))
        yield from about_ranks([look_around(folder)])
        return
    from mpi4py import MPI

    vendor, numbers = MPI.get_vendor()
    library = f"{vendor} {'.'.join(map(str, numbers))}"
    yield Line("ok", "MPI", library)
    if started and started.size > 1:
        agree = launching.family(name_of(started)) in ("", launching.family(library))
        yield Line("note", "start", "if no line follows", HANGS if agree else how_to_start(library, started.size))
    MPI.Init_thread()
    world = MPI.COMM_WORLD
    yield from about_launcher(started, world.size, library)
    from mpinodes.rounds.waiting import Waits

    facts, waits = look_around(folder if world.rank == world.size - 1 else None), Waits(world, limit / 4)
    try:
        yield from about_ranks(waits.share(facts))
        if world.size > 1:
            yield time_rounds(world, waits)
    except Overdue as error:
        print(Line("mend", "ranks", f"rank {world.rank} waits in vain for rank {error.args[0][0]}", HANGS), flush=True)
        time.sleep(1)  # in which the launcher passes the line on: MPI_Abort may lose it
        world.Abort(1)


def shared_memory() -> Line:
    """Check the shared memory of this host, through which its ranks exchange messages."""
    if warning := launching.shared_memory_lacks():
        return Line("mend", "memory", warning)
    stat = os.statvfs(launching.SHM)
    size, free = stat.f_frsize * stat.f_blocks, stat.f_frsize * stat.f_bavail
    text = f"{launching.SHM}: {size / 1e6:,.0f} MB, {free / 1e6:,.0f} free"
    if free < 16e6:
        return Line("mend", "memory", text, "remove what aborted MPI jobs left, or give it more (--shm-size=1g)")
    return Line("ok", "memory", text)


def name_of(started: launching.Launcher) -> str:
    """Return the name of the launcher; MPICH's PMI looks the same under mpirun and under srun."""
    by_srun = "SLURM_STEP_ID" in os.environ and not {"HYDI_CONTROL_FD", "OMPI_TOOL_NAME"} & os.environ.keys()
    return f"srun --mpi={os.environ.get('SLURM_MPI_TYPE', '?')}" if by_srun else started.name


def about_launcher(started: launching.Launcher | None, size: int, library: str) -> Iterator[Line]:
    """Check that launcher and library agree: then the world has as many ranks as the launcher started."""
    name = name_of(started) if started else "a launcher that mpinodes does not know"
    if started and started.size > 1 == size:
        text = f"{name} started {started.size} processes, but each believes it is alone, for mpi4py uses another MPI"
        yield Line("mend", "launcher", text, how_to_start(library, started.size))
    elif size > 1:
        advice = "give it -K1, or it waits for the others where a rank is killed" if name.startswith("srun") else ""
        yield Line("ok", "launcher", f"{name}, which fits", advice)
    else:
        yield Line("note", "launcher", "one process, which is no network", how_to_start(library, 8))


def how_to_start(library: str, ranks: int) -> str:
    """Return the command that starts processes of this Python's MPI on this machine."""
    words, mine = f"{sys.executable} -m mpinodes.doctor", launching.family(library)
    if "SLURM_JOB_ID" in os.environ and mine in PMI:
        return f"start it with srun -K1 --mpi={PMI[mine]} {words}"
    mpirun = launching.mpirun()
    if mine and launching.family_of(mpirun[0]) != mine:
        return f"no mpirun of {mine} is at hand: {launching.INSTALL}"
    return f"start it with {' '.join(mpirun)} -n {ranks} {words}"


def look_around(folder: Path | None) -> Facts:
    """Return what this rank sees; the rank that has a `folder` tries to write there."""
    import numpy.linalg  # noqa: F401 (loads BLAS)
    from threadpoolctl import threadpool_info

    pools = [pool for pool in threadpool_info() if pool["user_api"] == "blas"]
    names = {f"{pool['internal_api']} {pool['version']} for {pool.get('architecture', '?')}" for pool in pools}
    blas, threads = ", ".join(sorted(names)), max((pool["num_threads"] for pool in pools), default=0)
    cores, output = frozenset(os.sched_getaffinity(0)), try_folder(folder) if folder else None
    return Facts(platform.node(), cores, os.cpu_count() or 1, blas, threads, output)


def try_folder(asked: Path) -> Line:
    """Write a file to the directory where runs are to be written, or to where that would be made."""
    folder = next(path for path in (asked.absolute(), *asked.absolute().parents) if os.path.exists(path))
    try:
        with tempfile.TemporaryFile(dir=folder) as trial:
            trial.write(bytes(10**6))
            trial.flush()
            os.fsync(trial.fileno())
    except OSError as error:
        return Line("mend", "output", f"cannot write to {folder} ({error.strerror})", "make room, or set output.dir")
    return Line("ok", "output", f"{folder} can be written, {shutil.disk_usage(folder).free / 1e6:,.0f} MB free")


def about_ranks(ranks: Sequence[Facts]) -> Iterator[Line]:
    """Yield checks of what all ranks see: cores, BLAS, output directory, versions."""
    lines = [about_cores([rank for rank in ranks if rank.host == host]) for host in {rank.host: 0 for rank in ranks}]
    yield max(lines, key=lambda line: ("ok", "note", "mend").index(line.verdict))  # of the worst host
    yield about_blas(ranks)
    yield from (rank.output for rank in ranks if rank.output)
    known = {package.name: package.version for package in importlib.metadata.distributions()}
    versions = {"mpinodes": __version__, "Python": platform.python_version()}
    versions |= {name: known.get(name, "missing") for name in PACKAGES}
    yield Line("ok", "versions", ", ".join(f"{name} {version}" for name, version in versions.items()))


def about_cores(ranks: Sequence[Facts]) -> Line:
    """Check how the ranks of one host share its cores."""
    n, online = len(ranks), ranks[0].online
    cores = frozenset().union(*(rank.cores for rank in ranks))
    text = f"{ranks[0].host}: {n} rank{'s' * (n > 1)} may use {len(cores)} of {online} cores"
    most = max(sum(1 / len(rank.cores) for rank in ranks if core in rank.cores) for core in cores)
    if most > -(-n // online) + 1e-9:
        advice = "ask the batch system or container for more, or bind no ranks (--bind-to none; MPICH: -bind-to none)"
        return Line("mend", "cores", f"{text}, {most:.3g} of them on one while other cores are free", advice)
    if n > len(cores):
        advice = "on one host, mpinodes run --lockstep gives the same bits in one process"
        return Line("note", "cores", f"{text} and take turns, which is slow", advice)
    return Line("ok", "cores", text)


def about_blas(ranks: Sequence[Facts]) -> Line:
    """Check that BLAS has one thread in each rank, and is the same on all hosts."""
    kinds, threads = sorted({rank.blas for rank in ranks}), sorted(rank.threads for rank in ranks)
    text = f"BLAS: {'; '.join(kinds)}, {threads[-1]} thread{'s' * (threads[-1] > 1)}"
    if threads[-1] > 1:
        return Line("mend", "threads", f"{text}, though mpinodes asked for one", "set it to 1 in the environment")
    if len(kinds) > 1:
        return Line("note", "threads", f"{text}; hosts round differently", "set OPENBLAS_CORETYPE to one for all")
    return Line("ok", "threads", text)


def time_rounds(world: MPI.Comm, waits: Waits) -> Line:
    """Time a second of rounds, in which each rank exchanges a frame with the rank before and after it on a ring.

    Raises:
        Overdue: a frame does not come.
    """
    import numpy as np
    from mpi4py import MPI

    neighbors = sorted({(world.rank - 1) % world.size, (world.rank + 1) % world.size})
    frame = np.zeros(64)
    requests = [world.Recv_init(np.empty_like(frame), source=j) for j in neighbors]
    requests += [world.Send_init(frame, dest=j) for j in neighbors]

    def seconds_per_round(rounds: int) -> float:
        begun = time.perf_counter()
        for _ in range(rounds):
            MPI.Prequest.Startall(requests)
            waits.in_round(requests, neighbors * 2)
        return float(world.allreduce((time.perf_counter() - begun) / rounds, MPI.MAX))

    rate = 1 / seconds_per_round(1 + int(1 / seconds_per_round(50)))
    for request in requests:
        request.Free()
    return Line("ok", "exchange", f"{world.size} ranks on a ring, 64 numbers a frame: {rate:,.0f} rounds/s")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
