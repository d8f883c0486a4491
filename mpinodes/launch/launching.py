"""Find out how this process was started, start and end MPI, and print messages.

`launcher` reads the environment variables of mpirun or srun, `find_world` starts MPI, and `leave` ends MPI. `command`
wraps the main function of every command: it prints errors and chooses exit codes.
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
from mpinodes.core.errors import BadInput, place_in_users_files

if TYPE_CHECKING:
    from mpi4py import MPI

BAD_INPUT, FAILED, OVERDUE, STOPPED, INTERRUPTED, NOBODY_READS = 2, 3, 4, 5, 130, 141
LEAVE_TAKING, START = 20, 600  # limits in seconds: to end MPI; to start MPI, if no deadline is set
LEAST_START, RANK_STARTS = 10, 2  # least limit to start MPI: these seconds, and these for each rank per core
INSTALL = "pip install 'mpinodes[mpich]', or load your system's MPI (module load ...)"
LONGER = "to wait longer, set deadline.seconds=<seconds> or inf"
NOT_STARTED = f"MPI did not start or end in time: a rank is missing, hangs (ps: state D) or is stopped (T); {LONGER}"
BEGAN = time.perf_counter()  # the time at which this process began, approximately
MANY = 100  # if more ranks than this are on one host, MPICH uses libfabric: see `find_world`
HALF = 240  # a line of more than twice this length is printed as its first and last `HALF` characters
# Prefixes of environment variables that make libraries fail at their start, or write to other places:
MISLEADING = ("MPLBACKEND", "SOURCE_DATE_EPOCH", "PANDAS_", "HDF5_DRIVER", "HDF5_VOL_CONNECTOR")
SHM = "/dev/shm"  # where MPI's ranks share memory
# Measured bytes of shared memory that MPICH needs with UCX: for each of many ranks, and for a single rank.
RANK_TAKES, ONE_TAKES = 6_500_000, 20_000_000


class NobodyReads(BrokenPipeError):
    """Raised if nobody reads the output any more: the reader of stdout has closed the pipe."""


class Launcher(NamedTuple):
    """Hold the facts that the launcher of this process (mpirun or srun) wrote to environment variables.

    Attributes:
        name: the name of the launcher.
        size: the number of processes that the launcher started.
        rank: the rank of this process.
        here: the number of processes that MPICH's mpirun started on this host; 0 under other launchers.
    """

    name: str
    size: int
    rank: int
    here: int = 0


def launcher() -> Launcher | None:
    """Return the launcher of this process, from environment variables of Open MPI's mpirun, MPICH's mpirun and srun.

    Return None if these variables are not set.
    """
    for name, *variables in (
        ("Open MPI's mpirun", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"),
        ("MPICH's mpirun", "PMI_SIZE", "PMI_RANK", "MPI_LOCALNRANKS"),
        ("srun", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID"),
    ):
        if variables[0] in os.environ and variables[1] in os.environ:
            return Launcher(name, *(int(os.environ.get(variable) or 0) for variable in variables))
    return None


def command(main: Callable[[list[str]], int]) -> Callable[[list[str]], int]:
    """Wrap the main function of a command, so that all commands handle errors and standard streams in the same way.

    Errors in `main` become exit codes:

    - `BadInput`: 2. Rank 0 prints one line for each mistake.
    - `OSError`, for example if the output cannot be written: 2. The message is printed.
    - The reader of stdout has closed the pipe: 141. Nothing is printed.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:  # closed, as in a daemon: no file of the command may get its descriptor
            stream = open(os.devnull, "w" if number else "r", encoding="utf-8")  # noqa: SIM115 (stays open)
            os.set_inheritable(stream.fileno(), True)
            setattr(sys, name, stream)

    @wraps(main)
    def wrapped(argv: list[str]) -> int:
        if isinstance(sys.stdout, TextIOWrapper):
            sys.stdout.reconfigure(errors="backslashreplace")
        os.environ["MATPLOTLIBRC"] = os.devnull  # figures do not depend on the user's settings
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
            _discard(1)
            if isinstance(error, BrokenPipeError):
                return NOBODY_READS
            say(f"error: {error if error.filename else f'cannot write: {error}'}")
            return BAD_INPUT
        return code

    return wrapped


