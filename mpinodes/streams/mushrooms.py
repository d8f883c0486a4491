"""Provide the mushrooms data: edible (−1) against poisonous (+1); 8,124 samples of 112 binary features.

In every sample, 21 features are 1. By default, as in the papers, 6,000 samples are training samples (`data.train`), and
the others are test samples. The file is UCI's agaricus-lepiota.data, or LIBSVM's `mushrooms`, which was made from UCI's
file.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import ClassVar

from mpinodes.data import Source, agaricus, fetch, libsvm
from mpinodes.streams.labelled import FileStream, Train, split

__all__ = ["Mushrooms"]


@dataclass(frozen=True)
class Mushrooms(FileStream):
    """Provide the mushrooms data, with the labels −1 for edible and +1 for poisonous mushrooms."""

    train: Train = 6000

    wanted: ClassVar = fetch.MUSHROOMS
    name: ClassVar[str] = "mushrooms"
    feature_bound: ClassVar[float] = 1.0
    feature_norm: ClassVar[float] = sqrt(21)
    defaults = {"problem": {"loss": "logistic", "set": "ball", "radius": 5.0}, "privacy": {"clip": 1.0}}

    def open(self) -> tuple[Source, Source | None]:
        """Return a training set and a test set (None if no samples are left), both from one file.

        LIBSVM's label 2 and UCI's letter p mean poisonous.
        """
        (path,) = self.source_files
        if path.name.endswith(".data"):
            return split(agaricus.read(path), self.train)
        return split(libsvm.read(path, 112, (1, 2)), self.train)
