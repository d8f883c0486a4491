"""One agent's events, added up for every sample that may have been changed.

A changed sample (or round, by the adjacency) moves the message that first carries it by the event's l2, and later ones
by what they leak of the agent's hidden state (`leakage`). A vector whose change is δ > 0 costs by its noise's law, with
L1 change δ·l1/l2; where it was rounded to a lattice, either is larger by the event's rounding. The vectors of one
message are releases one after the other, for each has noise of its own: "release" below is one vector of one message.
Samples that are always used together share one row of a ledger, a group.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from math import log
from typing import NamedTuple

import numpy as np

from mpinodes.core.events import Events, Kind
from mpinodes.core.messages import Vector
from mpinodes.privacy.curves import ORDERS, laplace_rdp, pure_rdp, pure_rho, shift_rho
from mpinodes.privacy.gamma_norm import gamma_norm_rdp
from mpinodes.privacy.leakage import Indices, ceilings

AT_ONCE = 4096  # messages that are looked at together where that takes much room for each


class Uses(NamedTuple):
    """Pairs (message, group), by message: message t (from 0) first carries samples of this group."""

    message: Indices
    group: Indices

    @classmethod
    def of(cls, events: Events, groups: Callable[[int], Sequence[int]]) -> Uses:
        """The uses that one agent's events name."""
        times, found = [], []
        for first in range(0, len(events), AT_ONCE):
            carried = [groups(r) if r else () for r in events[first : first + AT_ONCE].uses.tolist()]
            times.append(np.array([len(c) for c in carried]))
            found.append(np.fromiter((g for c in carried for g in c), np.int64, int(times[-1].sum())))
        if not times:
            return cls(np.zeros(0, np.int64), np.zeros(0, np.int64))
        return cls(np.repeat(np.arange(len(events)), np.concatenate(times)), np.concatenate(found))

    def between(self, first: int, last: int) -> Uses:
        """Those of messages `first` to `last` - 1, as messages from 0."""
        here = slice(*np.searchsorted(self.message, (first, last)))
        return Uses(self.message[here] - first, self.group[here])

    def released(self, vectors: int) -> Uses:
        """The same by release: as many vectors for each message."""
        if vectors == 1:
            return self
        release = self.message[:, None] * vectors + np.arange(vectors)
        return Uses(release.ravel(), np.repeat(self.group, vectors))

    @property
    def groups(self) -> int:
        """How many there are."""
        return int(self.group.max(initial=-1)) + 1


