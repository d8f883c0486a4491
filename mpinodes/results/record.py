"""The record of a run: one HDF5 file that xarray opens, appended and flushed chunk by chunk.

netCDF-4 convention by plain h5py: every dimension is a dimension scale with a coordinate. A killed run loses
at most the chunk in flight. An open HDF5 file cannot be read from outside; `progress.jsonl` is for that.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from mpinodes import __version__
from mpinodes.core import Event, Vector
from mpinodes.core.errors import BadInput
from mpinodes.core.events import Events, Layout
from mpinodes.core.experiment import Experiment

RUNS = "runs"
DRAWN_ROUNDS = 8  # rounds of the topology kept for drawing


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


class Record:
    """`record.h5`, open for appending."""

    def __init__(
        self,
        path: Path,
        agents: int,
        dimension: int,
        attributes: dict[str, Any],
        decisions: bool = False,
        words: int = 0,
        training_loss: bool = False,
        layout: Layout | None = None,
    ) -> None:
        self._file = fresh_file(path)
        self._file.attrs.update({k: v if isinstance(v, str) else json.dumps(v) for k, v in attributes.items()})
        self._rounds = 0
        # Looking a dataset up by its name costs as much as a small write to it.
        self._growing = {"round": self._dimension("round", 0, np.int64, unlimited=True)}
        self._dimension("agent", agents, np.int64)[:] = np.arange(agents)
        self._dimension("coordinate", dimension, np.int64)[:] = np.arange(dimension)
        self._variable("loss", ("round",))
        self._variable("consensus_error", ("round",))
        assert layout
        self._events = Event._fields if len(layout.vectors) == 1 else ()
        for name in Event._fields:
            self._variable(f"event_{name}", ("round", "agent"))
        self._leakage = tuple(layout.record["leakage"].names or ())
        for name in self._leakage:
            self._variable(f"leakage_{name}", ("round", "agent"))
        if training_loss:
            self._variable("training_loss", ("round",))
        if decisions:
            self._variable("decision", ("round", "agent", "coordinate"))
        if words:  # floats of a frame
            self._dimension("word", words, np.int64)[:] = np.arange(words)
            self._dimension("neighbor", agents, np.int64)[:] = np.arange(agents)
            self._variable("transcript", ("round", "agent", "word"))
            self._variable("receiver", ("round", "agent", "neighbor"))
        self._file.flush()

    def _dimension(self, name: str, size: int, kind: Any, unlimited: bool = False) -> Any:
        dataset = self._file.create_dataset(
            name, (size,), kind, maxshape=(None,) if unlimited else (size,), chunks=(1024,) if unlimited else None
        )
        dataset.make_scale(name)
        return dataset

    def _variable(self, name: str, dimensions: tuple[str, ...], values: Vector | None = None) -> None:
        shape = tuple(self._file[dimension].shape[0] for dimension in dimensions)
        unlimited = dimensions[0] == "round"
        dataset = self._file.create_dataset(
            name, shape, np.float64, data=values, fillvalue=np.nan,
            maxshape=(None, *shape[1:]) if unlimited else None,
            chunks=(max(1, 16384 // (8 * int(np.prod(shape[1:])))), *shape[1:]) if unlimited else None,
        )  # fmt: skip
        for axis, dimension in enumerate(dimensions):
            dataset.dims[axis].attach_scale(self._file[dimension])
        if unlimited:
            self._growing[name] = dataset

    def append(self, loss: Vector, consensus_error: Vector, events: Events, **optional: Vector) -> None:
        """Add rounds: (r,), (r,), (r, agents, fields of an Event); what is recorded on request by its name."""
        values = {"loss": loss, "consensus_error": consensus_error, **optional}
        values |= {f"event_{name}": events.event(name)[:, :, 0] for name in Event._fields}
        values |= {f"leakage_{name}": events.leakage(name).reshape(len(loss), -1) for name in self._leakage}
        start, self._rounds = self._rounds, self._rounds + len(loss)
        for name, value in (values | {"round": np.arange(start + 1, self._rounds + 1)}).items():
            dataset = self._growing[name]
            dataset.resize(self._rounds, axis=0)
            dataset[start:] = value
        self._file.flush()

    def finish(self, horizons: Any, variables: dict[str, tuple[tuple[str, ...], Vector]]) -> None:
        """Add what is known at the end, by name: (dimensions, values), and close."""
        self._dimension("horizon", len(horizons), np.int64)[:] = horizons
        for name, (dimensions, values) in variables.items():
            self._variable(name, dimensions, values)
        self._file.close()


def write_text(path: Path, text: str) -> None:
    """Write a file whole or not at all."""
    draft = path.with_name(path.name + ".part")
    draft.write_text(text)
    os.replace(draft, path)
