"""The record of a run: one HDF5 file that xarray opens, appended and flushed as the run goes on.

netCDF-4 convention by plain h5py: every dimension is a dimension scale with a coordinate. A killed run loses
at most its last second. `runlog.reading` reads it, also while the run goes on.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import platform
import shutil
import subprocess
import time
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any
from zlib import crc32

import h5py
import numpy as np
from numpy.typing import NDArray

from mpinodes.core.errors import BadInput
from mpinodes.core.experiment import Experiment
from mpinodes.core.version import __version__
from mpinodes.runlog import long_names
from mpinodes.runlog.atomic import AtomicFile
from mpinodes.runlog.layout_version import VERSION
from mpinodes.runlog.packing import pack
from mpinodes.runlog.reading import DIMS, PATIENCE, Reader, Variable, write_words

RUNS, LOG = "runs", "log.txt"
DRAWN_ROUNDS = 8  # rounds of the topology kept for drawing
SECONDS_BETWEEN_WRITES = 1.0  # HDF5 takes as long for ten rounds of a variable as for a thousand
BYTES_AT_ONCE = 4_000_000
MOST_BYTES = 4 * BYTES_AT_ONCE  # kept while somebody reads
LEAST_CHUNK, LARGEST_CHUNK = 1 << 14, 1 << 17  # bytes
CHUNKS = 64  # of a variable in a whole run, of whatever size between
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
PACKED_FROM = 1_000_000  # bytes: below, making its variables anew takes longer than all else


def make_directory(experiment: Experiment) -> Path:
    """Make the run directory: `output.dir`, or runs/<name>-<the next free number>.

    Raises:
        BadInput: it cannot be written, or it is not empty.
    """
    try:
        if experiment.output is None:
            return _numbered(experiment)
        path = Path(experiment.output.dir)
        experiment.output.dir.encode()  # UnicodeEncodeError: no file that tells of the run could name it
        path.mkdir(parents=True, exist_ok=True)
        if any(path.iterdir()):
            raise BadInput(
                f"output.dir = {str(path)!r}: not empty; a run never overwrites: choose another, or delete it"
            )
        _begin(path, experiment)
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


def _begin(path: Path, experiment: Experiment) -> None:
    """What `--resume` needs, however soon the run is killed."""
    (path / LOG).touch()
    write_text(path / "experiment.toml", experiment.toml())


def _numbered(experiment: Experiment) -> Path:
    runs = Path(RUNS)
    runs.mkdir(exist_ok=True)
    number = 1
    while True:
        path = runs / f"{experiment.name}-{number:03d}"
        try:
            path.mkdir()
        except FileExistsError:
            number += 1
            continue
        _begin(path, experiment)
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


def fresh_file(path: Path | AtomicFile) -> h5py.File:
    """A new HDF5 file whose variables keep the order they are made in, and no chunk is kept that was written."""
    return h5py.File(path, "w", track_order=True, locking=False, rdcc_nbytes=0)


def draft_of(path: Path) -> Path:
    """Where a file is made, to be moved when it is whole."""
    return path.with_name(path.name + ".part")


def require_there(directory: Path) -> None:
    """Raise `FileNotFoundError` where a run directory was removed or renamed."""
    if not directory.is_dir():
        raise FileNotFoundError(f"{directory} is gone: a run directory stays where it is until the run ends")


@contextmanager
def held(run: Path) -> Iterator[None]:
    """For whoever writes to a run directory: two at once would each take away what the other has recorded.

    Raises:
        BadInput: somebody does already, and has not ended in `PATIENCE` seconds.
    """
    whole = run.absolute().parent if run.name.startswith("repeat-") else run
    path = (whole if (whole / LOG).exists() else run) / LOG
    if not path.exists():  # no run has begun here
        yield
        return
    try:
        log = path.open("a")
    except OSError as error:
        raise BadInput(f"{run}: cannot be written to: {error.strerror}") from error
    with log:
        end = time.monotonic() + PATIENCE
        while not _locked(log.fileno()):
            if time.monotonic() > end:
                raise BadInput(f"{run}: another process is at work on it; mpinodes.watch shows how far it has come")
            time.sleep(0.05)
        yield


def is_held(run: Path) -> bool:
    """Whether somebody writes to a run directory, or that cannot be told."""
    try:
        with (run / LOG).open("rb") as log:
            fcntl.flock(log, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    return False


def _locked(fd: int) -> bool:
    """Whether a lock could be taken, or needs not be, where the file system has none."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        pass
    return True


