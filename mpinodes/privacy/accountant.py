"""Compute the privacy loss of a run, for each agent and for the network: the ε that the paper claims and the proven ε.

The adversary is an eavesdropper who reads every message on every link. Adjacent data differ in one unit: a sample, a
round or an agent (`privacy.adjacency`). All losses are maxima over the units.

- The privacy loss of the network is the loss from all messages together.
- The privacy loss of an agent is the loss that the agent's messages add, given all earlier messages of all agents.

The loss of the network follows from the losses of the agents:

- If all agents use the same samples (shared data), a changed sample can move the messages of every agent. For each
  sample, the losses of all agents are added. The loss of the network is the largest of these sums.
- If only one agent uses a sample, the distributions of the other agents' messages, given all earlier messages, do not
  depend on the sample. The loss of the network is then the largest loss of an agent.

The privacy loss toward an adversary who reads the messages of one agent alone is never above the loss of the network.
This privacy loss may be above the loss of the agent if several agents use the changed sample, because the agent's later
messages depend on messages of the other agents.

The proven ε is computed as follows:

- The pure ε of several messages is the sum of the pure ε of each.
- The ε at δ is the smallest of pure ε, the ε of zCDP and the ε of Rényi DP.
- If all noise is Gaussian and all batches are public, the ε at δ is the ε of Gaussian DP. This ε is exact if the change
  of every message is as large as its bound.
- With `privacy.tight`, the module `tight` composes privacy loss distributions (PLD) numerically, which may give a
  smaller ε at δ of the whole run.
- If a batch is drawn in secret, its noised vector can have a smaller pure ε and a smaller Rényi curve (`subsampling`).
  With secret Poisson batches, a replaced sample counts as two zeroed samples.
- Nothing is proven if a message that depends on data has no noise, or if no bound on the change of a message is known.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from functools import cached_property, lru_cache, partial
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np

from mpinodes.core.cached import cached, is_known
from mpinodes.core.errors import is_users
from mpinodes.core.events import STRETCH, Events
from mpinodes.core.messages import Vector
from mpinodes.core.parts import Setup
from mpinodes.privacy.curves import ORDERS, gdp_epsilon, rdp_epsilon, zcdp_epsilon
from mpinodes.privacy.leakage import Indices
from mpinodes.privacy.ledger import MOST_KEPT, Ledger, Unlisted
from mpinodes.privacy.recursive import open_ledger, open_ledgers
from mpinodes.privacy.subsampling import by_two_zero_outs

BATCH = 16  # number of groups in the first batch of Rényi curves; every next batch is twice as large


class PrivacyLoss(NamedTuple):
    """Hold the privacy loss of one agent or of the network over the rounds 1 to a horizon.

    Attributes:
        pure: the proven pure ε; nan if no pure ε is proven, for example with Gaussian noise or if `delta_spent` is
            above 0.
        epsilon: the proven ε at δ; nan if nothing is proven.
        rule: the accounting that gives `epsilon`: pure, zCDP, RDP, GDP, PLD or unproven. If a replaced sample counts as
            two zeroed samples (secret Poisson batches), the word "twice" follows, as in "RDP, twice".
        delta_spent: the part of δ that is used because the messages have a slightly different distribution than privacy
            accounting assumes (`Event.tv_distance`). If the needed part exceeds δ/2, nothing is proven, and the
            attribute is the needed part.
    """

    pure: float
    epsilon: float
    rule: str
    delta_spent: float = 0.0


UNPROVEN = PrivacyLoss(np.nan, np.nan, "unproven")


class PrivacyLosses(NamedTuple):
    """Hold the proven and the claimed privacy losses at several horizons. A horizon is the last round that is counted.

    Attributes:
        claimed: (horizons, agents) the ε that the paper claims for every agent; nan if the paper claims nothing. The
            claim for the network is the largest entry of a row.
        agents: the proven privacy losses, indexed by horizon and then by agent.
        network: the proven privacy loss of the network at each horizon.
    """

    claimed: Vector
    agents: list[list[PrivacyLoss]]
    network: list[PrivacyLoss]


Groups = Callable[[int], Callable[[int], Sequence[int]]]  # agent -> (round -> numbers of the groups)
Claim = Callable[[int], float | Sequence[float] | None]  # round -> the claimed ε, one for all agents or one for each
Tell = Callable[[int, int], None]  # is called with the number of finished horizons and the number of all horizons


def groups(setup: Setup) -> Groups:
    """Return a function g such that g(agent)(round) lists the numbers of the groups that an agent uses in a round.

    The accountant computes one privacy cost for each group:

    - With the adjacencies `one-sample` and `zero-out`, a group is a single sample, or several samples that a built-in
      stream always uses together, and that so have equal costs (`Stream.groups`). Adjacent data sets differ in one
      sample.
    - With `one-round`, a group is a round.
    - With `one-agent`, all samples of an agent are one group.
    """
    adjacency = setup.experiment.privacy.adjacency
    if adjacency in ("one-sample", "zero-out"):
        # A user's stream may join samples wrongly, so every sample of such a stream is a group.
        return setup.stream.samples if is_users(type(setup.stream)) else setup.stream.groups
    changed = (lambda t: [t - 1]) if adjacency == "one-round" else (lambda t: [0])
    return lambda agent: changed


class Numbered(NamedTuple):
    """Hold the groups of samples that an agent uses in each round, numbered in the order of their first use.

    With these numbers, agents or runs that use their groups in the same pattern of rounds have equal groups.
    """

    rounds: tuple[tuple[int, ...], ...]

    def __call__(self, t: int) -> tuple[int, ...]:
        """Return the numbers of the groups that the agent uses in round t."""
        return self.rounds[t - 1]


@lru_cache(maxsize=128)
def _numbered(groups: Callable[[int], Sequence[int]], rounds: int) -> tuple[Numbered, dict[int, int]]:
    """Return the groups of one agent in rounds 1 to `rounds`, and the new number of each group."""
    between = getattr(groups, "between", None)  # a `BatchOrder` returns the samples of all rounds at once
    used = between(1, rounds).reshape(rounds, -1).tolist() if between else map(groups, range(1, rounds + 1))
    numbers: dict[int, int] = {}
    return Numbered(tuple(tuple(numbers.setdefault(g, len(numbers)) for g in of) for of in used)), numbers


class Accountant:
    """Compute the privacy losses of a run from its privacy events (the noise and sensitivity of every message).

    Args:
        events: (rounds, agents) the privacy events of the run.
        groups: `groups(agent)(round)` lists the numbers of the groups of samples that the agent uses in the round.
            All samples of a group have the same cost.
        shared: whether all agents use the same samples. If false, every sample is used by one agent only.
        runs: the number of runs that are accounted for apart from each other, but computed together. If there are
            several, their agents follow each other in `events` and `groups`.

    Attributes:
        history: the events.
        uses_ceiling: whether, for at least one agent, one bound for all samples limits how far a changed earlier sample
            moves a message; set by `losses`. If false, every group of samples has its own bound, or an earlier sample
            moves no message.
    """

    uses_ceiling = False

    def __init__(self, events: Events, groups: Groups, shared: bool, runs: int = 1) -> None:
        self.history, self._shared, self._runs = events, shared, runs
        self._groups: list[Any] = [groups(i) for i in range(events.agents)]
        self._numbers: list[dict[int, int]] = [{}] * events.agents
        if len(events) <= STRETCH and not (shared and any(of != self._groups[0] for of in self._groups)):
            number = _numbered if all(isinstance(of, Hashable) for of in self._groups) else _numbered.__wrapped__
            numbered = [number(of, len(events)) for of in self._groups]
            self._groups, self._numbers = [[*column] for column in zip(*numbered, strict=True)]
        self._read = 0  # the last horizon of `ledgers`

    def numbers(self, agent: int, groups: Indices) -> Indices:
        """Return the numbers that groups of samples of an agent have in the agent's ledger."""
        number = self._numbers[agent]
        return np.array([number.get(group, group) for group in groups.tolist()], np.int64)

    def ledgers(self, horizon: int) -> list[Ledger]:
        """Return a ledger for every agent: the privacy cost of each group of samples in rounds 1 to `horizon`.

        Agents share one ledger object if they have equal messages and use groups with equal numbers in every round.
        Messages are equal if their noise, their sensitivity and the effects of earlier samples on them are equal.
        """
        begun = self._read if self._read <= horizon else 0
        for last in (*range(begun + STRETCH, horizon, STRETCH), horizon):
            for ledger in self._ledgers:  # all ledgers read the same block of rounds, so each block is loaded once
                ledger.follow(last)
        self._read = horizon
        return self._ledgers

    @cached_property
    def _ledgers(self) -> list[Ledger]:
        """Create a ledger for every agent, which will hold the privacy cost of each group of samples.

        Agents share one ledger object if they have equal messages and use groups with equal numbers in every round.
        """
        uses: dict[Any, Unlisted] = {}
        by_content: dict[bytes, Events] = {}
        own = {}
        for i, (priced, used, groups) in enumerate(self._content):
            if (priced, groups) not in own:
                events = by_content.setdefault(priced, self.history[:, i])
                own[priced, groups] = events, uses.setdefault((used, groups), Unlisted(events, groups))
        opened = dict(zip(own, open_ledgers(list(own.values())), strict=True))
        return [opened[priced, groups] for priced, _, groups in self._content]

    @cached_property
    def _joint(self) -> tuple[Ledger, list[int]] | None:
        """Return one ledger for all agents together, and the place of each agent in this ledger.

        Group g of the agent at place k of n is group g · n + k of the ledger. Agents that use groups with equal numbers
        in every round have the same place. The result is None if there is no such ledger, for example because the
        agents' events differ.
        """
        (priced, _, _), *others = self._content
        groups = list(dict.fromkeys(of for _, _, of in self._content))
        if self._shared or self.history.hidden or len(groups) == 1 or any(other != priced for other, _, _ in others):
            return None
        n, events, all_groups = len(groups), self.history[:, 0], list(enumerate(groups))
        ledger = open_ledger(events, Unlisted(events, lambda t: [g * n + k for k, of in all_groups for g in of(t)]))
        is_too_large = ledger.facts.groups > MOST_KEPT or ledger.facts.are_pairs
        return None if is_too_large else (ledger, [groups.index(of) for _, _, of in self._content])

    def _of_agents(self, horizon: int, delta: float, distance: Vector, tight: bool) -> list[PrivacyLoss]:
        """Return the privacy loss of every agent over rounds 1 to `horizon`.

        Args:
            horizon: the last round.
            delta: δ of the proven ε.
            distance: (agents,) the total variation distance between the distribution of an agent's messages and the
                distribution that privacy accounting assumes.
            tight: whether to compose numerically (PLD), too.
        """
        if not distance.any() and not tight and self._joint:
            ledger, places = self._joint
            if ledger.facts.unknown_from < horizon:
                return [UNPROVEN] * len(places)
            n = max(places) + 1
            pure, rho = (np.pad(costs, (0, -len(costs) % n)).reshape(-1, n).T for costs in ledger.at(horizon))

            def rdp(place: Indices, group: Indices) -> Vector:
                return ledger.rdp(np.minimum(group * n + place, ledger.facts.groups - 1))  # added groups cost nothing

            losses = worst_of(pure, rho, rdp, ledger.facts.is_gdp, delta)
            return [losses[place] for place in places]
        opened = self.ledgers(horizon)
        own: dict[Ledger, PrivacyLoss] = {}
        if not distance.any() and not tight:
            own = price_apart([*dict.fromkeys(opened)], horizon, delta)
        for ledger, moved in zip(opened, distance, strict=True):
            if ledger not in own:
                own[ledger] = at_distance(partial(price, [ledger], [1], horizon, tight=tight), delta, moved)
        return [own[ledger] for ledger in opened]

    @cached_property
    def _content(self) -> list[tuple[bytes, bytes, Any]]:
        """Return for each agent a hash of its events, a hash of the rounds whose losses they use, and its groups.

        The groups are a function, which lists the groups of samples that the agent uses in a round.
        """
        priced, used = ([blake2b() for _ in range(self.history.agents)] for _ in range(2))
        for _, events in self.history.blocks():
            for i in range(len(priced)):
                priced[i].update(events[:, i].priced())
                used[i].update(events[:, i].uses.tobytes())
        return [(a.digest(), b.digest(), of) for a, b, of in zip(priced, used, self._groups, strict=True)]

    def losses(
        self, horizons: Indices, delta: float, claim: Claim | None, tight: bool = False, tell: Tell | None = None
    ) -> PrivacyLosses:
        """Return the privacy losses of all agents and of the network at every horizon (the last round that is counted).

        Args:
            horizons: the horizons, ascending.
            delta: δ of the proven ε.
            claim: maps a round to the ε that the paper claims after this round; None if the paper claims nothing.
            tight: whether to compose numerically (PLD), too, at the last horizon.
            tell: a function that is called after every computed horizon, to show progress.
        """
        asked = horizons, delta, tight
        agents, network, self.uses_ceiling = cached(lambda: self._proven(*asked, tell)[0], lambda: self._key(*asked))
        claims = [claim(t) if claim else None for t in horizons.tolist()]
        claimed = [np.broadcast_to(np.nan if epsilon is None else epsilon, self.history.agents) for epsilon in claims]
        return PrivacyLosses(np.array(claimed), agents, network)

    def _key(self, *asked: Any) -> tuple[Any, ...]:
        """Return all values on which the result of `losses` depends, except the claim; `asked` are its arguments."""
        history = self.history
        return Accountant.losses, self._content, history.data.dtype, history.dimension, self._shared, *asked

    def _proven(
        self, horizons: Indices, delta: float, tight: bool, tell: Tell | None = None
    ) -> list[tuple[list[list[PrivacyLoss]], list[PrivacyLoss], bool]]:
        """Return, for each run, the losses of all agents and of the network at every horizon, and `uses_ceiling`."""
        runs: list[tuple[list[list[PrivacyLoss]], list[PrivacyLoss]]] = [([], []) for _ in range(self._runs)]
        n = self.history.agents // self._runs
        for done, horizon in enumerate(horizons.tolist(), 1):
            (distance,) = distances(self.history, [horizon])
            exact = tight and horizon == horizons[-1]
            of_all = self._of_agents(horizon, delta, distance, exact)
            for run, (agents, network) in enumerate(runs):
                own = slice(run * n, run * n + n)
                agents.append(of_all[own])
                if self._shared:
                    counts = Counter(self.ledgers(horizon)[own])
                    joint = partial(price, list(counts), list(counts.values()), horizon, tight=exact)
                    network.append(at_distance(joint, delta, distance[own].sum()))
                elif any(np.isnan(loss.epsilon) for loss in agents[-1]):
                    network.append(UNPROVEN)
                else:  # the largest pure ε of an agent; independently, the largest ε at δ of an agent, with its rule
                    worst = max(agents[-1], key=lambda loss: loss.epsilon)
                    network.append(worst._replace(pure=float(np.max([loss.pure for loss in agents[-1]]))))
            if tell:
                tell(done, len(horizons))
        uses_ceiling = not self._joint and any(ledger.uses_ceiling for ledger in self._ledgers)
        return [(*losses, uses_ceiling) for losses in runs]


