"""Read UCI's text files of categories and whole numbers: one row per line, fields separated by commas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mpinodes.core.errors import BadInput
from mpinodes.data.shelf import once
from mpinodes.data.source import lines, shown


def codes(path: Path, fields: Mapping[str, Sequence[str]], missing: str = "") -> NDArray[np.float64]:
    """Return the fields of all rows of a file as numbers, in an array (N, number of fields).

    A whole number stays as it is. A category becomes its index in the field's list of categories.

    Args:
        path: the file. A first line that begins with `|`, and a period at the end of a line, are ignored.
        fields: maps the name of each field, in the order of the file, to the list of its categories. An empty list
            means that the field has whole numbers.
        missing: the text that stands for a missing value. A row with this text in any field except the last is left
            out. An empty text means that no row is left out.

    Raises:
        BadInput: the file cannot be read, a row does not have these fields, or no row is left; the message names the
            file and, if a row is wrong, the line.
    """
    return once(path, "coded", lambda: [_read(path, fields, missing)])[0]


def _read(path: Path, fields: Mapping[str, Sequence[str]], missing: str) -> NDArray[np.float64]:
    table = []
    for number, line in lines(path):
        if number == 1 and line.startswith(b"|"):
            continue
        place = f"{path}: line {number}"
        values = [value.strip() for value in line.decode(errors="replace").strip().removesuffix(".").split(",")]
        if len(values) != len(fields):
            raise BadInput(f"{place}: {len(values)} fields found; {len(fields)} fields separated by commas expected")
        is_whole, row = missing not in values[:-1] or not missing, []
        for field, name, value in list(zip(count(1), fields, values, strict=False))[0 if is_whole else -1 :]:
            try:
                row.append(fields[name].index(value) if fields[name] else int(value.replace("_", ":")))  # no 1_0
            except ValueError as error:
                problem = f"none of {', '.join(fields[name])}" if fields[name] else "not a whole number"
                raise BadInput(f"{place}, field {field}, {name}: {shown(value)} is {problem}") from error
        if is_whole:
            table.append(row)
    if not table:
        raise BadInput(f"{path}: empty: no line" + f" without a {missing}" * bool(missing))
    return np.array(table, np.float64)


def put_ones(table: NDArray[np.float64], places: NDArray[np.float64], categories: Sequence[Sequence[str]]) -> None:
    """Set the indicators of the categories of each row to 1, in place.

    Args:
        table: (k, d) zeros, which are changed. The first columns are the indicators: a column for each possible value
            of each of c categorical fields.
        places: (k, c) for each row and field, the index of the row's value in the list of possible values.
        categories: the c lists of possible values.
    """
    starts = np.cumsum([0, *map(len, categories)])[:-1]
    np.put_along_axis(table, starts + places.astype(np.int64), 1.0, axis=1)
