"""The contract of streams of losses."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from mpinodes.core.messages import Features, Vector, stack
from mpinodes.core.parts.loss import Loss, SampleLoss

LOCATIONS = ("file", "dir")  # keys of `data` that name files
MakeLoss = Callable[[Features, Vector], SampleLoss]  # features (k, d), targets (k,)


class Recurring(Struct, frozen=True):
    """What `Stream.merged` gives where an agent has so many samples and no others, which come again and again.

    Attributes:
        features, targets: of all that it has.
        size: how many come in a round.
        make_loss: the loss of a round from its samples.
        places: by first and last round, which come, one after the other.
    """

    features: Features
    targets: Vector
    size: int
    make_loss: MakeLoss
    places: Callable[[int, int], NDArray[np.int64]]

    def __call__(self, first: int, last: int) -> SampleLoss:
        """See `Stream.merged`."""
        rows = self.places(first, last)
        one = self.make_loss(self.features[rows[: self.size]], self.targets[rows[: self.size]])
        return replace(one, features=self.features[rows], targets=self.targets[rows])


def files_of(path: Path) -> list[Path]:
    """Return the file itself, those of a pattern with {agent} in its name, or those of a directory, by name."""
    files = path.iterdir() if path.is_dir() else path.parent.glob(path.name.replace("{agent}", "*"))
    return sorted(file for file in files if file.is_file())


@dataclass(frozen=True, repr=False, eq=False)
class Stream(ABC):
    """Where the losses come from: alike on every rank that builds it, random access in t.

    `streams.labelled.LabelledStream` has the usual case, a fixed set of samples dealt to the agents: a new one is then
    one method that opens the data.

    All that it says here, but for the losses themselves, must be public: known without looking at any sample's values,
    as the dimension, the bounds, what becomes −1 and +1, and who has which samples. How many samples there are is
    public by definition: adjacent data sets differ in one that is replaced. What is read off the data after all must
    be named in `unproven_because`.

    Attributes:
        seed: of the data, their shares and their order.
        agents: n.
        make_loss: the loss of a round from its samples.
    """

    seed: int
    agents: int
    make_loss: MakeLoss

    defaults: ClassVar[Mapping[str, Any]] = {}  # of an experiment: what `data.name` alone is to run with
    remark: ClassVar[str] = ""  # on the noise of the default run
    lengthens: ClassVar[tuple[str, ...]] = ()  # settings that only say how long it lasts, and change no round's losses
    public: ClassVar[str] = ""  # a sentence: which choice of samples, made before adjacency, is taken to be public
    # Whether its samples are drawn from the seed, another data set for each; False: a row is the same sample whatever
    # the seed, which deals and orders them alone. None, nothing said: the same samples, in an order that nobody knows.
    drawn_from_seed: ClassVar[bool | None] = None

    @property
    @abstractmethod
    def title(self) -> str:
        """What a person would call it."""

    @property
    @abstractmethod
    def dimension(self) -> int:
        """Features of a sample: d, but for a loss that has so many for each class."""

    @property
    @abstractmethod
    def rounds(self) -> int | None:
        """How long it lasts; None: for ever."""

    @property
    def source_files(self) -> Sequence[Path]:
        """The files that samples are read from; unless stated, those that settings `file` and `dir` name.

        The noise depends on their contents, so that runs on different data never share noise.
        """
        named = (getattr(self, key, "") for key in LOCATIONS)
        return [file for word in named if word for file in files_of(Path(word))]

    @property
    def has_labels(self) -> bool:
        """Whether targets are labels ±1."""
        return False

    @property
    def classes(self) -> int:
        """How many there are, where targets are classes 0, 1, ...; 0: they are none."""
        return 0

    @property
    def feature_bound(self) -> float:
        """The largest |entry| of a feature, known without looking at the data; inf: unknown."""
        return inf

    @property
    def feature_norm(self) -> float:
        """The largest ‖·‖₂ of a sample's features, likewise."""
        return inf

    @property
    def unproven_because(self) -> str:
        """What is read off the data, so that nothing is proven, and what would mend it; empty: nothing is."""
        return ""

    @property
    def makes_all_losses(self) -> bool:
        """Whether each loss is surely made by `make_loss`, of `batch` samples within the bounds that are stated here.

        Where it is not, constants of the loss's class bound nothing, and the gradient of a round that differs from what
        is stated is cut as a whole to half the sensitivity that is accounted for. Where a user's stream states that it
        is, each loss is verified, and a run ends at the first that was made otherwise (`losses.enforced`).
        """
        return False

    @property
    def shares(self) -> Sequence[NDArray[np.int64]] | None:
        """By agent, the numbers of its samples; None: there is no end of them."""
        return None

    def source_rows(self, agent: int) -> NDArray[np.int64] | None:
        """By the numbers that `samples` has of this agent's, their rows in the source; None: there are none."""
        return None

    @abstractmethod
    def of(self, agent: int) -> Callable[[int], Loss]:
        """The losses that this agent sees, by round from 1."""

    def merged(self, agent: int) -> Callable[[int, int], SampleLoss]:
        """By first and last round, the losses of these rounds as one: their samples, round by round.

        All else is as in the first of them. Who judges a run reads its samples so, many rounds at a time; of a
        `Recurring` each sample once.
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
        """By round, the number of each of the agent's samples, in the order of the rows of its loss."""

    def groups(self, agent: int) -> Callable[[int], Sequence[int]]:
        """By round, numbers from 0 for the agent's samples; samples that are always used together may share one.

        Agents whose samples come alike should get equal answers.
        """
        return self.samples(agent)

    def passes(self, rounds: int) -> int:
        """How often a sample may have been used in so many rounds."""
        return 1

    def labelled(self) -> Mapping[str, Any]:
        """The "train" and "test" sets, each a `formats.Source` of labels ±1 or classes; empty where there are none."""
        return {}

    def real_valued(self) -> Mapping[str, Any]:
        """The "train" and "test" sets with real targets, as `labelled`; empty where there are none."""
        return {}

    def forget(self) -> None:  # noqa: B027 (most have nothing to let go of)
        """Let go of what was read from files; losses that `of` made keep their own samples."""


def is_built_in(stream: Stream) -> bool:
    """Return whether a stream is of this package, whose statements are taken at their word."""
    return type(stream).__module__.startswith("mpinodes.streams.")
