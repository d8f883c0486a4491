"""What decisions lose, added up chunk by chunk; `evaluation.regret` has the formulas."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mpinodes.core import SampleLoss, Setup, Vector
from mpinodes.evaluation.gathered import Examined, Labelled, RealValued, values_at
from mpinodes.evaluation.samples import Total

NUMBERS_AT_ONCE = 4_000_000  # of points that wait to be judged, 32 MB

Columns = slice | NDArray[np.int64]


class Points(NamedTuple):
    """Where losses are asked for, in r rounds of k deciders and n agents, in the coordinates asked for."""

    decisions: Vector  # (r, k, c)
    averages: Vector  # (r, k, c) running
    estimates: Vector  # (r, n, c)


class Lost(NamedTuple):
    """What is lost there, by all deciders' losses together."""

    own: Vector  # (r,) at each decider's own decision
    averaged: Vector  # (r,) at each one's own average
    everybodys: Vector  # (r, n) at every agent's estimate
    training: Vector | None  # (r,) the mean loss of an owner's samples at its decision; None: losses change by round


class Losses(ABC):
    """The losses of all deciders, without regularizers.

    Attributes:
        kind: the class of all of them.
        is_dense: whether their features are.
    """

    kind: type[SampleLoss]
    is_dense: bool

    @property
    @abstractmethod
    def everything(self) -> Total:
        """All samples of the run; those that come in every round once."""

    @abstractmethod
    def columns(self, first: int, last: int) -> Columns:
        """The coordinates of points that the losses of some rounds depend on, ascending."""

    @abstractmethod
    def at(self, first: int, columns: Columns, points: Points) -> Lost:
        """What is lost in rounds `first` on; columns: those that the points are of."""


class JudgedRounds(NamedTuple):
    """What a stretch of rounds gave."""

    decisions: Vector  # (rounds, k, d)
    losses: Vector  # (rounds, 2 + n) the summands of the sums
    training_loss: Vector | None  # (rounds,)


_SUMS = ("_seen", "_weight", "_sum_x", "_sum_f", "_unjudged", "_latest")
_BY_HORIZON = ("horizons", "total", "last", "mean", "judged")


