"""Bandit feedback: an agent plays two points in each round, learns the loss at both, and estimates the gradient.

A. Agarwal, O. Dekel, L. Xiao, "Optimal Algorithms for Online Convex Optimization with Multi-Point Bandit Feedback"
(COLT 2010); O. Shamir, "An Optimal Algorithm for Bandit and Zero-Order Convex Optimization with Two-Point Feedback"
(JMLR 2017); J. C. Duchi, M. I. Jordan, M. J. Wainwright, A. Wibisono, "Optimal Rates for Zero-Order Convex
Optimization: The Power of Two Function Evaluations" (IEEE Trans. Inf. Theory 2015).

Estimate. An agent that asks for the gradient of the round's loss f at x

    computes the center c = P_{𝒳_t}(x),
    plays c + r u and c − r u, which are both in 𝒳, and learns f(c + r u) and f(c − r u),
    uses g = d · (f(c + r u) − f(c − r u))/(2r) · u as the gradient.

- u is a public random vector, drawn from the seed, that is uniform on the unit sphere of R^d.
- r = r(t) = r(1) t^-decay is the radius of round t.
- 𝒳_t are the points of the feasible set 𝒳 at distance at least r(t) from its boundary: (1 − r(t)/R)𝒳 for a ball of
  radius R or a box of half width R. P is the projection.
- If an agent owns only k coordinates, u is a unit vector of these coordinates, and k replaces d.

Without clipping, the mean of g over u is the gradient, at c, of the mean of f over the ball of radius r around c
(Agarwal et al.). The regret is that of the points played: the loss of a round is the mean of the two losses. The
regularizer is public, so its gradient is exact.

Sensitivity. By default, the slope of each sample's loss along u is clipped to [−clip, clip], which changes nothing for
a clip-Lipschitz loss. If a sample is replaced, g moves along the public u in these ways:

- ‖g‖₂ ≤ d · clip for one sample, so g moves by at most 2 d · clip in L2 norm.
- With `privacy.adjacency` = zero-out, g moves by at most d · clip, unless the slope of the whole round is clipped.
- With `privacy.adjacency` = one-round or `privacy.clipping` = agent, the slope of the whole round is clipped instead of
  the slope of each sample.
- In L1 norm g moves ‖u‖₁ times as far. The accountant uses √d ≥ ‖u‖₁ instead of ‖u‖₁, because a projection onto 𝒳 after
  the step may change the direction.

Hidden points. Suppose that x is hidden, and that x moves because a sample of an earlier round is replaced. In exact
arithmetic g would move by at most d β times as far as x, where β is the smoothness of the loss. But losses are computed
in double precision, and rounding can change the difference of two losses however near the two points are. So g has no
Lipschitz constant in x. The accountant therefore adds, in every round after a sample was used, the largest error that
rounding can cause (`Run.grad_rounding`), or the whole range of g if that error is unknown.
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
    """Compute the vectors r(t) u: in round t, an agent plays the two points c + r(t) u and c − r(t) u.

    Here c is the center of the two points, r(t) is a radius, and u is a random unit vector of the agent and the round.
    The vectors u are public, because they are drawn from the seed.

    Args:
        experiment: the experiment, which states r(1), its decay and the seed.
        blocks: for each agent, the coordinates that the agent decides; u is 0 in all other coordinates.
        dimension: d, the number of all coordinates.
    """

    def __init__(self, experiment: Experiment, blocks: Sequence[slice], dimension: int) -> None:
        self._told, self._blocks, self._dimension = experiment.feedback, blocks, dimension
        self._draws = [Draws(experiment.seed, Purpose.DIRECTION, i) for i in range(len(blocks))]

    def radius(self, t: int) -> float:
        """Compute r(t), half of the distance between the two points that an agent plays in round t."""
        return float(self._told.radius * t**-self._told.decay)

    def unit(self, agent: int, t: int) -> Vector:
        """Draw an agent's random unit vector of round t, with an entry for each coordinate that the agent decides."""
        block = self._blocks[agent]
        drawn = self._draws[agent].at(t).standard_normal(block.stop - block.start)
        return np.asarray(drawn / norm(drawn))

    def offsets(self, first: int, rounds: int) -> Vector:
        """Compute the displacements r(t) u of all agents in several rounds, as an array (rounds, agents, d).

        Here r(t) is the radius of round t, and u is the random unit vector of an agent. A displacement is 0 in the
        coordinates that the agent does not decide.

        Args:
            first: the first round.
            rounds: the number of rounds.
        """
        displacements = np.zeros((rounds, len(self._blocks), self._dimension))
        for k in range(rounds):
            for i, block in enumerate(self._blocks):
                displacements[k, i, block] = self.radius(first + k) * self.unit(i, first + k)
        return displacements


