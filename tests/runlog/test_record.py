"""`record.h5`, written once, and read."""

from __future__ import annotations

import gc
import os
import random
import resource
from pathlib import Path

import h5py
import numpy as np
import pytest
import xarray as xr

import mpinodes
from mpinodes.core.errors import BadInput
from mpinodes.launch.launching import in_words
from mpinodes.runlog import export as exporting
from mpinodes.runlog.export import export
from mpinodes.runlog.log import NAME, Log, Variable
from mpinodes.runlog.reader import Reader
from tests.helpers.fuzzing import damaged
from tests.runlog.test_log import FACTS, losses


def recorded(run: Path, chunks: list[dict], horizons, variables: dict | None = None) -> Path:
    """A finished record, of rounds that were logged chunk by chunk."""
    run.mkdir(exist_ok=True)
    log = Log(run / NAME, FACTS)
    for chunk in chunks:
        log.append(chunk)
    with Reader(run) as record:
        export(record, run, np.array(horizons), variables or {})
    return run


def test_it_is_netcdf_to_xarray_and_plain_hdf5_to_h5py(tmp_path):
    run = mpinodes.run_lockstep(
        {
            "algorithm": {"name": "dpsda-ps"},
            "rounds": 30,
            "report": False,
            "record": {"decisions": True},
            "output": {"dir": str(tmp_path / "run")},
        }
    )
    with xr.open_dataset(run / "record.h5", engine="h5netcdf") as lazily:
        assert lazily.sizes == {"round": 30, "agent": 7, "coordinate": 64, "horizon": lazily.sizes["horizon"]}
        assert lazily.decision.sel(round=30, agent=6).shape == (64,)
    with h5py.File(run / "record.h5") as file:
        assert file["decision"].shape == (30, 7, 64)
        assert [d.label or d[0].name for d in file["loss"].dims] == ["/round"]
    assert not (run / NAME).exists()


@pytest.mark.parametrize("piece", [1 << 6, 1 << 17])
def test_values_survive_the_way_to_disk_bit_for_bit(piece, tmp_path, monkeypatch):
    """However the rounds were cut in the log, and are in the file."""
    monkeypatch.setattr(exporting, "CHUNK", piece)
    rng = np.random.default_rng(0)
    dims = {
        "loss": ("round",), "event_l2": ("round", "agent"), "decision": ("round", "agent", "coordinate"),
        "transcript": ("round", "agent", "word"), "event_kind": ("round", "agent", "vector"),
    }  # fmt: skip
    sizes = {"round": 70, "agent": 2, "coordinate": 3, "word": 5, "vector": 4}
    values = {name: rng.standard_normal([sizes[dim] for dim in axes]) for name, axes in dims.items()}
    values["event_kind"][...] = 1.0
    cuts = [slice(0, 1), slice(1, 40), slice(40, 70)]
    chunks = [{name: Variable(dims[name], array[some]) for name, array in values.items()} for some in cuts]
    known = {"accuracy": Variable(("horizon",), np.array([0.5, np.nan]), "accuracy of all", "seconds")}
    found = mpinodes.load(recorded(tmp_path, chunks, [1, 70], known))
    for name, array in values.items():
        assert found[name].dims == dims[name]
        np.testing.assert_array_equal(found[name], array)
    np.testing.assert_array_equal(found.accuracy, [0.5, np.nan])
    assert found.accuracy.attrs == {"long_name": "accuracy of all", "units": "seconds"}
    assert found.word.values.tolist() == [0, 1, 2, 3, 4]
    assert found["round"].values.tolist() == list(range(1, 71))
    assert xr.load_dataset(tmp_path / "record.h5", engine="h5netcdf").equals(found)


def test_it_holds_what_the_log_holds_in_less_room(tmp_path):
    run = recorded(tmp_path, [losses(3000)], [1, 3000], {"gap": Variable(("horizon",), np.zeros(2))})
    assert (run / "record.h5").stat().st_size < (run / NAME).stat().st_size / 4
    over = mpinodes.load(run)
    (run / "record.h5").unlink()
    living = mpinodes.load(run)
    assert living.identical(over.drop_vars(["gap", "horizon"])), (living, over)


def test_loading_something_else_fails(tmp_path):
    with pytest.raises(FileNotFoundError):
        mpinodes.load(tmp_path)
    assert os.listdir(tmp_path) == []


def test_a_damaged_record_is_refused_in_a_line(tmp_path):
    """Bits flipped, bytes written over, its end cut off; what it claims to hold is not asked of memory."""
    recorded(tmp_path, [losses(3000)], [1, 3000], {"gap": Variable(("horizon",), np.zeros(2))})
    whole, rng, refused = (tmp_path / "record.h5").read_bytes(), random.Random(1), []
    limits = resource.getrlimit(resource.RLIMIT_AS)
    now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + 500_000_000, limits[1]))
    try:
        for _ in range(60):
            (tmp_path / "record.h5").write_bytes(damaged(whole, rng))
            try:
                with Reader(tmp_path) as record:
                    for name in record.names:
                        record.read(name)
            except BadInput as error:
                refused.append(str(error))
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)
    assert len(refused) > 20
    assert all(len(line) < 500 and "\n" not in line for line in refused), refused


def test_a_full_disk_leaves_the_log_and_no_record(tmp_path):
    """However full: the failure is a line, and all rounds can be read."""
    log = Log(tmp_path / NAME, FACTS)
    rng = np.random.default_rng(0)
    log.append({"loss": Variable(("round",), rng.standard_normal(5000))})
    limits, lines = resource.getrlimit(resource.RLIMIT_FSIZE), []
    for size in np.geomspace(100, 100_000, 20).astype(int).tolist():
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
        try:
            with Reader(tmp_path) as record:
                export(record, tmp_path, np.array([1]), {})
        except OSError as error:
            lines.append(in_words(error))
            assert not (tmp_path / "record.h5").exists()
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        gc.collect()
        assert mpinodes.load(tmp_path).sizes["round"] == 5000
        assert [path.name for path in tmp_path.iterdir()] in ([NAME], [NAME, "record.h5"], ["record.h5", NAME])
    assert len(lines) > 10
    assert all("File too large" in line and "\n" not in line for line in lines), lines
