"""What a run directory is worth whenever a run was killed, and what a user may do to it meanwhile."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from mpinodes.config.compose import compose
from mpinodes.core.errors import BadInput
from mpinodes.launch.launching import deadline_of, mpirun
from mpinodes.runlog.directories import new_directory
from tests.helpers.running import command, run_alone, run_here, run_mpi

WORDS = ("algorithm.name=dola", "rounds=20", "report=false", "output.dir=run")
PART = """
import os, shutil, signal
from pathlib import Path
from mpinodes.core.parts import Metric
__all__ = ["Planted"]

class Planted(Metric):
    name, dims, label = "planted", ("horizon",), "planted"

    def take(self, rounds):
        Path("run/experiment.toml").unlink(missing_ok=True)

    def judge(self, run):
        {what}
        import numpy as np
        return np.zeros(len(run.horizons))
"""
METRIC = 'record.metrics=["planted.py"]'


@pytest.mark.parametrize("left", [["log.txt", "experiment.toml"], ["log.txt", "experiment.toml.part"]])
def test_the_same_command_takes_a_directory_in_which_nothing_was_recorded(left, tmp_path):
    (tmp_path / "run").mkdir()
    for name in left:
        (tmp_path / "run" / name).touch()
    assert run_here("--lockstep", *WORDS, cwd=tmp_path).code == 0
    again = run_here("--lockstep", *WORDS, cwd=tmp_path)
    assert (again.code, "not empty" in again.err) == (2, True)


def test_a_run_that_is_done_says_how_its_page_is_drawn(tmp_path):
    assert run_here("--lockstep", *WORDS, cwd=tmp_path).code == 0
    done = run_here("--lockstep", "--resume", "run", cwd=tmp_path)
    assert (done.code, "report run" in done.err) == (2, True)
    for word in ("output.dir=other", "output=other", 'output={dir="other"}'):
        done = run_here("--lockstep", "--resume", "run", word, cwd=tmp_path)
        assert (done.code, done.err.count("\n"), "output" in done.err) == (2, 1, True)


@pytest.mark.parametrize("text", ["", 'name = "dola"\n'])
def test_an_incomplete_experiment_is_not_resumed(text, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "experiment.toml").write_text(text)
    done = run_here("--lockstep", "--resume", "run", cwd=tmp_path)
    assert (done.code, done.err.count("\n"), "experiment.toml is not complete" in done.err) == (2, 1, True)


def test_a_run_with_a_users_file_that_was_killed_before_round_1_is_resumed(tmp_path):
    (tmp_path / "planted.py").write_text(PART.format(what="pass"))
    assert run_here("--lockstep", *WORDS, METRIC, cwd=tmp_path).code == 0
    asked = (tmp_path / "run" / "experiment.toml").read_text()
    shutil.rmtree(tmp_path / "run")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "experiment.toml").write_text(asked)
    assert run_here("--lockstep", "--resume", "run", cwd=tmp_path).code == 0


def test_of_two_runs_in_one_directory_the_second_is_refused(tmp_path):
    e = compose({"output": {"dir": str(tmp_path / "run")}}, None).experiment
    with new_directory(e), pytest.raises(BadInput, match="another process"), new_directory(e):
        pass
    (tmp_path / "run" / "log.txt").write_text("ended\n")
    with pytest.raises(BadInput, match="not empty"), new_directory(e):
        pass


def test_a_broken_pipe_of_a_users_file_is_reported(tmp_path):
    text = PART.format(what="pass").replace(
        "def take(self, rounds):", "def take(self, rounds): raise BrokenPipeError(2)\n"
    )
    (tmp_path / "planted.py").write_text(
        text.replace('        Path("run/experiment.toml").unlink(missing_ok=True)\n', "")
    )
    done = run_here("--lockstep", *WORDS, METRIC, cwd=tmp_path)
    assert (done.code, "BrokenPipeError: 2" in done.err) == (3, True)


@pytest.mark.parametrize("seconds", ["nan", "-1", "0"])
def test_a_deadline_that_is_no_time_is_refused(seconds, tmp_path):
    done = run_here("--lockstep", *WORDS, f"deadline.seconds={seconds}", cwd=tmp_path)
    assert (done.code, done.err.count("\n"), "deadline.seconds" in done.err) == (2, 1, True)


def test_an_experiment_that_was_deleted_during_a_run_is_there_at_its_end(tmp_path):
    (tmp_path / "planted.py").write_text(PART.format(what="pass"))
    assert run_here("--lockstep", *WORDS, METRIC, cwd=tmp_path).code == 0
    assert "rounds = 20" in (tmp_path / "run" / "experiment.toml").read_text()


@pytest.mark.parametrize("lockstep", [True, False])
@pytest.mark.parametrize(("name", "code"), [("SIGTERM", 5), ("SIGINT", 130)])
def test_a_signal_after_the_rounds_is_in_the_log_and_the_rounds_can_be_summed_up(name, code, lockstep, tmp_path):
    (tmp_path / "planted.py").write_text(PART.format(what=f"os.kill(os.getpid(), signal.{name})"))
    words = [*WORDS, METRIC, "topology.name=complete"]
    run = run_alone("--lockstep", *words, cwd=tmp_path) if lockstep else run_mpi(4, *words, cwd=tmp_path)
    assert run.code == code
    log = (tmp_path / "run" / "log.txt").read_text()
    assert f"received {name}: all rounds are recorded" in log
    assert "mpinodes report " in log


def test_a_directory_that_becomes_a_file_is_one_line(tmp_path):
    what = 'shutil.move("run", "moved"); Path("run").touch(); raise ValueError("planted")'
    (tmp_path / "planted.py").write_text(PART.format(what=what))
    done = run_mpi(3, *WORDS, METRIC, "topology.name=complete", cwd=tmp_path)
    assert done.code == 3
    assert "planted" in done.err


@pytest.mark.parametrize("repeats", [1, 2])
def test_two_checkpoints_stay(repeats, tmp_path):
    words = [*WORDS, "checkpoint.every=4", f"repeats={repeats}", "topology.name=complete"]
    assert run_mpi(3, *words, cwd=tmp_path).code == 0
    shutil.move(tmp_path / "run", tmp_path / "mpi")
    assert run_here("--lockstep", *words, "topology.agents=2", cwd=tmp_path).code == 0
    for run in ("mpi", "run"):
        for folder in (tmp_path / run).rglob("checkpoint"):
            assert {file.name.partition("-")[0] for file in folder.glob("[0-9]*-*")} == {"16", "20"}


SOON = """
import runpy
from mpinodes.launch import launching
launching.LEAST_START, launching.RANK_STARTS = 1, 0.5
runpy.run_module("mpinodes.run", run_name="__main__", alter_sys=True)
"""


@pytest.mark.parametrize("rank", [0, 2])
def test_a_rank_that_never_comes_ends_the_job(rank, tmp_path):
    """As one that was stopped before MPI began. Where ranks have a core each, the launcher alone says so."""
    absent = f'test "${{PMI_RANK:-$OMPI_COMM_WORLD_RANK}}" = {rank} && exec sleep 100; exec "$@"'
    words = ["sh", "-c", absent, "sh", sys.executable, "-c", SOON, *WORDS, "deadline.seconds=1"]
    done = command([*mpirun(), "-n", "3", *words], tmp_path)
    assert done.code  # of mpirun, which has to kill the rank that is missing
    assert "MPI did not start" in done.err or "(signal 14)" in done.out or "signal 14 " in done.err


def test_the_deadline_is_known_before_the_experiment_is_read(tmp_path: Path):
    (tmp_path / "experiment.toml").write_text("rounds = 3\n[deadline]\nseconds = 7\n")
    file = str(tmp_path / "experiment.toml")
    assert deadline_of([file]) == deadline_of([], tmp_path) == 7
    assert deadline_of([file, "deadline.seconds=3"]) == 3
    assert deadline_of(["deadline.seconds='inf'"]) == float("inf")
    assert deadline_of([str(tmp_path), "rounds=3"]) is deadline_of(["deadline.seconds=word"]) is None
