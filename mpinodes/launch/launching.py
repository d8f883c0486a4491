"""Find out how this process was started, start and end MPI, and print messages.

`launcher` reads the variables of mpirun or srun, `find_world` starts MPI, and `leave` ends it. `command` wraps the
main function of every command: it prints errors and chooses exit codes. The constants hold all exit codes.
"""

from __future__ import annotations

import gc
import os
import re
import signal
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import wraps
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from mpinodes.core.asked import as_typed
from mpinodes.core.errors import BadInput

if TYPE_CHECKING:
    from mpi4py import MPI

BAD_INPUT, FAILED, OVERDUE, STOPPED, INTERRUPTED, NOBODY_READS = 2, 3, 4, 5, 130, 141
LEAVE_TAKING, START, LEAST_START = 20, 600, 10  # seconds: to end MPI; to start it, by default; to start it, at least
INSTALL = "pip install 'mpinodes[mpich]', or load your system's MPI (module load ...)"
LONGER = "longer waits: deadline.seconds=<seconds> or inf"
NOT_STARTED = f"MPI did not start or end in time, or a file system hangs (see ps: state T, R or D); {LONGER}"
BEGAN = time.perf_counter()  # the time at which this process began, approximately
MANY = 100  # ranks of one host from which on MPICH uses libfabric: see `find_world`
HALF = 240  # characters: of a longer line, so many are printed from each end
# Environment variables that make libraries fail when they start, or write to other places:
MISLEADING = ("MPLBACKEND", "SOURCE_DATE_EPOCH", "PANDAS_", "HDF5_DRIVER", "HDF5_VOL_CONNECTOR")
SHM = "/dev/shm"  # where MPI's ranks share memory
# Bytes of shared memory under UCX, as measured: for each of many ranks, and for a single rank.
RANK_TAKES, ONE_TAKES = 6_500_000, 20_000_000


class Launcher(NamedTuple):
    """Hold what the launcher of this process states in environment variables.

    Attributes:
        name: the name of the launcher.
        size: the number of processes that it started.
        rank: the rank of this process.
        here: the number of processes on this host, under MPICH's mpirun; 0 under other launchers.
    """

    name: str
    size: int
    rank: int
    here: int = 0


