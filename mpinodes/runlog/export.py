"""`record.h5`, written once: netCDF-4 by plain h5py, which xarray opens.

Every dimension is a dimension scale with a coordinate.
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
from numpy.typing import NDArray

from mpinodes.runlog import long_names
from mpinodes.runlog.directories import draft_of
from mpinodes.runlog.layout_version import VERSION
from mpinodes.runlog.log import Variable, Variables
from mpinodes.runlog.reader import DIMS, RECORD, Reader

CHUNK = 1 << 17  # bytes
WORTH = 0.7  # of its size, that compressing has to leave at most


class _Draft(io.FileIO):
    """A file to be made by HDF5, which cannot bear an operation that fails.

    Attributes:
        failure: the first error; nothing is written after it.
    """

    failure: OSError | None = None

    def write(self, data: Any) -> int:
        """Write all of it, unless a write failed."""
        rest = view = memoryview(data).cast("B")
        try:
            while rest and not self.failure:
                rest = rest[super().write(rest) :]
        except OSError as error:
            self.failure = error
        return len(view)

    def truncate(self, size: int | None = None) -> int:
        """Cut the file off or make it longer, unless a write failed."""
        try:
            return size or 0 if self.failure else super().truncate(size)
        except OSError as error:
            self.failure = error
            return size or 0


@contextmanager
def new_record(run: Path, words: Mapping[str, str]) -> Iterator[h5py.File]:
    """Make `record.h5` anew, whole or not at all.

    Args:
        run: the directory.
        words: attributes of the record.

    Raises:
        OSError: it cannot be written.
    """
    path = run / RECORD
    draft = draft_of(path)
    try:
        with _Draft(draft, "w+") as disk:
            with h5py.File(disk, "w", track_order=True, rdcc_nbytes=0) as file:
                write_words(file, words)
                file.attrs["version"] = VERSION
                yield file
            if failure := disk.failure:
                raise OSError(failure.errno, os.strerror(failure.errno or 0), str(path))
        os.replace(draft, path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def export(record: Reader, run: Path, horizons: NDArray[np.int64], variables: Variables) -> None:
    """Write all rounds of a record, and what is known at the end.

    Args:
        record: the rounds, which are read some at a time.
        run: the directory.
        horizons: the rounds at which the run is judged.
        variables: what is known at the end.

    Raises:
        OSError: it cannot be written.
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
                dataset[start : start + at_once] = record.read(name, slice(start, start + at_once)).values
        add_dimension(file, "horizon", horizons)
        for name, variable in variables.items():
            add_variable(file, name, variable)


def add_dimension(file: h5py.File, name: str, values: NDArray[Any]) -> None:
    """Make a dimension and its coordinate."""
    dataset = file.create_dataset(name, data=values)
    dataset.make_scale(name)
    write_words(dataset, {**long_names.attributes(name, "", ""), DIMS: name})


def add_variable(file: h5py.File, name: str, variable: Variable, rounds: int = 0) -> Any:
    """Make a variable; dimensions that are not there yet count from 0.

    Args:
        file: of the record.
        name: the variable's.
        variable: its values.
        rounds: the length of its first axis if the values are but the first piece; the rest is left to be written.

    Returns:
        The dataset.
    """
    dims, values, label, unit = variable
    for dimension, size in zip(dims, values.shape, strict=True):
        if dimension not in file:
            add_dimension(file, dimension, np.arange(size))
    shape = (rounds or len(values), *values.shape[1:])
    storage: dict[str, Any] = {}
    if rounds:  # compressed if that makes the first piece smaller
        # As HDF5 does it: the first bytes of all numbers stand beside each other, and so on.
        shuffled = np.ascontiguousarray(values.view(np.uint8).reshape(-1, 8).T).tobytes()
        storage = {"chunks": values.shape, "fletcher32": True}
        if len(zlib.compress(shuffled, 1)) <= WORTH * len(shuffled):
            storage = {"chunks": values.shape, "shuffle": True, "compression": "gzip", "compression_opts": 1}
    dataset = file.create_dataset(name, shape, values.dtype, **storage)
    dataset[: len(values)] = values
    write_words(dataset, {**long_names.attributes(name, label, unit), DIMS: " ".join(dims)})
    for axis, dimension in enumerate(dims):
        dataset.dims[axis].attach_scale(file[dimension])
    return dataset


def write_words(of: Any, words: Mapping[str, str]) -> None:
    """Write attributes of a dataset or file: of fixed length, since those are within what HDF5 has checksums of."""
    for name, word in words.items():
        encoded = word.encode()
        of.attrs.create(name, np.array(encoded, h5py.string_dtype("utf-8", max(len(encoded), 1))))
