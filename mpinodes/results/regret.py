"""What a run cost: regret, average fitness and consensus error, in one place, one formula each.

Nondecomposable objectives: everybody sees f^t, agent i decides the block B_i. With y_i(t) agent i's full estimate, x(t)
the network's decision (the blocks (y_i(t))_{B_i} side by side) and x̃(t) the mean of x(1), ..., x(t):

    network regret R(T)          = Σ_t f^t(x(t))   − min_{v ∈ 𝒳} Σ_t f^t(v)
    running-average form R̃(T)    = Σ_t f^t(x̃(t))  − min
    agent regret R_i(T)          = Σ_t f^t(y_i(t)) − min

Decomposable objectives: agent i sees f_i^t and decides x_i(t). With x̃_i(t) the average of x_i(1), ..., x_i(t), each
with weight 1 or, where the algorithm says so, with weight s for x_i(s):

    network regret R(T)          = Σ_t Σ_i f_i^t(x_i(t))  − min_{v ∈ 𝒳} Σ_t Σ_i f_i^t(v)
    running-average form R̃(T)    = Σ_t Σ_i f_i^t(x̃_i(t)) − min
    agent regret R_j(T)          = Σ_t Σ_i f_i^t(x_j(t))  − min
    optimality gap of agent j    = F(x) − min F,  F = Σ_t Σ_i f_i^t / (n T) over the whole run, at x = x̃_j(t) or x_j(t);
                                   offline only
    decision error               = ‖mean_i x_i(t) − argmin F‖², or with x̃_i(t); offline only
    agent decision error         = ‖x_i(t) − argmin F‖², or with x̃_i(t); offline only
    training loss of round t     = the mean over agents of the mean of ℓ over an agent's own samples at x_i(t); only of
                                   losses that stay the same

And for both, with y_i(t) = x_i(t) in the second:

    average fitness F(T)/T       = the first sum of network regret, / T
    consensus error of round t   = sqrt( (1/n) Σ_i ‖y_i(t) − mean_j y_j(t)‖² )

A nondecomposable decision need not lie in 𝒳 where 𝒳 is not a product over the blocks (a ball of the full vector), nor
need a point made of noisy messages, so a regret may be negative.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mpinodes.core import Setup, Vector
from mpinodes.results.meter import Meter

NUMBERS_AT_ONCE = 4_000_000  # of intermediate results, 32 MB


class Nondecomposable(Meter):
    """Of objectives that all agents share, each with a block of the decision."""

    def __init__(self, setup: Setup, horizons: NDArray[np.int64]) -> None:
        super().__init__(setup, horizons, deciders=1)
        self._blocks = setup.blocks

    def _decisions(self, estimates: Vector) -> Vector:
        setup = [estimates[:, i, block] for i, block in enumerate(self._blocks)]
        return np.concatenate(setup, axis=1)[:, None]

    def _values(self, first: int, decisions: Vector, averages: Vector, estimates: Vector) -> Vector:
        points = np.concatenate([decisions, averages, estimates], axis=1)
        found = self._sample_losses(range(first, first + len(points)), points)
        return np.asarray(found.sum(axis=(2, 3)) + self._penalty(points))


class Decomposable(Meter):
    """Of objectives that are sums of the agents' own."""

    def __init__(self, setup: Setup, horizons: NDArray[np.int64]) -> None:
        n = setup.topology.agents
        super().__init__(setup, horizons, deciders=n)
        self._at_once = max(1, NUMBERS_AT_ONCE // (2 * n * n * max(setup.samples)))

    def _decisions(self, estimates: Vector) -> Vector:
        return estimates

    def _values(self, first: int, decisions: Vector, averages: Vector, estimates: Vector) -> Vector:
        n, setup = len(self._losses), []
        for start in range(0, len(decisions), self._at_once):
            here = slice(start, start + self._at_once)
            points = np.concatenate([decisions[here], averages[here]], axis=1)
            rounds = range(first + start, first + start + len(points))
            of = self._sample_losses(rounds, points).sum(axis=3) + self._penalty(points)[:, :, None]
            own, averaged = (np.einsum("tii->t", of[:, k : k + n]) for k in (0, n))
            setup.append(np.column_stack([own, averaged, of[:, :n].sum(axis=2)]))
        return np.concatenate(setup)


class Constant(Decomposable):
    """Of agents' own losses that are the same in every round, over as many samples as each has."""

    def __init__(self, setup: Setup, horizons: NDArray[np.int64]) -> None:
        super().__init__(setup, horizons)
        self._own = [loss(1) for loss in self._losses]

    def _values(self, first: int, decisions: Vector, averages: Vector, estimates: Vector) -> Vector:
        own, averaged = (
            np.array([self._own_losses(i, points[:, i]) for i in range(len(self._own))]).sum(axis=0)
            for points in (decisions, averages)
        )
        return np.column_stack([own, averaged, self._everybodys(decisions)])

    def _own_losses(self, agent: int, points: Vector) -> Vector:
        """F_i at an agent's points: (k, d) -> (k,)."""
        data = self._own_samples(agent, points).sum(axis=1) / self._own[agent].divisor
        return np.asarray(data + self._penalty(points))

    def _own_samples(self, agent: int, points: Vector) -> Vector:
        """ℓ of an agent's own samples: (k, d) -> (k, samples)."""
        return np.asarray(type(self._own[agent]).values([self._own[agent]], points[None])[0])

    def _everybodys(self, decisions: Vector) -> Vector:
        """Σ_i f_i at every agent's: (k, n, d) -> (k, n)."""
        once, n = self.everything.upto(1), len(self._own)
        points = decisions.reshape(-1, decisions.shape[2])
        at_once = max(1, NUMBERS_AT_ONCE // len(once.targets))
        data = [
            type(once).values([once], points[None, start : start + at_once])[0] @ (1 / once.divisor)
            for start in range(0, len(points), at_once)
        ]
        return (np.concatenate(data) + n * self._penalty(points)).reshape(-1, n)

    def _training_loss(self, decisions: Vector) -> Vector:
        means = [self._own_samples(i, decisions[:, i]).mean(axis=1) for i in range(len(self._own))]
        return np.asarray(np.mean(means, axis=0))


def make_meter(setup: Setup, horizons: NDArray[np.int64]) -> Meter:
    """The meter for the algorithm's kind of objective."""
    if not setup.algorithm.decomposable:
        return Nondecomposable(setup, horizons)
    return (Constant if setup.experiment.data.get("batch") == "all" else Decomposable)(setup, horizons)
