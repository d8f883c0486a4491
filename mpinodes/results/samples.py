"""The samples of a run, read as its rounds come and kept in the form that they are judged in."""

from __future__ import annotations

from typing import Any

import numpy as np

from mpinodes.core import Features, SampleLoss, Stream, Vector
from mpinodes.core.messages import stack
from mpinodes.results.gathered import Gathered


class Samples:
    """Of losses that come anew in every round: round by round, owner by owner, so that some rounds are a slice.

    Attributes:
        first: the loss of the first owner in round 1: what is said of it holds for all.
        owners: whose they are.
        of_each: samples that an owner has in a round.
    """

    def __init__(self, stream: Stream, owners: int, rounds: int) -> None:
        self._readers = [stream.merged(i) for i in range(owners)]
        self._rounds, self._read = rounds, 0
        self.first: Any = self._readers[0](1, 1)
        self.owners, self.of_each = owners, len(self.first.targets)
        # No memory is taken until a sample is written.
        total = rounds * owners * self.of_each
        self._targets = np.empty(total)
        self._features: Features = np.empty((total, stream.dimension)) if self._is_dense else None

    @property
    def _is_dense(self) -> bool:
        return isinstance(self.first.features, np.ndarray)

    def of(self, first: int, last: int) -> tuple[Features, Vector]:
        """Features (k, d) and targets (k,) of these rounds."""
        self._read_to(last)
        each = self.owners * self.of_each
        rows = slice((first - 1) * each, last * each)
        return self._features[rows], self._targets[rows]

    def everything(self) -> Gathered:
        """All samples of the run, those of rounds to come too."""
        self._read_to(self._rounds)
        one = self.first
        return Gathered(
            type(one), self._features, self._targets, self.owners * self.of_each, one.divisor,
            self.owners * one.regularizer,
        )  # fmt: skip

    def _read_to(self, last: int) -> None:
        if last <= self._read:
            return
        if not self._is_dense:  # there a round more is a copy of all before it
            last = min(self._rounds, max(last, 2 * self._read))
        first, self._read = self._read + 1, last
        rounds, n, m = last - first + 1, self.owners, self.of_each
        rows = slice((first - 1) * n * m, last * n * m)
        seen: list[SampleLoss] = [read(first, last) for read in self._readers]
        targets = self._targets[rows].reshape(rounds, n, m)
        for i, loss in enumerate(seen):
            targets[:, i] = loss.targets.reshape(rounds, m)
        if self._is_dense:
            features = self._features[rows].reshape(rounds, n, m, -1)
            for i, loss in enumerate(seen):
                features[:, i] = loss.features.reshape(rounds, m, -1)
            return
        order = np.arange(n * rounds * m).reshape(n, rounds, m).transpose(1, 0, 2).ravel()
        new = stack([loss.features for loss in seen])[order]
        self._features = new if self._features is None else stack([self._features, new])
