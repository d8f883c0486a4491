"""Evaluate decisions on all samples of a data set at once: losses, accuracy, root mean squared error."""

from __future__ import annotations

from abc import ABC, abstractmethod
from itertools import pairwise

import numpy as np

from mpinodes.core import Features, SampleLoss, Vector
from mpinodes.core.errors import BadInput
from mpinodes.data import Source
from mpinodes.losses.linear import LinearLoss

ROWS_AT_ONCE = 4096  # rows of features that are in memory together
POINTS_AT_ONCE = 256  # points that are evaluated on these rows together
FIRST = 20  # largest number of samples that `is_predicted` examines
IN_CACHE = 1 << 14  # size of a result, in numbers, that fits into the processor's cache


def values_at(loss: LinearLoss, points: Vector) -> Vector:
    """Return the loss, with its regularizer, at k points, as an array (k,). The points are the rows of (k, d).

    The losses are computed by blocks of samples.
    """
    sums = 0.5 * loss.regularizer * np.vecdot(points, points)
    shares = 1 / np.broadcast_to(loss.divisor, loss.targets.shape)
    for rows in blocks(len(loss.targets), len(points) if isinstance(loss.features, np.ndarray) else 1):
        values = type(loss).values(loss.features[rows], loss.targets[None, rows], points[None])[0]
        sums += values @ shares[rows]
    return np.asarray(sums)


def blocks(total: int, width: int) -> list[slice]:
    """Split rows into about equal blocks, so that a result with `width` numbers per row fits into the cache.

    If one row alone does not fit, there are more blocks than rows, and some blocks are empty.
    """
    number = max(1, -(-total * width // IN_CACHE))
    edges = np.linspace(0, total, number + 1).astype(int).tolist()
    return [slice(*ends) for ends in pairwise(edges)]


class Examined(ABC):
    """Evaluate many points (decisions) on a data set.

    The result for a point is called its mark. A mark is the accuracy of the point's predictions, or their root mean
    squared error.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._kept: dict[int, Features] = {}

    @abstractmethod
    def naive(self) -> float:
        """Return the accuracy of always predicting the largest class, or the error of always predicting the mean.

        The mean is that of the training targets, or of the test targets if the run has no training samples.
        """

    @abstractmethod
    def _summed(self, features: Features, targets: Vector, points: Vector) -> Vector:
        """Return, for each of k points, the number of correct predictions or the sum of squared errors, on m samples.

        Args:
            features: (m, d).
            targets: (m, 1).
            points: (d, k), one point per column.
        """

    def marks(self, points: Vector) -> Vector:
        """Return the accuracy of k points, or the mean of their squared errors, as an array (k,).

        Args:
            points: (d, k), one point per column.
        """
        targets, sums = self._source.targets, np.zeros(points.shape[1])
        for start in range(0, len(targets), ROWS_AT_ONCE):
            end = min(start + ROWS_AT_ONCE, len(targets))
            if (features := self._kept.get(start)) is None:
                features = self._source.features(np.arange(start, end))
                if not isinstance(features, np.ndarray):
                    self._kept[start] = features
            for k in range(0, len(sums), POINTS_AT_ONCE):
                some = slice(k, k + POINTS_AT_ONCE)
                sums[some] += self._summed(features, targets[start:end, None], points[:, some])
        return sums / len(targets)


class Labelled(Examined):
    """Compute the accuracy of points on a data set with labels ±1, or with classes 0, 1, ...

    A point is a vector of model parameters, with which labels are predicted.

    Args:
        source: the samples.
        kind: the class of the losses, which predicts labels from features.
        classes: the number of classes; 0 means labels ±1.
    """

    def __init__(self, source: Source, kind: type[SampleLoss], classes: int = 0) -> None:
        super().__init__(source)
        self._kind, self._classes = kind, classes
        self._labels = np.arange(float(classes)) if classes else np.array([-1.0, 1.0])

    def is_predicted(self, dimension: int) -> bool:
        """Return whether the losses depend on the labels; if not, the run has no accuracy.

        The losses of the first samples at a random point are computed with the first label and with the last label, and
        compared.

        Raises:
            BadInput: the method `predict` of the loss class fails, or returns no valid indices of labels.
        """
        features = self._source.features(np.arange(min(FIRST, len(self._source.targets))))
        point = np.random.default_rng(0).standard_normal((1, 1, dimension))
        with np.errstate(all="ignore"):
            losses = [self._kind.values(features, np.full((1, features.shape[0]), y), point) for y in self._labels]
            try:
                predicted = np.asarray(self._kind.predict(features, np.repeat(point[0].T, 2, axis=1), self._labels))
            except Exception as error:
                reason = f"{type(error).__name__}: {error}"
                raise BadInput(f"problem.loss: {self._kind.__name__}.predict fails: {reason}") from error
        if predicted.shape != (features.shape[0], 2) or not np.isin(predicted, range(len(self._labels))).all():
            raise BadInput(
                f"problem.loss: {self._kind.__name__}.predict returns {predicted.dtype} {predicted.shape}; expected "
                f"indices into `labels` of shape {(features.shape[0], 2)}, each from 0 to {len(self._labels) - 1}"
            )
        return bool(np.any(losses[0] != losses[-1]))

    def naive(self) -> float:
        """Return the accuracy of always predicting the largest class: the share of the samples in this class."""
        _, counts = np.unique(self._source.targets, return_counts=True)
        return float(counts.max() / counts.sum())

    def _summed(self, features: Features, targets: Vector, points: Vector) -> Vector:
        predicted = self._kind.predict(features, points, self._labels)
        right = predicted == (targets if self._classes else targets > 0)
        return np.asarray(np.count_nonzero(right, axis=0), float)


class RealValued(Examined):
    """Compute the root mean squared error of points on a data set with real targets, in the units of the file.

    Args:
        source: the samples.
        mean: the mean of the training targets, or of the test targets if there are no training samples.
    """

    def __init__(self, source: Source, mean: float) -> None:
        super().__init__(source)
        self._mean = mean

    def naive(self) -> float:
        """Return the root mean squared error of always predicting the mean target, which is the argument `mean`."""
        return float(np.sqrt(np.mean((self._source.targets - self._mean) ** 2)) * self._source.units[1])

    def marks(self, points: Vector) -> Vector:
        """Return the root mean squared error of k points, as an array (k,).

        The error of a point x is the square root of the mean of (a·x − b)² over all samples with features a and target
        b.

        Args:
            points: (d, k), one point per column.
        """
        return np.asarray(np.sqrt(super().marks(points)) * self._source.units[1])

    def _summed(self, features: Features, targets: Vector, points: Vector) -> Vector:
        return np.asarray(((np.asarray(features @ points) - targets) ** 2).sum(axis=0))
