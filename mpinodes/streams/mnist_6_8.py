"""Provide the digits 6 (−1) and 8 (+1) of MNIST: 28 × 28 pixels in [0, 1].

MNIST's training file has 5,918 + 5,851 = 11,769 images of these two digits. By default, as in the papers, 8,000 are
training samples (`data.train`), and the others are test samples.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from mpinodes.data import Source, fetch, idx
from mpinodes.streams.labelled import FileStream, Train, choose, split

__all__ = ["Mnist"]


@dataclass(frozen=True)
class Mnist(FileStream):
    """Provide the digits 6 and 8 of MNIST, with the labels −1 for a 6 and +1 for an 8."""

    train: Train = 8000

    wanted: ClassVar = fetch.MNIST[:2]
    name: ClassVar[str] = "MNIST, 6 against 8"
    feature_bound: ClassVar[float] = 1.0
    public = "Which of the digits are sixes and eights is taken to be public."
    defaults = {"problem": {"loss": "logistic", "set": "ball", "radius": 5.0}, "privacy": {"clip": 1.0}}

    def open(self) -> tuple[Source, Source | None]:
        """Return a training set and a test set (None if no samples are left), both from MNIST's training file.

        Raises:
            BadInput: a file is missing or malformed, or its images do not have 28 × 28 pixels.
        """
        source = idx.read_mnist(*self.source_files)
        rows = np.flatnonzero(np.isin(source.targets, (6, 8)))
        return split(choose(source, rows, np.where(source.targets[rows] == 8, 1.0, -1.0)), self.train)
