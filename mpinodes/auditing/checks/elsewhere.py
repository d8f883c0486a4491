"""The same run in another process, and over MPI.

`python -m mpinodes.auditing.checks.elsewhere JOB` is that other process. JOB holds the experiments, which are replaced
by what their agents send and decide.
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
from mpinodes.core.experiment import Experiment
from mpinodes.launch.threads import ONE_THREAD
from mpinodes.runlog.reader import Reader

FEW = 6  # rounds over MPI
PACKAGE = str(Path(__file__).parents[3])
LAUNCHED = ("PMI", "OMPI", "HYDRA", "MPI")  # beginnings of the variables of a process that mpirun started


def _started(words: list[str], folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a process that finds this mpinodes first, and that no launcher has started."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith(LAUNCHED)}
    environment["PYTHONPATH"] = os.pathsep.join([PACKAGE, os.environ.get("PYTHONPATH", "")])
    environment |= variables
    return subprocess.run(words, capture_output=True, text=True, env=environment, cwd=folder, check=False)


def _last_line(done: subprocess.CompletedProcess[str]) -> str:
    """Return the end of what a process wrote to stderr."""
    return (done.stderr.strip().splitlines() or ["no reason given"])[-1][:150]


def alone(runs: list[Transcript], folder: Path) -> Iterator[Fault]:
    """Find an agent whose messages or decisions differ in another process, with another time zone and other hashes.

    Raises:
        RuntimeError: a run fails there.
    """
    job = folder / "job.pickle"
    job.write_bytes(pickle.dumps([msgspec.msgpack.encode(run.setup.experiment) for run in runs]))
    words = [sys.executable, "-m", __name__, str(job)]
    done = _started(words, folder, **ONE_THREAD, PYTHONHASHSEED="12345", TZ="Asia/Tokyo")
    if done.returncode:
        raise RuntimeError(f"in another process: {_last_line(done)}")
    for run, (frames, decisions) in zip(runs, pickle.loads(job.read_bytes()), strict=True):
        differ = (frames != run.frames).any(axis=2) | (decisions != run.decisions).any(axis=2)
        for t, i in np.argwhere(differ)[:1].tolist():
            yield Fault(
                "an agent says something else in another process",
                f"{run.label}: agent {i}, round {t + 1}: with equal data, the message, a scalar or the decision "
                "differs in a fresh process",
                "use only the arguments: no own random draw, clock, hash, id, file or environment",
            )


def main(job: str) -> None:
    """Simulate all experiments of a job, as the other process of `alone`."""
    experiments = [msgspec.msgpack.decode(packed, type=Experiment) for packed in pickle.loads(Path(job).read_bytes())]
    runs = [simulate(build(experiment)) for experiment in experiments]
    Path(job).write_bytes(pickle.dumps([(run.frames, run.decisions) for run in runs]))


def over_mpi(run: Transcript, folder: Path, report: Report) -> Iterator[Fault]:
    """Find a message that differs by any bit between a run over MPI, by the real command, and a run in one process.

    Raises:
        RuntimeError: the run fails over MPI.
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
        yield Fault("lockstep differs from MPI", where, KEPT)


if __name__ == "__main__":
    main(sys.argv[1])
