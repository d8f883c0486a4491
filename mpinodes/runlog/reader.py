"""Read the rounds of a run from `record.h5`, or from `rounds.log` if there is no record.h5 yet."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from types import EllipsisType
from typing import TYPE_CHECKING, Any, Self, cast

import h5py
import numpy as np
from numpy.typing import NDArray

from mpinodes.core.errors import BadInput
from mpinodes.core.events import Events, Layout
from mpinodes.runlog import long_names
from mpinodes.runlog.log import NAME, LogReader, Unreadable, Variable
from mpinodes.runlog.versions import VERSION, require_version

if TYPE_CHECKING:
    import xarray

# HDF5 may loop forever on damaged data without a checksum, such as the names of dimension scales. Therefore the names
# of dimensions are read from the attribute `DIMS`.
RECORD, DIMS = "record.h5", "dims"
CACHED = 1 << 18  # size of HDF5's chunk cache for each variable, in bytes


class _Living:
    """Read `rounds.log` for `Reader`, if there is no record.h5.

    Attributes:
        attrs: the attributes of the record.
        dims: the dimensions of each variable and coordinate, by name.
        rounds: the number of rounds.
    """

    def __init__(self, path: Path) -> None:
        self._log = log = LogReader(path)
        self.attrs, self.rounds = log.attrs | {"version": VERSION}, log.rounds
        self.dims = {name: (name,) for name in ("round", *log.sizes)} | {n: of.dims for n, of in log.columns.items()}
        self.close = log.close

    def read(self, name: str, rounds: slice) -> Variable:
        some = range(self.rounds)[rounds]
        if name == "round":
            variable = Variable((name,), np.arange(some.start + 1, some.stop + 1))
        elif name in self._log.sizes:
            variable = Variable((name,), np.arange(self._log.sizes[name]))
        else:
            variable = self._log.read(name, some.start, some.stop)
        words = long_names.attributes(name, variable.label, variable.unit)
        return variable._replace(label=words["long_name"], unit=words["units"])


class _Finished:
    """Read `record.h5` for `Reader`, after the run has ended.

    Attributes:
        attrs: the attributes of the record.
        dims: the dimensions of each variable and coordinate, by name.
        rounds: the number of rounds.
    """

    def __init__(self, path: Path) -> None:
        self._file = h5py.File(path, "r", locking=False, rdcc_nbytes=CACHED)
        self.attrs = {name: _plain(value) for name, value in self._file.attrs.items()}
        require_version(self.attrs.get("version"), str(path.parent))
        self.dims = {name: tuple(_plain(dataset.attrs[DIMS]).split()) for name, dataset in self._file.items()}
        by_round = [name for name, dims in self.dims.items() if dims[0] == "round"]
        self.rounds = min(len(self._file[name]) for name in ("round", *by_round))

    def read(self, name: str, rounds: slice) -> Variable:
        dataset, dims = self._file[name], self.dims[name]
        some = range(self.rounds)[rounds] if dims[0] == "round" else range(len(dataset))
        if dataset.dtype.kind not in "fi" or dataset.dtype.itemsize != 8 or dataset.ndim != len(dims):
            raise ValueError(f"{dataset.name} is no array of numbers")
        label, unit = (_plain(dataset.attrs.get(key, b"")) for key in ("long_name", "units"))
        return Variable(dims, dataset[some.start : some.stop], label, unit)

    def close(self) -> None:
        with suppress(Exception):  # closing a damaged file may fail
            self._file.close()


class Reader:
    """Read the record of a run: the rounds so far, and the results if the run has ended.

    Attributes:
        path: the file that is read: record.h5 if it exists, otherwise rounds.log.
        attrs: the attributes of the record, texts and numbers, by name.
        names: the names of all variables and coordinates.
        by_round: the names of the variables whose first axis is the round.
        rounds: the number of rounds.

    Raises:
        FileNotFoundError: there is no record.
        Unreadable: the record is damaged.
        BadInput: the record has another format version.
    """

    def __init__(self, run: Path) -> None:
        self.path = next((run / name for name in (RECORD, NAME) if (run / name).exists()), run / RECORD)
        with self._reading():
            self._source = _Living(self.path) if self.path.name == NAME else _Finished(self.path)
        self.attrs, self.rounds, self._dims = self._source.attrs, self._source.rounds, self._source.dims
        self.names = tuple(self._dims)
        self.by_round = tuple(name for name in self.names if name != "round" and self._dims[name][0] == "round")

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Turn errors of the `with` block into `Unreadable`, with a message of one line.

        `BadInput` and `FileNotFoundError` are raised unchanged.
        """
        try:
            yield
        except (BadInput, FileNotFoundError):
            raise
        except Exception as error:
            reason = f"{type(error).__name__}: {error}".splitlines()[0][:200]
            raise Unreadable(f"{self.path}: damaged, or not the record of a run ({reason})") from error

    def __contains__(self, name: str) -> bool:
        return name in self._dims

    def read(self, name: str, rounds: slice = slice(None)) -> Variable:
        """Return a variable of the record: its values, the names of its axes, its label and its unit.

        Args:
            name: the name of the variable.
            rounds: the rounds to read, counted from 0, if the first axis of the variable is the round.

        Raises:
            KeyError: there is no variable of that name.
            Unreadable: the record is damaged.
        """
        if name not in self._dims:
            raise KeyError(name)
        with self._reading():
            return self._source.read(name, rounds)

    def events(self, layout: Layout) -> Events:
        """Return the events of all rounds, from which the privacy loss of the run is computed.

        An event is the record of one release for privacy accounting. The events are read from the file when they are
        used.

        Args:
            layout: the fields of an event.
        """
        agents = len(self.read("agent").values)

        @lru_cache(maxsize=1)
        def read(first: int, last: int) -> NDArray[Any]:
            def column(name: str) -> NDArray[Any] | None:
                return self.read(name, slice(first, last)).values if name in self else None

            return Events.of_columns(layout, (last - first, agents), column).data

        return Events(cast(Any, Rows(read, (self.rounds, agents), layout.record)), layout.dimension)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._source.close()


