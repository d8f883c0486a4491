"""Read a user's own data file (.npz, .csv, .parquet or LIBSVM text), and write a user's data frame to a .csv.

Python's module csv reads .csv files, and pandas reads .parquet files. pandas would name neither the line nor the column
of an entry of a .csv that is no number, and would fill up short lines.
"""

from __future__ import annotations

import csv
import re
import shlex
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from math import isfinite, isnan, nan
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mpinodes.core.errors import BadInput
from mpinodes.data import libsvm
from mpinodes.data.shelf import Arrays, once
from mpinodes.data.source import LARGEST, Labels, Source, lines, listed, number_of, shown, signs, unfit

INDEX = ("unnamed: 0", "__index_level_0__")  # the names that libraries give to an index without a name
# Names, in lower case, that pandas, R and polars may give to an index, and that a user may also give to a feature.
_may_be_index = re.compile(r"x|v1||index|level_\d+|unnamed\W*_*\d+|row[._]?(names?|nr|index|id)|\.\.\.1").fullmatch
SEEMS_AN_INDEX = "seems to be the index of a data frame: drop this column (index=False), or give the column a name"
FOLDER = Path("runs", "frames")  # the folder to which data frames are written
MISSING = ("", "?", "na", "n/a", "nan", "null", "none")  # entries, in lower case, that stand for a missing value
SPARSE = (".libsvm", ".svm", ".txt")


@dataclass(frozen=True)
class FileFacts:
    """Hold what the user states about a data file.

    Attributes:
        columns: the number of features of a sample; 0: as many as the file has.
        labels: the possible labels. Two labels become the targets −1 and +1, and more labels become 0, 1, ... If
            `labels` is empty, the targets in the file must be numbers.
        header: whether the first line of a .csv contains column names; None: the reader decides (`_seem_names`).
        target: the name of the target's column; empty: the last column is the target.
    """

    columns: int = 0
    labels: Labels = ()
    header: bool | None = None
    target: str = ""


NOTHING = FileFacts()


def read(path: Path, stated: FileFacts = NOTHING) -> Source:
    """Return the samples of a user's file. The ending of the file's name tells the format.

    - `.npz`: dense arrays `features` (N, d) and `targets` (N,).
    - `.csv`: numbers separated by commas. The first line may contain names.
    - `.parquet`: columns of numbers, or of texts of numbers.
    - `.libsvm`, `.svm`, `.txt`, also with `.gz` or `.bz2`: LIBSVM text.

    The target of a .csv or .parquet is its last column, or the column that the user states.

    Raises:
        BadInput: the file is missing, empty or malformed, has an unknown ending or an entry that is not finite, or
            contradicts a stated fact; the message names file and place.
    """
    if stated.header is not None and path.suffix != ".csv":
        raise BadInput(f"{path}: data.header is for .csv files only; leave data.header out")
    ending = Path(path.name.removesuffix(".gz").removesuffix(".bz2")).suffix
    if stated.target and path.suffix not in (".csv", ".parquet"):
        raise BadInput(
            f"{path}: data.target names a column of a .csv or .parquet file, and this file has no named columns; "
            "leave data.target out"
        )
    if path.suffix in DENSE:
        features, targets, names = once(path, repr(stated), lambda: _checked(path, stated))
        width, columns = features.shape[1], tuple(names.tolist())
        return Source(targets, width, lambda rows: np.asarray(features[rows], float), files=(path,), columns=columns)
    if ending in SPARSE:
        return libsvm.read(path, stated.columns or None, stated.labels)
    endings = f".npz, .csv, .parquet or {', '.join(SPARSE)}; only the last three may be followed by .gz or .bz2"
    raise BadInput(f"{path}: the name of a data file must end in {endings}")


class _Table(NamedTuple):
    """Hold the content of an .npz, .csv or .parquet file before its entries are checked.

    Attributes:
        features: (N, d); NaN stands for an entry that is no number.
        targets: (N,) numbers; or, if the user states labels, a list of the N targets as they are in the file.
        names: the names of the features, then the name of the target; empty if the file has no names.
        where: maps the row and the column of an entry to three texts for an error message: the entry's place in the
            file, the entry, and a remedy if the entry is no number. Column d is the target.
    """

    features: NDArray[Any]
    targets: NDArray[np.float64] | list[Any]
    names: Sequence[str]
    where: Callable[[int, int], tuple[str, str, str]]