class Meter:
    """Adds up losses chunk by chunk, and keeps them at the horizons.

    With k deciders, a loss each (the network of a nondecomposable objective, or the n agents of a decomposable one):

    Attributes:
        horizons: (h,) the rounds at which a run is judged.
        total: (h, 2 + n) the sums of network regret, of its running-average form, and of every agent's regret.
        last, mean: (h, d) last and average decision, averaged over the deciders.
        accuracy: by set, (h, 2, k) shares of labels that the average and the last decision get right.
        rmse: by set of real targets, (h, 2, k) the root of the mean squared error of theirs.
        judged: (h, k, d) the decisions that an offline method is judged by.
        whole: (h, k) F there, F the mean over rounds and agents; once the run has ended.
        kind, is_dense: see `Losses`.
        predicts: whether the losses predict such targets as there are, so that there is an accuracy or error.
    """

    def __init__(self, setup: Setup, horizons: NDArray[np.int64], losses: Losses) -> None:
        d, h, n = setup.dimension, len(horizons), setup.topology.agents
        self._blocks = None if setup.algorithm.decomposable else setup.blocks
        self._deciders = k = n if self._blocks is None else 1
        self._rounds = setup.experiment.rounds
        self._losses, self._regularizer = losses, setup.experiment.problem.regularizer
        self.kind, self.is_dense = losses.kind, losses.is_dense
        self._linear = setup.algorithm.averaging == "linear"
        labelled, real = setup.stream.labelled(), setup.stream.real_valued()
        sets = {name: Labelled(source, losses.kind, setup.stream.classes) for name, source in labelled.items()}
        self._labelled = {name: examined for name, examined in sets.items() if examined.is_predicted(d)}
        self._real_valued: dict[str, RealValued] = {}
        if real and losses.kind.predicts:  # without a training set, the mean is that of the test set's own targets
            mean = float(real.get("train", real.get("test")).targets.mean())
            self._real_valued = {name: RealValued(source, mean) for name, source in real.items()}
        has_targets = labelled or real
        self.predicts = bool(self._labelled or self._real_valued or not has_targets)
        self._judged_by = setup.algorithm.judged_by
        self._unjudged: list[tuple[int, Vector]] = []  # horizons, and points whose marks are still to be found
        self._seen, self._weight = 0, 0.0
        self._sum_x, self._sum_f = np.zeros((k, d)), np.zeros(2 + n)
        self._latest = np.zeros((k, d))
        self.horizons = horizons
        self.total = np.zeros((h, 2 + n))
        self.last, self.mean = np.zeros((h, d)), np.zeros((h, d))
        self.accuracy = {name: np.zeros((h, 2, k)) for name in self._labelled}
        self.rmse = {name: np.zeros((h, 2, k)) for name in self._real_valued}
        self.judged = np.zeros((h if self._judged_by else 0, k, d))
        self.whole = np.zeros((h, k))

    @property
    def everything(self) -> Total:
        """All samples of the run; those that come in every round once."""
        return self._losses.everything

    def majorities(self) -> dict[str, float]:
        """By set of labelled samples, the share of the largest class."""
        return {name: labelled.naive() for name, labelled in self._labelled.items()}

    def means(self) -> dict[str, float]:
        """By set of samples with real targets, the RMSE of always naming the mean of those that are trained on."""
        return {name: real.naive() for name, real in self._real_valued.items()}

    def take(self, estimates: Vector) -> JudgedRounds:
        """Add the next rounds, given every agent's estimates: (rounds, agents, d)."""
        first, last = self._seen + 1, self._seen + len(estimates)
        x = estimates  # (rounds, deciders, d) decisions
        if self._blocks is not None:
            x = np.concatenate([estimates[:, i, block] for i, block in enumerate(self._blocks)], axis=1)[:, None]
        columns = self._losses.columns(first, last)
        averages, penalties = self._averages(x, columns)
        points = Points(x[..., columns], averages, estimates[..., columns])
        lost = self._losses.at(first, columns, points)
        if self._regularizer:
            lost = lost._replace(
                own=lost.own + self._penalty(x).sum(axis=1),
                averaged=lost.averaged + penalties,
                everybodys=lost.everybodys + self._deciders * self._penalty(estimates),
            )
        summands = np.column_stack([lost.own, lost.averaged, lost.everybodys])
        totals = np.cumsum(np.concatenate([self._sum_f[None], summands]), axis=0)[1:]
        for at in self._horizons_within(first, last):
            self.total[at] = totals[self.horizons[at] - first]
        self._sum_f = totals[-1]
        return JudgedRounds(x, summands, lost.training)

    def recall(self, losses: Vector) -> None:
        """Add the next rounds, of which nothing is known but what the network lost: (r,)."""
        first, last = self._seen + 1, self._seen + len(losses)
        self._labelled, self.accuracy = {}, {}
        self._real_valued, self.rmse = {}, {}
        self._sum_x[:] = self._latest[:] = self._sum_f[1:] = np.nan
        totals = self._sum_f[0] + np.cumsum(losses)
        self._seen, self._weight, self._sum_f[0] = last, np.nan, totals[-1]
        for at in self._horizons_within(first, last):
            self.total[at] = [totals[self.horizons[at] - first], *self._sum_f[1:]]
            self._keep(at, self._latest)

    def state(self) -> dict[str, Any]:
        """All that it needs to go on: plain data."""
        reached = slice(int(np.searchsorted(self.horizons, self._seen, side="right")))
        return {
            **{name: getattr(self, name) for name in _SUMS},
            **{name: getattr(self, name)[reached] for name in _BY_HORIZON},
            "accuracy": {name: of[reached] for name, of in self.accuracy.items()},
            "rmse": {name: of[reached] for name, of in self.rmse.items()},
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from there, to horizons that may be other ones than were to be reached then."""
        for name in _SUMS:
            setattr(self, name, state[name])
        reached = len(state["horizons"])
        ahead = self.horizons[self.horizons > self._seen]
        h = reached + len(ahead)
        self.whole = np.zeros((h, self.whole.shape[1]))
        for name in _BY_HORIZON:
            setattr(self, name, _continued(state[name], h if len(getattr(self, name)) else 0))
        self.horizons[reached:] = ahead
        self.accuracy = {name: _continued(of, h) for name, of in state["accuracy"].items()}
        self.rmse = {name: _continued(of, h) for name, of in state["rmse"].items()}

    def _penalty(self, points: Vector) -> Vector:
        """(λ/2)‖·‖²: (..., d) -> (...), side by side as the axes say: in what order sums are taken depends on it."""
        return np.ascontiguousarray(0.5 * self._regularizer * np.vecdot(points, points))

    def _averages(self, decisions: Vector, columns: Columns) -> tuple[Vector, Vector]:
        """Go on to the end of these rounds, (rounds, k, d), and tell of the running averages.

        Returns:
            Their coordinates (rounds, k, c), and what their regularizers come to together (rounds,).
        """
        horizons = {int(self.horizons[at]): at for at in range(len(self.horizons))}
        averages = np.empty((len(decisions), self._deciders, self._sum_x[0, columns].size))
        penalties = np.zeros(len(decisions))
        for row, x in enumerate(decisions):
            self._seen += 1
            weight = float(self._seen) if self._linear else 1.0
            self._sum_x += weight * x if self._linear else x
            self._weight += weight
            np.divide(self._sum_x[:, columns], self._weight, out=averages[row])
            if self._regularizer:
                penalties[row] = self._penalty(self._sum_x).sum() / self._weight**2
            if self._seen in horizons:
                self._keep(horizons[self._seen], x)
        self._latest = decisions[-1]
        return averages, penalties

    def _horizons_within(self, first: int, last: int) -> list[int]:
        return np.flatnonzero((self.horizons >= first) & (self.horizons <= last)).tolist()

    def end(self) -> None:
        """No round will follow: of a run that ended before its time, the last one is the last horizon."""
        at = int(np.searchsorted(self.horizons, self._seen))
        if self.horizons[at] != self._seen:
            self.horizons[at], self.total[at] = self._seen, self._sum_f
            self._keep(at, self._latest)
        self._examine()
        kept = slice(at + 1)
        self.horizons, self.total, self.whole = self.horizons[kept], self.total[kept], self.whole[kept]
        self.last, self.mean, self.judged = self.last[kept], self.mean[kept], self.judged[kept]
        self.accuracy = {name: found[kept] for name, found in self.accuracy.items()}
        self.rmse = {name: found[kept] for name, found in self.rmse.items()}
        if self._judged_by:
            rounds = 1 if self.everything.is_constant else self._rounds
            values = values_at(self.everything.upto(rounds), self.judged.reshape(-1, self.judged.shape[2]))
            self.whole = values.reshape(self.whole.shape) / (rounds * self._deciders)

    def _keep(self, at: int, last: Vector) -> None:
        """What is judged at a horizon, which has just been reached."""
        average = self._sum_x / self._weight
        self.last[at], self.mean[at] = last.mean(axis=0), average.mean(axis=0)
        if self._labelled or self._real_valued:
            self._unjudged.append((at, np.concatenate([average, last])))
            if len(self._unjudged) * self._unjudged[-1][1].size > NUMBERS_AT_ONCE:
                self._examine()
        if self._judged_by:
            self.judged[at] = last if self._judged_by == "last" else average

    def _examine(self) -> None:
        """Accuracies, or errors, of many horizons at once: the samples are read, unpacked or drawn for all together."""
        if self._unjudged:
            at = [horizon for horizon, _ in self._unjudged]
            points = np.ascontiguousarray(np.concatenate([points for _, points in self._unjudged]).T)
            examined: list[tuple[Mapping[str, Examined], dict[str, Vector]]] = [
                (self._labelled, self.accuracy), (self._real_valued, self.rmse),
            ]  # fmt: skip
            for sets, marks in examined:
                for name, one in sets.items():
                    marks[name][at] = one.marks(points).reshape(len(at), 2, -1)
        self._unjudged.clear()


def _continued(values: NDArray[Any], length: int) -> NDArray[Any]:
    """The same, with as many empty rows as it lacks."""
    whole = np.zeros((length, *values.shape[1:]), values.dtype)
    whole[: len(values)] = values
    return whole
