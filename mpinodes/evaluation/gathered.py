"""Decisions tried on all samples of a set at once: losses, accuracy, root mean squared error."""

from __future__ import annotations

from abc import ABC, abstractmethod
from itertools import pairwise

import numpy as np

from mpinodes.core import Features, SampleLoss, Vector
from mpinodes.core.errors import BadInput
from mpinodes.data import Source
from mpinodes.losses.linear import LinearLoss

ROWS_AT_ONCE = 4096  # of features turned into numbers
POINTS_AT_ONCE = 256  # that they are held against
FIRST = 20  # rows that tell whether losses depend on labels
IN_CACHE = 1 << 14  # numbers that stay there; of more, the allocator asks the system for fresh memory each time


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


class Examined(ABC):
    """A set of samples that decisions are tried on.

    Sparse ones are read once, for as numbers they take no more than as text.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._kept: dict[int, Features] = {}

    @abstractmethod
    def naive(self) -> float:
        """What is had without features, by always naming the same."""

    @abstractmethod
    def marks(self, points: Vector) -> Vector:
        """Return what every point is worth, each a column: (d, k) -> (k,)."""

    @abstractmethod
    def _tried(self, features: Features, targets: Vector, points: Vector) -> Vector:
        """Return the sum over some samples, (m, d) and (m, 1), of what makes up `marks`: (d, k) -> (k,)."""

    def _averaged(self, points: Vector) -> Vector:
        """Return the mean over all samples of what `_tried` sums."""
        targets, sums = self._source.targets, np.zeros(points.shape[1])
        for start in range(0, len(targets), ROWS_AT_ONCE):
            end = min(start + ROWS_AT_ONCE, len(targets))
            if (features := self._kept.get(start)) is None:
                features = self._source.features(np.arange(start, end))
                if not isinstance(features, np.ndarray):
                    self._kept[start] = features
            for k in range(0, len(sums), POINTS_AT_ONCE):
                some = slice(k, k + POINTS_AT_ONCE)
                sums[some] += self._tried(features, targets[start:end, None], points[:, some])
        return sums / len(targets)


class Labelled(Examined):
    """A set of samples with labels ±1, or of so many classes, which losses of a class predict."""

    def __init__(self, source: Source, kind: type[SampleLoss], classes: int = 0) -> None:
        super().__init__(source)
        self._kind, self._classes = kind, classes
        self._labels = np.arange(float(classes)) if classes else np.array([-1.0, 1.0])

    def is_predicted(self, dimension: int) -> bool:
        """Return whether the losses depend on labels: at a point drawn at random, of the first samples."""
        features = self._source.features(np.arange(min(FIRST, len(self._source.targets))))
        point = np.random.default_rng(0).standard_normal((1, 1, dimension))
        with np.errstate(all="ignore"):
            losses = [self._kind.values(features, np.full((1, features.shape[0]), y), point) for y in self._labels]
            try:
                found = np.asarray(self._kind.predict(features, np.repeat(point[0].T, 2, axis=1), self._labels))
            except Exception as error:
                why = f"{type(error).__name__}: {error}"
                raise BadInput(f"problem.loss: {self._kind.__name__}.predict fails: {why}") from error
        if found.shape != (features.shape[0], 2) or not np.isin(found, range(len(self._labels))).all():
            raise BadInput(
                f"problem.loss: {self._kind.__name__}.predict gives {found.dtype} {found.shape}; expected places in "
                f"`labels`, (k, p): {(features.shape[0], 2)}, each from 0 to {len(self._labels) - 1}"
            )
        return bool(np.any(losses[0] != losses[-1]))

    def naive(self) -> float:
        """Share of samples in the largest class."""
        _, counts = np.unique(self._source.targets, return_counts=True)
        return float(counts.max() / counts.sum())

    def marks(self, points: Vector) -> Vector:
        """Return the share of samples whose label is the one that a point predicts."""
        return self._averaged(points)

    def _tried(self, features: Features, targets: Vector, points: Vector) -> Vector:
        predicted = self._kind.predict(features, points, self._labels)
        right = predicted == (targets if self._classes else targets > 0)
        return np.asarray(np.count_nonzero(right, axis=0), float)


class RealValued(Examined):
    """A set of samples with real targets.

    Args:
        source: the set.
        mean: of the targets that are trained on.
    """

    def __init__(self, source: Source, mean: float) -> None:
        super().__init__(source)
        self._mean = mean

    def naive(self) -> float:
        """RMSE of the mean."""
        return float(np.sqrt(np.mean((self._source.targets - self._mean) ** 2)))

    def marks(self, points: Vector) -> Vector:
        """Return √ of the mean of (a·x − b)² over the samples."""
        return np.asarray(np.sqrt(self._averaged(points)))

    def _tried(self, features: Features, targets: Vector, points: Vector) -> Vector:
        return np.asarray(((np.asarray(features @ points) - targets) ** 2).sum(axis=0))
