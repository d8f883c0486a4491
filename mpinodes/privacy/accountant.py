"""The privacy loss of a run, for each agent and for the network: what the paper claims and what is proven.

The view is an eavesdropper's: every message on every link. An agent's loss is the worst over changed samples (or
rounds, or of all its samples at once) of what its own messages tell of them beyond all that was said before: its share
of the network's loss. (Who reads one agent alone may learn more than that agent's share where others see the sample
too, for its later messages carry theirs; never more than the network's loss.) Everybody sees a shared loss, so a
changed sample moves every agent's messages, and the network's loss is the worst over samples of the sum over agents. Of
a private loss only its owner's messages tell, for given the messages all other agents' laws are the same: the network's
loss is the largest of the agents'. Nothing is proven where a message that data has reached carries no noise, or nothing
bounds its change.

Proven pure ε adds up. Proven ε at δ is the least of it, of zCDP and of Rényi DP; for Gaussian noise alone it is
exact (GDP); `tight` adds the numerical composition of privacy loss distributions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mpinodes.core.events import STRETCH, Events, Kind
from mpinodes.core.messages import Vector
from mpinodes.core.parts import Setup, is_built_in
from mpinodes.privacy.curves import ORDERS, gdp_epsilon, rdp_epsilon, zcdp_epsilon
from mpinodes.privacy.leakage import Indices
from mpinodes.privacy.ledger import Ledger, Unlisted
from mpinodes.privacy.recursive import open_ledgers

BATCH = 16  # groups whose Rényi curves are made first, then twice as many each time


class PrivacyLoss(NamedTuple):
    """A privacy loss; nan where nothing is proven.

    Attributes:
        pure: proven pure ε.
        epsilon: proven ε at δ.
        rule: which accounting gave it: pure, zCDP, RDP, GDP, PLD or unproven.
        delta_spent: the part of δ that goes on releases that are not quite those accounted for (`Event.tv_distance`).
    """

    pure: float
    epsilon: float
    rule: str
    delta_spent: float = 0.0


UNPROVEN = PrivacyLoss(np.nan, np.nan, "unproven")


class PrivacyLosses(NamedTuple):
    """Privacy losses at the horizons.

    Attributes:
        claimed: (h, n) the paper's ε of every agent, of which the largest is the network's; nan: it claims nothing.
        agents: by horizon, by agent.
        network: by horizon.
    """

    claimed: Vector
    agents: list[list[PrivacyLoss]]
    network: list[PrivacyLoss]


def groups(setup: Setup) -> Callable[[int], Callable[[int], Sequence[int]]]:
    """What an adjacent data set may change: a sample, by the stream's own numbers; a round; or all of an agent's."""
    adjacency = setup.experiment.privacy.adjacency
    if adjacency == "one-sample":
        # The `groups` of a user's stream may be false: its samples count one by one.
        return setup.stream.groups if is_built_in(setup.stream) else setup.stream.samples
    changed = (lambda t: [t - 1]) if adjacency == "one-round" else (lambda t: [0])
    return lambda agent: changed


class Accountant:
    """Collects events chunk by chunk, and prices them at the end.

    Args:
        groups: by agent, the samples of a round, as `Stream.groups` numbers them.
        shared: whether every agent sees a changed sample; if not, its owner alone does.
    """

    def __init__(self, groups: Callable[[int], Callable[[int], Sequence[int]]], shared: bool) -> None:
        self._groups, self._shared = groups, shared
        self._history: Events | None = None
        self._opened: tuple[list[Any], dict[Any, Ledger]] | None = None
        self._read = 0  # the horizon that the open ledgers have come to

    def compose(self, events: Events) -> None:
        """Add the events of the next rounds, (rounds, agents), which stay as they are."""
        before = self._history
        self._history = events if before is None else Events.concatenate([before[:], events[:]])
        self._opened = None

    @property
    def history(self) -> Events:
        """All events so far: (rounds, agents)."""
        if self._history is None:
            raise ValueError("no events yet")
        return self._history

    def ledgers(self, horizon: int) -> list[Ledger]:
        """By agent; those whose events and samples come alike share one. To be read at this horizon."""
        keys, ledgers = self._follow(horizon)
        return [ledgers[key] for key in keys]

    def _follow(self, horizon: int) -> tuple[list[Any], dict[Any, Ledger]]:
        """By agent a key, and by key a ledger that has been read as far as the horizon."""
        if not self._opened or self._read > horizon:
            self._opened, self._read = self._open(), 0
        while self._read < horizon:  # side by side, for all look at the same rounds
            self._read = min(self._read + STRETCH, horizon)
            for ledger in self._opened[1].values():
                ledger.follow(self._read)
        return self._opened

    def _open(self) -> tuple[list[Any], dict[Any, Ledger]]:
        # Agents whose events and samples come alike, by far the most usual case, are priced once.
        history = self.history
        groups = [self._groups(i) for i in range(history.agents)]
        priced, used = ([blake2b() for _ in groups] for _ in range(2))
        for _, events in history.blocks():
            for i in range(len(groups)):
                priced[i].update(events.of(i).priced())
                used[i].update(events.of(i).uses.tobytes())
        keys = [(hashed.digest(), of) for hashed, of in zip(priced, groups, strict=True)]
        first = {key: i for i, key in reversed(list(enumerate(keys)))}
        uses: dict[Any, Unlisted] = {}
        own = []
        for i in first.values():
            column = used[i].digest(), groups[i]
            own.append((history.of(i), uses.setdefault(column, Unlisted(history.of(i), groups[i]))))
        return keys, dict(zip(first, open_ledgers(own), strict=True))

    @property
    def uses_ceiling(self) -> bool:
        """Whether some agent's ledger prices hidden changes at the most that they can be."""
        return self._opened is not None and any(ledger.uses_ceiling for ledger in self._opened[1].values())

    def losses(
        self,
        horizons: NDArray[np.int64],
        delta: float,
        claim: Callable[[int], float | Sequence[float] | None] | None,
        tight: bool = False,
        tell: Callable[[int, int], None] = lambda done, of: None,
    ) -> PrivacyLosses:
        """All losses at the horizons, given the paper's claim by round; None: it claims nothing."""
        keys, ledgers = self._follow(int(horizons[0]))
        first = {key: i for i, key in reversed(list(enumerate(keys)))}
        counts = {key: keys.count(key) for key in ledgers}
        agents, network = [], []
        for horizon, distance in zip(horizons.tolist(), distances(self.history, horizons), strict=True):
            self._follow(horizon)
            exact = tight and horizon == horizons[-1]
            own = {
                key: at_distance(partial(price, [ledger], [1], horizon, tight=exact), delta, distance[first[key]])
                for key, ledger in ledgers.items()
            }
            agents.append([own[key] for key in keys])
            if self._shared:
                joint = partial(price, list(ledgers.values()), list(counts.values()), horizon, tight=exact)
                network.append(at_distance(joint, delta, distance.sum()))
            else:
                network.append(_most(agents[-1]))
            tell(len(agents), len(horizons))
        claims = [claim(t) if claim else None for t in horizons.tolist()]
        claimed = [np.broadcast_to(np.nan if epsilon is None else epsilon, len(keys)) for epsilon in claims]
        return PrivacyLosses(np.array(claimed), agents, network)


