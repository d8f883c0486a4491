"""Streams that show a fixed training set in rounds: the samples are dealt to the agents, and seen in batches.

`LabelledStream` is the base of the data sets in this folder, and `FileStream` of those with published files. `deal`
decides which agent has which rows, and `BatchOrder` which samples a round shows. The functions at the end combine and
split sources.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from msgspec import Meta, Struct
from numpy.typing import NDArray

from mpinodes.core import Features, Loss, Stream, Vector
from mpinodes.core.errors import BadInput
from mpinodes.core.messages import arrays, doubles, stack
from mpinodes.core.parts import Recurring, is_built_in
from mpinodes.core.seeds import Draws, Purpose
from mpinodes.data import Source
from mpinodes.data.fetch import Wanted, locate
from mpinodes.data.shelf import Arrays, drawn_once
from mpinodes.data.source import LARGEST, unfit
from mpinodes.losses.clipping import row_norms, row_sizes

Indices = NDArray[np.int64]
Partition = Literal["shared", "even", "uneven", "by-label"]
Batch = Annotated[int, Meta(ge=1, description="samples an agent sees in a round")]
Batches = Annotated[
    Annotated[int, Meta(ge=1)] | Literal["all"],
    Meta(description="samples an agent sees in a round; all: every one it has, in every round"),
]
Train = Annotated[
    float,
    Meta(
        gt=0,
        le=1e12,
        description="samples to train on, the others test: a number above 1, or a share; 1: all, none test",
    ),
]


# What makes, reads, checks and numbers samples.
LOSSES_BY = ("of", "_own", "_batches", "_size", "_order", "samples", "groups", "passes", "merged")


class Cycle(Struct, frozen=True):
    """Groups of samples that come round after round in the same batches."""

    batches: int

    def __call__(self, t: int) -> list[int]:
        """Return the group of round t: the place of the round in a pass over the batches."""
        return [(t - 1) % self.batches]


@dataclass(frozen=True)
class BatchOrder:
    """The samples of an owner in every round: one batch a round, epoch after epoch."""

    seed: int
    owner: int
    samples: int
    batch: int
    shuffle: bool  # whether every epoch has an order of its own
    _latest: dict[int, Indices] = field(default_factory=dict, compare=False, repr=False)  # the order of one epoch

    def __call__(self, t: int) -> list[int]:
        """Return the samples of round t."""
        return self.between(t, t).tolist()  # type: ignore[no-any-return]

    def between(self, first: int, last: int) -> Indices:
        """Return the samples of rounds `first` to `last`, one after the other."""
        epoch_size = self.samples // self.batch * self.batch
        places = np.arange((first - 1) * self.batch, last * self.batch)  # counted through all epochs
        if not self.shuffle:
            return places % epoch_size
        epochs, within = np.divmod(places, epoch_size)
        rows: list[Indices] = []
        for part in np.split(within, np.flatnonzero(np.diff(epochs)) + 1):
            epoch = int(epochs[0]) + len(rows)
            if epoch not in self._latest:
                self._latest.clear()
                self._latest[epoch] = Draws(self.seed, Purpose.SHUFFLE, self.owner).at(epoch).permutation(self.samples)
            rows.append(self._latest[epoch][part])
        return np.concatenate(rows)


@dataclass(frozen=True, repr=False, eq=False)
class LabelledStream(Stream):
    """A fixed training set that is dealt to the agents and seen in batches, epoch after epoch.

    Round t shows an agent the next `batch` of its samples. If the last samples of an epoch are fewer than a batch, they
    are left out. With `batch` = "all", every round shows an agent all its samples, for any number of rounds.
    """

    lengthens = ("epochs",)
    dealing = ("batch", "epochs", "shuffle", "partition", "sizes", "concentration")

    batch: Batches = 1
    epochs: Annotated[int, Meta(ge=1, description="passes over the training samples")] = 1
    shuffle: Annotated[bool, Meta(description="another order of the samples in every epoch, from the seed")] = True
    partition: Annotated[
        Partition,
        Meta(
            description="who sees which samples; shared: every agent all of them; the others deal them out: evenly, in "
            "shares of different sizes (data.sizes or data.concentration), or sorted by label (who owns which sample "
            "then depends on the labels, and nothing is proven). Default: shared where the algorithm's agents "
            "share one loss, else even"
        ),
    ] = "shared"
    sizes: Annotated[
        tuple[int, ...], Meta(description="uneven: training samples of each agent; empty: drawn (data.concentration)")
    ] = ()
    concentration: Annotated[
        float, Meta(gt=0, le=1e6, description="uneven: of the Dirichlet law of the shares; large: nearly even")
    ] = 1.0

    @property
    def keeps_order(self) -> bool:
        """Return whether the seed leaves the order of an agent's samples as it is."""
        return self.batch == "all" or not self.shuffle

    @property
    def has_labels(self) -> bool:
        """Return whether targets are labels ±1."""
        return True

    @property
    def unproven_because(self) -> str:
        """Return why nothing is proven of these data, or nothing. A class that extends this one adds its reasons."""
        if self.partition != "by-label":
            return ""
        return "who owns which sample depends on the labels (give each agent a file: data.file=part-{agent}.npz)"

    @property
    def makes_all_losses(self) -> bool:
        """Return whether no class that extends this one makes, reads or checks samples by itself."""
        users = [vars(part) for part in type(self).__mro__ if not part.__module__.startswith("mpinodes.streams.")]
        if any({"make_loss", "__post_init__"} & part.keys() for part in users):
            return False
        return all(getattr(type(self), name) is getattr(LabelledStream, name) for name in LOSSES_BY)

    @property
    @abstractmethod
    def feature_bound(self) -> float:
        """Return the largest |feature| that there can be, known without looking at the data."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Return the name of the data for people."""

    @abstractmethod
    def open(self) -> tuple[Source, Source | None]:
        """Return the training set and the test set, or None for no test set. Labels are ±1.

        Raises:
            BadInput: files are missing or malformed.
        """

    @cached_property
    def _sources(self) -> tuple[Source, Source | None]:
        return self.open()

    def once(self, draw: Callable[[], Arrays], *of: object) -> Arrays:
        """Return arrays drawn from the seed, once for all ranks of a host. They depend on the seed and `of` alone."""
        return drawn_once(f"{type(self).__module__} {type(self).__qualname__} {self.seed} {of}", draw)

    def forget(self) -> None:
        """Free what was read from files; losses made by `of` keep their own samples."""
        self.__dict__.pop("_sources", None)
        self.__dict__.pop("_everything", None)

    @property
    def title(self) -> str:
        """Return the name of the data, and the number of records if the files hold a part of the published data."""
        return self.name + subset(*(source for source in self._sources if source))

    @cached_property
    def dimension(self) -> int:
        """Return the number of features of a sample."""
        return self._sources[0].dimension

    @cached_property
    def shares(self) -> tuple[Indices, ...]:
        """Return the training rows of every agent, ascending.

        Raises:
            BadInput: sizes that do not fit the data.
        """
        return deal(self._sources[0].targets, self)

    def source_rows(self, agent: int) -> Indices:
        """Return the rows of the source that an agent has: its share."""
        return self.shares[agent]

    @property
    def rounds(self) -> int | None:
        """Return the number of rounds in all epochs of the smallest share; None: there is no end."""
        return None if self.batch == "all" else self.epochs * self._epoch

    @cached_property
    def _epoch(self) -> int:
        """Return the number of rounds of one pass over the smallest share."""
        return min(map(self._batches, range(self.agents)))

    def _batches(self, agent: int) -> int:
        """Return the number of rounds of one pass over an agent's share."""
        return len(self.shares[agent]) // self._size(agent)

    def _size(self, agent: int) -> int:
        """Return the number of samples of an agent in a round."""
        return len(self.shares[agent]) if self.batch == "all" else self.batch

    @cached_property
    def _everything(self) -> Features:
        return self._sources[0].features(self.shares[0])

    def of(self, agent: int) -> Callable[[int], Loss]:
        """Return a function that gives the loss of a round, of the agent's own samples."""
        features, targets = self._own(agent)
        if self.batch == "all":
            whole = self.make_loss(features, targets)
            return lambda t: whole
        order, size, batches = self._order(agent), self.batch, self._batches(agent)
        # The samples are copied once an epoch, in the order of the epoch, so that a round is a view of the copy.
        epoch, dealt = -1, (features, targets)

        def loss(t: int) -> Loss:
            nonlocal epoch, dealt
            now, place = divmod(t - 1, batches)
            if now != epoch and self.shuffle:
                rows = order.between(now * batches + 1, (now + 1) * batches)
                epoch, dealt = now, (features[rows], targets[rows])
            batch = slice(place * size, (place + 1) * size)
            return self.make_loss(dealt[0][batch], dealt[1][batch])

        return loss

    def merged(self, agent: int) -> Recurring:
        """Return a reader that gives the losses of any number of rounds as one."""
        features, targets = self._own(agent)
        return Recurring(features, targets, self._size(agent), self.make_loss, self._order(agent).between)

    def _order(self, agent: int) -> BatchOrder:
        shuffle, owner = self.shuffle and self.batch != "all", 0 if self.partition == "shared" else agent
        return BatchOrder(self.seed, owner, len(self.shares[agent]), self._size(agent), shuffle)

    def _own(self, agent: int) -> tuple[Features, Vector]:
        """Return the agent's training samples.

        A refused run tells something about the refused sample. The refusal is no message, and it is not private.

        Raises:
            BadInput: a sample stands in two shares, is outside the domain that privacy is accounted for, or has a
                number that is too large to compute with; names the sample.
        """
        train, rows = self._sources[0], self.shares[agent]
        if not is_built_in(self):  # `deal` gives each row once, and a cost is accounted for once
            everything = np.arange(len(train.targets))
            alike = self.partition == "shared" and all(np.array_equal(share, rows) for share in self.shares)
            dealt = np.concatenate([everything[share] for share in self.shares[: 1 if alike else None]])
            if len(np.unique(dealt)) < len(dealt):
                raise BadInput(f"{self.name}: a training sample stands in `shares` twice; each has one owner, once")
        features = doubles(self._everything if self.partition == "shared" else train.features(rows))
        targets = doubles(train.targets[rows])
        limits = (
            ("a feature of size", row_sizes(features), min(LARGEST, self.feature_bound)),
            ("a target of size", np.abs(targets), LARGEST),
            ("norm", row_norms(features), self.feature_norm),
        )
        for quantity, sizes, most in limits:
            for k in np.flatnonzero(~(sizes <= most * (1 + 1e-9)))[:1]:
                reason = unfit(sizes[k]) or f"is above {most:g}, the most there can be{self.remedy}"
                sample = f"training sample {rows[k]} (from 0)"
                raise BadInput(f"{self.name}: {sample} has {quantity} {sizes[k]:g}, which {reason}")
        return features, targets

    @property
    def remedy(self) -> str:
        """Return what the user can do about a sample outside the domain, for an error message."""
        return ", by which privacy is accounted: not the data set that its name says"

    def passes(self, rounds: int) -> int:
        """Return how often a sample may have been used in a number of rounds."""
        return -(-rounds // self._epoch)

    def groups(self, agent: int) -> Callable[[int], Sequence[int]]:
        """Return the groups of a round: its place in the epoch, or, if epochs are shuffled, the single samples."""
        if not self.shuffle or self.epochs == 1 or self.batch == "all":
            return Cycle(self._batches(agent))
        return self.samples(agent)

    def samples(self, agent: int) -> Callable[[int], Sequence[int]]:
        """Return a function that gives the samples of a round, as places in the agent's share."""
        return self._order(agent)

    def labelled(self) -> Mapping[str, Source]:
        """Return the training and test sets by name, if targets are labels or classes."""
        return self._by_name() if self.has_labels or self.classes else {}

    def real_valued(self) -> Mapping[str, Source]:
        """Return the training and test sets by name, if targets are real numbers."""
        return {} if self.has_labels or self.classes else self._by_name()

    def _by_name(self) -> Mapping[str, Source]:
        train, test = self._sources
        return {"train": train} | ({"test": test} if test else {})


@dataclass(frozen=True)
class FileStream(LabelledStream):
    """A published data set, whose files have the published names."""

    dir: Annotated[
        str,
        Meta(description="directory of the data set's files; those it lacks are fetched once. Empty: a cache of ours"),
    ] = ""

    wanted: ClassVar[Sequence[Wanted]]
    drawn_from_seed = False

    @property
    def source_files(self) -> list[Path]:
        """Return the files in the order of `wanted`; downloads them if they are missing.

        Raises:
            BadInput: a file is missing and cannot be downloaded.
        """
        return locate(self.wanted, Path(self.dir) if self.dir else None)


def deal(targets: Vector, stream: LabelledStream) -> tuple[Indices, ...]:
    """Return the training rows of every agent, by the stream's partition.

    Raises:
        BadInput: the sizes do not fit the data.
    """
    total, n = len(targets), stream.agents
    if stream.partition == "shared":
        return (np.arange(total),) * n
    least = 1 if stream.batch == "all" else stream.batch
    if total < n * least:
        shortage = f"{total} training samples do not give {n} agents a batch of {least} each"
        raise BadInput(f"data.partition = {stream.partition!r}: {shortage}; fewer agents, or a smaller data.batch")
    draws = Draws(stream.seed, Purpose.PARTITION).at(0)
    order = draws.permutation(total)
    if stream.partition == "by-label":
        order = order[np.argsort(targets[order], kind="stable")]
    cuts: Any = n
    if stream.partition == "uneven":
        sizes: Sequence[int] = stream.sizes
        if not sizes:
            shares = draws.dirichlet([stream.concentration] * n)
            sizes = [least + int(share * (total - n * least)) for share in shares]
        elif len(sizes) != n or min(sizes) < least or sum(sizes) > total:
            smallest = f"{'data.batch = ' if stream.batch != 'all' else ''}{least}"
            expected = f"{n} sizes, one for each agent, each at least {smallest}, together at most {total}"
            raise BadInput(f"data.sizes = {list(sizes)}: expected {expected}")
        cuts = np.cumsum(sizes)
    return tuple(np.sort(share) for share in np.array_split(order, cuts)[:n])


def subset(*sources: Source) -> str:
    """Return a remark for a title if the files hold fewer records than the published files of these names."""
    files = {source.files: (source.records, source.upstream) for source in sources if source.files}
    records, upstream = sum(k for k, _ in files.values()), sum(k or 0 for _, k in files.values())
    return f" (subset: {records:,} of {upstream:,})" if records < upstream else ""


def choose(source: Source, rows: Indices, targets: Vector) -> Source:
    """Return some rows of a source, with new targets."""
    return replace(source, targets=targets, features=lambda wanted: source.features(rows[wanted]))


def against_rest(source: Source, positive: float) -> Source:
    """Return all samples, those of one class as +1, the others as −1."""
    return replace(source, targets=np.where(source.targets == positive, 1.0, -1.0))


def joined(sources: Sequence[Source]) -> Source:
    """Return the rows of several sources, one source after the other."""
    ends = np.cumsum([len(source.targets) for source in sources])

    def features(rows: Indices) -> Features:
        which = np.searchsorted(ends, rows, side="right")
        parts = [source.features(rows[which == k] - (ends[k - 1] if k else 0)) for k, source in enumerate(sources)]
        back = np.argsort(np.argsort(which, kind="stable"), kind="stable")
        return stack([part for part in parts if part.shape[0]])[back]

    targets = np.concatenate([source.targets for source in sources])
    files = tuple(file for source in sources for file in source.files)
    return Source(targets, sources[0].dimension, features, files=files)


def in_memory(features: Features, targets: Vector) -> Source:
    """Return a source of samples that are in memory: features (N, d) and targets (N,)."""
    numbers = arrays(features)
    return Source(np.ravel(targets), numbers.shape[1], lambda rows: numbers[rows])


def split(source: Source, train: float) -> tuple[Source, Source | None]:
    """Split samples into a training and a test set; the split is the same for every seed of a run.

    Args:
        source: the samples.
        train: the share of training samples, or, above 1, their number. If nothing is left, there is no test set.
    """
    total = len(source.targets)
    order = Draws(0, Purpose.SPLIT).at(0).permutation(total)
    cut = round(train * total) if train <= 1 else min(round(train), total)
    train_rows, test_rows = order[:cut], order[cut:]
    test = choose(source, test_rows, source.targets[test_rows]) if len(test_rows) else None
    return choose(source, train_rows, source.targets[train_rows]), test


def together(*reasons: str) -> str:
    """Join the reasons that are not empty."""
    return "; ".join(reason for reason in reasons if reason)
