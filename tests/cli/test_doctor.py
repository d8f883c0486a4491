"""python -m mpinodes.doctor as a user types it, well and with planted faults: one screen, an end, no traceback."""

from __future__ import annotations

import os
import re
import sys

import pytest
from mpi4py import MPI

from mpinodes import doctor
from tests.helpers.running import Done, command, mpirun, run_alone, run_mpi

SCREEN = 24  # lines
DOCTOR = "mpinodes.doctor"
MPICH = MPI.get_vendor()[0] == "MPICH"


def verdicts(done: Done) -> dict[str, list[tuple[str, str]]]:
    """Verdict and text of each line, by what the line is about; the report is one screen, and the exit code fits it."""
    assert "Traceback" not in done.out + done.err
    assert len(done.out.splitlines()) <= SCREEN, done.out
    lines: dict[str, list[tuple[str, str]]] = {}
    joined = re.sub(r"\n {14}", " ", done.out)
    for verdict, about, text in re.findall(r"^(ok|note|mend) +(\w+) +(.*)$", joined, re.MULTILINE):
        lines.setdefault(about, []).append((verdict, text))
    assert done.code == int(any(verdict == "mend" for group in lines.values() for verdict, _ in group)), done.out
    return lines


def mended(lines: dict[str, list[tuple[str, str]]], about: str) -> str:
    """The texts of one kind that say what to change."""
    return " ".join(text for verdict, text in lines[about] if verdict == "mend")


def test_one_process_says_what_it_sees_and_how_to_start_more(tmp_path):
    done = run_alone(cwd=tmp_path, module=DOCTOR)
    lines = verdicts(done)
    assert lines.keys() == {"memory", "MPI", "launcher", "cores", "threads", "output", "versions"}
    assert f"-n 8 {sys.executable} -m mpinodes.doctor" in lines["launcher"][0][1]
    assert "1 thread" in lines["threads"][0][1]
    assert lines["output"][0][0] == "ok", done.out
    assert f"{tmp_path} can be written" in lines["output"][0][1]
    assert list(tmp_path.iterdir()) == []
    assert done.err == ""


@pytest.mark.parametrize("words", [["mpinodes.doctor"], ["mpinodes", "doctor"]])
def test_all_ranks_are_one_report_with_rounds_per_second(words, tmp_path):
    module, *rest = words
    done = run_mpi(4, *rest, str(tmp_path), cwd=tmp_path, module=module)
    lines = verdicts(done)
    assert done.out.count(MPI.get_vendor()[0] + " ") == 1
    assert [verdict for verdict, _ in lines["launcher"]] == ["ok"]
    assert "4 ranks" in lines["cores"][0][1]
    assert re.fullmatch(r"4 ranks on a ring, 64 numbers a frame: [\d,]+ rounds/s", lines["exchange"][0][1])
    assert list(tmp_path.iterdir()) == []
    assert done.err == ""


@pytest.mark.parametrize("rank", ["0", "3"])
def test_a_launcher_of_another_mpi(rank, tmp_path):
    """Before MPI starts, how to start it right is there already, since MPI may fail then; after it, each is alone."""
    names = ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK") if MPICH else ("PMI_SIZE", "PMI_RANK")
    done = run_alone(cwd=tmp_path, module=DOCTOR, env=dict(zip(names, ("8", rank), strict=True)))
    if rank != "0":
        assert (done.code, done.out, done.err) == (0, "", "")
        return
    lines = verdicts(done)
    words = mended(lines, "launcher")
    assert f"{'Open MPI' if MPICH else 'MPICH'}'s mpirun started 8 processes, but each believes it is alone" in words
    assert f"{sys.executable} -m mpinodes.doctor" in words
    assert f"{sys.executable} -m mpinodes.doctor" in lines["start"][0][1]


def test_no_mpi_library(tmp_path):
    done = run_alone(cwd=tmp_path, module=DOCTOR, env={"MPI4PY_LIBMPI": str(tmp_path / "none.so")})
    lines = verdicts(done)
    assert "no MPI library" in mended(lines, "MPI")
    assert lines["output"][0][0] == "ok"


def test_an_mpi_that_ends_its_process_while_it_starts(tmp_path):
    """What was seen before is printed; the rest is MPI's own words and exit code."""
    env = {"MPIR_CVAR_PMI_VERSION": "none"} if MPICH else {"OMPI_MCA_pml": "none"}
    done = run_alone(cwd=tmp_path, module=DOCTOR, env=env)
    assert done.code != 0
    assert "Traceback" not in done.err
    assert [line.split()[1] for line in done.out.splitlines() if line.startswith("ok")] == ["memory", "MPI"]


@pytest.mark.parametrize("folder", ["/proc", "taken"])
def test_an_output_directory_that_cannot_be_written(folder, tmp_path):
    (tmp_path / "taken").write_text("a file")
    words = mended(verdicts(run_alone(folder, cwd=tmp_path, module=DOCTOR)), "output")
    assert f"cannot write to {tmp_path / folder}" in words


def test_a_directory_that_is_to_be_made_is_looked_for_above(tmp_path):
    lines = verdicts(run_alone("to/be/made", cwd=tmp_path, module=DOCTOR))
    assert f"{tmp_path} can be written" in lines["output"][0][1]
    assert list(tmp_path.iterdir()) == []


