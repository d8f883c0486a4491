"""Whatever a user gets wrong: one message, exit code 2, no traceback, no hang, nothing left behind."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tests.conftest import command, mpirun, run_alone, run_mpi

SELF_LOOP = '{"nodes": [{"id": 0}, {"id": 1}], "edges": [{"source": 0, "target": 1}, {"source": 1, "target": 1}]}'
APART = '{"nodes": [{"id": 0}, {"id": 1}, {"id": 2}], "edges": [{"source": 0, "target": 1}]}'

FILES = {
    "broken.toml": "rounds = \n",
    "binary.toml": b"\xff\xfe",
    "loop.json": SELF_LOOP,
    "apart.json": APART,
    "broken.json": "{",
    "broken.py": "import nothing_of_the_sort",
    "taken": "a file",
}

BAD = [
    (8, "privacy.epsilo=1", "unknown key privacy.epsilo; did you mean privacy.epsilon?"),
    (8, "epsilon=1", "unknown key epsilon; choose from: algorithm"),
    (8, "algorithm.mixing=metropolis", "algorithm.mixing = 'metropolis': choose from: push-sum"),
    (8, "rounds=many", "rounds = 'many': expected int, got str"),
    (8, "rounds=0", "rounds = 0: expected int >= 1"),
    (8, "rounds=285", "set data.epochs=2, or fewer rounds"),
    (8, "privacy.epsilon=-1", "privacy.epsilon = -1: expected float > 0.0"),
    (8, "privacy.epsilon=0", "privacy.epsilon = 0: expected float > 0.0"),
    (8, "privacy.epsilon=nan", "privacy.epsilon = nan: expected float > 0.0"),
    (8, "privacy.delta=2", "privacy.delta = 2: expected float < 1.0"),
    (8, "problem.set=sphere", "problem.set = 'sphere': choose from: box, ball, product-of-balls, none"),
    (8, "data.name=mnist", "data.name = 'mnist': there is no such name; choose from: digits, olr"),
    (8, "missing.toml", "missing.toml: cannot be read: No such file or directory"),
    (8, "broken.toml", "broken.toml: not TOML: Invalid value (at line 1, column 10)"),
    (8, "binary.toml", "binary.toml: not TOML"),
    (8, "topology.file=missing.json", "missing.json: cannot be read"),
    (8, "topology.file=broken.json", "broken.json: not JSON"),
    (3, "topology.file=loop.json", "loop.json: round 1: agent 1 has an edge to itself"),
    (4, "topology.file=apart.json", "apart.json: not connected: in the union of rounds 1 to 1"),
    (5, "", "has 7 agents, so with the logger it needs 8 ranks, and mpirun started 5: use mpirun -n 8"),
    (8, "algorithm.name=dpcda", "has 1 agents, so with the logger it needs 2 ranks"),
    (
        8,
        "algorithm.name=dpsda-c topology.name=seven-agent-digraph",
        "round 1: agent 0 sends to agent 1, but not 1 to 0",
    ),
    (8, "algorithm.path=broken.py", "cannot be imported: ModuleNotFoundError"),
    (8, "output.dir=taken/run", "output.dir: cannot write to 'taken/run': Not a directory"),
    (8, "privacy.clip=inf privacy.scale=calibrated", "leaves no sensitivity to calibrate noise to"),
    (8, "--fast", "unrecognized arguments: --fast; see python -m mpinodes.run --help"),
    (2, "--lockstep", "--lockstep runs all agents in one process: start it without mpirun"),
    (2, "--explain nothing", "--explain nothing: no such key"),
    (102, "data.name=olr", "has 7 agents"),
]


def left_behind(where: Path) -> list[str]:
    """Commands of processes that still work in a directory a second after mpirun has ended."""
    deadline = time.monotonic() + 1
    while (found := working_in(where)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return found


def working_in(where: Path) -> list[str]:
    found = []
    for process in Path("/proc").iterdir():
        try:
            if process.name.isdigit() and os.readlink(process / "cwd").startswith(str(where)):
                found.append((process / "cmdline").read_text().replace("\0", " "))
        except OSError:
            continue
    return found


def check(done, message: str, seconds: float, where: Path) -> None:
    assert done.code == 2, done.err
    assert message in done.err
    lines = [line for line in done.err.splitlines() if line.startswith("mpinodes: ")]
    assert len(lines) == 1, done.err
    assert "Traceback" not in done.err
    assert seconds < 10 or message == "has 7 agents"  # 102 ranks on two cores take their time to start
    assert left_behind(where) == []


@pytest.mark.parametrize(("ranks", "words", "message"), BAD, ids=[words or "ranks" for _, words, _ in BAD])
def test_one_message_and_exit_code_two(ranks, words, message, tmp_path):
    for name, text in FILES.items():
        (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    start = time.monotonic()
    done = run_mpi(ranks, *words.split(), cwd=tmp_path)
    check(done, message, time.monotonic() - start, tmp_path)
    assert done.err.strip().count("\n") == 0
    assert not (tmp_path / "runs").exists()


def test_started_without_mpirun(tmp_path):
    start = time.monotonic()
    done = run_alone(cwd=tmp_path)
    check(done, "start it with mpirun -n 8 python -m mpinodes.run", time.monotonic() - start, tmp_path)


def test_mpirun_of_another_mpi(tmp_path):
    """What such processes see: a launcher that counts several, and a world of one."""
    start = time.monotonic()
    for rank in ("0", "3"):
        env = {"OMPI_COMM_WORLD_SIZE": "8", "OMPI_COMM_WORLD_RANK": rank}
        done = run_alone(cwd=tmp_path, env=env)
        if rank == "0":
            check(
                done,
                "Open MPI's mpirun started 8 processes, but each believes it is alone",
                time.monotonic() - start,
                tmp_path,
            )
        else:
            assert (done.code, done.err) == (2, "")


def test_one_rank_is_not_enough(tmp_path):
    done = command([*mpirun(), "-n", "1", os.sys.executable, "-m", "mpinodes.run"], tmp_path)
    assert done.code == 2
    assert "one process is not a network" in done.err


FAILING = """
from dataclasses import dataclass
import os, sys, signal
from mpinodes.algorithms.dpsda_ps import DPSDAPS
__all__ = ["Failing"]

