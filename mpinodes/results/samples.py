"""The samples of a run, read as its rounds come and kept in the form that they are judged in."""

from __future__ import annotations

from typing import Any

import numpy as np

from mpinodes.core import Features, Stream, Vector
from mpinodes.core.messages import stack
from mpinodes.results.gathered import Gathered

KEPT = 64_000_000  # bytes of samples that are kept until the comparator is found: of more, all are read again
BYTES_AT_ONCE = 4_000_000


class Samples:
    """Of losses that come anew in every round: round by round, owner by owner, so that some rounds are a slice.

    Attributes:
        first: the loss of the first owner in round 1: what is said of it holds for all.
        owners: whose they are.
        of_each: samples that an owner has in a round.
    """

    def __init__(self, stream: Stream, owners: int, rounds: int) -> None:
        self._readers = [stream.merged(i) for i in range(owners)]
        self._rounds, self._read, self._dimension = rounds, 0, stream.dimension
        self.first: Any = self._readers[0](1, 1)
        self.owners, self.of_each = owners, len(self.first.targets)
        self._keeps = 8 * rounds * owners * self.of_each * (stream.dimension + 1) <= KEPT or not self._is_dense
        self._targets: Vector
        self._features: Features
        self._targets, self._features = self._room() if self._keeps else (np.empty(0), None)

    def _room(self) -> tuple[Vector, Features]:
        """For all samples; no memory is taken until one is written."""
        total = self._rounds * self.owners * self.of_each
        return np.empty(total), np.empty((total, self._dimension)) if self._is_dense else None

    @property
    def _is_dense(self) -> bool:
        return isinstance(self.first.features, np.ndarray)

    def of(self, first: int, last: int) -> tuple[Features, Vector]:
        """Features (k, d) and targets (k,) of these rounds."""
        if not self._keeps:
            return self._dense(first, last)
        self._read_to(last)
        each = self.owners * self.of_each
        rows = slice((first - 1) * each, last * each)
        return self._features[rows], self._targets[rows]

    def everything(self) -> Gathered:
        """All samples of the run, those of rounds to come too."""
        if not self._keeps:
            (self._targets, self._features), self._read, self._keeps = self._room(), 0, True
        self._read_to(self._rounds)
        one = self.first
        return Gathered(
            type(one), self._features, self._targets, self.owners * self.of_each, one.divisor,
            self.owners * one.regularizer,
        )  # fmt: skip

    def _read_to(self, last: int) -> None:
        if last <= self._read:
            return
        each = self.owners * self.of_each
        if self._is_dense:
            at_once = max(1, BYTES_AT_ONCE // (8 * each * (self._dimension + 1)))
            for first in range(self._read + 1, last + 1, at_once):
                rows = slice((first - 1) * each, min(first + at_once - 1, last) * each)
                self._features[rows], self._targets[rows] = self._dense(first, min(first + at_once - 1, last))
            self._read = last
            return
        last = min(self._rounds, max(last, 2 * self._read))  # a round more is a copy of all before it
        first, self._read = self._read + 1, last
        rounds, n, m = last - first + 1, self.owners, self.of_each
        seen = [read(first, last) for read in self._readers]
        order = np.arange(n * rounds * m).reshape(n, rounds, m).transpose(1, 0, 2).ravel()
        self._targets[(first - 1) * each : last * each] = np.concatenate([loss.targets for loss in seen])[order]
        new = stack([loss.features for loss in seen])[order]
        self._features = new if self._features is None else stack([self._features, new])

    def _dense(self, first: int, last: int) -> tuple[Vector, Vector]:
        """Of these rounds, read anew."""
        rounds, n, m = last - first + 1, self.owners, self.of_each
        targets, features = np.empty((rounds, n, m)), np.empty((rounds, n, m, self._dimension))
        for i, read in enumerate(self._readers):
            loss = read(first, last)
            targets[:, i] = loss.targets.reshape(rounds, m)
            features[:, i] = loss.features.reshape(rounds, m, -1)
        return features.reshape(rounds * n * m, -1), targets.ravel()
