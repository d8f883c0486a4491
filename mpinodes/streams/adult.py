"""Provide UCI's Adult data: is the income above 50,000 dollars (+1) or not (−1)?

There are 30,162 training and 15,060 test samples, which are the rows without a missing value. A sample has d = 105
features: 98 one-hot indicators, six numbers that are scaled to [0, 1] by public constants, and the constant 1. The
features are then divided by their L2 norm.

The papers on ADMM use all 45,222 rows for training, and divide each of the six numbers by its largest value in the
data. To do the same, set data.rows=all and data.scaling=maxima.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from mpinodes.data import Source, adult, fetch
from mpinodes.streams.labelled import FileStream, joined, together

__all__ = ["Adult"]


@dataclass(frozen=True)
class Adult(FileStream):
    """Provide UCI's Adult data, with labels for the income: above 50,000 dollars (+1) or not (−1).

    Attributes:
        rows: data.name=adult: adult.data for training and adult.test for tests, or all rows for training
        scaling: numbers are divided by public constants, or, as in papers, by their maxima in both files. The maxima
            reveal something about people in the data, so no privacy is proven then
    """

    rows: Literal["split", "all"] = "split"
    scaling: Literal["public", "maxima"] = "public"

    wanted: ClassVar = fetch.ADULT
    name: ClassVar[str] = "Adult"
    feature_bound: ClassVar[float] = 1.0
    feature_norm: ClassVar[float] = 1.0
    public = "Which rows of Adult are complete is taken to be public."
    defaults = {"problem": {"loss": "logistic", "set": "ball", "radius": 10.0}, "privacy": {"clip": 1.0}}

    @property
    def unproven_because(self) -> str:
        """Return the reason why no epsilon is proven for runs on these data, or "" if an epsilon can be proven.

        The possible reasons are `partition` = by-label, and `scaling` = maxima, because the maxima depend on the data.
        """
        maxima = "columns are divided by the largest values in the data (set data.scaling=public)"
        return together(super().unproven_because, maxima if self.scaling == "maxima" else "")

    def open(self) -> tuple[Source, Source | None]:
        """Return adult.data as the training set and adult.test as the test set.

        With `rows` = all, both files together are the training set, and there is no test set.
        """
        paths = self.source_files
        sources = adult.read_by_maxima(paths) if self.scaling == "maxima" else [adult.read(path) for path in paths]
        if self.rows == "all":
            return replace(joined(sources), upstream=sum(adult.UPSTREAM.values())), None
        train, test = sources
        return train, test
