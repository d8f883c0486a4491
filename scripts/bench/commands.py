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

BARE = "import numpy; from mpi4py import MPI"
WATCHED = Path(__file__).with_name("watched.py")
ROOT = str(Path(mpinodes.__file__).parents[1])
LEAST_FREE = 0.12  # of the machine's memory: a command that leaves less is ended


class Refused(Exception):
    """A command failed, took too long or too much; says why in a line."""


class Memory(NamedTuple):
    """MB of PSS, each the largest that was seen: of all ranks together, of the middle one and of the largest."""

    whole: float = 0.0
    rank: float = 0.0
    most: float = 0.0

    def or_more(self, found: list[float]) -> Memory:
        """The larger of each."""
        if not found:
            return self
        now = (sum(found), statistics.median(found), max(found))
        return Memory(*(max(pair) for pair in zip(self, now, strict=True)))


class Took(NamedTuple):
    """What a command took."""

    seconds: float
    cpu: float  # seconds, of all its processes
    memory: Memory
    out: str


def mpirun(ranks: int, python: str = sys.executable) -> list[str]:
    """The start of a command on so many ranks, with the mpirun that lies beside a Python, or the system's."""
    beside = Path(python).parent / "mpirun"
    command = [str(beside) if beside.exists() else "mpirun"]
    told = subprocess.run([*command, "--version"], capture_output=True, text=True, check=False).stdout
    if "Open MPI" in told or "prrte" in told.lower():
        command += ["--oversubscribe"] + ["--allow-run-as-root"] * (os.geteuid() == 0)
    return [*command, "-n", str(ranks), python]


def timed(command: list[str], where: Path, limit: float) -> Took:
    """Run a command in a directory.

    Raises:
        Refused: it failed, or was ended after `limit` seconds, or because memory ran short.
    """
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    if sys.executable in command:  # a peer's Python has modules of its own
        environment["PYTHONPATH"] = ROOT
    begun, over = time.perf_counter(), threading.Event()
    most, why = Memory(), ""
    with (where / "out").open("w") as out, (where / "err").open("w") as err:
        process = subprocess.Popen(command, cwd=where, stdout=out, stderr=err, env=environment, start_new_session=True)

        def watch() -> None:
            nonlocal most, why
            pause = 0.5
            while not over.wait(min(0.5, pause)):
                if time.perf_counter() - begun > limit:
                    why = f"ended after {limit:g} s"
                elif free_memory() < LEAST_FREE:
                    why = f"ended at {most.whole:.0f} MB of PSS: less than {LEAST_FREE:.0%} of the memory was left"
                if why:
                    end(process.pid)
                    return
                pause -= 0.5
                if pause <= 0:
                    looked = time.perf_counter()
                    most = most.or_more([mb for mb in map(pss, below(process.pid, command)) if mb])
                    pause = max(0.5, 20 * (time.perf_counter() - looked))

        watcher = threading.Thread(target=watch)
        watcher.start()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.perf_counter() - begun
        over.set()
        watcher.join()
    if why:
        raise Refused(why)
    if process.returncode:
        said = [line for name in ("err", "out") for line in (where / name).read_text().splitlines() if line.strip()]
        errors = [line for line in said if "error: " in line] or said[-1:] or ["nothing was said"]
        raise Refused(f"exit {process.returncode}: {errors[0][:300]}")
    return Took(seconds, usage.ru_utime + usage.ru_stime, most, (where / "out").read_text())


def below(leader: int, command: list[str]) -> list[int]:
    """The processes of a command that run its Python: its ranks."""
    python = next(word for word in command if "python" in Path(word).name)
    return [one for one in (leader, *descendants(leader)) if _program(one) == python]


def _program(process: int) -> str:
    try:
        return Path(f"/proc/{process}/cmdline").read_text().partition("\0")[0]
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


def free_memory() -> float:
    """The part of the machine's memory that is available; 1 where nobody tells."""
    try:
        lines = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
        return int(lines["MemAvailable"].split()[0]) / int(lines["MemTotal"].split()[0])
    except (OSError, KeyError, ValueError):
        return 1.0


def beside_bare(ranks: int, words: list[str], limit: float, watched: bool = False) -> dict[str, Any]:
    """A bare command, and then `mpinodes.run` with these words on as many ranks, or the same with clocks in it.

    Returns:
        ratio, bare, whole: seconds; pss_mb, rank_mb, largest_mb: `Memory`; cpu: seconds of all processes;
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
        **dict(zip(("pss_mb", "rank_mb", "largest_mb"), took.memory, strict=True)),
        "rounds_per_second": summary["rounds_per_second"],
        "rounds": summary.get("rounds"),
        "timing": summary["timing"],
        "record": sum(path.stat().st_size for path in summaries),
        "spent": json.loads((where / "spent.json").read_text()) if (where / "spent.json").exists() else None,
    }
