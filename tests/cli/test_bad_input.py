"""Whatever a user gets wrong: one message, exit code 2, no traceback, no hang, nothing left behind."""

from __future__ import annotations

import gzip
import os
import re
import struct
import sys
import time
from pathlib import Path

import pytest

from mpinodes.run import main as mpinodes_run
from tests.helpers.running import command, mpirun, run_alone, run_mpi

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
    "words.csv": "a,b,label\n1,2,1\n3,x,0\n",
    "three.csv": "a,b,label\n1,2,1\n3,4,0\n5,6,2\n",
    "four.csv": "a,b,label\n1,2,1\n3,4,0\n5,6,1\n7,8,0\n",
    "nan.csv": "1,nan,1\n3,4,0\n",
    "order.libsvm": "+1 3:0.5 2:0.1\n-1 1:1\n+1 1:1\n-1 2:1\n",
    "not.npz": "PK\x03\x04 and then nothing",
    "mnist/train-images-idx3-ubyte.gz": gzip.compress(struct.pack(">4I", 0x803, 2, 28, 28) + bytes(2 * 784))[:-20],
    "mnist/train-labels-idx1-ubyte.gz": gzip.compress(struct.pack(">2I", 0x801, 2) + bytes([6, 8])),
    "cifar/data_batch_1.bin": bytes(3073 + 100),
    **{f"cifar/data_batch_{k}.bin": bytes(3073) for k in (2, 3, 4, 5)},
    "adult/adult.data": "39, State-gov, 77516, Bachelors, 13\n",
    "adult/adult.test": "|1x3 Cross validator\n",
    "empty/nothing": "",
    "odd\udcff.csv": "a,b,label\n" + "1,2,1\n3,4,0\n" * 40,
}

PS = "algorithm.name=dpsda-ps"
BAD = [
    (7, "epsilon=1", "unknown key epsilon; did you mean privacy.epsilon?"),
    (7, f"{PS} algorithm.mixing=metropolis", "algorithm.mixing = 'metropolis': choose from: push-sum"),
    (7, "rounds=many", "rounds = 'many': expected int, got str"),
    (7, f"checkpoint.every={'9' * 25}", "checkpoint.every: expected a whole number"),
    (7, f"checkpoint.every={'9' * 400}", "checkpoint.every: expected a whole number"),
    (3, "data.file=odd\udcff.csv", "data.file: expected UTF-8"),
    (7, "rounds=0", "rounds = 0: expected int >= 1"),
    (7, f"{PS} rounds=285", "set data.epochs=2, or fewer rounds"),
    (7, "privacy.epsilon=-1", "privacy.epsilon = -1: expected float > 0.0"),
    (7, "privacy.epsilon=0", "privacy.epsilon = 0: expected float > 0.0"),
    (7, "privacy.epsilon=nan", "privacy.epsilon = nan: expected float > 0.0"),
    (7, "privacy.budget.epsilon=1 privacy.budget.stops=[1e308]", "privacy.budget.stops = [1e+308]: expected int"),
    (7, "privacy.budget.epsilon=1e100", "privacy.budget.epsilon = 1e+100: expected float <= 1000000000000.0"),
    (7, f"name={'x' * 5000}!", f"{'x' * 100} [...] x"),
    (7, "privacy.delta=2", "privacy.delta = 2: expected float < 1.0"),
    (
        7,
        "problem.set=sphere",
        "problem.set = 'sphere': there is no such name; choose from: ball, box, none, product-of-balls",
    ),
    (7, "data.name=mnist-68", "data.name = 'mnist-68': there is no such name; did you mean mnist-6-8?"),
    (7, "broken.toml", "broken.toml: not TOML: Invalid value (at line 1, column 10)"),
    (7, "binary.toml", "binary.toml: not TOML"),
    (7, "topology.file=missing.json", "missing.json: cannot be read"),
    (7, "topology.file=broken.json", "broken.json: not JSON"),
    (7, f"{PS} topology.file=apart.json", "apart.json: not connected"),
    (
        7,
        "algorithm.name=dpsda-c topology.undirected=false",
        "round 1: agent 0 sends to agent 1, but not 1 to 0",
    ),
    (7, f"{PS} privacy.clip=inf privacy.scale=calibrated", "privacy.clip = inf: nothing bounds how much one sample"),
]

