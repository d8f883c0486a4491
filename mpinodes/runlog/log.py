"""Write and read `rounds.log`, the append-only log of a run.

The file begins with a text that identifies the format and its version. After this text come blocks, called frames. A
frame has four parts: a head (the length of the content, and the number of rounds), a checksum, the content, and a
second checksum. There are two kinds of content:

- If the number of rounds is above 0, the content is float64 numbers: for each variable, its values in these rounds.
- If the number of rounds is 0, the content is data in MessagePack: attributes of the record, sizes of dimensions, or
  descriptions of the variables.

Each checksum also covers the checksum before it. So the last checksum verifies the whole file.

After a crash, the file may end before the last frame is complete. An incomplete last frame is ignored. Reading a wrong
checksum raises an error.
"""

from __future__ import annotations

import os
import weakref
from bisect import bisect_right
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path
from struct import Struct
from typing import Any, NamedTuple, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from mpinodes.core.errors import BadInput
from mpinodes.runlog.directories import write_bytes
from mpinodes.runlog.versions import VERSION, require_version

NAME = "rounds.log"
MARK = f"mpinodes log {VERSION:2}\n".encode()
SIZES, SUM = Struct("<QQ"), 16  # the head's length and number of rounds; the bytes of a checksum


class Variable(NamedTuple):
    """Hold an array of a record, with the names of its axes, a label and a unit.

    Attributes:
        dims: the names of the axes.
        values: the array, with an axis for each name in `dims`.
        label, unit: the label and unit that people read; "" means the default of the module `long_names`.
    """

    dims: tuple[str, ...]
    values: NDArray[Any]
    label: str = ""
    unit: str = ""


Variables: TypeAlias = Mapping[str, Variable]


class Unreadable(BadInput):
    """Report that a log or a record is damaged."""


class Position(NamedTuple):
    """Hold a position between two blocks of a log: the byte offset, and the last checksum before this offset."""

    byte: int
    checksum: bytes


def _checksum(before: bytes, content: bytes | memoryview) -> bytes:
    return blake2b(content, key=before, digest_size=SUM).digest()


class _Opened:
    """Hold an open file, until the method `close` is called or the object is garbage-collected."""

    def __init__(self, path: Path, flags: int) -> None:
        self._path, self._fd = path, os.open(path, flags | os.O_CLOEXEC)
        self.close = weakref.finalize(self, os.close, self._fd)


class Log(_Opened):
    """Append rounds to `rounds.log`.

    Args:
        path: the file.
        facts: a dictionary with the `attributes` of the record, and the `sizes` of its dimensions.
        place: the position in an existing log after which new rounds are written; the rest of the old content is
            deleted. The caller has checked the position by `require`. None: a new file replaces an old file.
        rounds: the number of rounds before this position.

    Attributes:
        rounds: the number of rounds in the file.
        place: the end of the file.
    """

    def __init__(self, path: Path, facts: Mapping[str, Any], place: Position | None = None, rounds: int = 0) -> None:
        if place is None:
            write_bytes(path, MARK)
        super().__init__(path, os.O_RDWR)
        self.rounds, self.place = rounds, place or Position(len(MARK), MARK)
        logged = LogReader(path, place.byte).columns if place else {}
        self._declared = [(name, of.dims, of.shape) for name, of in logged.items()]
        os.ftruncate(self._fd, self.place.byte)
        self._put([(msgspec.msgpack.encode(facts), 0)])

    def append(self, variables: Variables) -> None:
        """Write the variables of one or more rounds; the first call also writes the descriptions of the variables.

        All calls must have the same variables. If the arrays have no rounds, nothing is written.

        Raises:
            BadInput: the log contains variables with other names, order, axes or shapes.
            OSError: the write failed, for example because the disk is full; the file stays as it was.
        """
        declared = [(name, v.dims, v.values.shape[1:]) for name, v in variables.items()]
        if self._declared and declared != self._declared:
            names = {name for name, *_ in declared} ^ {name for name, *_ in self._declared}
            change = f"with other variables ({', '.join(sorted(names))})" if names else "in another order or shape"
            raise BadInput(
                f"{self._path}: the earlier rounds were logged {change}: keep the metrics with which the run began"
            )
        rounds = len(next(iter(variables.values())).values)
        if rounds == 0:
            return  # a frame of 0 rounds holds facts
        frames = [(b"".join(np.ascontiguousarray(v.values, np.float64).data for v in variables.values()), rounds)]
        if not self._declared:
            described = [(name, v.dims, v.values.shape[1:], v.label, v.unit) for name, v in variables.items()]
            frames.insert(0, (msgspec.msgpack.encode({"variables": described}), 0))
        self._put(frames)
        self._declared = declared
        self.rounds += rounds

    def _put(self, frames: list[tuple[bytes, int]]) -> None:
        """Append blocks with checksums to the file; after an error, cut the file to its old length.

        Args:
            frames: for each block, a pair: the content, and the number of rounds in the content.

        Raises:
            OSError: the write failed.
        """
        whole, checksum = b"", self.place.checksum
        for content, rounds in frames:
            sizes = SIZES.pack(len(content), rounds)
            of_head = _checksum(checksum, sizes)
            checksum = _checksum(of_head, content)
            whole += b"".join((sizes, of_head, content, checksum))
        rest, at = memoryview(whole), self.place.byte
        try:
            while rest:
                done = os.pwrite(self._fd, rest, at)
                rest, at = rest[done:], at + done
        except OSError as error:
            os.ftruncate(self._fd, self.place.byte)
            reason = f"{os.strerror(error.errno or 0)}; the record ends with round {self.rounds}"
            raise OSError(error.errno, reason, str(self._path)) from None
        self.place = Position(at, checksum)

    def sync(self) -> None:
        """Flush all written data to disk, so that they survive a loss of power."""
        os.fsync(self._fd)


