"""Read UCI's Adult data, adult.data and adult.test, with 105 features for each row.

Rows with a missing value (`?`) are left out. Each row has these features:

- 98 indicators of the values of the categorical fields,
- six numeric fields, divided by public bounds and clipped to [0, 1],
- the constant 1.

Each row is then divided by its L2 norm, which is at least 3. The public bounds are not computed from the data, so they
reveal nothing about a person. The function `read_by_maxima` divides by the maxima of the columns instead, which do
reveal something.

The workclass Never-worked has no indicator, because it occurs only in rows with a missing occupation.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mpinodes.data import coded
from mpinodes.data.source import Source

# The fields in the order of the file. A categorical field has its values in the order of UCI's adult.names. A numeric
# field has the public bound by which its numbers are divided.
_KINDS: dict[str, str | float] = {
    "age": 100,
    "workclass": "Private Self-emp-not-inc Self-emp-inc Federal-gov Local-gov State-gov Without-pay",
    "fnlwgt": 1.5e6,
    "education": (
        "Bachelors Some-college 11th HS-grad Prof-school Assoc-acdm Assoc-voc 9th 7th-8th 12th Masters 1st-4th 10th "
        "Doctorate 5th-6th Preschool"
    ),
    "education-num": 16,
    "marital-status": (
        "Married-civ-spouse Divorced Never-married Separated Widowed Married-spouse-absent Married-AF-spouse"
    ),
    "occupation": (
        "Tech-support Craft-repair Other-service Sales Exec-managerial Prof-specialty Handlers-cleaners "
        "Machine-op-inspct Adm-clerical Farming-fishing Transport-moving Priv-house-serv Protective-serv Armed-Forces"
    ),
    "relationship": "Wife Own-child Husband Not-in-family Other-relative Unmarried",
    "race": "White Asian-Pac-Islander Amer-Indian-Eskimo Other Black",
    "sex": "Female Male",
    "capital-gain": 99_999,
    "capital-loss": 5000,
    "hours-per-week": 100,
    "native-country": (
        "United-States Cambodia England Puerto-Rico Canada Germany Outlying-US(Guam-USVI-etc) India Japan Greece South "
        "China Cuba Iran Honduras Philippines Italy Poland Jamaica Vietnam Mexico Portugal Ireland France "
        "Dominican-Republic Laos Ecuador Taiwan Haiti Columbia Hungary Guatemala Nicaragua Scotland Thailand "
        "Yugoslavia El-Salvador Trinadad&Tobago Peru Hong Holand-Netherlands"
    ),
    "income": "<=50K >50K",
}
UPSTREAM = {"adult.data": 30_162, "adult.test": 15_060}  # rows without a missing value

FIELDS = {name: tuple(kind.split()) if isinstance(kind, str) else () for name, kind in _KINDS.items()}
_IS_NUMBER = np.array([not values for values in FIELDS.values()])
_IS_CATEGORY = ~_IS_NUMBER & (np.array([*FIELDS]) != "income")
_CATEGORIES = [values for name, values in FIELDS.items() if values and name != "income"]
_BOUNDS = np.array([kind for kind in _KINDS.values() if not isinstance(kind, str)])
_INDICATORS = sum(map(len, _CATEGORIES))
DIMENSION = _INDICATORS + len(_BOUNDS) + 1


def read(path: Path, bounds: NDArray[np.float64] = _BOUNDS) -> Source:
    """Return the rows of a file that have no missing value, with dense features of L2 norm 1.

    Numbers are divided by `bounds` and clipped to [0, 1], and then each row is divided by its norm. The target is −1
    for an income <=50K and +1 for an income >50K.

    Args:
        path: adult.data or adult.test.
        bounds: the numbers by which the numeric fields are divided, in the order of the fields.

    Raises:
        BadInput: the file is missing, empty or no Adult file; the message names the file and, if a line is wrong, the
            line.
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
    """Read files as `read` does, but divide each numeric field by its largest value in all the files together.

    A numeric field without a positive value becomes 0 in all rows.

    Raises:
        BadInput: see `read`.
    """
    maxima = np.max([coded.codes(path, FIELDS, missing="?")[:, _IS_NUMBER].max(axis=0) for path in paths], axis=0)
    # Indicators need no division, because their maximum is 1 or 0. Numbers are whole, so a numeric field whose maximum
    # is below 1 becomes 0 by clipping.
    return [read(path, np.maximum(maxima, 1)) for path in paths]
