"""A ledger that follows what a change of every group makes of an agent's messages, round by round.

Where groups have come to the same place (at the cap of what a gradient moves, most often), an older change of either
does the same from then on: they go on as one *course*. So time grows with the rounds and the courses, not with the
rounds and the groups. As long as there are few courses, only those join that are alike to rounding, and none is left
before what it may cost yet is lost in rounding; of many, those join that are alike within `LOOSE`, and go on from the
larger place. What an older change makes is monotone in its size and grows no faster than it, so that nothing is ever
below the recursion of each group by itself, nor more than `LOOSE` above it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from math import log

import numpy as np
from numpy.typing import NDArray

from mpinodes.core.events import Events, Kind
from mpinodes.core.messages import Vector
from mpinodes.privacy.curves import ORDERS, laplace_rdp
from mpinodes.privacy.leakage import Indices, Norms, ceilings, fits, response
from mpinodes.privacy.ledger import Costs, Ledger, Saturated, Uses

BLOCK = 128  # rounds followed before courses are looked at
FEW = 512  # courses, up to which all are followed to rounding
ALIKE, LOOSE = 1e-14, 4e-3  # how far apart two places are, and what is left of a course, that count as nothing
MOST_KEPT = 50_000  # groups whose Rényi curves are kept

NEXT_TO_NOTHING = float(np.finfo(float).tiny)

PURE, RHO = 0, 1  # columns of what groups and courses have cost; then the counts of shifts, or the Rényi curve


class Shifts:
    """Shifts of Laplace noise, rounded up to buckets.

    Args:
        top: the largest.
        ratio: of two buckets next to each other.
        number: of buckets; what is smaller than all counts as the smallest.
    """

    def __init__(self, top: float, ratio: float, number: int) -> None:
        self.sizes = top * ratio ** -np.arange(number)[::-1]
        self._lowest, self._log = log(self.sizes[0]), log(ratio)

    def place(self, shift: Vector) -> Indices:
        """The bucket of each, all > 0."""
        at = np.ceil((np.log(np.minimum(shift, self.sizes[-1])) - self._lowest) / self._log - 1e-9)
        return np.asarray(at.clip(0), np.int64)


@dataclass(slots=True)
class Course:
    """Some groups that go on together.

    Attributes:
        members: the groups.
        until: the last message that carries samples of any.
        above: at most how far above its own cost any will be at the end, relatively.
        least: no member has cost less by itself, pure ε; below 0 where the course has cost more than it.
    """

    members: set[int]
    until: int
    above: float = 0.0
    least: float = 0.0


class Recursive(Ledger):
    """Every group's own response, followed round by round, for Laplace noise.

    Args:
        events, uses: as of any ledger.
        by_bucket: keep counts of shifts in buckets 2 % apart instead of Rényi curves of buckets 0.3 % apart.
    """

    def __init__(self, events: Events, uses: Uses, by_bucket: bool = False) -> None:
        super().__init__(events, uses)
        self._uses, groups = uses, uses.groups
        self._done = 0
        self._response = response(events, groups)
        self._starts = np.searchsorted(uses.message, np.arange(len(events) + 1))
        noised = np.flatnonzero(events.scale.ravel() > 0)
        self._shift, rho = self.costs.slopes()
        # The least ratio of L1 to L2 change turns a shift back into the largest ρ; that of rounding is no less.
        self._rho_per_shift = float(np.max(rho[noised] / self._shift[noised] ** 2, initial=0.0))
        most = (self._most_used[:, None] * events.l2 + ceilings(events, self._most_used)).ravel()
        most_pure = self.costs.pure(noised, most[noised])
        top = float(np.max(most_pure[np.isfinite(most_pure)], initial=np.finfo(float).tiny))
        self._shifts = Shifts(top, 1.02, 700) if by_bucket else Shifts(top, 1.003, 4600)
        self._each: Vector  # by bucket, what a shift adds to the columns after the first two
        if by_bucket:
            self._each = np.eye(len(self._shifts.sizes))
        else:
            self._each = np.full((len(self._shifts.sizes), len(ORDERS) if groups <= MOST_KEPT else 0), np.nan)
        width = 2 + self._each.shape[1]
        # A group has cost what it has by itself and what its course has: while it has one.
        self._by_itself = np.zeros((groups, width))
        self._course = np.full(groups, -1)
        self._of_course = np.zeros((0, width))
        self._courses: list[Course] = []
        self._last_use = np.zeros(groups, np.int64)
        np.maximum.at(self._last_use, uses.group, uses.message)
        self._norms = self._response if isinstance(self._response, Norms) else None
        if self._norms is None:  # every group is a course of its own, from the start
            self._course = np.arange(groups)
            self._of_course = np.zeros((groups, width))
            self._open({group} for group in range(groups))
        else:
            self._ahead = self._look_ahead(*self._norms.linear())
        # Where releases are rounded, those that are followed no longer are in course 0, which rests at next to nothing.
        self._rests = self._norms is not None and self.costs.has_roundings
        if self._rests:
            self._of_course = np.zeros((1, width))
            self._open([set()])

    def _look_ahead(self, step: Vector, read: Vector) -> Vector:
        """What all messages after message t cost at most per unit of hidden parts, pure: (rounds, parts)."""
        n, k = len(self._events), self._events.vectors
        ahead = np.zeros((n, self._events.hidden))
        with np.errstate(invalid="ignore", over="ignore"):
            cost = _unknown_is_infinite((self._shift.reshape(n, k)[:, :, None] * read).sum(axis=1))
            for t in range(n - 1, 0, -1):
                ahead[t - 1] = (cost[t] + ahead[t]) @ step[t]
        return _unknown_is_infinite(ahead)

    def at(self, horizon: int) -> tuple[Vector, Vector]:
        """See `Ledger.at`."""
        while self._done < horizon:
            self._follow(self._done, min(self._done + BLOCK, horizon))
        whole = self._whole(np.arange(self._groups), 2)
        return whole[:, PURE], whole[:, RHO]

    def _whole(self, group: Indices, columns: int) -> Vector:
        """What groups have cost so far: (m, columns)."""
        found = self._by_itself[group, :columns]
        course = self._course[group]
        found[course >= 0] += self._of_course[course[course >= 0], :columns]
        return found

    def _follow(self, first: int, last: int) -> None:
        """Take messages `first` to `last` - 1 in, and look at the courses."""
        k, begun = self._events.vectors, len(self._courses)
        uses = self._uses.group[self._starts[first] : self._starts[last]]
        fresh = len(uses) if self._norms else 0
        if self._norms:
            self._norms.widen(begun + fresh)
        new = bool(fresh) and bool((self._course[uses] < 0).all()) and len(np.unique(uses)) == fresh
        if new:
            self._course[uses] = np.arange(begun, begun + fresh)
            self._open({group} for group in uses.tolist())
        moved = np.zeros(((last - first) * k, begun + fresh))
        left: list[tuple[int, int, set[int]]] = []
        count, l2 = begun, self._events.l2
        for t, (start, end) in enumerate(
            pairwise((self._starts[first : last + 1] - self._starts[first]).tolist()), first
        ):
            row = (t - first) * k
            here = moved[row : row + k]
            here[:, :count] = self._response.older(t, count)
            here[:, : int(self._rests)] = NEXT_TO_NOTHING
            if start < end:
                if new:
                    into = np.arange(begun + start, begun + end)
                else:
                    into = self._board(uses[start:end].tolist(), here, row, left)
                count = begun + end if new else len(self._courses)
                for vector in range(k):
                    np.add.at(here[vector], into, l2[t, vector])
                self._response.add(t, into)
        self._price(first * k, moved[:, :count], left)
        self._done = last
        if self._norms:
            self._look_at_courses(self._norms)

    def _open(self, members: Iterable[set[int]]) -> None:
        """New courses."""
        self._courses += [Course(each, max(self._last_use[list(each)].tolist(), default=-1)) for each in members]

    def _board(self, used: list[int], here: Vector, row: int, left: list[tuple[int, int, set[int]]]) -> Indices:
        """The courses that are moved by a use of these groups, as often as they are; all their members are.

        A group that leaves others behind gets a course of its own, from the same place.
        """
        together: dict[tuple[int, int], set[int]] = {}
        for group, times in ((used[0], 1),) if len(used) == 1 else Counter(used).items():
            together.setdefault((int(self._course[group]), times), set()).add(group)
        into = []
        for (course, times), members in together.items():
            mine = course
            if course < int(self._rests) or len(members) < len(self._courses[course].members):
                mine = len(self._courses)
                self._open([members])
                self._course[list(members)] = mine
                if course >= 0 and self._norms:
                    self._courses[mine].above = self._courses[course].above
                    self._courses[course].members -= members
                    self._norms.copy(course, mine)
                    here[:, mine] = here[:, course]
                    left.append((course, row, set(members)))
            into += [mine] * times
        return np.array(into)

    def _price(self, release: int, moved: Vector, left: Sequence[tuple[int, int, set[int]]]) -> None:
        """Add what courses cost whose releases from `release` on move by so much: (releases, courses)."""
        number = np.arange(release, release + len(moved))[:, None]
        pure, rho = self.costs.pure(number, moved), self.costs.rho(number, moved)
        self._of_course = np.pad(self._of_course, ((0, moved.shape[1] - len(self._of_course)), (0, 0)))
        if left:
            courses, rows, members = zip(*left, strict=True)
            before = np.arange(len(moved))[:, None] < np.array(rows)
            so_far = self._sums(*(np.where(before, cost[:, courses], 0.0) for cost in (pure, rho)))
            which = np.repeat(np.arange(len(left)), list(map(len, members)))
            # A group may leave more than one course.
            costs = self._of_course[list(courses)] + so_far
            np.add.at(self._by_itself, np.fromiter(chain.from_iterable(members), np.int64), costs[which])
        self._of_course += self._sums(pure, rho)

    def _sums(self, pure: Vector, rho: Vector) -> Vector:
        """By course, what its releases cost in all: (releases, courses) each -> (courses, columns)."""
        found = np.zeros((pure.shape[1], self._of_course.shape[1]))
        found[:, PURE], found[:, RHO] = pure.sum(axis=0), rho.sum(axis=0)
        if self._each.shape[1]:
            from scipy import sparse

            telling = (pure > 0).T
            ends = np.append(0, np.cumsum(telling.sum(axis=1)))
            places = self._shifts.place(pure.T[telling])
            if len(new := np.unique(places[np.isnan(self._each[places, 0])])):
                shift = self._shifts.sizes[new]
                self._each[new] = np.minimum(laplace_rdp(shift), self._rho_per_shift * shift[:, None] ** 2 * ORDERS)
            counts = sparse.csr_array((np.ones(len(places)), places, ends), shape=(len(found), len(self._each)))
            found[:, 2:] = counts @ self._each
        return found

    def _look_at_courses(self, norms: Norms) -> None:
        """Leave those that nobody follows or that can cost no more, and join those that are alike."""
        here = norms.hidden_changes(len(self._courses))
        finite = np.asarray(np.isfinite(self._of_course[:, :2]).all(axis=1))
        with np.errstate(invalid="ignore"):
            ahead = _unknown_is_infinite(self._ahead[self._done - 1] @ here)
        ahead[~here.any(axis=0) | ~finite] = 0.0
        alive = np.array([bool(course.members) for course in self._courses], bool)
        alive[: int(self._rests)] = False
        again = np.array([course.until >= self._done for course in self._courses], bool)
        for much in (ALIKE, LOOSE):
            enough = np.where(again, ALIKE, much / 8) * self._of_course[:, PURE]
            over = np.flatnonzero(alive & ((ahead <= enough) | ~finite))
            self._end(over, ahead[over], again[over])
            alive[over] = False
            alive[self._join(np.flatnonzero(alive), here, much)] = False
            if alive.sum() <= FEW:
                break
        alive[: int(self._rests)] = True
        kept = np.flatnonzero(alive)
        norms.keep(here[:, kept])
        self._of_course = self._of_course[kept]
        self._courses = [self._courses[course] for course in kept.tolist()]
        for course, before in enumerate(kept.tolist()):
            if course != before:
                self._course[list(self._courses[course].members)] = course

    def _end(self, courses: Indices, ahead: Vector, again: NDArray[np.bool_]) -> None:
        """Charge the members of courses with all that may come yet, pure ε, and follow them no longer.

        Where samples come again, their messages move by what is left and by the new use together.
        """
        members = [self._courses[course].members for course in courses.tolist()]
        groups = np.fromiter(chain.from_iterable(members), np.int64)
        which = np.repeat(np.arange(len(courses)), list(map(len, members)))
        # One release of that shift tells no less than many of as much together.
        shift = ahead[None]
        costs = self._of_course[courses] + self._sums(shift, self._rho_per_shift * shift**2)
        # A Rényi divergence of Laplace noise grows no faster than the shift, and ρ by twice the product of the two.
        together = np.ones(costs.shape[1])
        together[PURE], together[RHO] = 0.0, 2 * self._rho_per_shift * self._shifts.sizes[-1]
        costs[again] += ahead[again, None] * together
        self._course[groups] = -1
        if self._rests:
            costs -= self._of_course[0]
            self._course[groups] = 0
            self._courses[0].members.update(groups.tolist())
        self._by_itself[groups] += costs[which]

    def _join(self, courses: Indices, here: Vector, much: float) -> list[int]:
        """Join courses that are alike, the smaller number of members to the larger; returns those that are gone."""
        gone: list[int] = []
        places, ahead, last = here.T.tolist(), self._ahead[self._done - 1].tolist(), -1
        for other in courses[np.lexsort(-here[:, courses][::-1])].tolist():
            one, last = last, other
            if one < 0:
                continue
            place = list(map(max, places[one], places[other]))
            above = max(self._above_from(course, places[course], place, ahead) for course in (one, other))
            if not above <= much:
                continue
            last, less = one, other
            if len(self._courses[one].members) < len(self._courses[other].members):
                last, less = other, one
            host, guest = self._courses[last], self._courses[less]
            members, more = list(guest.members), self._of_course[less] - self._of_course[last]
            self._by_itself[members] += more
            self._course[members] = last
            host.members |= guest.members
            host.least, host.until = min(host.least, guest.least + float(more[PURE])), max(host.until, guest.until)
            here[:, last], places[last], host.above = place, place, above
            gone.append(less)
        return gone

    def _above_from(self, course: int, here: list[float], place: list[float], ahead: list[float]) -> float:
        """How far members of a course are above their own costs, if from here they go on from a larger place.

        All that comes grows no faster than the place, and no faster than without caps.
        """
        ratio, more = 1.0, 0.0
        for own, new, cost in zip(here, place, ahead, strict=True):
            if own < new:
                ratio, more = min(ratio, own / new), more + (new - own) * cost
        cost = float(self._of_course[course, PURE]) + self._courses[course].least
        by_ratio = 1 / ratio if ratio else np.inf
        by_sum = 1 + more / cost if cost > 0 else np.inf
        return (1 + self._courses[course].above) * min(by_ratio, by_sum) - 1

    def rdp(self, group: Indices) -> Vector:
        """See `Ledger.rdp`. Of more groups than are kept, by ρ alone."""
        if self._groups > MOST_KEPT:
            return np.asarray(self._whole(group, 2)[:, [RHO]] * ORDERS)
        return self._whole(group, 2 + len(ORDERS))[:, 2:]

    def envelope(self) -> tuple[Indices, Vector]:
        """See `Ledger.envelope`: for every shift, as many releases above it as any group has.

        What rounding adds is in the shift and counts once more as the release's own.
        """
        counted = Recursive(self._events, self._uses, by_bucket=True)
        counted.at(self._done)
        counts = np.rint(counted._whole(np.arange(self._groups), counted._by_itself.shape[1])[:, 2:])
        above = counts[:, ::-1].cumsum(axis=1).max(axis=0)[::-1]
        numbers = (above - np.append(above[1:], 0)).astype(int)
        shifts = np.repeat(counted._shifts.sizes, numbers)
        first = int(np.argmax(np.where(np.isfinite(self._shift), self._shift, -1.0)))
        return np.full(len(shifts), first), shifts / self._shift[first]


def open_ledger(events: Events, uses: Uses) -> Ledger:
    """The ledger of one agent's events: (rounds,)."""
    if not events.hidden or _is_saturated(events):
        return Saturated(events, uses)
    names = ("transition", "gradient", "sensitivity", "point", "largest", "reads")
    followed = (
        fits(events, uses.groups)
        and Costs(events).is_all(Kind.LAPLACE)
        and not events.is_unknown.any()
        and all(np.isfinite(events.leakage(name)).all() for name in names)
        and bool(np.isfinite([events.l1, events.l2]).all())
    )
    return (Recursive if followed else Saturated)(events, uses)


def _is_saturated(events: Events) -> bool:
    """Whether an older change moves every message as far as it can, or not at all: there is nothing to follow."""
    lipschitz, largest = events.leakage("lipschitz"), events.leakage("largest")
    memory = (events.leakage("transition") != 0).any(axis=(1, 2))
    return bool((~memory & ((largest == 0) | (lipschitz == 0) | np.isinf(lipschitz))).all())


def _unknown_is_infinite(values: Vector) -> Vector:
    return np.where(np.isnan(values), np.inf, values)