Variables = Mapping[str, Variable]


def joined(parts: Sequence[Variables]) -> dict[str, Variable]:
    """Rounds that follow each other, as one."""
    if len(parts) == 1:
        return dict(parts[0])
    return {
        name: v._replace(values=np.concatenate([some[name].values for some in parts])) for name, v in parts[0].items()
    }


def add_to_sums(sums: dict[str, int], variables: Variables) -> None:
    """Take rounds into the checksum of each variable, which hangs on all its rounds in turn, however they come."""
    for name, variable in variables.items():
        sums[name] = crc32(np.ascontiguousarray(variable.values, np.float64).data, sums.get(name, 0))


class Record:
    """`record.h5`, open for appending.

    A kill at any moment leaves all that was written. Where many `rounds` are expected chunks are larger, for HDF5 has
    some 300 bytes in memory for each.

    Attributes:
        rounds: how many are on file.
        waiting: the variables that were added since.
        sums: the checksums of all rounds given so far, by variable: see `add_to_sums`.
    """

    def __init__(self, path: Path, agents: int, dimension: int, attributes: dict[str, Any], rounds: int = 0) -> None:
        draft, self._path = draft_of(path), path
        self._expected = rounds
        self._disk = AtomicFile(draft)
        self._file = fresh_file(self._disk)
        self._leave = weakref.finalize(self, _leave, self._file, self._disk)
        write_words(self._file, {k: v if isinstance(v, str) else json.dumps(v) for k, v in attributes.items()})
        self._file.attrs["version"] = VERSION
        self.rounds = 0
        self.waiting: list[Variables] = []
        self.sums: dict[str, int] = {}
        self._bytes, self._written = 0, time.monotonic()
        # Looking a dataset up by its name costs as much as a small write to it.
        self._growing = {"round": add_dimension(self._file, "round", np.arange(0), self._chunk(8))}
        add_dimension(self._file, "agent", np.arange(agents))
        add_dimension(self._file, "coordinate", np.arange(dimension))
        self._commit()
        os.replace(draft, path)

    def _chunk(self, row: int) -> int:
        """Rounds of a chunk, of `row` bytes each."""
        size = min(max(LEAST_CHUNK, row * self._expected // CHUNKS), LARGEST_CHUNK)
        return max(1, size // row)

    @classmethod
    def reopen(cls, path: Path, rounds: int, attributes: dict[str, Any], expected: int = 0) -> Record:
        """A record as it was after so many rounds, to go on from there; it is written anew beside the old one.

        Raises:
            BadInput: it is damaged, or holds fewer.
        """
        with Reader(path.parent) as old:
            if old.rounds < rounds:
                raise BadInput(f"{path}: holds {old.rounds} rounds, and is to go on after round {rounds}")
            agents, dimension = (len(old.read(name).values) for name in ("agent", "coordinate"))
            record = cls(draft_of(path), agents, dimension, attributes, expected)
            for some in old.stretches(rounds, BYTES_AT_ONCE):
                record.append({name: old.read(name, some) for name in old.by_round})
                record.write()
        os.replace(record._path, path)
        record._path = path
        return record

    def append(self, variables: Variables) -> None:
        """Add rounds to variables that are by round, the same ones every time; they are copied."""
        kept = {name: v._replace(values=np.array(v.values, np.float64, order="C")) for name, v in variables.items()}
        self.waiting.append(kept)
        add_to_sums(self.sums, kept)
        self._bytes += sum(v.values.nbytes for v in kept.values())
        seconds = time.monotonic() - self._written
        due = self._bytes > BYTES_AT_ONCE or seconds > SECONDS_BETWEEN_WRITES
        if due and (self._has_lock() or self._bytes > MOST_BYTES or seconds > PATIENCE):
            self.write()

    def _has_lock(self) -> bool:
        """Take the file's lock, unless somebody reads."""
        return _locked(self._disk.fd)

    def write(self) -> None:
        """Put on file what was added, whether somebody reads or not.

        Raises:
            OSError: there is no room; the file is as it was.
        """
        if not self.waiting:
            return
        whole = joined(self.waiting)
        self.waiting.clear()
        start, end = self.rounds, self.rounds + len(next(iter(whole.values())).values)
        whole["round"] = Variable(("round",), np.arange(start + 1, end + 1))
        self._has_lock()
        for name, variable in whole.items():
            if name not in self._growing:
                chunk = self._chunk(variable.values[:1].nbytes)
                self._growing[name] = add_variable(self._file, name, variable, chunk)
            dataset = self._growing[name]
            dataset.resize(end, axis=0)
            dataset[start:] = variable.values
        self._commit()
        self.rounds, self._bytes, self._written = end, 0, time.monotonic()

    def _commit(self) -> None:
        """Have on file what HDF5 was given, and leave the lock.

        Raises:
            OSError: there is no room.
        """
        if self._file:
            self._file.flush()
        try:
            self._disk.commit()
        except OSError as error:
            if error.errno in NO_ROOM:
                why = f"{os.strerror(error.errno)}; the record ends with round {self.rounds}"
                raise OSError(error.errno, why, str(self._path)) from None
            raise
        finally:
            with suppress(OSError):
                fcntl.flock(self._disk.fd, fcntl.LOCK_UN)

    def sync(self) -> None:
        """Wait until what was written is where a loss of power cannot take it."""
        os.fsync(self._disk.fd)

    def finish(self, horizons: Any, variables: Variables) -> None:
        """Add what is known at the end, close, and pack."""
        self.write()
        require_there(self._path.parent)
        self._has_lock()
        add_dimension(self._file, "horizon", np.asarray(horizons))
        for name, variable in variables.items():
            add_variable(self._file, name, variable)
        self._file.close()
        self._commit()
        self._disk.cut()
        self._leave()
        if self._path.stat().st_size > PACKED_FROM:
            pack(self._path)


def _leave(file: h5py.File, disk: AtomicFile) -> None:
    """Close a file as it is; left to the end of the interpreter, HDF5 would call Python when there is none."""
    disk.give_up()
    file.close()
    disk.release()


def add_dimension(file: h5py.File, name: str, values: NDArray[Any], chunk: int = 0) -> Any:
    """Make a dimension, with its coordinate, growing by chunks if there are any; returns that."""
    dataset = file.create_dataset(name, data=values, **({"maxshape": (None,), "chunks": (chunk,)} if chunk else {}))
    dataset.make_scale(name)
    write_words(dataset, {**long_names.attributes(name, "", ""), DIMS: name})
    return dataset


def add_variable(file: h5py.File, name: str, variable: Variable, chunk: int = 0) -> Any:
    """Make a variable, whole, or empty where it grows by chunks of so many rounds.

    Dimensions that are not there yet count from 0.
    """
    dims, values, label, unit = variable
    for dimension, size in zip(dims, values.shape, strict=True):
        if dimension not in file:
            add_dimension(file, dimension, np.arange(size))
    if chunk:
        shape = values.shape[1:]
        dataset = file.create_dataset(
            name, (0, *shape), np.float64, fillvalue=np.nan, maxshape=(None, *shape),
            chunks=(chunk, *shape),
        )  # fmt: skip
    else:
        dataset = file.create_dataset(name, data=values)
    write_words(dataset, {**long_names.attributes(name, label, unit), DIMS: " ".join(dims)})
    for axis, dimension in enumerate(dims):
        dataset.dims[axis].attach_scale(file[dimension])
    return dataset


def write_text(path: Path, text: str) -> None:
    """Write a file whole or not at all."""
    write_bytes(path, text.encode())


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file whole or not at all."""
    draft = path.with_name(path.name + ".part")
    try:
        draft.write_bytes(content)
        os.replace(draft, path)
    except OSError:
        draft.unlink(missing_ok=True)
        raise
