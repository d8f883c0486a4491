"""Labelled data in rounds: a fixed training set, seen in batches, once per epoch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, ClassVar, Literal

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from mpinodes.losses.linear import LinearLoss
from mpinodes.protocol import Loss, Vector
from mpinodes.seeds import Purpose, Stream

MakeLoss = Callable[[Vector, Vector], LinearLoss]
Table = tuple[Vector, Vector]  # features (N, d), labels ±1 (N,)


@dataclass(frozen=True)
class LabelledStream(ABC):
    """Round t sees the next `batch` training samples; a rest smaller than a batch is left out of an epoch."""

    seed: int
    make_loss: MakeLoss
    batch: Annotated[int, Meta(ge=1, description="samples a round")] = 1
    epochs: Annotated[int, Meta(ge=1, description="passes over the training samples")] = 1
    shuffle: Annotated[bool, Meta(description="another order of the samples in every epoch, from the seed")] = True
    partition: Annotated[Literal["shared"], Meta(description="who sees a round's samples; shared: every agent")] = (
        "shared"
    )

    labels: ClassVar[bool] = True
    feature_bound: ClassVar[float]

    @abstractmethod
    def tables(self) -> tuple[Table, Table]:
        """Training and test set."""

    @cached_property
    def _tables(self) -> tuple[Table, Table]:
        return self.tables()

    @property
    def dimension(self) -> int:
        """Features of a sample."""
        return int(self._tables[0][0].shape[1])

    @property
    def rounds_per_epoch(self) -> int:
        """Whole batches in the training set."""
        return len(self._tables[0][0]) // self.batch

    @property
    def rounds(self) -> int:
        """Rounds in all epochs."""
        return self.epochs * self.rounds_per_epoch

    def of(self, agent: int) -> Callable[[int], Loss]:
        """The losses by round: the same for every agent, for the data is shared."""
        (features, labels), _ = self._tables
        # One copy of the data in the order of the current epoch: a round is then a view of it.
        epoch, shuffled = -1, (features, labels)

        def loss(t: int) -> LinearLoss:
            nonlocal epoch, shuffled
            now, place = divmod(t - 1, self.rounds_per_epoch)
            if self.shuffle and now != epoch:
                permutation = self._order(now)
                epoch, shuffled = now, (features[permutation], labels[permutation])
            rows = slice(place * self.batch, (place + 1) * self.batch)
            return self.make_loss(shuffled[0][rows], shuffled[1][rows])

        return loss

    def groups(self, t: int) -> Sequence[int]:
        """The place of a round in its epoch; where epochs are shuffled, every sample by itself."""
        if not self.shuffle or self.epochs == 1:
            return [(t - 1) % self.rounds_per_epoch]
        return self.samples(t)

    def samples(self, t: int) -> Sequence[int]:
        """The training samples of round t, by row of the training set."""
        epoch, place = divmod(t - 1, self.rounds_per_epoch)
        rows = slice(place * self.batch, (place + 1) * self.batch)
        order = self._order(epoch) if self.shuffle else np.arange(len(self._tables[0][0]))
        found: list[int] = order[rows].tolist()
        return found

    def _order(self, epoch: int) -> NDArray[np.int64]:
        return Stream(self.seed, Purpose.SHUFFLE).at(epoch).permutation(len(self._tables[0][0]))

    def labelled(self) -> Mapping[str, Table]:
        """The two sets by name."""
        train, test = self._tables
        return {"train": train, "test": test}


def split(features: Vector, labels: Vector, train_share: float) -> tuple[Table, Table]:
    """A fixed split into training and test set, the same for every seed of a run."""
    order = Stream(0, Purpose.SPLIT).at(0).permutation(len(features))
    cut = round(train_share * len(features))
    train, test = order[:cut], order[cut:]
    return (features[train], labels[train]), (features[test], labels[test])


def scaled(pixels: np.ndarray, largest: float) -> Vector:
    """Pixels in [0, 1], by the format's own largest value: a public constant, not one read off the data."""
    return np.asarray(pixels, dtype=np.float64) / largest
