"""Streams of labelled samples from files in a directory; missing files are downloaded once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, ClassVar

import numpy as np
from msgspec import Meta

from mpinodes.data import Source
from mpinodes.data.fetch import Wanted, locate
from mpinodes.streams.labelled import LabelledStream

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


def against_rest(source: Source, positive: float) -> Source:
    """Return all samples, those of one class as +1, the others as −1."""
    return replace(source, targets=np.where(source.targets == positive, 1.0, -1.0))