DOLA = "algorithm.name=dola"
BAD_DATA = [
    (2, f"{DOLA} data.file=words.csv", "words.csv: line 3, column 2: 'x' is not a finite number"),
    (
        2,
        f"{DOLA} data.file=three.csv",
        "three.csv: 3 different targets (0, 1, 2); two labels expected: set data.labels",
    ),
    (2, f"{DOLA} data.file=nan.csv", "nan.csv: line 1, column 2: 'nan' is not a finite number"),
    (2, f"{DOLA} data.file=order.libsvm topology.name=ring", "order.libsvm: line 1"),
    (2, f"{DOLA} data.file=not.npz", "not.npz: not an .npz of `features` and `targets`"),
    (
        2,
        f"{DOLA} data.file=four.csv data.bound=2 topology.name=ring",
        "the stated bound (data.bound or data.norm)",
    ),
    (2, f"{DOLA} data.file=four.csv data.batch=3", "4 training samples do not give 2 agents a batch of 3 each"),
    (2, f"{DOLA} data.file=four.csv data.partition=uneven data.sizes=[3,3]", "data.sizes = [3, 3]: expected 2 sizes"),
    (2, f"{DOLA} data.name=mnist-6-8 data.dir=mnist", "train-images-idx3-ubyte.gz: truncated"),
    (2, f"{DOLA} data.name=cifar10-cat data.dir=cifar", "data_batch_1.bin: record 2, from byte 3073 on, has"),
    (2, f"{DOLA} data.name=adult data.dir=adult", "adult.data: line 1: 5 fields found; 15 fields"),
    (2, f"{DOLA} data.name=adult data.dir=nowhere", "nowhere is not a directory; make it, or leave data.dir out"),
    (2, f"{DOLA} data.name=rcv1 data.dir=empty", "rcv1_train.binary: not in"),
    (2, f"{DOLA} data.name=olr rounds=20 problem.loss=hinge", "needs labels -1 and +1"),
    (7, f"{PS} data.partition=even", "the agents of dpsda-ps share one loss"),
    (3, f"{DOLA} topology.name=random-digraph", "weights need an undirected graph: set topology.name="),
    (3, "algorithm.name=dpsr topology.name=eulerian", "rescaling weights need a fixed graph"),
    (3, "algorithm.name=weight-balancing problem.set=box", "weight-balancing never projects; set problem.set=none"),
    (3, f"{DOLA} problem.regularizer=0", "needs strongly convex losses or a step.modulus"),
    (3, f"{DOLA} repeats=0", "repeats = 0: expected int >= 1"),
]

ADMM = "data.total=60 problem.weight=20"
BAD_ADMM = [
    (
        3,
        f"algorithm.name=pp-admm {ADMM} data.partition=uneven data.sizes=[20,18,22]",
        "agent 1: the weight C/B of a sample is 1.11111",
    ),
    (
        3,
        f"algorithm.name=dvp-admm {ADMM} algorithm.dual_step=[0.5,0.5,0.01]",
        "agent 2: 2 c1 = 0.5 is not below (B/C)(rho/N + 2 theta V) = 0.19",
    ),
    (
        3,
        f"algorithm.name=m-admm {ADMM} algorithm.penalty_growth=[1.1,1,1] algorithm.dual_growth=1.05",
        "agent 1: its penalty eta(100) = 0.5 is below the dual step theta(100) = ",
    ),
    (
        3,
        f"algorithm.name=pvp-admm {ADMM} algorithm.noise_rate=[3,3]",
        "algorithm.noise_rate has 2 values: expected one number, or one for each of the 3 agents",
    ),
    (3, f"algorithm.name=admm {ADMM} data.batch=5", "data.batch = 5: the losses of admm are the same in every round"),
    (
        3,
        f"algorithm.name=admm {ADMM} problem.loss=hinge",
        "problem.loss = 'hinge': admm minimizes by Newton's method",
    ),
    (3, f"algorithm.name=pvp-admm {ADMM} privacy.clip=1", "privacy.clip = 1.0: pvp-admm minimizes whole losses"),
    (3, f"algorithm.name=admm {ADMM} topology.directed=true", "agent 0 sends to agent 1, but not 1 to 0"),
]

