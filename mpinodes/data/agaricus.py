"""UCI's mushrooms, agaricus-lepiota.data, as the 112 binary features of LIBSVM's `mushrooms`.

LIBSVM leaves out stalk-root, which has missing values, and makes a 0/1 feature of every value that occurs in the
other 21 attributes. Its order of features is not known; here it is that of the file's attributes, and within one
that of UCI's list of values.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mpinodes.core.errors import BadInput
from mpinodes.data.shelf import Arrays, once
from mpinodes.data.source import Source, content, lines, shown

# The values that occur, in the order of agaricus-lepiota.names.
ATTRIBUTES = {
    "cap-shape": "bcxfks",
    "cap-surface": "fgys",
    "cap-color": "nbcgrpuewy",
    "bruises?": "tf",
    "odor": "alcyfmnps",
    "gill-attachment": "af",
    "gill-spacing": "cw",
    "gill-size": "bn",
    "gill-color": "knbhgropuewy",
    "stalk-shape": "et",
    "stalk-root": "bcuezr?",
    "stalk-surface-above-ring": "fyks",
    "stalk-surface-below-ring": "fyks",
    "stalk-color-above-ring": "nbcgopewy",
    "stalk-color-below-ring": "nbcgopewy",
    "veil-type": "p",
    "veil-color": "nowy",
    "ring-number": "not",
    "ring-type": "eflnp",
    "spore-print-color": "knbhrouwy",
    "population": "acnsvy",
    "habitat": "glmpuwd",
}
CLASSES = {"e": -1.0, "p": 1.0}
_KEPT = [name for name in ATTRIBUTES if name != "stalk-root"]
_NAMED = [(name, value) for name in _KEPT for value in ATTRIBUTES[name]]
_COLUMN = {pair: column for column, pair in enumerate(_NAMED)}
UPSTREAM = 8124


def _columns(place: str, values: list[str]) -> list[int]:
    """The features that are 1."""
    for number, (name, value) in enumerate(zip(ATTRIBUTES, values, strict=True), 2):
        if value not in tuple(ATTRIBUTES[name]):
            known = ", ".join(ATTRIBUTES[name])
            raise BadInput(f"{place}: field {number}, {name}: {shown(value)} is none of {known}")
    given = dict(zip(ATTRIBUTES, values, strict=True))
    return [_COLUMN[name, given[name]] for name in _KEPT]


def read(path: Path) -> Source:
    """Edible −1, poisonous +1; dense rows of 112 zeros and ones, 21 ones in each.

    Raises:
        BadInput: missing, empty, truncated or not this file; names file, line and field.
    """
    targets, ones = once(path, "agaricus", lambda: _read(path))

    def features(rows: NDArray[np.int64]) -> NDArray[np.float64]:
        table = np.zeros((len(rows), len(_NAMED)))
        np.put_along_axis(table, ones[rows].astype(np.int64), 1.0, axis=1)
        return table

    return Source(targets, len(_NAMED), features, UPSTREAM, (path,))


def _read(path: Path) -> Arrays:
    """Targets (N,) and the features that are 1, (N, 21)."""
    data = content(path)
    targets, columns = [], []
    for number, start, end in lines(data):
        place = f"{path}: line {number}"
        label, *values = bytes(data[start:end]).decode(errors="replace").strip().split(",")
        if len(values) != len(ATTRIBUTES):
            raise BadInput(f"{place}: {1 + len(values)} fields; {1 + len(ATTRIBUTES)} expected, separated by commas")
        if label not in CLASSES:
            raise BadInput(f"{place}: field 1, class: {shown(label)} is neither e (edible) nor p (poisonous)")
        targets.append(CLASSES[label])
        columns.append(_columns(place, values))
    if not targets:
        raise BadInput(f"{path}: empty: only blank lines")
    return np.array(targets), np.array(columns, np.int16)