def _checked(path: Path, stated: FileFacts) -> Arrays:
    """Return features, targets and names of an .npz, .csv or .parquet file. All entries are checked.

    Raises:
        BadInput: as in `read`.
    """
    features, targets, names, where = DENSE[path.suffix](path, stated)
    width = features.shape[1]
    if stated.columns and width != stated.columns:
        expected = f"data.columns = {stated.columns} and a target make {stated.columns + 1}"
        raise BadInput(f"{path}: {width + 1} columns with the target, but {expected}")

    def require_fit(values: NDArray[Any], start: int) -> None:
        for row, column in np.argwhere(~(np.abs(values) <= np.float64(LARGEST)))[:1]:  # 1e100 is inf in float32
            value, (place, entry, remedy) = float(values[row, column]), where(row, start + column)
            raise BadInput(f"{path}: {place}: {entry} {unfit(value)}{'' if isfinite(value) else remedy}")

    require_fit(features, 0)
    if isinstance(targets, list):
        targets = signs(targets, stated.labels, lambda row: f"{path}: {where(row, width)[0]}")
    require_fit(targets[:, None], width)
    for name, column in zip(names[:-1], features.T, strict=False):  # an .npz has no names
        if not stated.columns and _may_be_index(name.lower()) and _numbers_rows(column, name):
            raise BadInput(f"{path}: column {name!r} {SEEMS_AN_INDEX}; if it is a feature, set data.columns={width}")
    return features, targets, np.array(names, str)


def _npz(path: Path, stated: FileFacts) -> _Table:
    try:
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            names = ", ".join(file)
            arrays = [np.asarray(file[name]) for name in ("features", "targets") if name in file]
    except Exception as error:  # whatever fails, the reason is the file
        raise BadInput(f"{path}: not an .npz of `features` and `targets`, all numbers: {error}") from error
    if len(arrays) < 2:
        expected = "dense `features` (N, d) and `targets` (N,) expected (write sparse features as LIBSVM text)"
        raise BadInput(f"{path}: the file has the arrays {names}; {expected}")
    features, targets = arrays
    kinds = "biufU" if stated.labels else "biuf"
    for name, values, shape, allowed in (("features", features, "(N, d)", "biuf"), ("targets", targets, "(N,)", kinds)):
        if values.ndim != len(shape.split()) or values.dtype.kind not in allowed or not values.size:
            problem = f"`{name}` is {values.dtype} of shape {values.shape}"
            raise BadInput(f"{path}: {problem}; numbers of shape {shape} expected")
    if len(features) != len(targets):
        raise BadInput(f"{path}: {len(features)} rows in `features`, but {len(targets)} in `targets`")

    def where(row: int, column: int) -> tuple[str, str, str]:
        if column == features.shape[1]:
            return f"targets[{row}] (from 0)", str(targets[row]), ""
        return f"features[{row}, {column}] (row first, from 0)", str(features[row, column]), ""

    return _Table(features, targets.tolist() if stated.labels else targets.astype(np.float64), [], where)


def _rows(path: Path, stated: FileFacts) -> Iterator[tuple[int, list[str]]]:
    """Yield the line number and the entries of each line of a .csv. Blank lines are skipped.

    Raises:
        BadInput: a line cannot be split, has a single entry, or has a number of entries that contradicts data.columns
            or the first line; the message names the line.
    """
    width = stated.columns + 1 if stated.columns else 0
    for number, line in lines(path):
        place, text = f"{path}: line {number}", line.decode("utf-8-sig", errors="replace")
        try:
            entries = next(csv.reader([text], skipinitialspace=True)) if '"' in text else text.split(",")
        except csv.Error as error:
            raise BadInput(f"{place}: no entries separated by commas can be read: {error}") from error
        if len(entries) == 1:
            mark = next((f", not by {mark!r}" for mark in ";\t|" if mark in text), "")
            raise BadInput(f"{place}: one column found; features and a target expected, separated by commas{mark}")
        width = width or len(entries)
        if len(entries) != width:
            expected = f"data.columns = {stated.columns} and a target make" if stated.columns else "the first line has"
            raise BadInput(f"{place}: {len(entries)} entries, but {expected} {width}")
        yield number, entries


