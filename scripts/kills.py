"""Kill runs at random moments, resume them, and compare them with a run that was not killed.

    python scripts/kills.py --kills 50
    python scripts/kills.py --kills 10 --signal TERM
    python scripts/kills.py --kills 10 --other /path/to/a/python/with/Open/MPI
    python scripts/kills.py --kills 10 faults.loss=0.2 faults.delay=3 faults.churn=0.1

SIGKILL goes to the launcher, the logger or an agent. The other signals ask a run to stop. They go to the launcher or
the logger only, because agents leave them to the logger. The runs are resumed in turn under the same mpirun, in
lockstep, or (--other) under the mpirun of another Python. The script compares every variable of the record, and every
number of the summary except times. Exit code 1: some run differs.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import mpinodes
from mpinodes.launch.launching import mpirun

AGENTS = 3
WORDS = (
    "algorithm.name=dola", "topology.name=ring", "data.epochs=100", "data.total=200", "checkpoint.every=50",
    "report=false",
)  # fmt: skip
TIMES = {"seconds", "rounds_per_second", "timing", "versions", "asked"}
LIMIT = 120.0  # seconds


class Trial(NamedTuple):
    """The result of one run that was killed and resumed.

    Attributes:
        victim: the process that received the signal.
        after: the seconds from the start of the run to the signal.
        code: the exit code of the killed run.
        recorded: the number of lines in its progress.jsonl.
        begun: the message that tells from which round the run was resumed.
        way: how the run was resumed.
        differ: the names of the variables and keys that differ.
    """

    victim: str
    after: float
    code: int
    recorded: int
    begun: str
    way: str
    differ: list[str]


def command(python: str, *words: str) -> list[str]:
    """Return the command that starts a run under the mpirun of a Python."""
    return [*mpirun(python), "-n", str(AGENTS + 1), python, "-m", "mpinodes.run", *words]


def ranks(run: Path) -> dict[int, int]:
    """Return the process id of every rank of a run; of a rank with several processes, the smallest id."""
    processes: dict[int, int] = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if str(run).encode() not in (process / "cmdline").read_bytes():
                continue
            variables = (process / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        for name in (b"PMI_RANK=", b"OMPI_COMM_WORLD_RANK="):
            for variable in variables:
                if variable.startswith(name):
                    rank, number = int(variable[len(name) :]), int(process.name)
                    processes[rank] = min(processes.get(rank, number), number)
    return processes


def killed(words: list[str], run: Path, victim: int, after: float, number: int) -> tuple[int, float]:
    """Start a run, send it a signal, and wait until it has ended.

    Args:
        words: the command of the run.
        run: its directory.
        victim: the rank that receives the signal; -1 for the launcher.
        after: the seconds to wait after the run directory exists.
        number: the signal.

    Returns:
        The exit code, and the seconds from the start to the signal.
    """
    began = time.monotonic()
    job = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    while not (run / "experiment.toml").exists() and job.poll() is None:
        time.sleep(0.002)
    time.sleep(after)
    process = job.pid if victim < 0 else ranks(run).get(victim)
    sent = time.monotonic() - began
    if process and job.poll() is None:
        os.kill(process, number)
    code = job.wait(LIMIT)
    while ranks(run):
        time.sleep(0.05)
    return code, sent


def resumed(run: Path, way: str, other: str) -> str:
    """Resume a run in one of the ways; return the message that tells from which round the run was resumed."""
    words = {
        "mpirun": command(sys.executable, "--resume", str(run)),
        "lockstep": [sys.executable, "-m", "mpinodes.run", "--lockstep", "--resume", str(run)],
        "other": command(other, "--resume", str(run)),
    }[way]
    done = subprocess.run(words, capture_output=True, text=True, timeout=LIMIT, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(words)}: exit {done.returncode}\n{done.stderr}")
    return next((line for line in done.stderr.splitlines() if "goes on" in line or "begins" in line), "")


def differences(run: Path, other: Path) -> list[str]:
    """Return the variables of the record and the keys of the summary in which two runs differ."""
    a, b = mpinodes.load(run), mpinodes.load(other)
    first, second = (json.loads((place / "summary.json").read_text()) for place in (run, other))
    names = [name for name in {*a, *b} if name not in a or name not in b or not a[name].equals(b[name])]
    return [*names, *(key for key in first.keys() | second.keys() if key not in TIMES and differ(first, second, key))]


def differ(first: dict[str, Any], second: dict[str, Any], key: str) -> bool:
    """Return whether two summaries differ in a key."""
    return key not in first or key not in second or first[key] != second[key]


def trials(options: argparse.Namespace, where: Path) -> Iterator[Trial]:
    """Yield the result of each run that is killed and resumed.

    Args:
        options: the options of the command.
        where: the directory for all runs.
    """
    rng = random.Random(options.seed)
    whole = where / "whole"

    def begin(run: Path) -> list[str]:
        words = (*WORDS, f"rounds={options.rounds}", *options.words, f"output.dir={run}")
        return command(sys.executable, *words)

    subprocess.run(begin(whole), check=True, capture_output=True)
    seconds = json.loads((whole / "summary.json").read_text())["timing"]
    lasts = seconds["total"] - seconds["start_up"]
    number = signal.Signals[f"SIG{options.signal}"]
    victims = range(-1, AGENTS + 1) if number == signal.SIGKILL else (-1, AGENTS)
    ways = ["mpirun", "lockstep", *(["other"] if options.other else [])]
    for k in range(options.kills):
        run, victim = where / f"killed-{k:03d}", victims[k % len(victims)]
        code, after = killed(begin(run), run, victim, rng.uniform(0, lasts), number)
        name = "launcher" if victim < 0 else "logger" if victim == AGENTS else f"agent {victim}"
        shown = len((run / "progress.jsonl").read_text().splitlines()) if (run / "progress.jsonl").exists() else 0
        way, begun = ways[k % len(ways)], "it was complete"
        if not (run / "experiment.toml").exists():
            begun = "no run yet"
            subprocess.run(begin(run), check=True)
        elif not (run / "summary.json").exists():
            begun = resumed(run, way, options.other)
        yield Trial(name, after, code, shown, begun, way, differences(whole, run))


def main() -> int:
    """Kill the runs, print a line for each, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=2000)
    parser.add_argument("--signal", choices=("KILL", "TERM", "INT", "USR1"), default="KILL")
    parser.add_argument("--other", default="", help="a Python with mpinodes and another MPI")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("words", nargs="*", help="additional key=value pairs of the run")
    options = parser.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory() as where:
        for k, trial in enumerate(trials(options, Path(where))):
            result = "same" if not trial.differ else f"DIFFERS: {', '.join(trial.differ)}"
            print(
                f"{k:3} {options.signal} of {trial.victim:9} after {trial.after:5.2f} s: exit {trial.code:4}; "
                f"{trial.begun or 'no message'}; {trial.way}: {result}",
                flush=True,
            )
            failed += bool(trial.differ)
    print(f"{options.kills} runs, {failed} differ from the run that was not killed")
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
