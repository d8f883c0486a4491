"""The console command: every command by one name."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import mpinodes
from mpinodes import check, compare, replay, report, run, spent, watch
from mpinodes.__main__ import commands
from tests.helpers.records import same_bits
from tests.helpers.running import CHECKOUT, command, mpirun, run_alone, run_mpi
from tests.test_imports import COMMANDS

SCRIPT = str(Path(sys.executable).parent / "mpinodes")


def test_it_lists_every_command(tmp_path):
    assert set(commands()) == COMMANDS
    done = command([SCRIPT, "--help"], tmp_path)
    assert (done.code, done.err) == (0, "")
    said = [line.split() for line in done.out.splitlines() if line.startswith("  ")]
    assert {words[0] for words in said} == COMMANDS
    assert all(len(words) > 2 for words in said)
    assert command([SCRIPT, "--version"], tmp_path).out == f"{mpinodes.__version__}\n"


def test_a_wrong_command_is_said_once(tmp_path):
    done = command([*mpirun(), "-n", "2", SCRIPT, "rnu"], tmp_path)
    assert done.code == 2
    assert done.err == "mpinodes: error: rnu: there is no such command; did you mean run?\n"
    assert "the command is missing; choose from: audit, check" in command([SCRIPT], tmp_path).err


def test_home_is_home_in_every_command(tmp_path, monkeypatch, capfd):
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("HOME", str(tmp_path))
    words = ["algorithm.name=dola", "data.name=unit-ball", "data.total=40", "rounds=4", "record.transcript=true"]
    mpinodes.simulate(*words, "output.dir=~/one")
    for module, options in (
        (report, []), (spent, []), (replay, []), (watch, []), (compare, ["--output=~/compared"]),
    ):  # fmt: skip
        assert module.main(["~/one", *options]) == 0, module
    assert (tmp_path / "compared" / "compare.md").is_file()
    assert run.main(["--lockstep", "--resume", "~/one"]) == 2
    assert check.main(["~/mine.py"]) == 2
    said = capfd.readouterr().err
    assert f"--resume {tmp_path}/one: all 4 rounds are done" in said
    assert f"{tmp_path}/mine.py: no such Python file" in said
    assert not os.path.lexists("~")


def test_it_is_the_module_of_that_name(tmp_path):
    """Under mpirun too, and with a part that imports what lies beside it."""
    (tmp_path / "beside.py").write_text("NAME = 'my own'\n")
    (tmp_path / "mine.py").write_text(
        "import beside\nfrom dataclasses import dataclass\nfrom mpinodes.topology.ring import Ring\n"
        "__all__ = ['Mine']\n@dataclass(frozen=True)\nclass Mine(Ring):\n    title = beside.NAME\n"
    )
    words = ["algorithm.name=dola", "data.total=40", "topology.path=mine.py", "rounds=10", "report=false"]
    one = command([*mpirun(), "-n", "3", SCRIPT, "run", *words, "output.dir=one"], tmp_path)
    other = run_mpi(3, *words, "output.dir=other", cwd=tmp_path)
    assert (one.code, other.code) == (0, 0), one.err + other.err
    assert same_bits(tmp_path / "one", tmp_path / "other") == []
    one, other = command([SCRIPT, "report"], tmp_path), run_alone(cwd=tmp_path, module="mpinodes.report")
    assert (one.code, one.err) == (other.code, other.err.replace("python -m mpinodes.report", "mpinodes report"))
    assert one.code == 2


def test_a_command_sets_its_threads_before_numpy_is_imported():
    """Found by CI: of two BLAS threads the console's runs had other last bits than those of python -m."""
    seen = "import sys, mpinodes.__main__; print('numpy' in sys.modules)"
    assert command([sys.executable, "-c", seen], CHECKOUT).out == "False\n"
