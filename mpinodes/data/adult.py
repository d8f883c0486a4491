"""UCI's adult, adult.data and adult.test: rows with a `?` are dropped, the others become 105 features.

These are 98 indicators of the categorical fields' values, then the six numbers divided by public bounds and clipped
to [0, 1], then a constant 1; at last the row is divided by its norm if that exceeds 1. No bound comes from the data,
so none of it tells anything of a person: unlike the maxima of the columns, which `read_by_maxima` divides by. Not 99
indicators: workclass Never-worked occurs only together with an unknown occupation, hence in no row that stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mpinodes.core.errors import BadInput
from mpinodes.data.shelf import Arrays, once
from mpinodes.data.source import Source, content, lines, shown

# The file's fields in order, with their values in the order of adult.names, or the bound that a number is divided by.
_WORKCLASS = "Private Self-emp-not-inc Self-emp-inc Federal-gov Local-gov State-gov Without-pay"
_EDUCATION = (
    "Bachelors Some-college 11th HS-grad Prof-school Assoc-acdm Assoc-voc 9th 7th-8th 12th Masters 1st-4th 10th "
    "Doctorate 5th-6th Preschool"
)
_MARITAL = "Married-civ-spouse Divorced Never-married Separated Widowed Married-spouse-absent Married-AF-spouse"
_OCCUPATION = (
    "Tech-support Craft-repair Other-service Sales Exec-managerial Prof-specialty Handlers-cleaners "
    "Machine-op-inspct Adm-clerical Farming-fishing Transport-moving Priv-house-serv Protective-serv Armed-Forces"
)
_COUNTRY = (
    "United-States Cambodia England Puerto-Rico Canada Germany Outlying-US(Guam-USVI-etc) India Japan Greece South "
    "China Cuba Iran Honduras Philippines Italy Poland Jamaica Vietnam Mexico Portugal Ireland France "
    "Dominican-Republic Laos Ecuador Taiwan Haiti Columbia Hungary Guatemala Nicaragua Scotland Thailand Yugoslavia "
    "El-Salvador Trinadad&Tobago Peru Hong Holand-Netherlands"
)
FIELDS: dict[str, str | float] = {
    "age": 100,
    "workclass": _WORKCLASS,
    "fnlwgt": 1.5e6,
    "education": _EDUCATION,
    "education-num": 16,
    "marital-status": _MARITAL,
    "occupation": _OCCUPATION,
    "relationship": "Wife Own-child Husband Not-in-family Other-relative Unmarried",
    "race": "White Asian-Pac-Islander Amer-Indian-Eskimo Other Black",
    "sex": "Female Male",
    "capital-gain": 99_999,
    "capital-loss": 5000,
    "hours-per-week": 100,
    "native-country": _COUNTRY,
}
LABELS = {"<=50K": -1.0, ">50K": 1.0}
UPSTREAM = {"adult.data": 30_162, "adult.test": 15_060}  # rows without a ?

_CATEGORIES: dict[str, dict[str, int]] = {
    name: {value: code for code, value in enumerate(kind.split())}
    for name, kind in FIELDS.items()
    if isinstance(kind, str)
}
_BOUNDS = np.array([kind for kind in FIELDS.values() if not isinstance(kind, str)])
_IS_NUMBER = np.array([not isinstance(kind, str) for kind in FIELDS.values()])
_STARTS = np.cumsum([0, *map(len, _CATEGORIES.values())])  # the first indicator of each category, then their number
DIMENSION = int(_STARTS[-1]) + len(_BOUNDS) + 1


def _code(place: str, name: str, text: str) -> float:
    """A number as it stands, a category as its place in the list."""
    try:
        return _CATEGORIES[name][text] if name in _CATEGORIES else int(text.replace("_", ":"))  # no 1_0
    except KeyError:
        raise BadInput(f"{place}, {name}: {shown(text)} is none of {', '.join(_CATEGORIES[name])}") from None
    except ValueError:
        raise BadInput(f"{place}, {name}: {shown(text)} is not a whole number") from None


def _dense(codes: NDArray[np.float64], bounds: NDArray[np.float64]) -> NDArray[np.float64]:
    """Codes of the fields (k, 14), bounds of the numbers (6,) -> features (k, 105)."""
    table = np.zeros((len(codes), DIMENSION))
    np.put_along_axis(table, _STARTS[:-1] + codes[:, ~_IS_NUMBER].astype(np.int64), 1.0, axis=1)
    table[:, _STARTS[-1] : -1] = np.clip(codes[:, _IS_NUMBER] / bounds, 0, 1)
    table[:, -1] = 1
    table /= np.maximum(1, np.linalg.norm(table, axis=1, keepdims=True))
    return table


def _sample(place: str, text: str) -> tuple[float, list[float]] | None:
    """Label and codes of a line; None: a value is unknown."""
    *values, label = (field.strip() for field in text.split(","))
    if len(values) != len(FIELDS):
        raise BadInput(f"{place}: {len(values) + 1} fields; {len(FIELDS) + 1} expected, separated by commas")
    if label.removesuffix(".") not in LABELS:
        raise BadInput(f"{place}, field {len(FIELDS) + 1}, income: {shown(label)} is neither <=50K nor >50K")
    if "?" in values:
        return None
    named = enumerate(zip(FIELDS, values, strict=True), 1)
    return LABELS[label.removesuffix(".")], [_code(f"{place}, field {i}", *field) for i, field in named]


@dataclass(frozen=True)
class _Rows:
    """The complete rows of a file: targets (N,) and codes (N, 14)."""

    path: Path
    targets: NDArray[np.float64]
    codes: NDArray[np.float64]

    def source(self, bounds: NDArray[np.float64]) -> Source:
        return Source(
            self.targets,
            DIMENSION,
            lambda rows: _dense(self.codes[rows], bounds),
            UPSTREAM.get(self.path.name),
            (self.path,),
        )


def _rows(path: Path) -> _Rows:
    targets, codes = once(path, "adult", lambda: _read(path))
    return _Rows(path, targets, codes)


def _read(path: Path) -> Arrays:
    """Targets (N,) and codes (N, 14) of the complete rows."""
    data = content(path)
    targets, codes = [], []
    for number, start, end in lines(data):
        text = bytes(data[start:end]).decode(errors="replace")
        if number == 1 and text.startswith("|"):
            continue  # the line on top of adult.test
        if sample := _sample(f"{path}: line {number}", text):
            targets.append(sample[0])
            codes.append(sample[1])
    if not targets:
        raise BadInput(f"{path}: empty: no line without a ?")
    return np.array(targets), np.array(codes, np.float64)


def read(path: Path) -> Source:
    """Income <=50K −1, >50K +1, of the complete rows; dense features of norm at most 1.

    Raises:
        BadInput: missing, empty, truncated or not this file; names file, line and field.
    """
    return _rows(path).source(_BOUNDS)


def read_by_maxima(paths: Sequence[Path]) -> list[Source]:
    """As `read`, but every number is divided by its largest in all the files together, instead of a public bound.

    Raises:
        BadInput: see `read`.
    """
    files = [_rows(path) for path in paths]
    maxima = np.max([file.codes[:, _IS_NUMBER].max(axis=0) for file in files], axis=0)
    # An indicator's maximum is 1 or 0 as it is. Numbers are whole: a column whose maximum is below 1 is clipped to 0.
    bounds = np.maximum(maxima, 1)
    return [file.source(bounds) for file in files]