@dataclass(frozen=True)
class Failing(DPSDAPS):
    agent: int = 2
    how: str = "raise"

    def update(self, s, round, inbox, loss):
        if round.t == 5 and round.me == self.agent or self.agent == 99:
            if self.how == "exit":
                sys.exit(4)
            if self.how == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            raise ZeroDivisionError("planted")
        return super().update(s, round, inbox, loss)
"""


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("", "agent 2 (rank 2): ZeroDivisionError: planted (traceback in "),
        ("algorithm.how=exit", "agent 2 (rank 2): exit(4) (traceback in "),
        ("algorithm.agent=99", "ZeroDivisionError: planted (traceback in "),
    ],
)
def test_a_rank_that_fails_ends_the_job_with_one_message_and_its_traceback_in_the_log(words, message, tmp_path):
    (tmp_path / "failing.py").write_text(FAILING)
    start = time.monotonic()
    done = run_mpi(8, "algorithm.path=failing.py", "output.dir=run", *words.split(), cwd=tmp_path)
    assert done.code == 3, done.err
    assert message in done.err
    assert len(done.err.splitlines()) == 1, done.err
    log = (tmp_path / "run" / "log.txt").read_text()
    assert "Traceback" in log
    assert "failing.py" in log
    assert time.monotonic() - start < 8  # start-up of 8 ranks included
    assert left_behind(tmp_path) == []


def test_a_killed_rank_ends_the_job(tmp_path):
    (tmp_path / "failing.py").write_text(FAILING)
    done = run_mpi(8, "algorithm.path=failing.py", "algorithm.how=kill", cwd=tmp_path, limit=30)
    assert done.code != 0
    assert left_behind(tmp_path) == []
