"""Costs of the releases of several agents, given how far each release is moved, for many clusters of samples at once.

`Prices` turns moves into pure ε and ρ. `Shifts` adds Rényi curves, and `Counts` counts shifts by size for `tight`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mpinodes.core.events import Events, Kind
from mpinodes.core.messages import Vector
from mpinodes.privacy.curves import ORDERS, laplace_rdp, pure_rdp
from mpinodes.privacy.gamma_norm import gamma_norm_rdp
from mpinodes.privacy.leakage import Indices
from mpinodes.privacy.ledger import PURE, RHO, Costs


class Shifts:
    """Rényi curves of shifts of one noise law, with shifts rounded up to cells 0.2 to 0.4 % wide.

    A shift is the L1 change of a release over the scale of its noise.

    Args:
        kind: the law, LAPLACE, GAMMA_NORM or PURE; a release of another law costs ρ times the order.
        dimension: of a vector, for gamma-norm noise.

    Attributes:
        sizes: the upper ends of the cells.
    """

    BITS = 44  # number of last bits by which shifts of one cell differ
    LEAST, LARGEST = 2.0**-14, 2.0**30  # the range of the cells; the curve of a larger shift is inf
    SMALL = 1 / 128  # of the shift of a use: below, ρ times the order is within a hundredth, at orders that matter

    def __init__(self, kind: Kind = Kind.LAPLACE, dimension: int = 0) -> None:
        self.kind, self._dimension = kind, dimension
        self._first, last = (int(np.float64(size).view(np.int64)) >> self.BITS for size in (self.LEAST, self.LARGEST))
        self.sizes = (np.arange(self._first, last + 1) << self.BITS).view(np.float64)
        self._ratios: list[float] = []
        self._row = np.zeros(0, np.int64)  # by ratio and cell, its row in the table; -1: not computed yet
        self._table = self.cost_of_rho()[None]  # (rows, columns) of costs

    def cost_of_rho(self) -> Vector:
        """Return the cost of ρ = 1, of a release whose shift is in no cell: (columns,)."""
        return ORDERS

    def costs_of_cells(self, cell: Indices, ratio: Vector) -> Vector:
        """Return the cost of shifts as large as cells, given the largest ρ per shift squared: (m,) -> (m, columns)."""
        size = self.sizes[cell]
        if self.kind == Kind.LAPLACE:
            curve = laplace_rdp(size)
        else:
            curve = pure_rdp(size) if self.kind == Kind.PURE else gamma_norm_rdp(self._dimension, size)
        return np.asarray(np.minimum(curve, (ratio * size**2)[:, None] * ORDERS))

    def least(self, use: Vector) -> Vector:
        """Return the shift above which a release is in a cell, given the least shift of a use."""
        return np.asarray(np.maximum(self.LEAST, self.SMALL * use))

    def ratio(self, least: float) -> int:
        """Return the number of a ratio of ρ to the square of a shift, rounded up a little."""
        up = float(np.int64(((int(np.float64(least).view(np.int64)) >> 42) + 1) << 42).view(np.float64))
        if up not in self._ratios:
            self._ratios.append(up)
            self._row = np.append(self._row, np.full(len(self.sizes), -1))
        return self._ratios.index(up)

    def sums(self, shift: Vector, rho: Vector, ratio: Indices, least: Vector) -> Vector:
        """Return the cost of all releases together, by cluster: (clusters, columns).

        Args:
            shift: (releases, clusters).
            rho: (releases, clusters).
            ratio: (clusters,) numbers of ratios.
            least: (clusters,) shift above which a release is in a cell.
        """
        from scipy import sparse

        inside = shift > least
        cluster, release = np.nonzero(np.ascontiguousarray(inside.T))
        shift, number = shift[release, cluster], np.bincount(cluster, minlength=len(ratio))
        cell = (shift.view(np.int64) + ((1 << self.BITS) - 1)) >> self.BITS
        key = ratio[cluster] * len(self.sizes) + (cell - self._first).clip(0, len(self.sizes) - 1)
        if (self._row[key] < 0).any():
            new = np.unique(key[self._row[key] < 0])
            self._row[new] = np.arange(len(self._table), len(self._table) + len(new))
            of, cell = np.divmod(new, len(self.sizes))
            self._table = np.concatenate([self._table, self.costs_of_cells(cell, np.array(self._ratios)[of])])
        # A sparse matrix times the table: of every cluster, first the ρ that is in no cell (row 0), then the cells.
        begins, places = np.cumsum(number + 1) - number - 1, np.arange(len(cluster)) + cluster + 1
        times, row = np.ones(len(cluster) + len(ratio)), np.zeros(len(cluster) + len(ratio), np.int64)
        times[begins], row[places] = np.where(inside, 0.0, rho).sum(axis=0), self._row[key]
        matrix = sparse.csr_array((times, row, np.append(begins, len(row))), shape=(len(ratio), len(self._table)))
        sums = np.asarray(matrix @ self._table)
        sums[cluster[shift > self.LARGEST]] = np.inf
        return sums


class Counts(Shifts):
    """Numbers of shifts by size, in cells 1.5 to 3 % wide; a smaller shift counts as one in the lowest cell."""

    BITS = 47

    def cost_of_rho(self) -> Vector:
        """Return zeros: every shift is in a cell."""
        return np.zeros(len(self.sizes))

    def costs_of_cells(self, cell: Indices, ratio: Vector) -> Vector:
        """Return a 1 in the column of each cell: (m,) -> (m, cells)."""
        return np.eye(len(self.sizes))[cell]

    def least(self, use: Vector) -> Vector:
        """Return 0: every shift is in a cell."""
        return np.zeros(len(use))


class Used(NamedTuple):
    """The uses of a stretch of rounds, by cluster of samples.

    Attributes:
        message: (uses,) counted from 0.
        cluster: (uses,) whose samples the message first carries.
        before: (clusters,) whether any message before the stretch carried samples of the cluster.
    """

    message: Indices
    cluster: Indices
    before: NDArray[np.bool_]

    def begun(self, rounds: int) -> NDArray[np.bool_]:
        """Return whether a message, or any one before it, carries samples of a cluster: (rounds, clusters)."""
        carries = np.zeros((rounds, len(self.before)), bool)
        carries[self.message, self.cluster] = True
        return np.logical_or.accumulate(carries) | self.before

    def begun_before(self, rounds: int) -> NDArray[np.bool_]:
        """Return whether any message before a message carries samples of a cluster: (rounds, clusters)."""
        return np.concatenate([self.before[None], self.begun(rounds)[:-1]])


def columns(shifts: Shifts | None) -> int:
    """Return the number of columns of a cost: pure ε, ρ, and those of `shifts`."""
    return 2 + (len(shifts.cost_of_rho()) if shifts else 0)


class Prices:
    """Costs of releases of several agents, given how far each release is moved.

    The column of pure ε sums the shifts of all laws; where a Gaussian release is moved, pure ε is inf (`Recursive.at`).

    Args:
        events: (rounds, agents).
        shifts: what Rényi curves are made of; None: no curves are made.
    """

    def __init__(self, events: Events, shifts: Shifts | None) -> None:
        costs, shape = Costs(events), (*events.data.shape, events.vectors)
        slope, rho = (column.reshape(shape) for column in costs.slopes())
        self._clean = ~np.isfinite(slope) | ~np.isfinite(rho)
        self.slope, self._rho = np.where(self._clean, 0.0, slope), np.where(self._clean, 0.0, rho)
        self._is_rounded = bool(costs.roundings[0].any())
        if self._is_rounded:
            rounding, self._rounding = (column.reshape(shape) for column in costs.roundings)
            self._grain = np.divide(rounding * events.draws, events.scale, where=~self._clean, out=np.zeros(shape))
        # The least ratio of L1 to L2 change turns a shift back into the largest ρ; that of rounding is no less.
        self._shifts = shifts
        if shifts:
            kind = costs.kind.reshape(shape)
            self._in_cells = (kind == shifts.kind) & ((kind == Kind.LAPLACE) | (events.draws == 1))
            squares = np.divide(self._rho, self.slope**2, where=self._in_cells & (self.slope > 0), out=np.zeros(shape))
            self._ratio = np.array([shifts.ratio(most) for most in squares.max(axis=(0, 2)).tolist()])

    def costs(self, rounds: slice, agent: Indices, moved: Vector, used: Used, least: Vector) -> Vector:
        """Return the cost of some rounds by cluster: (clusters, columns).

        Args:
            rounds: the rounds of the releases.
            agent: (clusters,) whose releases they are.
            moved: (vectors, rounds, clusters) how far each release is moved, in L2.
            used: the uses in these rounds; from its first use on, a cluster pays for rounding.
            least: (agents,) the least pure ε of a use.
        """
        shifts = self._shifts
        total = np.zeros((len(agent), columns(shifts)))
        for vector, delta in enumerate(moved):
            slope, rho, clean = (x[rounds, :, vector] for x in (self.slope, self._rho, self._clean))
            shift = slope.take(agent, axis=1) * delta
            if self._is_rounded:
                begun = used.begun(len(delta))
                shift += self._grain[rounds, :, vector].take(agent, axis=1) * begun
                delta = delta + self._rounding[rounds, :, vector].take(agent, axis=1) * begun
            squared = rho.take(agent, axis=1) * delta
            squared *= delta
            total[:, PURE] += shift.sum(axis=0)
            total[:, RHO] += squared.sum(axis=0)
            if shifts and len(agent):
                in_cells = np.where(self._in_cells[rounds, :, vector].take(agent, axis=1), shift, 0.0)
                total[:, 2:] += shifts.sums(in_cells, squared, self._ratio[agent], shifts.least(least)[agent])
            if clean.any():
                total[(clean[:, agent] & (delta > 0)).any(axis=0)] = np.inf
        return total
