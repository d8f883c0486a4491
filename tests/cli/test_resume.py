"""A run that a signal stops, and that goes on, as a user does it."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

from tests.helpers.parts import run_of
from tests.helpers.records import same_bits
from tests.helpers.running import mpirun, run_alone

WORDS = ["algorithm.name=dola", "topology.name=ring", "data.total=100", "data.epochs=100", "report=false"]


def test_a_signal_to_mpirun_stops_a_run_with_5_and_it_goes_on_alone(tmp_path):
    words = [*mpirun(), "-n", "4", sys.executable, "-m", "mpinodes.run", *WORDS, "rounds=3000", "output.dir=run"]
    job = subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    progress, until = tmp_path / "run" / "progress.jsonl", time.monotonic() + 120
    while not (progress.exists() and progress.stat().st_size):
        assert job.poll() is None
        assert time.monotonic() < until
        time.sleep(0.02)
    job.send_signal(signal.SIGUSR1)
    said = job.communicate(timeout=120)[1]
    assert job.returncode == 5, said
    stopped = int(said.split("SIGUSR1: stopped after round ")[1].split(";")[0])
    assert f"python -m mpinodes.run --resume {tmp_path / 'run'}" in said
    refused = run_alone("--lockstep", "--resume", "run", "seed=1", cwd=tmp_path)
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    assert "seed was 0 and is 1" in refused.err
    done = run_alone("--lockstep", "--resume", "run", cwd=tmp_path)
    assert done.code == 0, done.err
    assert f"goes on after round {stopped}" in done.err
    run_of(tmp_path / "whole", " ".join([*WORDS, "topology.agents=3 rounds=3000"]))
    assert same_bits(tmp_path / "run", tmp_path / "whole") == []
