"""Ranks that take turns as forks of one process: what a user sees of it, and who is left when one of them dies."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from mpinodes.launch.launching import mpirun
from tests.helpers.running import LIMIT, command

RANKS = 4  # on one core
WORDS = ["algorithm.name=dola", "topology.name=ring", "data.name=unit-ball", "report=false"]
ENDLESS = ["rounds=1000000", "data.epochs=1000"]
PROCESSES = 2 * RANKS + 1  # of Python

VERSION = subprocess.run([*mpirun(), "--version"], capture_output=True, text=True, check=False).stdout
PIN = "import os, sys; os.sched_setaffinity(0, [min(os.sched_getaffinity(0))]); os.execvp(sys.argv[1], sys.argv[1:])"

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or "hydra" not in VERSION.lower(),
    reason="only MPICH's mpirun on Linux starts each rank in a session of its own",
)


def on_one_core(*words: str, by: tuple[str, ...] = ("-m", "mpinodes.run")) -> list[str]:
    """A command of the ranks, that they find one core for."""
    return [sys.executable, "-c", PIN, *mpirun(), "-n", str(RANKS), sys.executable, *by, *words]


def processes(mark: str) -> list[int]:
    """Those of Python whose command has a word, the oldest first."""
    listed = subprocess.run(["pgrep", "-f", f"^{sys.executable} .*{mark}"], capture_output=True, text=True, check=False)
    return list(map(int, listed.stdout.split()))


class Started:
    """A run under way, its rounds begun unless it is `early`."""

    def __init__(self, cwd: Path, *words: str, before: tuple[str, ...] = (), early: bool = False) -> None:
        self.mark = f"output.dir={cwd / 'run'}"
        self.process = subprocess.Popen(
            [*before, *on_one_core(*WORDS, *(words or ENDLESS), self.mark)], cwd=cwd, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip
        progress, end = cwd / "run" / "progress.jsonl", time.monotonic() + LIMIT
        while not (early or (progress.exists() and progress.stat().st_size)):
            assert time.monotonic() < end, "no rounds"
            time.sleep(0.05)
        self.all = processes(self.mark)

    def ended(self) -> tuple[int, str]:
        """Its exit code and what it said, once nobody is left."""
        _, said = self.process.communicate(timeout=LIMIT)
        end = time.monotonic() + LIMIT
        while processes(self.mark):
            assert time.monotonic() < end, "somebody is left"
            time.sleep(0.05)
        return self.process.returncode, said

    def __enter__(self) -> Started:
        return self

    def __exit__(self, *args: object) -> None:
        for process in processes(self.mark):
            os.kill(process, signal.SIGKILL)
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()


@pytest.mark.parametrize("which", [0, RANKS, PROCESSES - 1])
def test_whichever_process_is_killed_nobody_is_left(tmp_path: Path, which: int):
    with Started(tmp_path) as run:
        assert len(run.all) == PROCESSES
        os.kill(run.all[which], signal.SIGKILL)
        code, _ = run.ended()
    assert code == 9


def test_a_rank_whose_original_and_server_are_killed_ends_too(tmp_path: Path):
    with Started(tmp_path) as run:
        os.kill(run.all[1], signal.SIGSTOP)  # it can no longer end its rank
        os.kill(run.all[RANKS], signal.SIGKILL)
        os.kill(run.all[1], signal.SIGKILL)
        assert run.ended()[0] == 9


@pytest.mark.parametrize("seconds", ["inf", "1e300"])
def test_a_deadline_may_be_infinite(tmp_path: Path, seconds: str):
    with Started(tmp_path, "rounds=20", f"deadline.seconds={seconds}", early=True) as run:
        assert run.ended()[0] == 0


def test_where_the_launcher_is_killed_nobody_is_left(tmp_path: Path):
    with Started(tmp_path) as run:
        run.process.kill()
        assert run.ended()[0] == -9


def test_where_the_process_of_mpich_that_started_the_ranks_is_killed_nobody_is_left(tmp_path: Path):
    with Started(tmp_path) as run:
        listed = subprocess.run(["pgrep", "-P", str(run.process.pid)], capture_output=True, text=True, check=True)
        os.kill(int(listed.stdout), signal.SIGKILL)
        assert run.ended()[0] != 0


SET_UP = """
import os, runpy, signal, subprocess
from mpinodes.running import setup
set_up = setup.set_up

def planted(*words):
    {planted}
    return set_up(*words)

