"""Add up the privacy costs of every group of samples, round by round, for several agents at once.

A group is a set of samples that an agent always uses together. If a group changes, the agent's hidden state (which no
message reveals) moves by up to h, and so all later messages. The module `leakage` states the recursion for h. This
module computes the recursion for each group, so the cost of a group in a round decays or grows with the effect of its
change.

After some rounds, many groups have equal h, most often because h reaches the upper bound on the change of a gradient.
Groups with equal h move all later messages equally, so they are merged into a *cluster*. The running time is then
proportional to rounds times clusters, not to rounds times groups. A group that is used again leaves its cluster. A
merged cluster gets the elementwise maximum of the h of its parts. A larger h never gives a smaller cost, so clusters
never make the computed cost of a group smaller.

Only clusters of the same agent are merged, by three rules:

- Clusters whose h are equal up to rounding (`ALIKE`) are merged.
- If an agent has more than `FEW` clusters, clusters whose h are equal up to the relative amount `LOOSE` are merged. A
  cluster whose h was raised by a merge is not merged by this rule again.
- Clusters whose cost in a message is tiny, compared with the smallest cost of a direct change, are merged if their h
  are equal up to a factor. The factor is `COARSEST` if the cost is at most `NOTHING` times the smallest cost. For
  agents with more than `FEW` clusters, the factor is `COARSE` if the cost is at most `SMALL` times the smallest cost.

The costs of all messages add up, because the bound on the change of a message, given all earlier messages, is a public
constant. The recursion is valid under two conditions:

- The constants of the leakage are public, and the gradient changes by no more than its Lipschitz constant (`lipschitz`)
  or its largest change (`largest`) states. Clipping keeps a Lipschitz constant, because clipping is nonexpansive.
- If an agent's next state contains its present state without noise, the weight of the present state is public and is
  part of the leakage's `transition`.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from math import inf, isinf
from typing import NamedTuple

import numpy as np

from mpinodes.core.events import STRETCH, Events, Kind
from mpinodes.core.messages import Vector
from mpinodes.privacy.curves import ORDERS
from mpinodes.privacy.leakage import LARGEST_HISTORY, Indices, Lanes, Signed
from mpinodes.privacy.ledger import MOST_KEPT, PURE, RHO, Facts, Ledger, Saturated, Unlisted, Uses
from mpinodes.privacy.shifts import Counts, Prices, Shifts, Used, columns, shared_table

BLOCK = 32  # rounds between two merges: a constant, so that no cost depends on which agents are computed together
FEW = 512  # up to this number of clusters of an agent, only changes that differ by rounding are merged

# Two doubles that differ only in this number of last bits count as equal: relative 1e-14, 0.4 %, 1/8, and 2^16.
ALIKE, LOOSE, COARSE, COARSEST = 6, 44, 49, 56
# Clusters with a cost per message of at most this share of the smallest cost of a use are merged within COARSE (if the
# agent has more than FEW clusters), or COARSEST.
SMALL, NOTHING = 1e-6, 1e-17
FLOOR = 1e-100  # changes below this share, except 0, are raised to it, because subnormal doubles are slow


class Clusters:
    """Compute the privacy costs of all groups of samples of several agents, with one recursion for each cluster.

    A cluster is a set of groups of one agent whose changes move all later messages equally or nearly equally. The
    effect of a cluster is bounded by norms.

    Args:
        agents: the number of agents.
        groups: the number of groups of samples of each agent.
        parts: the number of hidden parts of an agent's state.
        shifts: the table of Rényi curves; None if no curves are computed.
    """

    def __init__(self, agents: int, groups: int, parts: int, shifts: Shifts | None) -> None:
        self._shifts = shifts
        # The cost of a group is its entry of `_own` plus the entry of `_cost` of its cluster. When a group moves to
        # another cluster, its entry of `_own` is corrected.
        self._own = np.zeros((agents, groups, columns(shifts)))
        self._cluster_of = np.full((agents, groups), -1)  # label of each group's cluster; -1 before the first use
        self._least_use = np.full(agents, np.inf)  # the smallest pure ε of a use so far
        self._most_read = np.zeros(agents)  # the largest pure ε so far of a message if a hidden part moves by 1
        # The next arrays list the clusters, ascending by label. No label is used twice.
        self.labels = np.zeros(0, np.int64)
        self._new_label = 0
        self._agent = np.zeros(0, np.int64)
        self._members = np.zeros(0, np.int64)  # number of groups in the cluster
        self._change = np.zeros((parts, 0))  # h: bounds on how far the hidden parts move
        self._cost = np.zeros((0, columns(shifts)))  # costs since the cluster was made
        self._is_raised = np.zeros(0, bool)  # whether a merge within LOOSE has raised the change

    def take(self, events: Events, uses: Sequence[Uses]) -> None:
        """Add the privacy costs of the next rounds to all groups of samples.

        Args:
            events: (rounds, agents) the noise, sensitivity and leakage (the effect of earlier samples) of the messages.
            uses: for each agent, pairs (message, group): the message is the first to depend on a loss function with
                samples of the group.
        """
        prices, lanes = Prices(events, self._shifts), Lanes(events)
        agent = np.repeat(np.arange(len(uses)), [len(used.message) for used in uses])
        message, group = (np.concatenate(column) for column in zip(*uses, strict=True))
        order = np.argsort(message, kind="stable")
        message, agent, group = message[order], agent[order], group[order]
        read = np.einsum("tav,tavp->tap", prices.slope, lanes.reads).max(axis=(0, 2))
        self._most_read = np.maximum(self._most_read, read)
        np.minimum.at(self._least_use, agent, (prices.slope * events.l2).sum(axis=2)[message, agent])
        for first in range(0, len(events), BLOCK):
            block = slice(first, min(first + BLOCK, len(events)))
            here = slice(*np.searchsorted(message, (first, block.stop)))
            used = self._split(message[here] - first, agent[here], group[here], block.stop - first)
            before = np.concatenate([used.before[None], used.begun(block.stop - first)[:-1]])
            moved, self._change = lanes.follow(block, self._agent, self._change, used.message, used.cluster, before)
            self._cost += prices.costs(block, self._agent, moved, used, self._least_use)
            self._merge()

    def _split(self, message: Indices, agent: Indices, group: Indices, rounds: int) -> Used:
        """Move every group of samples that is used in a block of rounds out of its cluster, into a new cluster.

        A use of a group is a message that is the first to depend on a loss function with samples of the group. Groups
        share a new cluster only if they come from one cluster (or are not in a cluster yet) and each message uses them
        equally often. The cost of each group stays the same.

        Args:
            message: (uses,) the message of each use, counted from 0 in the block, ascending.
            agent: (uses,) the agent of each use.
            group: (uses,) the group of each use.
            rounds: the number of rounds of the block.

        Returns:
            The uses of one group of each new cluster, with the new cluster in place of the group.
        """
        groups = self._cluster_of.shape[1]
        own, label = self._own.reshape(-1, self._own.shape[-1]), self._cluster_of.ravel()
        places, use = np.unique(agent * groups + group, return_inverse=True)  # the used groups; the group of each use
        begun = label[places] >= 0
        before = np.full(len(places), -1)
        before[begun] = np.searchsorted(self.labels, label[places[begun]])
        own[places[begun]] += self._cost[before[begun]]
        self._members -= np.bincount(before[begun], minlength=len(self._members))
        owner = places // groups
        first = new = np.arange(len(places))
        if len(np.unique(agent * rounds + message)) < len(message):
            times = np.zeros((len(places), rounds), np.int64)
            np.add.at(times, (use, message), 1)
            keys = np.column_stack([owner, before, times])
            _, first, new = np.unique(keys, axis=0, return_index=True, return_inverse=True)
            new = new.ravel()
        staying, origin = np.flatnonzero(self._members), before[first]
        is_old = origin >= 0
        labels = self._new_label + np.arange(len(first))
        label[places], self._new_label = labels[new], self._new_label + len(first)
        self.labels = np.append(self.labels[staying], labels)
        self._agent = np.append(self._agent[staying], owner[first])
        self._members = np.append(self._members[staying], np.bincount(new, minlength=len(first)))
        change = np.zeros((len(self._change), len(first)))
        change[:, is_old] = self._change[:, origin[is_old]]
        self._change = np.append(self._change[:, staying], change, axis=1)
        raised = np.zeros(len(first), bool)
        raised[is_old] = self._is_raised[origin[is_old]]
        self._is_raised = np.append(self._is_raised[staying], raised)
        self._cost = np.append(self._cost[staying], np.zeros((len(first), self._cost.shape[1])), axis=0)
        is_first = first[new[use]] == use
        return Used(
            message[is_first], len(staying) + new[use[is_first]], np.append(np.ones(len(staying), bool), is_old)
        )

    def _merge(self) -> None:
        """Merge clusters of the same agent that move later messages nearly equally, or by almost nothing.

        A cluster is a set of groups of samples. The docstring of this module lists the three rules of merging. The
        oldest cluster takes over the groups of the merged clusters; the costs of the groups so far stay the same. Each
        bound on the hidden state becomes the largest bound of the merged clusters.
        """
        floor = np.zeros(len(self._most_read))
        np.divide(FLOOR * self._least_use, self._most_read, where=self._most_read > 0, out=floor)
        np.maximum(self._change, floor[self._agent], out=self._change, where=self._change > 0)
        for is_crowded in (False, True):
            if not len(self._agent):
                return
            with np.errstate(invalid="ignore"):
                moves = self._most_read[self._agent] * self._change.max(axis=0)  # nan: change inf, weight 0
            least = self._least_use[self._agent]
            bits = np.full(len(self._agent), ALIKE)
            if is_crowded:
                many = np.bincount(self._agent)[self._agent] > FEW
                bits[many & ~self._is_raised] = LOOSE
                bits[many & (moves <= SMALL * least)] = COARSE
            bits[moves <= NOTHING * least] = COARSEST
            # Doubles that differ only in these last bits get the same number. 0 is merged only with 0, and a cluster
            # with infinite costs only with clusters that have infinite costs.
            cells = np.where(self._change == 0, -1, np.ascontiguousarray(self._change).view(np.int64) >> bits)
            keys = (*cells, bits, *np.isinf(self._cost[:, [PURE, -1]]).T, self._agent)
            order = np.lexsort(keys)
            is_other = np.any([key[order[1:]] != key[order[:-1]] for key in keys], axis=0)
            starts = np.flatnonzero(np.append(True, is_other))
            oldest = order[starts]
            # The groups of the merged clusters move into the oldest cluster and keep their costs so far.
            target, is_absorbed = np.arange(len(self.labels)), np.zeros(self._new_label + 1, bool)
            target[order[1:][~is_other]] = np.repeat(oldest, np.diff(np.append(starts, len(order))) - 1)
            is_absorbed[self.labels[order[1:][~is_other]]] = True
            label = self._cluster_of.ravel()
            moved = np.flatnonzero(is_absorbed[label])  # label -1 (no cluster) reads the last entry, which is False
            before = np.searchsorted(self.labels, label[moved])
            after = target[before]
            with np.errstate(invalid="ignore"):
                more = self._cost[before] - self._cost[after]
            more[np.isnan(more)] = 0.0  # both costs are inf
            self._own.reshape(-1, self._own.shape[-1])[moved] += more
            label[moved] = self.labels[after]
            change, by_age = self._change[:, order], np.argsort(oldest)
            highest, lowest = (most.reduceat(change, starts, axis=1) for most in (np.maximum, np.minimum))
            raised = np.logical_or.reduceat(self._is_raised[order], starts)
            raised |= (bits[oldest] != ALIKE) & (highest > lowest).any(axis=0)
            self._members = np.add.reduceat(self._members[order], starts)[by_age]
            self._change, self._is_raised = highest[:, by_age], raised[by_age]
            oldest = oldest[by_age]
            self.labels, self._agent, self._cost = self.labels[oldest], self._agent[oldest], self._cost[oldest]
            if np.bincount(self._agent).max() <= FEW:
                return

    def costs(self, agent: int, group: Indices, columns: slice) -> Vector:
        """Return the privacy costs of groups of samples of one agent: a row for each group.

        Args:
            agent: the agent.
            group: the numbers of the groups.
            columns: which columns to return: pure ε, ρ of zCDP, and then the Rényi curve, or the counts of `Counts`.
        """
        total, label = self._own[agent, group, columns], self._cluster_of[agent, group]
        begun = label >= 0
        total[begun] += self._cost[np.searchsorted(self.labels, label[begun]), columns]
        return total


class Exact:
    """Compute the privacy costs of all groups of samples of one agent whose state has exactly known linear dynamics.

    The signs of the weights in the dynamics are used. The time grows with the square of the number of rounds, times the
    number of groups.

    Args:
        events: the noise, sensitivity and leakage (the effect of earlier samples) of the agent's messages, one event
            for each round.
        groups: the number of groups of samples.
        shifts: the table of Rényi curves; None if no curves are computed.
    """

    def __init__(self, events: Events, groups: int, shifts: Shifts | None) -> None:
        self._response, self._shifts, self._done = Signed(events, groups), shifts, 0
        self._before = np.zeros(groups, bool)
        self._costs = np.zeros((groups, columns(shifts)))

    def take(self, events: Events, uses: Sequence[Uses]) -> None:
        """Add the privacy costs of the next rounds to all groups of samples.

        Args:
            events: (rounds, 1) the noise, sensitivity and leakage of the only agent's messages.
            uses: a list with one element: pairs (message, group), where the message is the first to depend on a loss
                function with samples of the group.
        """
        groups = len(self._before)
        for first in range(0, len(events), 16 * BLOCK):
            block = events[first : first + 16 * BLOCK]
            used = Used(*uses[0].between(first, first + len(block)), self._before)
            moved = np.zeros((block.vectors, len(block), groups))
            starts = np.searchsorted(used.message, np.arange(len(block) + 1))
            for t in range(len(block)):
                moved[:, t] = self._response.step(self._done + t, used.cluster[starts[t] : starts[t + 1]])
            prices = Prices(block, self._shifts)
            self._costs += prices.costs(slice(None), np.zeros(groups, np.int64), moved, used, np.zeros(1))
            self._before, self._done = used.begun(len(block))[-1], self._done + len(block)

    def costs(self, agent: int, group: Indices, columns: slice) -> Vector:
        """Return the privacy costs of groups of samples: a row for each group.

        Args:
            agent: ignored.
            group: the numbers of the groups.
            columns: which columns to return: pure ε, ρ of zCDP, and then the Rényi curve, or the counts of `Counts`.
        """
        return self._costs[group, columns]


class Agent(NamedTuple):
    """Hold what is needed to compute the privacy costs of one agent.

    Attributes:
        events: the noise, sensitivity and leakage (the effect of earlier samples) of the agent's messages, one event
            for each round.
        uses: pairs (message, group of samples): the message is the first to depend on a loss function with samples of
            the group.
        facts: facts about all events.
    """

    events: Events
    uses: Uses | Unlisted
    facts: Facts


class Followed:
    """Compute the privacy costs of several agents together, block by block of rounds.

    Args:
        agents: the agents, whose messages have the same kinds of noise.
        counts: a table that counts noised vectors by the size of their pure ε, in place of Rényi curves. If None, Rényi
            curves are computed unless all noise is Gaussian or an agent has more than `MOST_KEPT` groups of samples.

    Attributes:
        agents: as above.
    """

    def __init__(self, agents: Sequence[Agent], counts: Counts | None = None) -> None:
        self.agents, self._counts = agents, counts
        self._begin()

    def _begin(self) -> None:
        events, _, facts = self.agents[0]
        groups = max(agent.facts.groups for agent in self.agents)
        shifts: Shifts | None = self._counts
        curved = [kind for kind in (Kind.LAPLACE, Kind.GAMMA_NORM, Kind.PURE) if kind in facts.kinds]
        if shifts is None and curved and groups <= MOST_KEPT:
            is_pure = curved[0] == Kind.GAMMA_NORM and not events.dimension
            shifts = shared_table(Kind.PURE if is_pure else curved[0], events.dimension)
        self._done = 0
        self._groups: Clusters | Exact
        if facts.is_signed:
            self._groups = Exact(events[:], groups, shifts)
        else:
            self._groups = Clusters(len(self.agents), groups, events.hidden, shifts)

    def follow(self, horizon: int) -> None:
        """Add the privacy costs of all rounds up to `horizon`.

        If later rounds were added before, start again at round 1.
        """
        if horizon < self._done:
            self._begin()
        while self._done < horizon:
            first, last = self._done, min(self._done + STRETCH, horizon)
            blocks = [events[first:last].data for events, _, _ in self.agents]
            data = np.stack(blocks, axis=1, dtype=blocks[0].dtype)  # faster than to let NumPy compare all dtypes
            uses = [uses.between(first, last) for _, uses, _ in self.agents]
            self._groups.take(Events(data, self.agents[0].events.dimension), uses)
            self._done = last

    def costs(self, horizon: int, agent: int, group: Indices, columns: slice = slice(None)) -> Vector:
        """Return the privacy costs of groups of samples of one agent after `horizon` rounds: a row for each group.

        Args:
            horizon: the number of rounds.
            agent: the index of the agent.
            group: the numbers of the groups.
            columns: which columns to return: pure ε, ρ of zCDP, and then the Rényi curve, or the counts of `Counts`.
        """
        self.follow(horizon)
        return self._groups.costs(agent, group, columns)


class Recursive(Ledger):
    """Hold the privacy costs of one agent, with a bound for each group of samples on the effect of its change.

    The recursion of the module `leakage` bounds how far a changed sample can move each later message.

    Args:
        followed: computes the costs of several agents together, among them the agent of this ledger.
        place: the index of the agent of this ledger in `followed.agents`.
    """

    def __init__(self, followed: Followed, place: int = 0) -> None:
        super().__init__(*followed.agents[place])
        self._followed, self._place, self._horizon = followed, place, -1

    def follow(self, horizon: int) -> None:
        """Add the privacy costs of all rounds up to `horizon`, for all agents whose costs are computed together.

        If later rounds were added before, start again at round 1.
        """
        self._followed.follow(horizon)

    def at(self, horizon: int) -> tuple[Vector, Vector]:
        """Return two arrays after `horizon` rounds: the pure ε and the ρ of zCDP of every group of samples.

        If any noise is Gaussian, the pure ε of every group that has a cost is inf.
        """
        self._horizon = horizon
        pure, rho = self._followed.costs(horizon, self._place, np.arange(self.facts.groups), slice(0, 2)).T
        return (np.where(pure > 0, inf, 0.0) if Kind.GAUSSIAN in self.facts.kinds else pure), rho

    def rdp(self, group: Indices) -> Vector:
        """Return bounds on the Rényi divergences of groups of samples, as an array (groups, orders).

        The bounds are for rounds 1 to the horizon with which `at` was last called. If no Rényi curves are stored, each
        bound is ρ of zCDP times the order.
        """
        costs = self._followed.costs(self._horizon, self._place, group)
        return costs[:, 2:] if costs.shape[1] > 2 else costs[:, [RHO]] * ORDERS

    def envelope(self) -> tuple[Indices, Vector]:
        """Return releases (noised vectors) that together cost at least as much as those of any group of samples.

        The first array has the numbers of the releases, and the second array has how far each release moves in L2 norm.

        - If all noise is Laplace noise, for every number s, no group has more releases with a pure ε of at least s than
          the result.
        - For all other noise, the result is that of `Saturated.envelope`.
        """
        if not self.facts.kinds <= {Kind.LAPLACE}:
            ceiling = Saturated(self._events, self._uses, self.facts)
            ceiling.follow(self._horizon)
            return ceiling.envelope()
        # A release (the one with the largest shift for an L2 change of 1) stands for every counted shift. The shifts
        # include the rounding of releases. The caller adds the rounding again, which makes the bound slightly larger.
        counts = Counts()
        followed = Followed([Agent(self._events, self._uses, self.facts)], counts)
        numbers = followed.costs(self._horizon, 0, np.arange(self.facts.groups))[:, 2:]
        above = np.rint(numbers)[:, ::-1].cumsum(axis=1).max(axis=0)[::-1]
        slope = self.costs.slopes()[0]
        first = int(np.argmax(np.where(np.isfinite(slope), slope, -1.0)))
        changes = np.repeat(counts.sizes, (above - np.append(above[1:], 0)).astype(int))
        return np.full(len(changes), first), changes / slope[first]


def open_ledgers(of: Sequence[tuple[Events, Uses | Unlisted]]) -> list[Ledger]:
    """Return a ledger for each agent, which computes the privacy cost of each group of samples.

    An agent gets a `Recursive` ledger if all of these conditions hold, and otherwise a `Saturated` ledger:

    - The effect of a changed sample on later messages depends on how far the hidden state has moved. (Hidden state is
      the part of an agent's state that no message reveals.)
    - The leakage (the effect of earlier samples) of all messages is known, all sensitivities and leakages are finite
      (`Facts.is_finite`), and every message that depends on data has noise.
    - If the costs are computed with the signs of the leakages, rounds times groups is at most `LARGEST_HISTORY`.

    Args:
        of: for each agent, the noise, sensitivity and leakage of its messages, and the pairs (message, group of
            samples) of `Uses`.
    """
    # Agents with `Recursive` ledgers and the same kinds of noise are computed together. Agents with more than
    # `MOST_KEPT` groups are computed apart from the others, and an agent with signs is computed alone.
    facts_of, groups = {id(events): Facts() for events, _ in of}, np.zeros(len(of), np.int64)
    for first in range(0, max(len(events) for events, _ in of), STRETCH):
        for events in {id(events): events for events, _ in of}.values():  # agents may share one object
            facts_of[id(events)].take(first, events[first : first + STRETCH])
        groups = np.maximum(groups, [uses.between(first, first + STRETCH).groups for _, uses in of])
    agents = [
        Agent(events, uses, replace(facts_of[id(events)], groups=number))
        for (events, uses), number in zip(of, groups.tolist(), strict=True)
    ]
    beside: dict[Hashable, list[int]] = {}
    for i, (events, _, facts) in enumerate(agents):
        fits = not facts.is_signed or len(events) * facts.groups <= LARGEST_HISTORY
        is_priced = Kind.CLEAN not in facts.kinds and isinf(facts.unknown_from) and facts.is_finite
        if events.hidden and not facts.is_saturated and fits and is_priced:
            alone = i if facts.is_signed else None
            beside.setdefault((alone, facts.groups > MOST_KEPT, facts.kinds), []).append(i)
    ledgers: dict[int, Ledger] = {}
    for places in beside.values():
        followed = Followed([agents[i] for i in places])
        ledgers |= {i: Recursive(followed, place) for place, i in enumerate(places)}
    return [ledgers.get(i) or Saturated(*agent) for i, agent in enumerate(agents)]


def open_ledger(events: Events, uses: Uses | Unlisted) -> Ledger:
    """Return the ledger of one agent, which computes the privacy cost of each group of samples.

    Args:
        events: the noise, sensitivity and leakage (the effect of earlier samples) of the agent's messages, one event
            for each round.
        uses: pairs (message, group): the message is the first to depend on a loss function with samples of the group.
    """
    return open_ledgers([(events, uses)])[0]
