"""The record on disk."""

from __future__ import annotations

import fcntl
import gc
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest
import xarray as xr

import mpinodes
from mpinodes.core.errors import BadInput
from mpinodes.launch.launching import in_words
from mpinodes.runlog.reading import Reader, Variable, read_all
from mpinodes.runlog.record import Record
from tests.helpers.fuzzing import damaged

KILLED = """
import os, signal, sys
import numpy as np
from mpinodes.runlog.record import Record, Variable
import mpinodes.runlog.record as place
from pathlib import Path
place.SECONDS_BETWEEN_WRITES, place.BYTES_AT_ONCE = float(sys.argv[2]), int(sys.argv[3])
record = Record(Path(sys.argv[1]), 3, 5, {})
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


class Moments:
    """Every moment of a record's life at which a kill leaves another file, halves of writes among them."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.path, self.last, self.seen = path, b"", 0
        self.least = 0  # rounds that are on file for good
        self.plain = 0  # moments at which HDF5 reads it as it is
        for name in ("pwrite", "ftruncate", "replace"):
            monkeypatch.setattr(os, name, self.watched(getattr(os, name)))

    def watched(self, call):
        def watching(first, second, *at):
            if at and len(second) > 1:
                call(first, second[: len(second) // 2], *at)
                self.look()
            done = call(first, second, *at)
            self.look()
            return done

        return watching

    def look(self) -> None:
        content = self.path.read_bytes() if self.path.exists() else b""
        if content == self.last:
            return
        self.last, self.seen = content, self.seen + 1
        copy = self.path.parent / "copy" / "record.h5"
        copy.parent.mkdir(exist_ok=True)
        copy.write_bytes(content)
        found = mpinodes.load(copy.parent)
        rounds = found.sizes["round"]
        assert rounds >= self.least
        if "loss" in found:
            np.testing.assert_array_equal(found.loss, np.arange(rounds) % 700)
        try:
            with h5py.File(copy) as file:
                self.plain += all(dataset[...].size >= 0 for dataset in file.values())
        except (OSError, KeyError, RuntimeError):
            pass


def test_a_kill_at_any_moment_leaves_a_record_that_opens(tmp_path, monkeypatch):
    """As it is made, with its first rounds, with more, where chunks are filled or begun, and as it is closed."""
    moments = Moments(tmp_path / "record.h5", monkeypatch)
    record = Record(moments.path, 2, 3, {"a": "b"})
    for _ in range(4):
        record.append(losses(700))
        record.write()
        moments.least = record.rounds
    record.finish([1, 2], {"regret": Variable(("horizon",), np.zeros(2)), "gap": Variable(("agent",), np.ones(2))})
    assert moments.seen > 100
    assert moments.plain > 0.8 * moments.seen
    assert mpinodes.load(tmp_path).regret.shape == (2,)


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
    monkeypatch.setattr("mpinodes.runlog.record.BYTES_AT_ONCE", 300)  # a few rounds are copied at a time
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


def losses(rounds: int) -> dict[str, Variable]:
    return {"loss": Variable(("round",), np.arange(float(rounds)), "loss", "m"), **of_messages(rounds)}


def of_messages(rounds: int) -> dict[str, Variable]:
    return {f"event_{k}": Variable(("round", "agent"), np.full((rounds, 2), float(k))) for k in range(5)}


def test_a_record_is_read_while_it_is_written(tmp_path):
    """By our own reader, and between two writes by any other."""
    record = Record(tmp_path / "record.h5", 2, 3, {})
    for done in (0, 4, 8):
        if done:
            record.append(losses(4))
            record.write()
        (tmp_path / f"{done}").mkdir()  # a copy: within one process HDF5 would see what is not on file yet
        shutil.copy(tmp_path / "record.h5", tmp_path / f"{done}")
        found = mpinodes.load(tmp_path / f"{done}")
        assert found.sizes["round"] == done
        if done:
            assert found.loss.values.tolist() == [0, 1, 2, 3] * (done // 4)
        with xr.open_dataset(tmp_path / f"{done}" / "record.h5", engine="h5netcdf") as theirs:
            assert theirs.equals(found)


def test_a_run_keeps_its_rows_while_somebody_reads_and_goes_on_if_that_takes_long(tmp_path, monkeypatch):
    place = "mpinodes.runlog.record"
    monkeypatch.setattr(f"{place}.SECONDS_BETWEEN_WRITES", 0)
    record = Record(tmp_path / "record.h5", 2, 3, {})
    record.append(losses(4))
    with Reader(tmp_path) as reader:
        record.append(losses(4))
        assert (record.rounds, reader.is_as_opened()) == (4, True)
        monkeypatch.setattr(f"{place}.PATIENCE", 0)
        record.append(losses(4))
        assert (record.rounds, reader.is_as_opened()) == (12, False)
    assert mpinodes.load(tmp_path).sizes["round"] == 12


def test_a_reader_does_not_wait_for_a_run_that_stands_still(tmp_path, monkeypatch):
    record = Record(tmp_path / "record.h5", 2, 3, {})
    monkeypatch.setattr("mpinodes.runlog.reading.PATIENCE", 0.01)
    with (tmp_path / "record.h5").open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(BadInput, match="its run is writing to it"):
            mpinodes.load(tmp_path)
    del record


@pytest.fixture(scope="module")
def intact(tmp_path_factory):
    """Records of a killed run and of one that is over, packed."""
    found = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mpinodes.runlog.record.PACKED_FROM", 0)
        for name in ("killed", "over"):
            path = tmp_path_factory.mktemp(name) / "record.h5"
            record = Record(path, 2, 3, {"experiment": "seed = 1\n"})
            record.append(losses(3000))
            record.write()
            if name == "over":
                record.finish([1, 3000], {"gap": Variable(("horizon",), np.zeros(2))})
            found.append(path.read_bytes())
    return found


def test_packed_it_holds_the_same(intact, tmp_path):
    killed, over = intact
    for name, content in (("killed", killed), ("over", over)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "record.h5").write_bytes(content)
    one, other = mpinodes.load(tmp_path / "killed"), mpinodes.load(tmp_path / "over")
    assert one.identical(other.drop_vars(["gap", "horizon"]))
    assert xr.load_dataset(tmp_path / "over" / "record.h5", engine="h5netcdf").equals(other)
    assert len(over) < len(killed) / 5


@pytest.mark.parametrize("which", [0, 1])
def test_a_damaged_record_is_refused_in_a_line(which, intact, tmp_path):
    """Bits flipped, bytes written over, its end cut off; what it claims to hold is not asked of memory."""
    whole, rng, refused = intact[which], random.Random(which), []
    limits = resource.getrlimit(resource.RLIMIT_AS)
    now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + 500_000_000, limits[1]))
    try:
        for _ in range(60):
            (tmp_path / "record.h5").write_bytes(damaged(whole, rng))
            try:
                read_all(tmp_path)
            except BadInput as error:
                refused.append(str(error))
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)
    assert len(refused) > 20
    assert all(len(said) < 500 and "\n" not in said for said in refused), refused


def test_a_full_disk_leaves_a_record_that_opens(tmp_path):
    """However full: all that was written before stays, and the failure is a line."""
    limits, said = resource.getrlimit(resource.RLIMIT_FSIZE), []
    for k, size in enumerate(np.geomspace(8_000, 400_000, 20).astype(int).tolist()):
        place, written = tmp_path / f"{size}", 0
        place.mkdir()
        record = Record(place / "record.h5", 2, 3, {})
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
        try:
            for _ in range(60):
                record.append(losses(500 + k))
                record.write()
                written = record.rounds
            record.finish([1, 2], {})
        except OSError as error:
            said.append((in_words(error), f"File too large; the record ends with round {written}"))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert mpinodes.load(place).sizes["round"] == written
        del record
        gc.collect()
        assert mpinodes.load(place).sizes["round"] == written
    assert said
    assert all(right in one and "\n" not in one for one, right in said), said
