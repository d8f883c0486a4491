"""What a run cost: regret, average fitness and consensus error, in one place, one formula each.

Nondecomposable objectives: everybody sees f^t, agent i decides the block B_i. With y_i(t) agent i's full
estimate, x(t) the network's decision (the blocks (y_i(t))_{B_i} side by side) and x̃(t) the mean of
x(1), ..., x(t):

    network regret R(T)          = Σ_t f^t(x(t))   − min_{v ∈ 𝒳} Σ_t f^t(v)
    running-average form R̃(T)    = Σ_t f^t(x̃(t))  − min
    agent regret R_i(T)          = Σ_t f^t(y_i(t)) − min
    average fitness F(T)/T       = Σ_t f^t(x(t)) / T
    consensus error of round t   = sqrt( (1/n) Σ_i ‖y_i(t) − mean_j y_j(t)‖² )

The network's decision need not lie in 𝒳 where 𝒳 is not a product over the blocks (a ball of the full
vector), so a regret may be negative.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mpinodes.parts import Parts
from mpinodes.protocol import Vector


class Rounds(NamedTuple):
    """What a stretch of rounds gave."""

    loss: Vector  # (rounds,) f^t(x(t))
    consensus_error: Vector  # (rounds,)


class Meter:
    """Adds up losses chunk by chunk, and keeps them at the horizons.

    Attributes:
        horizons: (h,) the rounds at which a run is judged.
        total: (h, 2 + n) Σ_t f^t at x(t), at x̃(t), and at every y_i(t).
        last, mean: (h, d) x(T) and x̃(T).
    """

    def __init__(self, parts: Parts, horizons: NDArray[np.int64]) -> None:
        self._losses: Any = parts.stream.of(0)
        self._blocks = parts.blocks
        self._seen = 0
        self._sum_x = np.zeros(parts.dimension)
        self._sum_f = np.zeros(2 + parts.topology.agents)
        self.horizons = horizons
        self.total = np.zeros((len(horizons), len(self._sum_f)))
        self.last = np.zeros((len(horizons), parts.dimension))
        self.mean = np.zeros_like(self.last)

    def take(self, estimates: Vector) -> Rounds:
        """Add the next rounds, given every agent's estimates: (rounds, agents, d)."""
        rounds = range(self._seen + 1, self._seen + 1 + len(estimates))
        x = np.concatenate([estimates[:, i, block] for i, block in enumerate(self._blocks)], axis=1)
        sums = self._sum_x + np.cumsum(x, axis=0)
        mean = sums / np.array(rounds)[:, None]
        losses = [self._losses(t) for t in rounds]
        points = np.concatenate([x[:, None], mean[:, None], estimates], axis=1)
        values = type(losses[0]).values(losses, points)
        totals = self._sum_f + np.cumsum(values, axis=0)
        here = np.isin(self.horizons, rounds)
        rows = self.horizons[here] - rounds.start
        self.total[here], self.last[here], self.mean[here] = totals[rows], x[rows], mean[rows]
        self._seen, self._sum_x, self._sum_f = rounds[-1], sums[-1], totals[-1]
        spread = estimates - estimates.mean(axis=1, keepdims=True)
        return Rounds(values[:, 0], np.sqrt((spread**2).sum(axis=2).mean(axis=1)))


def accuracy(points: Vector, features: Vector, labels: Vector) -> Vector:
    """Share of samples whose label ±1 is the sign of a·x, for every point x: (h, d) -> (h,)."""
    return np.asarray(((points @ features.T > 0) == (labels > 0)).mean(axis=1))
