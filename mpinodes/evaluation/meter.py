"""Add up the losses of decisions chunk by chunk, and keep the sums at the horizons; formulas: `evaluation.regret`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpinodes.core import Setup, Vector
from mpinodes.core.parts import Stretch
from mpinodes.evaluation.gathered import Examined, Labelled, RealValued, values_at
from mpinodes.evaluation.regret import Points, losses_of

NUMBERS_AT_ONCE = 4_000_000  # numbers of the points that wait to be examined: 32 MB

_SUMS = ("seen", "_weight", "_sum_x", "_sum_f", "_unjudged", "_latest")
_BY_HORIZON = ("horizons", "total", "last", "mean", "judged")


class Meter:
    """Add up losses chunk by chunk, and keep the sums at the horizons.

    There are k deciders with a loss each (the network of a nondecomposable objective, or the n agents of a decomposable
    one):

    Attributes:
        losses: the losses of all deciders.
        predicts: whether the losses predict the targets, so that an accuracy or error exists.
        seen: the number of rounds so far.
        horizons: (h,) rounds at which the run is judged.
        total: (h, 2 + n) the sums of network regret, of its running-average form, and of every agent's regret.
        last, mean: (h, d) last and average decision, averaged over the deciders.
        marks: accuracy or root mean squared error of the average and of the last decision, (h, 2, k), by the name of
            the mark and the set: "accuracy.test".
        judged: (h, k, d) decisions by which an offline method is judged.
        whole: (h, k) F at `judged`, the mean over rounds and agents; only after `end`.
    """

    def __init__(self, setup: Setup, horizons: NDArray[np.int64]) -> None:
        d, h, n = setup.dimension, len(horizons), setup.topology.agents
        self.losses, self._regularizer = losses_of(setup), setup.experiment.problem.regularizer
        self._blocks = None if setup.algorithm.decomposable else setup.blocks
        self._deciders = k = n if self._blocks is None else 1
        self._rounds, self._judged_by = setup.experiment.rounds, setup.algorithm.judged_by
        self._linear = setup.algorithm.averaging == "linear"
        self._sets: dict[str, Examined] = {}
        labelled, real = setup.stream.labelled(), setup.stream.real_valued()
        for name, source in labelled.items():
            examined = Labelled(source, self.losses.kind, setup.stream.classes)
            if examined.is_predicted(d):
                self._sets[f"accuracy.{name}"] = examined
        if real and self.losses.kind.predicts:  # without a training set, the mean is that of the test set's own targets
            mean = float(real.get("train", real.get("test")).targets.mean())
            self._sets |= {f"rmse.{name}": RealValued(source, mean) for name, source in real.items()}
        self.predicts = bool(self._sets or not (labelled or real))
        self._unjudged: list[tuple[int, Vector]] = []  # horizons, and points that wait to be examined
        self.seen, self._weight = 0, 0.0
        self._sum_x, self._sum_f = np.zeros((k, d)), np.zeros(2 + n)
        self._latest = np.zeros((k, d))
        self.horizons, self.total = horizons, np.zeros((h, 2 + n))
        self.last, self.mean = np.zeros((h, d)), np.zeros((h, d))
        self.marks = {name: np.zeros((h, 2, k)) for name in self._sets}
        self.judged = np.zeros((h if self._judged_by else 0, k, d))
        self.whole = np.zeros((0, k))

    def by_set(self, name: str) -> dict[str, Vector]:
        """Return the accuracy or RMSE, (h, 2, k), by set."""
        return {key.partition(".")[2]: values for key, values in self.marks.items() if key.startswith(f"{name}.")}

    def naive(self, name: str) -> dict[str, float]:
        """Return by set the accuracy or RMSE of always predicting the largest class, or the mean training target."""
        return {of: self._sets[f"{name}.{of}"].naive() for of in self.by_set(name)}

    def take(self, estimates: Vector) -> Stretch:
        """Add the next rounds, given every agent's estimates, (r, n, d); return their decisions and losses."""
        first, last = self.seen + 1, self.seen + len(estimates)
        x = estimates  # (r, k, d) decisions
        if self._blocks is not None:
            x = np.concatenate([estimates[:, i, block] for i, block in enumerate(self._blocks)], axis=1)[:, None]
        columns = self.losses.columns(first, last)
        averages = np.empty((len(x), self._deciders, self._sum_x[0, columns].size))
        penalties = np.zeros(len(x))  # the regularizers at the averages
        horizons = {int(horizon): at for at, horizon in enumerate(self.horizons)}
        for row, decisions in enumerate(x):
            self.seen += 1
            weight = float(self.seen) if self._linear else 1.0
            self._sum_x += weight * decisions if self._linear else decisions
            self._weight += weight
            np.divide(self._sum_x[:, columns], self._weight, out=averages[row])
            if self._regularizer:
                penalties[row] = self._penalty(self._sum_x).sum() / self._weight**2
            if self.seen in horizons:
                self._keep(horizons[self.seen], decisions)
        self._latest = x[-1]
        lost = self.losses.played(first, columns, Points(x[..., columns], averages, estimates[..., columns]))
        if self._regularizer:
            lost = lost._replace(
                own=lost.own + self._penalty(x).sum(axis=1),
                averaged=lost.averaged + penalties,
                everybodys=lost.everybodys + self._deciders * self._penalty(estimates),
            )
        summands = np.column_stack([lost.own, lost.averaged, lost.everybodys])
        self._add(first, summands)
        return Stretch(np.arange(first, last + 1), estimates, x, summands[:, 0], summands[:, 2:], lost.training)

    def _add(self, first: int, summands: Vector) -> None:
        """Add the summands of the rounds from `first` on to the sums: (r, 2 + n)."""
        totals = np.cumsum(np.concatenate([self._sum_f[None], summands]), axis=0)[1:]
        within = (self.horizons >= first) & (self.horizons < first + len(totals))
        self.total[within] = totals[self.horizons[within] - first]
        self._sum_f = totals[-1]

    def recall(self, losses: Vector) -> None:
        """Add the next rounds from a record, given the network's losses, (r,); decisions are not known."""
        self._sets, self.marks = {}, {}
        self._sum_x[:] = self._latest[:] = self._weight = self.last[:] = self.mean[:] = self.judged[:] = np.nan
        summands = np.full((len(losses), len(self._sum_f)), np.nan)
        summands[:, 0] = losses
        self._add(self.seen + 1, summands)
        self.seen += len(losses)

    def state(self) -> dict[str, Any]:
        """Return the state as plain data."""
        reached = slice(int(np.searchsorted(self.horizons, self.seen, side="right")))
        sums = {name: getattr(self, name) for name in _SUMS}
        by_horizon = {name: getattr(self, name)[reached] for name in _BY_HORIZON}
        return {**sums, **by_horizon, "marks": {name: values[reached] for name, values in self.marks.items()}}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from a state; the horizons to come may be others than when the state was made."""
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
        """End the run. If the run ended early, its last round becomes the last horizon."""
        at = int(np.searchsorted(self.horizons, self.seen))
        if self.horizons[at] != self.seen:
            self.horizons[at], self.total[at] = self.seen, self._sum_f
            self._keep(at, self._latest)
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
        """Return (λ/2)‖·‖²: (..., d) -> (...), contiguous, because the order of later sums depends on the layout."""
        return np.ascontiguousarray(0.5 * self._regularizer * np.vecdot(points, points))

    def _keep(self, at: int, last: Vector) -> None:
        """Store the decisions of the horizon that has just been reached."""
        average = self._sum_x / self._weight
        self.last[at], self.mean[at] = last.mean(axis=0), average.mean(axis=0)
        if self._sets:
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
            for name, samples in self._sets.items():
                self.marks[name][at] = samples.marks(points).reshape(len(at), 2, -1)
        self._unjudged.clear()
