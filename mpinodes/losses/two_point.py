"""Bandit feedback: an agent plays two points in each round, sees the loss's values there, and estimates the gradient.

A. Agarwal, O. Dekel, L. Xiao, "Optimal Algorithms for Online Convex Optimization with Multi-Point Bandit Feedback"
(COLT 2010); O. Shamir, "An Optimal Algorithm for Bandit and Zero-Order Convex Optimization with Two-Point Feedback"
(JMLR 2017); J. C. Duchi, M. I. Jordan, M. J. Wainwright, A. Wibisono, "Optimal Rates for Zero-Order Convex
Optimization: The Power of Two Function Evaluations" (IEEE Trans. Inf. Theory 2015).

Let u be uniform on the unit sphere of R^d; u is drawn from the seed and public. Let r(t) = r t^-decay, and let 𝒳_t be
the points of 𝒳 that leave a margin r(t): (1 − r(t)/R)𝒳 for a ball or box of (half) width R. An agent that asks for the
gradient at x

    computes c = P_{𝒳_t}(x),
    plays c + r u and c − r u, both in 𝒳, and sees f(c ± r u),
    gets g = d · (f(c + r u) − f(c − r u))/(2r) · u

An agent that owns k coordinates has a u of these alone, and k in the place of d. E g is the gradient at c of the mean
of f over the ball of radius r around c (Agarwal et al.). Regret counts the points played: the mean of the two losses in
each round, against the best point of 𝒳. The regularizer is known, so its gradient is exact.

Sensitivity: a sample's share q_k of the slope along u is cut to [−clip, clip], which changes nothing for a
clip-Lipschitz loss. So ‖g‖₂ ≤ d · clip for one sample. Replacing the sample moves g along the public u alone, by at
most 2 d · clip in L2 and ‖u‖₁ times as much in L1. The accountant uses √d ≥ ‖u‖₁, because a projection onto 𝒳 after the
step may turn the change out of u's direction. At a hidden point, exact arithmetic would move g by at most d β times the
move of the point, with β the loss's smoothness, because P is nonexpansive. But values are doubles, and rounding can
move the difference of two large values however near the points are: up to the cut, for a loss of 1e16. So no Lipschitz
constant holds. At a hidden point, a sample that was used before therefore counts in every later round with the error
that rounding can make (`Run.grad_rounding`), or with the whole range if that error is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any

import numpy as np

from mpinodes.core import ALL, Loss, SampleLoss, Set, Solved, Vector
from mpinodes.core.experiment import Experiment
from mpinodes.core.norms import norm
from mpinodes.core.seeds import Draws, Purpose
from mpinodes.losses.enforced import Stated
from mpinodes.losses.linear import Around


class Directions:
    """The public displacements r u between the center and the points that agents play; functions of seed and round.

    Args:
        experiment: sets the radius and its decay.
        blocks: by agent, the coordinates that the agent plays in.
        dimension: d.
    """

    def __init__(self, experiment: Experiment, blocks: Sequence[slice], dimension: int) -> None:
        self._told, self._blocks, self._dimension = experiment.feedback, blocks, dimension
        self._draws = [Draws(experiment.seed, Purpose.DIRECTION, i) for i in range(len(blocks))]

    def radius(self, t: int) -> float:
        """Compute r(t), the distance of the played points from their center."""
        return float(self._told.radius * t**-self._told.decay)

    def unit(self, agent: int, t: int) -> Vector:
        """Draw the unit vector u of an agent in round t: (size of its block,)."""
        block = self._blocks[agent]
        drawn = self._draws[agent].at(t).standard_normal(block.stop - block.start)
        return np.asarray(drawn / norm(drawn))

    def offsets(self, first: int, rounds: int) -> Vector:
        """Compute r u on all coordinates for some rounds: (rounds, agents, d)."""
        displacements = np.zeros((rounds, len(self._blocks), self._dimension))
        for k in range(rounds):
            for i, block in enumerate(self._blocks):
                displacements[k, i, block] = self.radius(first + k) * self.unit(i, first + k)
        return displacements


@dataclass(slots=True)
class TwoPoint(Around):
    """A loss of which an agent sees two values.

    Attributes:
        unit: u: (size of the block,).
        radius: r.
        inner: 𝒳_t.
        clip, whole: as in `SampleLoss`, applied to slopes along u.
        regularizer: λ.
        most: bound on the slope of the round: half of the accounted sensitivity divided by d, if a user's stream may
            produce other losses than stated; else inf.
        played: the center c of the two points played in this round; None before a gradient was computed.
    """

    unit: Vector
    radius: float
    inner: Set
    clip: float
    whole: bool
    regularizer: float
    most: float
    played: Vector | None = field(default=None, init=False)

    def value(self, x: Vector) -> float:
        """Raise NotImplementedError: the agent sees the loss at the two points alone."""
        raise NotImplementedError("feedback.points = 2 shows a loss only at the two points that are played")

    def prox(self, v: Vector, step: float, near: Vector, tolerance: float) -> Solved:
        """Raise NotImplementedError: two values do not suffice to minimize the loss."""
        raise NotImplementedError("feedback.points = 2 shows a loss at two points, which is not enough to minimize it")

    def grad(self, x: Vector, block: slice = ALL) -> Vector:
        """Compute the estimate g plus the regularizer's gradient λx."""
        return self.data_grad(x, block) + self.regularizer * x[block]

    def data_grad(self, x: Vector, block: slice = ALL) -> Vector:
        """Compute the estimate g of the samples' gradient.

        Raises:
            ValueError: the gradient is requested at a second place in the same round.
        """
        center = np.array(self.inner.project(x))
        if self.played is not None and not np.array_equal(self.played, center):
            raise ValueError("feedback.points = 2: a gradient was requested at two places in one round")
        self.played = center
        ahead, behind = center.copy(), center.copy()
        ahead[block] += self.radius * self.unit
        behind[block] -= self.radius * self.unit
        return np.asarray(len(self.unit) * self._slope(ahead, behind) * self.unit)

    @np.errstate(all="ignore")
    def _slope(self, ahead: Vector, behind: Vector) -> float:
        """Compute the slope of the loss along u between the two points, with the samples' shares clipped."""
        loss: Any = self.loss
        both = np.stack([ahead, behind])[None]
        values = type(loss).values(loss.features, loss.targets[None], both)[0]
        slopes = (values[0] - values[1]) / (2 * self.radius)
        slopes = slopes if self.whole else _cut(slopes, self.clip)
        whole = np.sum(slopes / loss.divisor)
        return float(_cut(whole, min(self.clip, self.most) if self.whole else self.most))