def accountant_of(setup: Setup, events: Events) -> Accountant:
    """Return the accountant of a run with the given events (rounds, agents)."""
    return Accountant(events, groups(setup), setup.experiment.data["partition"] == "shared")


def prove_together(runs: Sequence[Accountant], horizons: Indices, delta: float, tight: bool) -> None:
    """Compute the privacy losses of several runs at once, for the cache from which `losses` reads.

    A run is left out if its privacy losses are stored already, or if no other run is computed together with it.

    Args:
        runs: the accountants of the runs, whose events are in memory and have equal layouts.
        horizons: the horizons, ascending.
        delta: δ of the proven ε.
        tight: whether to compose numerically (PLD), too, at the last horizon.
    """
    asked, by_events = (horizons, delta, tight), dict[bytes, list[Accountant]]()
    for run in {tuple(run._content): run for run in runs}.values():
        if not is_known(partial(run._key, *asked)):
            # Agents with hidden state are computed together even if their events differ.
            by_events.setdefault(b"" if run.history.hidden else run.history.data.tobytes(), []).append(run)
    for first, *others in by_events.values():
        if not others:
            continue
        same = [first, *others]
        events = Events(np.concatenate([run.history.data for run in same], axis=1), first.history.dimension)
        of_agents = [groups for run in same for groups in run._groups]
        proven = Accountant(events, of_agents.__getitem__, first._shared, len(same))._proven(*asked)
        for run, losses in zip(same, proven, strict=True):
            cached(lambda losses=losses: losses, partial(run._key, *asked))  # type: ignore[misc]


