"""The command check, and what runs of a user's file say of it."""

from __future__ import annotations

import json

from mpinodes import check, run_lockstep
from mpinodes.config import own_files as sources
from mpinodes.presentation.terminal import text
from tests.helpers.records import typed

TOPOLOGY = """
from dataclasses import dataclass
from functools import cached_property
from mpinodes.topology.base import Periodic, both_ways
__all__ = ["Star"]
@dataclass(frozen=True)
class Star(Periodic):
    title = "star"
    @cached_property
    def phases(self):
        return (both_ways(frozenset((0, i) for i in range(1, self.agents))),)
"""


def ran(tmp_path, name, file):
    directory = run_lockstep({
        "rounds": 5, "report": False, "output": {"dir": str(tmp_path / name)}, "algorithm": {"name": "dola"},
        "topology": {"path": str(file), "agents": 3},
    })  # fmt: skip
    return directory, json.loads((directory / "summary.json").read_text())


def test_runs_say_whether_the_file_was_tested(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    file = tmp_path / "star.py"
    file.write_text(TOPOLOGY)
    directory, summary = ran(tmp_path, "before", file)
    digest = sources.digest_of(file)
    assert summary["checked"] == [{"key": "topology.path", "path": str(file), "sha256": digest, "tested": False}]
    assert sources.NOT_TESTED in text(typed(summary), directory)
    assert (directory / "sources" / "topology-path-star.py").read_text() == TOPOLOGY
    assert check.main([str(file)]) == 0
    directory, summary = ran(tmp_path, "after", file)
    assert summary["checked"][0]["tested"]
    assert sources.TESTED.format(digest[: sources.SHORT]) in text(typed(summary), directory)
    file.write_text(TOPOLOGY + "\n")
    assert not ran(tmp_path, "changed", file)[1]["checked"][0]["tested"]


def test_runs_of_built_in_parts_are_not_conditional(tmp_path):
    directory = run_lockstep({"rounds": 6, "report": False, "output": {"dir": str(tmp_path / "run")}})
    summary = json.loads((directory / "summary.json").read_text())
    assert summary["checked"] is None
    assert "conditional" not in text(typed(summary), directory)
    assert not (directory / "sources").exists()


def test_a_fault_is_exit_code_1_and_bad_input_2(tmp_path, capsys):
    file = tmp_path / "star.py"
    file.write_text(TOPOLOGY.replace("range(1,", "range(0,"))
    assert check.main([str(file)]) == 1
    assert "FAULT  an invalid edge" in capsys.readouterr().out
    assert check.main([str(tmp_path / "none.py")]) == 2
    assert check.main(["no-such-part"]) == 2
    old = tmp_path / "old.py"
    old.write_text("from mpinodes.core.protocol import Query\n__all__ = ['A']\nclass A: pass\n")
    assert check.main([str(old)]) == 2
    error = capsys.readouterr().err.strip().splitlines()
    assert "import from mpinodes.core" in error[-1]
