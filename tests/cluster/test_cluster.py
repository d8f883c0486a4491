"""The templates of scripts/cluster, on a Slurm of one node and on three hosts."""

from __future__ import annotations

import json
import re
import socket
import time
from pathlib import Path
from threading import Thread

import pytest

from tests.helpers.parts import run_of
from tests.helpers.records import same_bits, summary_of
from tests.helpers.running import CHECKOUT, command
from tests.helpers.slow import slow

TEMPLATES = CHECKOUT / "scripts" / "cluster"
SMALL = ["algorithm.name=dola", "topology.name=ring", "data.total=100", "rounds=9", "report=false"]

STUDY = """rounds = 9
algorithm.name = "dola"
data.total = 100
topology.agents = 3
study.seeds = 2
study.grid.topology.name = ["ring", "star", "path"]
"""


@pytest.fixture(scope="module")
def alone(tmp_path_factory) -> Path:
    """The same run in one process."""
    return run_of(tmp_path_factory.mktemp("alone") / "run", " ".join([*SMALL, "topology.agents=3"]))


def output(where: Path) -> str:
    return "\n".join(path.read_text() for path in where.glob("mpinodes-*.out"))


def comes(where: Path, pattern: str, job: int, slurm) -> Path:
    """A file, once there is something in it."""
    deadline = time.monotonic() + 120
    while not (found := [path for path in where.glob(pattern) if path.stat().st_size]):
        assert time.monotonic() < deadline, output(where) + slurm.state(job)
        time.sleep(0.1)
    return found[0]


def test_every_template_is_run_here():
    assert {path.name for path in TEMPLATES.glob("*.sh")} == set(
        re.findall(r'"([a-z-]+\.sh)"', Path(__file__).read_text())
    )


@pytest.mark.parametrize("template", ["slurm-srun.sh", "slurm-mpirun.sh"])
def test_a_job_has_the_bits_of_one_process(template, environment, slurm, alone, tmp_path):
    words = ["-n", "4", str(TEMPLATES / template), *SMALL]
    job = slurm.submit(*words, cwd=tmp_path, env=environment.variables)
    assert slurm.wait(job) == "COMPLETED", output(tmp_path)
    assert same_bits(tmp_path / "runs" / str(job), alone) == []


def test_the_wrong_way_to_start_is_an_error_and_no_run(mpich, openmpi, slurm, tmp_path):
    for environment, wrong, words in (
        (openmpi, "pmi2", "but each believes it is alone"), (mpich, "pmix", "unsupported PMI version PMIx")
    ):  # fmt: skip
        env = environment.variables | {"PMI": wrong}
        job = slurm.submit("-n", "4", str(TEMPLATES / "slurm-srun.sh"), *SMALL, cwd=tmp_path, env=env)
        assert slurm.wait(job) == "FAILED"
        assert words in output(tmp_path)
        found = slurm.run("srun", f"--mpi={wrong}", "-n", "4", env["PYTHON"], "-m", "mpinodes.doctor", env=env)
        assert found.code != 0  # MPI's own, where it fails as it starts
        assert "Traceback" not in found.out + found.err
        assert f"srun -K1 --mpi={environment.pmi}" in " ".join(found.out.split())
    assert not (tmp_path / "runs").exists()


def test_the_doctor_under_srun(environment, slurm, tmp_path):
    words = ["srun", "-K1", f"--mpi={environment.pmi}", "-n", "3", str(environment.python), "-m", "mpinodes.doctor"]
    found = slurm.run(*words, str(tmp_path), env=environment.variables)
    assert f"srun --mpi={environment.pmi}, which belongs to this MPI library" in found.out
    assert "rounds/s" in found.out


def test_an_array_is_a_run_for_each_seed(mpich, slurm, tmp_path):
    words = ["--array=3-4", "-n", "4", str(TEMPLATES / "slurm-array.sh"), *SMALL]
    job = slurm.submit(*words, cwd=tmp_path, env=mpich.variables)
    for seed in (3, 4):
        assert slurm.wait(f"{job}_{seed}") == "COMPLETED", output(tmp_path)
        assert summary_of(tmp_path / "runs" / str(job) / f"seed-{seed}")["seed"] == seed


