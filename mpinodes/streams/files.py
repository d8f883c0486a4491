"""Streams of labelled samples from files in a directory; missing files are downloaded once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from mpinodes.data import Source
from mpinodes.data.fetch import Wanted, locate
from mpinodes.losses.clipping import row_sizes
from mpinodes.streams.labelled import LabelledStream, choose

Train = Annotated[
    float,
    Meta(
        gt=0,
        le=1e12,
        description="samples to train on, the others test: a number above 1, or a share; 1: all, none test",
    ),
]
BLOCK = 1 << 22  # numbers in memory at once


@dataclass(frozen=True)
class FileStream(LabelledStream):
    """A published data set, whose files have the published names."""

    dir: Annotated[
        str,
        Meta(description="directory of the data set's files; those it lacks are fetched once. Empty: a cache of ours"),
    ] = ""

    wanted: ClassVar[Sequence[Wanted]]
    drawn_from_seed = False

    @property
    def source_files(self) -> list[Path]:
        """Return the files in the order of `wanted`; downloads them if they are missing.

        Raises:
            BadInput: a file is missing and cannot be downloaded.
        """
        return locate(self.wanted, Path(self.dir) if self.dir else None)


def between(source: Source, negative: float, positive: float) -> Source:
    """Return the samples of two classes, as −1 and +1."""
    rows = np.flatnonzero(np.isin(source.targets, (negative, positive)))
    return choose(source, rows, np.where(source.targets[rows] == positive, 1.0, -1.0))


def against_rest(source: Source, positive: float) -> Source:
    """Return all samples, those of one class as +1, the others as −1."""
    rows = np.arange(len(source.targets))
    return choose(source, rows, np.where(source.targets == positive, 1.0, -1.0))


def numbered(source: Source, classes: Sequence[float]) -> Source:
    """Return all samples; a target becomes its place among the ascending classes."""
    return choose(source, np.arange(len(source.targets)), np.searchsorted(classes, source.targets).astype(float))


def scaled_by_themselves(source: Source, with_targets: bool) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return which columns have standard deviation 1 to rounding, and which a largest size of exactly 1: (d + 1,) each.

    Columns of only 0 and one size, as of labels, are neither. The last column is the target.
    """
    total, width = len(source.targets), source.dimension
    sums, sizes = np.zeros((3, width + 1)), np.zeros(width + 1)
    with np.errstate(all="ignore"):
        for rows in np.array_split(np.arange(total), 1 + total // max(1000, BLOCK // width)):
            features, targets = source.features(rows), source.targets[rows, None] * with_targets
            for columns, place in ((features, slice(width)), (targets, slice(width, None))):
                square = columns * columns
                sums[:, place] += [power.sum(axis=0) for power in (columns, square, square * square)]
                sizes[place] = np.maximum(sizes[place], row_sizes(columns.T))
        mean, square, fourth = sums / total
        is_plain, variance = np.isclose(fourth, square * sizes**2, rtol=1e-9), square - mean**2
        off = np.minimum(abs(variance - 1), abs(variance * total / max(total - 1, 1) - 1))
    close = 2e-3 / np.sqrt(total)  # three decimals of every number leave a mean no further from 0, as a rule
    return ~is_plain & (off <= np.where(abs(mean) <= close, 2 * close, 1e-9)), ~is_plain & (sizes == 1)
