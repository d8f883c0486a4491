"""A process that watches the one that does the work: whatever becomes of that one, there is an end, and a line.

MPI's start-up may hang, or end its process by itself; neither leaves Python a say. So the work is done in a child
process, which holds the link to the launcher as well as its parent would.
"""

from __future__ import annotations

import os
import re
import select
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, NamedTuple

from mpinodes.launch.launching import INTERRUPTED, Launcher, end_with_parent, first_of_host
from mpinodes.running.doctor.report import NOTHING, SOMETHING, Line

BEGINNING = "starting MPI"

Stage = Callable[[str], None]  # what is told what the work is at
PATIENCE = 2.0  # seconds for a killed process: one that waits for a dead file system does not go


class End(NamedTuple):
    """How the work ended.

    Attributes:
        status: of the child, as `os.waitpid` gives it; None: it was ended because time was up.
        stage: what it was at.
        said: what it wrote to stderr.
    """

    status: int | None
    stage: str
    said: str


def supervised(work: Callable[[Stage], int], limit: float, started: Launcher | None) -> int:
    """Do `work` in a child process within `limit` seconds; returns the exit code, in both.

    Only rank 0 fails: with the first rank that does, some launchers end all others before they have spoken.
    """
    sys.stdout.flush()
    reading, writing = os.pipe()
    with open(os.memfd_create("said"), "r+b", buffering=0) as said:
        child = os.fork()
        if child == 0:
            os.close(reading)
            return _work(work, writing, said.fileno())
        os.close(writing)
        try:
            end = _watch(child, reading, said, limit)
        except KeyboardInterrupt:
            os.kill(child, signal.SIGKILL)
            return INTERRUPTED
    rank = started.rank if started else 0
    if end.status is not None and os.WIFEXITED(end.status) and end.stage == "":
        return os.WEXITSTATUS(end.status) if rank == 0 else NOTHING
    if rank != 0:
        time.sleep(2)  # rank 0 has most likely met the same, and is to be heard: launchers end all with the first
        if end.stage == BEGINNING and not first_of_host():
            return NOTHING
    print(_last_line(end, limit, rank, started), flush=True)
    return SOMETHING


def _work(work: Callable[[Stage], int], writing: int, said: int) -> int:
    """The child's life; an empty stage is the end of it."""
    end_with_parent(signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.dup2(said, 2)

    def stage(name: str) -> None:
        os.write(writing, f"{name}\n".encode())

    code = work(stage)
    stage("")
    return code


def _watch(child: int, reading: int, said: IO[bytes], limit: float) -> End:
    """Wait for the child's end, or for that of its time."""
    deadline, heard = time.monotonic() + limit, f"{BEGINNING}\n".encode()
    while (left := deadline - time.monotonic()) > 0:
        if not select.select([reading], [], [], left)[0]:
            break
        news = os.read(reading, 4096)
        if not news:  # it is gone
            return End(os.waitpid(child, 0)[1], _stage(heard), _words(said))
        heard = (heard + news)[-4096:]
    os.kill(child, signal.SIGKILL)
    while not os.waitpid(child, os.WNOHANG)[0] and time.monotonic() < deadline + PATIENCE:
        time.sleep(0.01)
    return End(None, _stage(heard), _words(said))


def _stage(heard: bytes) -> str:
    return heard.decode(errors="replace").split("\n")[-2]


def _words(said: IO[bytes]) -> str:
    said.seek(0)
    return said.read(65536).decode(errors="replace")


def _last_line(end: End, limit: float, rank: int, started: Launcher | None) -> Line:
    who = f"rank {rank}" if started else "this process"
    at = end.stage or "ending"
    if end.status is None:
        return Line(
            "mend", "time", f"{who} found no end within {limit:g} s, while {at}",
            "a rank or its host hangs, or MPI's traffic does not pass between hosts; --limit gives it longer",
        )  # fmt: skip
    code = os.waitstatus_to_exitcode(end.status)
    how = f"exit code {code}" if code >= 0 else f"signal {-code}"
    words = [line for line in end.said.splitlines() if line.strip()]
    if "PMIx" in end.said and "unsupported" in end.said:
        beside = Path(sys.executable).parent / "mpirun"
        mine = "srun --mpi=pmi2" if started and started.name == "srun" else f"MPICH's mpirun ({beside})"
        advice = f"MPICH does not speak PMIx: start it with {mine}"
    else:
        found = [line for line in words if re.search("[Ee]rror|ERROR|[Ff]ail", line)] or words
        advice = f"it said: {found[-1].strip()[:200]}" if found else "it said nothing"
    return Line("mend", "MPI", f"{who} was ended ({how}) while {at}", advice)
