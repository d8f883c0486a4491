"""Check this machine for problems that would stop or slow down runs: [mpirun -n 8] mpinodes doctor [DIRECTORY].

The command prints one screen of checks: the shared memory, MPI and its launcher, ranks and cores, BLAS threads, the
directory to which runs will be written (DIRECTORY; default: runs), and versions. If there are several ranks, the
command also measures the rounds per second on a ring. If the shared memory of the host is too small, the other checks
are left out.

The command changes nothing. Each result of a check begins with `ok`, `note` or `mend`. A result with `mend` says what
you have to change. Exit code 0: no result is `mend`. 1: a result is `mend`, or a rank did not answer. 2: the command
line is wrong. Any other code: MPI failed.
"""

from __future__ import annotations

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
LIMIT = 60.0  # the doctor may take this many seconds, plus one second for each rank
HANGS = "a rank or its host hangs, or MPI's traffic does not pass between hosts (firewall, interface)"


class Line(NamedTuple):
    """Hold the result of one check of this machine, as a line to print.

    Attributes:
        verdict: "ok": no problem. "note": a fact that the user may want to change. "mend": a problem to repair.
        about: the subject of the check, in one word.
        text: the result.
        advice: what the user can change; empty if there is no advice.
    """

    verdict: Literal["ok", "note", "mend"]
    about: str
    text: str
    advice: str = ""

    def __str__(self) -> str:
        head = f"{self.verdict:<5}{self.about:<9}"
        text = launching.plain(f"{self.text}: {self.advice}" if self.advice else self.text)
        return textwrap.fill(text, 110, initial_indent=head, subsequent_indent=" " * 14, break_on_hyphens=False)


class RankFacts(NamedTuple):
    """Hold what an MPI rank knows about its host and its process.

    Attributes:
        host: the name of the host.
        cores: the cores that this rank may use.
        online: the number of cores of the host.
        blas: the name, the version and the architecture of the BLAS library.
        threads: the number of threads of BLAS; 0 if the number is unknown.
        output: the check of the output directory, on the last rank; None on the other ranks, which do not write there.
    """

    host: str
    cores: frozenset[int]
    online: int
    blas: str
    threads: int
    output: Line | None


@launching.command
def main(argv: list[str]) -> int:
    """Run the command `mpinodes doctor` and return its exit code: 1 on rank 0 if a check found a problem, else 0.

    If a rank does not answer, the job is aborted with exit code 1.
    """
    os.environ.update(ONE_THREAD)  # before numpy is imported
    started = launching.launcher()
    rank, limit = (started.rank, LIMIT + started.size) if started else (0, LIMIT)
    parser = Parser("doctor", __doc__)
    parser.add_argument("directory", nargs="?", type=Path, default=Path("runs"), metavar="DIRECTORY")
    options = parser.parse_args(argv)
    launching.end_in(limit + 2 * (rank > 0))  # MPI can hang when it starts and when it ends
    if rank == 0:
        print(f"mpinodes {__version__} on {platform.node()}", flush=True)
    code = 0
    for line in examine(options.directory, started, limit):
        if rank == 0:
            print(line, flush=True)
            code = max(code, int(line.verdict == "mend"))
    return code


