"""UCI's adult, adult.data and adult.test: rows with a `?` are dropped, the others become 105 features.

These are 98 indicators of the categorical fields' values, then the six numbers divided by public bounds and clipped
to [0, 1], then a constant 1; at last the row is divided by its norm if that exceeds 1. No bound comes from the data,
so none of it tells anything of a person: unlike the maxima of the columns, which `read_by_maxima` divides by. Not 99
indicators: workclass Never-worked occurs only together with an unknown occupation, hence in no row that stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mpinodes.data import coded
from mpinodes.data.source import Source

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
_KINDS: dict[str, str | float] = {
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
    "income": "<=50K >50K",
}
UPSTREAM = {"adult.data": 30_162, "adult.test": 15_060}  # rows without a ?

FIELDS = {name: tuple(kind.split()) if isinstance(kind, str) else () for name, kind in _KINDS.items()}
_IS_NUMBER = np.array([not values for values in FIELDS.values()])
_IS_CATEGORY = ~_IS_NUMBER & (np.array([*FIELDS]) != "income")
_CATEGORIES = [values for name, values in FIELDS.items() if values and name != "income"]
_BOUNDS = np.array([kind for kind in _KINDS.values() if not isinstance(kind, str)])
_INDICATORS = sum(map(len, _CATEGORIES))
DIMENSION = _INDICATORS + len(_BOUNDS) + 1


def read(path: Path, bounds: NDArray[np.float64] = _BOUNDS) -> Source:
    """Return income <=50K as −1, >50K as +1, of the complete rows; dense features of norm at most 1.

    Args:
        path: The file.
        bounds: The numbers that the numeric fields are divided by.

    Raises:
        BadInput: missing, empty, truncated or not this file; names file, line and field.
    """
    codes = coded.codes(path, FIELDS, missing="?")

    def features(rows: NDArray[np.int64]) -> NDArray[np.float64]:
        some = codes[rows]
        table = np.zeros((len(some), DIMENSION))
        coded.put_ones(table, some[:, _IS_CATEGORY], _CATEGORIES)
        table[:, _INDICATORS:-1] = np.clip(some[:, _IS_NUMBER] / bounds, 0, 1)
        table[:, -1] = 1
        table /= np.maximum(1, np.linalg.norm(table, axis=1, keepdims=True))
        return table

    return Source(2 * codes[:, -1] - 1, DIMENSION, features, UPSTREAM.get(path.name), (path,))


def read_by_maxima(paths: Sequence[Path]) -> list[Source]:
    """Read as `read` does, but divide every number by its largest in all the files together, not by a public bound.

    Raises:
        BadInput: see `read`.
    """
    maxima = np.max([coded.codes(path, FIELDS, missing="?")[:, _IS_NUMBER].max(axis=0) for path in paths], axis=0)
    # An indicator's maximum is 1 or 0 as it is. Numbers are whole: a column whose maximum is below 1 is clipped to 0.
    return [read(path, np.maximum(maxima, 1)) for path in paths]
