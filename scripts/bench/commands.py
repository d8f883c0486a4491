"""What a user waits for: whole commands, split: python scripts/bench/commands.py [--quick] [--times 3] [--csv FILE].

Each run of a command comes after one of `mpirun -n N python -c "import numpy; from mpi4py import MPI"`, than which none
can be faster; what is printed is the median of their ratios and its spread, and the seconds of the run whose ratio that
is, part by part as its summary.json has them. MB is the largest sum of PSS over all ranks that was seen while it ran.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple

from mpinodes.results.timing import PARTS

BARE = "import numpy; from mpi4py import MPI"
RING = ["algorithm.name=dola", "topology.name=ring"]
TABLE = {  # ranks, and what is asked for
    "default": (8, []),
    "default, no report": (8, ["report=false"]),
    "T = 5,000": (8, ["rounds=5000", "data.epochs=18", "report=false"]),
    "T = 20,000": (8, ["rounds=20000", "data.epochs=71", "report=false"]),
    "T = 20,000, public": (8, ["rounds=20000", "data.epochs=71", "algorithm.gradient_at=public", "report=false"]),
    "dola-minibatch": (8, ["algorithm.name=dola-minibatch", "report=false"]),
    "pp-admm": (8, ["algorithm.name=pp-admm", "report=false"]),
    "d = 784": (8, [*RING, "data.name=unit-ball", "data.dimension=784", "rounds=500", "report=false"]),
    "5 repeats": (8, ["repeats=5", "report=false"]),
    "n = 15": (16, [*RING, "topology.agents=15", "rounds=100", "report=false"]),
    "n = 31": (32, [*RING, "topology.agents=31", "rounds=100", "report=false"]),
    "n = 64, 10 rounds": (65, [*RING, "topology.agents=64", "rounds=10", "report=false"]),
    "n = 64, 1,000 rounds": (65, [*RING, "topology.agents=64", "rounds=1000", "report=false"]),
    "n = 100": (101, [*RING, "topology.agents=100", "rounds=10", "report=false"]),
    "n = 256": (257, [*RING, "topology.agents=256", "rounds=50", "report=false"]),
}
QUICK = {"default": (8, ["rounds=8"]), "5 repeats": (8, ["repeats=2", "rounds=4", "report=false"])}


class Took(NamedTuple):
    """One run of a command beside a bare one."""

    ratio: float
    bare: float
    whole: float
    pss: float  # MB
    rate: float  # rounds per second
    timing: dict[str, float]


def mpirun(ranks: int) -> list[str]:
    beside = Path(sys.executable).parent / "mpirun"
    return [str(beside) if beside.exists() else "mpirun", "-n", str(ranks), sys.executable]


def timed(command: list[str], where: Path) -> tuple[float, float]:
    """Seconds, and the largest sum of PSS over its processes, MB.

    Raises:
        subprocess.CalledProcessError: the command fails.
    """
    begun, most, over = time.perf_counter(), 0.0, threading.Event()
    with (where / "out").open("w") as out:
        process = subprocess.Popen(command, cwd=where, stdout=out, stderr=out, start_new_session=True)

        def watch() -> None:
            nonlocal most
            while not over.wait(0.5):
                most = max(most, sum(map(pss, of_session(process.pid))))

        watcher = threading.Thread(target=watch)
        watcher.start()
        code = process.wait()
        seconds = time.perf_counter() - begun
    over.set()
    watcher.join()
    if code:
        raise subprocess.CalledProcessError(code, command, (where / "out").read_text())
    return seconds, most


def of_session(leader: int) -> list[int]:
    """The processes below one, by their parents."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
    found, ahead = [], [leader]
    while ahead:
        one = ahead.pop()
        children = [child for child, parent in parents.items() if parent == one]
        found += children
        ahead += children
    return found


def pss(process: int) -> float:
    """Its share of memory, MB; 0: it is gone, or nobody tells."""
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0.0
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1000


def took(ranks: int, words: list[str]) -> Took:
    """A bare command, and then the whole one."""
    with tempfile.TemporaryDirectory() as there:
        where = Path(there)
        bare, _ = timed([*mpirun(ranks), "-c", BARE], where)
        whole, memory = timed([*mpirun(ranks), "-m", "mpinodes.run", *words, "output.dir=run"], where)
        summary: dict[str, Any] = json.loads((where / "run" / "summary.json").read_text())
    return Took(whole / bare, bare, whole, memory, summary["rounds_per_second"], summary["timing"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="two small runs")
    parser.add_argument("--times", type=int, default=3, help="of each command (3)")
    parser.add_argument("--only", action="append", help="a row of the table; may be given more than once")
    parser.add_argument("--csv", type=Path, help="a file for all runs")
    given = parser.parse_args()
    table = QUICK if given.quick else TABLE
    rows = []
    print(f"{platform.node()}: {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}")
    head = ("", "ratio", "spread", "bare", "whole", *PARTS, "rounds/s", "MB")
    print(f"{head[0]:22}" + "".join(f"{name:>12}" for name in head[1:]))
    for name in given.only or table:
        runs = [took(*table[name]) for _ in range(1 if given.quick else given.times)]
        rows += [(name, run) for run in runs]
        middle = sorted(runs)[len(runs) // 2]
        ratios = [run.ratio for run in runs]
        shown = [f"{statistics.median(ratios):.2f}", f"{min(ratios):.1f}-{max(ratios):.1f}"]
        shown += [f"{seconds:.2f}" for seconds in (middle.bare, middle.whole, *(middle.timing[p] for p in PARTS))]
        print(
            f"{name:22}" + "".join(f"{x:>12}" for x in [*shown, f"{middle.rate:.0f}", f"{middle.pss:.0f}"]), flush=True
        )
    if given.csv:
        with given.csv.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(
                ["command", "ranks", "ratio", "bare", "whole", "pss_mb", "rounds_per_second", *PARTS, "total"]
            )
            for name, run in rows:
                seconds = [run.timing[part] for part in (*PARTS, "total")]
                writer.writerow([name, table[name][0], *run[:4], run.rate, *seconds])


if __name__ == "__main__":
    main()
