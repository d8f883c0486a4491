"""python -m mpinodes.doctor as a user types it, well and with planted faults: one screen, an end, no traceback."""

from __future__ import annotations

import mmap
import os
import re
import secrets
import sys
from pathlib import Path

import pytest
from mpinodes.running.doctor import host
from mpinodes.running.doctor.host import Host, Rank
from mpinodes.running.doctor.launchers import library

from tests.helpers.running import Done, command, mpirun, run_alone, run_mpi

SCREEN = 24  # lines
DOCTOR = "mpinodes.doctor"
MPICH = "MPICH" in library()


def verdicts(done: Done) -> dict[str, list[tuple[str, str]]]:
    """By what a line is about: verdict and text. Whatever was found, it is whole, and the exit code fits it."""
    assert "Traceback" not in done.out + done.err
    assert len(done.out.splitlines()) <= SCREEN, done.out
    found: dict[str, list[tuple[str, str]]] = {}
    joined = re.sub(r"\n {14}", " ", done.out)
    for verdict, about, text in re.findall(r"^(ok|note|mend) +(\w+) +(.*)$", joined, re.MULTILINE):
        found.setdefault(about, []).append((verdict, text))
    assert done.code == int(any(verdict == "mend" for lines in found.values() for verdict, _ in lines)), done.out
    return found


def mended(found: dict[str, list[tuple[str, str]]], about: str) -> str:
    """What is to be mended of it."""
    return " ".join(text for verdict, text in found[about] if verdict == "mend")


def test_one_process_says_what_it_sees_and_how_to_start_more(tmp_path):
    done = run_alone(cwd=tmp_path, module=DOCTOR)
    found = verdicts(done)
    looked_at = {"MPI", "launcher", "cores", "threads", "memory", "output", "versions"}
    assert found.keys() == looked_at
    assert f"-n 8 {sys.executable} -m mpinodes.doctor" in found["launcher"][0][1]
    assert "1 thread" in found["threads"][0][1]
    assert found["output"][0][0] == "ok", done.out
    assert str(tmp_path) in found["output"][0][1]
    assert [p.name for p in tmp_path.iterdir()] == []
    assert done.err == ""


def test_all_ranks_are_one_report_with_rounds_per_second(tmp_path):
    done = run_mpi(4, str(tmp_path), cwd=tmp_path, module=DOCTOR)
    found = verdicts(done)
    assert done.out.count(library()) == 1
    assert [verdict for verdict, _ in found["launcher"]] == ["ok"]
    assert "4 ranks" in found["hosts"][0][1]
    paces = re.findall(r"d = (64|784): ([\d.]+) (us|ms) a round \(([\d,]+) rounds/s\)", found["exchange"][0][1])
    assert [d for d, *_ in paces] == ["64", "784"]
    for _, long, unit, rate in paces:
        assert float(long) * float(rate.replace(",", "")) == pytest.approx({"us": 1e6, "ms": 1e3}[unit], rel=0.03)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("rank", ["0", "3"])
def test_a_launcher_of_another_mpi(rank, tmp_path):
    env = {"OMPI_COMM_WORLD_SIZE": "8", "OMPI_COMM_WORLD_RANK": rank}
    done = run_alone(cwd=tmp_path, module=DOCTOR, env=env)
    if rank != "0":
        assert (done.code, done.out, done.err) == (0, "", "")
        return
    words = mended(verdicts(done), "launcher")
    assert "Open MPI's mpirun started 8 processes, but each believes it is alone" in words
    assert f"{sys.executable} -m mpinodes.doctor" in words


def test_an_mpirun_of_another_mpi_on_the_path(tmp_path):
    other = tmp_path / "mpirun"
    other.write_text(f"#!/bin/sh\necho '{'mpirun (Open MPI) 4.1.4' if MPICH else 'HYDRA build details'}'\n")
    other.chmod(0o755)
    done = run_alone(cwd=tmp_path, module=DOCTOR, env={"PATH": f"{tmp_path}:{os.environ['PATH']}"})
    assert f"mpirun is {other} of {'Open MPI' if MPICH else 'MPICH'}" in mended(verdicts(done), "launcher")


def test_no_mpi_library(tmp_path):
    done = run_alone(cwd=tmp_path, module=DOCTOR, env={"MPI4PY_LIBMPI": str(tmp_path / "none.so")})
    found = verdicts(done)
    assert "no MPI library" in mended(found, "MPI")
    assert found["output"][0][0] == "ok"


def test_an_mpi_that_ends_its_process_while_it_starts(tmp_path):
    env = {"MPIR_CVAR_PMI_VERSION": "none"} if MPICH else {"OMPI_MCA_pml": "none"}
    done = run_alone(cwd=tmp_path, module=DOCTOR, env=env)
    assert "this process was ended (" in mended(verdicts(done), "MPI")
    assert len(done.out.splitlines()) < 4


def test_leftovers_are_named_until_somebody_holds_them(tmp_path):
    mine = {"TMPDIR": str(tmp_path)}
    shared = Path(f"/dev/shm/mpich_shm_{secrets.token_hex(6)}_0")
    other = tmp_path / "hydra_hwloc_xmlfile_abc"  # which is no name of theirs

    def listed() -> list[str]:
        return run_alone("--leftovers", cwd=tmp_path, module=DOCTOR, env=mine).out.splitlines()

    try:
        proxy = tmp_path / "hydra_hwloc_xmlfile_aB3dE6"
        for file in (shared, proxy, other):
            file.write_bytes(bytes(4096))
        assert {str(shared), str(proxy)} <= set(listed())
        assert str(other) not in listed()
        words = mended(verdicts(run_alone(cwd=tmp_path, module=DOCTOR, env=mine)), "memory")
        assert "python -m mpinodes.doctor --leftovers | xargs -rd '\\n' rm -r" in words
        with shared.open("r+b") as file, mmap.mmap(file.fileno(), 0), proxy.open():
            file.close()  # it is mapped still
            assert not {str(shared), str(proxy)} & set(listed())
        assert {str(shared), str(proxy)} <= set(listed())
        assert shared.exists()
        assert proxy.exists()
    finally:
        shared.unlink()


