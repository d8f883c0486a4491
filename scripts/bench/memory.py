"""Memory of every process of a command over time: python scripts/bench/memory.py OUT COMMAND...

    python scripts/bench/memory.py out mpirun -n 4 python -m mpinodes.run topology.name=ring rounds=1000000 report=false

Leaves OUT.csv, a line for each look (seconds, then MB of each Python process below the command, by age), and OUT.png.
Counted is what a process has resident for itself (RssAnon): neither shared memory of MPI nor files.
"""

from __future__ import annotations

import csv
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

BETWEEN = 0.5  # seconds between two looks, at first: twice as long whenever there were MANY
MANY = 2000

Look = tuple[float, dict[int, float]]


def watched(command: list[str]) -> tuple[int, list[Look]]:
    """Exit code of a command, and its processes' memory, MB by process id, at some moments."""
    begun, between, looks = time.monotonic(), BETWEEN, []
    with subprocess.Popen(command) as process:
        while process.poll() is None:
            looks.append((time.monotonic() - begun, _memory(process.pid)))
            if len(looks) > MANY:
                looks, between = looks[::2], 2 * between
            with suppress(subprocess.TimeoutExpired):
                process.wait(between)
        return process.returncode, looks


def _memory(root: int) -> dict[int, float]:
    """Of all Python processes that descend from one, itself among them."""
    parents, found = {}, {}
    for place in Path("/proc").glob("[0-9]*/status"):
        with suppress(OSError, KeyError):  # it may be gone meanwhile
            facts = dict(line.split(":", 1) for line in place.read_text("utf-8").splitlines())
            pid = int(facts["Pid"])
            parents[pid] = int(facts["PPid"])
            if "python" in facts["Name"]:
                found[pid] = int(facts["RssAnon"].split()[0]) / 1000
    return {pid: size for pid, size in sorted(found.items()) if _descends(pid, root, parents)}


def _descends(pid: int, root: int, parents: dict[int, int]) -> bool:
    while pid not in (0, 1, root):
        pid = parents.get(pid, 0)
    return pid == root


def draw(path: Path, looks: list[Look], title: str) -> None:
    """A line for each process."""
    import matplotlib as mpl

    mpl.use("agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 3.5), layout="constrained")
    pids = sorted({pid for _, found in looks for pid in found})
    for place, pid in enumerate(pids):
        mine = [(seconds, found[pid]) for seconds, found in looks if pid in found]
        axes.plot(*zip(*mine, strict=True), label=f"process {place}", linewidth=1)
    axes.set(xlabel="seconds", ylabel="MB resident, its own", title=title, ylim=(0, None))
    if len(pids) < 10:
        axes.legend(frameon=False)
    figure.savefig(path, dpi=150)


def main() -> int:
    out, *command = sys.argv[1:]
    code, looks = watched(command)
    pids = sorted({pid for _, found in looks for pid in found})
    with Path(f"{out}.csv").open("w", newline="", encoding="utf-8") as file:
        lines = csv.writer(file)
        lines.writerow(["seconds", *(f"process {place}" for place in range(len(pids)))])
        lines.writerows([f"{seconds:.1f}", *(found.get(pid, "") for pid in pids)] for seconds, found in looks)
    draw(Path(f"{out}.png"), looks, f"{len(pids)} processes, exit code {code}")
    return code


if __name__ == "__main__":
    sys.exit(main())
