"""UCI Adult: income above 50,000 dollars (+1) or not (−1), 30,162 complete rows to train and 15,060 to test, d = 105.

98 columns are one-hot, 6 numeric ones lie in [0, 1] by public constants, and one is 1; no row's norm exceeds 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from mpinodes import fetch
from mpinodes.formats import Source, adult
from mpinodes.streams.files import FileStream

__all__ = ["Adult"]


@dataclass(frozen=True)
class Adult(FileStream):
    """> 50K against <= 50K."""

    wanted: ClassVar = fetch.ADULT
    name: ClassVar[str] = "Adult"
    feature_bound: ClassVar[float] = 1.0
    feature_norm: ClassVar[float] = 1.0
    defaults: ClassVar = {
        "problem": {"loss": "logistic", "set": "ball", "radius": 10.0},
        "privacy": {"clip": 1.0},
    }

    def open(self) -> tuple[Source, Source | None]:
        """Adult.data, and adult.test."""
        train, test = self.located()
        return adult.read(train), adult.read(test)
