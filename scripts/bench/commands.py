"""Whole commands, timed: seconds, memory, and what a run tells of itself; used by all.py.

Every run of a command comes after one of `mpirun -n N python -c "import numpy; from mpi4py import MPI"`, than which
none can be faster. Memory is PSS, looked at twice a second, or less often where looking would take more than a
twentieth of the time; the largest is kept.
"""

from __future__ import annotations

import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import mpinodes
from mpinodes.launch import launching

BARE = "import numpy; from mpi4py import MPI"
WATCHED = Path(__file__).with_name("watched.py")
ROOT = str(Path(mpinodes.__file__).parents[1])
LEAST_FREE = 0.12  # of the machine's memory: a command that leaves less is ended


class Refused(Exception):
    """A command failed, took too long or too much; says why in a line."""


class Memory(NamedTuple):
    """The largest MB that were seen: PSS of all ranks, of the middle one, of the largest; gone of what was free."""

    whole: float = 0.0
    rank: float = 0.0
    most: float = 0.0
    gone: float = 0.0

    def or_more(self, found: list[float]) -> Memory:
        """The larger of each."""
        now = (sum(found), statistics.median(found), max(found)) if found else (0.0, 0.0, 0.0)
        return Memory(*(max(pair) for pair in zip(self[:3], now, strict=True)), self.gone)


class Took(NamedTuple):
    """What a command took."""

    seconds: float
    cpu: float  # seconds, of all its processes
    memory: Memory
    out: str


def mpirun(ranks: int, python: str = sys.executable) -> list[str]:
    """The start of a command on so many ranks, with the mpirun that lies beside a Python, or the system's."""
    return [*launching.mpirun(python), "-n", str(ranks), python]


class Watch(threading.Thread):
    """Looks at a command's memory until it is told that it is over, and ends it where it takes too much or too long.

    Attributes:
        most: MB that were seen.
        why: it was ended; empty: it was not.
    """

    def __init__(self, leader: int, python: str, limit: float) -> None:
        super().__init__()
        self.most, self.why, self.over = Memory(), "", threading.Event()
        self._leader, self._python, self._limit = leader, python, limit
        self._begun, self._free = time.perf_counter(), free_memory()[0]

    def run(self) -> None:
        pause = 0.5
        while not self.over.wait(0.5):
            now, whole = free_memory()
            self.most = self.most._replace(gone=max(self.most.gone, self._free - now))
            if time.perf_counter() - self._begun > self._limit:
                self.why = f"ended after {self._limit:g} s"
            elif now < LEAST_FREE * whole:
                self.why = (
                    f"ended when {self.most.gone:.0f} MB were gone: {LEAST_FREE:.0%} of the memory must stay free"
                )
            if self.why:
                end(self._leader)
                return
            pause -= 0.5
            if pause <= 0:
                looked = time.thread_time()
                self.most = self.most.or_more([mb for mb in map(pss, below(self._leader, self._python)) if mb])
                pause = 20 * (time.thread_time() - looked)


def timed(command: list[str], where: Path, limit: float) -> Took:
    """Run a command in a directory; nothing of it is left afterwards, whatever happened.

    Raises:
        Refused: it failed, or was ended after `limit` seconds, or because memory ran short.
    """
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    if sys.executable in command:  # a peer's Python has modules of its own
        environment["PYTHONPATH"] = ROOT
    python = next(word for word in command if "python" in Path(word).name)
    begun = time.perf_counter()
    with (where / "out").open("w") as out, (where / "err").open("w") as err:
        process = subprocess.Popen(command, cwd=where, stdout=out, stderr=err, env=environment, start_new_session=True)
    watch = Watch(process.pid, python, limit)
    watch.start()
    try:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    finally:
        seconds = time.perf_counter() - begun
        watch.over.set()
        watch.join()
        if process.returncode is None:
            end(process.pid)
    if watch.why:
        raise Refused(watch.why)
    if process.returncode:
        said = [line for name in ("err", "out") for line in (where / name).read_text().splitlines() if line.strip()]
        errors = [line for line in said if "error: " in line] or said[-1:] or ["nothing was said"]
        raise Refused(f"exit {process.returncode}: {errors[0][:300]}")
    return Took(seconds, usage.ru_utime + usage.ru_stime, watch.most, (where / "out").read_text())


