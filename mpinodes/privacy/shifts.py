"""Compute the privacy costs of the releases of several agents from how far each release moves.

- A *release* is one noised vector.
- The *shift* of a release is its L1 change (for gamma-norm noise its L2 change) divided by its noise scale, times the
  number of times that the value is sent with fresh noise. Unless the noise is Gaussian, the shift is the pure ε.
- A *cluster* is a set of groups of samples whose changes move all later messages equally or nearly equally. Costs are
  computed for many clusters at once.

The main classes are:

- `Prices` computes pure ε, ρ of zCDP and Rényi curves from the L2 changes of releases.
- `Shifts` has the table of Rényi curves.
- `Counts` counts shifts by size instead, for the numerical composition in the module `tight`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mpinodes.core.events import Events, Kind
from mpinodes.core.messages import Vector
from mpinodes.privacy.curves import ORDERS, laplace_rdp, pure_rdp
from mpinodes.privacy.gamma_norm import gamma_norm_rdp
from mpinodes.privacy.leakage import Indices
from mpinodes.privacy.ledger import PURE, RHO, Costs

MOST_ROWS, MOST_RATIOS = 30_000, 100  # of a table that is shared: 25 MB, and 9 MB


class Shifts:
    """Tabulate the Rényi curves of one noise distribution, by the size of the shift (the pure ε of one noised vector).

    The table divides the sizes into cells: intervals whose width is 0.2 to 0.4 % of the size. A size is rounded up to
    the upper end of its cell.

    Args:
        kind: the noise distribution, LAPLACE, GAMMA_NORM or PURE.
        dimension: the dimension of a noised vector, used for gamma-norm noise only.

    Attributes:
        sizes: the upper ends of the cells.
    """

    BITS = 44  # shifts of one cell, as doubles, differ only in this number of last bits
    LEAST, LARGEST = 2.0**-14, 2.0**30  # the range of the cells; the curve of a larger shift is inf
    SMALL = 1 / 128  # below this share of the shift of a use, ρ times the order is within 1 % at the orders that matter

    def __init__(self, kind: Kind = Kind.LAPLACE, dimension: int = 0) -> None:
        self.kind, self._dimension = kind, dimension
        self._first, last = (int(np.float64(size).view(np.int64)) >> self.BITS for size in (self.LEAST, self.LARGEST))
        self.sizes = (np.arange(self._first, last + 1) << self.BITS).view(np.float64)
        self._ratios: list[float] = []
        self._row = np.zeros(0, np.int64)  # for each ratio and cell, the row of the table; -1 if not computed yet
        self._table = self.cost_of_rho()[None]  # (rows, columns) of costs

    def cost_of_rho(self) -> Vector:
        """Return the bound on a Rényi curve that ρ = 1 of zCDP implies: at each order, the order itself."""
        return ORDERS

    def costs_of_cells(self, cell: Indices, ratio: Vector) -> Vector:
        """Return a bound on the Rényi curve for each of several shifts, one row for each shift.

        A shift is the pure ε of one noised vector, here the upper end of a cell of the table. Each entry is the smaller
        of two bounds: the bound from the noise distribution, and ρ of zCDP times the order.

        Args:
            cell: for each shift, the index of its cell.
            ratio: for each shift, ρ / shift², where ρ is the largest ρ of zCDP of a noised vector with this shift.
        """
        size = self.sizes[cell]
        if self.kind == Kind.LAPLACE:
            curve = laplace_rdp(size)
        else:
            curve = pure_rdp(size) if self.kind == Kind.PURE else gamma_norm_rdp(self._dimension, size)
        return np.asarray(np.minimum(curve, (ratio * size**2)[:, None] * ORDERS))

    def least(self, use: Vector) -> Vector:
        """Return, for each agent, the size above which the Rényi curve of a shift is read from the table.

        A shift is the pure ε of one noised vector. ρ of zCDP bounds the curve of a smaller shift. The size is `SMALL`
        times the number in `use`, but at least `LEAST`.

        Args:
            use: for each agent, the smallest pure ε of a message whose own new loss function contains a changed sample.
        """
        return np.asarray(np.maximum(self.LEAST, self.SMALL * use))

    def ratio(self, least: float) -> int:
        """Return the index of a ratio ρ / shift² in the table of Rényi curves; a new ratio gets a new index.

        Here ρ is that of zCDP, and the shift is the pure ε, of the same noised vector.

        Args:
            least: the ratio, which is first rounded up slightly, so that nearly equal ratios share an index.
        """
        up = float(np.int64(((int(np.float64(least).view(np.int64)) >> 42) + 1) << 42).view(np.float64))
        if up not in self._ratios:
            self._ratios.append(up)
            self._row = np.append(self._row, np.full(len(self.sizes), -1))
        return self._ratios.index(up)

    def sums(self, shift: Vector, rho: Vector, ratio: Indices, least: Vector) -> Vector:
        """Return the sum of the Rényi curves of several releases, for each cluster: (clusters, columns).

        A release is one noised vector, a cluster is a set of samples, and the shift of a release is its pure ε if
        samples of the cluster change. If a shift that is read from the table is above `LARGEST`, the sum is inf.

        Args:
            shift: (releases, clusters) the shifts.
            rho: (releases, clusters) the ρ of zCDP of the release for the same change.
            ratio: (clusters,) the index that the method `ratio` returned for the cluster.
            least: (clusters,) the size above which the Rényi curve of a shift is read from the table. The curve of any
                other shift is ρ times `cost_of_rho()`.
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
        # Multiply a sparse matrix with the table. In the row of a cluster, the first entry is the sum of ρ of releases
        # in no cell (row 0 of the table), and every further entry is a 1 for a release in a cell.
        begins, places = np.cumsum(number + 1) - number - 1, np.arange(len(cluster)) + cluster + 1
        times, row = np.ones(len(cluster) + len(ratio)), np.zeros(len(cluster) + len(ratio), np.int64)
        times[begins], row[places] = np.where(inside, 0.0, rho).sum(axis=0), self._row[key]
        matrix = sparse.csr_array((times, row, np.append(begins, len(row))), shape=(len(ratio), len(self._table)))
        sums = np.asarray(matrix @ self._table)
        sums[cluster[shift > self.LARGEST]] = np.inf
        return sums


