"""A file of one's own: .npz, .csv, .parquet or LIBSVM text."""

from __future__ import annotations

import csv
import re
import zipfile
import zlib
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isfinite, nan
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpinodes.core.errors import BadInput
from mpinodes.data import libsvm
from mpinodes.data.shelf import Arrays, once
from mpinodes.data.source import LARGEST, Labels, Source, content, lines, listed, number_of, shown, signed, unfit

INDEX = ("unnamed: 0", "__index_level_0__")  # what pandas and others call an index that has no name
# What pandas, R and polars may call an index, and a user a feature; in lower case.
_may_be_index = re.compile(r"x|v1||index|level_\d+|unnamed\W*_*\d+|row[._]?(names?|nr|index|id)|\.\.\.1").fullmatch
DROP = "is an index that was written along: drop it (index=False), or name it"
SPARSE = (".libsvm", ".svm", ".txt")


@dataclass(frozen=True)
class FileFacts:
    """What is known of a file without looking at its samples.

    Attributes:
        columns: Features of a sample; 0: as many as the file has.
        labels: The two that become −1 and +1; empty: targets are numbers, and stay as they are.
        header: Whether the first line of a .csv holds names; None: where none of its entries is a number. A line of
            numbers alone may be either, and has to be stated.
        target: The name of the column that is the target; empty: the last.
    """

    columns: int = 0
    labels: Labels = ()
    header: bool | None = None
    target: str = ""


NOTHING = FileFacts()


def read(path: Path, stated: FileFacts = NOTHING) -> Source:
    """Targets and features of a file, which is told by the end of its name.

    `.npz`: arrays `features` (N, d) and `targets` (N,), dense. `.csv`: numbers separated by commas, perhaps with a
    line of names on top, and `.parquet`: columns of numbers; the target is the last column, or the one that is stated.
    `.libsvm`, `.svm`, `.txt`, also with `.gz` or `.bz2`: LIBSVM text. All numbers of an .npz, .csv or .parquet are held
    for as long as the `Source` lives, by the ranks of a host together.

    Raises:
        BadInput: missing, empty, malformed, an entry that is not finite, not what is stated, or another kind; names
            file and place.
    """
    if stated.header is not None and path.suffix != ".csv":
        raise BadInput(f"{path}: data.header is for a .csv; leave it out")
    ending = Path(path.name.removesuffix(".gz").removesuffix(".bz2")).suffix
    if stated.target and path.suffix not in (".csv", ".parquet"):
        raise BadInput(f"{path}: data.target names a column of a .csv or .parquet")
    if path.suffix in DENSE:
        features, targets, names = once(path, repr(stated), lambda: DENSE[path.suffix](path, stated))
        for name, column in zip(names[:-1].tolist(), features.T, strict=False):  # an .npz has no names
            if not stated.columns and _may_be_index(name.lower()) and _numbers_rows(column, name):
                raise BadInput(f"{path}: column {name!r} {DROP}; or, with it, state data.columns={features.shape[1]}")

        def chosen(rows: NDArray[np.int64]) -> NDArray[np.float64]:
            return np.asarray(features[rows], np.float64)

        return Source(targets, features.shape[1], chosen, None, (path,), columns=tuple(names.tolist()))
    if ending in SPARSE:
        return libsvm.read(path, stated.columns or None, stated.labels)
    raise BadInput(
        f"{path}: a file of one's own ends in .npz, .csv, .parquet or {', '.join(SPARSE)} (also .gz, .bz2 after these)"
    )


def _npz(path: Path, stated: FileFacts) -> Arrays:
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
    except (EOFError, NotImplementedError, TypeError, ValueError, zipfile.BadZipFile, zlib.error) as error:
        raise BadInput(f"{path}: not an .npz of `features` and `targets`, all numbers: {error}") from error
    if len(features) != len(targets):
        raise BadInput(f"{path}: {len(features)} rows in `features`, but {len(targets)} in `targets`")
    if stated.columns and features.shape[1] != stated.columns:
        raise BadInput(f"{path}: `features` has {features.shape[1]} columns; {stated.columns} expected (data.columns)")
    return features, targets, np.array([], str)