class _Logged(NamedTuple):
    """Describe a variable in a log.

    Attributes:
        dims: the names of the axes, the round first.
        shape: the shape of the values of one round.
        label, unit: the label and unit that people read.
        before: the number of floats of one round that are stored before this variable.
        size: the number of floats of this variable in one round.
    """

    dims: tuple[str, ...]
    shape: tuple[int, ...]
    label: str
    unit: str
    before: int
    size: int


class LogReader(_Opened):
    """Read `rounds.log`, the log of a run that goes on, was killed, or has ended and keeps its checkpoints.

    Args:
        path: the file.
        end: the byte at which reading ends; None: the end of the file.

    Attributes:
        attrs: the attributes of the record.
        sizes: the sizes of all dimensions except the round.
        columns: the descriptions of the variables, by name.
        rounds: the number of rounds.
        place: the end of the last complete block.

    Raises:
        FileNotFoundError: there is no log.
        Unreadable: the log is damaged.
        BadInput: the log has another format version.
    """

    def __init__(self, path: Path, end: int | None = None) -> None:
        super().__init__(path, os.O_RDONLY)
        self.attrs: dict[str, Any] = {}
        self.sizes: dict[str, int] = {}
        self.columns: dict[str, _Logged] = {}
        self.rounds = 0
        # Of each frame: its first round, counted from 0, the byte where its numbers begin, and its number of rounds.
        self._chunks: list[tuple[int, int, int]] = []
        self.place = Position(len(MARK), MARK)
        mark = os.read(self._fd, len(MARK))
        if mark != MARK:
            if mark[:13] == MARK[:13] and mark[13:15].strip().isdigit():
                require_version(int(mark[13:15]), str(path.parent))
            raise self._damaged("the first line is wrong")
        self.read_on(end)

    def _damaged(self, reason: str) -> Unreadable:
        return Unreadable(f"{self._path}: damaged after round {self.rounds}, or not the log of a run ({reason})")

    def read_on(self, end: int | None = None) -> None:
        """Verify the part of the file that was added since the last call, so that its rounds can be read.

        Args:
            end: the byte at which reading ends; None: the end of the file.

        Raises:
            Unreadable: the log is damaged.
        """
        size = os.fstat(self._fd).st_size
        end = size if end is None else min(size, end)
        if size < self.place.byte:
            raise self._damaged("the file became shorter while it was read; perhaps the run was resumed")
        while (content_at := self.place.byte + SIZES.size + SUM) <= end:
            head = os.pread(self._fd, SIZES.size + SUM, self.place.byte)
            of_head = _checksum(self.place.checksum, head[: SIZES.size])
            if head[SIZES.size :] != of_head:
                raise self._damaged("a checksum is wrong")
            length, rounds = SIZES.unpack_from(head)
            if content_at + length + SUM > end:
                return
            whole = memoryview(os.pread(self._fd, length + SUM, content_at))
            checksum = _checksum(of_head, whole[:length])
            if whole[length:] != checksum:
                raise self._damaged("a checksum is wrong")
            if rounds:
                self._chunks.append((self.rounds, content_at, rounds))
                self.rounds += rounds
            else:
                facts = msgspec.msgpack.decode(whole[:length])
                self.attrs = facts.get("attributes", self.attrs)
                self.sizes |= facts.get("sizes", {})
                before = 0
                for name, dims, shape, label, unit in facts.get("variables", ()):
                    size = int(np.prod(shape))
                    self.columns[name] = _Logged(tuple(dims), tuple(shape), label, unit, before, size)
                    before += size
                    self.sizes |= dict(zip(dims[1:], shape, strict=True))
            self.place = Position(content_at + length + SUM, checksum)

    def read(self, name: str, first: int, last: int) -> Variable:
        """Return the values of a variable in the rounds `first` + 1 to `last`.

        Raises:
            KeyError: the log has no variable of that name.
            Unreadable: the file became shorter after it was opened.
        """
        of = self.columns[name]
        values = np.empty((max(0, last - first), *of.shape))
        k = bisect_right(self._chunks, first, key=lambda chunk: chunk[0]) - 1
        while first < last:
            start, at, rounds = self._chunks[k]
            end = min(last, start + rounds)
            place = at + 8 * (rounds * of.before + (first - start) * of.size)
            piece = values[first - last : end - last or None]
            if os.preadv(self._fd, [piece.data], place) < piece.nbytes:
                raise self._damaged("the file became shorter while it was read; perhaps the run was resumed")
            first, k = end, k + 1
        return Variable(of.dims, values, of.label, of.unit)


def require(path: Path, place: Position) -> None:
    """Check that the part of a log before a position still has the checksum that was stored with the position.

    Raises:
        Unreadable: the content before `place` is shorter or different.
        BadInput: the log has another format version.
        OSError: the file cannot be read.
    """
    log = LogReader(path, place.byte)
    if log.place != place:
        raise Unreadable(f"{path}: damaged: the first {place.byte} bytes differ from the bytes that the run wrote")
