"""Who started this process, and what it says to people."""

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
LEAVE_TAKING, START, LEAST_START = 20, 600, 10  # seconds in which MPI ends, and starts, the least of them
INSTALL = "pip install 'mpinodes[mpich]', or load your system's MPI (module load ...)"
LONGER = "longer waits: deadline.seconds=<seconds> or inf"
NOT_STARTED = f"MPI did not start, or end, in time: does a rank hang (ps: state T or R)? {LONGER}"
BEGAN = time.perf_counter()  # about when this process began
MANY = 100  # ranks of one host: see `find_world`
HALF = 240  # characters at both ends of a longer line that are printed
# Variables of the environment with which libraries fail as they start, or write elsewhere:
MISLEADING = ("MPLBACKEND", "SOURCE_DATE_EPOCH", "PANDAS_", "HDF5_DRIVER", "HDF5_VOL_CONNECTOR")
SHM = "/dev/shm"  # where MPI's ranks share memory
RANK_TAKES, ONE_TAKES = 6_500_000, 20_000_000  # bytes under UCX, as measured: of each of many ranks, of a single one


class Launcher(NamedTuple):
    """Hold what started this process says about it.

    Attributes:
        name: of the launcher.
        size: how many processes it has started.
        rank: of this one.
        here: how many of them MPICH's mpirun has started on this host; 0: another launcher.
    """

    name: str
    size: int
    rank: int
    here: int = 0