LISTENING = """
import os, signal, sys, time

def main():
    from mpi4py import MPI
    rank, got, run = MPI.COMM_WORLD.rank, [], sys.argv[-1].removeprefix("output.dir=")
    signal.signal(signal.SIGUSR1, lambda number, frame: got.append(number))
    os.makedirs(run, exist_ok=True)
    MPI.COMM_WORLD.Barrier()
    open(f"{run}/began-{rank}", "w").write("1")
    until = time.time() + 100
    while not got and time.time() < until:
        time.sleep(0.05)
    open(f"{run}/got-{rank}", "w").write(str(got))
    MPI.COMM_WORLD.Barrier()
    MPI.Finalize()
    sys.exit(0 if got else 9)

if __name__ == "__main__":
    main()
"""


@pytest.fixture
def listening(tmp_path) -> dict[str, str]:
    """Ranks that only say that a signal came: what mpinodes.run makes of it is not the template's."""
    package = tmp_path / "mpinodes"
    package.mkdir()
    (package / "__init__.py").write_text(f"__version__ = ''\n__path__.append({str(CHECKOUT / 'mpinodes')!r})\n")
    (package / "run.py").write_text(LISTENING)
    return {"PYTHONPATH": str(tmp_path)}


@pytest.mark.parametrize("template", ["slurm-srun.sh", "slurm-mpirun.sh"])
def test_a_signal_to_the_script_reaches_every_rank(template, environment, slurm, listening, tmp_path):
    job = slurm.submit("-n", "4", str(TEMPLATES / template), cwd=tmp_path, env=environment.variables | listening)
    comes(tmp_path, f"runs/{job}/began-0", job, slurm)
    time.sleep(1)
    slurm.run("scancel", "--batch", "--signal=USR1", str(job))
    assert slurm.wait(job) == "COMPLETED", output(tmp_path)
    assert len(list(tmp_path.glob(f"runs/{job}/got-*"))) == 4


def test_slurm_sends_it_before_the_time_is_up(mpich, slurm, listening, tmp_path):
    words = ["-n", "4", "--time=1", "--signal=B:USR1@20", str(TEMPLATES / "slurm-srun.sh")]
    job = slurm.submit(*words, cwd=tmp_path, env=mpich.variables | listening)
    assert slurm.wait(job) == "COMPLETED", output(tmp_path)
    assert len(list(tmp_path.glob(f"runs/{job}/got-*"))) == 4


def queued_again(job: int | str, slurm) -> None:
    """And begun again."""
    slurm.wait(job, ("PENDING",))
    slurm.wait(job, ("RUNNING", "COMPLETING", "COMPLETED", "FAILED"))


FIRST_TIME = '0 if os.environ.get("SLURM_RESTART_COUNT") else 0.05'  # a minute and more, where it is slow
LIMITED = ["algorithm.path=slow.py", "topology.name=ring", "data.total=100", "data.epochs=50", "rounds=1400"]


@pytest.fixture(scope="module")
def alone_and_limited(tmp_path_factory) -> Path:
    """What takes a job more than its time, in one process."""
    folder = tmp_path_factory.mktemp("limited")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("SLURM_RESTART_COUNT", "1")
        patched.chdir(folder)
        Path("slow.py").write_text(slow(FIRST_TIME))
        return run_of(folder / "run", " ".join([*LIMITED, "topology.agents=3"]))


@pytest.mark.parametrize("template", ["slurm-srun.sh", "slurm-mpirun.sh", "slurm-array.sh"])
def test_a_job_that_meets_its_time_limit_goes_on_to_the_same_bits(
    template, environment, slurm, alone_and_limited, tmp_path
):
    """The signal before it makes a checkpoint, the job is queued again, and goes on."""
    (tmp_path / "slow.py").write_text(slow(FIRST_TIME))
    array = ["--array=0-0"] if template == "slurm-array.sh" else []
    limit = [*array, "-n", "4", "--time=1", "--signal=B:USR1@20", str(TEMPLATES / template)]
    number = slurm.submit(*limit, *LIMITED, "report=false", cwd=tmp_path, env=environment.variables)
    job, run = (f"{number}_0", f"{number}/seed-0") if array else (number, str(number))
    queued_again(job, slurm)
    assert slurm.wait(job) == "COMPLETED", output(tmp_path)
    assert "SIGUSR1: stopped after round " in output(tmp_path)
    assert " goes on after round " in output(tmp_path)
    assert same_bits(tmp_path / "runs" / run, alone_and_limited) == []


