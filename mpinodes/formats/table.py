"""A file of one's own: .npz, .csv or LIBSVM text."""

from __future__ import annotations

import zipfile
import zlib
from array import array
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpinodes.core.errors import BadInput
from mpinodes.formats import libsvm
from mpinodes.formats.shelf import Arrays, once
from mpinodes.formats.source import LARGEST, Labels, Source, content, lines, shown, signed, unfit

SPARSE = (".libsvm", ".svm", ".txt")


@dataclass(frozen=True)
class Stated:
    """What is known of a file without looking at its samples.

    Attributes:
        columns: Features of a sample; 0: as many as the file has.
        labels: The two that become −1 and +1; empty: targets are numbers, and stay as they are.
        header: Whether the first line of a .csv holds names; None: where none of its entries is a number.
    """

    columns: int = 0
    labels: Labels = ()
    header: bool | None = None


NOTHING = Stated()


def read(path: Path, stated: Stated = NOTHING) -> Source:
    """Targets and features of a file, which is told by the end of its name.

    `.npz`: arrays `features` (N, d) and `targets` (N,), dense. `.csv`: numbers separated by commas, the last of
    each line the target, perhaps with a line of names on top. `.libsvm`, `.svm`, `.txt`, also with `.gz` or
    `.bz2`: LIBSVM text. All numbers of an .npz or .csv are held for as long as the `Source` lives,
    by the ranks of a host together.

    Raises:
        BadInput: missing, empty, malformed, an entry that is not finite, not what is stated, or another kind; names
            file and place.
    """
    ending = Path(path.name.removesuffix(".gz").removesuffix(".bz2")).suffix
    if path.suffix in (".npz", ".csv"):
        read_all = _npz if path.suffix == ".npz" else _csv
        features, targets = once(path, repr(stated), lambda: read_all(path, stated))
        return _source(path, features, targets)
    if ending in SPARSE:
        return libsvm.read(path, stated.columns or None, stated.labels)
    raise BadInput(
        f"{path}: a file of one's own ends in .npz, .csv or {', '.join(SPARSE)} (also .gz, .bz2 after these)"
    )


def _source(path: Path, features: NDArray[Any], targets: NDArray[np.float64]) -> Source:
    def chosen(rows: NDArray[np.int64]) -> NDArray[np.float64]:
        return features[rows].astype(np.float64, copy=False)

    return Source(targets, features.shape[1], chosen, None, (path,))


def _npz(path: Path, stated: Stated) -> Arrays:
    try:
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            if not {"features", "targets"} <= set(file):
                raise BadInput(
                    f"{path}: holds {', '.join(file)}; dense `features` (N, d) and `targets` (N,) expected "
                    "(write sparse ones as LIBSVM text)"
                )
            features, targets = _numbers(path, file["features"], 2), _targets(path, file["targets"], stated.labels)
    except BadInput:
        raise
    except OSError as error:
        raise BadInput(f"{path}: cannot be read: {error.strerror or error}") from error
    except MemoryError as error:
        raise BadInput(f"{path}: does not fit the memory: {error}") from error
    except (EOFError, TypeError, ValueError, zipfile.BadZipFile, zlib.error) as error:
        raise BadInput(f"{path}: not an .npz of `features` and `targets`, all numbers: {error}") from error
    if len(features) != len(targets):
        raise BadInput(f"{path}: {len(features)} rows in `features`, but {len(targets)} in `targets`")
    if stated.columns and features.shape[1] != stated.columns:
        raise BadInput(f"{path}: `features` has {features.shape[1]} columns; {stated.columns} expected (data.columns)")
    return features, targets


def _targets(path: Path, values: NDArray[Any] | bytes, labels: Labels) -> NDArray[np.float64]:
    """Numbers, or −1 and +1 for the labels that are stated, which may be words."""
    values = np.asarray(values)  # what is no array comes as bytes
    if not labels:
        return _numbers(path, values, 1).astype(np.float64)
    if values.ndim != 1 or values.dtype.kind not in "biufU" or not values.size:
        raise BadInput(f"{path}: `targets` is {values.dtype} of shape {values.shape}; labels of shape (N,) expected")
    found, first, which = np.unique(values, return_index=True, return_inverse=True)
    signs = np.empty(len(found))
    for k in np.argsort(first):  # so that the first wrong one of the file is named
        signs[k] = signed(f"{path}: targets[{first[k]}] (from 0)", found[k].item(), labels)
    return signs[which]


def _numbers(path: Path, values: NDArray[Any] | bytes, dimensions: int) -> NDArray[Any]:
    """One array of the file, once it is checked."""
    values = np.asarray(values)  # what is no array comes as bytes
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
        return text.isascii() and "_" not in text and isfinite(float(text))
    except ValueError:
        return False


def _csv(path: Path, stated: Stated) -> Arrays:
    data = content(path)
    numbers, targets, width, first = array("d"), array("d"), stated.columns + 1 if stated.columns else 0, True
    for line, start, end in lines(data):
        place = f"{path}: line {line}"
        entries = bytes(data[start:end]).decode("utf-8-sig", errors="replace").split(",")
        if first and not width:
            width = len(entries)
        if width < 2:
            raise BadInput(f"{place}: one column; features and then the target expected, separated by commas")
        if len(entries) != width:
            made = f"data.columns = {stated.columns} and a target make {width}"
            raise BadInput(
                f"{place}: {len(entries)} entries, but {made if stated.columns else f'{width} in the first line'}"
            )
        words = entries[:-1] if stated.labels else entries
        good = list(map(_finite, words))
        names, first = first and (not any(good) if stated.header is None else stated.header), False
        if names:
            continue
        if not all(good):
            column, remedy = good.index(False), "; data.header says whether the first line holds names" * (not targets)
            entry = shown(words[column].strip())
            raise BadInput(f"{place}, column {column + 1}: {entry} is not a finite number{remedy}")
        row = list(map(float, words))
        if wrong := unfit(largest := max(row, key=abs)):
            column = row.index(largest)
            raise BadInput(f"{place}, column {column + 1}: {shown(entries[column].strip())} {wrong}")
        numbers.extend(row[: width - 1])
        targets.append(signed(place, entries[-1], stated.labels) if stated.labels else row[-1])
    if not targets:
        raise BadInput(f"{path}: empty: no line of numbers")
    return np.frombuffer(numbers).reshape(-1, width - 1), np.frombuffer(targets)
