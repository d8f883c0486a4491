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
from mpinodes.core import Event
from mpinodes.results.record import Record
from tests.helpers.parts import run_of

KILLED = """
import os, signal, sys
import numpy as np
from mpinodes.core import Event
from mpinodes.results.record import Record
record = Record(sys.argv[1], 3, 5, {}, decisions=True)
for chunk in range(4):
    values = np.full(10, chunk, dtype=float)
    record.append(values, values, np.full((10, 3, len(Event._fields)), chunk), decision=np.full((10, 3, 5), chunk))
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
    run = run_of(tmp_path / "run", "rounds=30 record.decisions=true record.chunk=1000")
    with xr.open_dataset(run / "record.h5", engine="h5netcdf") as lazily:
        assert lazily.sizes == {"round": 30, "agent": 7, "coordinate": 64, "horizon": lazily.sizes["horizon"]}
        assert lazily.decision.sel(round=30, agent=6).shape == (64,)
    with h5py.File(run / "record.h5") as file:
        assert file["decision"].shape == (30, 7, 64)
        assert [d.label or d[0].name for d in file["loss"].dims] == ["/round"]


def test_values_survive_the_way_to_disk_bit_for_bit(tmp_path):
    rng = np.random.default_rng(0)
    record = Record(tmp_path / "record.h5", 2, 3, {"versions": {"a": 1}}, decisions=True)
    parts = [rng.standard_normal(shape) for shape in ((7,), (7,), (7, 2, len(Event._fields)), (7, 2, 3))]
    for some in (slice(0, 4), slice(4, 7)):
        record.append(*(part[some] for part in parts[:3]), decision=parts[3][some])
    record.finish([1, 7], {"accuracy": (("horizon",), np.array([0.5, np.nan]))})
    found = mpinodes.load(tmp_path)
    np.testing.assert_array_equal(found.loss, parts[0])
    np.testing.assert_array_equal(found.event_l2, parts[2][:, :, 4])
    np.testing.assert_array_equal(found.decision, parts[3])
    np.testing.assert_array_equal(found.accuracy, [0.5, np.nan])


def test_loading_something_else_fails(tmp_path):
    with pytest.raises(FileNotFoundError):
        mpinodes.load(tmp_path)
    assert os.listdir(tmp_path) == []