def launcher() -> Launcher | None:
    """Return the launcher of this process, by the variables it sets; None: started by hand."""
    for name, *variables in (
        ("Open MPI's mpirun", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"),
        ("MPICH's mpirun", "PMI_SIZE", "PMI_RANK", "MPI_LOCALNRANKS"),
        ("srun", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID"),
    ):
        if variables[0] in os.environ and variables[1] in os.environ:
            return Launcher(name, *(int(os.environ.get(variable) or 0) for variable in variables))
    return None


def command(main: Callable[[list[str]], int]) -> Callable[[list[str]], int]:
    """What all commands have in common: rank 0 says `BadInput` in a line, and the exit code is then 2.

    What the output's encoding has no signs for is escaped, and an output that nobody reads any more ends in silence.
    Standard streams that are closed are opened here, before a file of the command can get the number of one of them.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:  # closed, as a daemon's
            stream = open(os.devnull, "w" if number else "r", encoding="utf-8")  # noqa: SIM115 (has the number)
            os.set_inheritable(stream.fileno(), True)
            setattr(sys, name, stream)

    @wraps(main)
    def whole(argv: list[str]) -> int:
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
                time.sleep(2)  # rank 0 says it first: some launchers end all ranks with the first that fails
            else:
                with suppress(OSError):
                    print(in_lines(error), file=sys.stderr, flush=True)
            return BAD_INPUT
        except OSError as error:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            if isinstance(error, BrokenPipeError):
                return NOBODY_READS
            say(f"error: {error if error.filename else f'cannot write: {error}'}")
            return BAD_INPUT
        return code

    return whole


def show(results: str) -> None:
    """Print what a finished run came to; where there is no room for it, say so, for no run fails by that."""
    try:
        print(results, flush=True)
    except BrokenPipeError:
        raise
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        say(f"warning: the results cannot be printed, but their files are there: {error.strerror}")


def plain(text: str) -> str:
    """Text with nothing in it that a terminal would act on, and no line that fills the screen."""
    signs = "".join(sign if sign.isprintable() or sign in "\n\t" else ascii(sign)[1:-1] for sign in text)
    return "\n".join(s if len(s) <= 2 * HALF else f"{s[:HALF]} [...] {s[-HALF:]}" for s in signs.split("\n"))


def family(text: str) -> str:
    """Return whose library or launcher a text is about: "MPICH" or "Open MPI"; "": another's."""
    if re.search("HYDRA|MPICH|MVAPICH|Intel|pmi2", text):
        return "MPICH"
    return "Open MPI" if re.search("Open MPI|prte|pmix", text) else ""


def family_of(path: str) -> str:
    """Return the family of an mpirun, by its own word."""
    import subprocess

    try:
        done = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=10, errors="replace")
    except (OSError, subprocess.SubprocessError):
        return ""
    return family(done.stdout)


def mpirun(python: str = sys.executable) -> list[str]:
    """Return the mpirun that lies beside a Python, whose MPI mpi4py then uses, or the system's.

    Open MPI's starts no more ranks than there are cores, and none of root's, unless it is told to.
    """
    import shutil

    beside = Path(python).parent / "mpirun"
    command = str(beside) if beside.exists() else shutil.which("mpirun") or "mpirun"
    if family_of(command) != "Open MPI":
        return [command]
    return [command, "--oversubscribe", *(["--allow-run-as-root"] if os.geteuid() == 0 else [])]


def in_words(error: BaseException) -> str:
    """Return what went wrong, with the notes on it. The `str()` of a user's own class may fail."""
    import traceback

    text = traceback.TracebackException(type(error), error, None)
    return " ".join([f"{type(error).__name__}: {text}", *(text.__notes__ or [])])


def in_lines(error: object) -> str:
    """Return an error as it is printed: a line for each mistake."""
    return "\n".join(plain(as_typed(f"mpinodes: error: {line}")) for line in str(error).split("\n"))


def say(message: str) -> None:
    """Write a line to stderr, whole; where stderr cannot be written, nothing."""
    with suppress(OSError):
        os.write(2, f"mpinodes: {plain(as_typed(message))}\n".encode(errors="backslashreplace"))


def refuse(error: object) -> None:
    """Write a line to stderr for each mistake that an error names, as `say` does."""
    with suppress(OSError):
        os.write(2, f"{in_lines(error)}\n".encode(errors="backslashreplace"))


def deadline_of(words: Sequence[str], resumed: Path | None = None) -> float | None:
    """Return `deadline.seconds` as the words of a command, or the file among them, have it; None: they do not.

    It is needed before the experiment is read, while MPI starts.
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
    """Import `mpi4py.MPI`; MPI does not start yet.

    Raises:
        BadInput: it finds no MPI library.
    """
    # mpi4py warns of another MPI's launcher; we say the same, and what to do.
    warnings.filterwarnings("ignore", message="suspicious MPI execution environment")
    try:
        import mpi4py

        mpi4py.rc(initialize=False, finalize=True)
        import mpi4py.MPI
    except (ImportError, RuntimeError) as error:
        raise BadInput(f"no MPI library ({in_words(error).splitlines()[0]}): {INSTALL}") from error


def find_world(started: Launcher | None, limit: float | None = None) -> MPI.Intracomm:
    """Return all ranks of this job.

    Args:
        started: by what.
        limit: seconds in which all ranks must be there; None: `START`.

    Raises:
        BadInput: this process is alone, or has no MPI.
    """
    load_mpi()
    from mpi4py import MPI

    if not MPI.Is_initialized():
        if (warning := shared_memory_lacks()) and not (started and started.rank):
            say(f"warning: {warning}")
        # MPICH's UCX connects each rank with every other one when MPI starts, though on one host all messages go
        # through shared memory: with 257 ranks on two cores 26 s and 10 MB a rank, of which libfabric needs 7 s and
        # next to nothing. With some tens of ranks that is little, and rounds are a tenth faster under UCX.
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
    """End this process by SIGALRM if it is still there then; 0: do not.

    MPI keeps Python's lock as it starts, ends and aborts, so that no thread of Python could do so.
    """
    signal.setitimer(signal.ITIMER_REAL, min(seconds, 1e6))


def shared_memory_lacks() -> str:
    """Return what to change where `SHM` is too small for the ranks of MPICH on this host; empty: it is not.

    All ranks must get the same answer while others already take their part, so that the size decides, not what is free.
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


def take_turns() -> bool:
    """Return whether MPICH's mpirun has started more ranks on this host than there are cores for: see `forking`."""
    started = launcher()
    return "PMI_FD" in os.environ and started is not None and started.here > len(os.sched_getaffinity(0))


def leave(code: int) -> NoReturn:
    """End MPI, which no other rank can keep from ending, and this process."""
    if "mpi4py.MPI" in sys.modules:
        from mpi4py import MPI

        if MPI.Is_initialized() and not MPI.Is_finalized():
            end_in(LEAVE_TAKING)
            MPI.Finalize()
            end_in(0)
    gc.freeze()  # or Python would look through all that there is as it ends
    sys.exit(code)
