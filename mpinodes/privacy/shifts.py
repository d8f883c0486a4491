"""The costs of releases by how far they are moved: of many courses of several agents at once."""

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
    """Rényi curves of shifts of one law of noise, rounded up to cells 0.2 to 0.4 % wide.

    Args:
        kind: the law, LAPLACE, GAMMA_NORM or PURE; releases of another law cost their ρ times the order.
        dimension: of a vector, for gamma-norm noise.
    """

    BITS = 44  # by which shifts in a cell differ
    LEAST, LARGEST = 2.0**-14, 2.0**30  # of the cells; the curve of a larger one is inf
    SMALL = 1 / 128  # of a use's shift: one below goes by its ρ alone, to a hundredth, in orders that count beside it

    def __init__(self, kind: Kind = Kind.LAPLACE, dimension: int = 0) -> None:
        self.kind, self._dimension = kind, dimension
        self._first, last = (int(np.float64(size).view(np.int64)) >> self.BITS for size in (self.LEAST, self.LARGEST))
        self.sizes = (np.arange(self._first, last + 1) << self.BITS).view(np.float64)
        self._ratios: list[float] = []
        self._row = np.zeros(0, np.int64)  # by ratio and cell, its place among the costs; -1: not there
        self._each = self._of_rho[None]

    @property
    def _of_rho(self) -> Vector:
        """The cost of shifts that are in no cells, by the sum of their ρ."""
        return ORDERS

    @property
    def columns(self) -> int:
        """Of a cost."""
        return len(ORDERS)

    def _costs(self, cell: Indices, ratio: Vector) -> Vector:
        """Of cells, by what ρ may be at most of a shift squared."""
        size = self.sizes[cell]
        if self.kind == Kind.LAPLACE:
            curve = laplace_rdp(size)
        else:
            curve = pure_rdp(size) if self.kind == Kind.PURE else gamma_norm_rdp(self._dimension, size)
        return np.asarray(np.minimum(curve, (ratio * size**2)[:, None] * ORDERS))

    def least(self, use: Vector) -> Vector:
        """The shift above which it goes by its cell, by the least shift of a use."""
        return np.asarray(np.maximum(self.LEAST, self.SMALL * use))

    def ratio(self, least: float) -> int:
        """The number of a ratio of ρ to the square of a shift, rounded up a little."""
        up = float(np.int64(((int(np.float64(least).view(np.int64)) >> 42) + 1) << 42).view(np.float64))
        if up not in self._ratios:
            self._ratios.append(up)
            self._row = np.append(self._row, np.full(len(self.sizes), -1))
        return self._ratios.index(up)

    def sums(self, shift: Vector, rho: Vector, ratio: Indices, least: Vector) -> Vector:
        """Over the releases of every course: (releases, courses) twice, (courses,) twice -> (courses, columns)."""
        from scipy import sparse

        inside = shift > least
        course, release = np.nonzero(np.ascontiguousarray(inside.T))
        shift, number = shift[release, course], np.bincount(course, minlength=len(ratio))
        cell = (shift.view(np.int64) + ((1 << self.BITS) - 1)) >> self.BITS
        key = ratio[course] * len(self.sizes) + (cell - self._first).clip(0, len(self.sizes) - 1)
        if (self._row[key] < 0).any():
            new = np.unique(key[self._row[key] < 0])
            self._row[new] = np.arange(len(self._each), len(self._each) + len(new))
            of, cell = np.divmod(new, len(self.sizes))
            self._each = np.concatenate([self._each, self._costs(cell, np.array(self._ratios)[of])])
        # Of every course first the ρ that is in no cells, as a row of its own, and then its cells.
        begins, places = np.cumsum(number + 1) - number - 1, np.arange(len(course)) + course + 1
        times, row = np.ones(len(course) + len(ratio)), np.zeros(len(course) + len(ratio), np.int64)
        times[begins], row[places] = np.where(inside, 0.0, rho).sum(axis=0), self._row[key]
        each = sparse.csr_array((times, row, np.append(begins, len(row))), shape=(len(ratio), len(self._each)))
        found = np.asarray(each @ self._each)
        found[course[shift > self.LARGEST]] = np.inf
        return found


