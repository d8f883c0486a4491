"""What decisions lose, added up chunk by chunk; `results.regret` has the formulas."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mpinodes.core import Setup, Vector
from mpinodes.formats import Source
from mpinodes.losses.linear import LinearLoss, stack
from mpinodes.results.gathered import Gathered, accuracy

NUMBERS_AT_ONCE = 4_000_000  # of intermediate results, 32 MB


class Rounds(NamedTuple):
    """What a stretch of rounds gave."""

    decisions: Vector  # (rounds, k, d)
    losses: Vector  # (rounds, 2 + n) the summands of the sums
    training_loss: Vector | None  # (rounds,)


class Meter(ABC):
    """Adds up losses chunk by chunk, and keeps them at the horizons.

    With k deciders, a loss each (the network of a nondecomposable objective, or the n agents of a decomposable one):

    Attributes:
        horizons: (h,) the rounds at which a run is judged.
        total: (h, 2 + n) the sums of network regret, of its running-average form, and of every agent's regret.
        last, mean: (h, d) last and average decision, averaged over the deciders.
        accuracy: by set, (h, 2, k) shares of labels that the average and the last decision get right.
        judged: (h, k, d) the decisions that an offline method is judged by.
        whole: (h, k) F there, F the mean over rounds and agents.
    """

    def __init__(self, setup: Setup, horizons: NDArray[np.int64], deciders: int) -> None:
        d, h = setup.dimension, len(horizons)
        self._rounds = setup.experiment.rounds
        self._losses: list[Any] = [setup.stream.of(i) for i in range(deciders)]
        self._regularizer = setup.experiment.problem.regularizer
        self._linear = setup.algorithm.averaging == "linear"
        self._labelled: Mapping[str, Source] = setup.stream.labelled()
        self._constant = setup.experiment.data.get("batch") == "all"
        self._judged_by = setup.algorithm.judged_by
        self._unjudged: list[tuple[int, Vector]] = []  # horizons, and points whose accuracy is still to be found
        self._seen, self._weight = 0, 0.0
        self._sum_x = np.zeros((deciders, d))
        self._sum_f = np.zeros(2 + setup.topology.agents)
        self.horizons = horizons
        self.total = np.zeros((h, len(self._sum_f)))
        self.last, self.mean = np.zeros((h, d)), np.zeros((h, d))
        self.accuracy = {name: np.zeros((h, 2, deciders)) for name in self._labelled}
        self.judged = np.zeros((h if self._judged_by else 0, deciders, d))
        self.whole = np.zeros((h, deciders))

    @cached_property
    def everything(self) -> Gathered:
        """All samples of the run; those that come in every round once."""
        rounds = 1 if self._constant else self._rounds
        seen = [loss(t) for t in range(1, rounds + 1) for loss in self._losses]
        one, owners = seen[0], len(self._losses)
        of_each = np.concatenate([np.full(len(loss.targets), loss.divisor) for loss in seen])
        return Gathered(
            type(one), stack([loss.features for loss in seen]), np.concatenate([loss.targets for loss in seen]),
            samples=0 if self._constant else owners * len(one.targets),
            divisor=of_each if self._constant else one.divisor, regularizer=owners * one.regularizer,
        )  # fmt: skip

    @abstractmethod
    def _decisions(self, estimates: Vector) -> Vector:
        """(rounds, agents, d) -> (rounds, k, d)."""

    @cached_property
    def _objective(self) -> LinearLoss:
        return self.everything.upto(1 if self._constant else self._rounds)

    @abstractmethod
    def _values(self, first: int, decisions: Vector, averages: Vector, estimates: Vector) -> Vector:
        """The summands of the sums, of round `first` on: (rounds, 2 + n)."""

    def take(self, estimates: Vector) -> Rounds:
        """Add the next rounds, given every agent's estimates: (rounds, agents, d)."""
        rounds = np.arange(self._seen + 1, self._seen + 1 + len(estimates))
        x = self._decisions(estimates)
        weight = rounds.astype(float) if self._linear else np.ones(len(rounds))
        sums = self._sum_x + np.cumsum(weight[:, None, None] * x, axis=0)
        weights = self._weight + np.cumsum(weight)
        average = sums / weights[:, None, None]
        values = self._values(int(rounds[0]), x, average, estimates)
        totals = self._sum_f + np.cumsum(values, axis=0)
        for at in np.flatnonzero(np.isin(self.horizons, rounds)):
            row = self.horizons[at] - rounds[0]
            self.total[at] = totals[row]
            self._judge(int(at), x[row], average[row])
        self._latest = x[-1], average[-1]
        self._seen, self._weight = int(rounds[-1]), float(weights[-1])
        self._sum_x, self._sum_f = sums[-1], totals[-1]
        return Rounds(x, values, self._training_loss(x))

    def _training_loss(self, decisions: Vector) -> Vector | None:
        """(rounds, k, d) -> (rounds,), of losses that stay the same."""
        return None

    def end(self) -> None:
        """No round will follow: of a run that ended before its time, the last one is the last horizon."""
        at = int(np.searchsorted(self.horizons, self._seen))
        if self.horizons[at] != self._seen:
            self.horizons[at], self.total[at] = self._seen, self._sum_f
            self._judge(at, *self._latest)
        self._judge_labels()
        kept = slice(at + 1)
        self.horizons, self.total, self.whole = self.horizons[kept], self.total[kept], self.whole[kept]
        self.last, self.mean, self.judged = self.last[kept], self.mean[kept], self.judged[kept]
        self.accuracy = {name: found[kept] for name, found in self.accuracy.items()}

    def _judge(self, at: int, last: Vector, average: Vector) -> None:
        self.last[at], self.mean[at] = last.mean(axis=0), average.mean(axis=0)
        if self._labelled:
            self._unjudged.append((at, np.concatenate([average, last])))
            if len(self._unjudged) * self._unjudged[-1][1].size > NUMBERS_AT_ONCE:
                self._judge_labels()
        if self._judged_by:
            self.judged[at] = last if self._judged_by == "last" else average
            summands = len(self._losses) * (1 if self._constant else self._rounds)
            self.whole[at] = [self._objective.value(point) / summands for point in self.judged[at]]

    def _judge_labels(self) -> None:
        """Accuracies of many horizons at once: the samples are read, unpacked or drawn for all together."""
        if self._unjudged:
            at = [horizon for horizon, _ in self._unjudged]
            points = np.concatenate([points for _, points in self._unjudged])
            for name, source in self._labelled.items():
                self.accuracy[name][at] = accuracy(points, source).reshape(len(at), 2, -1)
        self._unjudged.clear()

    def _sample_losses(self, rounds: Sequence[int], points: Vector) -> Vector:
        """Losses of every sample of every owner at points, averaged or not as the problem has it.

        (rounds, points, d) -> (rounds, points, owners, samples of one)
        """
        seen = [[loss(t) for loss in self._losses] for t in rounds]
        one = seen[0][0]
        features = [stack([loss.features for loss in row]) for row in seen]
        targets = [np.concatenate([loss.targets for loss in row]) for row in seen]
        together = [type(one)(a, b) for a, b in zip(features, targets, strict=True)]
        values = type(one).values(together, points) / one.divisor
        return np.asarray(values.reshape(*values.shape[:2], len(self._losses), -1))

    def _penalty(self, points: Vector) -> Vector:
        """(λ/2)‖·‖²: (..., d) -> (...)."""
        return np.asarray(0.5 * self._regularizer * np.vecdot(points, points))