def _targets(path: Path, values: NDArray[Any] | bytes, labels: Labels) -> NDArray[np.float64]:
    """Numbers, or −1 and +1 for the labels that are stated, which may be words."""
    values = np.asarray(values)  # what is no array comes as bytes
    if not labels:
        return _numbers(path, values, 1).astype(np.float64)
    if values.ndim != 1 or values.dtype.kind not in "biufU" or not values.size:
        raise BadInput(f"{path}: `targets` is {values.dtype} of shape {values.shape}; labels of shape (N,) expected")
    return np.array([signed(f"{path}: targets[{k}] (from 0)", word, labels) for k, word in enumerate(values.tolist())])


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


def _entries(place: str, line: str) -> list[str]:
    """Of a line of a .csv, which may be in quotes."""
    try:
        return next(csv.reader([line], skipinitialspace=True)) if '"' in line else line.split(",")
    except csv.Error as error:
        raise BadInput(f"{place}: {error}") from error


def _holds_names(place: str, entries: Sequence[str], stated: FileFacts) -> bool:
    """Whether the first line does.

    Raises:
        BadInput: it is not stated, and nobody can tell.
    """
    if stated.header is not None:
        if stated.target and not stated.header:
            raise BadInput(
                f"{place}: data.target = {stated.target!r} names a column, and data.header=false says none has"
            )
        return stated.header
    finite = [isfinite(number_of(entry)) for entry in entries]
    if all(finite):
        raise BadInput(
            f"{place}: numbers alone, which may be names or the first sample: set data.header=true or data.header=false"
        )
    return not any(finite[:-1] if stated.labels and not stated.target else finite)


def _place_of(place: str, target: str, names: Sequence[str]) -> tuple[int, NDArray[np.str_]]:
    """Return the place of the target among the columns, and the names of the features and then of the target.

    Raises:
        BadInput: none, or more than one, has its name; or a column is an index that was written along.
    """
    stripped, target = [name.strip() for name in names], target.strip()
    if index := [name for k, name in enumerate(stripped) if name.lower().startswith(INDEX) or not (name or k)]:
        raise BadInput(f"{place}: column {index[0]!r} {DROP}")
    if target and stripped.count(target) != 1:
        number = stripped.count(target)
        raise BadInput(
            f"{place}: data.target = {target!r}: {number or 'no'} columns have that name; there are {listed(stripped)}"
        )
    at = stripped.index(target) if target else len(stripped) - 1
    stripped.append(stripped.pop(at))
    return at, np.array(stripped)


def _numbers_rows(column: NDArray[np.float64], name: str) -> bool:
    """Return whether a column has a whole number of its own in each row, and consecutive ones if `name` is X or V1."""
    is_plain = name.upper() in ("X", "V1", "")
    steps = np.diff(column if is_plain else np.sort(column))
    return len(steps) > 0 and bool((steps > 0).all() and (column % 1 == 0).all() and (steps.max() == 1 or not is_plain))


def _column(place: int, at: int, width: int) -> int:
    """The number, from 1, of a column of the file, by its place in a row whose target is last."""
    at %= width
    return at + 1 if place == width - 1 else place + 1 + (place >= at)


def _csv(path: Path, stated: FileFacts) -> Arrays:
    data = content(path)
    numbers, targets, width, first = array("d"), array("d"), stated.columns + 1 if stated.columns else 0, True
    at, names = -1, np.array([], str)  # the target's place
    for line, start, end in lines(data):
        place = f"{path}: line {line}"
        entries = _entries(place, bytes(data[start:end]).decode("utf-8-sig", errors="replace"))
        if first and not width:
            width = len(entries)
        mark = next((f", not by {mark!r}" for mark in ";\t|" if len(entries) == 1 and mark in entries[0]), "")
        if width < 2 or mark:
            raise BadInput(f"{place}: one column; features and then the target expected, separated by commas{mark}")
        if len(entries) != width:
            made = f"data.columns = {stated.columns} and a target make {width}"
            raise BadInput(
                f"{place}: {len(entries)} entries, but {made if stated.columns else f'{width} in the first line'}"
            )
        if first and _holds_names(place, entries, stated):
            first, (at, names) = False, _place_of(place, stated.target, entries)
            continue
        first = False
        target = entries.pop(at)
        words = entries if stated.labels else [*entries, target]
        row = list(map(number_of, words))
        good = list(map(isfinite, row))
        if not all(good):
            column, remedy = good.index(False), "; data.header says whether the first line holds names" * (not targets)
            if column == width - 1:
                remedy += "; data.labels states labels that are words"
            entry = shown(words[column].strip())
            raise BadInput(f"{place}, column {_column(column, at, width)}: {entry} is not a finite number{remedy}")
        if wrong := unfit(largest := max(row, key=abs)):
            column = row.index(largest)
            raise BadInput(f"{place}, column {_column(column, at, width)}: {shown(words[column].strip())} {wrong}")
        numbers.extend(row[: width - 1])
        targets.append(signed(place, target, stated.labels) if stated.labels else row[-1])
    if not targets:
        raise BadInput(f"{path}: empty: no line of numbers")
    return np.frombuffer(numbers).reshape(-1, width - 1), np.frombuffer(targets), names


