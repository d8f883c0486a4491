"""Read UCI's mushrooms data, agaricus-lepiota.data, as the 112 binary features of LIBSVM's file `mushrooms`.

Every value that occurs in an attribute becomes a 0/1 feature. Like LIBSVM, this reader leaves out the attribute
stalk-root, which has missing values. The order of LIBSVM's features is not known: here the features follow the order of
the attributes and of their values in UCI's file agaricus-lepiota.names.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mpinodes.data import coded
from mpinodes.data.source import Source

# The values that occur in each attribute, in the order of UCI's agaricus-lepiota.names.
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
    """Return the mushrooms as dense rows of 112 zeros and ones, of which 21 are ones.

    The target is −1 for an edible mushroom and +1 for a poisonous mushroom.

    Raises:
        BadInput: the file is missing, empty or not UCI's file; the message names the file and, if a line is wrong, the
            line.
    """
    codes = coded.codes(path, ATTRIBUTES)

    def features(rows: NDArray[np.int64]) -> NDArray[np.float64]:
        table = np.zeros((len(rows), DIMENSION))
        coded.put_ones(table, codes[rows][:, _KEPT], _CATEGORIES)
        return table

    return Source(2 * codes[:, 0] - 1, DIMENSION, features, UPSTREAM, (path,))