def _cut(slopes: Any, clip: float) -> Any:
    """Limit slopes to [−clip, clip]; a nan counts as 0."""
    return np.clip(np.where(np.isnan(slopes), 0.0, slopes), -clip, clip)


def two_point(
    experiment: Experiment, directions: Directions, feasible: Set, agent: int, most: float, stated: Stated | None
) -> Callable[[int, Loss], Loss]:
    """Return a function of round and loss that gives the loss as an agent with bandit feedback sees it.

    Args:
        experiment: has the clip, the adjacency and λ.
        directions: of the agents' displacements.
        feasible: 𝒳.
        agent: the number of the agent.
        most: bound on the slope of a round whose loss is not as stated: half of the accounted sensitivity divided by d.
        stated: statements that the losses of a user's stream must fit; None for the package's streams, which fit.
    """
    clip, whole = experiment.clip, experiment.privacy.adjacency == "one-round"
    regularizer = experiment.problem.regularizer

    def seen(t: int, loss: Loss) -> Loss:
        if not isinstance(loss, SampleLoss):
            raise ValueError("feedback.points = 2 needs losses of samples, but this stream's losses expose no samples")
        sample = loss if loss.features.dtype == np.float64 else replace(loss, features=loss.features.astype(float))
        radius = directions.radius(t)
        inner, bound = feasible.within(radius), most if stated and not stated.fits(agent, loss) else inf
        return TwoPoint(sample, directions.unit(agent, t), radius, inner, clip, whole, regularizer, bound)

    return seen
