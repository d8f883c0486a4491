"""A file of one's own: .npz, .csv or LIBSVM text."""

from __future__ import annotations

import zipfile
import zlib
from array import array
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpinodes.core.errors import BadInput
from mpinodes.formats import libsvm
from mpinodes.formats.source import LARGEST, Source, content, lines, shown, unfit

SPARSE = (".libsvm", ".svm", ".txt")


def read(path: Path, dimension: int | None = None) -> Source:
    """Targets and features of a file, which is told by the end of its name; `dimension` is for LIBSVM text.

    `.npz`: arrays `features` (N, d) and `targets` (N,), dense. `.csv`: numbers separated by commas, the last of
    each line the target, with or without a line of names on top. `.libsvm`, `.svm`, `.txt`, also with `.gz` or
    `.bz2`: LIBSVM text. A rank holds all numbers of an .npz or .csv for as long as the `Source` lives.

    Raises:
        BadInput: missing, empty, malformed, an entry that is not finite, or another kind; names file and place.
    """
    ending = Path(path.name.removesuffix(".gz").removesuffix(".bz2")).suffix
    if path.suffix == ".npz":
        return _npz(path)
    if path.suffix == ".csv":
        return _csv(path)
    if ending in SPARSE:
        return libsvm.read(path, dimension)
    raise BadInput(
        f"{path}: a file of one's own ends in .npz, .csv or {', '.join(SPARSE)} (also .gz, .bz2 after these)"
    )


def _source(path: Path, features: NDArray[Any], targets: NDArray[np.float64]) -> Source:
    def chosen(rows: NDArray[np.int64]) -> NDArray[np.float64]:
        return features[rows].astype(np.float64, copy=False)

    return Source(targets, features.shape[1], chosen, None, (path,))


def _npz(path: Path) -> Source:
    try:
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            if not {"features", "targets"} <= set(file):
                raise BadInput(
                    f"{path}: holds {', '.join(file)}; dense `features` (N, d) and `targets` (N,) expected "
                    "(write sparse ones as LIBSVM text)"
                )
            features, targets = _numbers(path, file["features"], 2), _numbers(path, file["targets"], 1)
    except BadInput:
        raise
    except OSError as error:
        raise BadInput(f"{path}: cannot be read: {error.strerror or error}") from error
    except (EOFError, TypeError, ValueError, zipfile.BadZipFile, zlib.error) as error:
        raise BadInput(f"{path}: not an .npz of `features` and `targets`, all numbers: {error}") from error
    if len(features) != len(targets):
        raise BadInput(f"{path}: {len(features)} rows in `features`, but {len(targets)} in `targets`")
    return _source(path, features, targets.astype(np.float64))


def _numbers(path: Path, values: NDArray[Any], dimensions: int) -> NDArray[Any]:
    """One array of the file, once it is checked."""
    name, shape = {1: ("targets", "(N,)"), 2: ("features", "(N, d)")}[dimensions]
    if values.ndim != dimensions or values.dtype.kind not in "biuf" or not values.size:
        raise BadInput(f"{path}: `{name}` is {values.dtype} of shape {values.shape}; numbers of shape {shape} expected")
    wrong = np.argwhere(~(np.abs(values) <= np.float64(LARGEST)))  # as a float32 it would be inf
    if len(wrong):
        value = values[tuple(wrong[0])]
        raise BadInput(f"{path}: {name}{wrong[0].tolist()} (row first, from 0) is {value}: it {unfit(float(value))}")
    return values


def _finite(text: str) -> bool:
    try:
        return isfinite(float(text))
    except ValueError:
        return False


def _csv(path: Path) -> Source:
    data = content(path)
    numbers, width = array("d"), 0
    for line, start, end in lines(data):
        entries = bytes(data[start:end]).decode("utf-8-sig", errors="replace").split(",")
        first, width = not width, width or len(entries)
        if width < 2:
            raise BadInput(
                f"{path}: line {line}: one column; features and then the target expected, separated by commas"
            )
        if len(entries) != width:
            raise BadInput(f"{path}: line {line}: {len(entries)} entries, but {width} in the first line")
        good = list(map(_finite, entries))
        if first and not any(good):
            continue  # names
        if not all(good):
            column = good.index(False)
            entry = shown(entries[column].strip())
            raise BadInput(f"{path}: line {line}, column {column + 1}: {entry} is not a finite number")
        row = list(map(float, entries))
        if wrong := unfit(max(row, key=abs)):
            column = row.index(max(row, key=abs))
            raise BadInput(f"{path}: line {line}, column {column + 1}: {shown(entries[column].strip())} {wrong}")
        numbers.extend(row)
    if not numbers:
        raise BadInput(f"{path}: empty: no line of numbers")
    table = np.frombuffer(numbers).reshape(-1, width)
    return _source(path, table[:, :-1], table[:, -1])
