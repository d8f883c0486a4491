"""Compute the losses of a run, from which regret, average fitness and consensus error follow by the formulas below.

Nondecomposable objectives: all agents see the loss f^t of round t, and agent i decides the block B_i of coordinates.
Let y_i(t) be agent i's estimate of all coordinates, and x(t) the network's decision: the blocks (y_i(t))_{B_i} side by
side. Let x̃(t) be the average of x(1), ..., x(t). All minima are over v in the set 𝒳:

    network regret R(T)          = Σ_t f^t(x(t))   − min_v Σ_t f^t(v)
    running-average form R̃(T)    = Σ_t f^t(x̃(t))  − min_v Σ_t f^t(v)
    agent regret R_i(T)          = Σ_t f^t(y_i(t)) − min_v Σ_t f^t(v)

Decomposable objectives: agent i sees the loss f_i^t and decides x_i(t). Let x̃_i(t) be the average of x_i(1), ...,
x_i(t):

    network regret R(T)          = Σ_t Σ_i f_i^t(x_i(t))  − min_v Σ_t Σ_i f_i^t(v)
    running-average form R̃(T)    = Σ_t Σ_i f_i^t(x̃_i(t)) − min_v Σ_t Σ_i f_i^t(v)
    agent regret R_j(T)          = Σ_t Σ_i f_i^t(x_j(t))  − min_v Σ_t Σ_i f_i^t(v)
    training loss of round t     = the mean over agents i of the mean loss at x_i(t) of agent i's samples, without
                                   regularizer; only if the loss functions are the same in all rounds

Offline methods have further results. Let F = Σ_t Σ_i f_i^t / (n T), over all T rounds of the experiment. Depending on
the method, the decision x is x_i(t) or the average x̃_i(t):

    optimality gap of agent i    = F(x) − min F
    decision error               = ‖mean of x over all agents − argmin F‖²
    agent decision error         = ‖x − argmin F‖²

In an average of decisions, the decision of round s has weight 1, or weight s if the attribute `averaging` of the
algorithm is "linear".

For both kinds of objectives, with y_i(t) = x_i(t) for decomposable objectives:

    average fitness F(T)/T       = the first sum in the formula of network regret, divided by T
    consensus error of round t   = sqrt( (1/n) Σ_i ‖y_i(t) − mean_j y_j(t)‖² )

If agents learn their loss at two points in a round (`feedback.points`), y_i(t) and x(t) are the midpoints of the two
points, and the loss of a round is the mean of the losses at both points.

A regret may be negative, because decisions that differ between rounds and agents may have a smaller total loss than any
fixed decision. A decision may also lie outside 𝒳, for example if it is made of noisy messages, or if 𝒳 is a ball of the
full vector and agents decide blocks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mpinodes.core import ALL, Features, SampleLoss, Setup, Vector
from mpinodes.core.messages import stack
from mpinodes.evaluation.gathered import IN_CACHE, blocks
from mpinodes.evaluation.samples import Total, samples_of
from mpinodes.losses.linear import LinearLoss
from mpinodes.losses.two_point import Directions

Columns = slice | NDArray[np.int64]


class Points(NamedTuple):
    """Hold the points at which the losses of r rounds are computed, for k deciders and n agents, in c coordinates.

    If the objective is decomposable, each agent is a decider (k = n); else the network is the only decider (k = 1).
    """

    decisions: Vector  # (r, k, c) the decision of each decider
    averages: Vector  # (r, k, c) the running average of each decider's decisions
    estimates: Vector  # (r, n, c) the estimate of each agent


class Lost(NamedTuple):
    """Hold the losses of r rounds at given points, summed over all deciders.

    If the objective is decomposable, each agent is a decider; else the network is the only decider.
    """

    # (r, 2 + n): each decider's loss at its own decision, at its own running average, and at the estimate of each agent
    losses: Vector
    training: Vector | None  # (r,) mean over agents of their samples' mean loss; None: losses change, or are shared


class Losses(ABC):
    """Compute the losses of all deciders in any rounds, without the regularizer.

    If the objective is decomposable, each agent is a decider; else the network is the only decider.

    Args:
        setup: the set-up of the run.
        first: any loss of the run; all losses of the run have the same class.

    Attributes:
        kind: the class of the losses.
        is_dense: whether features are dense arrays.
    """

    def __init__(self, setup: Setup, first: SampleLoss) -> None:
        e = setup.experiment
        self.kind, self.is_dense = type(first), isinstance(first.features, np.ndarray)
        self._directions = Directions(e, setup.blocks, setup.dimension) if e.feedback.points else None
        self._regularizer, self._decomposable = e.problem.regularizer, setup.algorithm.decomposable

    @property
    @abstractmethod
    def everything(self) -> Total:
        """Return the losses of the whole run as a `Total`, which sums the losses of any consecutive rounds."""

    def columns(self, first: int, last: int) -> Columns:
        """Return the coordinates of a decision on which the losses of rounds `first` to `last` depend: by default, all.

        A subclass may return fewer coordinates, in ascending order.
        """
        return ALL

    @abstractmethod
    def at(self, first: int, columns: Columns, points: Points) -> Lost:
        """Return the losses of consecutive rounds from `first` on, at given points.

        Args:
            first: the first of the rounds.
            columns: the coordinates in which the points are given.
            points: the points of each round.
        """

    def played(self, first: int, columns: Columns, points: Points) -> Lost:
        """Return the losses of consecutive rounds from `first` on, at the points at which agents learn their losses.

        - Without bandit feedback, these points are the decisions, and the result is that of `at`.
        - With bandit feedback, there are two points for each decision. The result is the mean of the losses at both
          points, plus the excess of the mean regularizer at both points over the regularizer at the decision.

        The losses at running averages are those of `at` in both cases.

        Args:
            first: the first of the rounds.
            columns: the coordinates in which the points are given.
            points: the decisions, averages and estimates of each round.
        """
        if self._directions is None:
            return self.at(first, columns, points)
        apart = self._directions.offsets(first, len(points.decisions))
        away = apart[..., columns]
        of_deciders = away if self._decomposable else away.sum(axis=1, keepdims=True)
        decisions, averages, estimates = points
        ahead = self.at(first, columns, Points(decisions + of_deciders, averages, estimates + away))
        behind = self.at(first, columns, Points(decisions - of_deciders, averages, estimates - away))
        owned = 0.5 * self._regularizer * np.vecdot(apart, apart)  # (r, n)
        losses = (ahead.losses + behind.losses) / 2
        losses[:, 0] += owned.sum(axis=1)
        losses[:, 2:] += decisions.shape[1] * owned
        training = None
        if ahead.training is not None and behind.training is not None:
            training = (ahead.training + behind.training) / 2
        return Lost(losses, training)


class Changing(Losses):
    """Compute the losses of a run whose samples may change from round to round (`stream.batch` is not "all")."""

    def __init__(self, setup: Setup, owners: int) -> None:
        self._samples = samples_of(setup.stream, owners, setup.experiment.rounds)
        super().__init__(setup, self._samples.first)

    @property
    def everything(self) -> Total:
        """Return the losses of the whole run as a `Total`, which sums the losses of any consecutive rounds."""
        return self._samples.everything

    def columns(self, first: int, last: int) -> Columns:
        """Return the coordinates of a decision on which the losses of rounds `first` to `last` depend.

        - If features are sparse and the loss is a function of a·x: the coordinates in which some feature vector a is
          not 0 (coordinate 0 if all features are 0).
        - In all other cases: all coordinates.
        """
        features, *_ = self._samples.of(first, last)
        loss = self._samples.first
        if isinstance(features, np.ndarray) or not (isinstance(loss, LinearLoss) and loss.predicts):
            return ALL
        return np.unique(features.indices) if features.nnz else np.zeros(1, np.int64)

    def at(self, first: int, columns: Columns, points: Points) -> Lost:
        """Return the losses of consecutive rounds from `first` on, at points in the coordinates `columns`.

        The training loss of the result is None, because the loss functions change.
        """
        samples, rounds = self._samples, len(points.decisions)
        features, targets, divisor = samples.of(first, first + rounds - 1)
        if not isinstance(columns, slice):  # sparse features, whose nonzero columns are all in `columns`
            places, shape = np.searchsorted(columns, features.indices), (features.shape[0], len(columns))
            features = type(features)((features.data, places, features.indptr), shape=shape)
        own = np.stack([points.decisions, points.averages], axis=2).reshape(rounds * samples.owners, 2, -1)
        lost = self._sums(features, targets.reshape(len(own), -1), divisor, own)
        lost = lost.reshape(rounds, samples.owners, 2).sum(axis=1)
        divisor = divisor.reshape(rounds, -1) if np.ndim(divisor) else divisor
        everybodys = self._sums(features, targets.reshape(rounds, -1), divisor, points.estimates)
        return Lost(np.column_stack([lost, everybodys]), None)

    def _sums(self, features: Features, targets: Vector, divisor: Any, points: Vector) -> Vector:
        """Return the sum of the losses of each of g groups of samples, at each of the group's p points: (g, p).

        Args:
            features: the samples of all groups, one group after another.
            targets: (g, samples of a group).
            divisor: one number that divides all losses, or a number for each sample.
            points: (g, p, coordinates).
        """
        values = self._samples.first.values(features, targets, points)
        if np.ndim(divisor):
            return np.asarray((values / divisor.reshape(len(targets), 1, -1)).sum(axis=2))
        return np.asarray(values.sum(axis=2) / divisor)


class ConstantLosses(Losses):
    """Compute the losses of a run in which every round uses all samples, so that the loss functions never change."""

    def __init__(self, setup: Setup, owners: int) -> None:
        own: list[Any] = [setup.stream.merged(i)(1, 1) for i in range(owners)]
        super().__init__(setup, own[0])
        self._sizes, self._divisors = [len(loss.targets) for loss in own], [float(loss.divisor) for loss in own]
        features, targets = stack([loss.features for loss in own]), np.concatenate([loss.targets for loss in own])
        self._everything = Total(own[0], owners, (features, targets, np.repeat(self._divisors, self._sizes)), None)
        self._blocks = [_blocks(loss.features, loss.targets, 2 + setup.topology.agents) for loss in own]

    @property
    def everything(self) -> Total:
        """Return the losses of the whole run as a `Total`, which sums the losses of any consecutive rounds."""
        return self._everything

    def at(self, first: int, columns: Columns, points: Points) -> Lost:
        """Return the losses of consecutive rounds, at points that have all coordinates.

        The arguments `first` and `columns` are not used, because all rounds have the same losses.
        """
        rounds, owners, _ = points.decisions.shape
        lost, training = np.zeros((rounds, 2 + points.estimates.shape[1])), np.zeros(rounds)
        for i in range(owners):
            at = np.concatenate([points.decisions[:, [i]], points.averages[:, [i]], points.estimates], axis=1)
            sums = np.zeros(at.shape[:2])  # (r, p) of Σ ℓ over the owner's samples
            for features, targets in self._blocks[i]:
                at_once = max(1, IN_CACHE // (at.shape[1] * targets.size))
                for start in range(0, rounds, at_once):
                    some = slice(start, start + at_once)
                    sums[some] += self.kind.values(features, targets, at[some]).sum(axis=2)
            lost += sums / self._divisors[i]
            training += sums[:, 0] / (owners * self._sizes[i])
        return Lost(lost, training if self._decomposable else None)


def _blocks(features: Features, targets: Vector, points: int) -> list[tuple[Features, Vector]]:
    """Split samples into blocks of rows, so that computing the losses of a block fits into the processor's cache.

    Samples with sparse features stay in one block.

    Args:
        features: the features of the samples, one row for each sample.
        targets: the targets of the samples.
        points: the number of points at which the losses are computed.
    """
    # The blocks do not depend on how many rounds are computed together, so sums are the same to the last bit.
    if not isinstance(features, np.ndarray):
        return [(features, targets[None])]
    # Features stored by columns halve the time of a product with a few rows.
    return [(np.asfortranarray(features[rows]), targets[None, rows]) for rows in blocks(len(targets), points)]


def losses_of(setup: Setup) -> Losses:
    """Return the losses of a run: one loss for each agent if the objective is decomposable, else one common loss."""
    owners = setup.topology.agents if setup.algorithm.decomposable else 1
    return (ConstantLosses if setup.stream.batch == "all" else Changing)(setup, owners)
