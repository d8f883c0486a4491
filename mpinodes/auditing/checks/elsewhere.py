"""The same run elsewhere: without noise, with every agent in another process, and over MPI.

`python -m mpinodes.auditing.checks.elsewhere JOB OUT` is that other process. JOB holds the experiments and what was
sent. The process writes to OUT what each agent sends.
"""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
import sys
from collections.abc import Iterator
from math import inf
from pathlib import Path

import msgspec
import numpy as np

from mpinodes.auditing.checks.failures import Fault, Report
from mpinodes.auditing.checks.purity import KEPT
from mpinodes.auditing.checks.walks import TriedRun, finite, made, walk
from mpinodes.config.building import build, rebuilt
from mpinodes.core import Query
from mpinodes.core.experiment import Experiment
from mpinodes.core.messages import HEADER
from mpinodes.launch.threads import ONE_THREAD
from mpinodes.runlog.reader import Reader

FEW = 6  # rounds over MPI
PACKAGE = str(Path(__file__).parents[3])


def without_noise(run: TriedRun) -> Iterator[Fault]:
    """Run without noise; find a release that differs from its value, and a decision that is not finite."""
    e = run.setup.experiment
    privacy = msgspec.structs.replace(e.privacy, epsilon=inf)
    clean = made(f"{run.what}, no noise", rebuilt(run.setup, msgspec.structs.replace(e, privacy=privacy)))
    if faults := finite(clean):
        yield from faults
        return
    for i in clean.agents:
        for call in walk(clean.fresh(), clean.frames, i):
            release = call.frame[HEADER : HEADER + clean.setup.dimension]
            if isinstance(call.message, Query) and not np.array_equal(call.message.value, release):
                yield Fault(
                    "without noise something else than its value is released",
                    f"{clean.what}: agent {i}, round {call.here.t}",
                    "privacy.epsilon=inf must give the clean method",
                )
                return


def alone(runs: list[TriedRun], folder: Path) -> Iterator[Fault]:
    """Find an agent whose messages differ in another process, where agents run one by one from the last on."""
    job, out = folder / "job.pickle", folder / "out.pickle"
    job.write_bytes(pickle.dumps([(msgspec.msgpack.encode(run.setup.experiment), run.frames) for run in runs]))
    paths = os.pathsep.join([PACKAGE, os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, **ONE_THREAD, "PYTHONPATH": paths, "PYTHONHASHSEED": "12345", "TZ": "Asia/Tokyo"}
    words = [sys.executable, "-m", __name__, str(job), str(out)]
    done = subprocess.run(words, capture_output=True, text=True, env=environment, cwd=folder, check=False)
    if done.returncode:
        tail = done.stderr.strip().splitlines()[-1:] or ["no reason given"]
        yield Fault(
            "an agent alone in a process of its own fails", tail[0], "an agent may use only its state and its inbox"
        )
        return
    for (k, i), sent in pickle.loads(out.read_bytes()).items():
        recorded = np.concatenate([runs[k].frames[:, i], runs[k].decisions[:, i]], axis=1)
        for t in np.flatnonzero((sent != recorded).any(axis=1))[:1].tolist():
            yield Fault(
                "an agent says something else in another process",
                f"{runs[k].what}: agent {i}, round {t + 1}: with equal state and inbox, the message, a scalar or the "
                "decision differs in a fresh process",
                "use only the arguments: no own random draw, clock, hash, id, file or environment",
            )


def main(job: str, out: str) -> None:
    """Run every agent by itself, as the other process of `alone`."""
    sent = {}
    for k, (packed, frames) in enumerate(pickle.loads(Path(job).read_bytes())):
        experiment = msgspec.msgpack.decode(packed, type=Experiment)
        for agent in reversed(range(frames.shape[1])):
            calls = walk(build(experiment), frames, agent)  # `build` imports the files anew
            sent[k, agent] = np.array([np.concatenate([call.frame, call.estimate]) for call in calls])
    Path(out).write_bytes(pickle.dumps(sent))


def over_mpi(run: TriedRun, folder: Path, report: Report) -> Iterator[Fault]:
    """Find a message that differs by any bit between a run over MPI, by the real command, and a run in one process."""
    mpirun = Path(sys.executable).with_name("mpirun")
    command = str(mpirun) if mpirun.exists() else shutil.which("mpirun")
    if command is None:
        report.notes.append("no mpirun was found, so that no run over MPI was compared")
        return
    e = msgspec.structs.replace(run.setup.experiment, rounds=min(FEW, run.setup.experiment.rounds))
    asked, out = folder / "mpi.toml", folder / "mpi"
    asked.write_text(e.toml(), "utf-8")
    environment = {
        key: value for key, value in os.environ.items() if not key.startswith(("PMI", "OMPI", "HYDRA", "MPI"))
    }
    environment["PYTHONPATH"] = os.pathsep.join([PACKAGE, os.environ.get("PYTHONPATH", "")])
    words = [command, "-n", str(run.setup.topology.agents + 1), sys.executable, "-m", "mpinodes.run", str(asked)]
    words.append(f"output.dir={out}")
    try:
        done = subprocess.run(
            words, capture_output=True, text=True, env=environment, cwd=folder, check=False, timeout=300
        )
    except subprocess.TimeoutExpired:
        report.notes.append("mpirun did not end within five minutes, so that no run over MPI was compared")
        return
    reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1][:150]
    if "mpinodes: error" in done.stderr:
        yield Fault(
            "it fails over MPI", f"{run.what}: {reason}", "an algorithm must also run with one process per agent"
        )
        return
    if done.returncode or not (out / "record.h5").exists():
        report.notes.append(f"mpirun does not run here ({reason}), so that no run over MPI was compared")
        return
    with Reader(out) as record:
        frames = record.read("transcript").values
    shorter = made(run.what, rebuilt(run.setup, e))
    differ = np.argwhere((frames != shorter.frames).any(axis=2) & ~np.isnan(frames).all(axis=2))
    report.tested["messages over MPI"] = frames.shape[0] * frames.shape[1]
    for t, i in differ[:1].tolist():
        where = f"{run.what}: agent {i}, round {t + 1}: its frame under mpirun differs from that in one process"
        yield Fault("lockstep differs from MPI", where, KEPT)


if __name__ == "__main__":
    main(*sys.argv[1:])