setup.set_up = planted
runpy.run_module("mpinodes.run", run_name="__main__", alter_sys=True)
"""


@pytest.mark.parametrize(
    ("planted", "code", "words"),
    [
        ("os.kill(os.getpid(), signal.SIGSTOP)", 4, r"no word from the logger \(process \d+ on "),
        ("subprocess.run(['pkill', '-INT', '-P', str(os.getppid())])", 130, r"the logger \(rank 3\): interrupted"),
        ("raise ValueError('a\\nmpinodes: error: b')", 3, r"the logger \(rank 3\): ValueError: a mpinodes: error: b"),
    ],
)
def test_what_happens_to_the_logger_before_there_is_a_directory_is_one_line(tmp_path: Path, planted, code, words):
    """The interrupt reaches all ranks, which have one parent."""
    script = SET_UP.format(planted=planted)
    done = command(on_one_core(*WORDS, "deadline.seconds=1", by=("-c", script)), tmp_path)
    assert done.code == code
    assert len(re.findall(rf"^mpinodes: error: {words}", done.err, re.MULTILINE)) == 1
    assert len(re.findall("^mpinodes: ", done.err, re.MULTILINE)) == 1 + (code == 3)
    assert "failed: " not in done.err
    assert ("Traceback" in done.err) == (code == 3)


@pytest.mark.parametrize("which", [0, RANKS, RANKS + 1, PROCESSES - 1])
def test_whichever_process_is_stopped_the_run_ends_or_says_which(tmp_path: Path, which: int):
    """The processes that mpirun started, and the one that forks, only stand by."""
    with Started(tmp_path, "rounds=1000", "data.epochs=10", "deadline.seconds=2") as run:
        os.kill(run.all[which], signal.SIGSTOP)
        code, said = run.ended()
    if which > RANKS:
        assert code == 4
        assert f"(process {run.all[which]} on " in said
    else:
        assert code == 0


def test_a_signal_to_the_launcher_reaches_the_ranks(tmp_path: Path):
    with Started(tmp_path) as run:
        run.process.send_signal(signal.SIGTERM)
        code, said = run.ended()
    assert code == 5
    assert "SIGTERM: stopped after round" in said


def test_signals_that_are_ignored_stay_so(tmp_path: Path):
    ignoring = ("env", "--ignore-signal=HUP")
    with Started(tmp_path, "rounds=1000", "data.epochs=10", before=ignoring) as run:
        for process in run.all:
            os.kill(process, signal.SIGHUP)
        code, _ = run.ended()
    assert code == 0


STOPPING = """
import os, runpy, signal
from mpinodes.launch import launching
end_in, launching.LEAST_START, launching.RANK_STARTS = launching.end_in, 1, 0.5

def stop_after(seconds):
    end_in(seconds)
    if os.environ["PMI_RANK"] == "1":
        os.kill(os.getpid(), signal.SIGSTOP)

launching.end_in = stop_after
runpy.run_module("mpinodes.run", run_name="__main__", alter_sys=True)
"""


def test_a_rank_that_is_stopped_as_mpi_starts_is_one_line(tmp_path: Path):
    done = command(on_one_core(*WORDS, "deadline.seconds=1", by=("-c", STOPPING)), tmp_path)
    assert done.code  # of mpirun, which kills the rank that was stopped
    assert done.err.count("MPI did not start") == 1


def test_bad_input_is_said_once(tmp_path: Path):
    done = command(on_one_core("algorithm.name=dolla"), tmp_path)
    assert done.code == 2
    assert done.err.count("did you mean dola?") == 1


def test_what_a_run_gives_does_not_depend_on_it(tmp_path: Path):
    words = [*WORDS, "rounds=40"]
    apart = [*mpirun(), "-n", str(RANKS), sys.executable, "-c", APART, *words]
    assert command(on_one_core(*words), tmp_path).code == 0
    assert command(apart, tmp_path).code == 0
    forked, alone = (json.loads(p.read_text()) for p in sorted(tmp_path.glob("runs/*/summary.json")))
    assert {key for key in forked if forked[key] != alone[key]} <= {"name", "seconds", "rounds_per_second", "timing"}
    assert np.isfinite(forked["network_regret"])


# As `python -m mpinodes.run`, which comes to no fork where the line to mpirun has no name that it knows.
APART = "import sys; from mpinodes.run import main, leave; leave(main(sys.argv[1:]))"


@pytest.mark.parametrize(("hook", "seen"), [("None", "fork"), ("sys.settrace", "itself")])
def test_who_traces_or_profiles_sees_the_rank_itself(tmp_path: Path, hook: str, seen: str):
    done = command(on_one_core(*WORDS, "rounds=10", by=("-c", TRACED.format(hook=hook))), tmp_path)
    assert done.code == 0
    assert done.out.splitlines().count(seen) == RANKS


TRACED = """
import atexit, os, runpy, sys
me, hook = os.getpid(), {hook}
atexit.register(lambda: os.write(1, b"itself\\n" if os.getpid() == me else b"fork\\n"))
if hook:
    hook(lambda *_: None)
