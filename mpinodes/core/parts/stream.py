"""Define the base class of streams. A stream provides the data of a run: the loss of each agent in each round."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from glob import escape
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
    """Merge the losses of many rounds into one loss, for an agent whose rounds use parts of a fixed set of samples.

    The function `Stream.merged` may return such an object.

    Attributes:
        features, targets: all samples of the agent, (k, d) and (k,).
        size: the number of samples in a round.
        make_loss: returns the loss of a round from the features and targets of its samples.
        places: maps rounds (first, last) to the indices of the samples of these rounds, in the order of rounds.
    """

    features: Features
    targets: Vector
    size: int
    make_loss: MakeLoss
    places: Callable[[int, int], NDArray[np.int64]]

    def __call__(self, first: int, last: int) -> SampleLoss:
        """Return one loss of all samples of rounds `first` to `last`."""
        rows = self.places(first, last)
        first_loss = self.make_loss(self.features[rows[: self.size]], self.targets[rows[: self.size]])
        return replace(first_loss, features=self.features[rows], targets=self.targets[rows])


def files_of(path: Path) -> list[Path]:
    """Return the files that a path stands for, sorted.

    The path of a file stands for this file, and the path of a directory stands for all files in the directory. If the
    name contains "{agent}", the path stands for all files whose names have any text in the place of "{agent}". The list
    is empty if there is no such file.
    """
    files = path.iterdir() if path.is_dir() else path.parent.glob(escape(path.name).replace("{agent}", "*"))
    return sorted(file for file in files if file.is_file())


@dataclass(frozen=True, repr=False, eq=False)
class Stream(ABC):
    """Provide the data of a run: the loss of each agent in each round.

    The losses of any round can be read at any time, and all ranks read the same losses. If a fixed set of samples is
    partitioned among the agents, extend `streams.labelled.LabelledStream`: such a stream needs only the method `open`,
    a name and a bound on the features.

    Everything that a stream returns, except losses and data sets, must be public: it must not depend on the values of
    samples. Examples are the dimension, the bounds, the number of samples, and which agent has which samples. If an
    attribute or result does depend on the data, `unproven_because` must name it.

    Attributes:
        seed: the seed of the data, of their partition among agents, and of their order.
        agents: n, the number of agents.
        make_loss: returns the loss of a round from the features and targets of its samples.
    """

    seed: int
    agents: int
    make_loss: MakeLoss

    defaults: ClassVar[Mapping[str, Any]] = {}  # default settings of an experiment that chooses this stream
    # Default settings, with an algorithm, of an experiment that chooses this stream by name, and names no algorithm.
    method: ClassVar[Mapping[str, Any]] = {}
    lengthens: ClassVar[tuple[str, ...]] = ()  # settings that change the number of rounds, but not the losses
    dealing: ClassVar[tuple[str, ...]] = ()  # settings that only decide which agent uses which rows in which rounds
    # A sentence for users: which selection of samples is public, because adjacent data sets are defined after it.
    public: ClassVar[str] = ""
    # True: samples are drawn from the seed, so another seed gives another data set. False: each row is the same sample
    # for every seed; the seed only assigns samples to agents and rounds. None: every seed gives the same samples, in an
    # unknown order.
    drawn_from_seed: ClassVar[bool | None] = None

    @classmethod
    def inferred(cls, settings: Mapping[str, Any], is_alone: bool) -> Mapping[str, Any]:
        """Return default settings of the experiment that depend on the section `data`.

        Args:
            settings: the section `data`, which is not checked yet.
            is_alone: whether the user names no algorithm, so that the stream chooses one (`method`).
        """
        return {}

    @classmethod
    def scaling_of(cls, settings: Mapping[str, Any]) -> tuple[Callable[[Features], Features], int]:
        """Return how a stream with these settings of `data` scales the features of a file.

        Returns:
            The function that scales features (k, d), and the number of features that it adds to each sample.
        """
        return lambda features: features, 0

    @property
    @abstractmethod
    def title(self) -> str:
        """Return the name of the data that summaries and figures print."""

    @property
    @abstractmethod
    def dimension(self) -> int:
        """Return the number of features of a sample.

        The number is also d, the dimension of a decision, unless the loss has a parameter vector for each class
        (`SampleLoss.per_class`).
        """

    @property
    @abstractmethod
    def rounds(self) -> int | None:
        """Return the number of rounds for which there are data; None if the data never end."""

    @property
    def batch(self) -> int | Literal["all"]:
        """Return how many samples an agent's loss has in a round; "all": every loss has all samples of the agent.

        Most streams have a setting of this name. If batches are secret (`data.sampling`), mpinodes sets it to "all".
        """
        return 1

    @property
    def source_files(self) -> Sequence[Path]:
        """Return the files from which samples are read; by default the files that the settings `file` and `dir` name.

        Unless `noise.key` is set, the noise key depends on the contents of these files, so that runs on different data
        do not share noise.
        """
        words = (getattr(self, key, "") for key in LOCATIONS)
        return [file for word in words if word for file in files_of(Path(word))]

    @property
    def has_labels(self) -> bool:
        """Return whether the targets of samples are labels −1 and +1."""
        return False

    @property
    def target_values(self) -> Sequence[Any]:
        """Return the two labels, or all classes, as they are in the data source; by default −1 and +1, or 0, 1, ..."""
        return range(self.classes) if self.classes else (-1, 1)

    @property
    def classes(self) -> int:
        """Return the number of classes if the targets of samples are classes 0, 1, ...; else 0."""
        return 0

    @property
    def feature_bound(self) -> float:
        """Return a bound on the absolute value of every feature, known without looking at the data; inf if unknown."""
        return inf

    @property
    def feature_norm(self) -> float:
        """Return a bound on the L2 norm of a sample's features, known without looking at the data; inf if unknown.

        By default the bound follows from `feature_bound`.
        """
        return sqrt(self.dimension) * self.feature_bound

    @property
    def unproven_because(self) -> str:
        """Return a text that says which attribute depends on the data, so that no epsilon is proven, and what to do.

        The text is empty if no attribute of the stream depends on the data.
        """
        return ""

    @property
    def unchecked_facts(self) -> str:
        """Return the part of `unproven_because` that does not forbid a privacy budget; "" by default.

        The part names facts that were read from the data (`data.facts` = "read"). If `unproven_because` has no other
        reason, a privacy budget sets the noise as if these facts were public. No epsilon is proven until the user has
        checked that the facts may be public.
        """
        return ""

    @property
    def warning(self) -> str:
        """Return a sentence that warns of samples on which methods work badly, and says what to do; "" if all is well.

        The sentence may depend on the data.
        """
        return ""

    @property
    def makes_all_losses(self) -> bool:
        """Return whether every loss of this stream satisfies the bounds on gradients of its class (`SampleLoss`).

        A loss satisfies the bounds if `make_loss` makes it from `batch` samples whose features do not exceed
        `feature_bound` and `feature_norm`.

        - If the result is False: mpinodes does not use the bounds. In a round in which the bounds may not hold,
          mpinodes clips the gradient of the whole round.
        - If a user's stream returns True: mpinodes checks each loss, and ends the run if a loss was made in another
          way.
        """
        return False

    @property
    def keeps_order(self) -> bool:
        """Return whether an agent uses its samples in the same rounds for every seed.

        Compare two runs that differ only in the seed, and an agent that has the same rows of the data in both runs. If
        the result is True, this agent uses each sample in the same rounds of both runs.
        """
        return False

    @property
    def shares(self) -> Sequence[NDArray[np.int64]] | None:
        """Return, for each agent, the indices of all samples of the agent; None if the samples never end."""
        return None

    def source_rows(self, agent: int) -> NDArray[np.int64] | None:
        """Return the row number in the data source of each sample of an agent; None if the source has no rows.

        Entry k of the result is for the sample with the index k (see `samples`).
        """
        return None

    @abstractmethod
    def of(self, agent: int) -> Callable[[int], Loss]:
        """Return a function that maps a round t = 1, 2, ... to the loss of this agent."""

    def merged(self, agent: int) -> Callable[[int, int], SampleLoss]:
        """Return a function that maps rounds (first, last) to one loss of all samples of the rounds `first` to `last`.

        The samples of this loss are in the order of rounds. Its other attributes, such as the divisor, are those of the
        loss of round `first`.
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
        """Return a function that maps a round to the indices of the samples in the agent's loss of this round.

        The indices are in the order of the rows of the loss.
        """

    def groups(self, agent: int) -> Callable[[int], Sequence[int]]:
        """Return a function that maps a round to the group number (from 0) of each sample of the round.

        Privacy accounting computes one privacy loss for each group. Two samples may be in one group if every round uses
        both samples or neither. By default, every sample is a group of its own.
        """
        return self.samples(agent)

    def passes(self, rounds: int) -> int:
        """Return the largest number of times that a sample may be used in the first `rounds` rounds."""
        return 1

    def labelled(self) -> Mapping[str, Any]:
        """Return the data sets on which accuracy is measured, by the names "train" and "test".

        Each data set is a `data.source.Source` whose targets are labels or classes. A name is missing if there is no
        such data set.
        """
        return {}

    def real_valued(self) -> Mapping[str, Any]:
        """Return the data sets on which prediction errors are measured, by the names "train" and "test".

        Each data set is a `data.source.Source` with real targets. A name is missing if there is no such data set.
        """
        return {}

    def forget(self) -> None:  # noqa: B027 (most streams have nothing to release)
        """Free the memory of data that were read from files. Losses that `of` has returned remain usable."""
