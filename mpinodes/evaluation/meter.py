"""Add up the losses of decisions chunk by chunk, and keep the sums at the horizons; formulas: `evaluation.regret`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mpinodes.core import SampleLoss, Setup, Vector
from mpinodes.evaluation.gathered import Examined, Labelled, RealValued, values_at
from mpinodes.evaluation.samples import Total

NUMBERS_AT_ONCE = 4_000_000  # numbers of the points that wait to be examined: 32 MB

Columns = slice | NDArray[np.int64]


class Points(NamedTuple):
    """Points at which losses are asked for, in r rounds of k deciders and n agents, with c coordinates of each."""

    decisions: Vector  # (r, k, c)
    averages: Vector  # (r, k, c) running averages
    estimates: Vector  # (r, n, c)


class Lost(NamedTuple):
    """Losses at such points, summed over all deciders."""

    own: Vector  # (r,) at every decider's own decision
    averaged: Vector  # (r,) at every decider's own average
    everybodys: Vector  # (r, n) at every agent's estimate
    training: Vector | None  # (r,) the mean loss of an owner's samples at its decision; None: losses change by round


class Losses(ABC):
    """The losses of all deciders, without regularizers.

    Attributes:
        kind: the class of the losses.
        is_dense: whether features are dense.
    """

    kind: type[SampleLoss]
    is_dense: bool

    @property
    @abstractmethod
    def everything(self) -> Total:
        """Return all samples of the run, each once."""

    @abstractmethod
    def columns(self, first: int, last: int) -> Columns:
        """Return the coordinates that the losses of rounds `first` to `last` depend on, ascending."""

    @abstractmethod
    def at(self, first: int, columns: Columns, points: Points) -> Lost:
        """Return the losses of the rounds from `first` on, at points given in the coordinates `columns`."""


class JudgedRounds(NamedTuple):
    """Decisions and losses of a stretch of rounds."""

    decisions: Vector  # (rounds, k, d)
    losses: Vector  # (rounds, 2 + n) the summands of the sums
    training_loss: Vector | None  # (rounds,)


_SUMS = ("_seen", "_weight", "_sum_x", "_sum_f", "_unjudged", "_latest")
_BY_HORIZON = ("horizons", "total", "last", "mean", "judged")


class Meter:
    """Add up losses chunk by chunk, and keep the sums at the horizons.

    There are k deciders with a loss each (the network of a nondecomposable objective, or the n agents of a decomposable
    one):

    Attributes:
        horizons: (h,) rounds at which the run is judged.
        total: (h, 2 + n) the sums of network regret, of its running-average form, and of every agent's regret.
        last, mean: (h, d) last and average decision, averaged over the deciders.
        accuracy: by set, (h, 2, k) accuracy of the average and of the last decision.
        rmse: by set, (h, 2, k) root mean squared error of the average and of the last decision.
        judged: (h, k, d) decisions by which an offline method is judged.
        whole: (h, k) F at `judged`, the mean over rounds and agents; known when the run has ended.
        kind, is_dense: class of the losses, and whether features are dense.
        predicts: whether the losses predict the targets, so that an accuracy or error exists.
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
        self._unjudged: list[tuple[int, Vector]] = []  # horizons, and points that wait to be examined
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
        """Return all samples of the run, each once."""
        return self._losses.everything

    def majorities(self) -> dict[str, float]:
        """Return the share of the largest class by set of labelled samples."""
        return {name: labelled.naive() for name, labelled in self._labelled.items()}

    def means(self) -> dict[str, float]:
        """Return the RMSE of predicting the mean training target, by set of samples with real targets."""
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
        """Add the next rounds from a record, given the network's losses, (r,); decisions are not known."""
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
        """Return the state as plain data."""
        reached = slice(int(np.searchsorted(self.horizons, self._seen, side="right")))
        return {
            **{name: getattr(self, name) for name in _SUMS},
            **{name: getattr(self, name)[reached] for name in _BY_HORIZON},
            "accuracy": {name: of[reached] for name, of in self.accuracy.items()},
            "rmse": {name: of[reached] for name, of in self.rmse.items()},
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from a state; the horizons to come may be others than when the state was made."""
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
        """Return (λ/2)‖·‖²: (..., d) -> (...), contiguous, because the order of later sums depends on the layout."""
        return np.ascontiguousarray(0.5 * self._regularizer * np.vecdot(points, points))

    def _averages(self, decisions: Vector, columns: Columns) -> tuple[Vector, Vector]:
        """Update the running averages by the decisions of the next rounds: (rounds, k, d).

        Returns:
            Coordinates of the averages, (rounds, k, c), and the sums of their regularizers, (rounds,).
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
        """End the run. If the run ended early, its last round becomes the last horizon."""
        at = int(np.searchsorted(self.horizons, self._seen))
        if self.horizons[at] != self._seen:
            self.horizons[at], self.total[at] = self._seen, self._sum_f
            self._keep(at, self._latest)
        self._examine()
        for name in (*_BY_HORIZON, "whole"):
            setattr(self, name, getattr(self, name)[: at + 1])
        self.accuracy = {name: marks[: at + 1] for name, marks in self.accuracy.items()}
        self.rmse = {name: marks[: at + 1] for name, marks in self.rmse.items()}
        if self._judged_by:
            rounds = 1 if self.everything.is_constant else self._rounds
            values = values_at(self.everything.upto(rounds), self.judged.reshape(-1, self.judged.shape[2]))
            self.whole = values.reshape(self.whole.shape) / (rounds * self._deciders)

    def _keep(self, at: int, last: Vector) -> None:
        """Store the decisions of the horizon that has just been reached."""
        average = self._sum_x / self._weight
        self.last[at], self.mean[at] = last.mean(axis=0), average.mean(axis=0)
        if self._labelled or self._real_valued:
            self._unjudged.append((at, np.concatenate([average, last])))
            if len(self._unjudged) * self._unjudged[-1][1].size > NUMBERS_AT_ONCE:
                self._examine()
        if self._judged_by:
            self.judged[at] = last if self._judged_by == "last" else average

    def _examine(self) -> None:
        """Compute accuracies or errors of the waiting horizons together, so that samples are read once for all."""
        if self._unjudged:
            at = [horizon for horizon, _ in self._unjudged]
            points = np.ascontiguousarray(np.concatenate([points for _, points in self._unjudged]).T)
            examined: list[tuple[Mapping[str, Examined], dict[str, Vector]]] = [
                (self._labelled, self.accuracy), (self._real_valued, self.rmse),
            ]  # fmt: skip
            for sets, marks in examined:
                for name, samples in sets.items():
                    marks[name][at] = samples.marks(points).reshape(len(at), 2, -1)
        self._unjudged.clear()


def _continued(values: NDArray[Any], length: int) -> NDArray[Any]:
    """Return values with rows of zeros added, up to a length."""
    whole = np.zeros((length, *values.shape[1:]), values.dtype)
    whole[: len(values)] = values
    return whole