BAD_UNDER_MPIRUN = [  # of each kind one, and what lockstep has not
    (8, "privacy.epsilo=1", "unknown key privacy.epsilo; did you mean privacy.epsilon?"),
    (4, "output.dir=odd\udcff", "output.dir: expected UTF-8"),
    (8, "missing.toml", "missing.toml: cannot be read: No such file or directory"),
    (3, f"{PS} topology.file=loop.json", "loop.json: round 1: agent 1 has an edge to itself"),
    (5, PS, "has 7 agents, so with the logger the run needs 8 ranks, but mpirun started 5: use mpirun -n 8"),
    (8, "algorithm.name=dpcda", "has 1 agents, so with the logger the run needs 2 ranks"),
    (8, "algorithm.path=broken.py", "cannot be imported: ModuleNotFoundError"),
    (8, "output.dir=taken/run", "output.dir: cannot write to 'taken/run': Not a directory"),
    (8, "--fast", "unrecognized arguments: --fast; see python -m mpinodes.run --help"),
    (2, "--lockstep", "--lockstep runs all agents in one process: start it without mpirun"),
    (2, "--explain nothing", "--explain nothing: no such key"),
    (9, PS, "has 7 agents"),
    (3, f"{DOLA} data.file=part-{{agent}}.csv", "part-0.csv: cannot be read: No such file or directory"),
]


def left_behind(where: Path) -> list[str]:
    """Commands of processes that still work in a directory after mpirun has ended and they had time to go."""
    deadline = time.monotonic() + 30
    while (found := working_in(where)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return found


def working_in(where: Path) -> list[str]:
    found = []
    for process in Path("/proc").iterdir():
        try:
            if process.name.isdigit() and os.readlink(process / "cwd").startswith(str(where)):
                found.append((process / "cmdline").read_text("utf-8", "replace").replace("\0", " "))
        except OSError:
            continue
    return found


def check(done, message: str, where: Path) -> None:
    assert done.code == 2, done.err
    assert message in done.err
    lines = [line for line in done.err.splitlines() if line.startswith("mpinodes: ")]
    assert len(lines) == 1, done.err
    assert "Traceback" not in done.err
    assert left_behind(where) == []


def made_files(tmp_path: Path) -> None:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())


@pytest.mark.parametrize(("agents", "words", "message"), BAD + BAD_DATA + BAD_ADMM)
def test_one_message_and_exit_code_two(agents, words, message, tmp_path, monkeypatch, capfd):
    made_files(tmp_path)
    monkeypatch.chdir(tmp_path)
    size = f" topology.agents={agents}" * (agents != 7)
    assert mpinodes_run(["--lockstep", *f"{words}{size}".split()]) == 2
    error = capfd.readouterr().err
    assert error.startswith("mpinodes: error: ")
    assert message in error
    assert error.strip().count("\n") == 0
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(("ranks", "words", "message"), BAD_UNDER_MPIRUN)
def test_so_it_is_under_mpirun_and_nothing_is_left(ranks, words, message, tmp_path):
    made_files(tmp_path)
    done = run_mpi(ranks, *words.split(), cwd=tmp_path)
    check(done, message, tmp_path)
    assert done.err.strip().count("\n") == 0
    assert not (tmp_path / "runs").exists()


def test_balancing_that_diverges_stops_with_agent_round_and_reason(tmp_path):
    words = ["algorithm.name=weight-balancing", "topology.name=random-digraph-each-round", "output.dir=run"]
    done = run_mpi(8, *words, cwd=tmp_path)
    assert done.code == 3, done.err
    assert "round 26: its own weight 1 - w d = -0.0434 is below 0" in done.err
    assert len(done.err.splitlines()) == 1
    assert left_behind(tmp_path) == []


@pytest.mark.parametrize(
    ("first", "more", "said"),
    [
        ("mkdir gone && cd gone && rmdir ../gone", "", "output.dir: runs: No such file or directory\n"),
        ("true", f"output.dir={'x' * 300}", "xxx: File name too long\n"),
    ],
)
def test_a_place_for_runs_that_cannot_be(first, more, said, tmp_path):
    words = f"{first} && exec {sys.executable} -m mpinodes run --lockstep rounds=3 {more}"
    done = command(["sh", "-c", words], tmp_path)
    assert (done.code, done.err[-len(said) :], done.err.count("\n")) == (2, said, 1)


