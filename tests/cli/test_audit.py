"""The audit as a user starts it."""

from __future__ import annotations

import pytest

from mpinodes import audit
from tests.conftest import run_mpi


def test_over_mpi_the_table_and_exit_code_are_those_of_one_process(tmp_path, monkeypatch, capsys):
    """Every pair of runs has seeds of its own, whichever rank plays it."""
    words = ["algorithm.name=dola", "topology.name=ring", "topology.agents=2", "data.total=200"]
    done = run_mpi(3, *words, cwd=tmp_path, module="mpinodes.audit")
    assert done.code == 0, done.err
    assert audit.main(words) == 0
    assert done.out == capsys.readouterr().out
    assert "every sample, one run" in done.out
    assert not (tmp_path / "runs").exists()


BUG = """
from dataclasses import dataclass, replace
from mpinodes.algorithms.dola import DOLA
__all__ = ["Bug"]

@dataclass(frozen=True)
class Bug(DOLA):
    def message(self, s, round):
        said = super().message(s, round)
        return replace(said, l1=said.l1 / 3, l2=said.l2 / 3, nominal=said.nominal / 3)
"""


def test_what_is_proven_and_false_ends_in_exit_code_1(tmp_path, monkeypatch, capsys):
    (tmp_path / "bug.py").write_text(BUG)
    monkeypatch.setattr(audit, "PAIRS", 100)
    words = [f"algorithm.path={tmp_path}/bug.py", "rounds=8", "topology.name=ring", "topology.agents=3"]
    assert audit.main([*words, "data.name=unit-ball", "data.total=60", "problem.loss=hinge"]) == 1
    printed = capsys.readouterr().out
    assert "adjacent data, many runs: replay" in printed
    assert "REFUTES THE PROVEN VALUE: a message moves further" in printed


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["algorithm.name=dolla"], "did you mean dola?"),
        (["nowhere.toml"], "nowhere.toml: cannot be read"),
        (["--fast"], "see python -m mpinodes.audit --help"),
        (["seed=-1"], "seed = -1"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(words, message, capsys):
    assert audit.main(words) == 2
    error = capsys.readouterr()
    printed = error.err
    assert message in printed or message in error.out
    assert printed.count("\n") == 1
