"""Read LIBSVM's sparse text: lines `label index:value index:value ...` with ascending indices from 1.

scikit-learn also reads this format, but its error messages name no line, and its import takes two seconds.
"""

from __future__ import annotations

from array import array
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mpinodes.core import Features
from mpinodes.core.errors import BadInput
from mpinodes.data.shelf import Arrays, once
from mpinodes.data.source import LARGEST, Labels, Source, lines, number_of, shown, signs, unfit

MOST = 2**31 - 1  # indices are held as 32-bit integers
UPSTREAM = {
    "mushrooms": 8124,
    "mushrooms.rebuilt.libsvm": 8124,
    "rcv1_train.binary": 20_242,
    # Vowpal Wabbit's sample of RCV1 has its own labels and feature numbers, so it is no part of LIBSVM's file. But a
    # report of "1,747 of 20,242" records is nearer the truth than a report that takes the sample for all of RCV1.
    "rcv1_vw_subset.rebuilt.libsvm": 20_242,
}


def read(path: Path, dimension: int | None = None, labels: Labels = ()) -> Source:
    """Return the samples of a LIBSVM file. Targets are the labels, and features are sparse rows.

    Args:
        path: the file, which may be packed by gzip or bzip2. Blank lines, and text after a `#`, are ignored.
        dimension: the number of features; None: the largest index in the file.
        labels: the possible labels. Two labels become the targets −1 and +1, and more labels become 0, 1, ... If
            `labels` is empty, the labels in the file must be numbers, and these numbers are the targets.

    Raises:
        BadInput: the file is missing, empty or packed wrongly, or a line is malformed; the message names the file and,
            if a line is malformed, the line.
    """
    targets, values, columns, ends, size = once(path, f"{dimension} {labels}", lambda: _read(path, dimension, labels))

    def features(rows: NDArray[np.int64]) -> Features:
        from scipy.sparse import csr_array

        return csr_array((values, columns, ends), shape=(len(targets), int(size)))[rows]

    name = path.name.removesuffix(".bz2").removesuffix(".gz")
    return Source(targets, int(size), features, UPSTREAM.get(name), (path,))


def _read(path: Path, dimension: int | None, labels: Labels) -> Arrays:
    """Return the samples of a file as five arrays: the targets, three arrays of features, and the number of features.

    The three arrays hold the sparse features in the format CSR: values, column indices and row ends.
    """
    numbers, words, ends = array("q"), [], array("q", [0])  # by row: line, label, end of its pairs
    indices, values = array("q"), array("d")
    for number, line in lines(path):
        label, *pairs = line.partition(b"#")[0].split() or [b""]
        if not label:
            continue
        for pair in pairs:
            index, _, value = pair.replace(b"_", b":").partition(b":")  # because int reads 1_0 as 10
            try:
                indices.append(int(index))
                values.append(float(value))
            except (ValueError, OverflowError) as error:
                raise BadInput(f"{path}: line {number}: {shown(pair)} is not index:value") from error
        numbers.append(number)
        words.append(label.decode(errors="replace"))
        ends.append(len(values))
    if not words:
        raise BadInput(f"{path}: empty: all lines are blank or comments")
    if not (dimension or values):
        raise BadInput(f"{path}: line {numbers[0]} and all other lines have a label, but no feature index:value")

    def place(row: int) -> str:
        return f"{path}: line {numbers[row]}"

    targets = signs(words, labels, place) if labels else np.array([number_of(word) for word in words])
    for row in np.flatnonzero(~(np.abs(targets) <= LARGEST))[:1]:
        raise BadInput(f"{place(row)}: label {shown(words[row])} {unfit(targets[row])}")
    columns, entries, stops = np.array(indices, np.int64), np.array(values), np.array(ends)
    before, most = np.append(0, columns)[:-1], dimension or MOST
    before[stops[:-1][np.diff(stops) > 0]] = 0
    for k in np.flatnonzero((columns <= before) | (columns > most) | ~(np.abs(entries) <= LARGEST))[:1]:
        index, value, where = columns[k], entries[k], place(int(np.searchsorted(stops, k, side="right")) - 1)
        if index <= before[k]:
            raise BadInput(f"{where}: index {index} must be above {before[k]}, because indices count from 1 and ascend")
        if index > most:
            raise BadInput(f"{where}: index {index} is above {most}, the number of features")
        raise BadInput(f"{where}: '{index}:{value:g}' {unfit(value)}")
    narrow = np.int32 if len(values) <= MOST else np.int64
    return [targets, entries, (columns - 1).astype(narrow), stops.astype(narrow), np.array(dimension or columns.max())]
