"""Add up the losses of decisions round by round, and store the sums at the horizons.

A horizon is a round at which results are measured. The module `evaluation.regret` has the formulas.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpinodes.core import Setup, Vector
from mpinodes.core.parts import Stretch
from mpinodes.evaluation.gathered import Examined, Labelled, RealValued, values_at
from mpinodes.evaluation.regret import Points, losses_of

NUMBERS_AT_ONCE = 4_000_000  # numbers in the points that wait for evaluation on the data sets: 32 MB

_SUMS = ("seen", "_weight", "_sum_x", "_sum_f", "_unjudged", "_latest")
_BY_HORIZON = ("horizons", "total", "last", "mean", "judged")


class Meter:
    """Add up the losses of a run round by round, and store the sums at h horizons.

    A horizon is a round at which results are measured. A decider makes a decision and has a loss. If the objective is
    decomposable, each of the n agents is a decider (k = n). Otherwise the network is the only decider (k = 1).

    Attributes:
        losses: the losses of all deciders.
        sets: the data sets with accuracies or errors, by keys such as "accuracy.test".
        predicts: False if the stream has data sets with targets, but the losses predict none of these targets. The run
            then has no accuracy or error.
        seen: the number of rounds so far.
        horizons: (h,) the horizons, ascending.
        total: (h, 2 + n) losses of the network, summed over the rounds up to a horizon: at its decisions, at its
            running averages, and at the estimate of each agent.
        last, mean: (h, d) the last and the average decision, averaged over the deciders.
        marks: for each measure and data set, such as "accuracy.test", an array (h, 2, k) of accuracies or root mean
            squared errors: [:, 0] of the average decisions, and [:, 1] of the last decisions. Complete after `end`.
        judged: (h, k, d) for an offline method, the decisions whose optimality gap is reported; (0, k, d) for an online
            method.
        whole: (h, k) for an offline method, the loss at each decision in `judged`, averaged over all rounds and agents;
            set by `end`. For an online method the numbers are 0.
    """

    def __init__(self, setup: Setup, horizons: NDArray[np.int64]) -> None:
        d, h, n = setup.dimension, len(horizons), setup.topology.agents
        self.losses, self._regularizer = losses_of(setup), setup.experiment.problem.regularizer
        self._blocks = None if setup.algorithm.decomposable else setup.blocks
        self._deciders = k = n if self._blocks is None else 1
        self._rounds, self._judged_by = setup.experiment.rounds, setup.algorithm.judged_by
        self._linear = setup.algorithm.averaging == "linear"
        self.sets: dict[str, Examined] = {}
        labelled, real = setup.stream.labelled(), setup.stream.real_valued()
        for name, source in labelled.items():
            examined = Labelled(source, self.losses.kind, setup.stream.classes)
            if examined.is_predicted(d):
                self.sets[f"accuracy.{name}"] = examined
        if real and self.losses.kind.predicts:  # if there is no training set, use the mean of the test targets
            mean = float(real.get("train", real.get("test")).targets.mean())
            self.sets |= {f"rmse.{name}": RealValued(source, mean) for name, source in real.items()}
        self.predicts = bool(self.sets or not (labelled or real))
        self._unjudged: list[tuple[int, Vector]] = []  # indices of horizons, with points that wait for evaluation
        self.seen, self._weight = 0, 0.0
        self._sum_x, self._sum_f = np.zeros((k, d)), np.zeros(2 + n)
        self._latest = np.zeros((k, d))
        self.horizons, self.total = horizons, np.zeros((h, 2 + n))
        self.last, self.mean = np.zeros((h, d)), np.zeros((h, d))
        self.marks = {name: np.zeros((h, 2, k)) for name in self.sets}
        self.judged = np.zeros((h if self._judged_by else 0, k, d))
        self.whole = np.zeros((0, k))

    def by_set(self, name: str) -> dict[str, Vector]:
        """Return the accuracies or the root mean squared errors of the run, by data set ("train", "test").

        Each array has the shape (h, 2, k): h horizons, the average and the last decision, and k deciders. The result is
        empty if the run has no accuracy or no error.

        Args:
            name: "accuracy" or "rmse".
        """
        return {key.partition(".")[2]: values for key, values in self.marks.items() if key.startswith(f"{name}.")}

    def naive(self, name: str) -> dict[str, float]:
        """Return the accuracy or error of a constant prediction, by data set ("train", "test").

        The accuracy is that of always predicting the largest class of the data set. The error is that of always
        predicting the mean target of the training set, or of the test set if there is no training set.

        Args:
            name: "accuracy" or "rmse".
        """
        return {of: self.sets[f"{name}.{of}"].naive() for of in self.by_set(name)}

    def take(self, estimates: Vector) -> Stretch:
        """Add the next r rounds of the run, and return their decisions and losses.

        Args:
            estimates: (r, n, d) the estimates of all agents, from which the decisions are taken.
        """
        first, last = self.seen + 1, self.seen + len(estimates)
        x = estimates  # (r, k, d) decisions
        if self._blocks is not None:
            x = np.concatenate([estimates[:, i, block] for i, block in enumerate(self._blocks)], axis=1)[:, None]
        columns = self.losses.columns(first, last)
        rounds = np.arange(first, last + 1)
        weights = rounds[:, None, None].astype(float) if self._linear else np.ones((len(x), 1, 1))
        totals = self._weight + np.cumsum(weights, axis=0)
        # The rounds are added one after another, as a loop would do.
        sums = np.cumsum(np.concatenate([self._sum_x[None], weights * x if self._linear else x]), axis=0)[1:]
        for at, row in enumerate((self.horizons - first).tolist()):
            if 0 <= row < len(x):
                self._keep(at, x[row], sums[row] / totals[row])
        averages = sums[..., columns] / totals
        self.seen, self._weight, self._sum_x = last, float(totals[-1, 0, 0]), sums[-1]
        self._latest = x[-1]
        points = Points(x[..., columns], averages, estimates[..., columns])
        summands, training = self.losses.played(first, columns, points)
        if self._regularizer:
            summands[:, 0] += self._penalty(x).sum(axis=1)
            summands[:, 1] += self._penalty(sums).sum(axis=1) / totals[:, 0, 0] ** 2
            summands[:, 2:] += self._deciders * self._penalty(estimates)
        self._add(first, summands)
        return Stretch(np.arange(first, last + 1), estimates, x, summands[:, 0], summands[:, 2:], training)

    def _add(self, first: int, summands: Vector) -> None:
        """Add the losses of r consecutive rounds to the sums. Store the sums at the rounds where results are measured.

        Args:
            first: the first of the rounds.
            summands: (r, 2 + n) the losses of each round, with columns as in `total`.
        """
        totals = np.cumsum(np.concatenate([self._sum_f[None], summands]), axis=0)[1:]
        within = (self.horizons >= first) & (self.horizons < first + len(totals))
        self.total[within] = totals[self.horizons[within] - first]
        self._sum_f = totals[-1]

    def recall(self, losses: Vector) -> None:
        """Add the next r rounds of a stored run from the recorded losses of the network, without the decisions.

        After this call, sums and averages that need decisions are nan, and there is no accuracy or error.

        Args:
            losses: (r,) the loss of the network in each round.
        """
        self.sets, self.marks = {}, {}
        self._sum_x[:] = self._latest[:] = self._weight = self.last[:] = self.mean[:] = self.judged[:] = np.nan
        summands = np.full((len(losses), len(self._sum_f)), np.nan)
        summands[:, 0] = losses
        self._add(self.seen + 1, summands)
        self.seen += len(losses)

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint stores of this object: the sums so far, and the stored values of earlier rounds."""
        reached = slice(int(np.searchsorted(self.horizons, self.seen, side="right")))
        sums = {name: getattr(self, name) for name in _SUMS}
        by_horizon = {name: getattr(self, name)[reached] for name in _BY_HORIZON}
        return {**sums, **by_horizon, "marks": {name: values[reached] for name, values in self.marks.items()}}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from a state that the method `state` of an earlier object returned.

        The horizons that the earlier object has reached stay. All later horizons are those of this run, which may have
        another number of rounds.
        """
        for name in _SUMS:
            setattr(self, name, state[name])
        ahead = self.horizons[self.horizons > self.seen]

        def continued(values: NDArray[Any]) -> NDArray[Any]:
            return np.concatenate([values, np.zeros((len(ahead), *values.shape[1:]), values.dtype)])

        for name in _BY_HORIZON:
            setattr(self, name, continued(state[name]) if len(getattr(self, name)) else state[name])
        self.horizons[len(state["horizons"]) :] = ahead
        self.marks = {name: continued(values) for name, values in state["marks"].items()}

    def end(self) -> None:
        """End the run: compute the accuracies, the errors and `whole`.

        If the run ended early, its last round becomes the last horizon.
        """
        at = int(np.searchsorted(self.horizons, self.seen))
        if self.horizons[at] != self.seen:
            self.horizons[at], self.total[at] = self.seen, self._sum_f
            self._keep(at, self._latest, self._sum_x / self._weight)
        self._examine()
        for name in _BY_HORIZON:
            setattr(self, name, getattr(self, name)[: at + 1])
        self.marks = {name: values[: at + 1] for name, values in self.marks.items()}
        self.whole = np.zeros((at + 1, self._deciders))
        if self._judged_by:
            everything = self.losses.everything
            rounds = 1 if everything.is_constant else self._rounds
            values = values_at(everything.upto(rounds), self.judged.reshape(-1, self.judged.shape[2]))
            self.whole = values.reshape(self.whole.shape) / (rounds * self._deciders)

    def _penalty(self, points: Vector) -> Vector:
        """Return the regularizer (λ/2)‖x‖² of each point x. The last axis of `points` has the coordinates."""
        # contiguous, because NumPy sums an array in an order that depends on its layout
        return np.ascontiguousarray(0.5 * self._regularizer * np.vecdot(points, points))

    def _keep(self, at: int, last: Vector, average: Vector) -> None:
        """Store the decisions of a round at which results are measured, and the averages of the decisions so far.

        Args:
            at: the index of the round in `horizons`.
            last: (k, d) the decisions in this round.
            average: (k, d) the averages of the decisions up to this round.
        """
        self.last[at], self.mean[at] = last.mean(axis=0), average.mean(axis=0)
        if self.sets:
            self._unjudged.append((at, np.concatenate([average, last])))
            if len(self._unjudged) * self._unjudged[-1][1].size > NUMBERS_AT_ONCE:
                self._examine()
        if self._judged_by:
            self.judged[at] = last if self._judged_by == "last" else average

    def _examine(self) -> None:
        """Compute the accuracies or errors of all stored decisions at once, so that the samples are read only once."""
        if self._unjudged:
            at = [horizon for horizon, _ in self._unjudged]
            points = np.ascontiguousarray(np.concatenate([points for _, points in self._unjudged]).T)
            for name, samples in self.sets.items():
                self.marks[name][at] = samples.marks(points).reshape(len(at), 2, -1)
        self._unjudged.clear()
