"""Read the samples of a run round by round, and sum the losses of any consecutive rounds.

`Samples` reads the samples of consecutive rounds. At the end of the run, `Samples` makes a `Total`, which sums the
losses of any consecutive rounds. A `Total` holds the samples of the run, and the rounds in which each sample was used.

`Squares` is a `Total` for samples that are too large to hold in memory. It replaces the samples by fewer samples with
the same sum of losses, if the class of the losses defines how (`condensed`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property, lru_cache
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpinodes.core import Features, SampleLoss, Stream, Vector
from mpinodes.core.messages import doubles, stack
from mpinodes.core.parts import Recurring
from mpinodes.losses.linear import LinearLoss

KEPT = 64_000_000  # bytes; if the samples are larger, they are condensed where possible
BYTES_AT_ONCE = 4_000_000  # bytes of samples, or of their indices, that are read together
COLUMNS = 512  # with more features, condensing takes longer than reading the samples again

Block = tuple[Features, Vector, Any]  # features (k, d), targets (k,), and one divisor, or one for each sample, (k,)


class Total:
    """Sum the losses over any consecutive rounds of a run.

    Args:
        loss: any loss of the run; all losses of the run have the class and the regularizer of this loss.
        owners: the number of losses in a round: the number of agents, or 1 if all agents share one loss.
        block: the samples of the run: features, targets and divisors. The divisor of a sample divides its loss; an
            infinite divisor removes the sample from all sums.
        rows: a function that maps a first and a last round to the indices of the samples that these rounds use; None if
            every round uses all samples.

    Attributes:
        is_constant: whether the losses are the same in every round.
    """

    def __init__(
        self, loss: Any, owners: int, block: Block, rows: Callable[[int, int], NDArray[np.int64]] | None
    ) -> None:
        self._kind, self._regularizer = type(loss), owners * loss.regularizer
        self._features, self._targets, self._divisor = block
        self._rows, self.is_constant = rows, rows is None

    def content(self, rounds: int) -> tuple[Any, ...]:
        """Return the values on which the sums of the losses of rounds 1 to `rounds` depend."""
        rows = blake2b()
        for indices in self._indices(1, rounds) if self._rows else ():
            rows.update(indices.tobytes())
        return self._kind, self._regularizer, self._features, self._targets, self._divisor, rows.digest()

    def upto(self, rounds: int, first: int = 1) -> LinearLoss:
        """Return the sum of the unclipped losses of the rounds `first` to `rounds`, as one function."""
        number = rounds - first + 1
        if not self._rows:
            return self._loss(self._features, self._targets, self._divisor / number, number)
        counts = np.zeros(len(self._targets), np.int64)  # how often each sample was used
        for indices in self._indices(first, rounds):
            counts += np.bincount(indices, minlength=len(counts))
        if np.ndim(self._divisor) and (present := counts * np.isfinite(self._divisor)).any():
            counts = present
        rows: Any = np.flatnonzero(counts)
        if len(rows) == rows[-1] - rows[0] + 1:
            rows = slice(rows[0], rows[-1] + 1)  # a slice does not copy the arrays
        counts, divisor = counts[rows], self._divisor[rows] if np.ndim(self._divisor) else self._divisor
        divisor = divisor if counts.max() == 1 else divisor / counts
        return self._loss(self._features[rows], self._targets[rows], divisor, number)

    def _indices(self, first: int, last: int) -> Iterator[NDArray[np.int64]]:
        """Yield the indices of the samples that the rounds `first` to `last` use, in one array for every few rounds."""
        assert self._rows
        at_once = max(1, BYTES_AT_ONCE // (8 * len(self._rows(1, 1))))
        for start in range(first, last + 1, at_once):
            yield self._rows(start, min(start + at_once - 1, last))

    def _loss(self, features: Features, targets: Vector, divisor: Any, rounds: int) -> LinearLoss:
        return self._kind(features, targets, divisor=divisor, regularizer=rounds * self._regularizer)  # type: ignore[no-any-return]


class Squares(Total):
    """Sum losses over consecutive rounds, if there are too many samples to hold in memory.

    The samples are replaced by fewer samples with the same sum of losses, which the method `condensed` of the class of
    the losses computes.

    Args:
        loss: any loss of the run.
        owners: the number of losses in a round: the number of agents, or 1 if all agents share one loss.
        read: a function that maps a first and a last round to the samples of these rounds.
        at_once: the number of rounds that are read together.
    """

    def __init__(self, loss: Any, owners: int, read: Callable[[int, int], Block], at_once: int) -> None:
        super().__init__(loss, owners, (loss.features, loss.targets, loss.divisor), None)
        self._read, self._at_once, self.is_constant = read, at_once, False
        self._summed, self._condense = (1, 0), type(loss).condensed
        self._left: tuple[Features, Vector] = loss.features[:0], loss.targets[:0]

    def content(self, rounds: int) -> tuple[Any, ...]:
        """Return a tuple with a function that has no pickle, so that results that depend on the sums are not cached."""
        return (lambda: rounds,)

    def upto(self, rounds: int, first: int = 1) -> LinearLoss:
        """Return the sum of the unclipped losses of the rounds `first` to `rounds`, as one function.

        If a call has the same `first` as the last call, and no smaller `rounds`, only the samples of the further rounds
        are read.
        """
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
    """Read the samples of consecutive rounds, for a run whose losses change from round to round.

    The samples are ordered by round, and within a round by owner. If every agent has a loss (decomposable objective),
    each agent owns its samples. Otherwise the network is the only owner.

    Attributes:
        first: the loss of the first owner in round 1; all losses of the run have the same class.
        owners: the number of owners.
        of_each: the number of samples of an owner in a round. If a user-defined stream has different numbers, it is the
            largest number. A smaller round is then padded with samples whose losses are divided by infinity, so that
            they add 0.
        of: a function that maps a first and a last round to the samples of these rounds; the function caches its last
            result.
    """

    def __init__(self, stream: Stream, owners: int, rounds: int) -> None:
        self._readers: list[Any] = [stream.merged(i) for i in range(owners)]
        given = [] if stream.makes_all_losses else [stream.of(i) for i in range(owners)]
        self._varying = given if given and isinstance(given[0](1), SampleLoss) else []  # only a SampleLoss has samples
        self._rounds, self._dimension = rounds, stream.dimension
        self.first: Any = self._readers[0](1, 1)
        self.owners, self.of_each = owners, len(self.first.targets)
        if self._varying:
            numbers = [stream.samples(i) for i in range(owners)]
            self.of_each = max(len(of(t)) for of in numbers for t in range(1, rounds + 1))
        self._recurs = not self._varying and all(isinstance(reader, Recurring) for reader in self._readers)
        of_round = 8 * owners * self.of_each * (self._dimension + 1)
        self._size = rounds * of_round  # bytes, if no sample is used twice
        self._at_once = max(1, BYTES_AT_ONCE // of_round)
        self.of = lru_cache(maxsize=1)(self._of)

    @property
    def held_at_the_end(self) -> int:
        """Return how many bytes the samples take in memory when the run has ended, in addition to the data set itself.

        If every agent's rounds use parts of a fixed set of samples, two copies of the samples are counted.
        """
        if self._recurs:
            features = [reader.features for reader in self._readers]
            held = sum(8 * x.size if isinstance(x, np.ndarray) else 16 * x.nnz for x in features)
            return 2 * min(self._size, held)
        return 0 if self._is_summed else self._size

    @property
    def _is_summed(self) -> bool:
        """Return whether the samples of the run are replaced by fewer samples with the same sum of losses (`Squares`).

        The samples are replaced if they are large and have few features, if the class of the loss itself defines the
        method `condensed`, and if the numbers of samples cannot differ between rounds.
        """
        condenses = "condensed" in vars(type(self.first)) and not self._varying
        return condenses and self._size > KEPT and self._dimension < COLUMNS

    @cached_property
    def everything(self) -> Total:
        """Return the losses of the whole run as a `Total`, which sums the losses of any consecutive rounds.

        Rounds that were not evaluated are included.
        """
        self.of.cache_clear()
        if self._recurs:
            # Owners that share one array of samples share one set.
            sets = {id(reader.features): reader for reader in self._readers}
            ends = np.cumsum([len(reader.targets) for reader in sets.values()])
            begins = dict(zip(sets, [0, *ends.tolist()], strict=False))
            features = stack([reader.features for reader in sets.values()])
            targets = np.concatenate([reader.targets for reader in sets.values()])

            def read(first: int, last: int) -> NDArray[np.int64]:
                return np.stack([r.places(first, last) + begins[id(r.features)] for r in self._readers])

            def rows(first: int, last: int) -> NDArray[np.int64]:
                return places[:, (first - 1) * m : last * m].ravel() if is_small else read(first, last).ravel()

            m, is_small = self.of_each, 8 * self._rounds * self.owners * self.of_each <= BYTES_AT_ONCE
            places = read(1, self._rounds if is_small else 1)
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
        """Read the samples of the rounds `first` to `last`."""
        rounds, n, m = last - first + 1, self.owners, self.of_each
        if not self._varying:
            seen = [read(first, last) for read in self._readers]
            order = np.arange(n * rounds * m).reshape(n, rounds, m).transpose(1, 0, 2).ravel()
            targets = np.concatenate([loss.targets for loss in seen])[order]
            return stack([loss.features for loss in seen])[order], targets, self.first.divisor
        # The losses of a user-defined stream may have different numbers of samples, with different divisors.
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


def samples_of(stream: Stream, owners: int, rounds: int) -> Samples:
    """Return the samples of a stream. Runs that have one stream object share the result, and so read samples once.

    Args:
        stream: the data.
        owners: as in `Samples`.
        rounds: as in `Samples`.
    """
    known: dict[tuple[int, int], Samples] = vars(stream).setdefault("_samples_of", {})
    if (owners, rounds) not in known:
        known[owners, rounds] = Samples(stream, owners, rounds)
    return known[owners, rounds]
