"""Runs watched from another process."""

from __future__ import annotations

import io
import re
import subprocess
import sys
from pathlib import Path

import pytest

from mpinodes import report
from mpinodes.core.errors import BadInput
from mpinodes.runlog.progress import Progress
from mpinodes.running import monitor as watching
from tests.helpers.parts import run_of
from tests.helpers.running import mpirun
from tests.helpers.slow import slow


def test_a_running_job_is_told_of_until_it_ends(tmp_path):
    (tmp_path / "slow.py").write_text(slow("0 if os.path.exists('told') else 0.1"))
    words = ["algorithm.path=slow.py", "topology.name=ring", "data.total=2000", "rounds=1000"]
    words += ["output.dir=run", "report=false"]
    job = subprocess.Popen(
        [*mpirun(), "-n", "3", sys.executable, "-m", "mpinodes.run", *words], cwd=tmp_path, stdout=subprocess.DEVNULL
    )
    watch = [sys.executable, "-m", "mpinodes.watch", "run", "./run"]
    with subprocess.Popen(watch, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        lines = []
        for line in process.stdout:
            lines.append(line)
            if ": round " in line:
                (tmp_path / "told").touch()
    assert job.wait(60) == process.returncode == 0
    assert any(" of 1000, mean loss " in line and " s left" in line for line in lines), lines
    assert sum("run: done, 1000 rounds in " in line for line in lines) == 2


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def watched(tmp_path, monkeypatch):
    monkeypatch.setattr(watching, "SECONDS", 0.01)

    def told(*runs: str, terminal: bool = False) -> tuple[int, str]:
        out = Terminal() if terminal else io.StringIO()
        return watching.watch([tmp_path / run for run in runs], out), out.getvalue()

    return told


def logged(place: Path, rounds: int, of: int, loss: float = 1.0) -> Progress:
    place.mkdir(parents=True, exist_ok=True)
    progress = Progress(place, "run", of)
    progress.show(rounds, loss)
    progress.close()
    return progress


def test_rounds_loss_rate_and_failures_are_told(tmp_path, watched):
    logged(tmp_path / "run", 3, 9)
    run = watching.WatchedRun(tmp_path / "run")
    assert re.fullmatch(r"run: round 3 of 9, mean loss 1, [0-9.e+]+ rounds/s, \d+ s left", run.look())
    logged(tmp_path / "run", 6, 9, 7.0)
    assert run.look().startswith("run: round 6 of 9, mean loss 7, ")
    progress = logged(tmp_path / "run", 4, 4)  # by a run that begins anew
    assert run.look() == "run: all 4 rounds done; the summary is being computed"
    progress.finishing("privacy accounting", 3, 20)
    assert run.look() == "run: all 4 rounds done; privacy accounting, 3 of 20 horizons"
    (tmp_path / "run" / "experiment.toml").touch()
    (tmp_path / "run" / "failed.txt").write_text("error: agent 1 (rank 1): planted \x1b[31m\n")
    code, told = watched("run")
    assert (code, told) == (1, "run: ended without a result: error: agent 1 (rank 1): planted ?[31m\n")


def test_repeats_silence_and_a_directory_that_never_comes(tmp_path, watched, monkeypatch):
    logged(tmp_path / "run" / "repeat-1", 3, 30)
    (tmp_path / "run" / "experiment.toml").touch()
    assert watching.WatchedRun(tmp_path / "run").look().startswith("run: repeat 1: round 3 of 30, mean loss 1, ")
    monkeypatch.setattr(watching, "SILENCE", 0.3)
    monkeypatch.setattr(watching, "UNBEGUN", 0.05)  # the line of the run that ends first is not lost
    code, told = watched("run", "nothing")
    assert code == 1
    assert told.count("counts as ended") == 2
    assert "nothing: no run has begun there" in told


def test_a_run_that_nobody_is_at_work_on_has_ended(tmp_path, watched, monkeypatch):
    """A failed one, whose algorithm of the user's raises where ε is worked out too, and one that was killed."""
    monkeypatch.setattr(watching, "LEFT", 0.3)
    (tmp_path / "bad.py").write_text(slow("0 / (here.t < 9)"))
    words = f"algorithm.path={tmp_path / 'bad.py'} topology.name=ring rounds=12 data.total=700"
    with pytest.raises(ZeroDivisionError):
        run_of(tmp_path / "run", words)
    code, told = watched("run")
    assert code == 1
    assert "run: no process works on this run" in told
    assert report.main([str(tmp_path / "run")]) == 0
    code, told = watched("run")
    assert code == 1
    assert told.startswith("run: ended early")


@pytest.mark.parametrize("what", ["a file", "a directory of runs"])
def test_what_is_there_and_no_run_is_refused(what, tmp_path, watched):
    path = tmp_path / "it"
    if what == "a file":
        path.write_text("1,2\n")
    else:
        (path / "run").mkdir(parents=True)
    with pytest.raises(BadInput, match="not the directory of a run"):
        watched("it")


def test_a_finished_run_is_told_of_at_once_and_on_a_terminal_in_its_place(tmp_path, watched):
    run_of(tmp_path / "run", "rounds=4 data.total=700")
    code, told = watched("run")
    assert code == 0
    assert told.startswith("run: done, 4 rounds in ")
    assert told.rstrip().endswith("ε claimed 1, proven 1 (one-sample)")
    code, told = watched("run", terminal=True)
    assert (code, told.count("\x1b[K\n")) == (0, 1)
