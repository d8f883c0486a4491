"""Read CIFAR-10's binary files: a record is one label byte, then 1,024 red, 1,024 green and 1,024 blue pixels."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mpinodes.core.errors import BadInput
from mpinodes.data.source import Source, content

PIXELS = 3 * 32 * 32
RECORD = 1 + PIXELS
CLASSES = 10
UPSTREAM = 10_000  # records of each published file


def _records(path: Path) -> NDArray[np.uint8]:
    data = content(path)
    whole, rest = divmod(len(data), RECORD)
    if rest:
        raise BadInput(f"{path}: record {whole + 1}, from byte {whole * RECORD} on, has {rest} of {RECORD} bytes")
    records = data.reshape(whole, RECORD)
    for k in np.flatnonzero(records[:, 0] >= CLASSES)[:1]:
        raise BadInput(f"{path}: record {k + 1}, at byte {k * RECORD}: label {records[k, 0]} is not one of 0 to 9")
    return records


def read(files: Sequence[Path]) -> Source:
    """Return the images, file after file. Features are pixels divided by 255, and targets are classes from 0 to 9.

    Raises:
        BadInput: a file is missing, empty or not in CIFAR-10's format; the message names the file and, if a record is
            wrong, the record (counted from 1) and its first byte.
    """
    records = [_records(path) for path in files]
    starts = np.cumsum([0, *map(len, records)])

    def features(rows: NDArray[np.int64]) -> NDArray[np.float64]:
        pixels = np.empty((len(rows), PIXELS))
        file = np.searchsorted(starts, rows, side="right") - 1
        for k in np.unique(file):
            pixels[file == k] = records[k][rows[file == k] - starts[k], 1:]
        pixels /= 255
        return pixels

    targets = np.concatenate([part[:, 0] for part in records]).astype(np.float64)
    return Source(targets, PIXELS, features, UPSTREAM * len(files), tuple(files))
