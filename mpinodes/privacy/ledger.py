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
from dataclasses import dataclass
from functools import cached_property, partial
from math import inf, log
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mpinodes.core.events import STRETCH, Events, Kind
from mpinodes.core.messages import Vector
from mpinodes.privacy.curves import ORDERS, laplace_rdp, pure_rdp, pure_rho, shift_rho
from mpinodes.privacy.gamma_norm import gamma_norm_rdp
from mpinodes.privacy.leakage import Ceilings, Indices, ceilings, has_signs

AT_ONCE = 2048  # messages, or uses, that are looked at together where that takes much room for each
MOST_KEPT = 50_000  # groups of an agent whose Rényi curves are kept
PURE, RHO = 0, 1  # columns of what groups have cost; then the Rényi curve


class Uses(NamedTuple):
    """Pairs (message, group), by message: message t (from 0) first carries samples of this group."""

    message: Indices
    group: Indices

    @classmethod
    def of(cls, events: Events, groups: Callable[[int], Sequence[int]]) -> Uses:
        """The uses that one agent's events name."""
        carried = [groups(r) if r else () for r in events.uses.tolist()]
        times = np.array([len(c) for c in carried], np.int64)
        found = np.fromiter((g for c in carried for g in c), np.int64, int(times.sum()))
        return cls(np.repeat(np.arange(len(events)), times), found)

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

    def distinct(self) -> tuple[Uses, Indices]:
        """Return every pair once, by message, and how often each pair comes: (pairs,)."""
        pair, times = np.unique(self.message << 32 | self.group, return_counts=True)
        return Uses(pair >> 32, pair & (1 << 32) - 1), times

    @property
    def groups(self) -> int:
        """How many there are."""
        return int(self.group.max(initial=-1)) + 1


class Unlisted:
    """The uses that one agent's events name, found anew for the messages asked for: those asked for last are kept.

    Args:
        events: (rounds,) of the agent.
        of: by round its groups.
    """

    def __init__(self, events: Events, of: Callable[[int], Sequence[int]]) -> None:
        self._events, self._of = events, of
        self._last = (0, 0), Uses.of(events[:0], of)

    def between(self, first: int, last: int) -> Uses:
        """As of `Uses`."""
        if self._last[0] != (first, last):
            self._last = (first, last), Uses.of(self._events[first:last], self._of)
        return self._last[1]