def examine(folder: Path, started: launching.Launcher | None, limit: float) -> Iterator[Line]:
    """Do all checks of this machine and yield their results. All ranks must call this function.

    - If the shared memory of the host is too small: no other check is done.
    - If the MPI library cannot be loaded: only this process is checked.
    - If a rank does not answer in time: a line that names this rank is printed, and all ranks are aborted with code 1.

    Args:
        folder: the output directory.
        started: the launcher of this process; None if no launcher started it.
        limit: the time limit of the doctor in seconds; one wait for other ranks may take a quarter of this time.
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
        yield Line("note", "start", "if this is the last line", HANGS if agree else how_to_start(library, started.size))
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
        print(Line("mend", "ranks", f"rank {world.rank} got nothing from rank {error.args[0][0]}", HANGS), flush=True)
        time.sleep(1)  # MPI_Abort may lose the line, so the launcher gets time to print it
        world.Abort(1)


def shared_memory() -> Line:
    """Check how much shared memory exists and is free. The MPI ranks of this host communicate through shared memory."""
    if warning := launching.shared_memory_lacks():
        return Line("mend", "memory", warning)
    stat = os.statvfs(launching.SHM)
    size, free = stat.f_frsize * stat.f_blocks, stat.f_frsize * stat.f_bavail
    text = f"{launching.SHM}: {size / 1e6:,.0f} MB, {free / 1e6:,.0f} free"
    if free < 16e6:
        return Line("mend", "memory", text, "remove files of aborted MPI jobs there, or enlarge it (--shm-size=1g)")
    return Line("ok", "memory", text)


def name_of(started: launching.Launcher) -> str:
    """Return the name of the launcher. Under srun, the name contains the value of the option --mpi."""
    # MPICH sets the variables of srun under mpirun, too.
    by_srun = "SLURM_STEP_ID" in os.environ and not {"HYDI_CONTROL_FD", "OMPI_TOOL_NAME"} & os.environ.keys()
    return f"srun --mpi={os.environ.get('SLURM_MPI_TYPE', '?')}" if by_srun else started.name


def about_launcher(started: launching.Launcher | None, size: int, library: str) -> Iterator[Line]:
    """Check that the launcher belongs to the MPI library, and yield the result of this check.

    Args:
        started: the launcher of this process; None if no known launcher started it.
        size: the number of ranks that MPI reports. It is 1 in each process if the launcher belongs to another library.
        library: the name and version of the MPI library.
    """
    name = name_of(started) if started else "a launcher that mpinodes does not know"
    if started and started.size > 1 == size:
        text = f"{name} started {started.size} processes, but each believes it is alone: mpi4py uses another MPI"
        yield Line("mend", "launcher", text, how_to_start(library, started.size))
    elif size > 1:
        advice = "add -K1, and a killed rank ends the job" if "srun" in name else ""
        yield Line("ok", "launcher", f"{name}, which belongs to this MPI library", advice)
    else:
        text = "one process, so the exchange between ranks is not tested"
        yield Line("note", "launcher", text, how_to_start(library, 8))


def how_to_start(library: str, ranks: int) -> str:
    """Return advice with a command that starts the doctor with `ranks` processes under MPI.

    - In a Slurm job with MPICH or Open MPI, the command uses srun, which itself knows the number of processes.
    - If no mpirun of the MPI library is found, the advice is to install one.

    Args:
        library: the name and version of the MPI library.
        ranks: the number of processes.
    """
    command, vendor = f"{sys.executable} -m mpinodes.doctor", launching.family(library)
    if "SLURM_JOB_ID" in os.environ and vendor in PMI:
        return f"start it with srun -K1 --mpi={PMI[vendor]} {command}"
    mpirun = launching.mpirun()
    if vendor and launching.family_of(mpirun[0]) != vendor:
        return f"no mpirun of {vendor} was found: {launching.INSTALL}"
    return f"start it with {' '.join(mpirun)} -n {ranks} {command}"


def look_around(folder: Path | None) -> RankFacts:
    """Return what this rank knows about its host and process.

    If `folder` is not None, the result includes a check that a file can be written to this directory.
    """
    import numpy.linalg  # noqa: F401 (loads BLAS)
    from threadpoolctl import threadpool_info

    pools = [pool for pool in threadpool_info() if pool["user_api"] == "blas"]
    names = {f"{pool['internal_api']} {pool['version']} for {pool.get('architecture', '?')}" for pool in pools}
    blas, threads = ", ".join(sorted(names)), max((pool["num_threads"] for pool in pools), default=0)
    cores, output = frozenset(os.sched_getaffinity(0)), try_folder(folder) if folder else None
    return RankFacts(platform.node(), cores, os.cpu_count() or 1, blas, threads, output)


def try_folder(asked: Path) -> Line:
    """Check that 1 MB can be written to the output directory.

    If the directory does not exist, its nearest parent directory that exists is checked.
    """
    folder = next(path for path in (asked.absolute(), *asked.absolute().parents) if os.path.exists(path))
    try:
        with tempfile.TemporaryFile(dir=folder) as trial:
            os.posix_fallocate(trial.fileno(), 0, 10**6)
    except OSError as error:
        return Line("mend", "output", f"cannot write to {folder} ({error.strerror})", "make room, or set output.dir")
    return Line("ok", "output", f"{folder} can be written, {shutil.disk_usage(folder).free / 1e6:,.0f} MB free")


def about_ranks(ranks: Sequence[RankFacts]) -> Iterator[Line]:
    """Check what all ranks have reported, and yield the results on cores, BLAS, output directory and versions."""
    hosts: dict[Line, list[str]] = {}  # maps each result to the hosts that have this result
    for host in {rank.host: 0 for rank in ranks}:
        hosts.setdefault(about_cores([rank for rank in ranks if rank.host == host]), []).append(host)
    yield from (line._replace(text=f"{', '.join(names)}: {line.text}") for line, names in hosts.items())
    yield about_blas(ranks)
    yield from (rank.output for rank in ranks if rank.output)
    known = {package.name: package.version for package in importlib.metadata.distributions()}
    versions = [f"{name} {known.get(name, 'missing')}" for name in PACKAGES]
    yield Line("ok", "versions", ", ".join([f"mpinodes {__version__}, Python {platform.python_version()}", *versions]))


def about_cores(ranks: Sequence[RankFacts]) -> Line:
    """Check the cores of one host: each rank should have a core, and no core should be shared while others are free."""
    n, online = len(ranks), ranks[0].online
    cores = frozenset().union(*(rank.cores for rank in ranks))
    text = f"{n} rank{'s' * (n > 1)} may use {len(cores)} of {online} cores"
    most = max(sum(1 / len(rank.cores) for rank in ranks if core in rank.cores) for core in cores)
    if most > -(-n // online) + 1e-9:
        advice = "ask the batch system or container for more, or bind no ranks (--bind-to none; MPICH: -bind-to none)"
        return Line("mend", "cores", f"{text}; {most:.3g} ranks share a core while other cores are free", advice)
    if n > len(cores):
        advice = "on one host, mpinodes run --lockstep gives the same bits in one process"
        return Line("note", "cores", f"{text}, so ranks share cores, and a run is slow", advice)
    return Line("ok", "cores", text)


def about_blas(ranks: Sequence[RankFacts]) -> Line:
    """Check that BLAS has at most one thread in each rank, and that all ranks use the same BLAS."""
    kinds, threads = sorted({rank.blas for rank in ranks}), sorted(rank.threads for rank in ranks)
    text = f"BLAS: {'; '.join(kinds)}, {threads[-1]} thread{'s' * (threads[-1] > 1)}"
    if threads[-1] > 1:
        advice = "set OPENBLAS_NUM_THREADS=1 (or MKL_, OMP_)"
        return Line("mend", "threads", f"{text}, although mpinodes asked for one", advice)
    if len(kinds) > 1:
        advice = "set the same OPENBLAS_CORETYPE on all hosts"
        return Line("note", "threads", f"{text}; numbers may be rounded differently on different hosts", advice)
    return Line("ok", "threads", text)


def time_rounds(world: MPI.Comm, waits: Waits) -> Line:
    """Measure for about one second how many rounds of messages per second the ranks can exchange.

    In a round, each rank exchanges an array of 64 numbers with its two neighbors on a ring.

    Raises:
        Overdue: an array did not arrive in time.
    """
    import numpy as np

    neighbors = sorted({(world.rank - 1) % world.size, (world.rank + 1) % world.size})
    frame, received = np.zeros(64), [np.empty(64) for _ in neighbors]

    def seconds_per_round(rounds: int) -> float:
        begun = time.perf_counter()
        for _ in range(rounds):
            requests = [world.Irecv(buffer, source=j) for buffer, j in zip(received, neighbors, strict=True)]
            requests += [world.Isend(frame, dest=j) for j in neighbors]
            waits.in_round(requests, neighbors * 2)
        return float(max(waits.share((time.perf_counter() - begun) / rounds)))

    rate = 1 / seconds_per_round(1 + int(1 / seconds_per_round(50)))
    return Line("ok", "exchange", f"{world.size} ranks on a ring, 64 numbers a frame: {rate:,.0f} rounds/s")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