def distances(history: Events, horizons: Sequence[int] | Indices) -> Vector:
    """Return bounds on the total variation distance between agents' messages and the messages that accounting assumes.

    The result is an array (horizons, agents): the sum of `Event.tv_distance` over all noised vectors that the agent
    sends up to the horizon.

    Args:
        history: the privacy events of all rounds and agents.
        horizons: rounds.
    """
    by_round = np.concatenate([events.tv_distance.sum(axis=2) for _, events in history.blocks()])
    return np.asarray(np.cumsum(by_round, axis=0)[np.asarray(horizons) - 1])


def price(ledgers: Sequence[Ledger], counts: Sequence[int], horizon: int, delta: float, tight: bool) -> PrivacyLoss:
    """Return the privacy loss from all messages of several agents, for the group of samples with the largest loss.

    The result is `UNPROVEN` if the cost of a message up to the horizon is unknown (`Facts.unknown_from`), or if
    `price_curves` proves nothing.

    Args:
        ledgers: the distinct ledgers of the agents; a ledger holds the privacy cost of each group of samples.
        counts: the number of agents that share each ledger.
        horizon: the last round that counts.
        delta: δ of the proven ε.
        tight: whether to compose numerically (PLD), too, which may give a smaller ε.
    """
    if any(ledger.facts.unknown_from < horizon for ledger in ledgers):
        return UNPROVEN
    costs = np.zeros((2, max(ledger.facts.groups for ledger in ledgers)))
    for ledger, count in zip(ledgers, counts, strict=True):
        costs[:, : ledger.facts.groups] += count * np.array(ledger.at(horizon))
    is_gaussian = all(ledger.facts.is_gdp for ledger in ledgers)

    def rdp(group: Indices) -> Vector:
        """Return the sum of the agents' Rényi curves for each group of samples, as an array (groups, Rényi orders).

        The curve of an agent that does not use a group is 0.
        """
        curves = np.zeros((len(group), len(ORDERS)))
        for ledger, count in zip(ledgers, counts, strict=True):
            here = group < ledger.facts.groups
            curves[here] += count * ledger.rdp(group[here])
        return curves

    pairs = any(ledger.facts.are_pairs for ledger in ledgers)
    loss = price_curves(costs[0], costs[1], rdp, is_gaussian, delta, pairs)
    if tight and not is_gaussian and loss.epsilon > 0:
        from mpinodes.privacy.tight import compose

        composed = compose(ledgers, counts)
        least = by_two_zero_outs(composed, delta) if pairs else composed(delta)
        epsilon, rule = min((loss.epsilon, loss.rule), (least, "PLD, twice" if pairs else "PLD"))
        return loss._replace(epsilon=epsilon, rule=rule)
    return loss


