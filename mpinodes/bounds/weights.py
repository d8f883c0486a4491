"""The mixing matrices W(t) of a run, and how fast their products approach averaging."""

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

NUMBERS = 1_000_000  # entries of the matrices kept, at most
WORK = 2_000_000_000  # multiplications
LAGS = 20_000
SETTLED = 1e-15
FORGOTTEN = 1e-10
ROUNDING = 1e-9


def matrices(setup: Setup, rounds: int) -> Iterator[Vector]:
    """Yield W(1), ..., W(rounds), each (n, n), from the agents' own mixing; row i has the weights of the receiver i."""
    graph = setup.topology
    yield from (r.weights for r in islice(mixed(setup.mixing, graph, range(graph.agents)), rounds))


@dataclass(frozen=True)
class Weights:
    """The mixing matrices of a run.

    If the graph is periodic, its matrices are computed until they repeat, beyond the last round if necessary. If the
    graph is drawn anew in every round, the matrices of the first rounds, up to `NUMBERS` entries, stand for all later
    rounds too.

    Attributes:
        first: (r, n, n) the matrices of rounds 1 to r.
        loop: the index in `first` at which the sequence continues after its last matrix.
    """

    first: Vector
    loop: int

    @classmethod
    def of(cls, setup: Setup) -> Weights:
        """Compute the matrices of a run."""
        period, most = setup.topology.period, max(1, NUMBERS // setup.topology.agents**2)
        first: list[Vector] = []
        with suppress(Diverged):  # matrices after the last round may be undefined
            for weights in matrices(setup, most if period else min(setup.experiment.rounds, most)):
                if period and len(first) >= period and np.abs(weights - first[-period]).max() <= SETTLED:
                    break
                first.append(weights)
        return cls(np.stack(first), max(0, len(first) - period) if period else 0)

    def places(self, rounds: int) -> NDArray[np.int64]:
        """Return the indices in `first` of the matrices of rounds 1 to `rounds`: (rounds,)."""
        t, r = np.arange(rounds), len(self.first)
        return np.where(t < r, t, self.loop + (t - r) % (r - self.loop))

    @property
    def least(self) -> float:
        """Return the least positive weight."""
        return float(self.first[self.first > ROUNDING].min())

    def sums_to_one(self, axis: int) -> bool:
        """Return whether all columns (axis 0) or all rows (axis 1) sum to 1."""
        return bool(np.abs(self.first.sum(axis=axis + 1) - 1).max() <= ROUNDING)

    def contraction(self) -> Vector:
        """Compute ‖W − J‖₂ of each matrix: (r,)."""
        return np.asarray(np.linalg.norm(self.first - 1 / self.first.shape[1], 2, axis=(1, 2)))

    def _deviations(self) -> Iterator[Vector]:
        """Yield, for k = 1, 2, ..., the products of k successive matrices minus J, one for each start: (r, n, n)."""
        r, n = self.first.shape[:2]
        following = np.append(np.arange(1, r), self.loop)
        products, at = self.first, np.arange(r)
        for _ in range(max(1, min(LAGS, WORK // (r * n**3)))):
            yield products - 1 / n
            at = following[at]
            products = self.first[at] @ products

    def sums(self) -> tuple[float, float]:
        """Bound sums over all lags k of how far a product of k doubly stochastic matrices is from J = 11ᵀ/n.

        The first is Σ_{k ≥ 0} sup_s ‖W(s+k−1)⋯W(s) − J‖₂, with the identity at k = 0, and the second
        Σ_{k ≥ 1} sup_s max_ij |[W(s+k−1)⋯W(s)]_ij − 1/n|; inf if the matrices mix too slowly to tell.

        For such matrices (X − J)(Y − J) = XY − J. So once all products of h matrices have distance at most ρ < 1 from
        J, the lags from h on add up to at most ρ times the sum over all lags. The sum over all lags is therefore at
        most the sum over the lags below h, divided by 1 − ρ.
        """
        spectral = entries = 1.0
        for away in self._deviations():
            sizes = np.abs(away)
            columns, rows = (sizes.sum(axis=axis).max(axis=1) for axis in (1, 2))
            rest = 1 - float(max(columns.max(), rows.max()))  # both norms shrink by this factor
            if rest > 0.9:
                return spectral / rest, entries / rest - 1
            # ‖·‖₂² ≤ ‖·‖₁‖·‖_∞ avoids a singular value decomposition of each product
            frobenius = np.linalg.norm(away, axis=(1, 2))
            spectral += min(1.0, float(np.minimum(frobenius, np.sqrt(columns * rows)).max()))
            entries += float(sizes.max())
        return inf, inf

    def fitted(self) -> tuple[float, float]:
        """Fit C and λ < 1 with |[W(s+k−1)⋯W(s)]_ij − 1/n| ≤ Cλ^k for all computed lags k and starts s.

        C/(1 − λ) is minimized. Lags are computed until all products are within `FORGOTTEN` of J. If they never are,
        (inf, 1) is returned.
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
        """Compute the least entry of w over agents and rounds, where w(1) = 1 and w <- W w.

        If the run is long, the first rounds alone are followed.
        """
        w, least = np.ones(self.first.shape[1]), 1.0
        for place in self.places(min(rounds, max(2000, 2 * len(self.first)))):
            w = self.first[place] @ w
            least = min(least, float(w.min()))
        return least