def _csv(path: Path, stated: FileFacts) -> _Table:
    rows = _rows(path, stated)
    number, first = next(rows, (0, [""]))
    names: list[str] = []
    order = list(range(len(first)))
    if number:
        place, has_names = f"{path}: line {number}", stated.header
        if stated.target and has_names is False:
            raise BadInput(f"{place}: data.target = {stated.target!r} names a column: leave data.header=false out")
        if has_names or (has_names is None and _seem_names(first, stated.target)):
            names, order = _ordered(place, stated.target, first)
        else:
            rows = chain([(number, first)], rows)
    numbers, targets, places = array("d"), [], array("q")
    for number, entries in rows:
        targets.append(entries.pop(order[-1]))
        numbers.extend(map(number_of, entries))
        places.append(number)
    if not targets:
        raise BadInput(f"{path}: empty: no line of numbers")

    def where(row: int, column: int) -> tuple[str, str, str]:
        entries = next(entries for number, entries in _rows(path, stated) if number == places[row])
        remedy = "; data.header says whether the first line holds names" if row == 0 and not names else ""
        if entries[order[column]].strip().lower() in MISSING:
            remedy += "; fill in missing values by a public constant, or leave out their samples"
        elif column == len(order) - 1:
            remedy += """; data.labels states labels that are words: type 'data.labels=["no", "yes"]', quotes and all"""
        elif isnan(number_of(entries[order[column]])):
            titles: Sequence[str | int] = names or order  # pandas numbers columns without names
            words = [name for name, k in zip(titles[:-1], order[:-1], strict=True) if isnan(number_of(entries[k]))]
            file = path.name if path.parent in (Path(), Path.cwd()) else str(path)
            reading = f"pandas.read_csv({file!r}{', header=None' * (not names)})"
            dummies = f"pandas.get_dummies({reading}, columns={words}, dtype=int)"
            target = shlex.quote(f"data.target={titles[column]}")
            remedy += f"; if {titles[column]!r} is the target, set {target}" * bool(names and not stated.target)
            remedy += f"; leave an identifier out; make numbers of words: {dummies}.to_csv('new.csv', index=False)"
            remedy += f", and use new.csv (data.file=new.csv) with data.target={'<column>' if names else titles[-1]}"
        return f"line {places[row]}, column {order[column] + 1}", shown(entries[order[column]].strip()), remedy

    features = np.frombuffer(numbers).reshape(len(targets), -1)
    return _Table(features, targets if stated.labels else np.array([*map(number_of, targets)]), names, where)


def _seem_names(entries: Sequence[str], target: str) -> bool:
    """Return whether the first line of a .csv seems to contain the names of columns.

    The line contains names in three cases: the user states the target's name; no entry is a number; or the entries
    count the columns from 0, as pandas names columns without names. At least three features must be counted if the
    target's column has a name that is no number.
    """
    numbers = [number_of(entry) for entry in entries]
    is_count = numbers[:-1] == list(range(len(numbers) - 1))
    is_counted = is_count and (numbers[-1] == len(numbers) - 1 or (len(numbers) > 3 and isnan(numbers[-1])))
    return bool(target) or not any(map(isfinite, numbers)) or is_counted


def _ordered(place: str, target: str, names: Sequence[str]) -> tuple[list[str], list[int]]:
    """Return the names and the indices of the columns, with the column of the target moved to the end.

    Raises:
        BadInput: no column or more than one column has the target's name, or a column is the index of a data frame.
    """
    stripped, target = [name.strip() for name in names], target.strip()
    if index := [name for k, name in enumerate(stripped) if name.lower().startswith(INDEX) or not (name or k)]:
        raise BadInput(f"{place}: column {index[0]!r} {SEEMS_AN_INDEX}")
    if target and stripped.count(target) != 1:
        number = stripped.count(target) or "no"
        raise BadInput(
            f"{place}: data.target = {target!r}: {number} columns have that name; the columns are {listed(stripped)}"
        )
    order = list(range(len(names)))
    order.append(order.pop(stripped.index(target) if target else -1))
    return [stripped[k] for k in order], order


def _numbers_rows(column: NDArray[np.float64], name: str) -> bool:
    """Return whether a column looks like the index of a data frame: a number for each row, made by a library.

    - If the column has the name X or V1, or no name: it is an index if each number is a whole number, and 1 more than
      the number before.
    - If the column has another name: it is an index if the numbers are whole numbers and all different.

    The result is false if there is only one row.
    """
    is_plain = name.upper() in ("X", "V1", "")
    steps = np.diff(column if is_plain else np.sort(column))
    return len(steps) > 0 and bool((steps > 0).all() and (column % 1 == 0).all() and (steps.max() == 1 or not is_plain))


