"""A record as its figures need it, by plain h5py: xarray takes longer to import than a short run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from warnings import catch_warnings

import numpy as np

from mpinodes.runlog.reader import Reader
from mpinodes.summary.summary import NoiseFree

Axes = str | Sequence[str]


@dataclass(frozen=True)
class Values:
    """Numbers whose axes have names.

    Attributes:
        dims: the names.
        values: of that many axes.
    """

    dims: tuple[str, ...]
    values: np.ndarray

    def min(self, over: Axes | None = None) -> Values:
        """Return the least value, over some axes or all, without nan."""
        return self._over(np.nanmin, over)

    def max(self, over: Axes | None = None, skipna: bool = True) -> Values:
        """Return the largest value, over some axes or all."""
        return self._over(np.nanmax if skipna else np.max, over)

    def mean(self, over: Axes | None = None) -> Values:
        """Return the mean, over some axes or all, without nan."""
        return self._over(np.nanmean, over)

    def _over(self, combine: Callable[..., Any], over: Axes | None) -> Values:
        gone = self.dims if over is None else (over,) if isinstance(over, str) else tuple(over)
        axes = tuple(self.dims.index(name) for name in gone)
        kept = tuple(name for name in self.dims if name not in gone)
        with catch_warnings(action="ignore", category=RuntimeWarning):  # where nothing is there: nan
            found = combine(self.values, axis=axes) if axes else self.values
        return Values(kept, np.asarray(found))

    def last(self, along: str) -> Values:
        """Return the last values along an axis."""
        at = self.dims.index(along)
        return Values(self.dims[:at] + self.dims[at + 1 :], np.take(self.values, -1, axis=at))

    def __truediv__(self, other: Values) -> Values:
        """Divide by values that have one of the axes."""
        (name,) = other.dims
        shape = [len(other.values) if each == name else 1 for each in self.dims]
        return Values(self.dims, self.values / other.values.reshape(shape))

    def __rmul__(self, factor: float) -> Values:
        """Multiply by a factor."""
        return Values(self.dims, factor * self.values)

    def __float__(self) -> float:
        """Return the number that values without axes are."""
        return float(self.values)


class Drawn:
    """The variables of a record, each read when it is asked for, and what was made of the same run without noise.

    Raises:
        OSError: there is none.
        mpinodes.core.errors.BadInput: it is damaged, or has another layout.
    """

    def __init__(self, run: Path) -> None:
        self._run, self._record = run, Reader(run)
        self.attrs = self._record.attrs

    @cached_property
    def noise_free(self) -> NoiseFree | None:
        """Return what the same run is worth without noise; None: the run was not repeated without noise."""
        return NoiseFree.read(self._run)

    def __contains__(self, name: str) -> bool:
        return name in self._record

    def __getitem__(self, name: str) -> Values:
        found = self._record.read(name)
        return Values(found.dims, found.values)

    def __enter__(self) -> Drawn:
        return self

    def __exit__(self, *_: object) -> None:
        self._record.__exit__()
