"""Provide the base classes of streams with a fixed training set that is divided among the agents.

- `LabelledStream` is the base class of all data sets in this folder except `olr`.
- `FileStream` is the base class of the data sets whose files are downloaded.
- `BatchOrder` chooses the samples that an agent uses in a round, called a batch.
- The property `shares` divides the training samples among the agents.

Other functions combine and split data sets (`Source`).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from msgspec import Meta, Struct
from numpy.typing import NDArray

from mpinodes.core import Features, Loss, Stream, Vector
from mpinodes.core.errors import BadInput, is_users
from mpinodes.core.messages import arrays, doubles, stack
from mpinodes.core.parts import Recurring
from mpinodes.core.seeds import Draws, Purpose
from mpinodes.data import Source
from mpinodes.data.fetch import Wanted, locate
from mpinodes.data.shelf import Arrays, drawn_once
from mpinodes.data.source import LARGEST, unfit
from mpinodes.losses.clipping import row_norms, row_sizes

Indices = NDArray[np.int64]
Partition = Literal["shared", "even", "uneven", "by-label"]
Batch = Annotated[int, Meta(ge=1)]
Train = Annotated[
    float,
    Meta(
        gt=0,
        le=1e12,
        description="training samples: their number if above 1, otherwise their share; the other samples are test "
        "samples. 1: all samples are training samples",
    ),
]


LATEST = 10_000  # a `BatchOrder` keeps the orders of its latest epochs, up to about this number of samples

# The methods that make, read, check or number samples.
LOSSES_BY = ("of", "_own", "_batches", "_size", "_order", "samples", "groups", "passes", "merged")


class Cycle(Struct, frozen=True):
    """Map a round to the index of its batch, if an agent uses the same batches in every pass over its samples.

    Privacy accounting treats such a batch as one unit (`Stream.groups`), because its samples are always used together.

    Attributes:
        batches: the number of batches in a pass.
    """

    batches: int

    def __call__(self, t: int) -> list[int]:
        """Return a list with one number: the index of the batch of round t within its pass, counted from 0."""
        return [(t - 1) % self.batches]


@dataclass(frozen=True)
class BatchOrder:
    """Choose the samples that an agent uses in each round: the next batch of its training samples.

    An epoch is one pass over the samples. If fewer samples than a batch are left at the end of an epoch, these samples
    are not used in this epoch.

    Attributes:
        seed: the seed of the random orders of samples.
        owner: the agent, or 0 if all agents share the samples. Different owners have different random orders.
        samples: the number of training samples of the agent.
        batch: the number of samples in a round.
        shuffle: whether each epoch uses the samples in a new random order. If False, the order never changes.
    """

    seed: int
    owner: int
    samples: int
    batch: int
    shuffle: bool
    _latest: dict[int, Indices] = field(default_factory=dict, compare=False, repr=False)  # epoch -> its order

    def __reduce__(self) -> tuple[Any, ...]:
        """Return the class and the settings, from which pickle makes an equal object."""
        return BatchOrder, (self.seed, self.owner, self.samples, self.batch, self.shuffle)

    def __call__(self, t: int) -> list[int]:
        """Return the indices of the samples that the agent uses in round t; index 0 is the agent's first sample."""
        epoch, place = divmod((t - 1) * self.batch, self.samples // self.batch * self.batch)
        batch = slice(place, place + self.batch)
        return self._order(epoch)[batch].tolist() if self.shuffle else list(range(self.samples)[batch])

    def between(self, first: int, last: int) -> Indices:
        """Return the indices of the samples that the agent uses in rounds `first` to `last`, round by round.

        Index 0 is the agent's first sample.
        """
        epoch_size = self.samples // self.batch * self.batch
        places = np.arange((first - 1) * self.batch, last * self.batch)  # counted through all epochs
        if not self.shuffle:
            return places % epoch_size
        epochs, within = np.divmod(places, epoch_size)
        rows: list[Indices] = []
        for part in np.split(within, np.flatnonzero(np.diff(epochs)) + 1):
            rows.append(self._order(int(epochs[0]) + len(rows))[part])
        return np.concatenate(rows)

    def _order(self, epoch: int) -> Indices:
        """Return the indices of all samples of the agent, in the order in which one epoch uses them."""
        if epoch not in self._latest:
            if len(self._latest) * self.samples >= LATEST:
                self._latest.clear()
            self._latest[epoch] = Draws(self.seed, Purpose.SHUFFLE, self.owner).at(epoch).permutation(self.samples)
        return self._latest[epoch]


@dataclass(frozen=True, repr=False, eq=False)
class LabelledStream(Stream):
    """Provide a fixed training set that is divided among the agents.

    In each round, an agent uses the next `batch` samples of its share. If fewer than `batch` samples are left at the
    end of a pass over the share, the agent skips these samples. With `batch` = "all", the loss of every round has all
    samples of the agent, from which secret batches may be drawn (`data.sampling`).

    Attributes:
        batch: number of samples that an agent uses in a round; all: the loss of a round has all its samples
        epochs: number of passes over the training samples
        shuffle: draw a new order of the samples for every epoch, from the seed
        partition: which agent has which samples. shared: every agent has all samples. even: shares of equal size.
            uneven: shares of different sizes (data.sizes or data.concentration). by-label: shares of equal size, sorted
            by label; which agent has which sample then depends on the labels, and nothing is proven. Default: shared if
            the algorithm's agents share one loss, otherwise even
        sizes: uneven: training samples of each agent; empty: drawn (data.concentration)
        concentration: uneven: parameter of the Dirichlet law of the shares; large: nearly even
        validation: share of the training samples that is held out; the run then has these samples as its test samples,
            and never reads the true test samples. mpinodes tune sets this key
    """

    lengthens = ("epochs",)
    dealing = ("batch", "epochs", "shuffle", "partition", "sizes", "concentration")

    batch: Batch | Literal["all"] = 1
    epochs: Annotated[int, Meta(ge=1)] = 1
    shuffle: bool = True
    partition: Partition = "shared"
    sizes: tuple[int, ...] = ()
    concentration: Annotated[float, Meta(gt=0, le=1e6)] = 1.0

    validation: Annotated[float, Meta(gt=0, lt=1)] | None = None

    @property
    def keeps_order(self) -> bool:
        """Return whether each agent uses its samples in the same order with every seed."""
        return self.batch == "all" or not self.shuffle

    @property
    def has_labels(self) -> bool:
        """Return whether the targets are labels ±1."""
        return True

    @property
    def unproven_because(self) -> str:
        """Return the reason why no epsilon is proven for runs on these data, or "" if an epsilon can be proven.

        The only reason in this class is that the samples are divided by label. Subclasses may have other reasons.
        """
        if self.partition != "by-label":
            return ""
        return "which agent has a sample depends on its label (give each agent a file: data.file=part-{agent}.npz)"

    @property
    def makes_all_losses(self) -> bool:
        """Return whether this class makes losses and numbers samples exactly as `LabelledStream` does.

        The result is False if the class overrides a method in `LOSSES_BY`, or if a user's class defines `make_loss` or
        `__post_init__`.
        """
        users = [vars(part) for part in type(self).__mro__ if not part.__module__.startswith("mpinodes.streams.")]
        if any({"make_loss", "__post_init__"} & part.keys() for part in users):
            return False
        return all(getattr(type(self), name) is getattr(LabelledStream, name) for name in LOSSES_BY)

    @property
    @abstractmethod
    def feature_bound(self) -> float:
        """Return a bound on the absolute values of all features, which must be known without looking at the data."""

    @property
    def checked_bounds(self) -> tuple[float, float]:
        """Return bounds on the absolute values of features and on norms, without an intercept; more is an error."""
        return self.feature_bound, self.feature_norm

    @property
    @abstractmethod
    def name(self) -> str:
        """Return the name of the data for error messages, and for `title`, which summaries and figures print."""

    @abstractmethod
    def open(self) -> tuple[Source, Source | None]:
        """Return the training set and the test set. The test set is None if there are no test samples.

        If the targets of the samples are labels, the labels must be ±1.

        Raises:
            BadInput: a file is missing or malformed.
        """

    @cached_property
    def _sources(self) -> tuple[Source, Source | None]:
        return self.held_out(*self.open())

    def held_out(self, train: Source, test: Source | None) -> tuple[Source, Source | None]:
        """Return training and test set, in which held-out training samples (`validation`) replace the test samples."""
        return split(train, 1 - self.validation) if self.validation else (train, test)

    def held_by(self, agent: int) -> Indices:
        """Return the indices of the test samples that an agent holds, if the test samples are held-out samples."""
        test = self._sources[1]
        return np.arange(len(test.targets) if test else 0)[agent :: self.agents]

    def once(self, draw: Callable[[], Arrays], *of: object) -> Arrays:
        """Return random arrays that the function `draw` makes from the seed.

        If possible, the arrays are read from a cache (`shelf.drawn_once`).

        Args:
            draw: draws the arrays.
            of: all values, besides the seed, on which the arrays depend.
        """
        return drawn_once(f"{type(self).__module__} {type(self).__qualname__} {self.seed} {of}", draw)

    def forget(self) -> None:
        """Release the memory of the data that were read from files.

        Losses that were already made keep their own samples.
        """
        self.__dict__.pop("_sources", None)
        self.__dict__.pop("_everything", None)

    @property
    def title(self) -> str:
        """Return the name of the data.

        If the files lack records of the published data set, the name says how many records the files have.
        """
        return self.name + subset(*(source for source in self._sources if source))

    @cached_property
    def dimension(self) -> int:
        """Return the number of features of a sample."""
        return self._sources[0].dimension

    @cached_property
    def shares(self) -> tuple[Indices, ...]:
        """Return for every agent the indices of its training samples, ascending.

        The setting `partition` has four values:

        - shared: every agent has all samples.
        - even: the samples are divided at random into shares whose sizes differ by at most 1.
        - uneven: the samples are divided at random into shares of given or random sizes. Some samples may belong to no
          agent.
        - by-label: the samples are sorted by label, and divided into consecutive shares whose sizes differ by at most
          1.

        Raises:
            BadInput: there are too few samples for a batch of every agent, or `sizes` does not fit the number of
                agents, the number of samples or the batch.
        """
        targets, total, n = self._sources[0].targets, len(self._sources[0].targets), self.agents
        if self.partition == "shared":
            return (np.arange(total),) * n
        least = 1 if self.batch == "all" else self.batch
        if total < n * least:
            shortage = f"{total} training samples do not give {n} agents a batch of {least} each"
            remedy = "use fewer agents, or a smaller data.batch"
            raise BadInput(f"data.partition = {self.partition!r}: {shortage}; {remedy}")
        draws = Draws(self.seed, Purpose.PARTITION).at(0)
        order = draws.permutation(total)
        if self.partition == "by-label":
            order = order[np.argsort(targets[order], kind="stable")]
        cuts: Any = n
        if self.partition == "uneven":
            sizes: Sequence[int] = self.sizes
            if not sizes:
                shares = draws.dirichlet([self.concentration] * n)
                sizes = [least + int(share * (total - n * least)) for share in shares]
            elif len(sizes) != n or min(sizes) < least or sum(sizes) > total:
                smallest = f"{'data.batch = ' if self.batch != 'all' else ''}{least}"
                expected = f"{n} sizes, one for each agent, each at least {smallest}, together at most {total}"
                raise BadInput(f"data.sizes = {list(sizes)}: expected {expected}")
            cuts = np.cumsum(sizes)
        return tuple(np.sort(share) for share in np.array_split(order, cuts)[:n])

    def source_rows(self, agent: int) -> Indices:
        """Return the indices of an agent's samples in the training set."""
        return self.shares[agent]

    @property
    def rounds(self) -> int | None:
        """Return for how many rounds the data last: all epochs of the agent with the fewest samples.

        With `batch` = "all", return None, because the data then last for any number of rounds.
        """
        return None if self.batch == "all" else self.epochs * self._epoch

    @cached_property
    def _epoch(self) -> int:
        """Return the number of rounds in one epoch of the agent with the fewest samples."""
        return min(map(self._batches, range(self.agents)))

    def _batches(self, agent: int) -> int:
        """Return the number of rounds in one epoch of this agent."""
        return len(self.shares[agent]) // self._size(agent)

    def _size(self, agent: int) -> int:
        """Return the number of samples that an agent uses in a round."""
        return len(self.shares[agent]) if self.batch == "all" else self.batch

    @cached_property
    def _everything(self) -> Features:
        return self._sources[0].features(self.shares[0])

    def of(self, agent: int) -> Callable[[int], Loss]:
        """Return a function that maps a round to the loss of the samples that the agent uses in this round."""
        features, targets = self._own(agent)
        if self.batch == "all":
            whole = self.make_loss(features, targets)
            return lambda t: whole
        order, size, batches = self._order(agent), self.batch, self._batches(agent)
        # The samples are copied once per epoch, in the order of the epoch, so that a batch is a view of the copy.
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
        """Return an object that merges the losses of consecutive rounds of an agent into one loss.

        The object is called with a first and a last round. It returns the loss of all samples that the agent uses from
        the first to the last round.
        """
        features, targets = self._own(agent)
        return Recurring(features, targets, self._size(agent), self.make_loss, self._order(agent).between)

    def _order(self, agent: int) -> BatchOrder:
        shuffle, owner = self.shuffle and self.batch != "all", 0 if self.partition == "shared" else agent
        return BatchOrder(self.seed, owner, len(self.shares[agent]), self._size(agent), shuffle)

    def _own(self, agent: int) -> tuple[Features, Vector]:
        """Return the features and targets of the agent's samples, after checking them.

        Raises:
            BadInput: a sample belongs to two agents, exceeds the stated bounds on features, or has a number that is too
                large to compute with; the message names the sample.
        """
        train, rows = self._sources[0], self.shares[agent]
        if is_users(type(self)):  # the accountant assumes that each row is in one share, as in `shares`
            everything = np.arange(len(train.targets))
            alike = self.partition == "shared" and all(np.array_equal(share, rows) for share in self.shares)
            dealt = np.concatenate([everything[share] for share in self.shares[: 1 if alike else None]])
            if np.bincount(dealt, minlength=1).max() > 1:
                raise BadInput(f"{self.name}: a training sample is in `shares` twice; only one agent may have a sample")
        features = doubles(self._everything if self.partition == "shared" else train.features(rows))
        targets = doubles(train.targets[rows])
        plain, (bound, norm) = features[:, :-1] if train.has_intercept else features, self.checked_bounds
        limits = (
            ("a feature of size", row_sizes(plain), min(LARGEST, bound)),
            ("a target of size", np.abs(targets), LARGEST),
            ("norm", row_norms(plain), norm),
        )
        # An error message reveals something about a sample, for which privacy accounting does not account.
        for quantity, sizes, most in limits:
            for k in np.flatnonzero(~(sizes <= most * (1 + 1e-9)))[:1]:
                reason = unfit(sizes[k]) or f"is above {most:g}, the stated bound{self.remedy}"
                sample = f"training sample {rows[k]} (from 0)"
                raise BadInput(f"{self.name}: {sample} has {quantity} {sizes[k]:g}, which {reason}")
        return features, targets

    @property
    def remedy(self) -> str:
        """Return the last words of the error message about a sample that exceeds the stated bounds on features."""
        return " for which privacy is accounted: the file is not the data set of this name"

    def passes(self, rounds: int) -> int:
        """Return an upper bound on how often one sample is used in the first `rounds` rounds.

        The bound is computed for the agent with the fewest samples, which uses each of its samples most often.
        """
        return -(-rounds // self._epoch)

    def groups(self, agent: int) -> Callable[[int], Sequence[int]]:
        """Return a function that maps a round to the indices of the groups of samples that the agent uses in the round.

        Privacy accounting treats a group as one unit, because the samples of a group are always used together.

        - If all epochs have the same batches, or if there is only one epoch, each batch is a group.
        - If epochs have different orders, each sample is a group of its own. Index 0 is the agent's first sample.
        """
        if not self.shuffle or self.epochs == 1 or self.batch == "all":
            return Cycle(self._batches(agent))
        return self.samples(agent)

    def samples(self, agent: int) -> Callable[[int], Sequence[int]]:
        """Return a function that maps a round to the indices of the samples that the agent uses in this round.

        Index 0 is the agent's first sample.
        """
        return self._newest(agent)

    @cached_property
    def _newest(self) -> Callable[[int], BatchOrder]:
        """Return a function that maps an agent to its `BatchOrder`, and keeps the order of the latest agent."""
        return lru_cache(maxsize=1)(self._order)

    def labelled(self) -> Mapping[str, Source]:
        """Return the training set and the test set, by the names "train" and "test".

        Without test samples, "test" is missing. If the targets are neither labels nor classes, return an empty mapping.
        """
        return self._by_name() if self.has_labels or self.classes else {}

    def real_valued(self) -> Mapping[str, Source]:
        """Return the training set and the test set, by the names "train" and "test".

        Without test samples, "test" is missing. If the targets are labels or classes, return an empty mapping.
        """
        return {} if self.has_labels or self.classes else self._by_name()

    def _by_name(self) -> Mapping[str, Source]:
        train, test = self._sources
        return {"train": train} | ({"test": test} if test else {})


@dataclass(frozen=True)
class FileStream(LabelledStream):
    """Provide a published data set from its files. Missing files are downloaded.

    Attributes:
        dir: directory of the data set's files; missing files are downloaded. Empty: the user's cache
    """

    dir: str = ""

    wanted: ClassVar[Sequence[Wanted]]
    drawn_from_seed = False

    @property
    def source_files(self) -> list[Path]:
        """Return the paths of the published files, in the order of the class attribute `wanted`.

        Missing files are downloaded.

        Raises:
            BadInput: a file is missing and cannot be downloaded.
        """
        return locate(self.wanted, Path(self.dir) if self.dir else None)


def subset(*sources: Source) -> str:
    """Return the remark "(subset: ...)" if files have fewer records than the published data set, otherwise ""."""
    files = {source.files: (source.records, source.upstream) for source in sources if source.files}
    records, upstream = sum(k for k, _ in files.values()), sum(k or 0 for _, k in files.values())
    return f" (subset: {records:,} of {upstream:,})" if records < upstream else ""


def choose(source: Source, rows: Indices, targets: Vector) -> Source:
    """Return a data set with some rows of `source`, and with other targets.

    Args:
        source: the data set.
        rows: the indices of the rows.
        targets: the new target of each of these rows.
    """
    return replace(source, targets=targets, features=lambda wanted: source.features(rows[wanted]))


def against_rest(source: Source, positive: float) -> Source:
    """Return a data set with new labels: +1 for the samples of the class `positive`, −1 for all other samples."""
    return replace(source, targets=np.where(source.targets == positive, 1.0, -1.0))


def joined(sources: Sequence[Source]) -> Source:
    """Return one data set with the rows of several data sets, one data set after the other.

    The number of published records is lost, and so are the names of the columns, if they differ.
    """
    ends = np.cumsum([len(source.targets) for source in sources])

    def features(rows: Indices) -> Features:
        which = np.searchsorted(ends, rows, side="right")
        parts = [source.features(rows[which == k] - (ends[k - 1] if k else 0)) for k, source in enumerate(sources)]
        back = np.argsort(np.argsort(which, kind="stable"), kind="stable")
        return stack([part for part in parts if part.shape[0]])[back]

    targets = np.concatenate([source.targets for source in sources])
    files = tuple(file for source in sources for file in source.files)
    columns = sources[0].columns if len({source.columns for source in sources}) == 1 else ()
    return Source(targets, sources[0].dimension, features, files=files, columns=columns)


def in_memory(features: Features, targets: Vector) -> Source:
    """Return a data set of samples that are in memory: features (N, d) and targets (N,)."""
    numbers = arrays(features)
    return Source(np.ravel(targets), numbers.shape[1], lambda rows: numbers[rows])


def split(source: Source, train: float) -> tuple[Source, Source | None]:
    """Split samples at random into a training set and a test set, independently of the seed of the run.

    The rows of both sets are in random order.

    Args:
        source: the samples.
        train: if above 1, the number of training samples. Otherwise, the fraction of samples that are for training.

    Returns:
        The training set and the test set. The test set is None if no samples are left.
    """
    total = len(source.targets)
    order = Draws(0, Purpose.SPLIT).at(0).permutation(total)
    cut = round(train * total) if train <= 1 else min(round(train), total)
    train_rows, test_rows = order[:cut], order[cut:]
    test = choose(source, test_rows, source.targets[test_rows]) if len(test_rows) else None
    return choose(source, train_rows, source.targets[train_rows]), test


def together(*reasons: str) -> str:
    """Join the reasons that are not empty, with semicolons between them."""
    return "; ".join(reason for reason in reasons if reason)