def test_a_job_that_was_killed_goes_on_from_its_checkpoint(mpich, slurm, tmp_path):
    """And does not hang in the shared memory that the killed attempt left."""
    (tmp_path / "slow.py").write_text(slow("0.05"))
    words = ["algorithm.path=slow.py", "topology.name=ring", "data.total=100", "data.epochs=40", "rounds=200"]
    words += ["report=false", "checkpoint.every=10"]
    job = slurm.submit("-n", "4", str(TEMPLATES / "slurm-srun.sh"), *words, cwd=tmp_path, env=mpich.variables)
    comes(tmp_path, f"runs/{job}/checkpoint/20-agent-0", job, slurm)
    assert slurm.run("scontrol", "requeue", str(job)).code == 0
    queued_again(job, slurm)
    assert slurm.wait(job) == "COMPLETED", output(tmp_path)
    assert " goes on after round " in output(tmp_path)


def test_a_killed_rank_ends_the_job(mpich, slurm, tmp_path):
    (tmp_path / "killed.py").write_text(
        "import os, signal\n"
        "from dataclasses import dataclass\n"
        "from mpinodes.algorithms.dola import DOLA\n"
        "__all__ = ['Killed']\n"
        "@dataclass(frozen=True)\n"
        "class Killed(DOLA):\n"
        "    def update(self, s, here, inbox, loss):\n"
        "        if (here.t, here.agent) == (5, 1):\n"
        "            os.kill(os.getpid(), signal.SIGKILL)\n"
        "        return super().update(s, here, inbox, loss)\n"
    )
    words = ["-n", "4", str(TEMPLATES / "slurm-srun.sh"), *SMALL[1:], "algorithm.path=killed.py"]
    job = slurm.submit(*words, cwd=tmp_path, env=mpich.variables)
    assert slurm.wait(job) == "FAILED"


def lines(hosts: list[str], path: Path) -> Path:
    path.write_text("".join(f"{host}\n" for host in hosts))
    return path


def test_three_hosts_have_the_bits_of_one_process(environment, hosts, alone, tmp_path):
    one, two, three = hosts.addresses
    file = lines([one, two, two, three], tmp_path / "hosts.txt")
    done = hosts.run(
        [str(TEMPLATES / "hosts.sh"), str(file), *SMALL, "output.dir=run"], tmp_path, environment.variables
    )
    assert done.code == 0, done.err + done.out
    assert summary_of(tmp_path / "run")["versions"]["host"] == "h3"  # where the logger is
    assert same_bits(tmp_path / "run", alone) == []


def test_the_doctor_over_three_hosts(environment, hosts, tmp_path):
    one, two, three = hosts.addresses
    file = lines([one, two, two, three], tmp_path / "hosts.txt")
    env = environment.variables | {"MODULE": "mpinodes.doctor"}
    done = hosts.run([str(TEMPLATES / "hosts.sh"), str(file)], tmp_path, env)
    assert re.search(r"cores +h1, h3: 1 rank may use", done.out), done.out + done.err
    assert re.search(r"cores +h2: 2 ranks may use", done.out), done.out
    assert re.search(rf"output +{tmp_path} can be written", done.out), done.out
    assert "rounds/s" in done.out
    assert len(done.out.splitlines()) <= 24


PACE = 'float(os.environ.get("SLOW", 0))'  # which does not change the file, and so not the noise
LONGER = ["topology.name=ring", "data.total=600", "rounds=190", "report=false"]


def cut(hosts, run: Path, seconds: float) -> None:
    """Cut the second host off once the run has begun, for so long."""
    while not (run / "progress.jsonl").exists() or not (run / "progress.jsonl").read_text():
        time.sleep(0.05)
    hosts.link("h2", "down")
    time.sleep(seconds)
    hosts.link("h2", "up")