def price_apart(ledgers: Sequence[Ledger], horizon: int, delta: float) -> dict[Ledger, PrivacyLoss]:
    """Return the privacy loss of each of several agents, as `price` returns it without numerical composition.

    The privacy losses are computed together, which is faster. Ledgers with an unknown cost are left out, and also
    ledgers whose noise is Gaussian, or with secret batches.

    Args:
        ledgers: the ledgers of the agents; a ledger holds the privacy cost of each group of samples.
        horizon: the last round that counts.
        delta: δ of the proven ε.
    """
    some = [x for x in ledgers if x.facts.unknown_from >= horizon and not (x.facts.is_gdp or x.facts.are_pairs)]
    costs = np.zeros((2, len(some), max((ledger.facts.groups for ledger in some), default=0)))
    for k, ledger in enumerate(some):
        costs[:, k, : ledger.facts.groups] = ledger.at(horizon)

    def rdp(agent: Indices, group: Indices) -> Vector:
        curves = np.zeros((len(agent), len(ORDERS)))  # the curve of an agent that does not use a group is 0
        for k in np.unique(agent):
            here = (agent == k) & (group < some[k].facts.groups)
            curves[here] = some[k].rdp(group[here])
        return curves

    return dict(zip(some, worst_of(costs[0], costs[1], rdp, False, delta), strict=True))