class Costs:
    """What release t costs if it changes by δ, for vectors of releases and changes.

    Attributes:
        roundings: by release, what rounding adds to its L1 and its L2 change.
    """

    def __init__(self, events: Events) -> None:
        self._kind, self._scale, self._draws = events.kind.ravel(), events.scale.ravel(), events.draws.ravel()
        by_norm = self._kind == Kind.GAMMA_NORM
        self._dimension = events.dimension
        if not self._dimension:
            self._kind = np.where(by_norm, Kind.PURE, self._kind)
        rounding_l2 = events.rounding_l2.ravel()
        self.roundings = np.where(by_norm, rounding_l2, events.rounding_l1.ravel()), rounding_l2
        self._ratio = events.l1_per_l2.ravel()

    def pure(self, t: Indices, delta: Vector) -> Vector:
        """Pure ε, inf where there is none."""
        with np.errstate(divide="ignore", invalid="ignore"):
            shift = np.where(delta == 0, 0.0, (self._ratio[t] * delta + self.roundings[0][t]) / self._scale[t])
        shift = np.where((delta > 0) & (self._kind[t] == Kind.GAUSSIAN), np.inf, shift)
        return np.asarray(self._draws[t] * shift)

    def rho(self, t: Indices, delta: Vector) -> Vector:
        """ZCDP, inf where there is none."""
        shift = shift_rho(np.where(delta == 0, 0.0, delta + self.roundings[1][t]), self._scale[t])
        shift = np.where(self._kind[t] == Kind.GAMMA_NORM, shift / max(self._dimension, 1), shift)
        pure = self._kind[t] == Kind.PURE
        return np.asarray(np.where(pure, pure_rho(self.pure(t, delta)), self._draws[t] * shift))

    def slopes(self) -> tuple[Vector, Vector]:
        """Return by release the shift per unit of change and ρ per squared unit, without that of rounding.

        The shift is the L1 change over the scale: the pure ε, but for Gaussian noise, which has none.
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            shift: Vector = self._draws * (self._ratio / self._scale)
        rho = self._draws * shift_rho(np.ones(len(shift)), self._scale)
        rho = np.where(self._kind == Kind.GAMMA_NORM, rho / max(self._dimension, 1), rho)
        return shift, np.where(self._kind == Kind.PURE, pure_rho(shift), rho)

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


@dataclass(slots=True)
class Facts:
    """What holds of all of an agent's events.

    Attributes:
        unknown_from: the first message, from 0, of which nothing is stated; inf: there is none.
        kinds: the laws of the noise of all that can tell of data.
        is_saturated: whether an older change moves every message as far as it can, or not at all.
        moves: whether a gradient that messages hide may change with the point that it is taken at.
        is_finite: whether all numbers are that a recursion goes by.
        is_exact: whether every hidden part is stated exactly.
        has_signs: whether there is a sign in any.
        groups: how many are used.
    """

    unknown_from: float = inf
    kinds: frozenset[float] = frozenset()
    is_saturated: bool = True
    moves: bool = False
    is_finite: bool = True
    is_exact: bool = True
    has_signs: bool = False
    groups: int = 0

    @classmethod
    def of(cls, events: Events, uses: Uses) -> Facts:
        """Of all events."""
        found = cls()
        found.take(0, events, uses)
        return found

    def take(self, first: int, events: Events, uses: Uses) -> None:
        """The messages (rounds,) from `first` on, and what they use."""
        self.groups = max(self.groups, uses.groups)
        unknown = events.is_unknown
        if unknown.any():
            self.unknown_from = min(self.unknown_from, first + int(np.argmax(unknown)))
        telling = (events.uses > 0) | unknown
        self.is_finite &= bool(np.isfinite([events.l1, events.l2]).all())
        if events.hidden:
            names = ("transition", "largest", "lipschitz", "offset")
            a, r, lipschitz, offset = (events.leakage(name) for name in names)
            remembers = (a != 0).any(axis=(-2, -1))
            telling |= events.is_hidden & ((r > 0) | remembers)
            fixed = (r == 0) | ((lipschitz == 0) & (offset == 0)) | np.isinf(lipschitz) | (offset >= r)
            self.is_saturated &= bool((~remembers & fixed).all())
            self.moves |= bool((events.is_hidden & (r > 0) & ((lipschitz > 0) | (offset > 0))).any())
            numbers = ("transition", "gradient", "sensitivity", "point", "largest", "reads")
            self.is_finite &= all(bool(np.isfinite(events.leakage(name)).all()) for name in numbers)
            self.is_exact &= bool(events.is_exact[events.is_hidden].all())
            self.has_signs |= has_signs(events)
        self.kinds |= frozenset(np.unique(events.kind[telling]).tolist())

    @property
    def is_signed(self) -> bool:
        """Whether there are signs that count: beside a bound on norms one is worth nothing."""
        return self.is_exact and self.has_signs

    def is_all(self, kind: Kind) -> bool:
        """Whether every event that can tell of data is of this kind."""
        return self.kinds <= {kind}


class Ledger(ABC):
    """One agent's events, read at growing horizons.

    Args:
        events: (rounds,) of the agent.
        uses: what its messages carry.
        facts: of all events.
    """

    def __init__(self, events: Events, uses: Uses | Unlisted, facts: Facts) -> None:
        self._events, self._uses, self.facts = events, uses, facts

    @property
    def uses_ceiling(self) -> bool:
        """Whether hidden changes are priced at the most that they can be."""
        return False

    @cached_property
    def costs(self) -> Costs:
        """Of all releases, for which all events are read."""
        return Costs(self._events[:])

    @abstractmethod
    def follow(self, horizon: int) -> None:
        """Read on to there."""

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

    A sample that a message carries k times moves the message k times as far, and this change has one cost: of Gaussian
    noise, k² ρ. Costs of uses are summed, and so is a stretch of a cumulative sum. Of groups and of the sum there are
    columns: pure ε, ρ and, where there are not too many groups, the Rényi curve; and counts of costs of the first two
    without bound.
    """

    def __init__(self, events: Events, uses: Uses | Unlisted, facts: Facts) -> None:
        super().__init__(events, uses, facts)
        self._keeps_curves = facts.groups <= MOST_KEPT and not facts.is_all(Kind.GAUSSIAN)
        self._begin()

    @property
    def uses_ceiling(self) -> bool:
        """See `Ledger.uses_ceiling`."""
        return self.facts.moves or not self.facts.is_saturated

    def _begin(self) -> None:
        groups, columns = self.facts.groups, RHO + 1 + len(ORDERS) * self._keeps_curves
        self._done, self._ceilings = 0, Ceilings()
        self._first = np.full(groups, len(self._events))  # the message that first carries each
        self._own, self._sum = np.zeros((groups, columns)), np.zeros(columns)  # of uses, and of all hidden changes
        self._begun = np.zeros((groups, columns))  # the sum where each was first used
        self._lost, self._begun_lost = np.zeros(RHO + 2, np.int32), np.zeros((groups, RHO + 2), np.int32)

    def follow(self, horizon: int) -> None:
        """See `Ledger.follow`; from the start, where it is less than before."""
        if horizon < self._done:
            self._begin()
        while self._done < horizon:
            first, last = self._done, min(self._done + STRETCH, horizon)
            events, uses = self._events[first:last], self._uses.between(first, last)
            for start in range(0, last - first, AT_ONCE):
                end = min(start + AT_ONCE, last - first)
                self._take(events[start:end], uses.between(start, end))
                self._done = first + end

    def _take(self, events: Events, uses: Uses) -> None:
        (message, group), times = uses.distinct()
        hidden = self._most_moved(events, uses)
        costs = Costs(events)
        alone, sums, lost = self._costs_of(costs, hidden)
        new = np.unique(group[self._first[group] == len(self._events)])
        np.minimum.at(self._first, group, message + self._done)
        at = self._first[new] + 1 - self._done  # all vectors of the message that first carries a sample are new
        self._begun[new], self._begun_lost[new] = sums[at], lost[at]
        is_fresh = message + self._done == self._first[group]
        order = np.argsort(group, kind="stable")
        for k in np.unique(times).tolist():
            fresh, again = self._costs_of_uses(costs, k * events.l2, hidden, alone)
            alike = order[times[order] == k]
            for some in (alike[start : start + AT_ONCE] for start in range(0, len(alike), AT_ONCE)):
                own = np.where(is_fresh[some, None], fresh[message[some]], again[message[some]])
                starts = np.flatnonzero(np.append(True, np.diff(group[some]) > 0))
                self._own[group[some[starts]]] += np.add.reduceat(own, starts)
        self._sum, self._lost = sums[-1], lost[-1]

    def _most_moved(self, events: Events, uses: Uses) -> Vector:
        """How far older changes can move each message: (rounds, vectors)."""
        if not self.facts.is_signed:
            return self._ceilings.take(events, _most_used(uses, len(events)))
        return self._signed[self._done : self._done + len(events)]

    @cached_property
    def _signed(self) -> Vector:
        """With signs, all rounds are looked at at once."""
        rounds = len(self._events)
        return ceilings(self._events[:], _most_used(self._uses.between(0, rounds), rounds))

    def _costs_of_uses(self, costs: Costs, direct: Vector, hidden: Vector, alone: Vector) -> tuple[Vector, Vector]:
        """Return what a sample's uses add to each message's cost: (rounds, columns), if these are the first, or not.

        Args:
            costs: of the messages.
            direct: the change that the uses make of each vector: (rounds, vectors).
            hidden: the largest change that older changes make of each vector: (rounds, vectors).
            alone: the costs of `hidden`: (rounds, vectors, columns).
        """
        fresh = again = self._columns(costs, direct)
        if hidden.any():
            # Where a sample is used again its release moves by both, and the hidden part is in the sums already.
            both = self._columns(costs, direct + hidden)
            with np.errstate(invalid="ignore"):
                again = np.where(np.isinf(both), np.inf, both - alone)
        return fresh.sum(axis=1), again.sum(axis=1)

    def _costs_of(self, costs: Costs, hidden: Vector) -> tuple[Vector, Vector, NDArray[np.int32]]:
        """What hidden changes cost.

        Returns:
            The costs by message and vector: (rounds, vectors, columns); and before and after each message the sums of
            these, and counts of those without bound, of pure ε, of ρ and of the curve.
        """
        alone = self._columns(costs, hidden) if hidden.any() else np.zeros((*hidden.shape, len(self._sum)))
        bounded = np.isfinite(alone)
        kinds = np.concatenate([bounded[..., : RHO + 1], bounded[..., RHO + 1 :].all(axis=-1, keepdims=True)], axis=-1)
        summed, lost = np.where(bounded, alone, 0.0).sum(axis=1), (~kinds).sum(axis=1, dtype=np.int32)
        return (
            alone, np.cumsum(np.concatenate([self._sum[None], summed]), axis=0),
            np.cumsum(np.concatenate([self._lost[None], lost]), axis=0, dtype=np.int32),
        )  # fmt: skip

    def _columns(self, costs: Costs, delta: Vector) -> Vector:
        """What releases cost: (rounds, vectors) -> (rounds, vectors, columns)."""
        every, changes = np.arange(delta.size), delta.ravel()
        found = [costs.pure(every, changes)[:, None], costs.rho(every, changes)[:, None]]
        if self._keeps_curves:
            found.append(costs.rdp(every, changes))
        return np.concatenate(found, axis=1).reshape(*delta.shape, -1)

    def _read(self, group: Indices, columns: slice, lost: slice) -> Vector:
        """What groups have cost: (m,) -> (m, columns)."""
        since = np.where(self._first[group] < self._done, 1.0, 0.0)[:, None] * (
            self._sum[columns] - self._begun[group, columns]
        )
        unbounded = (self._lost[lost] > self._begun_lost[group, lost]) & (self._first[group] < self._done)[:, None]
        return np.asarray(np.where(unbounded, np.inf, self._own[group, columns] + since))

    def at(self, horizon: int) -> tuple[Vector, Vector]:
        """See `Ledger.at`."""
        self.follow(horizon)
        found = self._read(np.arange(self.facts.groups), slice(0, RHO + 1), slice(0, RHO + 1))
        return found[:, PURE], found[:, RHO]

    def rdp(self, group: Indices) -> Vector:
        """See `Ledger.rdp`. Of more groups than are kept, by ρ alone."""
        if self._keeps_curves:
            return self._read(group, slice(RHO + 1, None), slice(RHO + 1, RHO + 2))
        return np.asarray(self._read(group, slice(RHO, RHO + 1), slice(RHO, RHO + 1)) * ORDERS)

    def envelope(self) -> tuple[Indices, Vector]:
        """See `Ledger.envelope`: of each kind of noise the k-th largest use of any group, and all hidden changes.

        Where a sample is used again its message counts with both changes, and with the hidden one once more.
        """
        events, horizon = self._events[: self._done], self._done * self._events.vectors
        whole = self._uses.between(0, self._done)
        once, times = whole.distinct()
        message, group = once.released(events.vectors)
        hidden = ceilings(events, _most_used(whole, len(events))).ravel()
        first = (self._first + 1) * events.vectors - 1
        direct = np.repeat(times, events.vectors) * events.l2.ravel()[message]
        direct += np.where(message > first[group], hidden[message], 0.0)
        kind = self.costs.kinds(message)
        rho, pure = self.costs.rho(message, direct), self.costs.pure(message, direct)
        size = np.where(kind == Kind.GAUSSIAN, rho, pure)
        order = np.lexsort((-size, kind, group))
        ordered, law = group[order], kind[order]
        begins = np.append(True, (ordered[1:] != ordered[:-1]) | (law[1:] != law[:-1]))[: len(order)]
        places = np.arange(len(order))
        rank = places - np.maximum.accumulate(np.where(begins, places, 0))
        worst = {}
        for k in np.argsort(size[order], kind="stable"):
            worst[int(law[k]), int(rank[k])] = order[k]
        chosen = np.array(list(worst.values()), dtype=int)
        later = np.arange(min(int(first.min(initial=horizon)) + 1, horizon), horizon)
        later = later[hidden[later] > 0]
        return np.concatenate([message[chosen], later]), np.concatenate([direct[chosen], hidden[later]])


def _most_used(uses: Uses, messages: int) -> Indices:
    """By message, how often it carries a sample at most, and no less than 1."""
    return np.maximum(np.bincount(uses.message, minlength=messages), 1)