def test_a_link_that_is_cut_for_five_seconds_changes_no_bit(mpich, hosts, tmp_path):
    (tmp_path / "slow.py").write_text(slow(PACE))
    part = f"algorithm.path={tmp_path / 'slow.py'}"
    one, two, three = hosts.addresses
    file = lines([one, two, two, three], tmp_path / "hosts.txt")
    cutting = Thread(target=cut, args=(hosts, tmp_path / "run", 5.0))
    cutting.start()
    words = [str(TEMPLATES / "hosts.sh"), str(file), part, *LONGER, "output.dir=run"]
    done = hosts.run(words, tmp_path, mpich.variables | {"SLOW": "0.02"})
    cutting.join()
    assert done.code == 0, done.err
    assert summary_of(tmp_path / "run")["seconds"] > 5
    alone = run_of(tmp_path / "alone", " ".join([part, *LONGER, "topology.agents=3"]))
    assert same_bits(tmp_path / "run", alone) == []


def test_a_link_that_is_cut_for_good_is_told_of_by_every_side(mpich, hosts, tmp_path):
    (tmp_path / "slow.py").write_text(slow(PACE))
    one, two, three = hosts.addresses
    file = lines([one, two, two, three], tmp_path / "hosts.txt")
    cutting = Thread(target=cut, args=(hosts, tmp_path / "run", 35.0))
    cutting.start()
    words = [str(TEMPLATES / "hosts.sh"), str(file), "algorithm.path=slow.py", *LONGER, "output.dir=run"]
    done = hosts.run([*words, "deadline.seconds=5"], tmp_path, mpich.variables | {"SLOW": "0.02"})
    reports = [line for line in (tmp_path / "run" / "log.txt").read_text().splitlines() if line.startswith("failed: ")]
    assert cutting.is_alive()  # the job does not wait for the link
    while (left := hosts.ranks("h2")) and cutting.is_alive():
        time.sleep(0.2)
    cutting.join()
    assert done.code == 4
    assert "no word from " in done.err + done.out or "all ranks wait for each other" in done.err + done.out
    # The logger waits twice as long, so that the agents on both sides say first whom they miss.
    assert {json.loads(line.removeprefix("failed: "))[1] for line in reports} >= {0, 1, 2}
    assert left == []


@pytest.mark.parametrize("template", ["pbs.sh", "lsf.sh"])
def test_templates_of_other_batch_systems_with_their_variables_set_by_hand(template, environment, alone, tmp_path):
    file = lines([socket.gethostname()] * 4, tmp_path / "hosts.txt")
    env = {"PBS_O_WORKDIR": str(tmp_path), "PBS_JOBID": "7.server", "PBS_NODEFILE": str(file)}
    env |= {"LS_SUBCWD": str(tmp_path), "LSB_JOBID": "7", "LSB_DJOB_HOSTFILE": str(file), "LSB_DJOB_NUMPROC": "4"}
    done = command([str(TEMPLATES / template)], tmp_path, env=env | environment.variables | {"WORDS": " ".join(SMALL)})
    assert done.code == 0, done.err
    assert same_bits(tmp_path / "runs" / "7", alone) == []


def test_a_study_is_a_job_array(mpich, slurm, tmp_path):
    (tmp_path / "study.toml").write_text(STUDY)
    sweep = [str(mpich.python), "-m", "mpinodes.sweep", "study.toml"]
    done = slurm.run(*sweep, "--slurm", cwd=tmp_path, env=mpich.variables)
    array, rest = map(int, re.findall(r"job (\d+)", done.out))
    assert slurm.wait(rest) == "COMPLETED", done.out
    logs = tmp_path / "studies" / "study" / "slurm"
    assert sorted(path.name for path in logs.iterdir()) == [*(f"{k}.txt" for k in range(6)), "rest.txt"]
    assert all("1 done now, 0 failed" in (logs / f"{k}.txt").read_text() for k in range(6)), array
    assert "6 runs: 0 done now, 6 done before, 0 failed" in (logs / "rest.txt").read_text()
    command([*sweep, "output.dir=here"], tmp_path, env=mpich.variables)
    places = sorted((tmp_path / "here" / "runs").iterdir())
    assert len(places) == 6
    for place in places:
        assert same_bits(tmp_path / "studies" / "study" / "runs" / place.name, place) == []