@dataclass(frozen=True)
class Rows:
    """Read recorded events like an array: indexing reads the events from the file.

    An event is the record of one release for privacy accounting. The axes are (rounds, agents), or (rounds,) for the
    events of one agent.

    Attributes:
        read: a function that returns the events of all agents in the rounds `first` + 1 to `last`.
        shape, dtype: the shape and the type of the array.
        agent: the agent whose events the array has; `...` (Ellipsis): the array has the events of all agents.
    """

    read: Callable[[int, int], NDArray[Any]]
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    agent: int | EllipsisType = ...

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: Any) -> Any:
        """Return the events of consecutive rounds for an index `first:last`.

        For an index `:, agent`, return an object that reads the events of this agent.
        """
        if isinstance(index, tuple):
            return replace(self, agent=index[1], shape=self.shape[:1])
        first, last, _ = index.indices(len(self))
        return self.read(first, last)[:, self.agent]


def is_recorded(run: Path) -> bool:
    """Return whether a run directory has record.h5 or rounds.log."""
    return (run / RECORD).exists() or (run / NAME).exists()


def _plain(value: Any) -> Any:
    """Convert a text or number that HDF5 returned to Python's str, int or float."""
    return value.decode() if isinstance(value, bytes) else value.item() if isinstance(value, np.generic) else value


def load(run: Path) -> xarray.Dataset:
    """Return the record of a run as an `xarray.Dataset` in memory.

    If the run has not ended, the record has the rounds so far.

    Raises:
        FileNotFoundError: there is no record.
        BadInput: the record is damaged, or has another format version.
    """
    import xarray

    with Reader(run) as record:
        attrs, arrays = dict(record.attrs), {name: record.read(name) for name in record.names}
    more = attrs.pop("coordinates", "").split()  # NetCDF lists further coordinates in this attribute
    variables = {name: (v.dims, v.values, {"long_name": v.label, "units": v.unit}) for name, v in arrays.items()}
    coordinates = {name: variables.pop(name) for name, v in arrays.items() if v.dims == (name,) or name in more}
    return xarray.Dataset(variables, coordinates, attrs)
