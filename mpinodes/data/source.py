"""What every format reads into, and the bytes they all read from."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from io import BufferedIOBase
from math import isfinite, nan
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from mpinodes.core import Features
from mpinodes.core.errors import BadInput
from mpinodes.core.experiment import UTF_16, utf8
from mpinodes.data.shelf import Bytes, unpacked_once

# The two that become −1 and +1, or more, 0, 1, ...; empty: targets are numbers, and stay so.
Labels: TypeAlias = tuple[bool | float | str, ...]
TRUTH = {"true": 1.0, "false": 0.0}  # as pandas, R and spreadsheets write them
LARGEST = 1e100  # |number| of a sample: losses square it, and sum the squares


@dataclass(frozen=True)
class Source:
    """Samples, on file or not: the target of each, and features of those rows that are asked for.

    Attributes:
        targets: (N,) the file's own class numbers (digit, CIFAR class, LIBSVM label, −1 and +1) or real targets.
        dimension: How many features a sample has.
        features: Rows (k,), counted from 0 -> (k, dimension). Only the rows asked for become numbers, so that a
            rank that owns 1/64 of them holds no more. The LIBSVM reader checks a row's pairs only here: BadInput.
        upstream: How many records the upstream files of this name have; None: unknown.
        files: Where the samples come from.
        records: How many these files have; -1: as many as there are targets.
        columns: The names of the features and then of the target; empty: the file has none.
    """

    targets: NDArray[np.float64]
    dimension: int
    features: Callable[[NDArray[np.int64]], Features]
    upstream: int | None = None
    files: tuple[Path, ...] = ()
    records: int = -1
    columns: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.records < 0:
            object.__setattr__(self, "records", len(self.targets))


def content(path: Path) -> Bytes:
    """The bytes of a file, unpacked if it is gzip or bzip2, whatever its name says.

    The ranks of a host share one copy, for as long as the `Source` lives: a plain file is mapped, and so is what a
    packed one is unpacked into (see `formats.shelf`).

    Raises:
        BadInput: missing, unreadable, empty, or its packed data are truncated or corrupt.
    """
    try:
        with path.open("rb") as file:
            match file.read(3):
                case b"":
                    raise BadInput(f"{path}: empty")
                case b"BZh":
                    import bz2  # which most agents do without, as gzip

                    return unpacked_once(path, lambda: _unpacked(path, bz2.open(path)))
                case start if start[:2] in UTF_16:
                    return unpacked_once(path, lambda: bytearray(utf8(path.read_bytes())))
                case start if start[:2] == b"\x1f\x8b":
                    import gzip

                    return unpacked_once(path, lambda: _unpacked(path, gzip.open(path)))
            return mmap(file.fileno(), 0, access=ACCESS_READ)
    except OSError as error:
        raise BadInput(f"{path}: cannot be read: {error.strerror}") from error


def _unpacked(path: Path, packed: BufferedIOBase) -> bytearray:
    data = bytearray()  # grows in place: joining chunks at the end would take twice the memory
    try:
        with packed:
            while chunk := packed.read(1 << 16):
                data += chunk
    except EOFError as error:
        size = path.stat().st_size
        raise BadInput(f"{path}: truncated: the file ends at byte {size}, before its packed data do") from error
    except (OSError, zlib.error) as error:
        raise BadInput(f"{path}: corrupt packed data past unpacked byte {len(data)}: {error}") from error
    if not data:
        raise BadInput(f"{path}: empty")
    return data


def lines(data: Bytes) -> Iterator[tuple[int, int, int]]:
    """Of each line that is not blank: its number from 1, where it starts, where its newline is.

    A byte-order mark belongs to no line.
    """
    number, start = 1, 3 if data[:3] == b"\xef\xbb\xbf" else 0
    while start < len(data):
        end = data.find(b"\n", start)
        end = len(data) if end < 0 else end
        if data[start:end].strip():
            yield number, start, end
        number, start = number + 1, end + 1


def signed(place: str, target: str | float, labels: Labels) -> float:
    """A target as −1 or +1, where it is the first or the second of two labels, and as its place among more.

    Raises:
        BadInput: it is none; names the place.
    """
    if (k := _label_of(target, labels)) is not None:
        return 2.0 * k - 1 if len(labels) == 2 else float(k)
    said = [repr(label) if isinstance(label, str) else f"{label:g}" for label in labels]
    none = f"neither {said[0]} nor {said[1]}" if len(labels) == 2 else f"none of {', '.join(said)}"
    raise BadInput(f"{place}: label {shown(str(target).strip())} is {none}")


@lru_cache(typed=True)
def _label_of(target: str | float, labels: Labels) -> int | None:
    """Return the place of the label that a target is; None: the target is no label, or more than one.

    Words are compared without the blanks around them, and only where no word is the same, by the numbers that they
    are: 1 is the label of 1.0 and of True, too.
    """
    word = str(target).strip()
    same = [k for k, label in enumerate(labels) if str(label).strip() in (word, word.strip('"'))]
    same = same or [k for k, label in enumerate(labels) if number_of(str(label)) == number_of(word)]
    return same[0] if len(same) == 1 and target == target else None  # not of NaN, which a file may hold as a number


def number_of(text: str) -> float:
    """Return the number that an entry of a text file is, or 1 or 0 for true or false; NaN: neither."""
    try:
        return float(text) if text.isascii() and "_" not in text else nan
    except ValueError:
        return TRUTH.get(text.strip().lower(), nan)


def unfit(number: float) -> str:
    """What is wrong with a number of a file; empty: nothing."""
    if abs(number) <= LARGEST:
        return ""
    return f"is above {LARGEST:g} in size: scale the data" if isfinite(number) else "is not finite"


def shown(text: bytes | str) -> str:
    """A piece of a file, fit for an error message."""
    text = text if isinstance(text, str) else text.decode(errors="replace")
    return repr(text if len(text) <= 24 else f"{text[:24]}...")


def listed(names: Sequence[str]) -> str:
    """Return names for an error message, the first of many."""
    return ", ".join(names[:20]) + ", ..." * (len(names) > 20)
