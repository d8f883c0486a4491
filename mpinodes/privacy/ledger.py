"""Add up the cost of one agent's events, for every sample that adjacent data may change.

A changed sample (or round, by the adjacency) moves the message that first carries the sample by the l2 of the event,
and later messages by what they leak of the agent's hidden state (`leakage`). A vector that moves by δ > 0 in L2 costs
by the law of its noise, with L1 change δ·l1/l2. Where the vector was rounded to a lattice, both changes are larger by
the rounding of the event. The vectors of a message have noise of their own and count as one release after the other: a
*release* is one vector of one message. Samples that are always used together share one row of a ledger: a *group*.

`Costs` prices single releases. A `Ledger` adds them up by group: `Saturated` here, or `recursive.Recursive`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from math import inf, log
from typing import NamedTuple

import numpy as np

from mpinodes.core.events import STRETCH, Events, Kind
from mpinodes.core.messages import Vector
from mpinodes.privacy.curves import ORDERS, laplace_rdp, pure_rdp, pure_rho, shift_rho
from mpinodes.privacy.gamma_norm import gamma_norm_rdp
from mpinodes.privacy.leakage import Ceilings, Indices, ceilings, has_signs

AT_ONCE = 2048  # messages, or uses, that are priced together
MOST_KEPT = 50_000  # groups of an agent up to which Rényi curves are kept
PURE, RHO = 0, 1  # columns of a cost; the others are the Rényi curve


class Uses(NamedTuple):
    """Pairs (message, group), by message: message t (from 0) is the first to carry a use of samples of the group."""

    message: Indices
    group: Indices

    @classmethod
    def of(cls, events: Events, groups: Callable[[int], Sequence[int]]) -> Uses:
        """Return the uses that one agent's events name, given the groups of a round."""
        carried = [groups(r) if r else () for r in events.uses.tolist()]
        times = np.array([len(c) for c in carried], np.int64)
        group = np.fromiter((g for c in carried for g in c), np.int64, int(times.sum()))
        return cls(np.repeat(np.arange(len(events)), times), group)

    def between(self, first: int, last: int) -> Uses:
        """Return the uses of messages `first` to `last` - 1, which are counted from 0."""
        here = slice(*np.searchsorted(self.message, (first, last)))
        return Uses(self.message[here] - first, self.group[here])

    def released(self, vectors: int) -> Uses:
        """Return the uses by release instead of message, given the number of vectors of a message."""
        release = self.message[:, None] * vectors + np.arange(vectors)
        return Uses(release.ravel(), np.repeat(self.group, vectors))

    def distinct(self) -> tuple[Uses, Indices]:
        """Return the distinct pairs, by message, and the number of times of every pair: (pairs,)."""
        pair, times = np.unique(self.message << 32 | self.group, return_counts=True)
        return Uses(pair >> 32, pair & (1 << 32) - 1), times

    @property
    def groups(self) -> int:
        """Return the number of groups: one more than the largest."""
        return int(self.group.max(initial=-1)) + 1


class Unlisted:
    """The uses that one agent's events name, made for the messages asked for, as by `Uses.between`.

    Args:
        events: (rounds,) of the agent.
        of: return the groups of a round.
    """

    def __init__(self, events: Events, of: Callable[[int], Sequence[int]]) -> None:
        self.between = lru_cache(maxsize=1)(lambda first, last: Uses.of(events[first:last], of))


