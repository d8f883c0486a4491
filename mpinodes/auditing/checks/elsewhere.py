"""Repeat a run in another process, and over MPI, and compare the messages.

`python -m mpinodes.auditing.checks.elsewhere JOB` is the command of the other process. It simulates the experiments in
the file JOB, and overwrites JOB with the messages and decisions of the agents.
"""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np

from mpinodes.auditing.checks.failures import Fault, Report
from mpinodes.auditing.checks.purity import KEPT
from mpinodes.auditing.transcripts import Transcript, simulate
from mpinodes.config.building import build, rebuilt
from mpinodes.launch.threads import ONE_THREAD
from mpinodes.runlog.reader import Reader

FEW = 6  # largest number of rounds of a run over MPI
PACKAGE = str(Path(__file__).parents[3])  # the directory that holds this package
LAUNCHED = ("PMI", "OMPI", "HYDRA", "MPI")  # prefixes of environment variables that mpirun sets


def _started(words: list[str], folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command, and return its result. The new process imports this copy of mpinodes.

    The environment variables that mpirun sets are removed, so that the new process does not seem started by mpirun.

    Args:
        words: the command.
        folder: the working directory.
        variables: further environment variables.
    """
    environment = {key: value for key, value in os.environ.items() if not key.startswith(LAUNCHED)}
    environment["PYTHONPATH"] = os.pathsep.join([PACKAGE, os.environ.get("PYTHONPATH", "")])
    environment |= variables
    return subprocess.run(words, capture_output=True, text=True, env=environment, cwd=folder, check=False)


def _last_line(done: subprocess.CompletedProcess[str]) -> str:
    """Return the last line that a process wrote to stderr, at most 150 characters."""
    return (done.stderr.strip().splitlines() or ["no reason given"])[-1][:150]


def alone(runs: list[Transcript], folder: Path) -> Iterator[Fault]:
    """Repeat runs in another process, and yield a fault for each run in which any message or decision differs.

    The other process has the time zone of Tokyo and a fixed seed of Python's hash function.

    Raises:
        RuntimeError: a run fails in the other process.
    """
    job = folder / "job.pickle"
    job.write_bytes(pickle.dumps([run.setup.experiment for run in runs]))
    words = [sys.executable, "-m", __name__, str(job)]
    done = _started(words, folder, **ONE_THREAD, PYTHONHASHSEED="12345", TZ="Asia/Tokyo")
    if done.returncode:
        raise RuntimeError(f"in another process: {_last_line(done)}")
    for run, (frames, decisions) in zip(runs, pickle.loads(job.read_bytes()), strict=True):
        differ = (frames != run.frames).any(axis=2) | (decisions != run.decisions).any(axis=2)
        for t, i in np.argwhere(differ)[:1].tolist():
            yield Fault(
                "an agent sends other messages in another process",
                f"{run.label}: agent {i}, round {t + 1}: with equal data, the message, a scalar or the decision "
                "differs in another process",
                "use only the arguments: no own random draw, clock, hash, id, file or environment",
            )


def main(job: str) -> None:
    """Simulate all experiments in the file `job`, and overwrite this file with the messages and decisions."""
    runs = [simulate(build(experiment)) for experiment in pickle.loads(Path(job).read_bytes())]
    Path(job).write_bytes(pickle.dumps([(run.frames, run.decisions) for run in runs]))


def over_mpi(run: Transcript, folder: Path, report: Report) -> Iterator[Fault]:
    """Yield a fault if a run over MPI has other messages than the same run in one process.

    At most `FEW` rounds are run. If mpirun is missing or does not work, nothing is compared, and a note is added to the
    report.

    Raises:
        RuntimeError: the run ends with an error message of mpinodes.
    """
    command = shutil.which("mpirun", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    if command is None:
        report.notes.append("no mpirun was found, so that no run over MPI was compared")
        return
    e = msgspec.structs.replace(run.setup.experiment, rounds=min(FEW, run.setup.experiment.rounds))
    asked, out = folder / "mpi.toml", folder / "mpi"
    asked.write_text(e.toml(), "utf-8")
    words = [command, "-n", str(len(run.agents) + 1), sys.executable, "-m", "mpinodes.run", str(asked)]
    done = _started([*words, f"output.dir={out}"], folder)
    if "mpinodes: error" in done.stderr:
        raise RuntimeError(f"over MPI: {_last_line(done)}")
    if done.returncode or not (out / "record.h5").exists():
        report.notes.append(f"mpirun does not run here ({_last_line(done)}), so that no run over MPI was compared")
        return
    with Reader(out) as record:
        frames = record.read("transcript").values
    shorter = simulate(rebuilt(run.setup, e))
    differ = np.argwhere((frames != shorter.frames).any(axis=2) & ~np.isnan(frames).all(axis=2))
    for t, i in differ[:1].tolist():
        where = f"{run.label}: agent {i}, round {t + 1}: its frame under mpirun differs from that in one process"
        yield Fault("a simulation differs from the run over MPI", where, KEPT)


if __name__ == "__main__":
    main(sys.argv[1])
