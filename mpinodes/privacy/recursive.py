"""Ledgers that follow what a change of every group makes of an agent's messages, round by round, agents side by side.

Where groups have come to the same place (at the cap of what a gradient moves, most often), an older change of either
does the same from then on: they go on as one *course*. So time grows with the rounds and the courses, not with the
rounds and the groups. Courses join at the largest of their places, and what an older change makes is monotone in its
size: nothing is ever below the recursion of each group by itself.

The recursion prices Laplace, Gaussian, gamma-norm and pure mechanisms alike: given all that was sent before, a bound on
the change of the next message is a public constant, and costs of such bounds add up (ρ, Rényi curves; for Gaussian
noise Σ (change/σ)² exactly). Two conditions make it finite and true. The gradient is Lipschitz in the point that it is
taken at, with a finite public constant; clipping does not expand. And the weight with which an agent's own state enters
its next state without noise is public and stands in the leakage's transition; a weight on its own release costs
nothing, for the release was sent.

How far above the recursion the result is depends on what joins:

- what is alike to rounding, always;
- of more courses than `FEW`, once what is within `LOOSE`: what an older change makes grows no faster than it, so that
  costs are above by no more than that;
- what moves a message by next to nothing beside what any group has cost, coarsely: it costs nothing that counts,
  unless it should grow back by as much.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, isinf
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mpinodes.core.events import STRETCH, Events, Kind
from mpinodes.core.messages import Vector
from mpinodes.privacy.curves import ORDERS
from mpinodes.privacy.leakage import LARGEST_HISTORY, Indices, Lanes, Signed
from mpinodes.privacy.ledger import MOST_KEPT, PURE, RHO, Facts, Ledger, Saturated, Unlisted, Uses
from mpinodes.privacy.shifts import Counts, Prices, Shifts, Used, columns

BLOCK = 512  # uses followed, of all agents, before courses are looked at; no more than a quarter as many rounds
FEW = 512  # courses of an agent, up to which all are followed to rounding

# Bits by which two doubles may differ and count as one: 64 are 1e-14 of them.
ALIKE, LOOSE, COARSE, COARSEST = 6, 44, 49, 56  # 1e-14, 0.4 %, an eighth, by 2^16
SMALL, NOTHING = 1e-6, 1e-17  # of what a group has cost at least: what moves a message by less is coarse, and coarsest
FLOOR = 1e-100  # of the same: nothing but 0 is below, where doubles end and are slow


def _cells(values: Vector, bits: Any) -> Indices:
    """Numbers that are equal where values >= 0 are alike but for some of their last bits; 0 is alike to 0 alone."""
    return np.where(values == 0, -1, np.ascontiguousarray(values).view(np.int64) >> bits)


@dataclass(slots=True)
class Places:
    """All that goes on, as plain arrays; n agents, g groups of each, c courses, w columns of a cost.

    Attributes:
        own: (n, g, w) what each group has cost beside its course.
        course: (n, g) by which it goes on; −1: it has not been used.
        agent: (c,) whose a course is.
        members: (c,) how many groups go on by it.
        place: (parts, c) how far the hidden parts are moved.
        cost: (c, w) since it began.
        is_raised: (c,) whether it was by as much as it may be.
        least, most: (n,) what a use has cost at least, and a hidden part moved by 1 at most, pure ε.
    """

    own: Vector
    course: Indices
    agent: Indices
    members: Indices
    place: Vector
    cost: Vector
    is_raised: NDArray[np.bool_]
    least: Vector
    most: Vector

    @classmethod
    def new(cls, agents: int, groups: int, parts: int, columns: int) -> Places:
        """Before the first round."""
        none = np.zeros(0, np.int64)
        return cls(
            np.zeros((agents, groups, columns)), np.full((agents, groups), -1), none, none, np.zeros((parts, 0)),
            np.zeros((0, columns)), np.zeros(0, bool), np.full(agents, np.inf), np.zeros(agents),
        )  # fmt: skip


class Agent(NamedTuple):
    """What there is to follow: events, (rounds,), what they use, and what holds of all of them."""

    events: Events
    uses: Uses | Unlisted
    facts: Facts


class Joined:
    """By which course every group goes on, while courses join: groups stay with the one that they began by.

    `Places.course` holds nodes meanwhile, courses that were: what a group has cost more than the course that its own
    has joined is added to it when it is looked for, or when all are settled.
    """

    def __init__(self, state: Places) -> None:
        self._state = state
        self._begin(0)

    def _begin(self, more: int) -> None:
        """Anew, with room for at least so many more courses."""
        s = self._state
        courses = len(s.agent)
        room = max(4096, 4 * (courses + more), int((s.course >= 0).sum()) // 4)
        self.node = np.arange(courses)  # of every course that goes on
        self._nodes, self._parent = courses, np.arange(room)
        self._more = np.empty((room, s.cost.shape[1]))

    def settle(self, more: int = 0) -> None:
        """Name the courses of all groups, and have room for so many more."""
        s = self._state
        own, course = s.own.reshape(-1, s.own.shape[-1]), s.course.ravel()
        used = np.flatnonzero(course >= 0)
        for some in np.array_split(used, len(used) // 16_384 + 1):
            course[some], paid = self.find(some)
            own[some] += paid
        self._begin(more)

    def find(self, group: Indices) -> tuple[Indices, Vector]:
        """The courses of groups, (m,) places in `Places.course`, and what they have cost more: (m, w)."""
        node = self._state.course.ravel()[group]
        more = np.zeros((len(group), self._more.shape[1]))
        while len(moving := np.flatnonzero(self._parent[node] != node)):
            more[moving] += self._more[node[moving]]
            node[moving] = self._parent[node[moving]]
        return np.searchsorted(self.node, node), more

    def reserve(self, courses: int) -> None:
        """Have room for so many new ones."""
        if self._nodes + courses > len(self._parent):
            self.settle(courses)

    def open(self, kept: Indices, new: int) -> Indices:
        """Nodes of new courses, after those that are kept."""
        nodes = np.arange(self._nodes, self._nodes + new)
        self.node, self._nodes = np.append(self.node[kept], nodes), self._nodes + new
        return nodes

    def join(self, guests: Indices, hosts: Indices) -> None:
        """Courses go on by others."""
        cost, node = self._state.cost, self.node
        self._parent[node[guests]] = node[hosts]
        more = cost[guests]
        with np.errstate(invalid="ignore"):
            more -= cost[hosts]
        lost = np.isinf(cost[hosts, -1])  # as those of their guests are
        more[lost] = np.nan_to_num(more[lost], nan=0.0)
        self._more[node[guests]] = more


class Courses:
    """Follows the groups of several agents, by bounds on norms.

    Args:
        state: from which to go on; between calls of `take` it is all that there is.
        shifts: for what a Rényi curve is made of; None: none is.
    """

    def __init__(self, state: Places, shifts: Shifts | None) -> None:
        self.state, self._shifts = state, shifts

    def take(self, events: Events, uses: Sequence[Uses]) -> None:
        """The next rounds, (rounds, agents), and what they use by agent."""
        self._have_room(max(each.groups for each in uses))
        prices, lanes, s = Prices(events, self._shifts), Lanes(events), self.state
        agent = np.repeat(np.arange(len(uses)), [len(each.message) for each in uses])
        message, group = (np.concatenate(column) for column in zip(*uses, strict=True))
        order = np.argsort(message, kind="stable")
        message, agent, group = message[order], agent[order], group[order]
        s.most = np.maximum(s.most, np.einsum("tav,tavp->tap", prices.slope, lanes.reads).max(axis=(0, 2)))
        np.minimum.at(s.least, agent, (prices.slope * events.l2).sum(axis=2)[message, agent])
        rounds = int(np.clip(BLOCK * len(events) // max(1, len(message)), -(-BLOCK // 16), -(-BLOCK // 4)))
        joined = Joined(s)
        for first in range(0, len(events), rounds):
            here = slice(first, min(first + rounds, len(events)))
            of = slice(*np.searchsorted(message, (first, here.stop)))
            used = self._board(joined, message[of] - first, agent[of], group[of], here.stop - first)
            before = used.begun_before(here.stop - here.start)
            moved, s.place = lanes.follow(here, s.agent, s.place, used.message, used.course, before)
            s.cost += prices.costs(here, s.agent, moved, used, s.least)
            self._join(joined)
        joined.settle()

    def _have_room(self, groups: int) -> None:
        """For so many groups of each agent."""
        s = self.state
        if (more := groups - s.course.shape[1]) > 0:
            s.course = np.pad(s.course, ((0, 0), (0, more)), constant_values=-1)
            s.own = np.pad(s.own, ((0, 0), (0, more), (0, 0)))

    def _board(self, joined: Joined, message: Indices, agent: Indices, group: Indices, rounds: int) -> Used:
        """Give groups that will be used courses of their own, from where they are; those that are used alike, one."""
        s = self.state
        pairs, pair = np.unique(agent * s.course.shape[1] + group, return_inverse=True)
        joined.reserve(len(pairs))
        own, course = s.own.reshape(-1, s.own.shape[-1]), s.course.ravel()
        before, begun = np.full(len(pairs), -1), course[pairs] >= 0
        before[begun], more = joined.find(pairs[begun])
        own[pairs[begun]] += more + s.cost[before[begun]]
        s.members -= np.bincount(before[begun], minlength=len(s.members))
        first, alike = _alike(pairs // s.course.shape[1], before, message, pair, rounds)
        kept, origin = np.flatnonzero(s.members), before[first]
        course[pairs] = joined.open(kept, len(first))[alike]
        s.agent = np.append(s.agent[kept], pairs[first] // s.course.shape[1])
        s.members = np.append(s.members[kept], np.bincount(alike, minlength=len(first)))
        came = np.zeros((len(s.place), len(first)))
        came[:, origin >= 0] = s.place[:, origin[origin >= 0]]
        s.place = np.append(s.place[:, kept], came, axis=1)
        raised = np.zeros(len(first), bool)
        raised[origin >= 0] = s.is_raised[origin[origin >= 0]]
        s.is_raised = np.append(s.is_raised[kept], raised)
        s.cost = np.append(s.cost[kept], np.zeros((len(first), s.cost.shape[1])), axis=0)
        one = first[alike[pair]] == pair
        ever = np.append(np.ones(len(kept), bool), origin >= 0)
        return Used(message[one], len(kept) + alike[pair[one]], ever)

    def _join(self, joined: Joined) -> None:
        """Join courses that are alike."""
        s = self.state
        floor = np.divide(FLOOR * s.least, s.most, where=s.most > 0, out=np.zeros(len(s.most)))[s.agent]
        np.maximum(s.place, floor, out=s.place, where=s.place > 0)
        for crowded in (False, True):
            if not len(s.agent):
                return
            with np.errstate(invalid="ignore"):
                moves = s.most[s.agent] * s.place.max(axis=0)  # nan: not known
            bits = np.full(len(s.agent), ALIKE)
            if crowded:
                many = np.bincount(s.agent)[s.agent] > FEW
                bits[many & ~s.is_raised] = LOOSE
                bits[many & (moves <= SMALL * s.least[s.agent])] = COARSE
            bits[moves <= NOTHING * s.least[s.agent]] = COARSEST
            keys = (*_cells(s.place, bits), bits, *np.isinf(s.cost[:, [PURE, -1]]).T, s.agent)
            order = np.lexsort(keys)
            apart = np.any([key[order[1:]] != key[order[:-1]] for key in keys], axis=0)
            starts = np.flatnonzero(np.append(True, apart))
            hosts = order[starts]  # the oldest of each
            joined.join(order[1:][~apart], np.repeat(hosts, np.diff(np.append(starts, len(order))) - 1))
            place, oldest = s.place[:, order], np.argsort(hosts)
            highest, lowest = (most.reduceat(place, starts, axis=1) for most in (np.maximum, np.minimum))
            raised = np.logical_or.reduceat(s.is_raised[order], starts)
            raised |= (bits[hosts] != ALIKE) & (highest > lowest).any(axis=0)
            s.members = np.add.reduceat(s.members[order], starts)[oldest]
            s.place, s.is_raised, kept = highest[:, oldest], raised[oldest], hosts[oldest]
            joined.node, s.agent, s.cost = joined.node[kept], s.agent[kept], s.cost[kept]
            if np.bincount(s.agent).max() <= FEW:
                return

    def costs(self, agent: int, group: Indices, columns: slice) -> Vector:
        """What groups of an agent have cost: (m,) -> (m, columns)."""
        s = self.state
        found, course = s.own[agent, group, columns], s.course[agent, group]
        found[course >= 0] += s.cost[course[course >= 0], columns]
        return found


def _alike(agent: Indices, before: Indices, message: Indices, pair: Indices, rounds: int) -> tuple[Indices, Indices]:
    """Of groups that come from the same course and are used in the same messages, the first; and by group, which."""
    if len(np.unique(agent[pair] * rounds + message)) == len(message):
        return np.arange(len(agent)), np.arange(len(agent))
    times = np.zeros((len(agent), rounds), np.int64)
    np.add.at(times, (pair, message), 1)
    keys = np.column_stack([agent, before, times])
    _, first, alike = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    return first, alike.ravel()


class Exact:
    """Follows the groups of one agent whose dynamics are exact, signs and all: none goes on by another's course.

    Time and memory grow with the square of the rounds.
    """

    def __init__(self, events: Events, groups: int, shifts: Shifts | None) -> None:
        self._response, self._shifts, self._done = Signed(events, groups), shifts, 0
        self._before = np.zeros(groups, bool)
        self._costs = np.zeros((groups, columns(shifts)))

    def take(self, events: Events, uses: Sequence[Uses]) -> None:
        """As `Courses`."""
        for first in range(0, len(events), BLOCK):
            last = min(first + BLOCK, len(events))
            self._follow(events[first:last], Used(*uses[0].between(first, last), self._before))

    def _follow(self, events: Events, used: Used) -> None:
        groups = len(self._before)
        moved = np.zeros((events.vectors, len(events), groups))
        starts = np.searchsorted(used.message, np.arange(len(events) + 1))
        for t in range(len(events)):
            moved[:, t] = self._response.step(self._done + t, used.course[starts[t] : starts[t + 1]])
        prices = Prices(events, self._shifts)
        self._costs += prices.costs(slice(None), np.zeros(groups, np.int64), moved, used, np.zeros(1))
        self._before, self._done = used.begun(len(events))[-1], self._done + len(events)

    def costs(self, agent: int, group: Indices, columns: slice) -> Vector:
        """As `Courses`."""
        return self._costs[group, columns]


class Followed:
    """The events of agents that are followed side by side, as far as they were asked for.

    Args:
        of: by agent its events, (rounds,), its uses, and what holds of all of them.
        shifts: as of `Courses`.
    """

    def __init__(self, of: Sequence[Agent], shifts: Shifts | None) -> None:
        self._of, self._done = of, 0
        events, _, facts = of[0]
        groups = max(each.groups for _, _, each in of)
        self._courses: Courses | Exact
        if facts.is_signed:
            self._courses = Exact(events[:], groups, shifts)
        else:
            self._courses = Courses(Places.new(len(of), groups, events.hidden, columns(shifts)), shifts)

    def follow(self, horizon: int) -> None:
        """On to there.

        Raises:
            ValueError: it was asked, of any agent, for more rounds before.
        """
        if horizon < self._done:
            raise ValueError(f"round {horizon} is asked for, and {self._done} were followed")
        while self._done < horizon:
            first, last = self._done, min(self._done + STRETCH, horizon)
            some = [(events[first:last], uses.between(first, last)) for events, uses, _ in self._of]
            data = np.stack([events.data for events, _ in some], axis=1)
            self._courses.take(Events(data, self._of[0][0].dimension), [uses for _, uses in some])
            self._done = last

    def costs(self, horizon: int, agent: int, group: Indices, columns: slice = slice(None)) -> Vector:
        """What groups of an agent have cost after so many rounds: (m, columns).

        Raises:
            ValueError: as of `follow`.
        """
        self.follow(horizon)
        return self._courses.costs(agent, group, columns)


class Recursive(Ledger):
    """Every group's own response, followed round by round.

    Args:
        events, uses, facts: as of any ledger.
        followed: by which they are, with others'; None: by themselves.
        place: of this agent among them.
    """

    def __init__(
        self, events: Events, uses: Uses | Unlisted, facts: Facts, followed: Followed | None = None, place: int = 0
    ) -> None:
        super().__init__(events, uses, facts)
        self._place = place
        self._followed = followed or Followed([Agent(events, uses, facts)], _curves([Agent(events, uses, facts)]))
        self._horizon, self._read = -1, np.empty((0, 2))

    def follow(self, horizon: int) -> None:
        """See `Ledger.follow`."""
        self._followed.follow(horizon)

    def at(self, horizon: int) -> tuple[Vector, Vector]:
        """See `Ledger.at`."""
        if horizon != self._horizon:  # an agent's loss and the network's are of the same
            self._read = self._followed.costs(horizon, self._place, np.arange(self.facts.groups), slice(0, 2))
            self._horizon = horizon
        pure, rho = self._read[:, PURE], self._read[:, RHO]
        return (np.where(pure > 0, inf, 0.0) if Kind.GAUSSIAN in self.facts.kinds else pure), rho

    def rdp(self, group: Indices) -> Vector:
        """See `Ledger.rdp`. Of more groups than are kept, by ρ alone."""
        found = self._followed.costs(self._horizon, self._place, group)
        return found[:, 2:] if found.shape[1] > 2 else found[:, [RHO]] * ORDERS

    def envelope(self) -> tuple[Indices, Vector]:
        """See `Ledger.envelope`: for every shift, as many releases above it as any group has.

        What rounding adds is in the shift and counts once more as the release's own. Of other noise than Laplace's the
        envelope is that of the ceiling.
        """
        if not self.facts.is_all(Kind.LAPLACE):
            ceiling = Saturated(self._events, self._uses, self.facts)
            ceiling.follow(self._horizon)
            return ceiling.envelope()
        shifts = Counts()
        followed = Followed([Agent(self._events, self._uses, self.facts)], shifts)
        counts = followed.costs(self._horizon, 0, np.arange(self.facts.groups))[:, 2:]
        above = np.rint(counts)[:, ::-1].cumsum(axis=1).max(axis=0)[::-1]
        numbers = (above - np.append(above[1:], 0)).astype(int)
        slope = self.costs.slopes()[0]
        first = int(np.argmax(np.where(np.isfinite(slope), slope, -1.0)))
        changes = np.repeat(shifts.sizes, numbers)
        return np.full(len(changes), first), changes / slope[first]


def open_ledgers(of: Sequence[tuple[Events, Uses | Unlisted]]) -> list[Ledger]:
    """The ledgers of agents, by the events, (rounds,), and uses of each."""
    facts = [Facts() for _ in of]
    for first in range(0, max(len(events) for events, _ in of), STRETCH):
        for each, (events, uses) in zip(facts, of, strict=True):
            some = events[first : first + STRETCH]
            each.take(first, some, uses.between(first, first + len(some)))
    agents = [Agent(*each, holds) for each, holds in zip(of, facts, strict=True)]
    beside: dict[Any, list[int]] = {}
    for i, agent in enumerate(agents):
        alone = i if agent.facts.is_signed else None
        key = _is_followed(agent), alone, agent.facts.groups > MOST_KEPT, agent.facts.kinds
        beside.setdefault(key, []).append(i)
    ledgers: dict[int, Ledger] = {}
    for (is_followed, *_), places in beside.items():
        together = [agents[i] for i in places]
        followed = Followed(together, _curves(together)) if is_followed else None
        for place, i in enumerate(places):
            ledgers[i] = Recursive(*agents[i], followed, place) if followed else Saturated(*agents[i])
    return [ledgers[i] for i in range(len(of))]


def open_ledger(events: Events, uses: Uses | Unlisted) -> Ledger:
    """The ledger of one agent's events: (rounds,)."""
    return open_ledgers([(events, uses)])[0]


def _curves(agents: Sequence[Agent]) -> Shifts | None:
    """Return what keeps the Rényi curves of agents; None: ρ says it all, or the groups are too many."""
    kinds = frozenset().union(*(agent.facts.kinds for agent in agents))
    curved = [kind for kind in (Kind.LAPLACE, Kind.GAMMA_NORM, Kind.PURE) if kind in kinds]
    if not curved or max(agent.facts.groups for agent in agents) > MOST_KEPT:
        return None
    dimension = agents[0].events.dimension
    kind = Kind.PURE if curved[0] == Kind.GAMMA_NORM and not dimension else curved[0]
    return Shifts(kind, dimension)


def _is_followed(agent: Agent) -> bool:
    """Return whether groups can be followed, and there is something to follow."""
    events, _, facts = agent
    if not events.hidden or facts.is_saturated:
        return False
    fits = not facts.is_signed or len(events) * facts.groups <= LARGEST_HISTORY
    return fits and Kind.CLEAN not in facts.kinds and isinf(facts.unknown_from) and facts.is_finite
