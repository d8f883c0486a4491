"""Write `record.h5`, the file with the results of a run, when the run has ended.

The file has the format NetCDF-4 and is written by h5py; xarray can open the file. Every dimension has a coordinate
variable, which holds the labels along the dimension.
"""

from __future__ import annotations

import io
import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np
from h5py import h5a, h5d, h5ds, h5f, h5g, h5p, h5s, h5t
from numpy.typing import NDArray

from mpinodes.core.cached import cached
from mpinodes.runlog import long_names
from mpinodes.runlog.directories import draft_of
from mpinodes.runlog.log import Variable, Variables
from mpinodes.runlog.reader import DIMS, RECORD, Reader
from mpinodes.runlog.versions import VERSION

CHUNK = 1 << 17  # largest size of an HDF5 chunk, in bytes
IN_MEMORY = 1 << 24  # largest size of a record that is made in memory, in bytes
TO_CHANGE = 1  # of `h5f.open_file_image`: the file may be changed
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

    def raise_failure(self) -> None:
        """Raise the stored error, if there is one."""
        if self.failure:
            path = Path(os.fsdecode(self.name)).with_suffix("")
            raise OSError(self.failure.errno, os.strerror(self.failure.errno or 0), str(path))


class Frame(NamedTuple):
    """Describe a variable of the record, without its values.

    Attributes:
        name: the name of the variable.
        dims: the names of its axes.
        shape: the shape of its values.
        kind: the type of its values, for example "float64".
        label, unit: the attributes `long_name` and `units`; empty texts mean the defaults for `name`.
        chunk: the shape of an HDF5 chunk; () if the variable has no chunks.
        is_compressed: whether the chunks are compressed. Other chunks have a checksum.
    """

    name: str
    dims: tuple[str, ...]
    shape: tuple[int, ...]
    kind: str
    label: str
    unit: str
    chunk: tuple[int, ...] = ()
    is_compressed: bool = False

    @classmethod
    def of(cls, name: str, variable: Variable, rounds: int = 0) -> Frame:
        """Return the frame of a variable of the record.

        Args:
            name: the name of the variable.
            variable: all values, or the values of the first rounds.
            rounds: the number of all rounds, if `variable` has only the first rounds; 0 if it has all values.
        """
        dims, values, label, unit = variable
        frame = cls(name, dims, values.shape, values.dtype.name, label, unit)
        if not rounds:
            return frame
        # Like HDF5's shuffle filter: the first bytes of all numbers come first, then the second bytes, and so on.
        shuffled = np.ascontiguousarray(values.view(np.uint8).reshape(-1, 8).T).tobytes()
        is_compressed = len(zlib.compress(shuffled, 1)) <= WORTH * len(shuffled)  # the first rounds become smaller
        return frame._replace(shape=(rounds, *values.shape[1:]), chunk=values.shape, is_compressed=is_compressed)


def _empty_record(labels: Sequence[tuple[str, NDArray[Any]]], frames: Sequence[Frame]) -> bytes:
    """Return the bytes of a record with dimensions and with variables that have no values yet.

    Args:
        labels: pairs (name of a dimension, labels along the dimension).
        frames: the variables.
    """
    with h5py.File("record", "w", track_order=True, driver="core", backing_store=False) as file:
        _define(file, labels, frames)
        file.flush()
        return bytes(file.id.get_file_image())


def _define(file: h5py.File, labels: Sequence[tuple[str, NDArray[Any]]], frames: Sequence[Frame]) -> None:
    """Add dimensions and variables without values, which are the arguments of `_empty_record`, to a record."""
    for name, values in labels:
        add_dimension(file, name, values)
    for frame in frames:
        _add_empty(file, frame)


