"""Write `record.h5`, the file with the results of a run, when the run has ended.

The file has the format NetCDF-4 and is written by h5py; xarray can open the file. Every dimension has a coordinate
variable, which holds the labels along the dimension.
"""

from __future__ import annotations

import io
import os
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from h5py import h5a, h5d, h5ds, h5g, h5p, h5s, h5t
from numpy.typing import NDArray

from mpinodes.runlog import long_names
from mpinodes.runlog.directories import draft_of
from mpinodes.runlog.log import Variable, Variables
from mpinodes.runlog.reader import DIMS, RECORD, Reader
from mpinodes.runlog.versions import VERSION

CHUNK = 1 << 17  # largest size of an HDF5 chunk, in bytes
WORTH = 0.7  # a variable is compressed if the compressed size is at most this fraction of its size


class _Draft(io.FileIO):
    """Write the bytes of `record.h5` for the library HDF5. If a write fails, store the error instead of raising it.

    HDF5 would crash if the error were raised.

    Attributes:
        failure: the error of a write or a change of size; None if there was no error. After an error, nothing more is
            written.
    """

    failure: OSError | None = None

    def write(self, data: Any) -> int:
        """Write all data; do nothing if an earlier write failed."""
        rest = view = memoryview(data).cast("B")
        try:
            while rest and not self.failure:
                rest = rest[super().write(rest) :]
        except OSError as error:
            self.failure = error
        return len(view)

    def truncate(self, size: int | None = None) -> int:
        """Cut or extend the file to `size` bytes; do nothing if an earlier write failed."""
        try:
            return size or 0 if self.failure else super().truncate(size)
        except OSError as error:
            self.failure = error
            return size or 0


@contextmanager
def new_record(run: Path, words: Mapping[str, str]) -> Iterator[h5py.File]:
    """Open a new `record.h5` for writing; the complete file appears when the context ends.

    If an error occurs in the context, no new file appears.

    Args:
        run: the run directory.
        words: the attributes of the record, by name; the attribute `version` is added.

    Raises:
        OSError: the file cannot be written.
    """
    path = run / RECORD
    draft = draft_of(path)
    try:
        with _Draft(draft, "w+") as disk:
            with h5py.File(disk, "w", track_order=True, rdcc_nbytes=0) as file:
                write_words(file.id, words)
                file.attrs["version"] = VERSION
                yield file
            if failure := disk.failure:
                raise OSError(failure.errno, os.strerror(failure.errno or 0), str(path))
        os.replace(draft, path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def export(record: Reader, run: Path, horizons: NDArray[np.int64], variables: Variables) -> None:
    """Write `record.h5`: the variables of all recorded rounds, and the variables that are known only at the end.

    Args:
        record: the reader of the recorded rounds, whose text attributes are copied to the new `record.h5`.
        run: the run directory.
        horizons: the rounds at which results, such as regret, are measured, as a one-dimensional array.
        variables: the variables that are known only at the end, such as regret and privacy loss.

    Raises:
        OSError: the file cannot be written.
    """
    with new_record(run, {name: word for name, word in record.attrs.items() if isinstance(word, str)}) as file:
        for name in ("round", "agent", "coordinate"):
            add_dimension(file, name, record.read(name).values)
        for name in record.by_round:
            row = record.read(name, slice(0, 1)).values.nbytes
            at_once = 1 << (max(1, CHUNK // max(row, 1)).bit_length() - 1)
            first = record.read(name, slice(0, at_once))
            dataset = add_variable(file, name, first, record.rounds)
            for start in range(at_once, record.rounds, at_once):
                write_rows(dataset, start, record.read(name, slice(start, start + at_once)).values)
        add_dimension(file, "horizon", horizons)
        for name, variable in variables.items():
            add_variable(file, name, variable)


def add_dimension(file: h5py.File, name: str, values: NDArray[Any]) -> None:
    """Create a dimension of the record, with a variable that holds the labels along the dimension."""
    dataset = file.create_dataset(name, data=values)
    dataset.make_scale(name)
    write_words(dataset.id, {**long_names.attributes(name, "", ""), DIMS: name})


def add_variable(file: h5py.File, name: str, variable: Variable, rounds: int = 0) -> h5d.DatasetID:
    """Create a variable of the record, write its values, and return its HDF5 dataset.

    If a dimension is missing, the dimension is created with the labels 0, 1, ...

    Args:
        file: the record.
        name: the name of the variable.
        variable: all values, or the values of the first rounds.
        rounds: the number of all rounds, if `variable` may have only the first rounds; the caller writes further
            rounds. 0 means that `variable` has all values.
    """
    # h5py's low-level interface takes a fifth of the time of the usual functions.
    dims, values, label, unit = variable
    for dimension, size in zip(dims, values.shape, strict=True):
        if not file.id.links.exists(dimension.encode()):
            add_dimension(file, dimension, np.arange(size))
    shape = (rounds or len(values), *values.shape[1:])
    storage = h5p.create(h5p.DATASET_CREATE)
    storage.set_obj_track_times(False)  # equal runs have equal records
    if rounds:
        storage.set_chunk(values.shape)
        # Like HDF5's shuffle filter: the first bytes of all numbers come first, then the second bytes, and so on.
        shuffled = np.ascontiguousarray(values.view(np.uint8).reshape(-1, 8).T).tobytes()
        if len(zlib.compress(shuffled, 1)) <= WORTH * len(shuffled):  # the first rounds become smaller
            storage.set_shuffle()
            storage.set_deflate(1)
        else:
            storage.set_fletcher32()
    dataset = h5d.create(file.id, name.encode(), h5t.py_create(values.dtype), h5s.create_simple(shape), storage)
    write_rows(dataset, 0, values)
    write_words(dataset, {**long_names.attributes(name, label, unit), DIMS: " ".join(dims)})
    for axis, dimension in enumerate(dims):
        h5ds.attach_scale(dataset, h5d.open(file.id, dimension.encode()), axis)
    return dataset


def write_rows(dataset: h5d.DatasetID, start: int, values: NDArray[Any]) -> None:
    """Write values into a variable, beginning at the entry `start` of its first axis."""
    space = dataset.get_space()
    space.select_hyperslab((start, *(0 for _ in values.shape[1:])), values.shape)
    dataset.write(h5s.create_simple(values.shape), space, np.ascontiguousarray(values))


def write_words(of: h5d.DatasetID | h5g.GroupID, words: Mapping[str, str]) -> None:
    """Write text attributes of a dataset or file.

    Each text has a fixed length, because HDF5 has no checksums for texts of variable length.
    """
    for name, word in words.items():
        encoded = word.encode()
        kind = h5t.py_create(h5py.string_dtype("utf-8", max(len(encoded), 1)), logical=True)
        h5a.create(of, name.encode(), kind, h5s.create(h5s.SCALAR)).write(np.array(encoded), mtype=kind)
