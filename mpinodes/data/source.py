"""`Source`, which every file format is read into, and what the readers share: bytes, lines, labels and messages."""

from __future__ import annotations

import shutil
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from io import BytesIO
from math import isfinite, nan
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from mpinodes.core import Features
from mpinodes.core.asked import utf8
from mpinodes.core.errors import BadInput
from mpinodes.data.shelf import once

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
            rank that owns 1/64 of them holds no more.
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


def content(path: Path) -> NDArray[np.uint8]:
    """Return the bytes of a file, unpacked if the file is gzip or bzip2, whatever its name says.

    The bytes are mapped; the ranks of a host share one unpacked copy while a folder is shared (`mpinodes.data.shelf`).

    Raises:
        BadInput: The file is missing, unreadable or empty, or its packed data are truncated or corrupt.
    """
    try:
        with path.open("rb") as file:
            start = file.read(3)
        if not start:
            raise BadInput(f"{path}: empty")
        if start == b"BZh" or start[:2] == b"\x1f\x8b":
            return once(path, "unpacked", lambda: [_unpacked(path, "bz2" if start == b"BZh" else "gzip")])[0]
        return np.memmap(path, np.uint8, "r")
    except OSError as error:
        raise BadInput(f"{path}: cannot be read: {error.strerror}") from error


def _unpacked(path: Path, kind: str) -> NDArray[np.uint8]:
    data = BytesIO()
    try:
        with import_module(kind).open(path) as packed:  # most agents need neither module
            shutil.copyfileobj(packed, data)
    except EOFError as error:
        size = path.stat().st_size
        raise BadInput(f"{path}: truncated: the file ends at byte {size}, before its packed data do") from error
    except (OSError, zlib.error) as error:
        raise BadInput(f"{path}: corrupt packed data past unpacked byte {data.tell()}: {error}") from error
    if not data.tell():
        raise BadInput(f"{path}: empty")
    return np.frombuffer(data.getbuffer(), np.uint8)


def lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the number, from 1, and the bytes of each line of a text file that is not blank.

    A byte-order mark belongs to no line, and text in UTF-16 becomes UTF-8.

    Raises:
        BadInput: See `content`.
    """
    for number, line in enumerate(BytesIO(utf8(content(path).tobytes())), 1):
        if line.strip():
            yield number, line


def signs(targets: Sequence[str | float], labels: Labels, place: Callable[[int], str]) -> NDArray[np.float64]:
    """Return −1 or +1 for a target that is the first or second of two labels, and for more labels the label's place.

    Raises:
        BadInput: A target is no label; names the place, which `place` gives for the target's index.
    """
    codes = [_label_of(target, labels) for target in targets]
    if None in codes:
        wrong = codes.index(None)
        names = [repr(label) if isinstance(label, str) else f"{label:g}" for label in labels]
        none = f"neither {names[0]} nor {names[1]}" if len(names) == 2 else f"none of {', '.join(names)}"
        raise BadInput(f"{place(wrong)}: label {shown(str(targets[wrong]).strip())} is {none}")
    numbers = np.array(codes, np.float64)
    return 2 * numbers - 1 if len(labels) == 2 else numbers


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
    """Return what is wrong with a number of a file; empty: nothing."""
    if abs(number) <= LARGEST:
        return ""
    return f"is above {LARGEST:g} in size: scale the data" if isfinite(number) else "is not a finite number"


def shown(text: bytes | str) -> str:
    """Return a piece of a file, quoted and shortened for an error message."""
    text = text if isinstance(text, str) else text.decode(errors="replace")
    return repr(text if len(text) <= 24 else f"{text[:24]}...")


def listed(names: Sequence[str]) -> str:
    """Return names for an error message, the first of many."""
    return ", ".join(names[:20]) + ", ..." * (len(names) > 20)
