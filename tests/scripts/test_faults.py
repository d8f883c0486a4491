"""The table of faults, in small: what dies without a word is told of, and the table says when something is wrong."""

from __future__ import annotations

import sys

import pytest

from tests.helpers.running import CHECKOUT


@pytest.fixture
def faults(monkeypatch):
    monkeypatch.syspath_prepend(str(CHECKOUT / "scripts"))
    monkeypatch.setenv("PYTHONPATH", str(CHECKOUT))
    import faults

    return faults


@pytest.mark.parametrize(
    ("name", "place", "said"),
    [
        ("SIGKILL", "agent 1", ""),  # mpirun says so
        ("endless loop in a metric", "logger", "no word from the logger"),
    ],
)
def test_a_fault_ends_the_job_soon_with_a_line_and_a_record(name, place, said, faults, tmp_path):
    fault = next(fault for fault in faults.FAULTS if (fault.name, fault.place) == (name, place))
    seen = faults.break_run(fault, tmp_path / "work", sys.executable)
    assert faults.wrong(fault, seen) == ""
    assert said in seen.line
    assert seen.rounds > 0


def test_what_the_table_calls_wrong(faults, tmp_path):
    fault, closed = faults.Fault("one", codes=(3,)), faults.Fault("two", codes=(0, 255))
    good = faults.Seen(3, 0.1, "said", "logged", 10, "unknown")
    bad = {
        "hung": good._replace(code=None),
        "exit code 0": good._replace(code=0),
        "no message": good._replace(line="", logged=""),
        "the record cannot be read": good._replace(rounds=None),
        "cannot be resumed": good._replace(resumed="no: it is another"),
    }
    assert faults.wrong(fault, good) == ""
    done = good._replace(code=0, resumed=faults.DONE)
    assert faults.wrong(closed, done) == ""
    assert faults.wrong(closed, done._replace(resumed="yes")) == "exit code 0, but the run is not complete"
    assert {faults.wrong(fault, seen) for seen in bad.values()} == bad.keys()
    faults.write([faults._columns(fault, seen) for seen in bad.values()], tmp_path)
    assert (tmp_path / "faults.md").read_text().count("\n") == 7
    assert len(faults.FAULTS) >= 30
