"""UCI Adult: income above 50,000 dollars (+1) or not (−1), 30,162 complete rows to train and 15,060 to test, d = 105.

98 columns are one-hot, 6 numeric ones lie in [0, 1] by public constants, and one is 1; no row's norm exceeds 1. The
papers on ADMM train on all 45,222 rows and divide columns by their maxima: data.rows=all, data.scaling=maxima.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from mpinodes.data import Source, adult, fetch
from mpinodes.streams.labelled import FileStream, joined, together

__all__ = ["Adult"]


@dataclass(frozen=True)
class Adult(FileStream):
    """The Adult data: income above 50,000 dollars (+1) or not (−1)."""

    rows: Annotated[
        Literal["split", "all"],
        Meta(description="data.name=adult: adult.data trains and adult.test tests, or all rows train and none test"),
    ] = "split"
    scaling: Annotated[
        Literal["public", "maxima"],
        Meta(
            description="data.name=adult: numbers are divided by public constants, or, as papers do, by their maxima "
            "in both files, which tell of the people in them: no privacy is proven then"
        ),
    ] = "public"

    wanted: ClassVar = fetch.ADULT
    name: ClassVar[str] = "Adult"
    feature_bound: ClassVar[float] = 1.0
    feature_norm: ClassVar[float] = 1.0
    public = "Which rows of Adult are complete is taken to be public."
    defaults = {"problem": {"loss": "logistic", "set": "ball", "radius": 10.0}, "privacy": {"clip": 1.0}}

    @property
    def unproven_because(self) -> str:
        """Return why nothing is proven: the partition, or scaling by maxima of the data."""
        maxima = "columns are divided by maxima read off the data (set data.scaling=public)"
        return together(super().unproven_because, maxima if self.scaling == "maxima" else "")

    def open(self) -> tuple[Source, Source | None]:
        """Return adult.data and adult.test; with `rows` = all, both as the training set, and no test set."""
        paths = self.source_files
        sources = adult.read_by_maxima(paths) if self.scaling == "maxima" else [adult.read(path) for path in paths]
        if self.rows == "all":
            return replace(joined(sources), upstream=sum(adult.UPSTREAM.values())), None
        train, test = sources
        return train, test
