"""Samples in rounds: a fixed training set, dealt to the agents, seen in batches, once per epoch."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import sqrt
from typing import Annotated, Literal

import numpy as np
from msgspec import Meta, Struct
from numpy.typing import NDArray

from mpinodes.core import Features, Loss, Stream, Vector
from mpinodes.core.errors import BadInput
from mpinodes.core.messages import arrays, doubles, stack
from mpinodes.core.parts import Recurring, is_built_in
from mpinodes.core.seeds import Draws, Purpose
from mpinodes.data import Source
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


# What makes, reads, checks and numbers samples.
LOSSES_BY = ("of", "_own", "_require_bounds", "_batches", "_size", "_order", "samples", "groups", "passes", "merged")


class Cycle(Struct, frozen=True):
    """Groups of samples that come round after round in the same batches."""

    batches: int

    def __call__(self, t: int) -> list[int]:
        """The place of round t."""
        return [(t - 1) % self.batches]


@dataclass(frozen=True)
class Order:
    """Which of an owner's samples come in which round: batches of so many, epoch after epoch."""

    seed: int
    owner: int
    samples: int
    batch: int
    shuffle: bool  # whether every epoch has an order of its own
    _held: dict[int, Indices] = field(default_factory=dict, compare=False, repr=False)

    def __call__(self, t: int) -> Sequence[int]:
        """Return the samples of round t."""
        if self.shuffle:
            return self.between(t, t).tolist()  # type: ignore[no-any-return]
        start = (t - 1) % (self.samples // self.batch) * self.batch
        return range(start, start + self.batch)

    def between(self, first: int, last: int) -> Indices:
        """Return the samples of rounds `first` to `last`, one after the other."""
        batches = self.samples // self.batch
        epochs = range((first - 1) // batches, (last - 1) // batches + 1)
        ends = [(max(first - 1 - e * batches, 0), min(last - e * batches, batches)) for e in epochs]
        parts = [self._epoch(e)[a * self.batch : b * self.batch] for e, (a, b) in zip(epochs, ends, strict=True)]
        return np.concatenate(parts) if len(parts) > 1 else parts[0]

    def _epoch(self, epoch: int) -> Indices:
        """Return the order of all samples in an epoch; most often it is the one asked for before, or the next."""
        place = epoch if self.shuffle else 0
        if place not in self._held:
            draws = Draws(self.seed, Purpose.SHUFFLE, self.owner)
            order = draws.at(epoch).permutation(self.samples) if self.shuffle else np.arange(self.samples)
            self._held.clear()
            self._held[place] = order
        return self._held[place]


@dataclass(frozen=True, repr=False, eq=False)
class LabelledStream(Stream):
    """Round t shows an agent the next `batch` of its samples; a rest smaller than a batch is left out of an epoch.

    Where `batch` is "all", every round shows an agent the same samples, all it has, for as long as one likes.
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
        """See `Stream`."""
        return self.batch == "all" or not self.shuffle

    @property
    def has_labels(self) -> bool:
        """Whether targets are labels ±1."""
        return True

    @property
    def unproven_because(self) -> str:
        """See `Stream`; one who extends it adds to what this says."""
        if self.partition != "by-label":
            return ""
        return "who owns which sample depends on the labels (give each agent a file: data.file=part-{agent}.npz)"

    @property
    def makes_all_losses(self) -> bool:
        """See `Stream`: true unless a class that extends this one makes, reads or checks samples by itself."""
        users = [vars(part) for part in type(self).__mro__ if not part.__module__.startswith("mpinodes.streams.")]
        if any({"make_loss", "__post_init__"} & part.keys() for part in users):
            return False
        return all(getattr(type(self), name) is getattr(LabelledStream, name) for name in LOSSES_BY)

    @property
    @abstractmethod
    def feature_bound(self) -> float:
        """The largest |feature| there can be, known without looking at the data."""

    @property
    @abstractmethod
    def name(self) -> str:
        """What a person would call the data."""

    @abstractmethod
    def open(self) -> tuple[Source, Source | None]:
        """Training and test set, labels ±1.

        Raises:
            BadInput: files are missing or malformed.
        """

    @cached_property
    def _sources(self) -> tuple[Source, Source | None]:
        return self.open()

    def once(self, draw: Callable[[], Arrays], *of: object) -> Arrays:
        """Arrays drawn from the seed, once for all ranks of a host; they depend on the seed and on `of` alone."""
        return drawn_once(f"{type(self).__module__} {type(self).__qualname__} {self.seed} {of}", draw)

    def forget(self) -> None:
        """Let go of what was read from files: losses made by `of` keep their own samples."""
        self.__dict__.pop("_sources", None)
        self.__dict__.pop("_everything", None)

    @property
    def title(self) -> str:
        """The data's name, and how much of the upstream set was found."""
        return self.name + subset(*(source for source in self._sources if source))

    @cached_property
    def dimension(self) -> int:
        """Features of a sample."""
        return self._sources[0].dimension

    @property
    def feature_norm(self) -> float:
        """Of d entries of the largest size."""
        return sqrt(self.dimension) * self.feature_bound

    @cached_property
    def shares(self) -> tuple[Indices, ...]:
        """The training rows of every agent, ascending.

        Raises:
            BadInput: they do not fit the data.
        """
        return deal(self._sources[0].targets, self)

    @cached_property
    def _dealt(self) -> Sequence[Indices]:
        """The shares, in which no row stands twice: what a row may cost is accounted for once.

        Only a user's stream is searched: `deal` gives each row once, and to sort a million takes 0.7 s of every agent.

        Raises:
            BadInput: a row stands twice.
        """
        shares = self.shares
        if is_built_in(self):
            return shares
        everything = np.arange(len(self._sources[0].targets))
        alike = self.partition == "shared" and all(np.array_equal(share, shares[0]) for share in shares)
        rows = np.concatenate([everything[share] for share in shares[: 1 if alike else None]])
        if len(np.unique(rows)) < len(rows):
            raise BadInput(f"{self.name}: a training sample stands in `shares` twice; each belongs to one agent, once")
        return shares

    def source_rows(self, agent: int) -> Indices:
        """Its share."""
        return self.shares[agent]

    @property
    def rounds(self) -> int | None:
        """Rounds in all epochs of the smallest share; None: it has no end."""
        return None if self.batch == "all" else self.epochs * self._epoch

    @cached_property
    def _epoch(self) -> int:
        """Rounds of one pass over the smallest share."""
        return min(map(self._batches, range(self.agents)))

    def _batches(self, agent: int) -> int:
        return len(self.shares[agent]) // self._size(agent)

    def _size(self, agent: int) -> int:
        """Samples of a round."""
        return len(self.shares[agent]) if self.batch == "all" else self.batch

    @cached_property
    def _everything(self) -> Features:
        return self._sources[0].features(self.shares[0])

    def of(self, agent: int) -> Callable[[int], Loss]:
        """The losses by round, of the agent's own samples."""
        features, targets = self._own(agent)
        if self.batch == "all":
            whole = self.make_loss(features, targets)
            return lambda t: whole
        order = self._order(agent)

        def loss(t: int) -> Loss:
            rows = order.between(t, t)
            return self.make_loss(features[rows], targets[rows])

        return loss

    def merged(self, agent: int) -> Recurring:
        """See `Stream`: any number of rounds in one go."""
        features, targets = self._own(agent)
        return Recurring(features, targets, self._size(agent), self.make_loss, self._order(agent).between)

    def _order(self, agent: int) -> Order:
        shuffle, owner = self.shuffle and self.batch != "all", 0 if self.partition == "shared" else agent
        return Order(self.seed, owner, len(self.shares[agent]), self._size(agent), shuffle)

    def _own(self, agent: int) -> tuple[Features, Vector]:
        """The agent's training samples, within their bounds."""
        train, rows = self._sources[0], self._dealt[agent]
        features, targets = (
            doubles(self._everything if self.partition == "shared" else train.features(rows)),
            doubles(train.targets[rows]),
        )
        self._require_bounds(features, targets, rows)
        return features, targets

    def _require_bounds(self, features: Features, targets: Vector, rows: Indices) -> None:
        """Refuse samples outside the domain that privacy is accounted for, and numbers beyond what is computed with.

        That a run is refused tells of the sample that it is refused for: it is no message, and not private.

        Raises:
            BadInput: names the sample.
        """
        for what, found in (("a feature", row_sizes(features)), ("a target", np.abs(targets))):
            if not (found <= LARGEST).all():
                worst = int(np.argmin(found <= LARGEST))
                raise BadInput(
                    f"{self.name}: training sample {rows[worst]} (from 0) has {what} of size {found[worst]:g}, which "
                    f"{unfit(float(found[worst]))}"
                )
        bounds = (
            ("a feature of size", self.feature_bound, row_sizes(features)),
            ("norm", self.feature_norm, row_norms(features)),
        )
        for what, bound, sizes in bounds:
            if len(sizes) and sizes.max() > bound * (1 + 1e-9):
                worst = int(sizes.argmax())
                raise BadInput(
                    f"{self.name}: training sample {rows[worst]} (from 0) has {what} {sizes[worst]:g}, above "
                    f"{bound:g}, the most there can be{self.remedy}"
                )

    @property
    def remedy(self) -> str:
        """What to do about a sample outside the domain."""
        return ", by which privacy is accounted: not the data set that its name says"

    def passes(self, rounds: int) -> int:
        """How often a sample may have been used in so many rounds."""
        return -(-rounds // self._epoch)

    def groups(self, agent: int) -> Callable[[int], Sequence[int]]:
        """By round its place in the epoch; where epochs are shuffled, every sample by itself."""
        if not self.shuffle or self.epochs == 1 or self.batch == "all":
            return Cycle(self._batches(agent))
        return self.samples(agent)

    def samples(self, agent: int) -> Callable[[int], Sequence[int]]:
        """By round the agent's training samples, by their place in its share."""
        return self._order(agent)

    def labelled(self) -> Mapping[str, Source]:
        """The two sets by name."""
        return self._by_name() if self.has_labels or self.classes else {}

    def real_valued(self) -> Mapping[str, Source]:
        """Likewise."""
        return {} if self.has_labels or self.classes else self._by_name()

    def _by_name(self) -> Mapping[str, Source]:
        train, test = self._sources
        return {"train": train} | ({"test": test} if test else {})


def deal(targets: Vector, stream: LabelledStream) -> tuple[Indices, ...]:
    """The training rows of every agent, by the stream's partition.

    Raises:
        BadInput: sizes that do not fit the data.
    """
    total, n = len(targets), stream.agents
    if stream.partition == "shared":
        return (np.arange(total),) * n
    least = 1 if stream.batch == "all" else stream.batch
    if total < n * least:
        raise BadInput(
            f"data.partition = {stream.partition!r}: {total} training samples do not give {n} agents a batch of "
            f"{least} each; fewer agents, or a smaller data.batch"
        )
    draws = Draws(stream.seed, Purpose.PARTITION).at(0)
    order = draws.permutation(total)
    if stream.partition == "by-label":
        order = order[np.argsort(targets[order], kind="stable")]
    sizes = _sizes(total, stream, least, draws) if stream.partition == "uneven" else None
    cuts = n if sizes is None else np.cumsum(sizes)
    return tuple(np.sort(share) for share in np.array_split(order, cuts)[:n])


def _sizes(total: int, stream: LabelledStream, least: int, draws: np.random.Generator) -> Sequence[int]:
    n = stream.agents
    if not stream.sizes:
        shares = draws.dirichlet([stream.concentration] * n)
        return [least + int(share * (total - n * least)) for share in shares]
    if len(stream.sizes) != n or min(stream.sizes) < least or sum(stream.sizes) > total:
        raise BadInput(
            f"data.sizes = {list(stream.sizes)}: expected {n} sizes, one for each agent, each at least "
            f"{'data.batch = ' if stream.batch != 'all' else ''}{least}, together at most {total}"
        )
    return stream.sizes


def subset(*sources: Source) -> str:
    """What to add to a title where files hold fewer records than upstream's of the same name."""
    files = {source.files: (source.records, source.upstream) for source in sources if source.files}
    records, upstream = sum(k for k, _ in files.values()), sum(k or 0 for _, k in files.values())
    return f" (subset: {records:,} of {upstream:,})" if records < upstream else ""


def choose(source: Source, rows: Indices, targets: Vector) -> Source:
    """Some rows of a source, with new targets."""
    return replace(source, targets=targets, features=lambda wanted: source.features(rows[wanted]))


def joined(sources: Sequence[Source]) -> Source:
    """The rows of several sources, one after the other."""
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
    """A source of samples that are there already."""
    numbers = arrays(features)
    return Source(np.ravel(targets), numbers.shape[1], lambda rows: numbers[rows])


def split(source: Source, train: float) -> tuple[Source, Source | None]:
    """A fixed split into training and test set, the same for every seed of a run; `train`: a share, or a number.

    Where nothing is left to test, there is no test set.
    """
    total = len(source.targets)
    order = Draws(0, Purpose.SPLIT).at(0).permutation(total)
    cut = round(train * total) if train <= 1 else min(round(train), total)
    train_rows, test_rows = order[:cut], order[cut:]
    test = choose(source, test_rows, source.targets[test_rows]) if len(test_rows) else None
    return choose(source, train_rows, source.targets[train_rows]), test


def scaled(pixels: np.ndarray, largest: float) -> Vector:
    """Pixels in [0, 1], by the format's own largest value: a public constant, not one read off the data."""
    return np.asarray(pixels, dtype=np.float64) / largest


def together(*reasons: str) -> str:
    """Those that there are, as one."""
    return "; ".join(reason for reason in reasons if reason)