def _parquet(path: Path, stated: FileFacts) -> Arrays:
    if not path.is_file():
        raise BadInput(f"{path}: cannot be read: there is no such file")
    import pandas

    try:
        frame = pandas.read_parquet(path)
    except ImportError as error:
        raise BadInput(f"{path}: pandas reads Parquet with pyarrow or fastparquet: pip install pyarrow") from error
    except MemoryError as error:
        raise BadInput(f"{path}: does not fit the memory: {error}") from error
    except Exception as error:  # whatever its reader meets, it is the file
        raise BadInput(f"{path}: not Parquet: {type(error).__name__}: {str(error).splitlines()[0]}") from error
    require_no_index(frame, stated.target, str(path))
    names = [str(name) for name in frame.columns]
    if len(names) < 2 or not len(frame):
        raise BadInput(f"{path}: {len(frame)} rows of {len(names)} columns: features and a target expected")
    if stated.columns and len(names) != stated.columns + 1:
        raise BadInput(
            f"{path}: {len(names)} columns, but data.columns = {stated.columns} and a target make {stated.columns + 1}"
        )
    at, ordered = _place_of(str(path), stated.target, names)
    features = np.empty((len(frame), len(names) - 1))
    for place, column in enumerate(k for k in range(len(names)) if k != at):
        features[:, place] = _column_of(path, names[column], frame.iloc[:, column])
    target = frame.iloc[:, at]
    if not stated.labels:
        return features, _column_of(path, names[at], target), ordered
    where = f"{path}: column {names[at]!r}, row "
    if (missing := target.isna().to_numpy()).any():
        raise BadInput(f"{where}{missing.argmax()} (from 0) is missing: a label expected")
    words = [value if isinstance(value, (int, float, str)) else str(value) for value in target.tolist()]
    signs = [signed(f"{where}{row} (from 0)", word, stated.labels) for row, word in enumerate(words)]
    return features, np.array(signs), ordered


def require_no_index(frame: Any, target: str, where: str) -> None:
    """Refuse the name of a data frame's index as its target; unless asked for, an index is left out.

    Raises:
        BadInput: says how the index becomes a column.
    """
    if target.strip() in {str(name).strip() for name in frame.index.names} - {*map(str.strip, map(str, frame.columns))}:
        raise BadInput(f"{where}: {target!r} is its index, and no column: reset_index() makes it one")


def _column_of(path: Path, name: str, column: Any) -> NDArray[np.float64]:
    """One of a data frame's, once it is checked; categories, decimals and texts may be numbers, as in a .csv."""
    numeric = column.dtype.kind in "biuf"
    words = map(str, column)
    values = np.asarray(column.to_numpy(np.float64, na_value=nan) if numeric else list(map(number_of, words)))
    wrong = np.flatnonzero(~(np.abs(values) <= LARGEST))
    if len(wrong):
        row, value = wrong[0], float(values[wrong[0]])
        entry = f"{value:g}" if numeric else shown(str(column.iloc[row]))
        remedy = "" if numeric else "; words become numbers by pandas.get_dummies"
        raise BadInput(f"{path}: column {name!r}, row {row} (from 0) is {entry}: it {unfit(value)}{remedy}")
    return values


DENSE: dict[str, Callable[[Path, FileFacts], Arrays]] = {".npz": _npz, ".csv": _csv, ".parquet": _parquet}
