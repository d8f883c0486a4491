"""What the ranks of a host read once."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import numpy as np
import pytest

from mpinodes.core.errors import BadInput
from mpinodes.data import libsvm, shelf, table
from mpinodes.data.source import content
from mpinodes.streams.mean import Mean
from mpinodes.streams.unit_ball import UnitBall
from tests.helpers.parts import setup_of


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.setattr(shelf, "_held", {})
    for name in "xy":
        monkeypatch.chdir(tmp_path)
        Path(name).write_text(name)


@pytest.fixture
def folder(files, tmp_path):
    with shelf.shared(tmp_path / "shelf"):
        yield tmp_path / "shelf"


class Reader:
    """Counts how often it reads."""

    def __init__(self, *arrays):
        self.arrays, self.times = arrays, 0

    def __call__(self):
        self.times += 1
        return self.arrays


def test_a_file_is_read_once_and_then_mapped(folder):
    reader = Reader(np.arange(6.0).reshape(2, 3), np.array([1, -1]), np.array(7))
    for _ in range(3):
        found = shelf.once(Path("x"), "as numbers", reader)
        assert reader.times == 1
        for array, wanted in zip(found, reader.arrays, strict=True):
            assert array.dtype == wanted.dtype
            assert np.array_equal(array, wanted)
            assert type(array) is np.ndarray
        with pytest.raises(ValueError, match="read-only"):
            found[0][0, 0] = 1
    shelf.once(Path("x"), "otherwise", reader)
    shelf.once(Path("y"), "as numbers", reader)
    assert reader.times == 3


def test_ranks_that_come_together_read_once_among_them(folder, tmp_path):
    """The second waits for the first."""
    told = tmp_path / "times"

    def read():
        with told.open("a") as file:
            file.write("once\n")
        return [np.ones(1000)]

    children = []
    for _ in range(4):
        if (child := os.fork()) == 0:
            os._exit(0 if shelf.once(Path("x"), "", read)[0].sum() == 1000 else 1)
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 4
    assert told.read_text() == "once\n"


def test_packed_bytes_are_unpacked_once_and_outlive_the_folder(tmp_path):
    path, folder = tmp_path / "x.gz", tmp_path / "shelf"
    path.write_bytes(gzip.compress(b"one\ntwo\n"))
    with shelf.shared(folder):
        first = content(path)
        second = content(path)
        assert list(folder.glob("*/0.npy"))
    path.write_bytes(gzip.compress(b"changed\n"))
    assert not folder.exists()
    assert first.tobytes() == second.tobytes() == b"one\ntwo\n"
    assert content(path).tobytes() == b"changed\n"


def test_sparse_rows_are_read_once_and_rows_of_the_map_are_a_ranks_own(files, tmp_path, monkeypatch):
    (tmp_path / "x.svm").write_text("1 1:0.5 3:2\n-1 2:1\n1\n")
    with shelf.shared(tmp_path / "shelf"):
        first = libsvm.read(tmp_path / "x.svm")
        monkeypatch.setattr(libsvm, "_read", None)
        second = libsvm.read(tmp_path / "x.svm")
    for source in (first, second):
        assert source.features(np.array([2, 0])).toarray().tolist() == [[0, 0, 0], [0.5, 0, 2]]


def test_what_is_wrong_with_a_file_is_said_to_each_who_reads_it(folder, tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("a,b\n1,word\n")
    for _ in range(2):
        with pytest.raises(BadInput, match="line 2, column 2: 'word' is not a finite number"):
            table.read(path)
    path.write_text("a,b\n3,4\n")
    assert table.read(path).targets.tolist() == [4]


def test_where_nothing_can_be_shared_each_reads_for_itself(files, tmp_path):
    reader = Reader(np.ones(2))
    with shelf.shared(tmp_path / "x" / "shelf"):  # within a file
        assert shelf.once(Path("x"), "", reader)[0] is reader.arrays[0]
    gone = tmp_path / "gone"
    with shelf.shared(gone):
        gone.rmdir()
        assert shelf.once(Path("y"), "", reader)[0] is reader.arrays[0]
    assert reader.times == 2


def test_a_process_reads_a_small_file_once_for_all_its_runs_until_it_changes(files, monkeypatch):
    reader = Reader(np.ones(4))
    for _ in range(2):
        assert not shelf.once(Path("x"), "", reader)[0].flags.writeable
    assert reader.times == 1
    Path("x").write_text("more")
    shelf.once(Path("x"), "", reader)
    assert reader.times == 2
    monkeypatch.setattr(shelf, "HELD", 50)
    for name in "yxyx":  # 32 bytes each: one at a time
        shelf.once(Path(name), "", reader)
    assert reader.times == 6
    monkeypatch.setattr(shelf, "HELD", 31)
    monkeypatch.setattr(shelf, "_held", {})
    for times in (7, 8):
        shelf.once(Path("x"), "", reader)
        assert reader.times == times


@pytest.mark.parametrize(("kind", "algorithm"), [(UnitBall, "dola"), (Mean, "dpsda-c")])
def test_what_is_drawn_from_the_seed_is_drawn_once_for_all_ranks_of_a_host(
    files, kind, algorithm, monkeypatch, tmp_path
):
    draws, draw = [], kind._drawn
    monkeypatch.setattr(kind, "_drawn", lambda stream: draws.append(stream) or draw(stream))
    name = "mean" if kind is Mean else "unit-ball"
    asked = {"topology": {"name": "ring"}, "algorithm": {"name": algorithm}}

    def drawn(seed=0, **data):
        draws.clear()
        stream = setup_of(asked | {"data": {"name": name} | data, "seed": seed, "rounds": 9}, 5).stream
        stream.forget()
        found = [source.features(np.arange(3)).copy() for source in stream.open() if source]
        return found, len(draws)

    with shelf.shared(tmp_path / "shelf"):
        first, _ = drawn()
        again, times = drawn()
    assert not times
    assert all(map(np.array_equal, first, again))
    alone, times = drawn()
    assert times
    assert all(map(np.array_equal, first, alone))
    for other, times in (drawn(seed=1), drawn(dimension=4)):
        assert times
        assert not np.array_equal(first[0], other[0])
