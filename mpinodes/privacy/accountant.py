"""Compute the privacy loss of a run, for each agent and for the network: what the paper claims and what is proven.

The adversary is an eavesdropper who reads every message on every link. The loss of an agent is the share of its own
messages in the loss of the network, given all earlier messages, for the worst changed sample (or round, or agent, by
the adjacency). An adversary who reads one agent alone may learn more than this share where other agents see the sample
too, because later messages of the agent carry theirs; never more than the loss of the network.

If all agents see a sample (a shared loss), a changed sample moves the messages of every agent: the loss of the network
is the worst over samples of the sum over agents. If only its owner sees a sample, then given the messages, the laws of
all other agents do not depend on the sample: the loss of the network is the largest over agents. Nothing is proven
where a message that depends on data carries no noise, or where no bound on its change is known.

Proven pure ε adds up. Proven ε at δ is the smallest of pure ε, zCDP and Rényi DP. For Gaussian noise alone it is exact
(GDP). `tight` adds the numerical composition of privacy loss distributions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np

from mpinodes.core.events import STRETCH, Events, Kind
from mpinodes.core.messages import Vector
from mpinodes.core.parts import Setup, is_built_in
from mpinodes.privacy.curves import ORDERS, gdp_epsilon, rdp_epsilon, zcdp_epsilon
from mpinodes.privacy.leakage import Indices
from mpinodes.privacy.ledger import Ledger, Unlisted
from mpinodes.privacy.recursive import open_ledgers

BATCH = 16  # groups whose Rényi curves are computed first; the number doubles from batch to batch


class PrivacyLoss(NamedTuple):
    """A privacy loss; nan where nothing is proven.

    Attributes:
        pure: proven pure ε.
        epsilon: proven ε at δ.
        rule: the accounting that gave ε: pure, zCDP, RDP, GDP, PLD or unproven.
        delta_spent: the part of δ for the distance of releases from those accounted for (`Event.tv_distance`).
    """

    pure: float
    epsilon: float
    rule: str
    delta_spent: float = 0.0


UNPROVEN = PrivacyLoss(np.nan, np.nan, "unproven")


class PrivacyLosses(NamedTuple):
    """Privacy losses at the horizons.

    Attributes:
        claimed: (h, n) ε that the paper claims for every agent; the largest is that of the network. nan: no claim.
        agents: the losses by horizon and agent.
        network: the loss of the network by horizon.
    """

    claimed: Vector
    agents: list[list[PrivacyLoss]]
    network: list[PrivacyLoss]


Groups = Callable[[int], Callable[[int], Sequence[int]]]  # by agent and round
Claim = Callable[[int], float | Sequence[float] | None]  # by round, for all agents or for each
Tell = Callable[[int, int], None]  # is called with the numbers of horizons done, and of all


def groups(setup: Setup) -> Groups:
    """Return, by agent and round, what adjacent data may change: samples, the round, or all samples of the agent.

    Samples are grouped and numbered as the stream says.
    """
    adjacency = setup.experiment.privacy.adjacency
    if adjacency == "one-sample":
        # The `groups` of a user's stream may be wrong, so its samples count one by one.
        return setup.stream.groups if is_built_in(setup.stream) else setup.stream.samples
    changed = (lambda t: [t - 1]) if adjacency == "one-round" else (lambda t: [0])
    return lambda agent: changed


class Accountant:
    """Price the events of a run.

    Args:
        events: (rounds, agents) of the run.
        groups: by agent and round, the groups of samples (`groups`).
        shared: whether every agent sees a changed sample; if not, its owner alone sees it.

    Attributes:
        history: the events.
    """

    def __init__(self, events: Events, groups: Groups, shared: bool) -> None:
        self.history, self._groups, self._shared = events, groups, shared
        self._read = 0  # the round up to which the ledgers were read last

    def ledgers(self, horizon: int) -> list[Ledger]:
        """Return the ledger of every agent, read up to a horizon; agents with equal events and samples share one."""
        begun = self._read if self._read <= horizon else 0
        for last in (*range(begun + STRETCH, horizon, STRETCH), horizon):
            for ledger in self._ledgers:  # side by side, because all ledgers read the same rounds
                ledger.follow(last)
        self._read = horizon
        return self._ledgers

    @cached_property
    def _ledgers(self) -> list[Ledger]:
        """Return the ledger of every agent; equal events and equal samples, the usual case, need one ledger only."""
        groups = [self._groups(i) for i in range(self.history.agents)]
        priced, used = ([blake2b() for _ in groups] for _ in range(2))
        for _, events in self.history.blocks():
            for i in range(len(groups)):
                priced[i].update(events.of(i).priced())
                used[i].update(events.of(i).uses.tobytes())
        keys = [(hashed.digest(), samples) for hashed, samples in zip(priced, groups, strict=True)]
        uses: dict[Any, Unlisted] = {}
        own = {}
        for i, key in enumerate(keys):
            if key not in own:
                events = self.history.of(i)
                own[key] = events, uses.setdefault((used[i].digest(), groups[i]), Unlisted(events, groups[i]))
        opened = dict(zip(own, open_ledgers(list(own.values())), strict=True))
        return [opened[key] for key in keys]

    @property
    def uses_ceiling(self) -> bool:
        """Return whether the ledger of some agent prices hidden changes at the most that they can be."""
        return any(ledger.uses_ceiling for ledger in self._ledgers)

    def losses(
        self, horizons: Indices, delta: float, claim: Claim | None, tight: bool = False, tell: Tell | None = None
    ) -> PrivacyLosses:
        """Return all losses at the horizons.

        Args:
            horizons: (h,) rounds, ascending.
            delta: δ of the proven ε.
            claim: ε that the paper claims after a round; None: the paper claims nothing.
            tight: whether to compose numerically at the last horizon.
            tell: is called after every horizon.
        """
        agents, network = [], []
        for horizon, distance in zip(horizons.tolist(), distances(self.history, horizons), strict=True):
            ledgers = self.ledgers(horizon)
            counts, exact = Counter(ledgers), tight and horizon == horizons[-1]
            own = {}
            for i, ledger in enumerate(ledgers):
                if ledger not in own:
                    own[ledger] = at_distance(partial(price, [ledger], [1], horizon, tight=exact), delta, distance[i])
            agents.append([own[ledger] for ledger in ledgers])
            if self._shared:
                joint = partial(price, list(counts), list(counts.values()), horizon, tight=exact)
                network.append(at_distance(joint, delta, distance.sum()))
            elif any(np.isnan(loss.epsilon) for loss in agents[-1]):
                network.append(UNPROVEN)
            else:  # the largest pure ε, and the largest ε at δ with its rule
                worst = max(agents[-1], key=lambda loss: loss.epsilon)
                network.append(worst._replace(pure=float(np.max([loss.pure for loss in agents[-1]]))))
            if tell:
                tell(len(agents), len(horizons))
        claims = [claim(t) if claim else None for t in horizons.tolist()]
        claimed = [np.broadcast_to(np.nan if epsilon is None else epsilon, self.history.agents) for epsilon in claims]
        return PrivacyLosses(np.array(claimed), agents, network)


def distances(history: Events, horizons: Sequence[int] | Indices) -> Vector:
    """Return the sums of total variation distances up to the horizons: (h, n)."""
    by_round = np.concatenate([events.tv_distance.sum(axis=2) for _, events in history.blocks()])
    return np.asarray(np.cumsum(by_round, axis=0)[np.asarray(horizons) - 1])


def price(ledgers: Sequence[Ledger], counts: Sequence[int], horizon: int, delta: float, tight: bool) -> PrivacyLoss:
    """Return the loss of the joint view of some agents.

    Args:
        ledgers: of the agents.
        counts: how many agents each ledger stands for.
        horizon: the round.
        delta: δ.
        tight: whether to compose numerically, too.
    """
    if any(ledger.facts.unknown_from < horizon for ledger in ledgers):
        return UNPROVEN
    read = [ledger.at(horizon) for ledger in ledgers]
    most = max(len(pure) for pure, _ in read)
    pure, rho = np.zeros((2, most))
    for (own_pure, own_rho), count in zip(read, counts, strict=True):
        pure[: len(own_pure)] += count * own_pure
        rho[: len(own_rho)] += count * own_rho
    is_gaussian = all(ledger.facts.is_all(Kind.GAUSSIAN) for ledger in ledgers)

    def rdp(group: Indices) -> Vector:
        """Return the sum over ledgers; a ledger that lacks a group adds nothing."""
        curves = np.zeros((len(group), len(ORDERS)))
        for ledger, count, (own, _) in zip(ledgers, counts, read, strict=True):
            here = group < len(own)
            curves[here] += count * ledger.rdp(group[here])
        return curves

    loss = price_curves(pure, rho, rdp, is_gaussian, delta)
    if tight and not is_gaussian and loss.epsilon > 0:
        from mpinodes.privacy.tight import compose

        epsilon, rule = min((loss.epsilon, loss.rule), (compose(ledgers, counts, delta), "PLD"))
        return loss._replace(epsilon=epsilon, rule=rule)
    return loss


def price_curves(
    pure: Vector, rho: Vector, rdp: Callable[[Indices], Vector], is_gaussian: bool, delta: float
) -> PrivacyLoss:
    """Return the loss of the worst of some groups, given their costs.

    Args:
        pure: (groups,) pure ε.
        rho: (groups,) ρ of zCDP.
        rdp: gives Rényi divergences of groups: (m,) -> (m, orders).
        is_gaussian: whether all noise is Gaussian.
        delta: δ of the proven ε.
    """
    if not len(pure):
        return PrivacyLoss(0.0, 0.0, "pure")
    worst = float(pure.max()) if np.isfinite(pure.max()) else np.nan
    if is_gaussian:
        epsilon = gdp_epsilon(float(np.sqrt(2 * rho.max())), delta)
        return PrivacyLoss(worst, epsilon, "GDP") if np.isfinite(epsilon) else UNPROVEN

    zcdp = zcdp_epsilon(rho, delta)
    if not np.isfinite(np.minimum(pure, zcdp)).all():
        return UNPROVEN
    # The largest over groups of the least of three accountings.
    bound = np.minimum(pure, zcdp)
    order = np.argsort(-bound)
    epsilon, rule = 0.0, "pure"
    start, size = 0, BATCH
    while start < len(order):
        batch = order[start : start + size]
        start, size = start + size, 2 * size
        if bound[batch[0]] <= epsilon:  # a Rényi curve only lowers a bound
            break
        renyi = rdp_epsilon(rdp(batch), delta)
        choices = np.stack([pure[batch], zcdp[batch], np.where(np.isnan(renyi), np.inf, renyi)])
        least = choices.min(axis=0)
        k = int(np.argmax(least))
        if least[k] > epsilon:
            epsilon, rule = float(least[k]), ("pure", "zCDP", "RDP")[int(np.argmin(choices[:, k]))]
    return PrivacyLoss(worst, epsilon, rule)


def at_distance(of: Callable[[float], PrivacyLoss], delta: float, distance: float) -> PrivacyLoss:
    """Return the loss of releases within a total variation distance of others, whose loss `of` gives by δ.

    (ε, δ')-DP becomes (ε, δ' + (1 + e^ε) distance)-DP; half of δ is reserved for the second term.
    """
    if not distance:
        return of(delta)
    loss = of(delta / 2)
    spent = (1 + np.exp(loss.epsilon)) * distance
    if not spent <= delta / 2:
        return UNPROVEN._replace(delta_spent=float(spent))
    return loss._replace(pure=np.nan, delta_spent=float(spent))
