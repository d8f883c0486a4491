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
from mpinodes.results.record import Record, Variable

KILLED = """
import os, signal, sys
import numpy as np
from mpinodes.results.record import Record, Variable
record = Record(sys.argv[1], 3, 5, {})
for chunk in range(4):
    loss = Variable(("round",), np.full(10, chunk, dtype=float))
    record.append({"loss": loss, "decision": Variable(("round", "agent", "coordinate"), np.full((10, 3, 5), chunk))})
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_run_keeps_every_chunk_that_was_written(tmp_path):
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path / "record.h5")], check=False)
    assert done.returncode == -signal.SIGKILL
    record = mpinodes.load(tmp_path)
    np.testing.assert_array_equal(record.loss, np.repeat(np.arange(4.0), 10))
    assert record.decision.shape == (40, 3, 5)
    assert record["round"].values.tolist() == list(range(1, 41))


def test_it_is_netcdf_to_xarray_and_plain_hdf5_to_h5py(tmp_path):
    run = mpinodes.run_lockstep(
        {
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