@dataclass(slots=True)
class TwoPoint(Around):
    """Wrap the loss of a round, so that an agent learns the loss at only two points and estimates the gradient.

    The two points are c + r u and c − r u. The formula of the estimate is in the docstring of this module.

    Attributes:
        unit: the random unit vector u, with an entry for each coordinate that the agent decides.
        radius: r, the distance of the two points from their center c.
        inner: the set of the feasible points that have at least the distance r from the boundary.
        clip: the largest absolute slope along u: of each sample's loss or, if `whole`, of the loss of the round.
        whole: whether the slope of the whole round is clipped, and not the slope of each sample.
        regularizer: λ, the weight of the regularizer (λ/2)‖x‖².
        most: a second bound on the absolute slope of the whole round; inf, unless the loss of a user-written stream is
            not as the accountant assumes (`Stated.fits`).
        played: the center c of the two points played in this round; None before the first gradient of the round.
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
        """Raise NotImplementedError, because the agent learns the loss only at the two points that it plays."""
        raise NotImplementedError("feedback.points = 2: value() fails, because a loss is known at two points only")

    def prox(self, v: Vector, step: float, near: Vector, tolerance: float) -> Solved:
        """Raise NotImplementedError, because two values do not suffice to minimize the loss."""
        raise NotImplementedError("feedback.points = 2: prox() fails, because a loss is known at two points only")

    def grad(self, x: Vector, block: slice = ALL) -> Vector:
        """Compute the estimated gradient of the samples at x plus the gradient λx of the regularizer.

        Only the coordinates `block` are computed.
        """
        return self.data_grad(x, block) + self.regularizer * x[block]

    def data_grad(self, x: Vector, block: slice = ALL) -> Vector:
        """Compute the estimate g of the samples' gradient at x, in the coordinates `block`, and set `played`.

        Raises:
            ValueError: the agent requests gradients at two points with different centers in one round.
        """
        center = np.array(self.inner.project(x))
        if self.played is not None and not np.array_equal(self.played, center):
            raise ValueError("feedback.points = 2: gradients were taken at two points x in one round, not at one")
        self.played = center
        ahead, behind = center.copy(), center.copy()
        ahead[block] += self.radius * self.unit
        behind[block] -= self.radius * self.unit
        return np.asarray(len(self.unit) * self._slope(ahead, behind) * self.unit)

    @np.errstate(all="ignore")
    def _slope(self, ahead: Vector, behind: Vector) -> float:
        """Compute the clipped slope of the round's loss, without the regularizer, between two points.

        If `whole` is set, the slope of the round is clipped to `clip`; otherwise the slope of each sample. In both
        cases, the slope of the round is also clipped to `most`.
        """
        loss: Any = self.loss
        both = np.stack([ahead, behind])[None]
        values = type(loss).values(loss.features, loss.targets[None], both)[0]
        slopes = (values[0] - values[1]) / (2 * self.radius)
        slopes = slopes if self.whole else _cut(slopes, self.clip)
        whole = np.sum(slopes / loss.divisor)
        return float(_cut(whole, min(self.clip, self.most) if self.whole else self.most))


def _cut(slopes: Any, clip: float) -> Any:
    """Limit slopes to the interval from −clip to clip; a slope that is nan becomes 0."""
    return np.clip(np.where(np.isnan(slopes), 0.0, slopes), -clip, clip)


def two_point(
    experiment: Experiment, directions: Directions, feasible: Set, agent: int, most: float, stated: Stated | None
) -> Callable[[int, Loss], Loss]:
    """Return a function that wraps the loss of a round, so that an agent learns the loss at only two points.

    The function maps a round and its loss to a `TwoPoint` loss, which estimates the gradient from two values. It raises
    ValueError if the loss is not a `SampleLoss`.

    Args:
        experiment: the experiment, which states the clip, the adjacency and λ.
        directions: the displacements between the played points and their center, for all agents.
        feasible: the feasible set 𝒳.
        agent: the agent.
        most: a bound on the slope of a round whose loss is not as the accountant assumes: half of the assumed
            sensitivity, divided by the number of coordinates that the agent decides.
        stated: what the accountant assumes about the losses of a user-written stream; None for the streams of this
            package.
    """
    clip, whole = experiment.clip, experiment.clips_rounds
    regularizer = experiment.problem.regularizer

    def seen(t: int, loss: Loss) -> Loss:
        if not isinstance(loss, SampleLoss):
            raise ValueError("feedback.points = 2 needs a stream whose losses extend SampleLoss")
        sample = loss if loss.features.dtype == np.float64 else replace(loss, features=loss.features.astype(float))
        radius = directions.radius(t)
        inner, bound = feasible.within(radius), most if stated and not stated.fits(agent, loss) else inf
        return TwoPoint(sample, directions.unit(agent, t), radius, inner, clip, whole, regularizer, bound)

    return seen