def _discard(descriptor: int) -> None:
    """Discard what is still to be written to a descriptor: Python writes it when it ends, or exits with code 120."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)


def show(results: str) -> None:
    """Print the results of a finished command to stdout; if stdout cannot be written, print a warning to stderr.

    Raises:
        NobodyReads: the reader of stdout has closed the pipe.
    """
    try:
        print(results, flush=True)
    except BrokenPipeError as error:
        raise NobodyReads from error
    except OSError as error:
        _discard(1)
        say(f"warning: the results cannot be printed, but the files with the results were written: {error.strerror}")


def plain(text: str) -> str:
    """Return a text as it is shown in a terminal: control characters are escaped, and very long lines are shortened."""
    signs = "".join(sign if sign.isprintable() or sign in "\n\t" else ascii(sign)[1:-1] for sign in text)
    return "\n".join(s if len(s) <= 2 * HALF else f"{s[:HALF]} [...] {s[-HALF:]}" for s in signs.split("\n"))


def family(text: str) -> str:
    """Return which kind of MPI a version text or a launcher's name belongs to: "MPICH", "Open MPI" or "" (unknown).

    MVAPICH and Intel MPI count as "MPICH", because they descend from MPICH.
    """
    patterns = {"MPICH": "HYDRA|MPICH|MVAPICH|Intel|pmi2", "Open MPI": "Open MPI|prte|pmix"}
    return next((name for name, pattern in patterns.items() if re.search(pattern, text)), "")


def family_of(path: str) -> str:
    """Return which MPI the mpirun at `path` belongs to, "MPICH" or "Open MPI"; "" if this is unknown.

    The answer is taken from the output of mpirun --version.
    """
    import subprocess

    with suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=10, errors="replace")
        return family(done.stdout)
    return ""


def mpirun(python: str = sys.executable) -> list[str]:
    """Return the first words of a command that starts ranks: the path of mpirun and, for Open MPI, options.

    The mpirun beside the Python interpreter is used, if there is one, and otherwise the system's mpirun. The options
    allow Open MPI to start more ranks than cores, and to start ranks as root.
    """
    import shutil

    beside = Path(python).parent / "mpirun"  # this mpirun belongs to the MPI library of mpi4py
    command = str(beside) if beside.exists() else shutil.which("mpirun") or "mpirun"
    if family_of(command) != "Open MPI":
        return [command]
    return [command, "--oversubscribe", *(["--allow-run-as-root"] if os.geteuid() == 0 else [])]


def in_words(error: BaseException) -> str:
    """Return one line of text about an exception: its type, its message, its notes, and a place in a user's file.

    The place is the last place in a user's file in the traceback. If there is none, the place is the method of a user's
    file that the message names. If there is no such method either, the line contains no place.
    """
    import traceback

    text = traceback.TracebackException(type(error), error, error.__traceback__)
    ending = [f"({place})"] if (place := users_line(error) or place_in_users_files(str(text))) else []
    line = " ".join(f"{type(error).__name__}: {text}".splitlines()).removesuffix(": ")  # no line looks like our error
    return " ".join([line, *(text.__notes__ or []), *ending])


def users_line(error: BaseException) -> str:
    """Return the last place in a user's files that a traceback names: file, line number and method; "" if none."""
    from traceback import extract_tb

    not_users = (str(Path(__file__).parents[1]), sys.prefix, sys.base_prefix, "<")
    frames = [frame for frame in extract_tb(error.__traceback__) if not frame.filename.startswith(not_users)]
    return f"{frames[-1].filename}, line {frames[-1].lineno}, in {frames[-1].name}" if frames else ""


def say(message: str) -> None:
    """Write a message to stderr by a single system call, so that the lines of ranks do not mix.

    If stderr cannot be written, do nothing.
    """
    with suppress(OSError):
        os.write(2, f"mpinodes: {plain(as_typed(message))}\n".encode(errors="backslashreplace"))


def refuse(error: object) -> None:
    """Print an error to stderr, with one line for each mistake that the error message names.

    If stderr cannot be written, do nothing.
    """
    lines = [plain(as_typed(f"mpinodes: error: {line}")) for line in str(error).split("\n")]
    try:
        print("\n".join(lines), file=sys.stderr, flush=True)
    except OSError:
        _discard(2)


def deadline_of(words: Sequence[str], resumed: Path | None = None) -> float | None:
    """Return the value of `deadline.seconds` from the words of a command or from the experiment's file.

    The result is None if the key is not set, or its value is not a positive number. A positive value below 0.1 becomes
    0.1.

    Args:
        words: the command-line words; the first word without "=" is the path of the experiment's file.
        resumed: the directory of a run that is resumed; its experiment.toml replaces the file.
    """
    import tomllib

    # MPI needs the deadline before the experiment is read.
    file = next((Path(word) for word in words if "=" not in word), Path())
    values = [word.partition("=")[2].strip("'\" ") for word in words if word.startswith("deadline.seconds=")]
    with suppress(OSError, ValueError, LookupError, TypeError):
        text = (resumed / "experiment.toml" if resumed else file).read_text("utf-8")
        values.insert(0, str(tomllib.loads(text)["deadline"]["seconds"]))
    with suppress(LookupError, ValueError):
        return max(float(values[-1]), 0.1) if float(values[-1]) > 0 else None
    return None


