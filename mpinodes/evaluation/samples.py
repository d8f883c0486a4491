"""Read the samples of a run as its rounds come, and sum the losses of any of its rounds.

`Samples` reads the samples of some rounds. When the run has ended, it makes a `Total`: the distinct samples of the run,
and how often each came, from which the loss of any stretch of rounds is summed. Samples that never come again are read
again for that. If they have more than `KEPT` bytes, and their loss allows it, few samples stand for all (`Squares`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpinodes.core import Features, SampleLoss, Stream, Vector
from mpinodes.core.messages import doubles, stack
from mpinodes.core.parts import Recurring
from mpinodes.losses.linear import LinearLoss

KEPT = 64_000_000  # bytes of samples above which they are condensed
BYTES_AT_ONCE = 4_000_000  # bytes of samples, or of their places, that are read together
COLUMNS = 512  # features above which condensing takes longer than reading the samples again

Block = tuple[Features, Vector, Any]  # features (k, d), targets (k,), and the divisor of all or (k,) of each


class Total:
    """The losses of a run, which can be summed over any rounds.

    Args:
        loss: any loss of the run; all have its class and regularizer.
        owners: number of losses in a round.
        block: the distinct samples; samples that never came have an infinite divisor.
        rows: gives, by first and last round, the places of the samples that came; None: all, in every round.

    Attributes:
        is_constant: whether losses are the same in every round.
    """

    def __init__(
        self, loss: Any, owners: int, block: Block, rows: Callable[[int, int], NDArray[np.int64]] | None
    ) -> None:
        self._kind, self._regularizer = type(loss), owners * loss.regularizer
        self._features, self._targets, self._divisor = block
        self._rows, self.is_constant = rows, rows is None

    def upto(self, rounds: int, first: int = 1) -> LinearLoss:
        """Return Σ_t Σ_i f_i^t of rounds `first` to `rounds`, unclipped."""
        number = rounds - first + 1
        if not self._rows:
            return self._loss(self._features, self._targets, self._divisor / number, number)
        counts = np.zeros(len(self._targets), np.int64)  # how often each sample came
        at_once = max(1, BYTES_AT_ONCE // (8 * len(self._rows(1, 1))))
        for start in range(first, rounds + 1, at_once):
            counts += np.bincount(self._rows(start, min(start + at_once - 1, rounds)), minlength=len(counts))
        if np.ndim(self._divisor) and (present := counts * np.isfinite(self._divisor)).any():
            counts = present
        rows: Any = np.flatnonzero(counts)
        if len(rows) == rows[-1] - rows[0] + 1:
            rows = slice(rows[0], rows[-1] + 1)  # which copies nothing
        counts, divisor = counts[rows], self._divisor[rows] if np.ndim(self._divisor) else self._divisor
        divisor = divisor if counts.max() == 1 else divisor / counts
        return self._loss(self._features[rows], self._targets[rows], divisor, number)

    def _loss(self, features: Features, targets: Vector, divisor: Any, rounds: int) -> LinearLoss:
        return self._kind(features, targets, divisor=divisor, regularizer=rounds * self._regularizer)  # type: ignore[no-any-return]


class Squares(Total):
    """Losses of very many samples, whose class states how fewer samples stand for them (`condensed`).

    Args:
        loss: any loss of the run.
        owners: number of losses in a round.
        read: gives the samples of rounds, by first and last round.
        at_once: number of rounds that are read together.
    """

    def __init__(self, loss: Any, owners: int, read: Callable[[int, int], Block], at_once: int) -> None:
        super().__init__(loss, owners, (loss.features, loss.targets, loss.divisor), None)
        self._read, self._at_once, self.is_constant = read, at_once, False
        self._summed, self._condense = (1, 0), type(loss).condensed
        self._left: tuple[Features, Vector] = loss.features[:0], loss.targets[:0]

    def upto(self, rounds: int, first: int = 1) -> LinearLoss:
        """Return Σ_t Σ_i f_i^t of rounds `first` to `rounds`, unclipped; the last sum is continued."""
        begun, done = self._summed
        if first != begun or rounds < done:
            done, self._left = first - 1, (self._left[0][:0], self._left[1][:0])
        for start in range(done + 1, rounds + 1, self._at_once):
            features, targets, _ = self._read(start, min(start + self._at_once - 1, rounds))
            before, some = self._left
            self._left = self._condense(stack([before, features]), np.concatenate([some, targets]))
        self._summed = first, rounds
        return self._loss(*self._left, self._divisor, rounds - first + 1)


class Samples:
    """The samples of losses that change by round, ordered by round and then by owner.

    Attributes:
        first: the loss of the first owner in round 1; all losses have its class.
        owners: number of owners.
        of_each: number of samples that an owner has in a round. For a user's stream it is the largest number, and
            smaller rounds are filled up with copies of their first sample, whose divisor is infinite.
        of: gives the samples of some rounds, by first and last round; the last result is cached.
    """

    def __init__(self, stream: Stream, owners: int, rounds: int) -> None:
        self._readers: list[Any] = [stream.merged(i) for i in range(owners)]
        given = [] if stream.makes_all_losses else [stream.of(i) for i in range(owners)]
        self._varying = given if given and isinstance(given[0](1), SampleLoss) else []  # others show no samples
        self._rounds, self._dimension = rounds, stream.dimension
        self.first: Any = self._readers[0](1, 1)
        self.owners, self.of_each = owners, len(self.first.targets)
        if self._varying:
            numbers = [stream.samples(i) for i in range(owners)]
            self.of_each = max(len(of(t)) for of in numbers for t in range(1, rounds + 1))
        self._recurs = not self._varying and all(isinstance(reader, Recurring) for reader in self._readers)
        of_round = 8 * owners * self.of_each * (self._dimension + 1)
        self._size = rounds * of_round  # bytes of all samples, one by one
        self._at_once = max(1, BYTES_AT_ONCE // of_round)
        self.of = lru_cache(maxsize=1)(self._of)

    @property
    def held_at_the_end(self) -> int:
        """Return the bytes of samples in memory at the end, beside the data: two copies of recurring samples."""
        if self._recurs:
            features = [reader.features for reader in self._readers]
            held = sum(8 * x.size if isinstance(x, np.ndarray) else 16 * x.nnz for x in features)
            return 2 * min(self._size, held)
        return 0 if self._is_summed else self._size

    @property
    def _is_summed(self) -> bool:
        """Return whether samples are condensed; the loss's own class must state how."""
        condenses = "condensed" in vars(type(self.first)) and not self._varying
        return condenses and self._size > KEPT and self._dimension < COLUMNS

    @cached_property
    def everything(self) -> Total:
        """Return all samples of the run, those of later rounds too."""
        self.of.cache_clear()
        if self._recurs:
            # Where all owners have the same samples, these are one set.
            sets = {id(reader.features): reader for reader in self._readers}
            ends = np.cumsum([len(reader.targets) for reader in sets.values()])
            begins = dict(zip(sets, [0, *ends.tolist()], strict=False))
            features = stack([reader.features for reader in sets.values()])
            targets = np.concatenate([reader.targets for reader in sets.values()])

            def rows(first: int, last: int) -> NDArray[np.int64]:
                return np.concatenate([r.places(first, last) + begins[id(r.features)] for r in self._readers])

            return Total(self.first, self.owners, (features, targets, self.first.divisor), rows)
        if self._is_summed:
            return Squares(self.first, self.owners, self._of, self._at_once)
        starts = range(1, self._rounds + 1, self._at_once)
        blocks = zip(*(self._of(start, min(start + self._at_once - 1, self._rounds)) for start in starts), strict=True)
        features, targets = stack(next(blocks)), np.concatenate(next(blocks))
        block = features, targets, np.concatenate(next(blocks)) if self._varying else self.first.divisor
        m, places = self.owners * self.of_each, np.arange(len(targets))
        return Total(self.first, self.owners, block, lambda first, last: places[(first - 1) * m : last * m])

    def _of(self, first: int, last: int) -> Block:
        """Read the samples of these rounds."""
        rounds, n, m = last - first + 1, self.owners, self.of_each
        if not self._varying:
            seen = [read(first, last) for read in self._readers]
            order = np.arange(n * rounds * m).reshape(n, rounds, m).transpose(1, 0, 2).ravel()
            targets = np.concatenate([loss.targets for loss in seen])[order]
            return stack([loss.features for loss in seen])[order], targets, self.first.divisor
        # Losses may differ in the number and the weights of their samples.
        blank = {"features": np.zeros((1, self._dimension)), "targets": np.ones(1), "divisor": np.inf}
        place = np.arange(m)
        features, of_targets, divisors = [], [], []
        for t in range(first, last + 1):
            for losses in self._varying:
                loss: Any = losses(t)
                number = len(loss.targets)
                rows = np.where(place < number, place, 0)
                loss = loss if number else replace(loss, **blank)
                features.append(loss.features[rows])
                of_targets.append(loss.targets[rows])
                weights = np.broadcast_to(loss.divisor, loss.targets.shape)[rows]
                divisors.append(np.where(place < number, weights, np.inf))
        return doubles(stack(features)), np.concatenate(of_targets), np.concatenate(divisors)
