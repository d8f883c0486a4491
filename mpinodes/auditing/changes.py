"""Adjacent data: what a neighboring data set is to a loss, and which ones are tried."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from mpinodes.core import Features, Loss, SampleLoss, Setup, Vector
from mpinodes.losses.linear import NoisyGradient

Samples = Callable[[int], Sequence[int]]  # by round, the numbers of an agent's samples


class Change(NamedTuple):
    """Adjacent data: in the rounds where a sample stands, this row of the loss is put in its place."""

    round: int  # the first whose loss changes
    sample: int | None  # None: the whole round changes
    feature: Vector  # (d,)
    target: float


def changed(own: Callable[[int], Loss], samples: Samples, change: Change) -> Callable[[int], Loss]:
    """The adjacent losses by round, of an agent with these losses and samples."""

    def losses(t: int) -> Loss:
        loss = own(t)
        if change.sample is None:
            return _with(loss, slice(None), change) if t == change.round else loss
        rows = [k for k, sample in enumerate(samples(t)) if sample == change.sample]
        return _with(loss, rows, change) if rows else loss

    return losses


def carries(setup: Setup, agent: int, round: int, change: Change) -> bool:
    """Whether the loss of a round has the changed sample."""
    return round == change.round if change.sample is None else change.sample in setup.stream.samples(agent)(round)


def _with(loss: Any, rows: list[int] | slice, change: Change) -> Loss:
    """A loss with the changed sample in some rows."""
    if isinstance(loss, NoisyGradient):
        return replace(loss, loss=_with(loss.loss, rows, change))
    features, targets = dense(loss.features).copy(), loss.targets.copy()
    features[rows], targets[rows] = change.feature, change.target
    other: SampleLoss = replace(loss, features=features, targets=targets)
    return other


def dense(features: Features) -> Vector:
    """Rows of features as a dense array."""
    return np.asarray(features if isinstance(features, np.ndarray) else features.toarray())


def adjacent(
    setup: Setup, losses: Callable[[int], Loss], agent: int, round: int, rng: np.random.Generator
) -> Iterator[Change]:
    """Adjacent data sets that differ in a sample of a round: its label turned, and samples at the domain's edge."""
    loss: Any = losses(round)
    row = int(rng.integers(len(loss.targets)))
    whole = setup.experiment.privacy.adjacency == "one-round"
    sample = None if whole else setup.stream.samples(agent)(round)[row]
    feature, target = dense(loss.features[[row]])[0], float(loss.targets[row])
    bound = setup.stream.feature_bound
    edge = min(bound if np.isfinite(bound) else 1.0, setup.stream.feature_norm / np.sqrt(len(feature)))
    edge = edge * rng.choice([-1.0, 1.0], feature.shape)
    labels = loss.needs_labels
    yield Change(round, sample, feature, -target)
    for turned in (feature, edge, np.abs(edge)):
        yield Change(round, sample, turned, -target if labels else -100 * np.sign(target) - 1)
        yield Change(round, sample, turned, target if labels else 100 * np.sign(target) + 1)