def test_a_full_file_system(tmp_path):
    """A small one of its own, where the machine lets us mount it; elsewhere the error that it would give."""
    unshare = ["unshare", "--mount"] + ([] if os.getuid() == 0 else ["--map-root-user"])
    words = f"mount -t tmpfs -o size=200k none {tmp_path} && cd {tmp_path} && exec {sys.executable} -m mpinodes.doctor"
    if command([*unshare, "mount", "-t", "tmpfs", "none", str(tmp_path)], tmp_path).code == 0:
        done = command([*unshare, "sh", "-c", words], tmp_path)
    else:
        full = "import errno, os; os.fsync = lambda f: (_ for _ in ()).throw(OSError(errno.ENOSPC, 'No space left'))"
        start = "import sys; from mpinodes.doctor import main; sys.exit(main([]))"
        done = command([sys.executable, "-c", f"{full}\n{start}"], tmp_path)
    words = mended(verdicts(done), "output")
    assert "No space left" in words
    assert "make room" in words


SILENT = """
import sys, time
from mpinodes import doctor
from mpinodes.launch.launching import launcher

def sleep(*_):
    time.sleep(1000)

if launcher().rank == 1:
    {planted}
doctor.LIMIT = {limit}
sys.exit(doctor.main([]))
"""


@pytest.mark.parametrize(
    ("planted", "limit", "words"),
    [
        ("sleep()", 1, "a rank or its host hangs"),
        ("doctor.look_around = sleep", 13, "got nothing from rank 1"),
        ("doctor.time_rounds = sleep", 13, "got nothing from rank"),
    ],
    ids=["before MPI starts", "before it answers", "on the ring"],
)
def test_a_rank_that_never_answers(planted, limit, words, tmp_path):
    """It is named, or what all waited for is; and then all end."""
    (tmp_path / "rank.py").write_text(SILENT.format(planted=planted, limit=limit))
    done = command([*mpirun(), "-n", "3", sys.executable, "rank.py"], tmp_path)
    assert done.code != 0
    assert words in " ".join(done.out.split())
    assert "Traceback" not in done.out + done.err


def test_ranks_that_are_bound_to_one_core_of_several(tmp_path):
    core = str(min(os.sched_getaffinity(0)))
    done = command(["taskset", "-c", core, *mpirun(), "-n", "2", sys.executable, "-m", DOCTOR], tmp_path)
    [(verdict, text)] = verdicts(done)["cores"]
    assert f"2 ranks may use 1 of {os.cpu_count()} cores" in text
    assert verdict == ("mend" if (os.cpu_count() or 1) > 1 else "note")


@pytest.mark.parametrize("words", [["--no-such"], ["one", "two"]])
def test_bad_use_is_a_line_and_two(words, tmp_path):
    for done in (run_alone(*words, cwd=tmp_path, module=DOCTOR), run_mpi(2, *words, cwd=tmp_path, module=DOCTOR)):
        assert done.code == 2
        assert done.err.count("mpinodes: error: ") == 1
        assert "Traceback" not in done.err


def test_help_is_said_once(tmp_path):
    assert run_mpi(2, "--help", cwd=tmp_path, module=DOCTOR).out.count("usage:") == 1


RANK = doctor.RankFacts("h1", frozenset(range(4)), 4, "openblas 1 for Haswell", 1, None)


def checks(*ranks: doctor.RankFacts) -> dict[str, str]:
    """Each line, in one piece, by what it is about."""
    return {line.about: " ".join(str(line).split()) for line in doctor.about_ranks(ranks)}


def test_what_differs_between_hosts_is_found():
    other = RANK._replace(host="h2")
    alike = checks(RANK, other)
    assert [line.split()[0] for line in alike.values()] == ["ok"] * 3
    assert alike["cores"] == "ok cores h1, h2: 1 rank may use 4 of 4 cores"
    assert "OPENBLAS_CORETYPE" in checks(RANK, other._replace(blas="openblas 1 for Zen"))["threads"]
    assert checks(RANK, other._replace(threads=4))["threads"].startswith("mend")


def test_a_missing_package_is_found(monkeypatch):
    monkeypatch.setattr("importlib.metadata.distributions", list)
    assert "scipy missing" in checks(RANK)["versions"]


@pytest.mark.parametrize(
    ("cores", "online", "verdict"),
    [
        ([{0, 1, 2, 3}] * 4, 4, "ok"),
        ([{0, 1, 2, 3}] * 5, 4, "note"),  # takes turns
        ([{0}, {1}, {2}, {3}], 4, "ok"),
        ([{0}, {1}, {2}, {3}, {0}], 4, "note"),
        ([{0}, {0}, {0}, {1}], 4, "mend"),  # bound to one while others are free
        ([{0, 1}] * 4, 4, "mend"),
        ([{0, 1, 2}] * 3, 64, "ok"),  # what the batch system gave
    ],
)
def test_how_ranks_share_cores(cores, online, verdict):
    ranks = [RANK._replace(cores=frozenset(mine), online=online) for mine in cores]
    assert doctor.about_cores(ranks).verdict == verdict
