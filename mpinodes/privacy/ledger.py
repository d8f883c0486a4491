"""Add up the privacy costs of one agent's messages, for every group of samples in which adjacent data may differ.

- A *group* is a set of samples that an agent always uses together. By the adjacency, a group may also be a round or the
  whole agent.
- A *release* is one noised vector of a message. If an algorithm adds noise to gradients instead of messages, the noised
  gradients are the releases.
- A *use* of a group is a message that is the first to depend on a loss function with samples of the group.

If a group changes, messages move in two ways:

- Directly: the message of each use moves by at most its L2 sensitivity. If its new loss function uses the group k
  times, the message moves k times as far.
- Through hidden state, which no message reveals: every message after the first use moves by at most the bounds of the
  module `leakage`.

If a release moves by D2 in L2 norm, it moves by at most D2 · `Events.l1_per_l2` in L1 norm. Rounding to a lattice adds
`rounding_l2` to the L2 change and `rounding_l1` to the L1 change. The privacy cost of the release follows from the two
changes and the distribution of the noise.

- `Costs` computes the costs of single releases: pure ε, ρ of zCDP and a Rényi curve. If secret coins draw the batch of
  a release, the pure ε and the Rényi curve can be smaller (`subsampling`).
- `Ledger` adds up the costs of releases, for each group. It has two subclasses: `Saturated`, in this file, and
  `recursive.Recursive`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from math import inf, log
from typing import NamedTuple

import numpy as np

from mpinodes.core.events import STRETCH, Events, Kind, Sampling
from mpinodes.core.messages import Vector
from mpinodes.privacy.curves import ORDERS, laplace_rdp, pure_rdp, pure_rho, shift_rho
from mpinodes.privacy.gamma_norm import gamma_norm_rdp
from mpinodes.privacy.leakage import Ceilings, Indices, ceilings, has_signs
from mpinodes.privacy.subsampling import amplified_pure, sampled_rdp

AT_ONCE = 2048  # number of messages, or of uses, whose costs are computed in one call
FEW_LAWS = 64  # if releases of secret batches have more different costs, these costs are rounded up before comparison
MOST_KEPT = 50_000  # Rényi curves are kept for agents with at most this number of groups
PURE, RHO = 0, 1  # columns of an array of costs; the columns after them are the Rényi curve


class Uses(NamedTuple):
    """Hold the uses of groups of samples by one agent's messages, as pairs (message, group), ascending by message.

    A pair says that the message is the first to depend on a loss function with samples of the group. If this loss
    function uses the group k times, there are k equal pairs. Messages are counted from 0.
    """

    message: Indices
    group: Indices

    @classmethod
    def of(cls, events: Events, groups: Callable[[int], Sequence[int]]) -> Uses:
        """Return pairs (message, group of samples) for one agent: the groups in the new loss function of each message.

        A loss function is new in the first message that depends on it. The field `uses` of a message's event is the
        round of the new loss function, or 0 if there is none.

        Args:
            events: the noise and sensitivity of the agent's messages, one event for each round.
            groups: maps a round to the groups whose samples are in the loss of that round.
        """
        carried = [groups(r) if r else () for r in events.uses.tolist()]
        times = np.array([len(c) for c in carried], np.int64)
        group = np.fromiter((g for c in carried for g in c), np.int64, int(times.sum()))
        return cls(np.repeat(np.arange(len(events)), times), group)

    def between(self, first: int, last: int) -> Uses:
        """Return the pairs (message, group of samples) of the messages `first` to `last` − 1.

        In the result, the messages are counted from `first`: message `first` has the number 0.
        """
        here = slice(*np.searchsorted(self.message, (first, last)))
        return Uses(self.message[here] - first, self.group[here])

    def distinct(self) -> tuple[Uses, Indices]:
        """Return the distinct pairs (message, group), and an array that says how many times each pair occurs."""
        pair, times = np.unique(self.message << 32 | self.group, return_counts=True)
        return Uses(pair >> 32, pair & (1 << 32) - 1), times

    @property
    def groups(self) -> int:
        """Return the number of groups of samples: the largest group number plus 1."""
        return int(self.group.max(initial=-1)) + 1


class Unlisted:
    """Find the pairs (message, group of samples) of one agent block by block, to save memory.

    A pair says that the message is the first to depend on a loss function with samples of the group. The function
    `between(first, last)` returns the pairs as `Uses.between` does, and caches its last result.

    Args:
        events: the noise and sensitivity of the agent's messages, one event for each round.
        of: maps a round to the groups whose samples are in the loss of that round.
    """

    def __init__(self, events: Events, of: Callable[[int], Sequence[int]]) -> None:
        self.between = lru_cache(maxsize=1)(lambda first, last: Uses.of(events[first:last], of))


class Costs:
    """Compute the privacy costs of single releases (noised vectors) from their L2 changes between adjacent data.

    In the methods, `t` has the numbers of some releases, and `delta` has the L2 change of each of these releases.

    - If secret coins draw the batch of a release, pure ε and the Rényi curve can be smaller than for a batch of all
      samples. For ρ of zCDP, the value for a batch of all samples is returned.
    - If a replaced sample counts as two zeroed samples (`Sampling.POISSON_REPLACED`), all costs are those of one zeroed
      sample, whose L2 change is half of `delta`.

    Attributes:
        kind: the noise distribution of each release. If the dimension of the vectors is unknown, PURE replaces
            gamma-norm noise.
        roundings: how much rounding adds to the L1 change and to the L2 change of each release, as two arrays. For
            gamma-norm noise, the second array takes the place of the first.
        rate, sampling: for each release, the fields of `Event` that say how a secret batch is drawn.
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
        self.rate, self.sampling = events.rate.ravel(), events.sampling.ravel()
        self._zeroed = np.where(self.sampling == Sampling.POISSON_REPLACED, 0.5, 1.0)

    def pure(self, t: Indices, delta: Vector) -> Vector:
        """Return the pure ε of each release in `t` if the release moves by `delta` in L2 norm between adjacent data.

        If `delta` is 0, the result is 0; otherwise it is inf for Gaussian noise and for no noise. The result includes
        the rounding of the release and, for a secret batch, the smaller cost (`amplified_pure`).
        """
        return amplified_pure(self.rate[t], self.unamplified(t, delta))

    def unamplified(self, t: Indices, delta: Vector) -> Vector:
        """Return the pure ε that each release in `t` would have if its batch contained all samples.

        `delta` is the L2 change of each release between adjacent data.
        """
        delta = delta * self._zeroed[t]
        with np.errstate(divide="ignore", invalid="ignore"):
            shift = np.where(delta == 0, 0.0, (self._ratio[t] * delta + self.roundings[0][t]) / self._scale[t])
        shift = np.where((delta > 0) & (self.kind[t] == Kind.GAUSSIAN), np.inf, shift)
        return np.asarray(self._draws[t] * shift)

    def rho(self, t: Indices, delta: Vector) -> Vector:
        """Return the ρ of zCDP of each release in `t` if the release moves by `delta` in L2 norm between adjacent data.

        If `delta` is 0, the result is 0; otherwise it is inf for no noise. The result includes the rounding of the
        release, and does not become smaller if the batch is secret.
        """
        of_pure, delta = pure_rho(self.unamplified(t, delta)), delta * self._zeroed[t]
        shift = shift_rho(np.where(delta == 0, 0.0, delta + self.roundings[1][t]), self._scale[t])
        shift = np.where(self.kind[t] == Kind.GAMMA_NORM, shift / max(self._dimension, 1), shift)
        return np.asarray(np.where(self.kind[t] == Kind.PURE, of_pure, self._draws[t] * shift))

    def slopes(self) -> tuple[Vector, Vector]:
        """Return two arrays: the shift and the ρ of zCDP of each release (noised vector) for an L2 change of 1.

        The shift is the L1 change (for gamma-norm noise the L2 change) divided by the noise scale, times the number of
        times that the value is sent with fresh noise. Unless the noise is Gaussian, the shift is the pure ε. Without
        noise, both entries are inf. Rounding and secret batches are ignored.
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            shift: Vector = self._draws * (self._ratio / self._scale)
        rho = self._draws * shift_rho(np.ones(len(shift)), self._scale)
        rho = np.where(self.kind == Kind.GAMMA_NORM, rho / max(self._dimension, 1), rho)
        return shift, np.where(self.kind == Kind.PURE, pure_rho(shift), rho)

    def rdp(self, t: Indices, delta: Vector) -> Vector:
        """Return bounds on the Rényi divergences of each release in `t` if the release moves by `delta` in L2 norm.

        The array has a row for each release and a column for each order of `ORDERS`. Without noise, all entries are inf
        if `delta` is above 0. Otherwise each entry is the smallest of these bounds:

        - ρ of zCDP times the order;
        - a bound from the noise distribution, if the noise is not Gaussian;
        - the bound of `sampled_rdp`, if the batch is secret.
        """
        draws = self._draws[t]
        single, rho = self.unamplified(t, delta) / draws, self.rho(t, delta)
        curve: Vector = rho[:, None] * ORDERS
        with np.errstate(over="ignore", invalid="ignore"):
            by_norm = partial(gamma_norm_rdp, self._dimension)
            for kind, curves in ((Kind.LAPLACE, laplace_rdp), (Kind.PURE, pure_rdp), (Kind.GAMMA_NORM, by_norm)):
                here = (self.kind[t] == kind) & np.isfinite(single) & (single > 0)
                if here.any():
                    # Shifts are rounded up to powers of 1.001. Equal shifts share a curve.
                    step = np.ceil(np.log(single[here]) / log(1.001) - 1e-9).astype(int)
                    values, where = np.unique(step, return_inverse=True)
                    curve[here] = np.minimum(curve[here], draws[here, None] * curves(1.001**values)[where])
        drawn = np.flatnonzero(self.rate[t] > 0)
        if len(drawn):  # all draws of a release share the coins of its batch
            laws = np.stack([a[drawn] for a in (self.kind[t], self.sampling[t], self.rate[t], single * draws, rho)])
            if len(np.unique(laws, axis=1).T) > FEW_LAWS:  # within a thousandth, rounded up, costs count as equal
                with np.errstate(divide="ignore", invalid="ignore"):
                    laws[3:] = np.where(laws[3:] > 0, 1.001 ** np.ceil(np.log(laws[3:]) / log(1.001) - 1e-9), 0.0)
            values, where = np.unique(laws, axis=1, return_inverse=True)
            amplified = np.array([sampled_rdp(*law) for law in values.T.tolist()])
            curve[drawn] = np.minimum(curve[drawn], amplified[where.ravel()])
        return curve


@dataclass(slots=True)
class Facts:
    """Collect the facts about an agent's messages that decide how the agent's privacy costs are computed.

    The leakage of a message is the effect of earlier samples on the message, through the agent's hidden state. Hidden
    state is the part of the state that no message reveals.

    Attributes:
        unknown_from: the number of the first message, counted from 0, whose cost is unknown; inf if there is none. A
            cost is unknown if the leakage is unknown, or if a message with a secret batch depends on hidden state.
        kinds: the noise distributions of all messages that may depend on data.
        is_saturated: whether the bound on the effect of an earlier sample, in every message, stays the same however far
            the hidden state has moved.
        moves: whether a changed earlier sample may change a gradient that is taken at an unreleased point.
        is_finite: whether all sensitivities and leakages are finite, apart from the numbers `lipschitz` and `offset`.
        is_exact: whether the leakage of every message that depends on hidden state is exact.
        has_signs: whether the leakage of at least one message has a negative weight.
        is_sampled: whether secret coins draw the batch of at least one message.
        are_pairs: whether a replaced sample counts as two zeroed samples, and the costs are those of one zeroed sample.
        groups: the largest number of a used group of samples, plus 1; 0 if no group is used.
    """

    unknown_from: float = inf
    kinds: frozenset[float] = frozenset()
    is_saturated: bool = True
    moves: bool = False
    is_finite: bool = True
    is_exact: bool = True
    has_signs: bool = False
    is_sampled: bool = False
    are_pairs: bool = False
    groups: int = 0

    def take(self, first: int, events: Events) -> None:
        """Update the facts, except `groups`, with the next block of messages.

        Args:
            first: the number of the first message of the block, counted from 0.
            events: the noise and the leakage (the effect of earlier samples) of the block's messages, one event for
                each round.
        """
        sampled = (events.rate > 0).any(axis=-1)
        self.is_sampled |= bool(sampled.any())
        self.are_pairs |= bool((events.sampling == Sampling.POISSON_REPLACED).any())
        unknown = events.is_unknown | (sampled & events.is_hidden)  # no theorem amplifies hidden state
        if unknown.any():
            self.unknown_from = min(self.unknown_from, first + int(np.argmax(unknown)))
        telling = (events.uses > 0) | unknown
        self.is_finite &= bool(np.isfinite([events.l1, events.l2]).all())
        if events.hidden:
            a, r, lipschitz, offset = map(events.leakage, ("transition", "largest", "lipschitz", "offset"))
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
        """Return whether privacy costs are computed with the signs of the weights in the leakage of messages.

        The leakage is the effect of earlier samples. Signs are used if at least one weight is negative, and the leakage
        of every message that depends on hidden state is exact.
        """
        return self.is_exact and self.has_signs

    @property
    def is_gdp(self) -> bool:
        """Return whether the ε at δ follows exactly from ρ of zCDP, as the ε of Gaussian DP.

        The result is true if the noise of every message that may depend on data is Gaussian, and no batch is secret.
        """
        return self.kinds <= {Kind.GAUSSIAN} and not self.is_sampled


class Ledger(ABC):
    """Hold the privacy costs of one agent's messages for every group of samples, for rounds 1 to a horizon.

    A group is a set of samples that are always used together. If a method is called with a smaller horizon than before,
    the ledger starts again at round 1.

    Args:
        events: the noise, sensitivity and leakage (the effect of earlier samples) of the agent's messages, one event
            for each round.
        uses: pairs (message, group): the message is the first to depend on a loss function with samples of the group.
        facts: facts about all events of the agent.

    Attributes:
        facts: as above.
        uses_ceiling: whether one number for all samples (`leakage.ceilings`) bounds the effect of an earlier sample on
            a message. If false, each group has its own bound, or there is no such effect.
    """

    uses_ceiling = False

    def __init__(self, events: Events, uses: Uses | Unlisted, facts: Facts) -> None:
        self._events, self._uses, self.facts = events, uses, facts

    @cached_property
    def costs(self) -> Costs:
        """Return the object that computes the privacy cost of each single release (noised vector) of the agent."""
        return Costs(self._events[:])

    @abstractmethod
    def follow(self, horizon: int) -> None:
        """Add the privacy costs of all rounds up to `horizon` to the ledger."""

    @abstractmethod
    def at(self, horizon: int) -> tuple[Vector, Vector]:
        """Return two arrays after `horizon` rounds: the pure ε and the ρ of zCDP of every group of samples."""

    @abstractmethod
    def rdp(self, group: Indices) -> Vector:
        """Return the Rényi divergences of groups of samples: a row for each number in `group`, a column for each order.

        The divergences are for rounds 1 to the horizon with which `at` was last called.
        """

    @abstractmethod
    def envelope(self) -> tuple[Indices, Vector]:
        """Return releases (noised vectors) that together cost at least as much as those of any group of samples.

        The result is for a numerical composition of rounds 1 to the last horizon. The first array has the numbers of
        the releases, and the second array has how far each release moves in L2 norm.
        """


class Saturated(Ledger):
    """Hold the privacy costs of one agent, with one bound for all samples on the effect of a changed earlier sample.

    The bound, `leakage.ceilings`, is the largest possible effect on a later message through the agent's hidden state
    (which no message reveals). If `Facts.is_saturated` is true, a single group of samples nearly always has this
    effect; otherwise the costs may be loose. The cost of a group is the sum of two parts:

    - The cost of direct changes. A message changes directly if it is the first to depend on a loss function with
      samples of the group. If the loss function uses the group k times, the message moves k times as far.
    - The cost of hidden changes of all messages after the first direct change.

    The cost of a message with both changes is the cost of their sum.
    """

    def __init__(self, events: Events, uses: Uses | Unlisted, facts: Facts) -> None:
        super().__init__(events, uses, facts)
        self.uses_ceiling = facts.moves or not facts.is_saturated
        self._has_curves = facts.groups <= MOST_KEPT and not facts.is_gdp
        self._begin()

    def _begin(self) -> None:
        groups, columns = self.facts.groups, RHO + 1 + len(ORDERS) * self._has_curves
        self._done, self._ceilings = 0, Ceilings()
        self._first = np.full(groups, len(self._events))  # the message of each group's first use
        self._own, self._sum = np.zeros((groups, columns)), np.zeros(columns)  # costs: of uses; of all hidden changes
        self._begun = np.zeros((groups, columns))  # `_sum` at the first use of each group
        # Infinite costs are not added to the sums but counted, in three columns: pure ε, ρ and Rényi curve.
        self._lost, self._begun_lost = np.zeros(RHO + 2, np.int32), np.zeros((groups, RHO + 2), np.int32)

    def follow(self, horizon: int) -> None:
        """Add the privacy costs of all rounds up to `horizon`.

        If later rounds were added before, start again at round 1.
        """
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
        """Add the privacy costs of the next block of rounds.

        Args:
            events: the messages of the block.
            uses: pairs (message, group of samples) of the block; messages are counted from 0 in the block.
        """
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
        at = self._first[new] + 1 - self._done  # the message of a group's first use has no hidden change of the group
        self._begun[new], self._begun_lost[new] = sums[at], lost[at]
        is_fresh = message + self._done == self._first[group]
        order = np.argsort(group, kind="stable")
        for k in np.unique(times).tolist():
            direct = k * events.l2
            fresh = again = self._columns(costs, direct)
            if hidden.any():
                # A group that is used again moves the release by its direct and its hidden change together. The
                # sums already hold the cost of the hidden change, so that cost is subtracted.
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
        """Return how far a change of any earlier sample can move each vector of each message: (rounds, vectors).

        The bounds use the signs of the weights in the messages' leakages (the effects of earlier samples).
        """
        rounds = len(self._events)
        return ceilings(self._events[:], _most_used(self._uses.between(0, rounds), rounds))

    def _columns(self, costs: Costs, delta: Vector) -> Vector:
        """Return the privacy costs of releases that move by `delta` in L2 norm, as an array (rounds, vectors, columns).

        A release is one noised vector of a message. The columns are pure ε, ρ of zCDP and, if Rényi curves are stored,
        one column for each Rényi order.
        """
        every, changes = np.arange(delta.size), delta.ravel()
        columns = [costs.pure(every, changes)[:, None], costs.rho(every, changes)[:, None]]
        if self._has_curves:
            columns.append(costs.rdp(every, changes))
        return np.concatenate(columns, axis=1).reshape(*delta.shape, -1)

    def _read(self, group: Indices, columns: slice, lost: slice) -> Vector:
        """Return the privacy costs of groups of samples in all rounds so far: a row for each group.

        Args:
            group: the numbers of the groups.
            columns: the columns of the costs that are returned: pure ε, ρ or Rényi curve.
            lost: the columns of the array `_lost` in which the infinite costs of these columns are counted.
        """
        is_begun = (self._first[group] < self._done)[:, None]
        since = is_begun * (self._sum[columns] - self._begun[group, columns])
        unbounded = (self._lost[lost] > self._begun_lost[group, lost]) & is_begun
        return np.asarray(np.where(unbounded, np.inf, self._own[group, columns] + since))

    def at(self, horizon: int) -> tuple[Vector, Vector]:
        """Return two arrays after `horizon` rounds: the pure ε and the ρ of zCDP of every group of samples."""
        self.follow(horizon)
        pure, rho = self._read(np.arange(self.facts.groups), slice(0, RHO + 1), slice(0, RHO + 1)).T
        return pure, rho

    def rdp(self, group: Indices) -> Vector:
        """Return the Rényi divergences of groups of samples: a row for each number in `group`, a column for each order.

        The divergences are for all rounds that were added so far. If no Rényi curves are stored, the result is an upper
        bound: ρ of zCDP times the order.
        """
        if self._has_curves:
            return self._read(group, slice(RHO + 1, None), slice(RHO + 1, RHO + 2))
        return np.asarray(self._read(group, slice(RHO, RHO + 1), slice(RHO, RHO + 1)) * ORDERS)

    def envelope(self) -> tuple[Indices, Vector]:
        """Return releases (noised vectors) that together cost at least as much as those of any group of samples.

        The first array has the numbers of the releases, and the second array has how far each release moves in L2 norm.
        The releases are:

        - Direct changes: for each kind of noise and each k, the most expensive of the k-th most expensive releases of
          all groups. A release changes directly if its message is the first to depend on a loss function with samples
          of the group.
        - Hidden changes: every release after the first direct change of any group, if earlier samples have an effect on
          it.
        """
        events, horizon = self._events[: self._done], self._done * self._events.vectors
        uses = self._uses.between(0, self._done)
        once, times = uses.distinct()
        message = (once.message[:, None] * events.vectors + np.arange(events.vectors)).ravel()  # of each vector
        group = np.repeat(once.group, events.vectors)
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
    """Return, for each message, a bound on how many times its new loss function uses one group of samples.

    A loss function is new in the first message that depends on it. The bound is the number of pairs (message, group) of
    the message, but at least 1.
    """
    return np.maximum(np.bincount(uses.message, minlength=messages), 1)
