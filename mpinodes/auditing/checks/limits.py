"""A run without noise, and a run over MPI."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np

from mpinodes.auditing.checks.failures import Fault, Report
from mpinodes.auditing.checks.walks import TriedRun, Walk, made, release_of
from mpinodes.config.building import rebuilt
from mpinodes.core import Query

FEW = 6  # rounds over MPI


def finite(run: TriedRun) -> list[Fault]:
    """Return a fault where a decision is not finite."""
    bad = np.argwhere(~np.isfinite(run.decisions).all(axis=2))
    where = [f"{run.what}: agent {i}, round {t + 1}" for t, i in bad[:1].tolist()]
    return [Fault("a decision that is not finite", place, "decisions are finite numbers") for place in where]


def without_noise(run: TriedRun) -> Iterator[Fault]:
    """Without noise a release is the clean value, and decisions are finite."""
    e = run.setup.experiment
    privacy = msgspec.structs.replace(e.privacy, epsilon="inf")
    clean = made(f"{run.what}, no noise", rebuilt(run.setup, msgspec.structs.replace(e, privacy=privacy)))
    if faults := finite(clean):
        yield from faults
        return
    for i in clean.agents:
        for call in Walk(clean.fresh(), clean.frames, i).calls(len(clean.frames)):
            value = call.message.value if isinstance(call.message, Query) else None
            if value is not None and not np.array_equal(value, release_of(clean, i, call.here.t)):
                yield Fault(
                    "without noise something else than its value is released",
                    f"{clean.what}: agent {i}, round {call.here.t}",
                    "privacy.epsilon=inf must give the clean method",
                )
                return


def over_mpi(run: TriedRun, folder: Path, report: Report) -> Iterator[Fault]:
    """A few rounds by the real command, bit for bit those of one process."""
    mpirun = Path(sys.executable).with_name("mpirun")
    command = str(mpirun) if mpirun.exists() else shutil.which("mpirun")
    if command is None:
        report.notes.append("no mpirun was found: lockstep was compared with processes alone, not with MPI")
        return
    e = run.setup.experiment
    rounds = min(FEW, e.rounds)
    asked, out = folder / "mpi.toml", folder / "mpi"
    asked.write_text(msgspec.structs.replace(e, rounds=rounds).toml(), "utf-8")
    package = str(Path(__file__).parents[3])
    environment = {
        key: value for key, value in os.environ.items() if not key.startswith(("PMI", "OMPI", "HYDRA", "MPI"))
    }
    environment["PYTHONPATH"] = os.pathsep.join([package, os.environ.get("PYTHONPATH", "")])
    words = [command, "-n", str(run.setup.topology.agents + 1), sys.executable, "-m", "mpinodes.run", str(asked)]
    try:
        done = subprocess.run(
            [*words, f"output.dir={out}"],
            capture_output=True, text=True, env=environment, cwd=folder, check=False, timeout=300,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        report.notes.append("mpirun had not ended after five minutes: lockstep was not compared with MPI")
        return
    said = (done.stderr.strip().splitlines() or ["no reason given"])[-1][:150]
    if "mpinodes: error" in done.stderr:
        yield Fault(
            "it fails over MPI", f"{run.what}: {said}", "what runs in lockstep must run with a process an agent"
        )
        return
    if done.returncode or not (out / "record.h5").exists():
        report.notes.append(
            f"mpirun would not run here ({said}): lockstep was compared with processes alone, not with MPI"
        )
        return
    from mpinodes.runlog.reader import Reader

    with Reader(out) as record:
        frames = record.read("transcript").values
    if rounds != len(run.frames):
        shorter = made(run.what, rebuilt(run.setup, msgspec.structs.replace(e, rounds=rounds)))
    else:
        shorter = run
    differ = np.argwhere((frames != shorter.frames).any(axis=2) & ~np.isnan(frames).all(axis=2))
    report.tested["messages over MPI"] = frames.shape[0] * frames.shape[1]
    if len(differ):
        t, i = differ[0].tolist()
        yield Fault(
            "lockstep differs from MPI",
            f"{run.what}: agent {i}, round {t + 1}: its frame under mpirun is another than in one process",
            "no global, class attribute, closure, cache, file or clock may carry anything between calls",
        )