def price_curves(
    pure: Vector, rho: Vector, rdp: Callable[[Indices], Vector], is_gaussian: bool, delta: float, pairs: bool = False
) -> PrivacyLoss:
    """Return the privacy loss of the group of samples with the largest loss, from the costs of all groups.

    - The pure ε of the result is the largest pure ε of a group; nan if a group has no finite pure ε.
    - The ε at δ of a group is the smallest of pure ε, the ε of zCDP and the ε of Rényi DP or, if `is_gaussian` is true,
      the ε of Gaussian DP. The ε at δ of the result is the largest ε at δ of a group.
    - If `pairs` is true, the pure ε is doubled, and the function `by_two_zero_outs` computes the ε at δ.
    - If there are no groups, the pure ε and the ε at δ are 0.
    - If a group has neither a finite pure ε nor a finite ε of zCDP, the result is `UNPROVEN`. If `is_gaussian` is true,
      only the ε of Gaussian DP must be finite.

    Args:
        pure: (groups,) pure ε.
        rho: (groups,) ρ of zCDP.
        rdp: maps indices of groups to Rényi divergences, (groups, orders of `curves.ORDERS`).
        is_gaussian: whether all noise is Gaussian and no batch is secret.
        delta: δ of the proven ε.
        pairs: whether adjacent data sets differ in a replaced sample, which counts as two zeroed samples, and the costs
            are those of one zeroed sample.
    """
    if pairs:
        one = price_curves(pure, rho, rdp, is_gaussian, delta)
        if np.isnan(one.epsilon):
            return one
        both = by_two_zero_outs(lambda part: price_curves(pure, rho, rdp, is_gaussian, part).epsilon, delta)
        return PrivacyLoss(2 * one.pure, both, f"{one.rule}, twice")
    return worst_of(pure[None], rho[None], lambda agent, group: rdp(group), is_gaussian, delta)[0]