def launcher() -> Launcher | None:
    """Return the launcher of this process; None if the environment names none, as in a process started by hand."""
    for name, *variables in (
        ("Open MPI's mpirun", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"),
        ("MPICH's mpirun", "PMI_SIZE", "PMI_RANK", "MPI_LOCALNRANKS"),
        ("srun", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID"),
    ):
        if variables[0] in os.environ and variables[1] in os.environ:
            return Launcher(name, *(int(os.environ.get(variable) or 0) for variable in variables))
    return None


def command(main: Callable[[list[str]], int]) -> Callable[[list[str]], int]:
    """Wrap the main function of a command, so that all commands treat streams and errors alike.

    If `main` raises `BadInput`, rank 0 prints a line for each mistake, and the exit code is 2. If the output cannot be
    written, the exit code is 2, too. If the reader of stdout has closed it, the command ends silently with exit code
    141. Characters that the output's encoding lacks are escaped. Closed standard streams are opened on /dev/null at
    once, before a file of the command can receive the number of a stream.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:  # closed, as in a daemon
            stream = open(os.devnull, "w" if number else "r", encoding="utf-8")  # noqa: SIM115 (stays open)
            os.set_inheritable(stream.fileno(), True)
            setattr(sys, name, stream)

    @wraps(main)
    def wrapped(argv: list[str]) -> int:
        if isinstance(sys.stdout, TextIOWrapper):
            sys.stdout.reconfigure(errors="backslashreplace")
        os.environ["MATPLOTLIBRC"] = os.devnull  # figures are the same whatever the user has set
        for name in [name for name in os.environ if name.startswith(MISLEADING)]:
            del os.environ[name]
        try:
            code = main(argv)
            sys.stdout.flush()
        except BadInput as error:
            if (started := launcher()) and started.rank > 0:
                time.sleep(2)  # rank 0 prints first: some launchers end all ranks when the first one fails
            else:
                refuse(error)
            return BAD_INPUT
        except OSError as error:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            if isinstance(error, BrokenPipeError):
                return NOBODY_READS
            say(f"error: {error if error.filename else f'cannot write: {error}'}")
            return BAD_INPUT
        return code

    return wrapped


def show(results: str) -> None:
    """Print the results of a finished run; if stdout cannot be written, print a warning instead of failing.

    Raises:
        BrokenPipeError: the reader of stdout has closed it.
    """
    try:
        print(results, flush=True)
    except BrokenPipeError:
        raise
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        say(f"warning: the results cannot be printed, but their files are there: {error.strerror}")


def plain(text: str) -> str:
    """Return a text for terminals: control characters are escaped, and the middle of very long lines is left out."""
    signs = "".join(sign if sign.isprintable() or sign in "\n\t" else ascii(sign)[1:-1] for sign in text)
    return "\n".join(s if len(s) <= 2 * HALF else f"{s[:HALF]} [...] {s[-HALF:]}" for s in signs.split("\n"))


def family(text: str) -> str:
    """Return the MPI family that a library or launcher names in a text: "MPICH", "Open MPI", or "" for others."""
    patterns = {"MPICH": "HYDRA|MPICH|MVAPICH|Intel|pmi2", "Open MPI": "Open MPI|prte|pmix"}
    return next((name for name, pattern in patterns.items() if re.search(pattern, text)), "")


def family_of(path: str) -> str:
    """Return the MPI family of the mpirun at `path`, read from `mpirun --version`; "" if it cannot be run."""
    import subprocess

    try:
        done = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=10, errors="replace")
    except (OSError, subprocess.SubprocessError):
        return ""
    return family(done.stdout)


def mpirun(python: str = sys.executable) -> list[str]:
    """Return the words that start mpirun: the one beside the Python interpreter, or else the system's.

    An mpirun beside the interpreter belongs to the MPI library that mpi4py uses there. Open MPI's mpirun needs options
    to start more ranks than there are cores, and to start ranks as root.
    """
    import shutil

    beside = Path(python).parent / "mpirun"
    command = str(beside) if beside.exists() else shutil.which("mpirun") or "mpirun"
    if family_of(command) != "Open MPI":
        return [command]
    return [command, "--oversubscribe", *(["--allow-run-as-root"] if os.geteuid() == 0 else [])]


def in_words(error: BaseException) -> str:
    """Return the type, message and notes of an error, and the last line of a user's file that it went through.

    `traceback` guards against a `str()` of the error that fails.
    """
    import traceback

    not_users = (str(Path(__file__).parents[1]), sys.prefix, sys.base_prefix, "<")
    text = traceback.TracebackException(type(error), error, error.__traceback__)
    places = [f"({f.filename}, line {f.lineno})" for f in text.stack if not f.filename.startswith(not_users)]
    return " ".join([f"{type(error).__name__}: {text}", *(text.__notes__ or []), *places[-1:]])


def say(message: str) -> None:
    """Write one line to stderr in a single write, so that lines of ranks do not mix; ignore a closed stderr."""
    with suppress(OSError):
        os.write(2, f"mpinodes: {plain(as_typed(message))}\n".encode(errors="backslashreplace"))


def refuse(error: object) -> None:
    """Print one line to stderr for each mistake that an error names; ignore a closed stderr."""
    lines = [plain(as_typed(f"mpinodes: error: {line}")) for line in str(error).split("\n")]
    with suppress(OSError):
        print("\n".join(lines), file=sys.stderr, flush=True)


def deadline_of(words: Sequence[str], resumed: Path | None = None) -> float | None:
    """Return `deadline.seconds` from the words of a command or from its file, at least 0.1; None if it is not set.

    MPI starts before the experiment is read, and its start needs the deadline already.

    Args:
        words: the words of the command; the first word without "=" is the path of the experiment's file.
        resumed: the directory of a run that is resumed; its experiment.toml replaces the file.
    """
    import tomllib

    file = next((Path(word) for word in words if "=" not in word), Path())
    values = [word.partition("=")[2].strip("'\" ") for word in words if word.startswith("deadline.seconds=")]
    with suppress(OSError, ValueError, LookupError, TypeError):
        text = (resumed / "experiment.toml" if resumed else file).read_text("utf-8")
        values.insert(0, str(tomllib.loads(text)["deadline"]["seconds"]))
    try:
        return max(float(values[-1]), 0.1)
    except (LookupError, ValueError):
        return None


def load_mpi() -> None:
    """Import `mpi4py.MPI` without starting MPI.

    Raises:
        BadInput: mpi4py finds no MPI library.
    """
    # mpi4py warns if the launcher belongs to another MPI. `find_world` reports the same, with a remedy.
    warnings.filterwarnings("ignore", message="suspicious MPI execution environment")
    try:
        import mpi4py

        mpi4py.rc(initialize=False, finalize=True)
        import mpi4py.MPI
    except (ImportError, RuntimeError) as error:
        raise BadInput(f"no MPI library ({in_words(error).splitlines()[0]}): {INSTALL}") from error


def find_world(started: Launcher | None, limit: float | None = None) -> MPI.Intracomm:
    """Start MPI if it has not started, and return the communicator of all ranks.

    Args:
        started: the launcher of this process; None if there is none.
        limit: the seconds after which a start of MPI ends this process; None means `START`.

    Raises:
        BadInput: there is only one rank, or no MPI library.
    """
    load_mpi()
    from mpi4py import MPI

    if not MPI.Is_initialized():
        if (warning := shared_memory_lacks()) and not (started and started.rank):
            say(f"warning: {warning}")
        # When MPI starts, UCX connects each rank with every other rank, although all messages on one host go through
        # shared memory. With 257 ranks on two cores this takes 26 s and 10 MB for each rank; libfabric takes 7 s. With
        # fewer ranks UCX is the better choice, because rounds are 10 % faster.
        are_many = started is not None and started.size == started.here > MANY
        if (are_many or warning) and "ch4:ucx ofi" in MPI.Get_library_version():
            os.environ.setdefault("MPIR_CVAR_CH4_NETMOD", "ofi")
        end_in(START if limit is None else max(limit, LEAST_START))
        MPI.Init_thread(MPI.THREAD_MULTIPLE)
        end_in(0)
    if MPI.COMM_WORLD.size > 1:
        return MPI.COMM_WORLD
    if started and started.size > 1:
        library = MPI.Get_library_version().splitlines()[0].strip().rstrip("\0")
        raise BadInput(
            f"{started.name} started {started.size} processes, but each believes it is alone: mpi4py here uses another "
            f"MPI ({library}). Use its mpirun, which lies beside this python ({Path(sys.executable).parent}), or "
            f"srun --mpi=pmi2 for MPICH and --mpi=pmix for Open MPI"
        )
    raise BadInput("one process is not a network: start it with mpirun -n 8 python -m mpinodes.run, or add --lockstep")


def end_in(seconds: float) -> None:
    """Make SIGALRM end this process after some seconds; 0 cancels this.

    MPI holds Python's lock while it starts, ends and aborts, so a thread of Python could not end the process.
    """
    signal.setitimer(signal.ITIMER_REAL, min(seconds, 1e6))


def shared_memory_lacks() -> str:
    """Return a warning with a remedy if `SHM` is too small for the ranks of MPICH on this host; otherwise "".

    The check uses the size of `SHM`, not the free space. All ranks must get the same answer, but the free space shrinks
    while ranks start.
    """
    started = launcher()
    ranks = started.here if started else 1
    needed = max(ONE_TAKES, RANK_TAKES * min(ranks, MANY)) if ranks else 0
    size = os.statvfs(SHM).f_blocks * os.statvfs(SHM).f_frsize if os.access(SHM, os.W_OK) else 0
    if size >= needed or sys.platform != "linux":
        return ""
    return (
        f"{SHM} has {size / 1e6:.0f} MB that can be written, and MPI may take {needed / 1e6:.0f} MB there for "
        f"{ranks} rank{'s' * (ranks > 1)}, and crash without: give it more (docker run --shm-size=1g)"
    )


def has_more_ranks_than_cores() -> bool:
    """Return whether MPICH's mpirun started more ranks on this host than there are cores (see `forking`)."""
    started = launcher()
    return "PMI_FD" in os.environ and started is not None and started.here > len(os.sched_getaffinity(0))


def leave(code: int) -> NoReturn:
    """End MPI, within `LEAVE_TAKING` seconds even if another rank hangs, and exit with the given code."""
    if "mpi4py.MPI" in sys.modules:
        from mpi4py import MPI

        if MPI.Is_initialized() and not MPI.Is_finalized():
            end_in(LEAVE_TAKING)
            MPI.Finalize()
            end_in(0)
    gc.freeze()  # otherwise Python would search all objects for garbage when it ends
    sys.exit(code)
