"""What a node, or some that collude, learn of another's data, where all that is said are linear mixes of noised values.

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

What each row of A tells by itself does not add up to a bound, for all rows hold the same noise: two that differ in y_u
alone give it away.

Leverages are worked out in doubles, with a bound on the rounding of all rounds, which is added to them (`Space`).

Tighter is what is known where agents already put in nothing that depends on what they heard: m(t + 1) is then
c W(t) m(t) and what data and noise of its own round add, c public (`Algorithm.carried_on`). All that is received, from
round 1 on, is linear in the noise of all rounds; data move it along one direction, by Δ(t) in round t, and with A its
rows over all (round, agent)

    μ² = (A Δ)ᵀ (A Σ Aᵀ)⁻¹ (A Δ),

exact again. No such reduction holds for messages whose data depend on messages that the viewers did not receive: see
scripts/relayed_message.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from math import inf, isfinite
from secrets import randbits
from typing import Any

import numpy as np
from numpy.linalg import norm
from numpy.typing import NDArray

from mpinodes.core.events import Events, Kind
from mpinodes.core.messages import Vector
from mpinodes.core.parts import Setup, mixed
from mpinodes.privacy.accountant import groups
from mpinodes.privacy.curves import gdp_epsilon
from mpinodes.privacy.leakage import Indices
from mpinodes.privacy.ledger import Uses
from mpinodes.privacy.recursive import open_ledger

Errors = Sequence[tuple[float, Vector, Vector]]

# Drawn at random, so that no weights can be made for it.
PRIME: int = next(p for p in iter(lambda: randbits(29) | 1 << 30 | 1, 0) if pow(3, p - 1, p) == 1)
SMALL = 64  # what is so small modulo the prime is that integer, but for bad luck of less than one in a million
EPSILON = 2.0**-52
WIDE = 4 * float(np.finfo(np.longdouble).eps)
BLUR = 1e-3  # the largest error by rounding with which a direction counts as known; leverages are the larger for it
SLACK = 1e-6  # what is added to leverages beside it
TERMS = 24  # of an error, that are followed each for itself
WELL = 1e-6  # the least over the largest singular value of what is taken for independent
LARGEST = 1500  # releases with noise of their own, of a run that is linear throughout
MOST = 10**9  # agents^4 times stretches of rounds, above which views are not worked out: some seconds


def relayed_from(setup: Setup, events: Events) -> int | None:
    """L, from which on nothing new is said: the last round with a release of its own; None: views are not linear.

    Args:
        setup: of the run.
        events: (rounds, agents) of all of it.
    """
    e = setup.experiment
    if not (e.private and e.noise.backend == "numpy") or events.vectors > 1:
        return None
    if not type(setup.mechanism).__module__.startswith("mpinodes.mechanisms."):
        return None
    if setup.links and setup.links.most_late:  # a message is then no mix of those of the round before alone
        return None
    if setup.algorithm.settled_below and not setup.endless:  # who moves still, and the stop, tell of unheard messages
        return None
    if e.data["partition"] == "shared" or setup.stream.unproven_because:  # a sample moves more than one agent's
        return None
    start = 0
    for first, some in events.blocks():
        if some.is_unknown.any() or some.is_hidden.any() or some.tv_distance.any():
            return None
        if not np.isin(some.kind, (Kind.CLEAN, Kind.GAUSSIAN)).all():
            return None
        # Only a Start or a Relay states no sensitivity: any function of what was received may be in other messages.
        said = ((some.kind[..., 0] != Kind.CLEAN) | (some.uses > 0) | (some.l2[..., 0] > 0)).any(axis=1)
        start = first + int(np.flatnonzero(said)[-1]) + 1 if said.any() else start
    if not 0 < start < len(events):
        return None
    last = events[start - 1 : start][0]
    noised = last.scale[:, 0] > 0
    unfit = (noised & (last.kind[:, 0] != Kind.GAUSSIAN)) | ((last.uses > 0) & ~noised)
    return None if unfit.any() else start


def weights(setup: Setup, first: int, last: int) -> Vector:
    """The weights that agents mix by in rounds first .. last − 1: (rounds, n, n), at [t, i, j] that of j's message.

    Recomputed from the graph and the mixing's own scalars, which are public.
    """
    n, count = setup.topology.agents, max(0, last - first)
    rounds = islice(mixed(setup.mixing, setup.reached, range(n), first), count)
    return np.array([r.weights for r in rounds]).reshape(count, n, n)


@dataclass(frozen=True)
class Relayed:
    """The rounds of a run in which nothing new is said.

    Attributes:
        start: L.
        weights: (T − L, n, n) by which messages of round L, L + 1, ... are mixed.
        heard: (T − L + 1, n, n) at [t, i, j] whether i receives what j says in that round; its own it does. What is
            lost counts as received.
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
        return cls(start, weights(setup, start, last), heard, np.array(events[start - 1 : start].scale[0, :, 0]))

    @cached_property
    def is_fixed(self) -> bool:
        """Whether graph and weights stay the same."""
        return bool((self.weights == self.weights[:1]).all() and (self.heard == self.heard[:1]).all())

    @property
    def is_small(self) -> bool:
        """Whether all views are worked out in reasonable time."""
        n = len(self.scale)
        return n**4 * (min(n, len(self.heard)) if self.is_fixed else len(self.heard)) <= MOST

    @cached_property
    def residues(self) -> Indices:
        """The weights modulo PRIME: (T − L, n, n). A double is a fraction by a power of two, so nothing is rounded."""
        each, where = np.unique(self.weights, return_inverse=True)
        exact = [a * pow(b, -1, PRIME) % PRIME for a, b in (float(w).as_integer_ratio() for w in each)]
        return np.array(exact, np.int64)[where].reshape(self.weights.shape)

    def leverages(self, viewers: Sequence[int]) -> Vector:
        """ℓ of every agent, toward viewers that tell each other all: (n,), no less than it is; nan for themselves.

        How many directions of B are seen is found without rounding, over a prime field, whose ranks are never above
        the true ones and equal to them but for bad luck of less than one in a million. Which ones is found in doubles,
        with a bound on the error that builds up from round to round. Where that is not small beside `SLACK`, all that
        has arrived counts as seen: the links' bound.
        """
        others = np.setdiff1d(np.arange(len(self.scale)), viewers)
        noised = others[self.scale[others] > 0]
        exact, space = self._seen(viewers)
        space = space.mixed(np.diag(self.scale)[:, noised], len(_echelon(exact[:, noised])))
        arrived = self._rows(-1, viewers).any(axis=0)  # whether anything of y_k has arrived at the viewers
        for t in reversed(range(len(self.weights))):
            arrived = arrived @ (self.weights[t] != 0) | self._rows(t, viewers).any(axis=0)
        leverage = np.where(arrived, 1.0, 0.0)
        if isfinite(space.error):
            leverage[noised] *= np.minimum(1.0, np.vecdot(space.basis.T, space.basis.T) + SLACK + space.error)
        leverage[list(viewers)] = np.nan
        return leverage

    def beside(self, viewers: Sequence[int], others: Indices) -> tuple[Vector, float]:
        """Return what viewers see of the others' messages of round L, by orthonormal rows, and the rows' error.

        Where rounding hides it, that is all of them.
        """
        exact, space = self._seen(viewers)
        space = space.mixed(np.eye(len(self.scale))[:, others], len(_echelon(exact[:, others])))
        return (space.basis, space.error) if isfinite(space.error) else (np.eye(len(others)), 0.0)

    def _rows(self, t: int, viewers: Sequence[int]) -> Indices:
        """The messages of a round that the viewers have: a row of the identity for each."""
        return np.eye(len(self.scale), dtype=np.int64)[self.heard[t, list(viewers)].any(axis=0)]

    def _seen(self, viewers: Sequence[int]) -> tuple[Indices, Space]:
        """Return the space of the rows of A: by a reduced basis over the prime field, and in doubles.

        From the last round backwards: what is seen of the messages of round t is what is received in it, and what is
        seen of those of round t + 1, which are W(t) times them.
        """
        n = len(self.scale)
        exact = self._rows(-1, viewers)
        space = Space.of(exact)
        for t in reversed(range(len(self.weights))):
            before, received = len(exact), self._rows(t, viewers)
            exact = _echelon(np.concatenate([received, _product(exact, self.residues[t])]))
            small = np.where(exact > PRIME // 2, exact - PRIME, exact)
            # A basis of small integers over the prime field is that of the rationals: where all is seen, or symmetric.
            is_known = bool((np.abs(small) <= SMALL).all())
            space = Space.of(small) if is_known else space.mixed(self.weights[t], len(exact), received)
            if self.is_fixed and len(exact) in (before, n) and t < len(self.weights) - 1:
                break  # it grows no more
        return exact, space


@dataclass(frozen=True)
class Space:
    """A space of rows, with a bound on what rounding has made of it.

    Attributes:
        basis: (rank, n) orthonormal but for rounding; the exact space has the basis `basis` + X.
        errors: (size, left, right) of each term of X = Σ left E right, with some E of spectral norm `size` at most.
    """

    basis: Vector
    errors: Errors

    @classmethod
    def of(cls, rows: Indices) -> Space:
        """Return the space of a reduced basis of small integers."""
        size = 8 * rows.size * EPSILON * float(norm(rows))
        basis = np.linalg.qr(rows.T.astype(float)).Q.T
        return cls(basis, [(size, np.eye(len(rows)), np.eye(rows.shape[1]))])

    @cached_property
    def error(self) -> float:
        """The largest spectral norm that X can have; inf: so large that nothing is known."""
        size = _largest(self.errors)
        return size if size <= BLUR else inf

    def mixed(self, w: Vector, rank: int, received: Any = ()) -> Space:
        """Return the space of known dimension that the rows times `w` and the rows received span.

        Exact rows are C `basis` + D, of the new basis, where D is what X makes and what is lost here. With G C = I + F,
        they span `basis` + (I + F + G D basisᵀ)⁻¹ G D (I − basisᵀ basis). So errors of several rounds grow by the
        product of their matrices, which is far less than the product of the matrices' norms.
        """
        if not isfinite(self.error):
            return self
        if not rank:
            return Space(np.zeros((0, w.shape[1])), [])
        received = np.reshape(received, (-1, w.shape[1]))
        rows = np.concatenate([received, self.basis @ w])
        left, sizes, basis = np.linalg.svd(rows, full_matrices=False)
        if sizes[rank - 1] <= 1e-12 * sizes[0]:
            return Space(basis, [(inf, left, basis)])
        g, basis = (left[:, :rank] / sizes[:rank]).T, basis[:rank]
        c, one, rest = rows @ basis.T, np.eye(rank), np.eye(w.shape[1]) - basis.T @ basis
        wide: list[Any] = [matrix.astype(np.longdouble) for matrix in (self.basis, w, c, basis)]
        lost = float(norm((np.concatenate([received, wide[0] @ wide[1]]) - wide[2] @ wide[3]).astype(float)))
        lost += WIDE * len(w) * float(norm(self.basis) * norm(w) + norm(c) * norm(basis))
        errors = [(size, g[:, len(received) :] @ a, b @ w) for size, a, b in self.errors]
        errors.append((lost, g, np.eye(w.shape[1])))
        turned = _largest([(size, a, b @ basis.T) for size, a, b in errors]) + float(norm(g @ c - one))
        errors = [(size, a, b @ rest) for size, a, b in errors]
        total = _largest(errors) if turned <= 0.5 else inf
        kept = errors if len(errors) < TERMS else [(total, one, rest)]
        return Space(basis, [*kept, (2 * turned * total, one, rest)])


def _largest(errors: Errors) -> float:
    """Return a bound on the spectral norm of a sum of errors: of a matrix, √(‖·‖₁ ‖·‖∞) or the Frobenius norm."""
    return sum(size * _spectral(left) * _spectral(right) for size, left, right in errors)


def _spectral(matrix: Vector) -> float:
    sizes = np.abs(matrix)
    largest = sizes.sum(axis=0).max(initial=0.0) * sizes.sum(axis=1).max(initial=0.0)
    return float(min(norm(matrix), np.sqrt(largest)))


def _echelon(rows: Indices) -> Indices:
    """A basis of the space of some rows over the prime field: (m, n) -> (rank, n)."""
    rows, rank = rows.copy(), 0
    for column in range(rows.shape[1]):
        there = np.flatnonzero(rows[rank:, column])
        if not len(there):
            continue
        rows[[rank, rank + there[0]]] = rows[[rank + there[0], rank]]
        rows[rank] = rows[rank] * pow(int(rows[rank, column]), -1, PRIME) % PRIME
        factor = rows[:, column].copy()
        factor[rank] = 0
        rows = (rows - factor[:, None] * rows[rank]) % PRIME
        rank += 1
    return rows[:rank]


def _product(one: Indices, other: Indices) -> Indices:
    """A product of matrices over the prime field; in two parts, for sums to fit 63 bits."""
    high, low = np.divmod(other, 2**16)
    return np.asarray((one @ high % PRIME * 2**16 + one @ low) % PRIME)


def carried_on(setup: Setup, events: Events, relayed: Relayed, viewers: Sequence[int]) -> Vector | None:
    """μ of every agent toward viewers by all that is said since round 1, (n,); None: that is not known to be linear."""
    start, n = relayed.start, len(relayed.scale)
    factors = [setup.algorithm.carried_on(t) for t in range(2, start + 1)]
    scale, shift = (events.event(name)[1:start, :, 0] for name in ("scale", "l2"))  # of rounds 2 .. L
    told = events.uses[1:start]
    if None in factors or not setup.algorithm.whole_data or np.isfinite(setup.experiment.clip):
        return None
    if not ((scale > 0).all() and (told > 0).all()) or scale.size > LARGEST:
        return None
    mixed = weights(setup, 2, start)
    others = np.setdiff1d(np.arange(n), viewers)
    last, error = relayed.beside(viewers, others)
    made = np.zeros((start - 1, n, start - 1, n))  # message (t, i) of the releases' own parts (τ, k)
    made[0, :, 0] = np.eye(n)
    lost = np.zeros(start - 1)  # by rounding, of the messages of each round: in spectral norm, at most
    for t in range(1, start - 1):
        w = factors[t] * mixed[t - 1]
        made[t], made[t, :, t] = np.einsum("ij,jsk->isk", w, made[t - 1]), np.eye(n)
        lost[t] = norm(w, 2) * lost[t - 1] + 2 * n * EPSILON * norm(w) * norm(made[t - 1])
    heard = [
        made[t - 2, others[setup.topology.sends(t)[np.ix_(others, np.array(viewers))].any(axis=1)]]
        for t in range(2, start)
    ]
    rows = np.concatenate([*heard, np.einsum("ri,isk->rsk", last, made[-1, others])])[:, :, others]
    flat = (rows * scale[:, others]).reshape(len(rows), -1)
    moved = np.einsum("rsk,sk->rk", rows, shift[:, others])
    left, sizes, _ = np.linalg.svd(flat, full_matrices=False)
    off = scale.max() * (lost.sum() + (error + 2 * n * EPSILON) * norm(made[-1]))
    if not len(sizes) or sizes[-1] < WELL * sizes[0] or not off <= BLUR * sizes[-1]:
        return None
    found = np.full(n, np.nan)
    # As of leverages: no direction of the rows is further off than this angle, by which all links' μ counts.
    angle = off / sizes[-1] * norm(shift / scale, axis=0)[others]
    found[others] = norm(left.T @ moved / sizes[:, None], axis=0) * (1 + SLACK) + angle
    return found


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
        distance: (viewer, agent) in hops, over all edges of rounds L, L + 1, ...; −1: there is no way; nan: itself.
    """

    start: int
    leverage: Vector
    before: Vector
    release: Vector
    mu: Vector
    links: Vector
    distance: Vector

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
    known = {m: e for m in np.unique(mu).tolist() if isfinite(m) and isfinite(e := gdp_epsilon(m, delta))}
    return np.array([known.get(m, np.nan) for m in mu.ravel().tolist()]).reshape(mu.shape)


def views(setup: Setup, events: Events) -> Views | None:
    """The views of all nodes of a run, from its (rounds, agents) events; None: not known to be linear, or too many."""
    relayed = Relayed.of(setup, events)
    return views_of(setup, events, relayed) if relayed and relayed.is_small else None


def views_of(setup: Setup, events: Events, relayed: Relayed) -> Views:
    """The same, of a run whose relaying is known."""
    from scipy.sparse.csgraph import shortest_path

    costs = [_cost(setup, events, agent, relayed.start) for agent in range(len(relayed.scale))]
    leverage = np.array([relayed.leverages((viewer,)) for viewer in range(len(relayed.scale))])
    hops = shortest_path(relayed.heard.any(axis=0).astype(float), unweighted=True)
    np.fill_diagonal(hops, np.nan)
    return Views(
        relayed.start, leverage,
        before=np.array([_mu(cost, 0.0) for cost in costs]),
        release=np.array([float(np.sqrt(2 * cost[1].max(initial=0.0))) for cost in costs]),
        mu=np.array([_toward(setup, events, relayed, (k,), costs, row) for k, row in enumerate(leverage)]),
        links=np.array([_mu(cost, 1.0) for cost in costs]), distance=np.where(np.isinf(hops), -1.0, hops),
    )  # fmt: skip


def coalition(setup: Setup, events: Events, viewers: Sequence[int]) -> Vector | None:
    """μ of every agent toward viewers that tell each other all: (n,), nan for themselves; None: as `views`."""
    relayed = Relayed.of(setup, events)
    if relayed is None:
        return None
    costs = [_cost(setup, events, agent, relayed.start) for agent in range(len(relayed.scale))]
    return _toward(setup, events, relayed, viewers, costs, relayed.leverages(viewers))


def _toward(
    setup: Setup,
    events: Events,
    relayed: Relayed,
    viewers: Sequence[int],
    costs: Sequence[tuple[Vector, Vector]],
    leverage: Vector,
) -> Vector:
    """μ of every agent, the less of what is known by the two reductions."""
    found = np.array([_mu(cost, share) for cost, share in zip(costs, leverage, strict=True)])
    whole = carried_on(setup, events, relayed, viewers)
    return found if whole is None else np.minimum(found, whole)


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