def distances(history: Events, horizons: Sequence[int] | NDArray[np.int64]) -> Vector:
    """Σ of total variation distances, by horizon and agent: (h, n)."""
    found, so_far = np.zeros((len(horizons), history.agents)), np.zeros(history.agents)
    for first, events in history.blocks():
        sums = events.tv_distance.sum(axis=2)
        sums[0] += so_far
        sums = np.cumsum(sums, axis=0)
        for place, horizon in enumerate(horizons):
            if first < horizon <= first + len(sums):
                found[place] = sums[horizon - first - 1]
        so_far = sums[-1]
    return found


def price(ledgers: Sequence[Ledger], counts: Sequence[int], horizon: int, delta: float, tight: bool) -> PrivacyLoss:
    """The loss of the joint view of agents, each ledger standing for `count` of them."""
    if any(ledger.facts.unknown_from < horizon for ledger in ledgers):
        return UNPROVEN
    read = [ledger.at(horizon) for ledger in ledgers]
    most = max(len(pure) for pure, _ in read)
    pure, rho = np.zeros((2, most))
    for (one_pure, one_rho), count in zip(read, counts, strict=True):
        pure[: len(one_pure)] += count * one_pure
        rho[: len(one_rho)] += count * one_rho
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
    """The loss of the worst of some groups, by what they cost.

    Args:
        pure: ε of each group.
        rho: zCDP of each group.
        rdp: Rényi divergences of some groups, (m,) -> (m, orders).
        is_gaussian: whether all noise is.
        delta: of ε.
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
    """The loss, by δ, of releases within a total variation distance of others.

    (ε, δ')-DP becomes (ε, δ' + (1 + e^ε) distance)-DP; half of δ is kept for that.
    """
    if not distance:
        return of(delta)
    loss = of(delta / 2)
    spent = (1 + np.exp(loss.epsilon)) * distance
    if not spent <= delta / 2:
        return UNPROVEN._replace(delta_spent=float(spent))
    return loss._replace(pure=np.nan, delta_spent=float(spent))


def _most(losses: Sequence[PrivacyLoss]) -> PrivacyLoss:
    """The largest pure ε, and the largest ε at δ with its rule."""
    if any(np.isnan(loss.epsilon) for loss in losses):
        return UNPROVEN
    worst = max(losses, key=lambda loss: loss.epsilon)
    return worst._replace(pure=float(np.max([loss.pure for loss in losses])))
