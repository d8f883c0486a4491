"""Compute the mixing matrices W(t) of a run, and how fast their products approach the averaging matrix J = 11ᵀ/n."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from math import inf

import numpy as np
from numpy.typing import NDArray

from mpinodes.core import Diverged, Setup, Vector
from mpinodes.core.parts import mixed

NUMBERS = 1_000_000  # the most entries of all stored matrices together
WORK = 2_000_000_000  # the most multiplications for products of matrices
LAGS = 20_000  # the largest number of successive matrices in a product; `WORK` may allow fewer
SETTLED = 1e-15  # matrices one period apart count as equal if no entry differs by more
FORGOTTEN = 1e-10  # a product counts as equal to J if no entry differs by more
ROUNDING = 1e-9  # rounding errors of weights and of their sums are below this


def matrices(setup: Setup, rounds: int) -> Iterator[Vector]:
    """Yield the mixing matrices W(1), ..., W(rounds), each (n, n); row i has the weights of receiver i."""
    graph = setup.topology
    yield from (r.weights for r in islice(mixed(setup.mixing, graph, range(graph.agents)), rounds))


@dataclass(frozen=True)
class Weights:
    """Hold the mixing matrices of a run: an array of the first matrices, which are used again for all later rounds.

    At most `NUMBERS` matrix entries are computed, but at least one matrix.

    - If the graph is periodic: matrices are computed until they repeat, and this period is used again. If the matrices
      do not repeat within `NUMBERS` entries, the last computed period is used again.
    - If the graph is drawn at random in every round: all computed matrices are used again, in the same order.

    Attributes:
        first: (r, n, n) the matrices of rounds 1 to r.
        loop: the index in `first` of the matrix of round r + 1.
    """

    first: Vector
    loop: int

    @classmethod
    def of(cls, setup: Setup) -> Weights:
        """Compute the mixing matrices of a run."""
        period, most = setup.topology.period, max(1, NUMBERS // setup.topology.agents**2)
        first: list[Vector] = []
        with suppress(Diverged):  # matrices after the last round may be undefined
            for weights in matrices(setup, most if period else min(setup.experiment.rounds, most)):
                if period and len(first) >= period and np.abs(weights - first[-period]).max() <= SETTLED:
                    break
                first.append(weights)
        return cls(np.stack(first), max(0, len(first) - period) if period else 0)

    def places(self, rounds: int) -> NDArray[np.int64]:
        """Return the index in `first` of the mixing matrix of each round from 1 to `rounds`: (rounds,)."""
        t, r = np.arange(rounds), len(self.first)
        return np.where(t < r, t, self.loop + (t - r) % (r - self.loop))

    @property
    def least(self) -> float:
        """Return the least positive weight in the computed mixing matrices; weights up to `ROUNDING` count as 0."""
        return float(self.first[self.first > ROUNDING].min())

    def sums_to_one(self, axis: int) -> bool:
        """Return whether all columns (axis 0) or all rows (axis 1) of the computed mixing matrices sum to 1.

        Sums that differ from 1 by at most `ROUNDING` count as 1.
        """
        return bool(np.abs(self.first.sum(axis=axis + 1) - 1).max() <= ROUNDING)

    def contraction(self) -> Vector:
        """Compute ‖W − J‖₂ for each mixing matrix W in `first`, where J = 11ᵀ/n: (r,)."""
        return np.asarray(np.linalg.norm(self.first - 1 / self.first.shape[1], 2, axis=(1, 2)))

    def _deviations(self) -> Iterator[Vector]:
        """Yield P − J for all products P of k successive mixing matrices, for k = 1, 2, ...: (r, n, n) for each k.

        Entry s has the product that begins with `first[s]`. J is 11ᵀ/n. The constants `LAGS` and `WORK` limit the
        largest k.
        """
        r, n = self.first.shape[:2]
        following = np.append(np.arange(1, r), self.loop)
        products, at = self.first, np.arange(r)
        for _ in range(max(1, min(LAGS, WORK // (r * n**3)))):
            yield products - 1 / n
            at = following[at]
            products = self.first[at] @ products

    def sums(self) -> tuple[float, float]:
        """Bound two sums that say how fast products of doubly stochastic mixing matrices W approach J = 11ᵀ/n.

        The sums are

            Σ_{k ≥ 0} sup_s ‖W(s+k−1)⋯W(s) − J‖₂
            Σ_{k ≥ 1} sup_s max_ij |[W(s+k−1)⋯W(s)]_ij − 1/n|

        where the product of k = 0 matrices is the identity. Both results are inf if products of many matrices are still
        too far from J.
        """
        spectral = entries = 1.0
        for away in self._deviations():
            sizes = np.abs(away)
            columns, rows = (sizes.sum(axis=axis).max(axis=1) for axis in (1, 2))
            # For doubly stochastic X and Y, (X − J)(Y − J) = XY − J. If all products of h matrices have distance at
            # most ρ < 1 from J, the terms with k ≥ h add up to at most ρ times the whole sum. So the whole sum is at
            # most the sum of the terms with k < h, divided by 1 − ρ.
            rest = 1 - float(max(columns.max(), rows.max()))  # 1 − ρ, where ρ bounds the norms ‖·‖₁ and ‖·‖_∞
            if rest > 0.9:
                return spectral / rest, entries / rest - 1
            # ‖·‖₂² ≤ ‖·‖₁‖·‖_∞ avoids a singular value decomposition of each product
            frobenius = np.linalg.norm(away, axis=(1, 2))
            spectral += min(1.0, float(np.minimum(frobenius, np.sqrt(columns * rows)).max()))
            entries += float(sizes.max())
        return inf, inf

    def fitted(self) -> tuple[float, float]:
        """Fit C and λ < 1 with |P_ij − 1/n| ≤ Cλ^k for all i, j and all computed products P of k successive matrices.

        Of 19 values of λ, the method returns the value with the least C/(1 − λ). The result is (inf, 1) if the products
        do not approach 1/n up to `FORGOTTEN`.
        """
        deviations = []
        for away in self._deviations():
            deviations.append(float(np.abs(away).max()))
            stalled = len(deviations) >= 200 and deviations[-1] > 0.99 * deviations[len(deviations) // 2]
            if deviations[-1] <= FORGOTTEN or stalled:
                break
        if deviations[-1] > FORGOTTEN:
            return inf, 1.0
        lags = np.arange(1, len(deviations) + 1)
        rate = max(FORGOTTEN, deviations[-1]) ** (1 / len(deviations))
        rates = 1 - (1 - rate) * np.linspace(0.05, 0.95, 19)
        constants = (np.array(deviations) / rates[:, None] ** lags).max(axis=1)
        best = int(np.argmin(constants / (1 - rates)))
        return float(constants[best]), float(rates[best])

    def least_scale(self, rounds: int) -> float:
        """Return the least push-sum weight w_i(t) of any agent and round, where w(1) = 1 and w(t + 1) = W(t) w(t).

        In long runs only the first max(2000, 2r) rounds count, where r is the number of matrices in `first`.
        """
        w, least = np.ones(self.first.shape[1]), 1.0
        for place in self.places(min(rounds, max(2000, 2 * len(self.first)))):
            w = self.first[place] @ w
            least = min(least, float(w.min()))
        return least
