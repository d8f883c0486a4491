"""The record on disk."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import h5py
import numpy as np
import pytest
import xarray as xr

import mpinodes
from mpinodes.core.errors import BadInput
from mpinodes.results.record import Record, Variable

KILLED = """
import os, signal, sys
import numpy as np
from mpinodes.results.record import Record, Variable
import mpinodes.results.record as place
place.SECONDS_BETWEEN_WRITES, place.BYTES_AT_ONCE = float(sys.argv[2]), int(sys.argv[3])
record = Record(sys.argv[1], 3, 5, {})
for chunk in range(5):
    loss = Variable(("round",), np.full(10, chunk, dtype=float))
    record.append({"loss": loss, "decision": Variable(("round", "agent", "coordinate"), np.full((10, 3, 5), chunk))})
os.kill(os.getpid(), signal.SIGKILL)
"""


# Ten rounds of a loss and of decisions take 8 (10 + 150) bytes.
@pytest.mark.parametrize(("seconds", "size", "kept"), [(0, 10**9, 5), (1e9, 0, 5), (1e9, 2 * 1280, 3)])
def test_a_killed_run_keeps_all_that_was_written(seconds, size, kept, tmp_path):
    """What waits to be written is a second's, or so many bytes: more is written at once."""
    words = [str(tmp_path / "record.h5"), str(seconds), str(size)]
    done = subprocess.run([sys.executable, "-c", KILLED, *words], check=False)
    assert done.returncode == -signal.SIGKILL
    record = mpinodes.load(tmp_path)
    np.testing.assert_array_equal(record.loss, np.repeat(np.arange(float(kept)), 10))
    assert record.decision.shape == (10 * kept, 3, 5)
    assert record["round"].values.tolist() == list(range(1, 10 * kept + 1))


def test_what_is_added_may_change_afterwards(tmp_path):
    record, loss = Record(tmp_path / "record.h5", 2, 3, {}), np.arange(4.0)
    record.append({"loss": Variable(("round",), loss)})
    loss[:] = -1
    record.append({"loss": Variable(("round",), loss)})
    record.finish([1], {})
    assert mpinodes.load(tmp_path).loss.values.tolist() == [0, 1, 2, 3, -1, -1, -1, -1]


def test_it_is_netcdf_to_xarray_and_plain_hdf5_to_h5py(tmp_path):
    run = mpinodes.run_lockstep(
        {
            "algorithm": {"name": "dpsda-ps"},
            "rounds": 30,
            "report": False,
            "record": {"decisions": True, "chunk": 1000},
            "output": {"dir": str(tmp_path / "run")},
        }
    )
    with xr.open_dataset(run / "record.h5", engine="h5netcdf") as lazily:
        assert lazily.sizes == {"round": 30, "agent": 7, "coordinate": 64, "horizon": lazily.sizes["horizon"]}
        assert lazily.decision.sel(round=30, agent=6).shape == (64,)
    with h5py.File(run / "record.h5") as file:
        assert file["decision"].shape == (30, 7, 64)
        assert [d.label or d[0].name for d in file["loss"].dims] == ["/round"]


def test_values_survive_the_way_to_disk_bit_for_bit(tmp_path):
    rng = np.random.default_rng(0)
    record = Record(tmp_path / "record.h5", 2, 3, {"versions": {"a": 1}})
    dims = {
        "loss": ("round",), "event_l2": ("round", "agent"), "decision": ("round", "agent", "coordinate"),
        "transcript": ("round", "agent", "word"),
    }  # fmt: skip
    sizes = {"round": 7, "agent": 2, "coordinate": 3, "word": 5}
    values = {name: rng.standard_normal([sizes[dim] for dim in axes]) for name, axes in dims.items()}
    for some in (slice(0, 4), slice(4, 7)):
        record.append({name: Variable(dims[name], array[some]) for name, array in values.items()})
    record.finish([1, 7], {"accuracy": Variable(("horizon",), np.array([0.5, np.nan]), "accuracy of all", "seconds")})
    found = mpinodes.load(tmp_path)
    for name, array in values.items():
        assert found[name].dims == dims[name]
        np.testing.assert_array_equal(found[name], array)
    np.testing.assert_array_equal(found.accuracy, [0.5, np.nan])
    assert found.accuracy.attrs == {"long_name": "accuracy of all", "units": "seconds"}
    assert found.word.values.tolist() == [0, 1, 2, 3, 4]


def test_loading_something_else_fails(tmp_path):
    with pytest.raises(FileNotFoundError):
        mpinodes.load(tmp_path)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("cut", [0, 3, 7])
def test_a_record_is_cut_and_goes_on_to_the_same_bits(cut, tmp_path, monkeypatch):
    """Whatever it held beyond that: later rounds, and what was known at the end."""
    monkeypatch.setattr("mpinodes.results.record.BYTES_AT_ONCE", 300)  # a few rounds are copied at a time
    rng = np.random.default_rng(0)
    dims = {"loss": ("round",), "event_l1": ("round", "agent", "vector"), "decision": ("round", "agent", "coordinate")}
    sizes = {"round": 7, "agent": 2, "coordinate": 3, "vector": 4}
    values = {name: rng.standard_normal([sizes[dim] for dim in axes]) for name, axes in dims.items()}
    whole, again = tmp_path / "whole" / "record.h5", tmp_path / "again" / "record.h5"

    def rounds(some):
        return {name: Variable(dims[name], of[some], f"the {name}", "m") for name, of in values.items()}

    for path in (whole, again):
        path.parent.mkdir()
        record = Record(path, 2, 3, {"host": "a"})
        record.append(rounds(slice(7)))
        record.finish([1, 7], {"gap": Variable(("horizon",), np.zeros(2))})
    record = Record.reopen(again, cut, {"host": "a"})
    assert record.rounds == cut
    if cut < 7:
        record.append(rounds(slice(cut, 7)))
    record.finish([1, 7], {"gap": Variable(("horizon",), np.zeros(2))})
    one, other = mpinodes.load(whole.parent), mpinodes.load(again.parent)
    assert one.identical(other), (one, other)
    assert [path.name for path in again.parent.iterdir()] == ["record.h5"]


def test_a_record_does_not_go_on_after_more_rounds_than_it_holds(tmp_path):
    record = Record(tmp_path / "record.h5", 1, 1, {})
    record.append({"loss": Variable(("round",), np.zeros(5))})
    record.write()
    with pytest.raises(BadInput, match="holds 5 rounds, and is to go on after round 6"):
        Record.reopen(tmp_path / "record.h5", 6, {})
