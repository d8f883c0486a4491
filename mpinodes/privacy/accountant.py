"""The privacy loss of a run, for each agent and for the network: what the paper claims and what is proven.

The view is an eavesdropper's: every message on every link. A release x + Lap(b)^d of L1 sensitivity D1 and
L2 sensitivity D2, given everything released before, is D1/b-DP and D2²/(2b²)-zCDP, whatever d. Every
release from the first one that data has reached is charged: the state behind it is hidden, so that a
changed sample may move all later releases (basic composition; valid for every algorithm, tight for none
that is smooth). Everybody sees a shared loss, so a changed sample moves every agent's releases, and the
network's loss is the sum over agents. Proven ε at δ: the least of the pure sum and ρ + 2√(ρ ln(1/δ))
(Bun, Steinke 2016). Nothing is proven where a release carries no noise or its sensitivity has no bound.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mpinodes.protocol import Vector


class Losses(NamedTuple):
    """Privacy losses at the horizons; nan where nothing is proven, or claimed.

    Attributes:
        claimed: (h,) the paper's ε, for an agent as for the network.
        pure, pure_network: (h, n) and (h,) proven pure ε.
        proven, proven_network: (h, n) and (h,) proven ε at δ.
    """

    claimed: Vector
    pure: Vector
    pure_network: Vector
    proven: Vector
    proven_network: Vector


def zcdp_epsilon(rho: Vector, delta: float) -> Vector:
    """ε at δ of ρ-zCDP: ρ + 2√(ρ ln(1/δ))."""
    return np.asarray(rho + 2 * np.sqrt(rho * np.log(1 / delta)))


def rule(pure: float, proven: float) -> str:
    """Which rule gave the proven ε at δ."""
    if np.isnan(proven):
        return "unproven"
    return "pure" if proven == pure else "zCDP"


class Ledger:
    """Adds up events, chunk by chunk, for each agent."""

    def __init__(self, agents: int, horizons: NDArray[np.int64]) -> None:
        self._horizons, self._seen = horizons, 0
        self._sum = np.zeros((2, agents))
        self._used = np.zeros(agents)
        self._kept = np.zeros((2, len(horizons), agents))

    def take(self, events: Vector) -> None:
        """Add the events of the next rounds: (rounds, agents, fields of an Event)."""
        scale, l1, l2, uses = np.moveaxis(events, 2, 0)
        used = self._used + np.cumsum(uses, axis=0)
        with np.errstate(divide="ignore"):
            costs = np.where(used > 0, np.stack([l1 / scale, (l2 / scale) ** 2 / 2]), 0.0)
        sums = self._sum[:, None] + np.cumsum(costs, axis=1)
        rounds = np.arange(self._seen + 1, self._seen + 1 + len(events))
        here = np.isin(self._horizons, rounds)
        self._kept[:, here] = sums[:, self._horizons[here] - rounds[0]]
        self._seen, self._sum, self._used = int(rounds[-1]), sums[:, -1], used[-1]

    def losses(self, delta: float, claim: Callable[[int], float] | None) -> Losses:
        """All losses at the horizons, given the paper's claim by round; None: it claims nothing."""
        pure, rho = self._kept
        claimed = [np.nan if claim is None else claim(int(t)) for t in self._horizons]

        def at(pure: Vector, rho: Vector) -> tuple[Vector, Vector]:
            least = np.minimum(pure, zcdp_epsilon(rho, delta))
            return np.where(np.isinf(pure), np.nan, pure), np.where(np.isinf(least), np.nan, least)

        agents, network = at(pure, rho), at(pure.sum(axis=1), rho.sum(axis=1))
        return Losses(np.array(claimed), agents[0], network[0], agents[1], network[1])
