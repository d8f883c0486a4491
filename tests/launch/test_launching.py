"""How many ranks of one host start, and share its cores."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from mpinodes.launch import launching
from mpinodes.launch.launching import mpirun
from tests.helpers.parts import run_of
from tests.helpers.records import same_bits
from tests.helpers.running import command

FEW = ("algorithm.name=dola", "topology.name=ring", "rounds=20", "report=false")
SCRIPT = """
import os, sys
from mpinodes import run
from mpinodes.launch import launching
launching.MANY = int(sys.argv[1])
code = run.main(sys.argv[2:])
sys.stdout.flush()
os.write(1, f"by {os.environ.get('MPIR_CVAR_CH4_NETMOD')}\\n".encode())
launching.leave(code)
"""


@pytest.mark.parametrize(("many", "by"), [(3, "ofi"), (4, "None")])
def test_many_ranks_of_one_host_connect_lightly_and_send_the_same(many, by, tmp_path):
    """As more than 100 do; of MPICH, as its wheel is built."""
    told = command([*mpirun(), "-n", "4", sys.executable, "-c", SCRIPT, str(many), *FEW, "output.dir=run"], tmp_path)
    assert told.code == 0, told.err
    assert told.out.count(f"by {by}\n") == 4
    alone = run_of(tmp_path / "alone", " ".join((*FEW, "topology.agents=3")))
    assert same_bits(tmp_path / "run", alone) == []


def test_many_ranks_on_a_core_have_longer_to_start(monkeypatch):
    monkeypatch.setattr(launching, "launcher", lambda: launching.Launcher("MPICH's mpirun", 65, 0, here=65))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    assert launching.start_limit(3) == 75
    assert launching.start_limit(100) == 100
    assert launching.start_limit(None) == launching.START
    monkeypatch.setattr(launching, "launcher", lambda: launching.Launcher("MPICH's mpirun", 700, 0, here=700))
    assert launching.start_limit(None) == launching.start_limit(600) == 710


TIGHT = """
import sys
from mpinodes import doctor, run
from mpinodes.launch import launching
launching.RANK_TAKES = 10**18
launching.leave({"run": run, "doctor": doctor}[sys.argv[1]].main(sys.argv[2:]))
"""


def test_a_run_whose_ranks_may_not_fit_into_shared_memory_says_so_once_and_goes_on(tmp_path):
    told = command(
        [*mpirun(), "-n", "3", sys.executable, "-c", TIGHT, "run", *FEW, "algorithm.name=dpps", "output.dir=run"],
        tmp_path,
    )
    assert told.code == 0, told.err
    assert told.err.startswith("mpinodes: warning: /dev/shm has ")
    assert "docker run --shm-size=1g" in told.err
    assert told.err.count("\n") == 1
    assert (tmp_path / "run" / "summary.json").exists()


def test_doctor_looks_at_shared_memory_before_mpi_starts(tmp_path):
    told = command([*mpirun(), "-n", "3", sys.executable, "-c", TIGHT, "doctor"], tmp_path)
    words = " ".join(told.out.split())
    assert "mend memory /dev/shm has " in words
    assert "MB there for 3 ranks" in words
    assert (told.code, "cores" in words) == (1, False)


@pytest.mark.parametrize(("size", "writable", "lacks"), [(64, True, True), (64, False, True), (128, True, False)])
def test_shared_memory_lacks_where_it_is_small_or_cannot_be_written(monkeypatch, size, writable, lacks):
    """Twelve ranks in the 64 MB of a container crash; of another launcher nothing is known, and nothing is said."""
    monkeypatch.setattr(launching, "launcher", lambda: launching.Launcher("MPICH's mpirun", 12, 0, here=12))
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_blocks=size * 256, f_frsize=4096))
    monkeypatch.setattr(os, "access", lambda *_: writable)
    assert bool(launching.shared_memory_lacks()) == lacks
    monkeypatch.setattr(launching, "launcher", lambda: launching.Launcher("srun", 12, 0))
    assert launching.shared_memory_lacks() == ""


@pytest.mark.parametrize(("size", "lacks"), [(1, True), (16, True), (24, False)])
def test_a_single_process_needs_some_shared_memory_too(monkeypatch, size, lacks):
    monkeypatch.setattr(launching, "launcher", lambda: None)
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_blocks=size * 256, f_frsize=4096))
    assert bool(launching.shared_memory_lacks()) == lacks


def test_an_agent_that_gives_way_keeps_the_priority_that_the_user_chose(tmp_path):
    program = """if True:
        import os
        os.nice(3)
        from mpi4py import MPI
        from mpinodes.rounds.waiting import Waits
        Waits(MPI.COMM_SELF).share_core(10**6, gives_way=True)
        print(os.sched_getscheduler(0) == os.SCHED_BATCH, os.getpriority(os.PRIO_PROCESS, 0) - START)
    """.replace("START", str(os.getpriority(os.PRIO_PROCESS, 0)))
    assert command([sys.executable, "-c", program], tmp_path).out.split() == ["True", "3"]


def test_a_signal_that_a_finalizer_loses_ends_the_run_later(tmp_path: Path):
    code = (
        "import os, signal, sys; from pathlib import Path; from mpinodes.launch.stopping import Ended, Signals\n"
        "class Lost:\n"
        "    def __del__(self):\n"
        "        os.kill(os.getpid(), signal.SIGTERM)\n"
        "        for _ in range(1000): pass\n"
        f"signals = Signals(); signals.run, signals.are_recorded = Path({str(tmp_path)!r}), True\n"
        "try:\n"
        "    with signals:\n"
        "        Lost()\n"
        "        print('lost')\n"
        "except Ended as ended:\n"
        "    sys.exit(ended.args[0])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (5, "lost\n")
    assert done.stderr.count("\n") == 1
    assert "SIGTERM: all rounds are recorded" in done.stderr
