"""Define the contract of streams of losses."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf, sqrt
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from mpinodes.core.messages import Features, Vector, stack
from mpinodes.core.parts.loss import Loss, SampleLoss

LOCATIONS = ("file", "dir")  # the keys of `data` that name files
MakeLoss = Callable[[Features, Vector], SampleLoss]  # features (k, d), targets (k,)


class Recurring(Struct, frozen=True):
    """Merge the rounds of an agent whose fixed set of samples comes again and again; a result of `Stream.merged`.

    Attributes:
        features, targets: all samples of the agent, (k, d) and (k,).
        size: the number of samples in a round.
        make_loss: makes the loss of a round from its samples.
        places: maps the first and last round to the indices of their samples, round by round.
    """

    features: Features
    targets: Vector
    size: int
    make_loss: MakeLoss
    places: Callable[[int, int], NDArray[np.int64]]

    def __call__(self, first: int, last: int) -> SampleLoss:
        """Return the losses of rounds `first` to `last` as one loss of all their samples."""
        rows = self.places(first, last)
        first_loss = self.make_loss(self.features[rows[: self.size]], self.targets[rows[: self.size]])
        return replace(first_loss, features=self.features[rows], targets=self.targets[rows])


def files_of(path: Path) -> list[Path]:
    """Return the files that a path names, sorted: the file itself, a directory's files, or all matches of {agent}."""
    files = path.iterdir() if path.is_dir() else path.parent.glob(path.name.replace("{agent}", "*"))
    return sorted(file for file in files if file.is_file())