class Costs:
    """The costs of releases t that move by δ in L2, for arrays of t and δ.

    Attributes:
        kind: by release, the law of the noise.
        roundings: by release, what rounding adds to its L1 change and to its L2 change.
    """

    def __init__(self, events: Events) -> None:
        self.kind, self._scale, self._draws = events.kind.ravel(), events.scale.ravel(), events.draws.ravel()
        by_norm = self.kind == Kind.GAMMA_NORM
        self._dimension = events.dimension
        if not self._dimension:
            self.kind = np.where(by_norm, Kind.PURE, self.kind)
        rounding_l2 = events.rounding_l2.ravel()
        self.roundings = np.where(by_norm, rounding_l2, events.rounding_l1.ravel()), rounding_l2
        self._ratio = events.l1_per_l2.ravel()

    def pure(self, t: Indices, delta: Vector) -> Vector:
        """Return pure ε, (m,); inf where there is none."""
        with np.errstate(divide="ignore", invalid="ignore"):
            shift = np.where(delta == 0, 0.0, (self._ratio[t] * delta + self.roundings[0][t]) / self._scale[t])
        shift = np.where((delta > 0) & (self.kind[t] == Kind.GAUSSIAN), np.inf, shift)
        return np.asarray(self._draws[t] * shift)

    def rho(self, t: Indices, delta: Vector) -> Vector:
        """Return ρ of zCDP, (m,); inf where there is none."""
        shift = shift_rho(np.where(delta == 0, 0.0, delta + self.roundings[1][t]), self._scale[t])
        shift = np.where(self.kind[t] == Kind.GAMMA_NORM, shift / max(self._dimension, 1), shift)
        pure = self.kind[t] == Kind.PURE
        return np.asarray(np.where(pure, pure_rho(self.pure(t, delta)), self._draws[t] * shift))

    def slopes(self) -> tuple[Vector, Vector]:
        """Return, by release, the shift per unit of change and ρ per squared unit of change, without rounding.

        The shift is the L1 change over the scale. That is pure ε, except for Gaussian noise, which has no pure ε.
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            shift: Vector = self._draws * (self._ratio / self._scale)
        rho = self._draws * shift_rho(np.ones(len(shift)), self._scale)
        rho = np.where(self.kind == Kind.GAMMA_NORM, rho / max(self._dimension, 1), rho)
        return shift, np.where(self.kind == Kind.PURE, pure_rho(shift), rho)

    def rdp(self, t: Indices, delta: Vector) -> Vector:
        """Return Rényi divergences, the least that is proven at each order: (m, orders)."""
        draws = self._draws[t]
        single, rho = self.pure(t, delta) / draws, self.rho(t, delta)
        curve: Vector = rho[:, None] * ORDERS
        with np.errstate(over="ignore", invalid="ignore"):
            by_norm = partial(gamma_norm_rdp, self._dimension)
            for kind, curves in ((Kind.LAPLACE, laplace_rdp), (Kind.PURE, pure_rdp), (Kind.GAMMA_NORM, by_norm)):
                here = (self.kind[t] == kind) & np.isfinite(single) & (single > 0)
                if here.any():
                    # Equal shifts share a curve; within a thousandth, rounded up, they count as equal.
                    step = np.ceil(np.log(single[here]) / log(1.001) - 1e-9).astype(int)
                    values, where = np.unique(step, return_inverse=True)
                    curve[here] = np.minimum(curve[here], draws[here, None] * curves(1.001**values)[where])
        return curve


@dataclass(slots=True)
class Facts:
    """Facts about all events of an agent, by which its ledger is chosen.

    Attributes:
        unknown_from: the first message, from 0, whose leakage is unknown; inf: there is none.
        kinds: the noise laws of all messages that may depend on data.
        is_saturated: whether an older change moves every message by a fixed most, or not at all.
        moves: whether a hidden gradient may change with the point at which it is taken.
        is_finite: whether all numbers of the recursion are finite.
        is_exact: whether the leakage of every hidden part is stated exactly.
        has_signs: whether the leakage has a negative weight.
        groups: the number of groups in use.
    """

    unknown_from: float = inf
    kinds: frozenset[float] = frozenset()
    is_saturated: bool = True
    moves: bool = False
    is_finite: bool = True
    is_exact: bool = True
    has_signs: bool = False
    groups: int = 0

    def take(self, first: int, events: Events, uses: Uses) -> None:
        """Update the facts, given the messages from `first` on, (rounds,), and their uses."""
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
        """Return whether signs are taken into account: together with a bound on norms they say nothing."""
        return self.is_exact and self.has_signs

    def is_all(self, kind: Kind) -> bool:
        """Return whether every message that may depend on data has noise of this kind."""
        return self.kinds <= {kind}


class Ledger(ABC):
    """The costs of one agent's events by group of samples, at growing horizons.

    Args:
        events: (rounds,) of the agent.
        uses: the groups that its messages carry.
        facts: the facts of all events.

    Attributes:
        uses_ceiling: whether hidden changes are priced at the most that they can be.
    """

    uses_ceiling = False

    def __init__(self, events: Events, uses: Uses | Unlisted, facts: Facts) -> None:
        self._events, self._uses, self.facts = events, uses, facts

    @cached_property
    def costs(self) -> Costs:
        """Return the costs of all releases; this reads all events."""
        return Costs(self._events[:])

    @abstractmethod
    def follow(self, horizon: int) -> None:
        """Read the events up to a round."""

    @abstractmethod
    def at(self, horizon: int) -> tuple[Vector, Vector]:
        """Return pure ε and ρ of every group after `horizon` rounds: (groups,) each."""

    @abstractmethod
    def rdp(self, group: Indices) -> Vector:
        """Return Rényi divergences of groups at the last horizon asked for: (m,) -> (m, orders)."""

    @abstractmethod
    def envelope(self) -> tuple[Indices, Vector]:
        """Return releases and changes whose composition costs no less than any group, at the last horizon asked for."""


class Saturated(Ledger):
    """The ledger of an agent whose older changes move every release by a fixed most, or not at all.

    A sample that a message carries k times moves the message k times as far, and this change has one cost: of Gaussian
    noise, k² ρ. The cost of a group is the sum of the costs of its uses, and of the costs of hidden changes since its
    first use: a difference of two cumulative sums. Costs have the columns pure ε, ρ and, where the groups are not too
    many, the Rényi curve. Unbounded costs of hidden changes are counted beside the sums, by pure ε, ρ and curve.
    """

    def __init__(self, events: Events, uses: Uses | Unlisted, facts: Facts) -> None:
        super().__init__(events, uses, facts)
        self.uses_ceiling = facts.moves or not facts.is_saturated
        self._has_curves = facts.groups <= MOST_KEPT and not facts.is_all(Kind.GAUSSIAN)
        self._begin()

    def _begin(self) -> None:
        groups, columns = self.facts.groups, RHO + 1 + len(ORDERS) * self._has_curves
        self._done, self._ceilings = 0, Ceilings()
        self._first = np.full(groups, len(self._events))  # the message that first carries each group
        self._own, self._sum = np.zeros((groups, columns)), np.zeros(columns)  # of uses, and of all hidden changes
        self._begun = np.zeros((groups, columns))  # the sum at the first use of each group
        self._lost, self._begun_lost = np.zeros(RHO + 2, np.int32), np.zeros((groups, RHO + 2), np.int32)

    def follow(self, horizon: int) -> None:
        """Read all events up to a round; from the start, if more rounds were read before."""
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
        """Add the costs of the next rounds: of their uses, by group, and of hidden changes, to the cumulative sums."""
        (message, group), times = uses.distinct()
        costs = Costs(events)
        if self.facts.is_signed:
            hidden = self._signed[self._done : self._done + len(events)]
        else:
            hidden = self._ceilings.take(events, _most_used(uses, len(events)))
        alone = np.zeros((*hidden.shape, len(self._sum)))  # (rounds, vectors, columns) costs of hidden changes
        if hidden.any():
            alone = self._columns(costs, hidden)
        bounded = np.isfinite(alone)
        kinds = np.concatenate([bounded[..., : RHO + 1], bounded[..., RHO + 1 :].all(axis=-1, keepdims=True)], axis=-1)
        sums = np.cumsum(np.concatenate([self._sum[None], np.where(bounded, alone, 0.0).sum(axis=1)]), axis=0)
        unbounded = (~kinds).sum(axis=1, dtype=np.int32)
        lost = np.cumsum(np.concatenate([self._lost[None], unbounded]), axis=0, dtype=np.int32)

        new = np.unique(group[self._first[group] == len(self._events)])
        np.minimum.at(self._first, group, message + self._done)
        at = self._first[new] + 1 - self._done  # all vectors of the message that first carries a sample are new
        self._begun[new], self._begun_lost[new] = sums[at], lost[at]
        is_fresh = message + self._done == self._first[group]
        order = np.argsort(group, kind="stable")
        for k in np.unique(times).tolist():
            direct = k * events.l2
            fresh = again = self._columns(costs, direct)
            if hidden.any():
                # A sample that is used again moves its release by both. The hidden part is in the sums already.
                both = self._columns(costs, direct + hidden)
                with np.errstate(invalid="ignore"):
                    again = np.where(np.isinf(both), np.inf, both - alone)
            fresh, again = fresh.sum(axis=1), again.sum(axis=1)
            alike = order[times[order] == k]
            for some in (alike[start : start + AT_ONCE] for start in range(0, len(alike), AT_ONCE)):
                own = np.where(is_fresh[some, None], fresh[message[some]], again[message[some]])
                starts = np.flatnonzero(np.append(True, np.diff(group[some]) > 0))
                self._own[group[some[starts]]] += np.add.reduceat(own, starts)
        self._sum, self._lost = sums[-1], lost[-1]

    @cached_property
    def _signed(self) -> Vector:
        """Return the most that older changes can move each message, of all rounds at once: (rounds, vectors)."""
        rounds = len(self._events)
        return ceilings(self._events[:], _most_used(self._uses.between(0, rounds), rounds))

    def _columns(self, costs: Costs, delta: Vector) -> Vector:
        """Return the costs of releases that move by `delta`: (rounds, vectors) -> (rounds, vectors, columns)."""
        every, changes = np.arange(delta.size), delta.ravel()
        columns = [costs.pure(every, changes)[:, None], costs.rho(every, changes)[:, None]]
        if self._has_curves:
            columns.append(costs.rdp(every, changes))
        return np.concatenate(columns, axis=1).reshape(*delta.shape, -1)

    def _read(self, group: Indices, columns: slice, lost: slice) -> Vector:
        """Return columns of the costs of groups: (m,) -> (m, columns). `lost` are the columns of unbounded costs."""
        is_begun = (self._first[group] < self._done)[:, None]
        since = is_begun * (self._sum[columns] - self._begun[group, columns])
        unbounded = (self._lost[lost] > self._begun_lost[group, lost]) & is_begun
        return np.asarray(np.where(unbounded, np.inf, self._own[group, columns] + since))

    def at(self, horizon: int) -> tuple[Vector, Vector]:
        """Return pure ε and ρ of every group after `horizon` rounds: (groups,) each."""
        self.follow(horizon)
        pure, rho = self._read(np.arange(self.facts.groups), slice(0, RHO + 1), slice(0, RHO + 1)).T
        return pure, rho

    def rdp(self, group: Indices) -> Vector:
        """Return Rényi divergences of groups: (m,) -> (m, orders). Where no curves are kept they follow from ρ."""
        if self._has_curves:
            return self._read(group, slice(RHO + 1, None), slice(RHO + 1, RHO + 2))
        return np.asarray(self._read(group, slice(RHO, RHO + 1), slice(RHO, RHO + 1)) * ORDERS)

    def envelope(self) -> tuple[Indices, Vector]:
        """Return releases and changes that cost no less than any group.

        They are, for each kind of noise and each k, the k-th largest use of any group, and all hidden changes. A
        release that carries a sample again counts with both its changes, and once more with the hidden change.
        """
        events, horizon = self._events[: self._done], self._done * self._events.vectors
        uses = self._uses.between(0, self._done)
        once, times = uses.distinct()
        message, group = once.released(events.vectors)
        hidden = ceilings(events, _most_used(uses, len(events))).ravel()
        first = (self._first + 1) * events.vectors - 1
        direct = np.repeat(times, events.vectors) * events.l2.ravel()[message]
        direct += np.where(message > first[group], hidden[message], 0.0)
        kind = self.costs.kind[message]
        size = np.where(kind == Kind.GAUSSIAN, self.costs.rho(message, direct), self.costs.pure(message, direct))
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
    """Return, by message, how often at most it carries one sample, and no less than 1: (messages,)."""
    return np.maximum(np.bincount(uses.message, minlength=messages), 1)
