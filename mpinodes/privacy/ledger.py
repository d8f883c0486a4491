"""One agent's events, added up for every sample that may have been changed.

A changed sample (or round, by the adjacency) moves the message that first carries it by the event's l2. What it left
in the agent's hidden state moves later messages too: with δ(t) the L2 change of message t given everything released,

    δ(t) = l2(t) if message t first carries a round of this sample,
           and in any case + min(cap(t), gain(t)·δ(t − 1)) + keep(t)·δ(t − 1).

A message whose change is δ > 0 costs by its noise's law, with L1 change δ·l1/l2; where it was rounded to a lattice,
either is larger by the event's grain. Samples that are always used together
share one row of a ledger, a group.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from math import log
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mpinodes.core.protocol import Event, Kind, Vector
from mpinodes.privacy.curves import ORDERS, laplace_rdp, pure_rdp, pure_rho, shift_rho

Indices = NDArray[np.int64]
LONGEST_RECURSION = 20_000  # rounds; it takes time that grows with their square


class Uses(NamedTuple):
    """Pairs (message, group), by message: message t (from 0) first carries samples of this group."""

    message: Indices
    group: Indices

    @classmethod
    def of(cls, events: Vector, groups: Callable[[int], Sequence[int]]) -> Uses:
        """The uses that one agent's events name."""
        carried = [groups(int(r)) if r else () for r in events[:, Event._fields.index("uses")]]
        message = np.repeat(np.arange(len(carried)), [len(c) for c in carried])
        return cls(message, np.fromiter((g for c in carried for g in c), np.int64, len(message)))

    @property
    def groups(self) -> int:
        """How many there are."""
        return int(self.group.max(initial=-1)) + 1


class Costs:
    """What message t costs if it changes by δ, for vectors of messages and changes."""

    def __init__(self, events: Vector) -> None:
        self._kind, self._scale, self._draws, l1, l2, uses, _, cap, keep, *_ = events.T
        self._grain = [events[:, Event._fields.index(name)] for name in ("grain_l1", "grain_l2")]
        self._telling = self._kind[(uses > 0) | (cap > 0) | (keep > 0)]
        with np.errstate(invalid="ignore"):
            self._ratio = np.where(np.isinf(l2) | (l2 == 0), 1.0, l1 / l2)

    def pure(self, t: Indices, delta: Vector) -> Vector:
        """Pure ε, inf where there is none."""
        with np.errstate(divide="ignore", invalid="ignore"):
            shift = np.where(delta == 0, 0.0, (self._ratio[t] * delta + self._grain[0][t]) / self._scale[t])
        shift = np.where((delta > 0) & (self._kind[t] == Kind.GAUSSIAN), np.inf, shift)
        cost: Vector = self._draws[t] * shift
        return cost

    def rho(self, t: Indices, delta: Vector) -> Vector:
        """ZCDP, inf where there is none."""
        shift = shift_rho(np.where(delta == 0, 0.0, delta + self._grain[1][t]), self._scale[t])
        pure = self._kind[t] == Kind.PURE
        return np.asarray(np.where(pure, pure_rho(self.pure(t, delta)), self._draws[t] * shift))

    def slopes(self) -> tuple[Vector, Vector]:
        """By message, pure ε per unit of change and ρ per squared unit, without the grain's."""
        with np.errstate(divide="ignore", invalid="ignore"):
            pure: Vector = self._draws * (self._ratio / self._scale)
        return pure, self._draws * shift_rho(np.ones(len(pure)), self._scale)

    def rdp(self, t: Indices, delta: Vector) -> Vector:
        """Rényi divergences, (m,) -> (m, orders): by order the least that is proven."""
        draws = self._draws[t]
        single, rho = self.pure(t, delta) / draws, self.rho(t, delta)
        curve: Vector = rho[:, None] * ORDERS
        with np.errstate(over="ignore", invalid="ignore"):
            for kind, of in ((Kind.LAPLACE, laplace_rdp), (Kind.PURE, pure_rdp)):
                here = (self._kind[t] == kind) & np.isfinite(single) & (single > 0)
                if here.any():
                    # Equal shifts share a curve; within a thousandth, rounded up, they count as equal.
                    step = np.ceil(np.log(single[here]) / log(1.001) - 1e-9).astype(int)
                    values, where = np.unique(step, return_inverse=True)
                    curve[here] = np.minimum(curve[here], draws[here, None] * of(1.001**values)[where])
        return curve

    def kinds(self, t: Indices) -> Vector:
        """The law of the noise of messages."""
        return np.asarray(self._kind[t])

    def is_all(self, kind: Kind) -> bool:
        """Whether every event that can tell of data is of this kind."""
        return bool((self._telling == kind).all())


