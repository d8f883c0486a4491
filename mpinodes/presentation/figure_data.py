"""Read a record for figures, without xarray, because xarray takes longer to import than a short run takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple
from warnings import catch_warnings

import numpy as np

from mpinodes.runlog.reader import Reader
from mpinodes.summary.summary import NoiseFree


class Values(NamedTuple):
    """An array whose axes have names.

    Attributes:
        dims: the names of the axes.
        values: the array.
    """

    dims: tuple[str, ...]
    values: np.ndarray

    def reduced(self, combine: Callable[..., Any], over: Sequence[str]) -> Values:
        """Return the array combined over some axes by a function of NumPy, such as `np.nanmean`."""
        rest = tuple(name for name in self.dims if name not in over)
        if not over:
            return self
        with catch_warnings(action="ignore", category=RuntimeWarning):  # where nothing is there: nan
            return Values(rest, combine(self.values, axis=tuple(self.dims.index(name) for name in over)))

    def last(self, along: str) -> Values:
        """Return the last entry along an axis."""
        at = self.dims.index(along)
        return Values(self.dims[:at] + self.dims[at + 1 :], np.take(self.values, -1, axis=at))

    def __truediv__(self, other: Values) -> Values:
        """Divide by an array that has one of the axes."""
        (name,) = other.dims
        rows = np.moveaxis(self.values, self.dims.index(name), -1) / other.values
        return Values(self.dims, np.moveaxis(rows, -1, self.dims.index(name)))


class Drawn(Reader):
    """The record of a run, and the results of the same run without noise; each variable is read when it is used.

    Raises:
        OSError: there is no record.
        mpinodes.core.errors.BadInput: the record is damaged, or has another layout.
    """

    def __init__(self, run: Path) -> None:
        super().__init__(run)
        self._directory = run

    @cached_property
    def noise_free(self) -> NoiseFree | None:
        """Return the curves and results of the same run without noise; None if there was no such run."""
        return NoiseFree.read(self._directory)

    def __enter__(self) -> Drawn:
        return self

    def __getitem__(self, name: str) -> Values:
        return Values(*self.read(name)[:2])