def test_started_without_mpirun(tmp_path):
    done = run_alone(cwd=tmp_path)
    check(done, "mpirun -n 8 python -m mpinodes.run", tmp_path)


def test_mpirun_of_another_mpi(tmp_path):
    """What such processes see: a launcher that counts several, and a world of one."""
    for rank in ("0", "3"):
        env = {"OMPI_COMM_WORLD_SIZE": "8", "OMPI_COMM_WORLD_RANK": rank}
        done = run_alone(cwd=tmp_path, env=env)
        if rank == "0":
            check(done, "Open MPI's mpirun started 8 processes, but each believes it is alone", tmp_path)
        else:
            assert (done.code, done.err) == (2, "")


def test_one_rank_is_not_enough(tmp_path):
    done = command([*mpirun(), "-n", "1", os.sys.executable, "-m", "mpinodes.run"], tmp_path)
    assert done.code == 2
    assert "only one process was started" in done.err


FAILING = """
from dataclasses import dataclass
import os, sys, signal
from mpinodes.algorithms.dpsda_ps import DPSDAPS
__all__ = ["Failing"]

class Wordless(Exception):
    def __str__(self):
        raise RuntimeError

@dataclass(frozen=True)
class Failing(DPSDAPS):
    agent: int = 2
    how: str = "raise"

    def update(self, s, here, inbox, loss):
        if here.t == 5 and self.agent in (here.agent, 99):
            if self.how == "exit":
                sys.exit(4)
            if self.how == "rename":
                while not os.path.exists("run/progress.jsonl"):
                    pass
                os.rename("run", "other")
                return super().update(s, here, inbox, loss)
            if self.how == "surrogate":
                raise ValueError("a lone \\udcff, and an escape \\x1b[31m")
            if self.how == "wordless":
                raise Wordless
            if self.how == "STOP":
                os.kill(os.getpid(), signal.SIGSTOP)
            while self.how == "loop":
                pass
            raise ZeroDivisionError("planted")
        return super().update(s, here, inbox, loss)
"""


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("", "agent 2 (rank 2): ZeroDivisionError: planted"),
        ("algorithm.how=exit", "agent 2 (rank 2): SystemExit: 4"),
        ("algorithm.agent=99", "ZeroDivisionError: planted"),
        ("algorithm.how=surrogate", "ValueError: a lone \\udcff, and an escape \\x1b[31m"),
        ("algorithm.how=wordless", "agent 2 (rank 2): Wordless: <exception str() failed>"),
    ],
)
def test_a_rank_that_fails_ends_the_job_with_one_message_and_its_traceback_in_the_log(words, message, tmp_path):
    (tmp_path / "failing.py").write_text(FAILING)
    done = run_mpi(8, "algorithm.path=failing.py", "output.dir=run", *words.split(), cwd=tmp_path)
    assert done.code == 3, done.err
    assert message in done.err
    assert len(done.err.splitlines()) == 1, done.err
    log = (tmp_path / "run" / "log.txt").read_text()
    assert "Traceback" in log
    assert "failing.py" in log
    assert left_behind(tmp_path) == []


@pytest.mark.parametrize(
    ("how", "message"),
    [
        (
            "loop",
            r"no word from agent 2 \(process \d+ on .*\) for [\d.]+ s in round \d+; waiting: .*\(more in ",
        ),
        (
            "STOP",
            r"no word from agent 2 \(process \d+ on .*\) for [\d.]+ s in round \d+; waiting: .*\(more in ",
        ),
    ],
)
def test_a_rank_that_is_not_heard_of_any_more_ends_the_job(how, message, tmp_path):
    (tmp_path / "failing.py").write_text(FAILING)
    words = (
        "algorithm.path=failing.py",
        f"algorithm.how={how}",
        "deadline.seconds=2",
        "output.dir=run",
        "topology.name=complete",
    )
    done = run_mpi(4, *words, cwd=tmp_path)
    assert done.code == 4, done.err
    assert re.search(message, done.err), done.err
    assert len(done.err.splitlines()) == 1, done.err
    assert left_behind(tmp_path) == []


