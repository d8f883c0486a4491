"""Provide CIFAR-10: cats (+1) against the other nine classes (−1); 32 × 32 × 3 pixels in [0, 1].

The samples are the 50,000 images of CIFAR-10's five training files; a tenth of the images are cats. By default, as in
the papers, 42,000 images are training samples (`data.train`), and 8,000 are test samples.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from mpinodes.data import Source, cifar10, fetch
from mpinodes.streams.labelled import FileStream, Train, against_rest, split

__all__ = ["Cifar10"]

CAT = 3


@dataclass(frozen=True)
class Cifar10(FileStream):
    """Provide the images of CIFAR-10, with the label +1 for cats and −1 for the other nine classes."""

    train: Train = 0.84

    wanted: ClassVar = fetch.CIFAR10[:5]
    name: ClassVar[str] = "CIFAR-10, cat against the rest"
    feature_bound: ClassVar[float] = 1.0
    defaults = {
        "problem": {"loss": "logistic", "set": "ball", "radius": 5.0, "average": True},
        "privacy": {"clip": 1.0},
    }

    def open(self) -> tuple[Source, Source | None]:
        """Return a training set and a test set (None if no samples are left) from CIFAR-10's five training files."""
        return split(against_rest(cifar10.read(self.source_files), CAT), self.train)