def worst_of(
    pure: Vector, rho: Vector, rdp: Callable[[Indices, Indices], Vector], is_gaussian: bool, delta: float
) -> list[PrivacyLoss]:
    """Return, for each of several agents, the privacy loss of its group of samples with the largest loss.

    The function `price_curves` describes the computation for one agent.

    Args:
        pure: (agents, groups) pure ε.
        rho: (agents, groups) ρ of zCDP.
        rdp: maps the indices of k agents and k groups to the Rényi divergences of these k pairs, (k, orders).
        is_gaussian: whether all noise is Gaussian and no batch is secret.
        delta: δ of the proven ε.
    """
    if not pure.shape[1]:
        return [PrivacyLoss(0.0, 0.0, "pure")] * len(pure)
    worst = np.where(np.isfinite(pure.max(axis=1)), pure.max(axis=1), np.nan).tolist()
    if is_gaussian:
        of = [gdp_epsilon(float(mu), delta) for mu in np.sqrt(2 * rho.max(axis=1))]
        return [PrivacyLoss(w, e, "GDP") if np.isfinite(e) else UNPROVEN for w, e in zip(worst, of, strict=True)]

    zcdp = zcdp_epsilon(rho, delta)
    # ε is the maximum over groups of the smallest ε of three accountings: pure, zCDP and Rényi.
    bound = np.minimum(pure, zcdp)
    order = np.argsort(-bound, axis=1)
    epsilon, rule = np.zeros(len(pure)), np.zeros(len(pure), int)
    start, size = 0, BATCH
    while start < order.shape[1]:
        batch = order[:, start : start + size]
        start, size = start + size, 2 * size
        # The ε of a group is at most its bound, and the bounds of an agent descend.
        agents = np.flatnonzero(bound[range(len(bound)), batch[:, 0]] > epsilon)
        if not len(agents):
            break
        pairs = np.repeat(agents, batch.shape[1]), batch[agents].ravel()
        renyi = rdp_epsilon(rdp(*pairs), delta)
        choices = np.stack([pure[pairs], zcdp[pairs], np.where(np.isnan(renyi), np.inf, renyi)])
        least = choices.min(axis=0).reshape(len(agents), -1)
        k = np.arange(len(agents)), least.argmax(axis=1)
        by = choices.argmin(axis=0).reshape(least.shape)[k]
        rule[agents] = np.where(least[k] > epsilon[agents], by, rule[agents])
        epsilon[agents] = np.maximum(least[k], epsilon[agents])
    rules = np.array(["pure", "zCDP", "RDP"])[rule].tolist()
    losses = map(PrivacyLoss, worst, epsilon.tolist(), rules)
    return [loss if bounded.all() else UNPROVEN for loss, bounded in zip(losses, np.isfinite(bound), strict=True)]


def at_distance(of: Callable[[float], PrivacyLoss], delta: float, distance: float) -> PrivacyLoss:
    """Return the privacy loss of messages, from that of a model: messages with nearly the same distribution.

    If the model is (ε, δ')-DP, the messages are (ε, δ' + s)-DP with s = (1 + e^ε) `distance`.

    Args:
        of: maps δ to the privacy loss of the model.
        delta: δ of the messages.
        distance: the total variation distance between the distributions of the messages and of the model.

    Returns:
        `of(delta)` if `distance` is 0. Otherwise a privacy loss without pure ε, with the ε of `of(delta / 2)`, whose
        `delta_spent` is s. If s is above half of δ, or nan, nothing is proven.
    """
    if not distance:
        return of(delta)
    loss = of(delta / 2)
    spent = (1 + np.exp(loss.epsilon)) * distance
    if not spent <= delta / 2:
        return UNPROVEN._replace(delta_spent=float(spent))
    return loss._replace(pure=np.nan, delta_spent=float(spent))
