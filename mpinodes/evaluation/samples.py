"""The samples of a run, read as its rounds come, and what all of them come to."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from mpinodes.core import Features, SampleLoss, Stream, Vector
from mpinodes.core.messages import doubles, stack
from mpinodes.core.parts import Recurring
from mpinodes.evaluation.gathered import Gathered
from mpinodes.evaluation.totals import BYTES_AT_ONCE, Counted, Rounds, Total, condensed

KEPT = 64_000_000  # bytes of samples that are kept until the comparator is found: of more, all are read again


class Samples:
    """Of losses that come anew in every round: round by round, owner by owner, so that some rounds are a slice.

    Attributes:
        first: the loss of the first owner in round 1: what is said of it holds for all.
        owners: whose they are.
        of_each: samples that an owner has in a round; of a stream of the user's the most, and less come with copies of
            the first whose divisor is infinite.
    """

    def __init__(self, stream: Stream, owners: int, rounds: int) -> None:
        self._readers = [stream.merged(i) for i in range(owners)]
        given = [] if stream.makes_all_losses else [stream.of(i) for i in range(owners)]
        self._varying = given if given and isinstance(given[0](1), SampleLoss) else []  # others show no samples
        self._rounds, self._read, self._dimension = rounds, 0, stream.dimension
        self.first: Any = self._readers[0](1, 1)
        self.owners, self.of_each = owners, len(self.first.targets)
        if self._varying:
            numbers = [stream.samples(i) for i in range(owners)]
            self.of_each = max(len(of(t)) for of in numbers for t in range(1, rounds + 1))
        self._recurring = [reader for reader in self._readers if isinstance(reader, Recurring)]
        self._keeps = self._is_dense and self._size <= KEPT and len(self._recurring) < owners
        self._targets: Vector
        self._features: Features
        self._targets, self._features = self._room() if self._keeps else (np.empty(0), None)
        self._divisors = np.empty(len(self._targets) if self._varying else 0)
        self._last: tuple[tuple[int, int], tuple[Features, Vector, Any]] | None = None

    @property
    def _size(self) -> int:
        """Bytes of all samples, one by one."""
        return 8 * self._rounds * self.owners * self.of_each * (self._dimension + 1)

    @property
    def held_at_the_end(self) -> int:
        """Bytes of the samples that are in memory then, beside the data: two copies of such as come again and again."""
        if self._keeps:
            return self._size
        if len(self._recurring) == self.owners:
            return 2 * min(self._size, sum(_bytes(owner.features) for owner in self._recurring))
        return 0 if self._condensed else self._size

    def _room(self) -> tuple[Vector, Features]:
        """For all samples; no memory is taken until one is written."""
        total = self._rounds * self.owners * self.of_each
        return np.empty(total), np.empty((total, self._dimension))

    @property
    def _is_dense(self) -> bool:
        return isinstance(self.first.features, np.ndarray)

    def of(self, first: int, last: int) -> tuple[Features, Vector, Any]:
        """Features (k, d) and targets (k,) of these rounds, and the divisor of all, or (k,) of each."""
        if not self._keeps:
            if not self._last or self._last[0] != (first, last):
                self._last = (first, last), self._of(first, last)
            return self._last[1]
        self._read_to(last)
        each = self.owners * self.of_each
        rows = slice((first - 1) * each, last * each)
        return self._features[rows], self._targets[rows], self._divisors[rows] if self._varying else self.first.divisor

    @cached_property
    def everything(self) -> Total:
        """All samples of the run, those of rounds to come too."""
        self._last = None
        if not self._keeps and (total := self._condensed):
            return total
        rounds, one = self._as_rounds, self.first
        features, targets, divisor = self.of(1, self._rounds) if self._keeps else self._of(1, self._rounds)
        return Gathered(type(one), features, targets, rounds.samples, divisor, rounds.regularizer)

    @property
    def _condensed(self) -> Total | None:
        """Where it takes no more memory for more rounds."""
        if self._varying:
            return None
        if len(self._recurring) == self.owners:
            return Counted(self._as_rounds, self._recurring)
        return condensed(self._as_rounds)

    @property
    def _as_rounds(self) -> Rounds:
        return Rounds(
            lambda first, last: self._of(first, last)[:2],
            self.owners * self.of_each,
            self.first,
            self.owners * self.first.regularizer,
        )

    def _read_to(self, last: int) -> None:
        each = self.owners * self.of_each
        at_once = max(1, BYTES_AT_ONCE // (8 * each * (self._dimension + 1)))
        for first in range(self._read + 1, last + 1, at_once):
            rows = slice((first - 1) * each, min(first + at_once - 1, last) * each)
            self._features[rows], self._targets[rows], divisors = self._of(first, min(first + at_once - 1, last))
            if self._varying:
                self._divisors[rows] = divisors
        self._read = max(last, self._read)

    def _of(self, first: int, last: int) -> tuple[Features, Vector, Any]:
        """Of these rounds, read anew."""
        rounds, n, m = last - first + 1, self.owners, self.of_each
        if self._varying:
            return self._one_by_one([losses(t) for t in range(first, last + 1) for losses in self._varying])
        seen = [read(first, last) for read in self._readers]
        if not self._is_dense:
            order = np.arange(n * rounds * m).reshape(n, rounds, m).transpose(1, 0, 2).ravel()
            targets = np.concatenate([loss.targets for loss in seen])[order]
            return stack([loss.features for loss in seen])[order], targets, self.first.divisor
        targets, features = np.empty((rounds, n, m)), np.empty((rounds, n, m, self._dimension))
        for i, loss in enumerate(seen):
            targets[:, i] = loss.targets.reshape(rounds, m)
            features[:, i] = loss.features.reshape(rounds, m, -1)
        return features.reshape(rounds * n * m, -1), targets.ravel(), self.first.divisor

    def _one_by_one(self, losses: list[Any]) -> tuple[Features, Vector, Vector]:
        """Of losses that may differ in the number and in the weights of their samples."""
        blank = {"features": np.zeros((1, self._dimension)), "targets": np.ones(1), "divisor": np.inf}
        losses = [loss if len(loss.targets) else replace(loss, **blank) for loss in losses]
        place = np.arange(self.of_each)
        rows = [np.where(place < len(loss.targets), place, 0) for loss in losses]
        features = doubles(stack([loss.features[of] for loss, of in zip(losses, rows, strict=True)]))
        targets = np.concatenate([loss.targets[of] for loss, of in zip(losses, rows, strict=True)])
        divisors = [
            np.broadcast_to(loss.divisor, loss.targets.shape)[of] for loss, of in zip(losses, rows, strict=True)
        ]
        absent = [place >= len(loss.targets) for loss in losses]
        return features, targets, np.where(np.concatenate(absent), np.inf, np.concatenate(divisors))


def _bytes(features: Features) -> int:
    return 8 * features.size if isinstance(features, np.ndarray) else 16 * features.nnz