def test_a_locale_without_greek_letters_loses_no_result(tmp_path):
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "ascii"}
    done = run_alone("--lockstep", "rounds=8", "output.dir=run", cwd=tmp_path, env=ascii_only)
    assert done.code == 0, done.err
    assert "nominal \\u03b5 = 1" in done.out
    assert "ε" in (tmp_path / "run" / "report.html").read_text("utf-8")
    assert (tmp_path / "run" / "summary.json").exists()


def test_a_reader_that_has_seen_enough(tmp_path):
    explained = f"{os.sys.executable} -m mpinodes.run --explain all | head -n 1"
    done = command(["sh", "-c", explained], tmp_path)
    assert (done.out.count("\n"), done.err) == (1, "")


def test_what_only_finishing_asks_for_is_tried_before_the_first_round(tmp_path):
    (tmp_path / "late.py").write_text(
        "from dataclasses import dataclass\n"
        "from mpinodes.algorithms.dpsda_ps import DPSDAPS\n"
        "__all__ = ['Late']\n"
        "@dataclass(frozen=True)\n"
        "class Late(DPSDAPS):\n"
        "    def bounds(self, setup, horizons, minimizer):\n"
        "        raise NotImplementedError('of this loss')\n"
    )
    done = run_alone("--dry-run", "algorithm.path=late.py", cwd=tmp_path)
    check(done, "late fails: NotImplementedError: of this loss", tmp_path)


@pytest.mark.parametrize("loss", ["mean"])
@pytest.mark.parametrize("algorithm", ["dpsda-c", "dpsda-ps"])
def test_bounds_of_a_loss_that_is_no_function_of_a_product(algorithm, loss, tmp_path):
    words = (f"algorithm.name={algorithm}", f"data.name={loss}", "topology.name=ring", "topology.agents=3", "rounds=9")
    done = run_alone("--lockstep", *words, "report=false", "output.dir=run", cwd=tmp_path)
    assert done.code == 0, done.err


def test_a_run_directory_that_vanishes_is_noticed_while_the_rounds_go_on(tmp_path):
    (tmp_path / "failing.py").write_text(FAILING)
    words = ("algorithm.path=failing.py", "algorithm.how=rename", "output.dir=run")
    done = run_mpi(8, *words, cwd=tmp_path)
    assert done.code == 3, done.err
    assert "run was moved or removed during the run" in done.err
    assert len(done.err.splitlines()) == 1, done.err


FULL = """
import os, sys
from dataclasses import dataclass
from pathlib import Path
from mpinodes.algorithms.dola import DOLA
__all__ = ["Full"]

@dataclass(frozen=True)
class Full(DOLA):
    def update(self, s, here, inbox, loss):
        if (here.t, here.agent) == (2, 1):
            Path("run/log.txt").unlink()
            Path("run/log.txt").mkdir()  # nothing can be added to it
            raise {error}("planted")
        return super().update(s, here, inbox, loss)
"""


@pytest.mark.parametrize(("error", "lines"), [("OSError", 1), ("ValueError", 2)])
def test_a_failure_is_said_where_nothing_can_be_written(error, lines, tmp_path, monkeypatch, capfd):
    """In a line where that is the failure; else what would be in the log is said."""
    (tmp_path / "full.py").write_text(FULL.format(error=error))
    monkeypatch.chdir(tmp_path)
    words = ["algorithm.path=full.py", "topology.name=ring", "topology.agents=3", "data.total=60", "rounds=3"]
    assert mpinodes_run(["--lockstep", *words, "output.dir=run"]) == 3
    said = capfd.readouterr().err.splitlines()
    assert said[0].startswith(f"mpinodes: error: {error}: planted")
    assert min(len(said), 2) == lines, said


def test_so_it_is_under_mpi(tmp_path):
    (tmp_path / "full.py").write_text(FULL.format(error="OSError"))
    words = ["algorithm.path=full.py", "topology.name=ring", "data.total=60", "rounds=3", "output.dir=run"]
    done = run_mpi(4, *words, cwd=tmp_path)
    assert done.code == 3, done.err
    line = r"mpinodes: error: agent 1 \(rank 1\): OSError: planted \(\S+full.py, line \d+, in update\) "
    assert re.fullmatch(line + r"\(\S+log.txt: Is a directory\)\n", done.err)
