"""Define `Source`, the samples that every reader of data files returns, and functions that several readers use."""

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

# Two labels become the targets −1 and +1, and more labels become 0, 1, ...; empty: the targets in the file are numbers.
Labels: TypeAlias = tuple[bool | float | str, ...]
TRUTH = {"true": 1.0, "false": 0.0}  # as pandas, R and spreadsheets write them
LARGEST = 1e100  # the largest |number| in a sample: losses add squares of such numbers


@dataclass(frozen=True)
class Source:
    """Hold N samples: all targets, and a function that returns the features of chosen rows.

    Attributes:
        targets: (N,) labels −1 and +1, class numbers, or real values. Class numbers are 0, 1, ..., or as in the file.
        dimension: the number of features of a sample.
        features: maps row numbers (k,), from 0, to features (k, dimension). Only the features of these rows are
            converted to floats, to save memory.
        upstream: the number of records in the original files that are published under these file names; None if the
            number is unknown.
        files: the files from which the samples are read.
        records: the number of records in `files`; -1 stands for N.
        columns: the names of the features, then the name of the target; empty if the file has no names.
        units: (a, b): a + b * target is the target in the units of the file.
        has_intercept: whether the last feature is a constant that the settings add; `columns` does not name it.
    """

    targets: NDArray[np.float64]
    dimension: int
    features: Callable[[NDArray[np.int64]], Features]
    upstream: int | None = None
    files: tuple[Path, ...] = ()
    records: int = -1
    columns: tuple[str, ...] = ()
    units: tuple[float, float] = (0.0, 1.0)
    has_intercept: bool = False

    def __post_init__(self) -> None:
        if self.records < 0:
            object.__setattr__(self, "records", len(self.targets))


def content(path: Path) -> NDArray[np.uint8]:
    """Return the bytes of a file. A file that is packed by gzip or bzip2 is unpacked.

    The unpacked bytes are cached (`mpinodes.data.shelf`). A file that is not packed is memory-mapped.

    Raises:
        BadInput: the file is missing, unreadable or empty, or its packed data are truncated or corrupt.
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
        with import_module(kind).open(path) as packed:  # because most agents need neither gzip nor bz2
            shutil.copyfileobj(packed, data)
    except EOFError as error:
        size = path.stat().st_size
        raise BadInput(f"{path}: truncated: the file ends at byte {size}, before its packed data end") from error
    except (OSError, zlib.error) as error:
        raise BadInput(f"{path}: the packed data are corrupt after {data.tell()} unpacked bytes: {error}") from error
    if not data.tell():
        raise BadInput(f"{path}: empty")
    return np.frombuffer(data.getbuffer(), np.uint8)


def lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the line number, from 1, and the bytes of each line of a text file. Blank lines are skipped.

    A byte-order mark of UTF-8 is left out, and UTF-16 text with such a mark becomes UTF-8.

    Raises:
        BadInput: as in `content`.
    """
    for number, line in enumerate(BytesIO(utf8(content(path).tobytes())), 1):
        if line.strip():
            yield number, line


def signs(targets: Sequence[str | float], labels: Labels, place: Callable[[int], str]) -> NDArray[np.float64]:
    """Return targets as numbers (N,): −1 and +1 if there are two possible labels, and 0, 1, ... if there are more.

    Args:
        targets: the N targets, as in the file.
        labels: the possible labels; the first label gets the smallest number.
        place: maps the index of a target to a text with the target's place in the file, for the error message.

    Raises:
        BadInput: a target equals none of the labels, or more than one; the message names its place.
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
    """Return the index of the label that equals a target; None if no label or several labels equal the target.

    Target and label are compared as texts, or as numbers if no text is equal. As numbers, the target 1 equals the
    labels 1.0 and True. Blanks and double quotes around the target do not count.
    """
    word = str(target).strip()
    same = [k for k, label in enumerate(labels) if str(label).strip() in (word, word.strip('"'))]
    same = same or [k for k, label in enumerate(labels) if number_of(str(label)) == number_of(word)]
    return same[0] if len(same) == 1 and target == target else None  # a target NaN equals no label


def number_of(text: str) -> float:
    """Return an entry of a text file as a number; NaN if the entry is no number.

    The words true and false count as 1 and 0, and `inf` is a number. An entry with an underscore, or with a digit
    outside ASCII, is no number.
    """
    try:
        return float(text) if text.isascii() and "_" not in text else nan
    except ValueError:
        return TRUTH.get(text.strip().lower(), nan)


def unfit(number: float) -> str:
    """Return the end of an error message that says why a number of a sample cannot be used; empty if it can be used."""
    if abs(number) <= LARGEST:
        return ""
    return f"is above {LARGEST:g} in size: scale the data" if isfinite(number) else "is not a finite number"


def shown(text: bytes | str) -> str:
    """Return a text from a file in quotes, for an error message. Of a longer text, only 24 characters are shown."""
    text = text if isinstance(text, str) else text.decode(errors="replace")
    return repr(text if len(text) <= 24 else f"{text[:24]}...")


def listed(names: Sequence[str]) -> str:
    """Return names separated by commas, for an error message. If there are more than 20 names, the rest is left out."""
    return ", ".join(names[:20]) + ", ..." * (len(names) > 20)