_shared = lru_cache(maxsize=4)(Shifts)


def shared_table(kind: Kind, dimension: int) -> Shifts:
    """Return a table that all ledgers of this process share, so that the curve of a cell is computed once.

    A table of more than `MOST_ROWS` rows, or of more than `MOST_RATIOS` ratios, is replaced by an empty one.
    """
    table = _shared(kind, dimension)
    if len(table._table) > MOST_ROWS or len(table._ratios) > MOST_RATIOS:
        _shared.cache_clear()
    return _shared(kind, dimension)


class Counts(Shifts):
    """Count the shifts of each cluster of samples by size. A shift is the pure ε of one noised vector.

    The sizes are divided into cells: intervals whose width is 1.5 to 3 % of the size. Shifts below the lowest cell are
    counted in the lowest cell, unless they are 0. If a shift of a cluster is above the highest cell, all counts of the
    cluster are inf.
    """

    BITS = 47

    def cost_of_rho(self) -> Vector:
        """Return zeros: ρ of zCDP adds nothing to the counts, because every shift is counted by its size."""
        return np.zeros(len(self.sizes))

    def costs_of_cells(self, cell: Indices, ratio: Vector) -> Vector:
        """Return a row for each cell index, with a 1 in the column of the cell and 0 in the columns of all other cells.

        A cell is an interval. The column of a cell counts the noised vectors whose pure ε is in this interval.

        Args:
            cell: the indices.
            ratio: ignored.
        """
        return np.eye(len(self.sizes))[cell]

    def least(self, use: Vector) -> Vector:
        """Return 0 for each agent: every shift (pure ε of one noised vector) above 0 is counted."""
        return np.zeros(len(use))