def load_mpi() -> None:
    """Import `mpi4py.MPI` without starting MPI.

    Raises:
        BadInput: mpi4py cannot be imported, or finds no MPI library.
    """
    # mpi4py warns if the launcher belongs to another MPI library. `find_world` reports this problem with a remedy.
    warnings.filterwarnings("ignore", message="suspicious MPI execution environment")
    try:
        import mpi4py

        mpi4py.rc(initialize=False, finalize=True)
        import mpi4py.MPI
    except (ImportError, RuntimeError) as error:
        raise BadInput(f"mpi4py finds no MPI library ({str(error).partition(chr(10))[0]}): {INSTALL}") from error


def find_world(started: Launcher | None, limit: float | None = None) -> MPI.Intracomm:
    """Start MPI if it has not started, and return the communicator of all ranks.

    Args:
        started: the launcher of this process; None if no launcher started it.
        limit: the deadline in seconds; None means the default `START`. If MPI has not started in time, this process
            ends; `start_limit` computes the time.

    Raises:
        BadInput: there is only one rank, or there is no MPI library.
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
        end_in(start_limit(limit))
        MPI.Init_thread(MPI.THREAD_MULTIPLE)
        end_in(0)
    if MPI.COMM_WORLD.size > 1:
        return MPI.COMM_WORLD
    if started and started.size > 1:
        raise BadInput(
            f"{started.name} started {started.size} processes, but each believes it is alone: use the mpirun of "
            f"{MPI.get_vendor()[0]} in {Path(sys.executable).parent}, or srun --mpi=pmi2 (MPICH) or pmix (Open MPI)"
        )
    raise BadInput("only one process was started: use mpirun -n 8 python -m mpinodes.run, or the option --lockstep")


def start_limit(limit: float | None) -> float:
    """Return the number of seconds after which a rank ends if MPI has not started.

    A deadline below `LEAST_START` + `RANK_STARTS` seconds for each rank per core is raised to this time.

    Args:
        limit: the deadline in seconds; None means the default `START`.
    """
    ranks = (started.here or started.size) if (started := launcher()) else 1
    least = LEAST_START + RANK_STARTS * ranks / len(os.sched_getaffinity(0))
    return max(START if limit is None else limit, least)


def end_in(seconds: float) -> None:
    """End this process by the signal SIGALRM after `seconds` seconds; 0 cancels an earlier call."""
    # A Python thread could not end the process, because MPI holds Python's global lock while MPI starts or ends.
    signal.setitimer(signal.ITIMER_REAL, min(seconds, 1e6))


def shared_memory_lacks() -> str:
    """Return a warning with advice if /dev/shm is too small for the MPICH ranks on this host; otherwise return ""."""
    ranks = started.here if (started := launcher()) else 1
    needed = max(ONE_TAKES, RANK_TAKES * min(ranks, MANY)) if ranks else 0
    # The total size and not the free space, because all ranks must get the same result.
    size = os.statvfs(SHM).f_blocks * os.statvfs(SHM).f_frsize if os.access(SHM, os.W_OK) else 0
    if size >= needed or sys.platform != "linux":
        return ""
    return (
        f"{SHM} has only {size / 1e6:.0f} MB that can be written, but MPI may need {needed / 1e6:.0f} MB there for "
        f"{ranks} rank{'s' * (ranks > 1)}, and may crash: enlarge {SHM} (docker run --shm-size=1g)"
    )


def has_more_ranks_than_cores() -> bool:
    """Return whether MPICH's mpirun started more ranks on this host than there are cores that this process may use."""
    started = launcher()
    return "PMI_FD" in os.environ and started is not None and started.here > len(os.sched_getaffinity(0))


def leave(code: int) -> NoReturn:
    """End MPI and exit with `code`. If MPI does not end within `LEAVE_TAKING` seconds, SIGALRM ends this process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt of MPI_Finalize would end in a crash
    mpi = sys.modules.get("mpi4py.MPI")
    if mpi and mpi.Is_initialized() and not mpi.Is_finalized():
        end_in(LEAVE_TAKING)
        mpi.Finalize()
        end_in(0)
    gc.freeze()  # Python ends faster, because it does not search all objects for garbage
    sys.exit(code)