@contextmanager
def new_record(run: Path, words: Mapping[str, str], empty: bytes = b"") -> Iterator[h5py.File]:
    """Open a new `record.h5` for writing; the complete file appears when the context ends.

    If an error occurs in the context, no new file appears.

    Args:
        run: the run directory.
        words: the attributes of the record, by name; the attribute `version` is added.
        empty: the bytes of an HDF5 file with which the record begins; the record is then made in memory, which is
            faster. If it is empty, the record begins without variables.

    Raises:
        OSError: the file cannot be written.
    """
    path = run / RECORD
    draft = draft_of(path)
    try:
        with _Draft(draft, "w+") as disk:
            opened = h5f.open_file_image(empty, TO_CHANGE) if empty else disk
            with h5py.File(opened, "w", track_order=True, rdcc_nbytes=0) as file:
                write_words(file.id, words)
                file.attrs["version"] = VERSION
                yield file
                if empty:
                    file.flush()
                    disk.write(file.id.get_file_image())
            disk.raise_failure()
        os.replace(draft, path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def export(record: Reader, run: Path, horizons: NDArray[np.int64], variables: Variables) -> None:
    """Write `record.h5`: the variables of all recorded rounds, and the variables that are known only at the end.

    Most of the time is needed to define the variables, not to write their values. Therefore a process that does many
    runs defines the variables of equal shapes once.

    Args:
        record: the reader of the recorded rounds, whose text attributes are copied to the new `record.h5`.
        run: the run directory.
        horizons: the rounds at which results, such as regret, are measured, as a one-dimensional array.
        variables: the variables that are known only at the end, such as regret and privacy loss.

    Raises:
        OSError: the file cannot be written.
    """

    def first_rounds(name: str) -> Variable:
        row = record.read(name, slice(0, 1)).values.nbytes
        return record.read(name, slice(0, 1 << (max(1, CHUNK // max(row, 1)).bit_length() - 1)))

    first = {name: first_rounds(name) for name in record.by_round}
    labels = [(name, record.read(name).values) for name in ("round", "agent", "coordinate")]
    frames = [Frame.of(name, variable, record.rounds) for name, variable in first.items()]
    frames += [Frame.of(name, variable) for name, variable in variables.items()]
    of = [*labels, ("horizon", horizons)], frames
    is_small = sum(8 * prod(frame.shape) for frame in frames) <= IN_MEMORY
    empty = cached(partial(_empty_record, *of), lambda: (_empty_record, of)) if is_small else b""
    texts = {name: word for name, word in record.attrs.items() if isinstance(word, str)}
    with new_record(run, texts, empty) as file:
        if not is_small:
            _define(file, *of)
        for name, variable in (first | dict(variables)).items():
            dataset, at_once = h5d.open(file.id, name.encode()), len(variable.values)
            write_rows(dataset, 0, variable.values)
            for start in range(at_once, record.rounds if name in first else 0, at_once):
                write_rows(dataset, start, record.read(name, slice(start, start + at_once)).values)


def add_dimension(file: h5py.File, name: str, values: NDArray[Any]) -> None:
    """Create a dimension of the record, with a variable that holds the labels along the dimension."""
    dataset = file.create_dataset(name, data=values)
    dataset.make_scale(name)
    write_words(dataset.id, {**long_names.attributes(name, "", ""), DIMS: name})


def add_variable(file: h5py.File, name: str, variable: Variable) -> None:
    """Create a variable of the record, and write its values.

    If a dimension is missing, the dimension is created with the labels 0, 1, ...
    """
    write_rows(_add_empty(file, Frame.of(name, variable)), 0, variable.values)


def _add_empty(file: h5py.File, frame: Frame) -> h5d.DatasetID:
    """Create a variable of the record without values, and return its HDF5 dataset.

    The functions of h5py's low-level interface take a fifth of the time of the usual ones.
    """
    for dimension, size in zip(frame.dims, frame.shape, strict=True):
        if not file.id.links.exists(dimension.encode()):
            add_dimension(file, dimension, np.arange(size))
    storage = h5p.create(h5p.DATASET_CREATE)
    storage.set_obj_track_times(False)  # equal runs have equal records
    if frame.chunk:
        storage.set_chunk(frame.chunk)
        if frame.is_compressed:
            storage.set_shuffle()
            storage.set_deflate(1)
        else:
            storage.set_fletcher32()
    kind, space = h5t.py_create(np.dtype(frame.kind)), h5s.create_simple(frame.shape)
    dataset = h5d.create(file.id, frame.name.encode(), kind, space, storage)
    write_words(dataset, {**long_names.attributes(frame.name, frame.label, frame.unit), DIMS: " ".join(frame.dims)})
    for axis, dimension in enumerate(frame.dims):
        h5ds.attach_scale(dataset, h5d.open(file.id, dimension.encode()), axis)
    return dataset


def write_rows(dataset: h5d.DatasetID, start: int, values: NDArray[Any]) -> None:
    """Write values into a variable, beginning at the entry `start` of its first axis."""
    own = into = h5s.ALL
    if values.shape != dataset.shape:
        own, into = h5s.create_simple(values.shape), dataset.get_space()
        into.select_hyperslab((start, *(0 for _ in values.shape[1:])), values.shape)
    dataset.write(own, into, np.ascontiguousarray(values))


def write_words(of: h5d.DatasetID | h5g.GroupID, words: Mapping[str, str]) -> None:
    """Write text attributes of a dataset or file.

    Each text has a fixed length, because HDF5 has no checksums for texts of variable length.
    """
    for name, word in words.items():
        encoded = word.encode()
        kind = h5t.py_create(h5py.string_dtype("utf-8", max(len(encoded), 1)), logical=True)
        h5a.create(of, name.encode(), kind, h5s.create(h5s.SCALAR)).write(np.array(encoded), mtype=kind)