class Agent(ABC):
    """One agent's ledger, read at growing horizons.

    Attributes:
        costs: of its events.
    """

    def __init__(self, events: Vector, uses: Uses) -> None:
        self.costs, self._groups = Costs(events), uses.groups
        self._message, self._group = uses
        self._l2 = events[:, Event._fields.index("l2")]
        self._cap = events[:, Event._fields.index("hidden_cap")]
        self._gain = np.minimum(events[:, Event._fields.index("hidden_gain")], 1e300)  # times no change it is then 0
        self._keep = events[:, Event._fields.index("hidden_keep")]

    def _reach(self) -> Vector:
        """What δ can be after each message at most, for any group."""
        uses = np.bincount(self._message, minlength=len(self._l2))  # no group is carried more often by one message
        new = np.maximum(uses, 1) * self._l2 + self._cap
        if not self._keep.any():
            return np.asarray(new)
        reach, so_far = np.empty_like(new), 0.0
        for t, (more, keep) in enumerate(zip(new.tolist(), self._keep.tolist(), strict=True)):
            reach[t] = so_far = more + keep * so_far
        return reach

    @abstractmethod
    def at(self, horizon: int) -> tuple[Vector, Vector]:
        """Pure ε and ρ of every group after `horizon` rounds, (groups,) each."""

    @abstractmethod
    def rdp(self, group: Indices) -> Vector:
        """Rényi divergences of some groups at the horizon asked for last, (m,) -> (m, orders)."""

    @abstractmethod
    def envelope(self) -> tuple[Indices, Vector]:
        """Messages and changes whose composition costs no less than any group's, at the horizon asked for last."""


