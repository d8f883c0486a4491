"""`record.h5`, read: of a run that is over, of one that was killed, and of one that still writes it.

A run writes for some milliseconds a second, and its file is whole in between. It holds the file's lock (flock) while it
writes; who reads holds it too, and for as long as that the run keeps its rows to itself, up to `PATIENCE`.

A damaged file may ask for anything: no array is made before its size was compared with the file's. And HDF5 may turn in
circles: what netCDF keeps where there are no checksums (words of any length, the names of dimensions) is not read here.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import h5py
import numpy as np
from numpy.typing import NDArray

from mpinodes.core.errors import BadInput
from mpinodes.core.events import Events, Layout, Unread
from mpinodes.runlog.atomic import Pages, log_of
from mpinodes.runlog.layout_version import require_version

if TYPE_CHECKING:
    import xarray

RECORD, DIMS = "record.h5", "dims"
PATIENCE = 10.0  # seconds that readers and the run wait for each other
PACKED_AT_MOST = 1100  # times, by deflate
CHUNK_AT_MOST = 1 << 20  # bytes of a chunk of more than one round
CACHED = 1 << 18  # bytes of chunks of a variable, where HDF5 would keep megabytes of each
TRIES = 5  # to read all of a record while its run goes on


class Variable(NamedTuple):
    """An array of record.h5.

    Attributes:
        dims: of its axes.
        values: (...) of that many axes.
        label, unit: what people call it; "": as `long_names` has it.
    """

    dims: tuple[str, ...]
    values: NDArray[Any]
    label: str = ""
    unit: str = ""


class Unreadable(BadInput):
    """A record is damaged."""


class Reader:
    """The record of a run directory: its rounds so far, and what is known at the end if it is over.

    Attributes:
        attrs: of the whole, plain words and numbers.
        names: of its variables and coordinates.
        by_round: of variables that have one entry or more for every round.
        rounds: how many it holds.

    Raises:
        FileNotFoundError: there is none.
        Unreadable: it is damaged.
        BadInput: it is of another version of mpinodes, or its run stands still while it writes.
    """

    def __init__(self, run: Path) -> None:
        self.path = run / RECORD
        self._lock = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            _wait_for(self._lock, self.path)
            self._as_opened = self._state()
            with self._reading():
                log = log_of(self._lock)
                whole = Pages(self._lock, log) if log else self.path
                self._file = h5py.File(whole, "r", locking=False, rdcc_nbytes=CACHED)
                self.attrs = {name: _plain(value) for name, value in self._file.attrs.items()}
            require_version(self.attrs.get("version"), str(run))
            with self._reading():
                self._dims = {name: dims_of(dataset) for name, dataset in self._file.items()}
                self.names = tuple(self._dims)
                self.by_round = tuple(name for name in self.names if name != "round" and self._dims[name][0] == "round")
                self.rounds = min(len(self._file[name]) for name in ("round", *self.by_round))
        except BaseException:
            os.close(self._lock)
            raise

    def _state(self) -> tuple[int, int]:
        status = os.fstat(self._lock)
        return status.st_mtime_ns, status.st_size

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """HDF5 meets damage in a dozen ways."""
        try:
            yield
        except Exception as error:
            why = f"{type(error).__name__}: {error}".splitlines()[0][:200]
            raise Unreadable(f"{self.path}: damaged, or not the record of a run ({why})") from error

    def __contains__(self, name: str) -> bool:
        return name in self._dims

    def read(self, name: str, rounds: slice = slice(None)) -> Variable:
        """A variable, whole or, where it is by round, some rounds of it.

        Raises:
            KeyError: there is none of that name.
            BadInput: it is damaged.
        """
        dims = self._dims[name]
        with self._reading():
            dataset = self._file[name]
            by_round = dims[0] == "round"
            some = range(self.rounds)[rounds] if by_round else range(len(dataset))
            self._require_room(dataset, dims, len(some))
            label, unit = (_plain(dataset.attrs.get(key, b"")) for key in ("long_name", "units"))
            return Variable(dims, dataset[some.start : some.stop], label, unit)

    def _require_room(self, dataset: Any, dims: tuple[str, ...], rows: int) -> None:
        """Refuse an array that the file is too small to hold."""
        if dataset.dtype.kind not in "fi" or dataset.dtype.itemsize != 8 or dataset.ndim != len(dims):
            raise ValueError(f"{dataset.name} is no array of numbers")
        row = 8 * int(np.prod(dataset.shape[1:], dtype=object))
        stored, inflated = dataset.id.get_storage_size(), PACKED_AT_MOST if dataset.compression else 1
        chunk = 8 * int(np.prod(dataset.chunks, dtype=object)) if dataset.chunks else 0
        if stored > self._as_opened[1] or rows * row > inflated * stored or chunk > max(row, CHUNK_AT_MOST):
            raise ValueError(f"{dataset.name} claims {rows * row:.3g} bytes, and the file has {self._as_opened[1]:.3g}")

    def stretches(self, rounds: int, size: int) -> Iterator[slice]:
        """The first rounds, some at a time: as many as take `size` bytes."""
        row = sum(8 * int(np.prod(self._file[name].shape[1:])) for name in self.by_round)
        at_once = max(1, size // max(row, 1))
        for start in range(0, rounds, at_once):
            yield slice(start, min(start + at_once, rounds))

    def is_as_opened(self) -> bool:
        """Whether the run has not written since: what was read is of one moment."""
        return self._state() == self._as_opened

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(Exception):  # of a damaged one
            self._file.close()
        os.close(self._lock)


def _wait_for(lock: int, path: Path) -> None:
    """Share the file's lock; where its file system has none, go without.

    Raises:
        BadInput: the run holds it, and does not go on.
    """
    end = time.monotonic() + PATIENCE
    while True:
        try:
            return fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > end:
                raise BadInput(f"{path}: its run is writing to it, and has not ended in {PATIENCE:g} s") from None
            time.sleep(0.002)
        except OSError:
            return None


def dims_of(dataset: Any) -> tuple[str, ...]:
    """The names of its dimensions."""
    return tuple(_plain(dataset.attrs[DIMS]).split())


def write_words(of: Any, words: Mapping[str, str]) -> None:
    """Attributes of a dataset or file: of fixed length, since those are within what HDF5 has checksums of."""
    for name, word in words.items():
        said = word.encode()
        of.attrs.create(name, np.array(said, h5py.string_dtype("utf-8", max(len(said), 1))))


def _plain(value: Any) -> Any:
    """A word or a number as Python has it."""
    return value.decode() if isinstance(value, bytes) else value.item() if isinstance(value, np.generic) else value


def read_all(run: Path) -> tuple[dict[str, Any], dict[str, Variable]]:
    """Attributes and variables of a record, all of one moment.

    Raises:
        FileNotFoundError, BadInput: as of a `Reader`.
    """
    for _ in range(TRIES):
        with Reader(run) as record:
            found = {name: record.read(name) for name in record.names}
            if record.is_as_opened():
                return record.attrs, found
    raise BadInput(f"{run / RECORD}: its run writes faster than it can be read: read it when the run is over")


class _Columns(Mapping[str, NDArray[Any]]):
    """Some rounds of a record's variables, each read when it is asked for: all at once would be in memory twice."""

    def __init__(self, record: Reader, rounds: slice) -> None:
        self._record, self._rounds = record, rounds

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self._record.read(name, self._rounds).values

    def __contains__(self, name: object) -> bool:
        return name in self._record.names

    def __iter__(self) -> Iterator[str]:
        return iter(self._record.names)

    def __len__(self) -> int:
        return len(self._record.names)


def events_in(run: Path, layout: Layout, rounds: int | None = None) -> Unread:
    """The events of so many rounds that a run has recorded, one or more; None: of all."""
    with Reader(run) as record:
        rounds = record.rounds if rounds is None else rounds

    def read(first: int, last: int) -> Events:
        with Reader(run) as record:
            return Events.of_columns(layout, _Columns(record, slice(first, last)))

    return Unread(read, rounds)


def load(run: Path) -> xarray.Dataset:
    """The record of a run directory, read into memory; of a run that goes on, its rounds so far.

    Raises:
        FileNotFoundError, BadInput: as of a `Reader`.
    """
    import xarray

    attrs, found = read_all(run)
    more = attrs.pop("coordinates", "").split()  # as netCDF has it
    variables = {name: (v.dims, v.values, {"long_name": v.label, "units": v.unit}) for name, v in found.items()}
    coordinates = {name: variables.pop(name) for name, v in found.items() if v.dims == (name,) or name in more}
    return xarray.Dataset(variables, coordinates, attrs)
