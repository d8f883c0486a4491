"""All samples of a run, to be judged on at once."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from mpinodes.core import Vector
from mpinodes.formats import Source
from mpinodes.losses.linear import LinearLoss

ROWS_AT_ONCE = 4096  # of features turned into numbers
IN_CACHE = 1 << 14  # numbers that stay there; of more, the allocator asks the system for fresh memory each time


class Gathered(NamedTuple):
    """All samples of a run, round by round, agent by agent, to be summed up to any round.

    Attributes:
        kind: the class of the loss.
        features, targets: of all samples.
        samples: of all owners in one round; 0: the same ones come in every round, and stand here once.
        divisor: of each owner's loss, or of each sample.
        regularizer: of one round: λ times the number of owners.
    """

    kind: type[LinearLoss]
    features: Any
    targets: Vector
    samples: int
    divisor: float | Vector
    regularizer: float

    def upto(self, rounds: int, first: int = 1) -> LinearLoss:
        """Σ_t Σ_i f_i^t of rounds `first` to `rounds`, unclipped."""
        number = rounds - first + 1
        regularizer = number * self.regularizer
        if not self.samples:
            return self.kind(self.features, self.targets, divisor=self.divisor / number, regularizer=regularizer)
        rows = slice((first - 1) * self.samples, rounds * self.samples)
        return self.kind(self.features[rows], self.targets[rows], divisor=self.divisor, regularizer=regularizer)


def values_at(loss: LinearLoss, points: Vector) -> Vector:
    """The loss at many points, by blocks of samples: (k, d) -> (k,)."""
    found = 0.5 * loss.regularizer * np.vecdot(points, points)
    shares = 1 / np.broadcast_to(loss.divisor, loss.targets.shape)
    for rows in blocks(len(loss.targets), len(points) if isinstance(loss.features, np.ndarray) else 1):
        values = type(loss).values(loss.features[rows], loss.targets[None, rows], points[None])[0]
        found += values @ shares[rows]
    return np.asarray(found)


def blocks(total: int, width: int) -> list[slice]:
    """`total` rows in equal parts, so small that results of so many numbers a row stay in the cache."""
    number = max(1, -(-total * width // IN_CACHE))
    edges = np.linspace(0, total, number + 1).astype(int).tolist()
    return [slice(*ends) for ends in pairwise(edges)]


def accuracy(points: Vector, source: Source) -> Vector:
    """Share of samples whose label ±1 is the sign of a·x, for every point x: (k, d) -> (k,)."""
    right = np.zeros(len(points))
    for start in range(0, len(source.targets), ROWS_AT_ONCE):
        rows = np.arange(start, min(start + ROWS_AT_ONCE, len(source.targets)))
        signs = np.asarray(source.features(rows) @ points.T) > 0
        right += (signs == (source.targets[rows] > 0)[:, None]).sum(axis=0)
    return right / len(source.targets)