@dataclass(frozen=True, repr=False, eq=False)
class Stream(ABC):
    """Yield the loss of each agent and round.

    Any round can be asked for at any time, and every rank gets the same losses.

    `streams.labelled.LabelledStream` implements the usual case: a fixed set of samples that is dealt to the agents. A
    new stream of this kind is one method that opens the data.

    All statements of a stream, except the losses themselves, must be public. This means that they are known without
    looking at the values of any sample: the dimension, the bounds, which values become −1 and +1, and which agent has
    which samples. The number of samples is public by definition, because adjacent data sets differ in one replaced
    sample. If a statement does depend on the data, `unproven_because` must name it.

    Attributes:
        seed: the seed of the data, of their distribution among agents, and of their order.
        agents: n.
        make_loss: makes the loss of a round from its samples.
    """

    seed: int
    agents: int
    make_loss: MakeLoss

    defaults: ClassVar[Mapping[str, Any]] = {}  # keys of the experiment that `data.name` alone sets
    remark: ClassVar[str] = ""  # a remark on the noise of the default run
    lengthens: ClassVar[tuple[str, ...]] = ()  # settings that change only the number of rounds, and no round's losses
    dealing: ClassVar[tuple[str, ...]] = ()  # settings that only decide which agent gets which rows, and when
    # A sentence for people: which selection of samples counts as public because it was made before adjacency.
    public: ClassVar[str] = ""
    # True: samples are drawn from the seed, so another seed gives another data set. False: a row is the same sample for
    # every seed; the seed only deals and orders the samples. None: every seed gives the same samples in unknown order.
    drawn_from_seed: ClassVar[bool | None] = None

    @property
    @abstractmethod
    def title(self) -> str:
        """Return the name of the data for people, as summaries and figures print it."""

    @property
    @abstractmethod
    def dimension(self) -> int:
        """Return the number of features of a sample. It is d, unless the loss has coordinates for each class."""

    @property
    @abstractmethod
    def rounds(self) -> int | None:
        """Return the number of rounds that the data last; None if they never end."""

    @property
    def batch(self) -> int | Literal["all"]:
        """How many samples of an agent a round has; "all": all that it has, in every round. As a rule a setting."""
        return 1

    @property
    def source_files(self) -> Sequence[Path]:
        """Return the files from which samples are read; by default the files that the settings `file` and `dir` name.

        The noise key depends on the contents of these files, so that runs on different data never share noise.
        """
        words = (getattr(self, key, "") for key in LOCATIONS)
        return [file for word in words if word for file in files_of(Path(word))]

    @property
    def has_labels(self) -> bool:
        """Return whether the targets are labels ±1."""
        return False

    @property
    def classes(self) -> int:
        """Return the number of classes if targets are classes 0, 1, ..., else 0."""
        return 0

    @property
    def feature_bound(self) -> float:
        """Return the largest absolute entry of a feature, known without looking at the data; inf if unknown."""
        return inf

    @property
    def feature_norm(self) -> float:
        """Return the largest L2 norm of a sample's features, known without looking at the data; inf if unknown.

        By default this is the norm of `dimension` features of the largest size.
        """
        return sqrt(self.dimension) * self.feature_bound

    @property
    def unproven_because(self) -> str:
        """Return why no epsilon is proven: which statement depends on the data, and the remedy; empty if none does."""
        return ""

    @property
    def makes_all_losses(self) -> bool:
        """Return whether `make_loss` surely makes every loss, from `batch` samples within the bounds stated here.

        If not, the constants of the loss's class bound nothing. A gradient of a round that differs from what is stated
        is then clipped as a whole to half the accounted sensitivity. If a user's stream states True, each loss is
        verified, and the run ends at the first loss that was made otherwise (`losses.enforced`).
        """
        return False

    @property
    def keeps_order(self) -> bool:
        """Return whether agents with the same rows see the same samples in the same rounds for every seed."""
        return False

    @property
    def shares(self) -> Sequence[NDArray[np.int64]] | None:
        """Return the indices of each agent's samples; None if the samples never end."""
        return None

    def source_rows(self, agent: int) -> NDArray[np.int64] | None:
        """Return the source's row number of each index that `samples` uses for this agent; None if it has no rows."""
        return None

    @abstractmethod
    def of(self, agent: int) -> Callable[[int], Loss]:
        """Return the losses of this agent as a function of the round, from 1."""

    def merged(self, agent: int) -> Callable[[int, int], SampleLoss]:
        """Return a function of a first and a last round that merges their losses into one loss of all their samples.

        The samples are in the order of rounds. All other attributes are those of the first round's loss. The evaluation
        reads samples this way, many rounds at a time; if the result is a `Recurring`, it reads each sample only once.
        """
        losses: Callable[[int], Any] = self.of(agent)

        def read(first: int, last: int) -> SampleLoss:
            seen = [losses(t) for t in range(first, last + 1)]
            features, targets = stack([loss.features for loss in seen]), np.concatenate([loss.targets for loss in seen])
            merged: SampleLoss = replace(seen[0], features=features, targets=targets)
            return merged

        return read

    @abstractmethod
    def samples(self, agent: int) -> Callable[[int], Sequence[int]]:
        """Return a function of the round that gives the index of each sample, in the order of the rows of the loss."""

    def groups(self, agent: int) -> Callable[[int], Sequence[int]]:
        """Return a function of the round that gives a group number, from 0, for each sample.

        Samples that are always used together may share a group. Agents whose samples come in the same pattern should
        return equal groups.
        """
        return self.samples(agent)

    def passes(self, rounds: int) -> int:
        """Return how many times a sample may have been used in the first `rounds` rounds."""
        return 1

    def labelled(self) -> Mapping[str, Any]:
        """Return the "train" and "test" sets with labels ±1 or classes, each a `data.source.Source`.

        The mapping is empty if there are no such sets.
        """
        return {}

    def real_valued(self) -> Mapping[str, Any]:
        """Return the "train" and "test" sets with real targets, each a `data.source.Source`; empty if there is none."""
        return {}

    def forget(self) -> None:  # noqa: B027 (most streams have nothing to release)
        """Release the memory of data read from files. Losses that `of` has made keep their own samples."""


def is_built_in(stream: Stream) -> bool:
    """Return whether a stream belongs to this package, so that its statements are trusted without a check."""
    return type(stream).__module__.startswith("mpinodes.streams.")
