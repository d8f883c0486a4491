"""Runs of another layout are refused in a line."""

from __future__ import annotations

import json

import h5py
import pytest

import mpinodes
from mpinodes import replay, report
from mpinodes.core.errors import BadInput
from mpinodes.runlog.versions import VERSION

CASES = [(None, "its record has no version"), (0, "has version 0, older"), (VERSION + 1, "newer")]


@pytest.fixture
def run(tmp_path):
    data = {"name": "olr"}
    record = {"transcript": True}
    asked = {"rounds": 4, "data": data, "record": record, "report": False, "output": {"dir": str(tmp_path / "run")}}
    return mpinodes.run_lockstep(asked)


def set_version(run, version: int | None) -> None:
    with h5py.File(run / "record.h5", "a") as file:
        del file.attrs["version"]
        if version is not None:
            file.attrs["version"] = version


def test_a_run_says_its_version(run):
    assert mpinodes.load(run).attrs["version"] == VERSION
    assert json.loads((run / "summary.json").read_text())["version"] == VERSION


@pytest.mark.parametrize(("version", "message"), CASES)
def test_every_reader_refuses_what_it_cannot_read_in_a_line(run, version, message, capsys):
    set_version(run, version)
    with pytest.raises(BadInput, match=message):
        mpinodes.load(run)
    for reader in (report, replay):
        assert reader.main([str(run)]) == 2
        error = capsys.readouterr().err
        assert message in error
        assert error.count("\n") == 1
        assert "not a" not in error


def test_a_summary_without_version_is_refused(run, capsys):
    summary = json.loads((run / "summary.json").read_text())
    del summary["version"]
    (run / "summary.json").write_text(json.dumps(summary))
    assert report.main([str(run)]) == 2
    assert "no version" in capsys.readouterr().err
