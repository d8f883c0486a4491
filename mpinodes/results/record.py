"""The record of a run: one HDF5 file that xarray opens, appended and flushed as the run goes on.

netCDF-4 convention by plain h5py: every dimension is a dimension scale with a coordinate. A killed run loses
at most its last second. An open HDF5 file cannot be read from outside; `progress.jsonl` is for that.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np
from numpy.typing import NDArray

from mpinodes import __version__
from mpinodes.core.errors import BadInput
from mpinodes.core.events import Events, Layout
from mpinodes.core.experiment import Experiment
from mpinodes.results import long_names
from mpinodes.results.versions import VERSION

RUNS = "runs"
DRAWN_ROUNDS = 8  # rounds of the topology kept for drawing
SECONDS_BETWEEN_WRITES = 1.0  # HDF5 takes as long for ten rounds of a variable as for a thousand
BYTES_AT_ONCE = 4_000_000


def make_directory(experiment: Experiment) -> Path:
    """Make the run directory: `output.dir`, or runs/<name>-<the next free number>.

    Raises:
        BadInput: it cannot be written, or it is not empty.
    """
    try:
        if experiment.output is None:
            return _numbered(experiment.name)
        path = Path(experiment.output.dir)
        path.mkdir(parents=True, exist_ok=True)
        if any(path.iterdir()):
            raise BadInput(
                f"output.dir = {str(path)!r}: not empty; a run never overwrites: choose another, or delete it"
            )
        (path / "log.txt").touch()
    except BadInput:
        raise
    except (OSError, ValueError) as error:
        wanted = experiment.output.dir if experiment.output else "runs"
        why = getattr(error, "strerror", None) or error
        raise BadInput(f"output.dir: cannot write to {wanted!r}: {why}; set output.dir to a place of yours") from error
    return path


def unmake_directory(path: Path) -> None:
    """Take away a run directory that was made for nothing, and `runs` if nothing else is in it."""
    shutil.rmtree(path, ignore_errors=True)
    if path.parent.name == RUNS:
        with suppress(OSError):
            path.parent.rmdir()


def _numbered(name: str) -> Path:
    runs = Path(RUNS)
    runs.mkdir(exist_ok=True)
    number = 1
    while True:
        path = runs / f"{name}-{number:03d}"
        try:
            path.mkdir()
        except FileExistsError:
            number += 1
            continue
        (path / "log.txt").touch()
        return path


@lru_cache
def versions(mpi: str) -> dict[str, str]:
    """What the run was made with."""
    found = {"mpinodes": __version__, "python": platform.python_version(), "numpy": np.__version__, "mpi": mpi}
    return found | {"host": platform.node()} | ({"commit": commit} if (commit := _commit()) else {})


def _commit() -> str:
    """The git commit of the checkout that the package runs from; empty where it does not."""
    checkout = Path(__file__).parents[2]
    if not (checkout / ".git").exists():
        return ""
    try:
        words = ["git", "-C", str(checkout), "describe", "--always", "--dirty"]
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def fresh_file(path: Path) -> h5py.File:
    """A new HDF5 file whose variables keep the order they are made in."""
    return h5py.File(path, "w", track_order=True)


class Variable(NamedTuple):
    """An array for record.h5.

    Attributes:
        dims: of its axes.
        values: (...) of that many axes.
        label, unit: what people call it; "": as `long_names` has it.
    """

    dims: tuple[str, ...]
    values: NDArray[Any]
    label: str = ""
    unit: str = ""


Variables = Mapping[str, Variable]


class Record:
    """`record.h5`, open for appending."""

    def __init__(self, path: Path, agents: int, dimension: int, attributes: dict[str, Any]) -> None:
        self._file = fresh_file(path)
        self._file.attrs.update({k: v if isinstance(v, str) else json.dumps(v) for k, v in attributes.items()})
        self._file.attrs["version"] = VERSION
        self._rounds = 0
        self._waiting: list[Variables] = []
        self._bytes, self._written = 0, time.monotonic()
        # Looking a dataset up by its name costs as much as a small write to it.
        self._growing = {"round": self._dimension("round", 0)}
        self._dimension("agent", agents)
        self._dimension("coordinate", dimension)
        self._file.flush()

    @classmethod
    def reopen(cls, path: Path, rounds: int, attributes: dict[str, Any]) -> Record:
        """A record as it was after so many rounds, to go on from there; it is written anew beside the old one.

        Raises:
            BadInput: it holds fewer.
        """
        draft = path.with_name(path.name + ".part")
        with h5py.File(path) as old:
            if len(old["round"]) < rounds:
                raise BadInput(f"{path}: holds {len(old['round'])} rounds, and is to go on after round {rounds}")
            record = cls(draft, len(old["agent"]), len(old["coordinate"]), attributes)
            growing = {name: found for name, found in old.items() if name != "round" and _dims(found)[:1] == ("round",)}
            at_once = max(1, BYTES_AT_ONCE // sum([8 * int(np.prod(d.shape[1:])) for d in growing.values()] or [8]))
            for start in range(0, rounds, at_once):
                some = slice(start, min(start + at_once, rounds))
                record.append({name: _variable_of(found, some) for name, found in growing.items()})
                record.write()
        os.replace(draft, path)
        return record

    @property
    def rounds(self) -> int:
        """How many are on file."""
        return self._rounds

    def _dimension(self, name: str, size: int) -> Any:
        """A dimension whose coordinate counts from 0; that of rounds grows."""
        unlimited = name == "round"
        dataset = self._file.create_dataset(
            name,
            data=np.arange(size),
            maxshape=(None,) if unlimited else (size,),
            chunks=(1024,) if unlimited else None,
        )
        dataset.make_scale(name)
        dataset.attrs.update(long_names.attributes(name, "", ""))
        return dataset

    def _variable(self, name: str, variable: Variable) -> None:
        """Make it, whole, or empty where it is by round."""
        dims, values, label, unit = variable
        unlimited, shape = dims[0] == "round", values.shape[1:]
        for dimension, size in zip(dims, values.shape, strict=True):
            if dimension not in self._file:
                self._dimension(dimension, size)
        dataset = self._file.create_dataset(
            name, (0, *shape) if unlimited else values.shape, np.float64, data=None if unlimited else values,
            fillvalue=np.nan, maxshape=(None, *shape) if unlimited else None,
            chunks=(max(1, 16384 // (8 * int(np.prod(shape)))), *shape) if unlimited else None,
        )  # fmt: skip
        dataset.attrs.update(long_names.attributes(name, label, unit))
        for axis, dimension in enumerate(dims):
            dataset.dims[axis].attach_scale(self._file[dimension])
        if unlimited:
            self._growing[name] = dataset

    def append(self, variables: Variables) -> None:
        """Add rounds to variables that are by round, the same ones every time; they are copied."""
        kept = {name: v._replace(values=np.array(v.values, np.float64)) for name, v in variables.items()}
        self._waiting.append(kept)
        self._bytes += sum(v.values.nbytes for v in kept.values())
        if self._bytes > BYTES_AT_ONCE or time.monotonic() - self._written > SECONDS_BETWEEN_WRITES:
            self.write()

    def write(self) -> None:
        """Put on file what was added."""
        if not self._waiting:
            return
        whole = {
            name: v._replace(values=np.concatenate([some[name].values for some in self._waiting]))
            for name, v in self._waiting[0].items()
        }
        self._waiting.clear()
        start, self._rounds = self._rounds, self._rounds + len(next(iter(whole.values())).values)
        whole["round"] = Variable(("round",), np.arange(start + 1, self._rounds + 1))
        for name, variable in whole.items():
            if name not in self._growing:
                self._variable(name, variable)
            dataset = self._growing[name]
            dataset.resize(self._rounds, axis=0)
            dataset[start:] = variable.values
        self._file.flush()
        self._bytes, self._written = 0, time.monotonic()

    def finish(self, horizons: Any, variables: Variables) -> None:
        """Add what is known at the end, and close."""
        self.write()
        self._dimension("horizon", len(horizons))[:] = horizons
        for name, variable in variables.items():
            self._variable(name, variable)
        self._file.close()


def _dims(dataset: Any) -> tuple[str, ...]:
    """The names of its dimensions; none of a coordinate."""
    return tuple(axis.keys()[0] for axis in dataset.dims if axis.keys())


def _variable_of(dataset: Any, rounds: slice) -> Variable:
    """Some rounds of a variable."""
    label, unit = (str(dataset.attrs.get(key, "")) for key in ("long_name", "units"))
    return Variable(_dims(dataset), dataset[rounds], label, unit)


def events_in(run: Path, layout: Layout, rounds: int | None = None) -> Events:
    """The events of so many rounds that a run has recorded; None: of all."""
    with h5py.File(run / "record.h5") as file:
        names = [name for name in file if name.startswith(("event_", "leakage_"))]
        return Events.of_columns(layout, {name: file[name][:rounds] for name in names})


def write_text(path: Path, text: str) -> None:
    """Write a file whole or not at all."""
    draft = path.with_name(path.name + ".part")
    draft.write_text(text, "utf-8")
    os.replace(draft, path)
