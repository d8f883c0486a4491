"""What one node, or some that collude, learn of another's data, where all that is said is a linear mix of noised values.

From some round L on a run may say nothing new: in round L every agent k releases y_k = v_k + e_k, e_k ~ N(0, s_k² I),
and from then on all relay. A message of round t >= L is then a fixed mix of these releases, Σ_k M_jk y_k, where
M(L) = I and M(t + 1) = W(t) M(t), with W(t) the weights that all agents mix by in round t: made of the graph and of
public scalars, never of data. Viewers C receive what their in-neighbors say, and know all of their own, so that the
columns of C in the rows that they receive, A, drop out: they see A(v + e), a Gaussian vector of known covariance
A Σ Aᵀ ⊗ I. Adjacent data move one v_u by Δ at most, and no other, so that with B = A Σ^½ and g the column u of A

    μ² = Δ² gᵀ (A Σ Aᵀ)⁺ g = (Δ/s_u)² ℓ_u,    ℓ_u = (B⁺ B)_uu,

by which the view is exactly μ-GDP and, for the best of tests, no better. ℓ_u, the *leverage* of u, is the squared norm
of e_u projected to the row space of B: 1 where y_u itself follows from what is received, as it does for all that hear
u in round L; 0 where nothing of it has arrived. So the loss toward a node is never above what the links give away.

What was said before round L also tells, and what is said in round L depends on it. Conditional on all of it, on every
link, round L is as above, so that a view is √(μ_before² + Δ²ℓ_u/s_u²)-GDP, with μ_before by all links: a node's view is
made of what was said before and of the rest. That is an upper bound; where nothing was said before it is exact.

No such reduction holds for messages whose data depend on messages that the viewers did not receive: see
scripts/relayed_message.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf, isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpinodes.core.events import Events, Kind
from mpinodes.core.messages import Vector
from mpinodes.core.parts import Setup
from mpinodes.privacy.accountant import groups
from mpinodes.privacy.curves import gdp_epsilon
from mpinodes.privacy.ledger import Uses, open_ledger

NOTHING = 1e-13  # a part of a row of B that is smaller, relatively, is rounding
CLEAR = 1e-6  # one that is larger has a direction that rounding does not turn; of those between nothing is known
SLACK = 1e-9  # what rounding may take from a leverage
MOST = 3e10  # agents^4 times stretches of rounds, above which views are not worked out: some minutes


def relayed_from(setup: Setup, events: Events) -> int | None:
    """L, from which on nothing new is said: the last round with a release of its own; None: views are not linear.

    Args:
        setup: of the run.
        events: (rounds, agents) of all of it.
    """
    e = setup.experiment
    if not (e.private and e.privacy.mechanism == "gaussian" and e.noise.backend == "numpy") or events.vectors > 1:
        return None
    if e.data["partition"] == "shared" or setup.stream.unproven_because:  # a sample moves more than one agent's
        return None
    if events.is_unknown.any() or events.is_hidden.any() or events.tv_distance.any():
        return None
    said = (events.kind[..., 0] != Kind.CLEAN) | (events.uses > 0)
    rounds = np.flatnonzero(said.any(axis=1))
    if not len(rounds) or rounds[-1] + 1 >= len(events):
        return None
    last = events[rounds[-1]]
    told = (last.uses > 0) & (last.kind[:, 0] != Kind.GAUSSIAN)
    return None if told.any() else int(rounds[-1]) + 1


def weights(setup: Setup, first: int, last: int) -> Vector:
    """The weights that agents mix by in rounds first .. last − 1: (rounds, n, n), at [t, i, j] that of j's message.

    Recomputed from the graph and the mixing's own scalars, which are public.
    """
    n, mixing = setup.topology.agents, setup.mixing
    states: list[Any] = [mixing.init(i) for i in range(n)]
    found = np.zeros((max(0, last - first), n, n))
    for t in range(1, last):
        places = [setup.topology.neighborhood(t, i) for i in range(n)]
        said = [np.asarray(mixing.outgoing(s, here), float) for s, here in zip(states, places, strict=True)]
        for i, here in enumerate(places):
            states[i], row, _ = mixing.weights(states[i], here, [said[j] for j in here.senders])
            if t >= first:
                found[t - first, i, list(here.senders)] = row
    return found


@dataclass(frozen=True)
class Relayed:
    """The rounds of a run in which nothing new is said.

    Attributes:
        start: L.
        weights: (T − L, n, n) by which messages of round L, L + 1, ... are mixed.
        heard: (T − L + 1, n, n) at [t, i, j] whether i receives what j says in that round; its own it does.
        scale: (n,) of the noise of the releases of round L, per coordinate.
    """

    start: int
    weights: Vector
    heard: NDArray[np.bool_]
    scale: Vector

    @classmethod
    def of(cls, setup: Setup, events: Events) -> Relayed | None:
        """That of a run, from its (rounds, agents) events; None: it has none."""
        start = relayed_from(setup, events)
        if start is None:
            return None
        last, n = len(events), setup.topology.agents
        heard = np.array([setup.topology.sends(t).T | np.eye(n, dtype=bool) for t in range(start, last + 1)])
        return cls(start, weights(setup, start, last), heard, np.array(events[start - 1].scale[:, 0]))

    @cached_property
    def is_fixed(self) -> bool:
        """Whether graph and weights stay the same."""
        return bool((self.weights == self.weights[:1]).all() and (self.heard == self.heard[:1]).all())

    @property
    def is_small(self) -> bool:
        """Whether all views are worked out in reasonable time."""
        n = len(self.scale)
        return n**4 * (min(n, len(self.heard)) if self.is_fixed else len(self.heard)) <= MOST

    def leverages(self, viewers: Sequence[int]) -> Vector:
        """ℓ of every agent, toward viewers that tell each other all: (n,), no less than it is; nan for themselves.

        A direction of B is counted as seen, or as rounding, only where it is clearly the one or the other; where one
        is not, all that has arrived at all counts as seen: the links' bound.
        """
        others = np.setdiff1d(np.arange(len(self.scale)), viewers)
        reached, seen = self._reached(viewers)[others], self._seen(viewers)
        found = np.full(len(self.scale), np.nan)
        found[others] = reached
        if seen is not None and (rows := _directions(seen[:, others] * self.scale[others])) is not None:
            leverage = np.minimum(1.0, np.vecdot(rows.T, rows.T) + SLACK)
            found[others] = np.where(reached & (self.scale[others] > 0), leverage, reached)
        return found

    def _reached(self, viewers: Sequence[int]) -> NDArray[np.bool_]:
        """Whether anything of y_k has arrived at the viewers: (n,)."""
        told = self._rows(-1, viewers).any(axis=0)
        for t in reversed(range(len(self.weights))):
            told = told @ (self.weights[t] != 0) | self._rows(t, viewers).any(axis=0)
        return np.asarray(told, bool)

    def _rows(self, t: int, viewers: Sequence[int]) -> Vector:
        """The messages of a round that the viewers have: a row of the identity for each."""
        return np.eye(len(self.scale))[self.heard[t, list(viewers)].any(axis=0)]

    def _seen(self, viewers: Sequence[int]) -> Vector | None:
        """An orthonormal basis of the rows of A; None where it is not clear what is rounding.

        From the last round backwards: what is seen of the messages of round t is what is received in it, and what is
        seen of those of round t + 1, which are W(t) times them.
        """
        rows: Vector | None = self._rows(-1, viewers)
        for t in reversed(range(len(self.weights))):
            assert rows is not None
            before = len(rows)
            if (rows := _directions(np.concatenate([self._rows(t, viewers), rows @ self.weights[t]]))) is None:
                return None
            if self.is_fixed and len(rows) == before and t < len(self.weights) - 1:
                break  # it grows no more
        return rows


def _directions(rows: Vector) -> Vector | None:
    """An orthonormal basis of the space of some rows; None where it is not clear which it is."""
    _, sizes, basis = np.linalg.svd(rows, full_matrices=False)
    largest = sizes.max(initial=0.0)
    unclear = (sizes > NOTHING * largest) & (sizes < CLEAR * largest)
    return None if unclear.any() else np.asarray(basis[sizes >= CLEAR * largest]) if largest else basis[:0]


@dataclass(frozen=True)
class Views:
    """What every node may learn of every agent, in a run whose last rounds relay.

    Attributes:
        start: L: what was said before it costs by all links.
        leverage: (viewer, agent).
        before: (agent,) μ by all links of the rounds before L.
        release: (agent,) that of the release of round L alone.
        mu: (viewer, agent) of the whole view, inf: unproven; nan on the diagonal.
        links: (agent,) that of all links.
    """

    start: int
    leverage: Vector
    before: Vector
    release: Vector
    mu: Vector
    links: Vector

    def epsilon(self, delta: float) -> Vector:
        """ε at δ: (viewer, agent); nan: unproven, and on the diagonal."""
        return _epsilon(self.mu, delta)

    def epsilon_release(self, delta: float) -> Vector:
        """The same of what is said from round L on, given all that was said before, on every link."""
        return _epsilon(np.sqrt(self.leverage) * np.where(self.leverage > 0, self.release, 0.0), delta)

    def epsilon_before(self, delta: float) -> Vector:
        """(agent,) of all that was said before round L, on every link."""
        return _epsilon(self.before, delta)


def _epsilon(mu: Vector, delta: float) -> Vector:
    known: dict[float, float] = {m: gdp_epsilon(m, delta) for m in np.unique(mu).tolist() if isfinite(m)}
    return np.array([known.get(m, np.nan) for m in mu.ravel().tolist()]).reshape(mu.shape)


def views(setup: Setup, events: Events) -> Views | None:
    """The views of all nodes of a run, from its (rounds, agents) events; None: its views are not known to be linear."""
    relayed = Relayed.of(setup, events)
    if relayed is None or not relayed.is_small:
        return None
    costs = [_cost(setup, events, agent, relayed.start) for agent in range(len(relayed.scale))]
    leverage = np.array([relayed.leverages((viewer,)) for viewer in range(len(relayed.scale))])
    return Views(
        relayed.start, leverage,
        before=np.array([_mu(cost, 0.0) for cost in costs]),
        release=np.array([float(np.sqrt(2 * cost[1].max(initial=0.0))) for cost in costs]),
        mu=np.array([[_mu(cost, share) for cost, share in zip(costs, row, strict=True)] for row in leverage]),
        links=np.array([_mu(cost, 1.0) for cost in costs]),
    )  # fmt: skip


def coalition(setup: Setup, events: Events, viewers: Sequence[int]) -> Vector | None:
    """μ of every agent toward viewers that tell each other all: (n,), nan for themselves; None: as `views`."""
    relayed = Relayed.of(setup, events)
    if relayed is None:
        return None
    shares = relayed.leverages(viewers)
    return np.array([_mu(_cost(setup, events, u, relayed.start), share) for u, share in enumerate(shares)])


def _cost(setup: Setup, events: Events, agent: int, start: int) -> tuple[Vector, Vector]:
    """By group of samples, ρ of an agent's messages before round `start`, and of that of the round: (groups,) each."""
    own = events[:, agent]
    ledger = open_ledger(own, Uses.of(own, groups(setup)(agent)))
    before, whole = ledger.at(start - 1)[1], ledger.at(start)[1]
    return before, np.where(np.isfinite(whole), whole - np.where(np.isfinite(before), before, 0.0), inf)


def _mu(cost: tuple[Vector, Vector], leverage: float) -> float:
    """Of the worst group, where a leverage of the last release is seen."""
    if np.isnan(leverage):
        return np.nan
    before, last = cost
    seen = leverage * last if leverage else np.zeros_like(last)
    return float(np.sqrt(2 * (before + seen).max(initial=0.0)))
