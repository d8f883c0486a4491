"""Define adjacent data sets.

The functions change a sample in a loss function, and choose the adjacent data sets for a replay (a second run of one
agent).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from mpinodes.core import Loss, SampleLoss, Setup, Vector
from mpinodes.losses.linear import Around, dense

SIZES = (1.7e308, 1e300, 1e150, 1e-170, 5e-324, 0.0)  # very large and very small doubles, and 0
FEW, STRIDE = 4, 37  # number of extreme samples tried in each round, and the stride in the list of all extreme samples

Samples = Callable[[int], Sequence[int]]  # round -> the numbers of an agent's samples
ALL = -1  # stands for all samples of an agent, in place of a sample number


class Change(NamedTuple):
    """Define an adjacent data set: samples are replaced by a new row, or their gradients become 0.

    Attributes:
        round: a round that uses the changed sample. A replay compares messages from this round on.
        sample: the number of the changed sample, which is changed in all rounds that use it. None: all samples of
            `round`. ALL: all samples of `round` and of later rounds; `round` must then be 1, unless each sample is used
            only once.
        feature: (d,) the features of the new row. None: the gradients of the changed samples become 0 (zero-out).
        target: the target of the new row. nan: the changed samples keep their features, and their targets change sign.
    """

    round: int
    sample: int | None
    feature: Vector | None
    target: float

    def rows(self, t: int, samples: Samples) -> list[int]:
        """Return which rows of an agent's loss function of round t have a changed sample.

        Args:
            t: the round.
            samples: maps a round to the numbers of the agent's samples in this round.
        """
        is_whole = t == self.round if self.sample is None else self.sample == ALL and t >= self.round
        return [k for k, sample in enumerate(samples(t)) if is_whole or sample == self.sample]


def changed(own: Callable[[int], Loss], samples: Samples, change: Change) -> Callable[[int], Loss]:
    """Return a function that maps a round to an agent's loss function on adjacent data.

    Args:
        own: maps a round to the loss function on the agent's data.
        samples: maps a round to the indices of the agent's samples in this round.
        change: the adjacent data set.
    """

    def losses(t: int) -> Loss:
        rows = change.rows(t, samples)
        return _with(own(t), rows, change) if rows else own(t)

    return losses


def carries(setup: Setup, agent: int, round: int, change: Change) -> bool:
    """Return whether the agent's loss function of a round contains a sample that `change` changes."""
    return bool(change.rows(round, setup.stream.samples(agent)))


def _with(loss: Any, rows: list[int], change: Change) -> Loss:
    """Return a copy of a loss function in which the samples at `rows` are changed as `change` says."""
    if isinstance(loss, Around):
        return replace(loss, loss=_with(loss.loss, rows, change))
    if change.feature is None:
        divisor = np.broadcast_to(np.asarray(loss.divisor, float), loss.targets.shape).copy()
        divisor[rows] = np.inf
        zeroed: SampleLoss = replace(loss, divisor=divisor)
        return zeroed
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
    """Yield adjacent data sets in which samples of a round are replaced, or their gradients become 0.

    The first data sets are those of `usual`. Unless `privacy.adjacency` is zero-out, `FEW` further data sets follow, in
    which the new sample has extreme numbers.

    Args:
        setup: the setup of the run.
        losses: maps a round to the agent's loss function.
        agent: the agent whose data differ.
        round: the round.
        rng: draws the samples.
    """
    changes = list(usual(setup, losses, agent, round, rng))
    yield from changes
    if setup.experiment.privacy.adjacency != "zero-out":
        every = ends(setup, losses(round), changes[0])
        yield from (every[STRIDE * (FEW * round + agent + k) % len(every)] for k in range(FEW))


def ends(setup: Setup, loss: Any, change: Change) -> list[Change]:
    """Return variants of an adjacent data set, in which the new sample has extreme numbers.

    Features, and targets that are real numbers, are 0, very large or very small. Features stay within their bounds.
    """
    number = setup.stream.dimension
    bound = min(setup.stream.feature_bound, setup.stream.feature_norm / np.sqrt(number))
    alike = np.where(np.arange(number) % 2, -1.0, 1.0)
    first = np.where(np.arange(number), 0.0, 1.0)
    sizes = [size for size in SIZES if size <= bound] + [bound] * bool(np.isfinite(bound))
    features = [size * signs for size in sizes for signs in (alike, first)]
    classes = tuple(map(float, range(setup.stream.classes)))
    targets = classes or (-1.0, 1.0) if loss.needs_labels or classes else (*SIZES, *(-size for size in SIZES))
    return [change._replace(feature=feature, target=target) for feature in features for target in targets]


def usual(
    setup: Setup, losses: Callable[[int], Loss], agent: int, round: int, rng: np.random.Generator
) -> Iterator[Change]:
    """Yield adjacent data sets in which samples have another target, or features at the edge of their domain.

    Features without any bound become −1 or 1. The setting `privacy.adjacency` says which samples are changed:

    - If one-sample: one random sample of the round.
    - If one-round: all samples of the round.
    - If one-agent: all samples of the round and of all later rounds.
    - If zero-out: one random sample of the round, whose gradient becomes 0. This is the only data set.

    Args:
        setup: the setup of the run.
        losses: maps a round to the agent's loss function.
        agent: the agent whose data differ.
        round: the round.
        rng: draws the sample and the other features.
    """
    loss: Any = losses(round)
    row = int(rng.integers(len(loss.targets)))
    adjacency = setup.experiment.privacy.adjacency
    sample = ALL if adjacency == "one-agent" else None
    if adjacency in ("one-sample", "zero-out"):
        sample = setup.stream.samples(agent)(round)[row]
    if adjacency == "zero-out":
        yield Change(round, sample, None, np.nan)
        return
    feature, target = dense(loss.features[[row]])[0], float(loss.targets[row])
    bound = setup.stream.feature_bound
    edge = min(bound if np.isfinite(bound) else 1.0, setup.stream.feature_norm / np.sqrt(len(feature)))
    edge = edge * rng.choice([-1.0, 1.0], feature.shape)
    classes = setup.stream.classes
    if classes:
        targets = target, (target + 1) % classes
    else:
        targets = (-target, target) if loss.needs_labels else (-100 * np.sign(target) - 1, 100 * np.sign(target) + 1)
        yield Change(round, sample, feature, np.nan if sample == ALL else -target)
    for turned in (feature, edge, np.abs(edge)):
        for other in targets:
            keeps = classes and sample == ALL and turned is feature
            yield Change(round, sample, turned, np.nan if keeps else other)