class Saturated(Agent):
    """For gains that are 0 or boundless: after its first use a sample moves every message by the cap, or none.

    Costs are then sums over uses plus a stretch of a cumulative sum. Other gains count as boundless, and what a message
    keeps of an older change as the most it can be.
    """

    def __init__(self, events: Vector, uses: Uses) -> None:
        super().__init__(events, uses)
        message, group = uses
        everything = np.arange(len(events))
        hidden = np.where(self._gain > 0, self._cap, 0.0)
        if self._keep.any():
            hidden += self._keep * np.append(0.0, self._reach()[:-1])
        self._hidden = hidden
        self._first = np.full(uses.groups, len(events))
        np.minimum.at(self._first, group, message)
        # Where a sample is used again its message moves by both, and the hidden part is in the sums already.
        self._before = np.where(message > self._first[group], hidden[message], 0.0)
        self._direct = self._l2[message] + self._before
        self._sums = [self._cumulative(f(everything, hidden)) for f in (self.costs.pure, self.costs.rho)]
        self._each = [self._extra(f) for f in (self.costs.pure, self.costs.rho)]
        self._curve = np.zeros((1 if not hidden.any() else len(events) + 1, len(ORDERS)))
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
        """See `Agent.at`."""
        self._horizon = horizon
        begun = np.minimum(self._first + 1, horizon)
        seen = self._message < horizon
        found = []
        for (sums, infinite), each in zip(self._sums, self._each, strict=True):
            total = np.bincount(self._group[seen], each[seen], self._groups) + sums[horizon] - sums[begun]
            found.append(np.where(infinite[horizon] > infinite[begun], np.inf, total))
        return found[0], found[1]

    def rdp(self, group: Indices) -> Vector:
        """See `Agent.rdp`."""
        begun = np.minimum(self._first[group] + 1, self._horizon)
        last = len(self._curve) - 1
        curves = self._curve[min(self._horizon, last)] - self._curve[np.minimum(begun, last)]
        place = np.full(self._groups, -1)
        place[group] = np.arange(len(group))
        mine = (place[self._group] >= 0) & (self._message < self._horizon)
        message = self._message[mine]
        extra = self.costs.rdp(message, self._direct[mine]) - self.costs.rdp(message, self._before[mine])
        np.add.at(curves, place[self._group[mine]], extra)
        return np.asarray(curves)

    def envelope(self) -> tuple[Indices, Vector]:
        """See `Agent.envelope`: of each kind of noise the k-th largest use of any group, and all hidden changes.

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


class Recursive(Agent):
    """For finite gains: the recursion itself, for all groups at once.

    Rényi curves come from a histogram of shifts per group, rounded up to buckets 2 % apart.
    """

    RATIO, BUCKETS = 1.02, 700

    def __init__(self, events: Vector, uses: Uses) -> None:
        super().__init__(events, uses)
        groups = uses.groups
        self._done = 0
        self._delta, self._pure, self._rho = np.zeros(groups), np.zeros(groups), np.zeros(groups)
        self._starts = np.searchsorted(uses.message, np.arange(len(events) + 1))
        noised = np.flatnonzero(events[:, Event._fields.index("scale")] > 0)
        self._shift, rho = self.costs.slopes()
        top = float(np.max(self.costs.pure(noised, self._reach()[noised]), initial=np.finfo(float).tiny))
        self._buckets = top * self.RATIO ** -np.arange(self.BUCKETS)[::-1]
        self._counts = np.zeros((groups, self.BUCKETS), np.int32)
        # The least ratio of L1 to L2 change turns a shift back into the largest ρ; that of a grain is no less.
        self._rho_per_shift = float(np.max(rho[noised] / self._shift[noised] ** 2, initial=0.0))

    def at(self, horizon: int) -> tuple[Vector, Vector]:
        """See `Agent.at`."""
        top = int(self._group[: self._starts[horizon]].max(initial=-1)) + 1
        for t in range(self._done, horizon):
            delta = np.minimum(self._cap[t], self._gain[t] * self._delta[:top]) + self._keep[t] * self._delta[:top]
            np.add.at(delta, self._group[self._starts[t] : self._starts[t + 1]], self._l2[t])
            here = np.full(1, t)
            self._pure[:top] += self.costs.pure(here, delta)
            self._rho[:top] += self.costs.rho(here, delta)
            moved = np.flatnonzero(delta)
            bucket = np.searchsorted(self._buckets[:-1], self.costs.pure(here, delta[moved]) * (1 - 1e-12))
            self._counts[moved, bucket] += 1
            self._delta[:top] = delta
        self._done = horizon
        return self._pure.copy(), self._rho.copy()

    def rdp(self, group: Indices) -> Vector:
        """See `Agent.rdp`."""
        table = np.minimum(
            laplace_rdp(np.asarray(self._buckets)), self._rho_per_shift * self._buckets[:, None] ** 2 * ORDERS
        )
        return np.asarray(self._counts[group] @ table)

    def envelope(self) -> tuple[Indices, Vector]:
        """See `Agent.envelope`: for every shift, as many messages above it as any group has.

        A grain is in the shift and counts once more as the message's own.
        """
        above = self._counts[:, ::-1].cumsum(axis=1).max(axis=0)[::-1]
        counts = above - np.append(above[1:], 0)
        shifts = np.repeat(self._buckets, counts)
        first = int(np.argmax(np.where(np.isfinite(self._shift), self._shift, -1.0)))
        return np.full(len(shifts), first), shifts / self._shift[first]


def open_ledger(events: Vector, uses: Uses) -> Agent:
    """The ledger of one agent's events: (rounds, fields of an Event)."""
    gain, cap, keep, l1, l2 = (
        events[:, Event._fields.index(name)] for name in ("hidden_gain", "hidden_cap", "hidden_keep", "l1", "l2")
    )
    plain = (keep == 0) & ((cap == 0) | (gain == 0) | np.isinf(gain))
    recursive = (
        not plain.all()
        and len(events) <= LONGEST_RECURSION
        and Costs(events).is_all(Kind.LAPLACE)
        and bool(np.isfinite([cap, keep, l1, l2]).all())
    )
    return (Recursive if recursive else Saturated)(events, uses)