@pytest.mark.parametrize("folder", ["/proc", "taken"])
def test_an_output_directory_that_cannot_be_written(folder, tmp_path):
    (tmp_path / "taken").write_text("a file")
    words = mended(verdicts(run_alone(folder, cwd=tmp_path, module=DOCTOR)), "output")
    assert ("nothing can be written there" if folder == "/proc" else "taken is not a directory") in words


def test_a_full_file_system(tmp_path):
    """A small one of its own, where the machine lets us mount it; elsewhere the error that it would give."""
    unshare = ["unshare", "--mount"] + ([] if os.getuid() == 0 else ["--map-root-user"])
    words = f"mount -t tmpfs -o size=200k none {tmp_path} && cd {tmp_path} && exec {sys.executable} -m mpinodes.doctor"
    if command([*unshare, "mount", "-t", "tmpfs", "none", str(tmp_path)], tmp_path).code == 0:
        done = command([*unshare, "sh", "-c", words], tmp_path)
    else:
        full = "import errno, os; os.fsync = lambda f: (_ for _ in ()).throw(OSError(errno.ENOSPC, 'full'))"
        doctor = "import sys; from mpinodes.doctor import main; sys.exit(main([]))"
        done = command([sys.executable, "-c", f"{full}\n{doctor}"], tmp_path)
    words = mended(verdicts(done), "output")
    assert "No space left on device" in words
    assert "make room" in words


@pytest.mark.parametrize("begun", [False, True])
def test_a_rank_that_never_answers(begun, tmp_path):
    """It is named, or what all waited for is; and then all end."""
    (tmp_path / "rank.py").write_text(
        "import runpy, sys, time\n"
        "from mpinodes.launch.launching import launcher\n"
        "if launcher().rank == 1:\n"
        + "    from mpi4py import MPI\n" * begun
        + "    time.sleep(1000)\n"
        + "sys.argv = ['doctor', '--limit', '9']\n"
        "runpy.run_module('mpinodes.doctor', run_name='__main__')\n"
    )
    done = command([*mpirun(), "-n", "3", sys.executable, "rank.py"], tmp_path, limit=100)
    assert done.code != 0
    found = verdicts(Done(1, done.out, done.err))  # where launchers must end other ranks the code is theirs
    if begun:
        assert "rank 1 was not heard in time" in mended(found, "ranks")
    else:
        assert "rank 0 found no end within 9 s, while starting MPI" in mended(found, "time")


def test_ranks_that_are_bound_to_one_core_of_several(tmp_path):
    core = str(min(os.sched_getaffinity(0)))
    done = command(["taskset", "-c", core, *mpirun(), "-n", "2", sys.executable, "-m", DOCTOR], tmp_path)
    [(verdict, text)] = verdicts(done)["cores"]
    assert f"2 ranks may use 1 of {os.cpu_count()} cores" in text
    assert verdict == ("mend" if (os.cpu_count() or 1) > 1 else "note")


@pytest.mark.parametrize("words", [["--limit", "0"], ["--no-such"], ["--limit", "soon"], ["one", "two"]])
def test_bad_use_is_a_line_and_two(words, tmp_path):
    for done in (run_alone(*words, cwd=tmp_path, module=DOCTOR), run_mpi(2, *words, cwd=tmp_path, module=DOCTOR)):
        assert done.code == 2
        assert done.err.count("mpinodes: error: ") == 1
        assert "Traceback" not in done.err
        if words == ["--limit", "0"]:
            break


def test_help_is_said_once(tmp_path):
    assert run_mpi(2, "--help", cwd=tmp_path, module=DOCTOR).out.count("usage:") == 1


def rank(name: str = "h1", cores: tuple[int, ...] = (0, 1, 2, 3), **others: object) -> Rank:
    blas = ("openblas 1", "Haswell", 1)
    return Rank(name, frozenset(cores), 4, blas, {"numpy": "2.0"})._replace(**others)


def test_what_differs_between_hosts_is_found():
    assert host.about_versions([rank(), rank("h2")]).verdict == "ok"
    found = host.about_versions([rank(), rank("h2", versions={"numpy": "1.9"})])
    assert found.verdict == "mend"
    assert "rank 1 on h2 has numpy 1.9, rank 0 2.0" in str(found)
    assert "OPENBLAS_CORETYPE" in str(host.about_blas([rank(), rank("h2", blas=("openblas 1", "Zen", 1))]))
    assert host.about_blas([rank(), rank(blas=("openblas 1", "Haswell", 4))]).verdict == "mend"
    hosts = [Host("h1", 10**9, 10**9, []), Host("h2", 10**9, 10**6, ["/dev/shm/a"])]
    memory = [str(line) for line in host.about_memory(hosts)]
    assert [line[:4] for line in memory] == ["mend", "mend"]
    assert all("h2" in line for line in memory)


def test_how_ranks_share_cores():
    def found(ranks: list[Rank]) -> str:
        said = next(str(line) for line in host.about_cores(ranks) if line.about == "cores")
        return " ".join(said.split())

    assert found([rank()] * 4).startswith("ok")
    assert found([rank()] * 5).startswith("note")
    bound = found([rank(cores=(core,)) for core in (0, 0, 0, 1)])
    assert bound.startswith("mend")
    assert "3 of them are bound to core 0" in bound
    assert found([rank(cores=(k,)) for k in range(4)]).startswith("ok")