class Used(NamedTuple):
    """Hold pairs (message, cluster of samples) of a block of rounds. A pair is called a use of the cluster.

    A pair says: of all messages that depend on a certain loss function with samples of the cluster, this message is the
    first. So a cluster has a use for each of its loss functions.

    Attributes:
        message: (uses,) the message of each use, counted from 0 in the block.
        cluster: (uses,) the cluster of each use.
        before: (clusters,) whether any message before the block used samples of the cluster.
    """

    message: Indices
    cluster: Indices
    before: NDArray[np.bool_]

    def begun(self, rounds: int) -> NDArray[np.bool_]:
        """Return, for each round and cluster of samples, whether a message up to this round used the cluster."""
        carries = np.zeros((rounds, len(self.before)), bool)
        carries[self.message, self.cluster] = True
        return np.logical_or.accumulate(carries) | self.before


def columns(shifts: Shifts | None) -> int:
    """Return the number of columns of an array of privacy costs: pure ε, ρ of zCDP, and the columns of `shifts`."""
    return 2 + (len(shifts.cost_of_rho()) if shifts else 0)


class Prices:
    """Compute the privacy costs of noised vectors of several agents from how far each vector moves.

    Args:
        events: (rounds, agents) the noise and sensitivity of the messages.
        shifts: the table of Rényi curves; None if no curves are computed.
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
        # ρ is at most the shift squared times the largest ρ / shift² of the agent. Rounding does not raise this ratio.
        # Other noise, and noise that is drawn several times (except Laplace noise), gets the bound ρ times the order.
        self._shifts = shifts
        if shifts:
            kind = costs.kind.reshape(shape)
            self._in_cells = (kind == shifts.kind) & ((kind == Kind.LAPLACE) | (events.draws == 1))
            squares = np.divide(self._rho, self.slope**2, where=self._in_cells & (self.slope > 0), out=np.zeros(shape))
            self._ratio = np.array([shifts.ratio(most) for most in squares.max(axis=(0, 2)).tolist()])

    def costs(self, rounds: slice, agent: Indices, moved: Vector, used: Used, least: Vector) -> Vector:
        """Return the privacy cost of a block of rounds for each cluster of samples: (clusters, columns).

        The columns are pure ε, ρ of zCDP and, if there is a table of Rényi curves, the columns of this table. All
        columns of a cluster are inf if a change of its samples moves a vector without noise, or a vector with an
        infinite cost per unit of its change.

        Args:
            rounds: the rounds of the block.
            agent: (clusters,) the agent that uses the cluster.
            moved: (vectors, rounds, clusters) how far each noised vector moves in L2 norm if samples of the cluster
                change.
            used: pairs (message, cluster) of the block: the message is the first to depend on a loss function with
                samples of the cluster.
            least: (agents,) the smallest pure ε of a message whose own new loss function contains a changed sample.
        """
        shifts = self._shifts
        total = np.zeros((len(agent), columns(shifts)))
        for vector, delta in enumerate(moved):
            slope, rho, clean = (x[rounds, :, vector] for x in (self.slope, self._rho, self._clean))
            shift = slope.take(agent, axis=1) * delta
            if self._is_rounded:  # from the first use of a cluster on, its cost includes rounding
                begun = used.begun(len(delta))
                shift += self._grain[rounds, :, vector].take(agent, axis=1) * begun
                delta = delta + self._rounding[rounds, :, vector].take(agent, axis=1) * begun
            squared = rho.take(agent, axis=1) * delta
            squared *= delta
            total[:, PURE] += shift.sum(axis=0)  # if any noise is Gaussian, `Recursive.at` replaces the sum by inf
            total[:, RHO] += squared.sum(axis=0)
            if shifts and len(agent):
                in_cells = np.where(self._in_cells[rounds, :, vector].take(agent, axis=1), shift, 0.0)
                total[:, 2:] += shifts.sums(in_cells, squared, self._ratio[agent], shifts.least(least)[agent])
            if clean.any():
                total[(clean[:, agent] & (delta > 0)).any(axis=0)] = np.inf
        return total
