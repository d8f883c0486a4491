"""Adjacent data: what a neighboring data set is to a loss, and which ones are tried."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from mpinodes.core import Loss, SampleLoss, Setup, Vector
from mpinodes.losses.linear import Around, dense

SIZES = (1.7e308, 1e300, 1e150, 1e-170, 5e-324, 0.0)  # of numbers at the ends of the doubles
FEW, STRIDE = 4, 37  # of the samples made of them, so many in each round, and so far apart

Samples = Callable[[int], Sequence[int]]  # by round, the numbers of an agent's samples
ALL = -1  # the number that stands for all samples of an agent


class Change(NamedTuple):
    """Adjacent data: in the rounds where a sample stands, this row of the loss is put in its place.

    Attributes:
        round: the first whose loss changes; of a sample that comes before it too, the first that is looked at.
        sample: its number; None: the whole round changes; ALL: every one of this round and all later ones, which is a
            data set of its own if it is round 1, or no sample comes again.
        feature: (d,).
        target: nan: the row's own, with its sign turned, and its own features too.
    """

    round: int
    sample: int | None
    feature: Vector
    target: float


def changed(own: Callable[[int], Loss], samples: Samples, change: Change) -> Callable[[int], Loss]:
    """The adjacent losses by round, of an agent with these losses and samples."""

    def losses(t: int) -> Loss:
        loss = own(t)
        if change.sample is None:
            return _with(loss, slice(None), change) if t == change.round else loss
        if change.sample == ALL:
            return _with(loss, slice(None), change) if t >= change.round else loss
        rows = [k for k, sample in enumerate(samples(t)) if sample == change.sample]
        return _with(loss, rows, change) if rows else loss

    return losses


def carries(setup: Setup, agent: int, round: int, change: Change) -> bool:
    """Whether the loss of a round has the changed sample."""
    if change.sample == ALL:
        return round >= change.round
    return round == change.round if change.sample is None else change.sample in setup.stream.samples(agent)(round)


def differs(setup: Setup, agent: int, round: int, row: int) -> int | None:
    """What adjacent data change, of a round's row: the `sample` of a `Change`."""
    adjacency = setup.experiment.privacy.adjacency
    if adjacency == "one-sample":
        return setup.stream.samples(agent)(round)[row]
    return None if adjacency == "one-round" else ALL


def _with(loss: Any, rows: list[int] | slice, change: Change) -> Loss:
    """A loss with the changed sample in some rows."""
    if isinstance(loss, Around):
        return replace(loss, loss=_with(loss.loss, rows, change))
    features, targets = dense(loss.features).copy(), loss.targets.copy()
    if np.isnan(change.target):
        targets[rows] = -targets[rows]
    else:
        features[rows], targets[rows] = change.feature, change.target
    other: SampleLoss = replace(loss, features=features, targets=targets)
    return other


def adjacent(
    setup: Setup, losses: Callable[[int], Loss], agent: int, round: int, rng: np.random.Generator
) -> Iterator[Change]:
    """Adjacent data sets that differ in a sample of a round: `usual` ones, and some at the ends of the doubles."""
    first, *others = usual(setup, losses, agent, round, rng)
    yield from (first, *others)
    every = ends(setup, losses(round), first)
    yield from (every[STRIDE * (FEW * round + agent + k) % len(every)] for k in range(FEW))


def ends(setup: Setup, loss: Any, change: Change) -> list[Change]:
    """The sample of a change, as large and as small as doubles can be and its domain allows, and exactly 0."""
    bound = min(setup.stream.feature_bound, setup.stream.feature_norm / np.sqrt(len(change.feature)))
    alike = np.where(np.arange(len(change.feature)) % 2, -1.0, 1.0)
    one = np.where(np.arange(len(change.feature)), 0.0, 1.0)
    sizes = [size for size in SIZES if size <= bound] + [bound] * bool(np.isfinite(bound))
    features = [size * signs for size in sizes for signs in (alike, one)]
    classes = tuple(map(float, range(setup.stream.classes)))
    targets = classes or (-1.0, 1.0) if loss.needs_labels or classes else (*SIZES, *(-size for size in SIZES))
    return [change._replace(feature=feature, target=target) for feature in features for target in targets]


def usual(
    setup: Setup, losses: Callable[[int], Loss], agent: int, round: int, rng: np.random.Generator
) -> Iterator[Change]:
    """Its label turned, and samples at the domain's edge."""
    loss: Any = losses(round)
    row = int(rng.integers(len(loss.targets)))
    sample = differs(setup, agent, round, row)
    feature, target = dense(loss.features[[row]])[0], float(loss.targets[row])
    bound = setup.stream.feature_bound
    edge = min(bound if np.isfinite(bound) else 1.0, setup.stream.feature_norm / np.sqrt(len(feature)))
    edge = edge * rng.choice([-1.0, 1.0], feature.shape)
    labels = loss.needs_labels
    if setup.stream.classes:
        for turned in (feature, edge, np.abs(edge)):
            for other in (target, (target + 1) % setup.stream.classes):
                yield Change(round, sample, turned, np.nan if sample == ALL and turned is feature else other)
        return
    yield Change(round, sample, feature, np.nan if sample == ALL else -target)
    for turned in (feature, edge, np.abs(edge)):
        yield Change(round, sample, turned, -target if labels else -100 * np.sign(target) - 1)
        yield Change(round, sample, turned, target if labels else 100 * np.sign(target) + 1)
