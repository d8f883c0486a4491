"""Every agent of some runs alone, in a process of its own: what it says is handed back as digests.

python -m mpinodes.auditing.checks.fresh_process JOB OUT; JOB holds what was asked for and the frames, OUT gets the
digests.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec

from mpinodes.auditing.checks.failures import Fault
from mpinodes.auditing.checks.walks import TriedRun, Walk
from mpinodes.config.building import build
from mpinodes.core.experiment import Experiment
from mpinodes.launch.threads import ONE_THREAD

Digests = dict[tuple[int, int], list[str]]  # by run and agent, of every round


def elsewhere(runs: list[TriedRun], folder: Path) -> Iterator[Fault]:
    """Agents alone in another process, the last first, against the run that they were recorded in."""
    job, out = folder / "job.pickle", folder / "out.pickle"
    work = [(msgspec.msgpack.encode(run.setup.experiment), run.frames) for run in runs]
    job.write_bytes(pickle.dumps(work))
    package = str(Path(__file__).parents[3])
    paths = os.pathsep.join([package, os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, **ONE_THREAD, "PYTHONPATH": paths, "PYTHONHASHSEED": "12345", "TZ": "Asia/Tokyo"}
    done = subprocess.run(
        [sys.executable, "-m", "mpinodes.auditing.checks.fresh_process", str(job), str(out)],
        capture_output=True, text=True, env=environment, cwd=folder, check=False,
    )  # fmt: skip
    if done.returncode:
        tail = done.stderr.strip().splitlines()[-1:] or ["no reason given"]
        yield Fault(
            "an agent alone in a process of its own fails", tail[0], "all that it needs is in its state and inbox"
        )
        return
    there: Digests = pickle.loads(out.read_bytes())
    for k, run in enumerate(runs):
        for i in run.agents:
            here = digests(run.fresh(), run, i)
            for t, (one, other) in enumerate(zip(here, there[k, i], strict=True), 1):
                if one != other:
                    yield Fault(
                        "an agent says something else in another process",
                        f"{run.what}: agent {i}, round {t}: the same state and inbox, and another message, scalar or "
                        "decision in a fresh process",
                        "no own random draw, clock, hash, id, file or environment: only arguments",
                    )
                    break


def digests(setup: object, run: TriedRun, agent: int) -> list[str]:
    """Of every round of an agent."""
    calls = Walk(setup, run.frames, agent).calls(len(run.frames))  # type: ignore[arg-type]
    return [
        hashlib.sha256(repr((c.said, c.decision, c.release, c.scalars, c.following)).encode()).hexdigest()
        for c in calls
    ]


def main(job: str, out: str) -> None:
    """The other process."""
    found: Digests = {}
    for k, (packed, frames) in enumerate(pickle.loads(Path(job).read_bytes())):
        experiment = msgspec.msgpack.decode(packed, type=Experiment)
        for agent in reversed(range(frames.shape[1])):
            setup = build(experiment)  # imports the files anew
            run = TriedRun("", setup, frames[..., :0], frames, None)  # type: ignore[arg-type]
            found[k, agent] = digests(setup, run, agent)
    Path(out).write_bytes(pickle.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
