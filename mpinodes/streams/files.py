"""Labelled samples from files in a directory, fetched once where they are missing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

import numpy as np
from msgspec import Meta

from mpinodes.formats import Source
from mpinodes.formats.fetch import Wanted, locate
from mpinodes.streams.labelled import LabelledStream, choose

Train = Annotated[
    float,
    Meta(
        gt=0,
        le=1e12,
        description="samples to train on, the others test: a number above 1, or a share; 1: all, none test",
    ),
]


@dataclass(frozen=True)
class FileStream(LabelledStream):
    """A data set whose files have upstream's names."""

    dir: Annotated[
        str,
        Meta(description="directory of the data set's files; those it lacks are fetched once. Empty: a cache of ours"),
    ] = ""

    wanted: ClassVar[Sequence[Wanted]]
    drawn_from_seed = False

    @property
    def source_files(self) -> list[Path]:
        """See `located`."""
        return self.located()

    def located(self) -> list[Path]:
        """The files, in the order of `wanted`.

        Raises:
            BadInput: they are neither there nor to be had.
        """
        return locate(self.wanted, Path(self.dir) if self.dir else None)


def between(source: Source, negative: float, positive: float) -> Source:
    """The samples of two classes, as −1 and +1."""
    rows = np.flatnonzero(np.isin(source.targets, (negative, positive)))
    return choose(source, rows, np.where(source.targets[rows] == positive, 1.0, -1.0))


def against_rest(source: Source, positive: float) -> Source:
    """All samples, those of one class as +1, the others as −1."""
    rows = np.arange(len(source.targets))
    return choose(source, rows, np.where(source.targets == positive, 1.0, -1.0))


def numbered(source: Source, classes: Sequence[float]) -> Source:
    """All samples, each target as its place among the classes, ascending."""
    return choose(source, np.arange(len(source.targets)), np.searchsorted(classes, source.targets).astype(float))