class Costs:
    """What release t costs if it changes by δ, for vectors of releases and changes."""

    def __init__(self, events: Events) -> None:
        self._kind, self._scale, self._draws = events.kind.ravel(), events.scale.ravel(), events.draws.ravel()
        by_norm = self._kind == Kind.GAMMA_NORM
        self._dimension = events.dimension
        if not self._dimension:
            self._kind = np.where(by_norm, Kind.PURE, self._kind)
        rounding_l2 = events.rounding_l2.ravel()
        self._rounding = np.where(by_norm, rounding_l2, events.rounding_l1.ravel()), rounding_l2
        l1, l2 = events.l1.ravel(), events.l2.ravel()
        telling = (events.uses > 0) | events.is_unknown
        if events.hidden:
            told = (events.leakage("largest") > 0) | (events.leakage("transition") != 0).any(axis=(-2, -1))
            telling |= events.is_hidden & told
        self._telling = events.kind[telling].ravel()
        with np.errstate(invalid="ignore"):
            self._ratio = np.where(np.isinf(l2) | (l2 == 0) | by_norm, 1.0, l1 / l2)

    def pure(self, t: Indices, delta: Vector) -> Vector:
        """Pure ε, inf where there is none."""
        with np.errstate(divide="ignore", invalid="ignore"):
            shift = np.where(delta == 0, 0.0, (self._ratio[t] * delta + self._rounding[0][t]) / self._scale[t])
        shift = np.where((delta > 0) & (self._kind[t] == Kind.GAUSSIAN), np.inf, shift)
        cost: Vector = self._draws[t] * shift
        return cost

    def rho(self, t: Indices, delta: Vector) -> Vector:
        """ZCDP, inf where there is none."""
        shift = shift_rho(np.where(delta == 0, 0.0, delta + self._rounding[1][t]), self._scale[t])
        shift = np.where(self._kind[t] == Kind.GAMMA_NORM, shift / max(self._dimension, 1), shift)
        pure = self._kind[t] == Kind.PURE
        return np.asarray(np.where(pure, pure_rho(self.pure(t, delta)), self._draws[t] * shift))

    def slopes(self) -> tuple[Vector, Vector]:
        """By release, pure ε per unit of change and ρ per squared unit, without that of rounding."""
        with np.errstate(divide="ignore", invalid="ignore"):
            pure: Vector = self._draws * (self._ratio / self._scale)
        return pure, self._draws * shift_rho(np.ones(len(pure)), self._scale)

    @property
    def roundings(self) -> tuple[Vector, Vector]:
        """By release, what rounding adds to its L1 and its L2 change."""
        return self._rounding

    def rdp(self, t: Indices, delta: Vector) -> Vector:
        """Rényi divergences, (m,) -> (m, orders): by order the least that is proven."""
        draws = self._draws[t]
        single, rho = self.pure(t, delta) / draws, self.rho(t, delta)
        curve: Vector = rho[:, None] * ORDERS
        with np.errstate(over="ignore", invalid="ignore"):
            by_norm = partial(gamma_norm_rdp, self._dimension)
            for kind, of in ((Kind.LAPLACE, laplace_rdp), (Kind.PURE, pure_rdp), (Kind.GAMMA_NORM, by_norm)):
                here = (self._kind[t] == kind) & np.isfinite(single) & (single > 0)
                if here.any():
                    # Equal shifts share a curve; within a thousandth, rounded up, they count as equal.
                    step = np.ceil(np.log(single[here]) / log(1.001) - 1e-9).astype(int)
                    values, where = np.unique(step, return_inverse=True)
                    curve[here] = np.minimum(curve[here], draws[here, None] * of(1.001**values)[where])
        return curve

    def kinds(self, t: Indices) -> Vector:
        """The law of the noise of releases."""
        return np.asarray(self._kind[t])

    def is_all(self, kind: Kind) -> bool:
        """Whether every event that can tell of data is of this kind."""
        return bool((self._telling == kind).all())


class Ledger(ABC):
    """One agent's events, read at growing horizons.

    Attributes:
        costs: of its releases.
        is_unknown: by message, whether nothing is stated of what it leaks.
    """

    def __init__(self, events: Events, uses: Uses) -> None:
        self._events, self._groups = events, uses.groups
        self.costs, self.is_unknown = Costs(events), events.is_unknown
        self._message, self._group = uses.released(events.vectors)
        self._most_used = np.maximum(np.bincount(uses.message, minlength=len(events)), 1)

    def releases(self, horizon: int) -> int:
        """How many there are in the first so many rounds."""
        return horizon * self._events.vectors

    @abstractmethod
    def at(self, horizon: int) -> tuple[Vector, Vector]:
        """Pure ε and ρ of every group after `horizon` rounds, (groups,) each."""

    @abstractmethod
    def rdp(self, group: Indices) -> Vector:
        """Rényi divergences of some groups at the horizon asked for last, (m,) -> (m, orders)."""

    @abstractmethod
    def envelope(self) -> tuple[Indices, Vector]:
        """Releases and changes whose composition costs no less than any group's, at the horizon asked for last."""