def below(leader: int, python: str) -> list[int]:
    """The processes of a command that run its Python: its ranks."""
    return [one for one in (leader, *descendants(leader)) if _program(one) == python]


def _program(process: int) -> str:
    try:
        return Path(f"/proc/{process}/cmdline").read_text("utf-8", "replace").partition("\0")[0]
    except OSError:
        return ""


def descendants(leader: int) -> list[int]:
    """The processes below one, by their parents; none where there is no /proc."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(entry.name))
    found: list[int] = []
    ahead = [leader]
    while ahead:
        mine = children.get(ahead.pop(), [])
        found += mine
        ahead += mine
    return found


def end(leader: int) -> None:
    """End a command of ours and all that it started."""
    for process in (*descendants(leader), leader):
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


def pss(process: int) -> float:
    """Its share of memory, MB; 0: it is gone, or nobody tells."""
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0.0
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1000


def free_memory() -> tuple[float, float]:
    """MB of the machine's memory that are available, and in all; nothing where nobody tells."""
    try:
        lines = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
        return int(lines["MemAvailable"].split()[0]) / 1000, int(lines["MemTotal"].split()[0]) / 1000
    except (OSError, KeyError, ValueError):
        return 0.0, 0.0


def beside_bare(ranks: int, words: list[str], limit: float, watched: bool = False) -> dict[str, Any]:
    """A bare command, and then `mpinodes.run` with these words on as many ranks, or the same with clocks in it.

    Returns:
        ratio, bare, whole: seconds; pss_mb, rank_mb, largest_mb, gone_mb: `Memory`; cpu: seconds of all processes;
        rounds_per_second, rounds, timing: the summary's; record: bytes; spent: what `watched` found, else nothing.

    Raises:
        Refused: one of them failed.
    """
    with tempfile.TemporaryDirectory() as there:
        where = Path(there)
        bare = timed([*mpirun(ranks), "-c", BARE], where, limit)
        return {"bare": bare.seconds, **_told(timed_run(mpirun(ranks), words, where, limit, watched), bare, where)}


def alone(words: list[str], limit: float) -> dict[str, Any]:
    """A watched run in one process: as `beside_bare` tells it, but without a bare command.

    Raises:
        Refused: it failed.
    """
    with tempfile.TemporaryDirectory() as there:
        where = Path(there)
        return _told(timed_run([sys.executable], words, where, limit, watched=True), None, where)


def timed_run(start: list[str], words: list[str], where: Path, limit: float, watched: bool) -> Took:
    """One run, in `where`/run."""
    run = [str(WATCHED), "spent.json"] if watched else ["-m", "mpinodes.run"]
    return timed([*start, *run, *words, "output.dir=run"], where, limit)


def _told(took: Took, bare: Took | None, where: Path) -> dict[str, Any]:
    summary = json.loads((where / "run" / "summary.json").read_text())
    summaries = sorted(where.glob("run/**/record.h5"))
    return {
        **({"ratio": took.seconds / bare.seconds} if bare else {}),
        "whole": took.seconds,
        "cpu": took.cpu,
        **dict(zip(("pss_mb", "rank_mb", "largest_mb", "gone_mb"), took.memory, strict=True)),
        "rounds_per_second": summary["rounds_per_second"],
        "rounds": summary.get("rounds"),
        "timing": summary["timing"],
        "record": sum(path.stat().st_size for path in summaries),
        "spent": json.loads((where / "spent.json").read_text()) if (where / "spent.json").exists() else None,
    }
