"""LIBSVM's sparse text: `label index:value index:value ...`, indices from 1 and ascending."""

from __future__ import annotations

from array import array
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mpinodes.core.errors import BadInput
from mpinodes.data.shelf import Arrays, Bytes, once
from mpinodes.data.source import Labels, Source, content, lines, shown, signed, unfit

if TYPE_CHECKING:
    import scipy.sparse

LARGEST = 2**31 - 1  # indices are held as 32-bit integers
UPSTREAM = {
    "mushrooms": 8124,
    "mushrooms.rebuilt.libsvm": 8124,
    "rcv1_train.binary": 20_242,
    # Vowpal Wabbit's sample of RCV1, under its own label rule and feature numbers: no part of LIBSVM's file, but a
    # report that says "1,747 of 20,242" is nearer the truth than one that takes it for the whole.
    "rcv1_vw_subset.rebuilt.libsvm": 20_242,
}


def _words(data: Bytes, start: int, end: int, most: int = -1) -> list[bytes]:
    return bytes(data[start:end]).partition(b"#")[0].split(None, most)


def _target(place: str, label: bytes, labels: Labels) -> float:
    if labels:
        return signed(place, label.decode(errors="replace"), labels)
    try:
        number = float(label.replace(b"_", b":"))  # else float reads 1_0 as 10
    except ValueError as error:
        raise BadInput(f"{place}: label {shown(label)} is not a number") from error
    if wrong := unfit(number):
        raise BadInput(f"{place}: label {shown(label)} {wrong}")
    return number


def _pair(place: str, token: bytes) -> tuple[int, float]:
    index, _, value = token.replace(b"_", b":").partition(b":")
    try:
        return int(index), float(value)
    except ValueError as error:
        raise BadInput(f"{place}: {shown(token)} is not index:value") from error


def _check(place: str, last: int, dimension: int | None) -> None:
    if last < 1:
        raise BadInput(f"{place}: index {last}: indices count from 1")
    if last > (dimension or LARGEST):
        raise BadInput(f"{place}: index {last} is above {dimension or LARGEST}, the number of features")


def read(path: Path, dimension: int | None = None, labels: Labels = ()) -> Source:
    """Labels, and features as a sparse matrix that is never dense; plain, gzip or bzip2.

    The ranks of a host hold together the text unpacked, the labels and three numbers a line. A row is checked in full
    only when it is asked for; its label and its last pair are checked here.

    Args:
        path: The file. Blank lines are left out, and so is what follows a `#`.
        dimension: How many features; None: the largest index on file.
        labels: The two that become −1 and +1; empty: numbers, which stay as they are.

    Raises:
        BadInput: missing, empty, truncated, or a line is malformed; names file and line.
    """
    data = content(path)
    targets, table, largest = once(path, f"{dimension} {labels}", lambda: _index(path, data, dimension, labels))
    size = dimension or int(largest)

    def features(rows: NDArray[np.int64]) -> scipy.sparse.csr_array[np.float64, tuple[int, int]]:
        return _sparse(path, data, table[rows], size)

    name = path.name.removesuffix(".bz2").removesuffix(".gz")
    return Source(targets, size, features, UPSTREAM.get(name), (path,))


def _index(path: Path, data: Bytes, dimension: int | None, labels: Labels) -> Arrays:
    """Of each line with a label: the target (N,), and its number, start and end (N, 3); then the largest index."""
    targets, places, largest = array("d"), array("q"), 0
    for number, start, end in lines(data):
        place = f"{path}: line {number}"
        if not (words := _words(data, start, end, 1)):
            continue
        targets.append(_target(place, words[0], labels))
        places.extend((number, start, end))
        if len(words) == 2:
            last, _ = _pair(place, words[1].rsplit(None, 1)[-1])
            _check(place, last, dimension)
            largest = max(largest, last)
    if not targets:
        raise BadInput(f"{path}: empty: no line but blanks and comments")
    if not (dimension or largest):
        raise BadInput(f"{path}: line {places[0]} and all others have a label but no index:value")
    return np.frombuffer(targets), np.frombuffer(places, np.int64).reshape(-1, 3), np.array(largest)


def _sparse(
    path: Path, data: Bytes, places: NDArray[np.int64], dimension: int
) -> scipy.sparse.csr_array[np.float64, tuple[int, int]]:
    """The features of the lines at `places`."""
    import scipy.sparse

    columns, values, ends = array("i"), array("d"), array("i", [0])  # lists of numbers would take four times as much
    for number, start, end in places.tolist():
        place, previous = f"{path}: line {number}", 0
        for token in _words(data, start, end)[1:]:
            index, value = _pair(place, token)
            if index <= previous:
                raise BadInput(f"{place}: index {index} after {previous}: indices count from 1 and ascend")
            if wrong := unfit(value):
                raise BadInput(f"{place}: {shown(token)} {wrong}")
            columns.append(index - 1)
            values.append(value)
            previous = index
        ends.append(len(columns))
    parts = (np.frombuffer(values), np.frombuffer(columns, np.int32), np.frombuffer(ends, np.int32))
    return scipy.sparse.csr_array(parts, shape=(len(places), dimension))
