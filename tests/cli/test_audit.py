"""The audit as a user starts it."""

from __future__ import annotations

import sys

import pytest

from mpinodes import audit
from mpinodes.auditing import verdicts
from tests.helpers.running import command, mpirun, run_mpi


def test_over_mpi_it_prints_a_table_and_leaves_nothing_behind(tmp_path):
    few = "import sys; from mpinodes import audit; audit.PAIRS = 100; sys.exit(audit.main(sys.argv[1:]))"
    words = ["algorithm.name=dola", "topology.name=ring", "data.total=60", "rounds=6"]
    done = command([*mpirun(), "-n", "3", sys.executable, "-c", few, *words], tmp_path)
    assert done.code == 0, done.err
    assert done.err == ""
    assert done.out.startswith("audit of dola, seed 0, one-sample\n")
    assert done.out.count("holds") == 8
    assert list(tmp_path.iterdir()) == []


def test_over_mpi_bad_input_is_one_line_too(tmp_path):
    done = run_mpi(3, "algorithm.name=dolla", cwd=tmp_path, module="mpinodes.audit")
    assert done.code == 2
    assert [line for line in done.err.splitlines() if line.startswith("mpinodes:")] == [
        line for line in done.err.splitlines() if "did you mean dola?" in line
    ]
    assert "Traceback" not in done.err


BUG = """
from dataclasses import dataclass, replace
from mpinodes.algorithms.dola import DOLA
__all__ = ["Bug"]

@dataclass(frozen=True)
class Bug(DOLA):
    def message(self, s, here):
        said = super().message(s, here)
        return replace(said, l1=said.l1 / 3, l2=said.l2 / 3, calibration=said.calibration / 3)
"""


def test_what_is_proven_and_false_ends_in_exit_code_1(tmp_path, monkeypatch, capsys):
    (tmp_path / "bug.py").write_text(BUG)
    monkeypatch.setattr(audit, "PAIRS", 4)
    monkeypatch.setattr(verdicts, "of_settings", lambda *_: [])  # other settings: tests/auditing/test_planted.py
    words = [f"algorithm.path={tmp_path}/bug.py", "rounds=8", "topology.name=ring", "topology.agents=3"]
    assert audit.main([*words, "data.name=unit-ball", "data.total=60", "problem.loss=hinge"]) == 1
    printed = capsys.readouterr().out
    assert "adjacent data, many runs: replay" in printed
    assert "REFUTES THE PROVEN VALUE: a message changes by more than its bound" in printed


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["algorithm.name=dolla"], "did you mean dola?"),
        (["nowhere.toml"], "nowhere.toml: cannot be read"),
        (["--fast"], "audit --help"),
        (["seed=-1"], "seed = -1"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(words, message, capfd):
    assert audit.main(words) == 2
    printed = capfd.readouterr().err
    assert message in printed
    assert printed.count("\n") == 1