runpy.run_module("mpinodes.run", run_name="__main__", alter_sys=True)
"""


ALGORITHM = """
import random
from dataclasses import dataclass
import numpy as np
from mpinodes.algorithms.dola import DOLA
__all__ = ["Careless"]

@dataclass(frozen=True)
class Careless(DOLA):
    def init(self, x):
        with open("drawn", "a") as file:
            file.write(f"{np.random.random()} {random.random()}\\n")
        return super().init(x)
"""


def test_no_two_ranks_draw_the_same_where_nobody_seeds(tmp_path: Path):
    (tmp_path / "careless.py").write_text(ALGORITHM)
    done = command(on_one_core(*WORDS[1:], "algorithm.path=careless.py", "rounds=10"), tmp_path)
    assert done.code == 0, done.err
    drawn = (tmp_path / "drawn").read_text().split()
    assert len(set(drawn)) == len(drawn) >= 2 * (RANKS - 1)


IMPATIENT = """
import runpy
from mpinodes.launch import forking
forking.PATIENCE = 2
runpy.run_module("mpinodes.run", run_name="__main__", alter_sys=True)
"""


def test_a_directory_that_is_gone(tmp_path: Path):
    gone = tmp_path / "gone"
    gone.mkdir()
    there = ["sh", "-c", f'rmdir {gone}; exec "$@"', "sh"]
    words = [*WORDS, "rounds=10", f"output.dir={tmp_path / 'run'}"]
    assert command([*there, *on_one_core(*words, by=("-c", IMPATIENT))], gone).code == 0
    assert (tmp_path / "run" / "summary.json").exists()


NO_MORE = """
import errno, os, runpy, sys
from mpinodes.launch import forking
forking.PATIENCE = 2
fork, made, me = os.fork, 0, os.getpid()

def limited():
    global made
    made += 1
    if made > {most} + (os.getpid() != me):  # whoever forks has been forked itself
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")
    return fork()

os.fork = limited
runpy.run_module("mpinodes.run", run_name="__main__", alter_sys=True)
"""


@pytest.mark.parametrize("most", [0, 2])
def test_where_no_more_processes_may_be_ranks_go_on_as_they_are(tmp_path: Path, most: int):
    done = command(on_one_core(*WORDS, "rounds=10", by=("-c", NO_MORE.format(most=most))), tmp_path)
    assert (done.code, done.err) == (0, done.err)
    assert "run: " in done.out


APART_FROM = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount", "--ipc"]
CONTAINER = """
mount -t proc proc /proc && mount -t tmpfs shm /dev/shm && mount --bind "$1" "$2" && cd "$2" && shift 2 && exec "$@"
"""


def test_jobs_of_containers_that_share_a_network_keep_apart(tmp_path: Path):
    """In each the launcher has the same number, and all paths are the same."""
    here, jobs = tmp_path / "here", []
    here.mkdir()
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        job = ["sh", "-c", CONTAINER, "sh", str(tmp_path / name), str(here), *on_one_core(*WORDS, "rounds=300")]
        jobs.append(subprocess.Popen([*APART_FROM, *job], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True))
    said = [job.communicate(timeout=LIMIT)[0] for job in jobs]
    assert [job.returncode for job in jobs] == [0, 0], said
    for name in ("one", "two"):
        assert len(list((tmp_path / name).glob("runs/*/summary.json"))) == 1


def test_where_there_is_no_room_for_what_is_handed_over_ranks_go_on_as_they_are(tmp_path: Path):
    large = {f"LARGE_{i}": "x" * 100_000 for i in range(4)}
    assert command(on_one_core(*WORDS, "rounds=10", by=("-c", IMPATIENT)), tmp_path, env=large).code == 0
