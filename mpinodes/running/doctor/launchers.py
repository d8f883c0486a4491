"""The MPI library, and whether what starts processes here is its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from mpinodes.launch.launching import Launcher
from mpinodes.running.doctor.report import Line

MPICH, OPEN_MPI = "MPICH", "Open MPI"
FAMILY = {"HYDRA": MPICH, "MPICH": MPICH, "MVAPICH": MPICH, "Intel": MPICH, OPEN_MPI: OPEN_MPI, "prte": OPEN_MPI}
SLURM_TYPE = {MPICH: "pmi2", OPEN_MPI: "pmix"}


def load() -> ModuleType | Line:
    """mpi4py's MPI, which starts MPI; or what keeps it from being there."""
    warnings.filterwarnings("ignore", message="suspicious MPI execution environment")
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        found = str(error).splitlines()[0] if str(error) else type(error).__name__
        advice = "pip install 'mpinodes[mpich]', or load your system's MPI (module load ...)"
        return Line("mend", "MPI", f"no MPI library ({found})", advice)
    return MPI


def library() -> str:
    """The MPI library and its version."""
    from mpi4py import MPI

    words = MPI.Get_library_version().splitlines()[0].rstrip("\0").split(", package")[0]
    return " ".join(words.replace("Version:", "").split())


def family(text: str) -> str:
    """Whose launchers it takes: "MPICH" or "Open MPI"; "": another's."""
    return next((found for word, found in FAMILY.items() if word in text), "")


def about_library() -> Line:
    """Which one mpi4py uses."""
    import mpi4py

    return Line("ok", "MPI", f"{library()}, by mpi4py {mpi4py.__version__}")


def about_launcher(started: Launcher | None, size: int) -> Iterator[Line]:
    """Whether it fits the library: it does where the world has as many ranks as it started."""
    if started and started.size > 1 == size:
        text = f"{_called(started)} started {started.size} processes, but each believes it is alone"
        yield Line("mend", "launcher", f"{text}, for mpi4py uses another MPI", advice_to_start(started.size))
    elif started and size > 1:
        yield Line("ok", "launcher", f"{_called(started)}, which fits")
        if _by_srun():
            yield Line("note", "launcher", "where a rank is killed srun waits for the others, unless it has -K1")
    else:
        words = "one process, which is no network; " if started else "no launcher; "
        yield Line("note", "launcher", words + advice_to_start(8))
        yield from _about_path()


def _by_srun() -> bool:
    return "SLURM_STEP_ID" in os.environ and not {"HYDI_CONTROL_FD", "OMPI_TOOL_NAME"} & os.environ.keys()


def _called(started: Launcher) -> str:
    if not _by_srun():
        return started.name
    kind = os.environ.get("SLURM_MPI_TYPE")
    return f"srun --mpi={kind}" if kind else "srun"


def advice_to_start(ranks: int) -> str:
    """The command that starts processes of this Python's MPI, here."""
    words = f"{sys.executable} -m mpinodes.doctor"
    mine = family(library())
    if "SLURM_JOB_ID" in os.environ and shutil.which("srun") and mine in SLURM_TYPE:
        return f"start it with srun -K1 --mpi={SLURM_TYPE[mine]} {words}"
    fitting = [path for path, kind in _launchers() if kind == mine or not mine]
    if not fitting:
        return f"no mpirun of {mine or 'this library'} is at hand: pip install 'mpinodes[mpich]', or load its module"
    more = ""
    if mine == OPEN_MPI:
        more = " --oversubscribe" * (ranks > len(os.sched_getaffinity(0))) + " --allow-run-as-root" * (os.getuid() == 0)
    return f"start it with {fitting[0]}{more} -n {ranks} {words}"


def _about_path() -> Iterator[Line]:
    """The mpirun that a bare name finds, where it is not the library's."""
    found = shutil.which("mpirun")
    if found and (kind := _kind_of(Path(found))) and kind != family(library()):
        yield Line(
            "mend", "launcher", f"mpirun is {found} of {kind}, but mpi4py uses {library()}",
            "take the mpirun of that one, by its path or first on PATH",
        )  # fmt: skip


def _launchers() -> list[tuple[Path, str]]:
    """The mpirun beside this Python and the first on PATH, and whose they are."""
    beside = Path(sys.executable).parent / "mpirun"
    paths = dict.fromkeys([*[beside] * beside.exists(), *map(Path, filter(None, [shutil.which("mpirun")]))])
    return [(path, _kind_of(path)) for path in paths]


def _kind_of(mpirun: Path) -> str:
    try:
        done = subprocess.run([str(mpirun), "--version"], capture_output=True, text=True, timeout=10, errors="replace")
    except (OSError, subprocess.SubprocessError):
        return ""
    return family(done.stdout + done.stderr)
