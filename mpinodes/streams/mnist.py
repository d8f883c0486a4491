"""Provide MNIST with all ten digits: 28 × 28 pixels in [0, 1], in the published training set and test set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from mpinodes.core.errors import BadInput
from mpinodes.data import Source, fetch, idx
from mpinodes.streams.labelled import FileStream

__all__ = ["MnistDigits"]


@dataclass(frozen=True)
class MnistDigits(FileStream):
    """Provide MNIST with the classes 0 to 9 as targets, for losses with several classes such as softmax."""

    wanted: ClassVar = fetch.MNIST
    name: ClassVar[str] = "MNIST"
    feature_bound: ClassVar[float] = 1.0
    has_labels: ClassVar[bool] = False
    classes: ClassVar[int] = 10
    defaults = {"problem": {"loss": "softmax", "average": True, "set": "none"}, "privacy": {"clip": 1.0}}

    def open(self) -> tuple[Source, Source | None]:
        """Return the training set and the test set, as published in MNIST's four files.

        Raises:
            BadInput: a file is missing or malformed, its images do not have 28 × 28 pixels, or a label is above 9.
        """
        files = self.source_files
        train, test = (idx.read_mnist(*files[k : k + 2]) for k in (0, 2))
        for source, images in ((train, files[0]), (test, files[2])):
            if (largest := source.targets.max()) >= self.classes:
                raise BadInput(f"{images}: the largest label is {largest:g}: expected labels from 0 to 9, as in MNIST")
        return train, test