class Saturated(Ledger):
    """After its first use a sample moves every release by the most that older changes can move it, or by nothing.

    Costs are then sums over uses plus a stretch of a cumulative sum.
    """

    def __init__(self, events: Events, uses: Uses) -> None:
        super().__init__(events, uses)
        message, group = self._message, self._group
        everything = np.arange(self.releases(len(events)))
        self._hidden = hidden = ceilings(events, self._most_used).ravel()
        self._first = np.full(uses.groups, len(everything))
        # All vectors of the message that first carries a sample are new.
        np.minimum.at(self._first, group, message + events.vectors - 1 - message % events.vectors)
        # Where a sample is used again its release moves by both, and the hidden part is in the sums already.
        self._before = np.where(message > self._first[group], hidden[message], 0.0)
        self._direct = events.l2.ravel()[message] + self._before
        self._sums = [self._cumulative(f(everything, hidden)) for f in (self.costs.pure, self.costs.rho)]
        self._each = [self._extra(f) for f in (self.costs.pure, self.costs.rho)]
        self._curve = np.zeros((1 if not hidden.any() else len(everything) + 1, len(ORDERS)))
        if hidden.any():
            np.cumsum(self.costs.rdp(everything, hidden), axis=0, out=self._curve[1:])

    def _extra(self, cost: Callable[[Indices, Vector], Vector]) -> Vector:
        """What a use adds to the cost of its message."""
        whole = cost(self._message, self._direct)
        with np.errstate(invalid="ignore"):
            return np.where(np.isinf(whole), np.inf, whole - cost(self._message, self._before))

    @staticmethod
    def _cumulative(costs: Vector) -> tuple[Vector, Vector]:
        """Sums of the finite costs, and counts of the others, of the first t messages."""
        finite = np.isfinite(costs)
        sums, counts = np.cumsum(np.where(finite, costs, 0.0)), np.cumsum(~finite)
        return np.concatenate([[0.0], sums]), np.concatenate([[0.0], counts])

    def at(self, horizon: int) -> tuple[Vector, Vector]:
        """See `Ledger.at`."""
        self._horizon = horizon = self.releases(horizon)
        begun = np.minimum(self._first + 1, horizon)
        seen = self._message < horizon
        found = []
        for (sums, infinite), each in zip(self._sums, self._each, strict=True):
            total = np.bincount(self._group[seen], each[seen], self._groups) + sums[horizon] - sums[begun]
            found.append(np.where(infinite[horizon] > infinite[begun], np.inf, total))
        return found[0], found[1]

    def rdp(self, group: Indices) -> Vector:
        """See `Ledger.rdp`."""
        begun = np.minimum(self._first[group] + 1, self._horizon)
        last = len(self._curve) - 1
        curves = self._curve[min(self._horizon, last)] - self._curve[np.minimum(begun, last)]
        place = np.full(self._groups, -1)
        place[group] = np.arange(len(group))
        mine = np.flatnonzero((place[self._group] >= 0) & (self._message < self._horizon))
        for first in range(0, len(mine), AT_ONCE):  # a curve has as many numbers as there are orders
            some = mine[first : first + AT_ONCE]
            message = self._message[some]
            extra = self.costs.rdp(message, self._direct[some]) - self.costs.rdp(message, self._before[some])
            np.add.at(curves, place[self._group[some]], extra)
        return np.asarray(curves)

    def envelope(self) -> tuple[Indices, Vector]:
        """See `Ledger.envelope`: of each kind of noise the k-th largest use of any group, and all hidden changes.

        Where a sample is used again its message counts with both changes, and with the hidden one once more.
        """
        seen = self._message < self._horizon
        kind = self.costs.kinds(self._message)
        rho, pure = self.costs.rho(self._message, self._direct), self.costs.pure(self._message, self._direct)
        size = np.where(kind == Kind.GAUSSIAN, rho, pure)
        order = np.lexsort((-size, kind, self._group))
        order = order[seen[order]]
        group, law = self._group[order], kind[order]
        begins = np.append(True, (group[1:] != group[:-1]) | (law[1:] != law[:-1]))[: len(order)]
        places = np.arange(len(order))
        rank = places - np.maximum.accumulate(np.where(begins, places, 0))
        worst = {}
        for k in np.argsort(size[order], kind="stable"):
            worst[int(law[k]), int(rank[k])] = order[k]
        chosen = np.array(list(worst.values()), dtype=int)
        later = np.arange(min(self._first.min(initial=self._horizon) + 1, self._horizon), self._horizon)
        later = later[self._hidden[later] > 0]
        changes = np.concatenate([self._direct[chosen], self._hidden[later]])
        return np.concatenate([self._message[chosen], later]), changes