def _parquet(path: Path, stated: FileFacts) -> _Table:
    import pandas

    try:
        frame = pandas.read_parquet(path)
    except ImportError as error:
        raise BadInput(f"{path}: to read Parquet, pandas needs pyarrow or fastparquet: pip install pyarrow") from error
    except Exception as error:  # whatever fails, the reason is the file
        raise BadInput(f"{path}: not Parquet: {type(error).__name__}: {str(error).splitlines()[0]}") from error
    require_no_index(frame, stated.target, str(path))
    if len(frame.columns) < 2 or not len(frame):
        raise BadInput(f"{path}: {len(frame)} rows of {len(frame.columns)} columns: features and a target expected")
    names, order = _ordered(str(path), stated.target, [str(name) for name in frame.columns])
    frame = frame.iloc[:, order]

    def where(row: int, column: int) -> tuple[str, str, str]:
        remedy = "" if frame.dtypes.iloc[column].kind in "biuf" else "; pandas.get_dummies turns words into numbers"
        return f"column {names[column]!r}, row {row} (from 0)", shown(str(frame.iloc[row, column])), remedy

    columns = [frame.iloc[:, k] for k in range(len(names))]
    features, target = np.column_stack([_numbers(column) for column in columns[:-1]]), columns[-1]
    if not stated.labels:
        return _Table(features, _numbers(target), names, where)
    if (missing := target.isna().to_numpy()).any():
        raise BadInput(f"{path}: {where(int(missing.argmax()), len(names) - 1)[0]} is missing: a label expected")
    words = [value if isinstance(value, (int, float, str)) else str(value) for value in target.tolist()]
    return _Table(features, words, names, where)


def _numbers(column: Any) -> NDArray[np.float64]:
    """Return a column of a data frame as floats. The entries may be numbers, or texts of numbers."""
    if column.dtype.kind in "biuf":
        return np.asarray(column.to_numpy(np.float64, na_value=nan))
    return np.array([number_of(str(entry)) for entry in column])


def require_no_index(frame: Any, target: str, where: str) -> None:
    """Raise an error if the name of the target names the index of a data frame, and not one of its columns.

    Args:
        frame: the data frame.
        target: the name of the target.
        where: the file or key that the error message begins with.

    Raises:
        BadInput: the target names the index; the message says how to turn the index into a column.
    """
    if target.strip() in {str(name).strip() for name in frame.index.names} - {*map(str.strip, map(str, frame.columns))}:
        raise BadInput(
            f"{where}: the target {target!r} is the index of the data frame: reset_index() makes the index a column"
        )


def kept(data: dict[str, Any]) -> dict[str, Any]:
    """Write a user's data frame to a .csv in the folder runs/frames, and use this file as the data of the experiment.

    The name of the file contains a number. If an earlier file has the same content, that file is used.

    Args:
        data: the section `data` of an experiment, in which the value of `file` is a data frame.

    Returns:
        A copy of the section, with the path of the .csv as the value of `file`, and with `header` = True.

    Raises:
        BadInput: `file` is no data frame; the target names the index; a name of a column is empty, not printable or not
            distinct; a value is missing, although the labels do not include the empty text; or the .csv cannot be
            written.
    """
    frame = data["file"]
    if not (hasattr(frame, "columns") and hasattr(frame, "to_csv")):
        raise BadInput(f"data.file: expected the path of a file, or a pandas data frame, not a {type(frame).__name__}")
    target = str(data.get("target", ""))  # str, because the name of a column may be a number
    require_no_index(frame, target, "data.file")
    names = [str(name) for name in frame.columns]
    if wrong := [name for name, n in Counter(names).items() if n > 1 or not (name and name.isprintable())]:
        raise BadInput(
            f"data.file: column {wrong[0]!r} of the data frame: each column needs a name of printable characters that "
            "no other column has"
        )
    missing, labels = frame.isna().to_numpy(), data.get("labels")
    if missing.any() and not (isinstance(labels, list) and "" in labels):  # the label "" stands for a missing value
        row, column = divmod(int(missing.argmax()), len(names))
        raise BadInput(f"data.file: column {names[column]!r}, row {row} (from 0) is missing: a value expected")
    frame = frame.set_axis(names, axis=1)  # pandas writes names of several levels in several lines
    numbers = {"b": "Int64", "f": "Float64"}  # for true and false as 1 and 0, and all digits of float32
    kinds = {name: numbers[k.kind] for name, k in frame.dtypes.items() if k.kind in numbers and k != "float64"}
    content = frame.astype(kinds).to_csv(index=False).encode()
    number = 1  # not a hash of the content, which would reveal something about private rows
    try:
        FOLDER.mkdir(parents=True, exist_ok=True)
        while True:
            path = FOLDER / f"frame-{number}.csv"
            with suppress(FileExistsError), path.open("xb") as file:
                file.write(content)
            if path.stat().st_size == len(content) and path.read_bytes() == content:
                return data | {"file": str(path), "header": True} | ({"target": target} if "target" in data else {})
            number += 1
    except OSError as error:
        raise BadInput(f"{FOLDER}: cannot be written: {error.strerror}") from error


DENSE: dict[str, Callable[[Path, FileFacts], _Table]] = {".npz": _npz, ".csv": _csv, ".parquet": _parquet}