class Counts(Shifts):
    """Numbers of shifts instead, in cells 1.5 to 3 % wide; a smaller one counts as one in the lowest."""

    BITS = 47

    @property
    def columns(self) -> int:
        """Of a cost."""
        return len(self.sizes)

    def _costs(self, cell: Indices, ratio: Vector) -> Vector:
        return np.eye(len(self.sizes))[cell]

    def least(self, use: Vector) -> Vector:
        """All go by their cells."""
        return np.zeros(len(use))

    @property
    def _of_rho(self) -> Vector:
        return np.zeros(self.columns)


class Used(NamedTuple):
    """What messages of a stretch of rounds use.

    Attributes:
        message, course: (uses,) from 0.
        before: (courses,) whether any message before the stretch did.
    """

    message: Indices
    course: Indices
    before: NDArray[np.bool_]

    def begun(self, rounds: int) -> NDArray[np.bool_]:
        """Whether a message, or one before it, does: (rounds, courses)."""
        found = np.zeros((rounds, len(self.before)), bool)
        found[self.message, self.course] = True
        return np.logical_or.accumulate(found) | self.before

    def begun_before(self, rounds: int) -> NDArray[np.bool_]:
        """Return whether a message before it does: (rounds, courses)."""
        return np.concatenate([self.before[None], self.begun(rounds)[:-1]])


def columns(shifts: Shifts | None) -> int:
    """Of what a group or course has cost."""
    return 2 + (shifts.columns if shifts else 0)


class Prices:
    """The costs of several agents' releases by how far they are moved.

    The column of pure ε sums shifts of all laws; where Gaussian noise was moved there is no pure ε (`Recursive.at`).

    Args:
        events: (rounds, agents).
        shifts: for what a Rényi curve is made of; None: none is.
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
            kind = costs.kinds(np.arange(slope.size)).reshape(shape)
            self._in_cells = (kind == shifts.kind) & ((kind == Kind.LAPLACE) | (events.draws == 1))
            squares = np.divide(self._rho, self.slope**2, where=self._in_cells & (self.slope > 0), out=np.zeros(shape))
            self._ratio = np.array([shifts.ratio(each) for each in squares.max(axis=(0, 2)).tolist()])

    def costs(self, rounds: slice, agent: Indices, moved: Vector, used: Used, least: Vector) -> Vector:
        """What courses cost: (vectors, rounds, courses) -> (courses, columns).

        Args:
            rounds: of the releases.
            agent: (courses,).
            moved: how far each release is.
            used: what they use; from then on rounding is paid for.
            least: (agents,) what a use costs at least, pure ε.
        """
        shifts = self._shifts
        found = np.zeros((len(agent), columns(shifts)))
        for vector, delta in enumerate(moved):
            slope, rho, clean = (x[rounds, :, vector] for x in (self.slope, self._rho, self._clean))
            shift = slope.take(agent, axis=1) * delta
            if self._is_rounded:
                begun = used.begun(len(delta))
                shift += self._grain[rounds, :, vector].take(agent, axis=1) * begun
                delta = delta + self._rounding[rounds, :, vector].take(agent, axis=1) * begun
            each = rho.take(agent, axis=1) * delta
            each *= delta
            found[:, PURE] += shift.sum(axis=0)
            found[:, RHO] += each.sum(axis=0)
            if shifts and len(agent):
                in_cells = np.where(self._in_cells[rounds, :, vector].take(agent, axis=1), shift, 0.0)
                found[:, 2:] += shifts.sums(in_cells, each, self._ratio[agent], shifts.least(least)[agent])
            if clean.any():
                found[(clean[:, agent] & (delta > 0)).any(axis=0)] = np.inf
        return found
