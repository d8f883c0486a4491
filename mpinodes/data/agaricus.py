"""UCI's mushrooms, agaricus-lepiota.data, as the 112 binary features of LIBSVM's `mushrooms`.

LIBSVM leaves out stalk-root, which has missing values, and makes a 0/1 feature of every value that occurs in the
other 21 attributes. Its order of features is not known; here it is that of the file's attributes, and within one
that of UCI's list of values.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mpinodes.data import coded
from mpinodes.data.source import Source

# The values that occur, in the order of agaricus-lepiota.names.
_LETTERS = {
    "class": "ep",  # edible, poisonous
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
ATTRIBUTES = {name: tuple(letters) for name, letters in _LETTERS.items()}
_KEPT = [place for place, name in enumerate(ATTRIBUTES) if name not in ("class", "stalk-root")]
_CATEGORIES = [values for name, values in ATTRIBUTES.items() if name not in ("class", "stalk-root")]
DIMENSION = sum(map(len, _CATEGORIES))
UPSTREAM = 8124


def read(path: Path) -> Source:
    """Return edible as −1, poisonous as +1; dense rows of 112 zeros and ones, 21 ones in each.

    Raises:
        BadInput: missing, empty, truncated or not this file; names file, line and field.
    """
    codes = coded.codes(path, ATTRIBUTES)

    def features(rows: NDArray[np.int64]) -> NDArray[np.float64]:
        table = np.zeros((len(rows), DIMENSION))
        coded.put_ones(table, codes[rows][:, _KEPT], _CATEGORIES)
        return table

    return Source(2 * codes[:, 0] - 1, DIMENSION, features, UPSTREAM, (path,))
