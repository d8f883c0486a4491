"""Σ_t Σ_i f_i^t of runs whose samples are too many to be kept: exact, and no larger for more rounds.

- Where an agent has so many samples, which come again and again, each stands there once, divided by how often it came.
- Of losses that are quadratic in the decision, a few samples lose what all did, wherever they are asked: of least
  squares those of the triangle that a QR decomposition leaves of (a, b) (Golub, Van Loan, "Matrix Computations",
  section 5.3), of squared distances two points.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mpinodes.core import Features, Vector
from mpinodes.core.messages import stack
from mpinodes.core.parts import Recurring
from mpinodes.losses.least_squares import LeastSquares
from mpinodes.losses.linear import LinearLoss
from mpinodes.losses.squared_distance import SquaredDistance

BYTES_AT_ONCE = 4_000_000
COLUMNS = 512  # of a triangle: of more, to make it takes longer than to read the samples again
Indices = NDArray[np.int64]


class Total(Protocol):
    """The losses of a run, to be summed up over any rounds."""

    @property
    def is_constant(self) -> bool:
        """Whether they are the same in every round."""

    def upto(self, rounds: int, first: int = 1) -> LinearLoss:
        """Σ_t Σ_i f_i^t of rounds `first` to `rounds`, unclipped."""


@dataclass(frozen=True)
class Rounds:
    """Losses that come anew in every round, by all owners, round by round.

    Attributes:
        read: by first and last round, features (k, d) and targets (k,).
        samples: in a round, of all owners.
        one: the loss of the first owner in round 1: what is said of it holds for all.
        regularizer: of one round: λ times the number of owners.
    """

    read: Callable[[int, int], tuple[Features, Vector]]
    samples: int
    one: Any
    regularizer: float

    def total(self, features: Features, targets: Vector, rounds: int, divisor: float | Vector) -> LinearLoss:
        """Of so many rounds, that come to what these samples do."""
        loss: LinearLoss = type(self.one)(features, targets, divisor=divisor, regularizer=rounds * self.regularizer)
        return loss

    def blocks(self, first: int, last: int, least: int = 1) -> Iterator[tuple[Features, Vector]]:
        """Features and targets, some rounds at a time: `least` samples or more."""
        features = self.one.features
        stored = features.size if isinstance(features, np.ndarray) else 2 * features.nnz
        row = 8 * (1 + stored // max(1, len(self.one.targets)))
        at_once = max(1, -(-least // self.samples), BYTES_AT_ONCE // (row * self.samples))
        for start in range(first, last + 1, at_once):
            yield self.read(start, min(start + at_once - 1, last))


class Running(ABC):
    """What is added up from round 1 on; anew where fewer rounds are asked for than the last time."""

    is_constant = False

    def __init__(self, rounds: Rounds) -> None:
        self._rounds, self._done = rounds, 0

    def upto(self, rounds: int, first: int = 1) -> LinearLoss:
        """See `Total`."""
        if first > 1:
            number = rounds - first + 1
            return self._rounds.total(*self._rounds.read(first, rounds), number, self._rounds.one.divisor)
        if rounds < self._done:
            self._begin()
            self._done = 0
        if rounds > self._done:
            self._add(self._done + 1, rounds)
            self._done = rounds
        return self._total()

    @abstractmethod
    def _begin(self) -> None:
        """Forget all rounds."""

    @abstractmethod
    def _add(self, first: int, last: int) -> None:
        """Take the next rounds."""

    @abstractmethod
    def _total(self) -> LinearLoss:
        """Of the rounds taken."""


class Counted(Running):
    """Of samples that come again, in the order in which they came first."""

    def __init__(self, rounds: Rounds, owners: Sequence[Recurring]) -> None:
        super().__init__(rounds)
        self._owners = owners
        # Where all owners have the same samples, these are one set.
        self._sets = list({id(owner.features): owner for owner in owners}.values())
        self._ends = np.cumsum([len(each.targets) for each in self._sets])
        of_set = {
            id(each.features): int(end) - len(each.targets) for each, end in zip(self._sets, self._ends, strict=True)
        }
        self._start = [of_set[id(owner.features)] for owner in owners]
        self._place = np.full(self._ends[-1], -1)  # among those that came
        self._order = np.zeros(0, np.int64)  # those that came
        self._samples: tuple[Features, Vector] | None = None
        self._begin()

    def _begin(self) -> None:
        self._counts = np.zeros(len(self._place), np.int64)

    def _add(self, first: int, last: int) -> None:
        at_once = max(1, BYTES_AT_ONCE // (8 * self._rounds.samples))
        for start in range(first, last + 1, at_once):
            end = min(start + at_once - 1, last)
            came = [owner.places(start, end) + at for owner, at in zip(self._owners, self._start, strict=True)]
            rows = np.stack(came).reshape(len(came), end - start + 1, -1).transpose(1, 0, 2).ravel()
            self._name(rows)
            self._counts += np.bincount(self._place[rows], minlength=len(self._counts))

    def _name(self, rows: Indices) -> None:
        """Give places to those that have none."""
        fresh = rows[self._place[rows] < 0]
        if len(fresh):
            names, at = np.unique(fresh, return_index=True)
            names = names[np.argsort(at)]
            self._place[names] = np.arange(len(self._order), len(self._order) + len(names))
            self._order, self._samples = np.append(self._order, names), None

    def _total(self) -> LinearLoss:
        if self._samples is None:
            self._samples = self._gathered()
        features, targets = self._samples
        counts = self._counts[: int(np.count_nonzero(self._counts))]
        one = self._rounds.one.divisor
        divisor = one if counts.max(initial=1) == 1 else one / counts
        return self._rounds.total(features[: len(counts)], targets[: len(counts)], self._done, divisor)

    def _gathered(self) -> tuple[Features, Vector]:
        """Those that came."""
        of_set = np.searchsorted(self._ends, self._order, side="right")
        came = [np.flatnonzero(of_set == k) for k in range(len(self._sets))]
        rows = [self._order[at] - (self._ends[k] - len(self._sets[k].targets)) for k, at in enumerate(came)]
        order = np.argsort(np.concatenate(came))
        features = stack([each.features[at] for each, at in zip(self._sets, rows, strict=True)])
        targets = np.concatenate([each.targets[at] for each, at in zip(self._sets, rows, strict=True)])
        return features[order], targets[order]


class Triangle(Running):
    """Of least squares: ‖Ax − b‖² = ‖R (x, −1)‖², (A, b) = QR."""

    def __init__(self, rounds: Rounds) -> None:
        super().__init__(rounds)
        self._begin()

    def _begin(self) -> None:
        width = self._rounds.one.features.shape[1] + 1
        self._left = np.zeros((width, width))

    def _add(self, first: int, last: int) -> None:
        width = self._left.shape[1]
        for features, targets in self._rounds.blocks(first, last, least=4 * width):
            dense = features if isinstance(features, np.ndarray) else features.toarray()
            rows = np.column_stack([dense, targets])
            self._left = np.asarray(np.linalg.qr(np.concatenate([self._left, rows]), mode="r"))

    def _total(self) -> LinearLoss:
        features, targets = np.ascontiguousarray(self._left[:, :-1]), self._left[:, -1].copy()
        return self._rounds.total(features, targets, self._done, self._rounds.one.divisor)


class Pair(Running):
    """Of squared distances: with m the mean of k points, ½Σ‖x − a‖² = ½k‖x − m‖² + ½Σ‖a − m‖²."""

    def __init__(self, rounds: Rounds) -> None:
        super().__init__(rounds)
        self._begin()

    def _begin(self) -> None:
        self._number, self._mean, self._apart = 0, np.zeros(self._rounds.one.features.shape[1]), 0.0

    def _add(self, first: int, last: int) -> None:
        for features, _ in self._rounds.blocks(first, last):
            points = features if isinstance(features, np.ndarray) else features.toarray()
            mean, k = points.mean(axis=0), len(points)
            moved, whole = mean - self._mean, self._number + k
            points = points - mean
            self._apart += float(np.vdot(points, points)) + self._number * k / whole * float(moved @ moved)
            self._mean, self._number = self._mean + k / whole * moved, whole

    def _total(self) -> LinearLoss:
        aside = np.zeros_like(self._mean)
        aside[0] = np.sqrt(self._apart / self._number)
        points = np.stack([self._mean - aside, self._mean + aside])
        return self._rounds.total(points, np.zeros(2), self._done, self._rounds.one.divisor / (self._number / 2))


def condensed(rounds: Rounds) -> Total | None:
    """Of quadratic losses; None: they are none, or too wide."""
    if type(rounds.one) is SquaredDistance:
        return Pair(rounds)
    if type(rounds.one) is LeastSquares and rounds.one.features.shape[1] < COLUMNS:
        return Triangle(rounds)
    return None
