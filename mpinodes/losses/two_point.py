"""Bandit feedback: of the loss of a round an agent sees the values at two points that it plays, and estimates by them.

A. Agarwal, O. Dekel, L. Xiao, "Optimal Algorithms for Online Convex Optimization with Multi-Point Bandit Feedback"
(COLT 2010); O. Shamir, "An Optimal Algorithm for Bandit and Zero-Order Convex Optimization with Two-Point Feedback"
(JMLR 2017); J. C. Duchi, M. I. Jordan, M. J. Wainwright, A. Wibisono, "Optimal Rates for Zero-Order Convex
Optimization: The Power of Two Function Evaluations" (IEEE Trans. Inf. Theory 2015). With u uniform on the unit sphere
of R^d, drawn from the seed and so known to all, r(t) = r t^-decay, and 𝒳_t the points of 𝒳 with r(t) to spare,
which is (1 − r(t)/R)𝒳 of a ball or box of (half) width R:

    c = P_{𝒳_t}(x)                                                  where its algorithm asks for the gradient
    plays c + r u and c − r u, both in 𝒳, and sees f(c ± r u)
    g = d · (f(c + r u) − f(c − r u))/(2r) · u

An agent that owns k coordinates has a u of these alone, and k in the place of d. E g is the gradient at c of the mean
of f over the ball of radius r around c (Agarwal et al.). The regret is that of the points played, the mean of both
losses in each round, against the best in all of 𝒳. The regularizer is known: its gradient is taken, not estimated.

What a sample tells: its share q_k of the slope along u is cut to [−clip, clip], which for a loss that is clip-Lipschitz
changes nothing, and so ‖g‖₂ ≤ d · clip for one sample. Replacing it moves g along the public u alone, by at most
2 d · clip in L2 and ‖u‖₁ times as much in L1; what is accounted for is √d ≥ ‖u‖₁, for a projection onto 𝒳, after the
step, may turn the change out of u's direction. Two points move the slope along u by at most the loss's smoothness β per
unit of their distance, and P is nonexpansive: a g at a hidden point moves by at most d β, and d times the range. Values
are doubles, and the difference of two large ones is moved by rounding however near the points are: by up to the cut,
for a loss of 1e16. No Lipschitz constant holds. So at a hidden point a sample that was used before counts with what
rounding can do (`Run.grad_rounding`) in every later round, and with the whole range where that is not known to be less.
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
    """The points that agents play, beside the one between them: public, a function of the seed and the round.

    Args:
        experiment: says how far they are apart.
        blocks: by agent, the coordinates that it plays in.
        dimension: d.
    """

    def __init__(self, experiment: Experiment, blocks: Sequence[slice], dimension: int) -> None:
        self._told, self._blocks, self._dimension = experiment.feedback, blocks, dimension
        self._draws = [Draws(experiment.seed, Purpose.DIRECTION, i) for i in range(len(blocks))]

    def radius(self, t: int) -> float:
        """r(t)."""
        return float(self._told.radius * t**-self._told.decay)

    def unit(self, agent: int, t: int) -> Vector:
        """Of an agent, u: (size of its block,)."""
        block = self._blocks[agent]
        drawn = self._draws[agent].at(t).standard_normal(block.stop - block.start)
        return np.asarray(drawn / norm(drawn))

    def offsets(self, first: int, rounds: int) -> Vector:
        """Of some rounds, r u on all coordinates: (rounds, agents, d)."""
        found = np.zeros((rounds, len(self._blocks), self._dimension))
        for k in range(rounds):
            for i, block in enumerate(self._blocks):
                found[k, i, block] = self.radius(first + k) * self.unit(i, first + k)
        return found


@dataclass(slots=True)
class TwoPoint(Around):
    """A loss of which two values are seen.

    Attributes:
        unit: u: (size of the block,).
        radius: r.
        inner: 𝒳_t.
        clip, whole: as in `SampleLoss`, of slopes along u.
        regularizer: λ.
        most: bound on the slope of the round: half of what is accounted for over d, where a stream of the user's may
            show other losses than are stated; else inf.
    """

    unit: Vector
    radius: float
    inner: Set
    clip: float
    whole: bool
    regularizer: float
    most: float
    _center: Vector | None = field(default=None, init=False)

    @property
    def played(self) -> Vector | None:
        """See `Loss`."""
        return self._center

    def value(self, x: Vector) -> float:
        """Not seen."""
        raise NotImplementedError("feedback.points = 2 shows a loss at the two points that are played alone")

    def prox(self, v: Vector, step: float, near: Vector, tolerance: float) -> Solved:
        """Not to be had of two values."""
        raise NotImplementedError("feedback.points = 2 shows a loss at two points: nothing is minimized by them")

    def grad(self, x: Vector, block: slice = ALL) -> Vector:
        """G, and the regularizer's gradient."""
        return self.data_grad(x, block) + self.regularizer * x[block]

    def data_grad(self, x: Vector, block: slice = ALL) -> Vector:
        """G.

        Raises:
            ValueError: other points are asked for than were played in this round.
        """
        center = np.array(self.inner.project(x))
        if self._center is not None and not np.array_equal(self._center, center):
            raise ValueError("feedback.points = 2: a gradient was asked for at two places in one round")
        self._center = center
        ahead, behind = center.copy(), center.copy()
        ahead[block] += self.radius * self.unit
        behind[block] -= self.radius * self.unit
        return np.asarray(len(self.unit) * self._slope(ahead, behind) * self.unit)

    @np.errstate(all="ignore")
    def _slope(self, ahead: Vector, behind: Vector) -> float:
        """The loss's along u, between two points: cut."""
        loss: Any = self.loss
        both = np.stack([ahead, behind])[None]
        values = type(loss).values(loss.features, loss.targets[None], both)[0]
        slopes = (values[0] - values[1]) / (2 * self.radius)
        slopes = slopes if self.whole else _cut(slopes, self.clip)
        whole = np.sum(slopes / loss.divisor)
        return float(_cut(whole, min(self.clip, self.most) if self.whole else self.most))


def _cut(slopes: Any, clip: float) -> Any:
    """To [−clip, clip]; one that is no number counts as 0."""
    return np.clip(np.where(np.isnan(slopes), 0.0, slopes), -clip, clip)


def two_point(
    experiment: Experiment, directions: Directions, feasible: Set, agent: int, most: float, stated: Stated | None
) -> Callable[[int, Loss], Loss]:
    """By round and an agent's loss, what it sees of it.

    Args:
        experiment: says what is cut.
        directions: of its points.
        feasible: 𝒳.
        agent: whose.
        most: half of what is accounted for over d: the bound on the slope of a round that is not as stated.
        stated: what the losses of a user's stream should be; None: they surely are.
    """
    clip, whole = experiment.clip, experiment.privacy.adjacency == "one-round"
    regularizer = experiment.problem.regularizer

    def seen(t: int, loss: Loss) -> Loss:
        if not isinstance(loss, SampleLoss):
            raise ValueError("feedback.points = 2 needs losses of samples, and this stream's show none")
        sample = loss if loss.features.dtype == np.float64 else replace(loss, features=loss.features.astype(float))
        radius = directions.radius(t)
        inner, bound = feasible.within(radius), most if stated and not stated.fits(agent, loss) else inf
        return TwoPoint(sample, directions.unit(agent, t), radius, inner, clip, whole, regularizer, bound)

    return seen
