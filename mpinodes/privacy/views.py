"""Bound what one node, or some that collude, can learn of the data of another, if all messages are linear in the noise.

From some round L on, a run may send nothing new. In round L every agent k releases y_k = v_k + e_k, e_k ~ N(0, s_k² I),
and from then on all agents relay. A message of round t >= L is then a fixed mix of these releases, Σ_k M_jk y_k, with
M(L) = I and M(t + 1) = W(t) M(t). W(t) are the mixing weights of round t. They depend on the graph and on public
scalars, never on data. Viewers C receive the messages of their in-neighbors, and know all messages of their own. Let A
be the rows of M that they receive, without the columns of C. The viewers see A(v + e), a Gaussian vector of known
covariance A Σ Aᵀ ⊗ I. Adjacent data move one v_u by Δ at most, and no other. With B = A Σ^½ and g the column u of A,

    μ² = Δ² gᵀ (A Σ Aᵀ)⁺ g = (Δ/s_u)² ℓ_u,    ℓ_u = (B⁺ B)_uu,

and the view is μ-GDP; the best test attains this. ℓ_u, the *leverage* of u, is the squared norm of the projection of
the unit vector e_u onto the row space of B. The leverage is 1 where y_u follows from the messages received, as for all
nodes that receive the message of u in round L, and 0 where nothing of y_u has arrived. So the loss toward a node is
never above the loss toward an eavesdropper on all links.

Messages before round L also depend on data, and round L depends on these messages. Given all of them, on every link,
round L is as above. A view is therefore √(μ_before² + Δ²ℓ_u/s_u²)-GDP, with μ_before the loss of the earlier messages
on all links. This is an upper bound, and exact if there are no earlier messages.

The losses of single rows of A do not add up to a bound, because all rows share the same noise: two rows that differ in
y_u alone reveal y_u.

Leverages are computed in doubles; a bound on the rounding error of all rounds is added to them (`Space`).

A second reduction is tighter where agents never add anything that depends on received messages: m(t + 1) is then
c W(t) m(t) plus data and noise of the round itself, with c public (`Algorithm.carried_on`). All messages received from
round 1 on are linear in the noise of all rounds. Data move them along one direction, by Δ(t) in round t. With A their
rows over all (round, agent),

    μ² = (A Δ)ᵀ (A Σ Aᵀ)⁻¹ (A Δ),

which is exact again. No such reduction holds where the data in a message depend on messages that the viewers did not
receive: see scripts/relayed_message.py.
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

# Drawn at random, so that nobody can choose weights that deceive the rank modulo this prime.
PRIME: int = next(p for p in iter(lambda: randbits(29) | 1 << 30 | 1, 0) if pow(3, p - 1, p) == 1)
SMALL = 64  # a residue this small is taken for the integer itself: wrong with a probability below 1e-6
EPSILON = 2.0**-52
WIDE = 4 * float(np.finfo(np.longdouble).eps)
BLUR = 1e-3  # the largest rounding error with which a direction counts as known; leverages rise by the error
SLACK = 1e-6  # added to leverages as well
TERMS = 24  # terms of an error that are followed one by one
WELL = 1e-6  # the least ratio of the smallest to the largest singular value of independent rows
LARGEST = 1500  # releases that `carried_on` looks at, at most
MOST = 10**9  # agents^4 times rounds, above which the views of all nodes are left out: some seconds


def relayed_from(setup: Setup, events: Events) -> int | None:
    """Return L, the last round with new releases; None: the views of nodes are not known to be linear.

    Args:
        setup: of the run.
        events: (rounds, agents) of the whole run.
    """
    e, links = setup.experiment, setup.links
    is_known = type(setup.mechanism).__module__.startswith("mpinodes.mechanisms.") and e.noise.backend == "numpy"
    is_late = links and links.most_late  # a message then mixes more than the last round
    settles = setup.algorithm.settled_below and not setup.endless  # who still moves depends on messages not received
    spreads = e.data["partition"] == "shared" or setup.stream.unproven_because  # a sample moves more than one agent's
    if not (e.private and is_known) or events.vectors > 1 or is_late or settles or spreads:
        return None
    start = 0
    for first, some in events.blocks():
        is_gaussian = np.isin(some.kind, (Kind.CLEAN, Kind.GAUSSIAN)).all()
        if some.is_unknown.any() or some.is_hidden.any() or some.tv_distance.any() or not is_gaussian:
            return None
        # Any message but a Start or a Relay may hold a function of received messages. Only those two state no l2.
        is_new = ((some.kind[..., 0] != Kind.CLEAN) | (some.uses > 0) | (some.l2[..., 0] > 0)).any(axis=1)
        start = first + int(np.flatnonzero(is_new)[-1]) + 1 if is_new.any() else start
    if not 0 < start < len(events):
        return None
    last = events[start - 1 : start][0]
    noised = last.scale[:, 0] > 0
    unfit = (noised & (last.kind[:, 0] != Kind.GAUSSIAN)) | ((last.uses > 0) & ~noised)
    return None if unfit.any() else start


def weights(setup: Setup, first: int, last: int) -> Vector:
    """Return the mixing weights of rounds first .. last − 1: (rounds, n, n); [t, i, j] is what i gives j's message.

    They are recomputed from the graph and the scalars of the mixing, which are public.
    """
    n, count = setup.topology.agents, max(0, last - first)
    rounds = islice(mixed(setup.mixing, setup.reached, range(n), first), count)
    return np.array([r.weights for r in rounds]).reshape(count, n, n)


@dataclass(frozen=True)
class Relayed:
    """The rounds of a run in which all agents relay, and what these rounds reveal.

    Attributes:
        start: L.
        weights: (T − L, n, n) mixing weights of rounds L, L + 1, ...
        heard: (T − L + 1, n, n); [t, i, j]: whether i receives the message of j, or is j. Lost messages count as
            received.
        scale: (n,) noise scale of the releases of round L, per coordinate.
    """

    start: int
    weights: Vector
    heard: NDArray[np.bool_]
    scale: Vector

    @classmethod
    def of(cls, setup: Setup, events: Events) -> Relayed | None:
        """Return the relaying rounds of a run, given its (rounds, agents) events; None: there are none."""
        start = relayed_from(setup, events)
        if start is None:
            return None
        last, n = len(events), setup.topology.agents
        heard = np.array([setup.topology.sends(t).T | np.eye(n, dtype=bool) for t in range(start, last + 1)])
        return cls(start, weights(setup, start, last), heard, np.array(events[start - 1 : start].scale[0, :, 0]))

    @cached_property
    def is_fixed(self) -> bool:
        """Return whether graph and weights stay the same."""
        return bool((self.weights == self.weights[:1]).all() and (self.heard == self.heard[:1]).all())

    @property
    def is_small(self) -> bool:
        """Return whether the views of all nodes can be computed in reasonable time."""
        n = len(self.scale)
        return n**4 * (min(n, len(self.heard)) if self.is_fixed else len(self.heard)) <= MOST

    @cached_property
    def residues(self) -> Indices:
        """Return the weights modulo PRIME, (T − L, n, n): exact, because a double is an integer over a power of two."""
        values, where = np.unique(self.weights, return_inverse=True)
        exact = [a * pow(b, -1, PRIME) % PRIME for a, b in (float(w).as_integer_ratio() for w in values)]
        return np.array(exact, np.int64)[where].reshape(self.weights.shape)

    def leverages(self, viewers: Sequence[int]) -> Vector:
        """Return upper bounds on ℓ of every agent toward viewers that share all they know: (n,); nan for the viewers.

        The rank of B is found over a prime field, without rounding: never above the true rank, and below with a
        probability of less than 1e-6. The row space is found in doubles, with a bound on the error that builds up from
        round to round. Where the error is above `BLUR`, ℓ is 1 for every agent of which anything has arrived.
        """
        others = np.setdiff1d(np.arange(len(self.scale)), viewers)
        noised = others[self.scale[others] > 0]
        exact, space = self.seen(viewers)
        space = space.mixed(np.diag(self.scale)[:, noised], len(_echelon(exact[:, noised])))
        arrived = self._rows(-1, viewers).any(axis=0)  # whether anything of y_k has arrived at the viewers
        for t in reversed(range(len(self.weights))):
            arrived = arrived @ (self.weights[t] != 0) | self._rows(t, viewers).any(axis=0)
        leverage = np.where(arrived, 1.0, 0.0)
        if isfinite(space.error):
            leverage[noised] *= np.minimum(1.0, np.vecdot(space.basis.T, space.basis.T) + SLACK + space.error)
        leverage[list(viewers)] = np.nan
        return leverage

    def _rows(self, t: int, viewers: Sequence[int]) -> Indices:
        """Return the messages of a round that the viewers receive: one row of the identity for each."""
        return np.eye(len(self.scale), dtype=np.int64)[self.heard[t, list(viewers)].any(axis=0)]

    def seen(self, viewers: Sequence[int]) -> tuple[Indices, Space]:
        """Return the row space of A: a reduced basis over the prime field, and a `Space` in doubles.

        The loop goes backwards. The rows seen of the messages of round t are those received in round t, and the rows
        seen of round t + 1 times W(t).
        """
        n = len(self.scale)
        exact = self._rows(-1, viewers)
        space = Space.of(exact)
        for t in reversed(range(len(self.weights))):
            before, received = len(exact), self._rows(t, viewers)
            exact = _echelon(np.concatenate([received, _product(exact, self.residues[t])]))
            small = np.where(exact > PRIME // 2, exact - PRIME, exact)
            # A basis of small integers over the prime field is a basis over the rationals, too.
            is_known = bool((np.abs(small) <= SMALL).all())
            space = Space.of(small) if is_known else space.mixed(self.weights[t], len(exact), received)
            if self.is_fixed and len(exact) in (before, n) and t < len(self.weights) - 1:
                break  # the space grows no more
        return exact, space


@dataclass(frozen=True)
class Space:
    """A row space, with a bound on its rounding error.

    Attributes:
        basis: (rank, n) orthonormal up to rounding; the exact space has the basis `basis` + X.
        errors: (size, left, right) of each term of X = Σ left E right, for some E of spectral norm at most `size`.
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
        """Return a bound on the spectral norm of X; inf: X may be so large that the space is not known."""
        size = _largest(self.errors)
        return size if size <= BLUR else inf

    def mixed(self, w: Vector, rank: int, received: Any = ()) -> Space:
        """Return the space that the rows times `w` and the rows received span, given its dimension `rank`.

        With the new `basis`, the exact rows are C `basis` + D, where D comes from X and from rounding here. With
        G C = I + F, they span `basis` + (I + F + G D basisᵀ)⁻¹ G D (I − basisᵀ basis). Errors of several rounds thus
        grow by the product of matrices, which is far less than the product of the norms of the matrices.
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
        c, unit, rest = rows @ basis.T, np.eye(rank), np.eye(w.shape[1]) - basis.T @ basis
        wide: list[Any] = [matrix.astype(np.longdouble) for matrix in (self.basis, w, c, basis)]
        lost = float(norm((np.concatenate([received, wide[0] @ wide[1]]) - wide[2] @ wide[3]).astype(float)))
        lost += WIDE * len(w) * float(norm(self.basis) * norm(w) + norm(c) * norm(basis))
        errors = [(size, g[:, len(received) :] @ a, b @ w) for size, a, b in self.errors]
        errors.append((lost, g, np.eye(w.shape[1])))
        turned = _largest([(size, a, b @ basis.T) for size, a, b in errors]) + float(norm(g @ c - unit))
        errors = [(size, a, b @ rest) for size, a, b in errors]
        total = _largest(errors) if turned <= 0.5 else inf
        terms = errors if len(errors) < TERMS else [(total, unit, rest)]
        return Space(basis, [*terms, (2 * turned * total, unit, rest)])


def _largest(errors: Errors) -> float:
    """Return a bound on the spectral norm of a sum of errors: of a matrix, √(‖·‖₁ ‖·‖∞) or the Frobenius norm."""

    def spectral(matrix: Vector) -> float:
        sizes = np.abs(matrix)
        largest = sizes.sum(axis=0).max(initial=0.0) * sizes.sum(axis=1).max(initial=0.0)
        return float(min(norm(matrix), np.sqrt(largest)))

    return sum(size * spectral(left) * spectral(right) for size, left, right in errors)


def _echelon(rows: Indices) -> Indices:
    """Return the reduced basis of the space of some rows over the prime field: (m, n) -> (rank, n)."""
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


def _product(left: Indices, right: Indices) -> Indices:
    """Return a product of matrices over the prime field; `right` is split in two, so that sums fit 63 bits."""
    high, low = np.divmod(right, 2**16)
    return np.asarray((left @ high % PRIME * 2**16 + left @ low) % PRIME)


def carried_on(setup: Setup, events: Events, relayed: Relayed, viewers: Sequence[int]) -> Vector | None:
    """Return μ of every agent toward viewers, of all messages since round 1: (n,); None: they are not known linear."""
    start, n = relayed.start, len(relayed.scale)
    factors = [setup.algorithm.carried_on(t) for t in range(2, start + 1)]
    scale, shift = (events.event(name)[1:start, :, 0] for name in ("scale", "l2"))  # of rounds 2 .. L
    uses = events.uses[1:start]
    if None in factors or not setup.algorithm.whole_data or np.isfinite(setup.experiment.clip):
        return None
    if not ((scale > 0).all() and (uses > 0).all()) or scale.size > LARGEST:
        return None
    mixed = weights(setup, 2, start)
    others = np.setdiff1d(np.arange(n), viewers)
    exact, space = relayed.seen(viewers)  # of others' messages of round L; if rounding hides it, the whole space
    space = space.mixed(np.eye(n)[:, others], len(_echelon(exact[:, others])))
    last, error = (space.basis, space.error) if isfinite(space.error) else (np.eye(len(others)), 0.0)
    made = np.zeros((start - 1, n, start - 1, n))  # message (t, i) as a mix of the new parts (τ, k) of all releases
    made[0, :, 0] = np.eye(n)
    lost = np.zeros(start - 1)  # bound on the rounding error of the messages of each round, in spectral norm
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
    mu = np.full(n, np.nan)
    # No direction of the rows is further off than this angle, which is charged with the μ of all links.
    angle = off / sizes[-1] * norm(shift / scale, axis=0)[others]
    mu[others] = norm(left.T @ moved / sizes[:, None], axis=0) * (1 + SLACK) + angle
    return mu


@dataclass(frozen=True)
class Views:
    """Bounds on what every node can learn of every agent, in a run whose last rounds relay; `epsilons` gives their ε.

    Attributes:
        start: L, the last round with new releases; earlier messages are priced on all links.
        leverage: (viewer, agent).
        before: (agent,) μ of all messages before round L, on all links.
        release: (agent,) μ of the release of round L alone.
        relayed: (viewer, agent) μ of the messages from round L on, given all earlier messages on every link.
        mu: (viewer, agent) μ of the whole view; inf: unproven; nan on the diagonal.
        links: (agent,) μ of all messages on all links.
        distance: (viewer, agent) hops over all edges of rounds L, L + 1, ...; −1: there is no path; nan: itself.
    """

    start: int
    leverage: Vector
    before: Vector
    release: Vector
    relayed: Vector
    mu: Vector
    links: Vector
    distance: Vector


def epsilons(mu: Vector, delta: float) -> Vector:
    """Return ε at δ of μ-GDP, for each entry of `mu`; nan where μ or ε is not finite: unproven, and on the diagonal."""
    known = {m: e for m in np.unique(mu).tolist() if isfinite(m) and isfinite(e := gdp_epsilon(m, delta))}
    return np.array([known.get(m, np.nan) for m in mu.ravel().tolist()]).reshape(mu.shape)


def views(setup: Setup, events: Events, relayed: Relayed | None = None) -> Views | None:
    """Return the views of all nodes; None: the messages are not known to be linear, or there are too many nodes.

    Args:
        setup: of the run.
        events: (rounds, agents) of the whole run.
        relayed: the rounds that relay, if they are known already.
    """
    from scipy.sparse.csgraph import shortest_path

    relayed = relayed or Relayed.of(setup, events)
    if relayed is None or not relayed.is_small:
        return None
    events, n = events[: relayed.start], len(relayed.scale)
    costs = [_cost(setup, events, agent) for agent in range(n)]
    leverage = np.array([relayed.leverages((viewer,)) for viewer in range(n)])
    hops = shortest_path(relayed.heard.any(axis=0).astype(float), unweighted=True)
    np.fill_diagonal(hops, np.nan)
    release = np.array([float(np.sqrt(2 * last.max(initial=0.0))) for _, last in costs])
    return Views(
        relayed.start, leverage, before=_mu(costs, np.zeros(n)), release=release,
        relayed=np.sqrt(leverage) * np.where(leverage > 0, release, 0.0),
        mu=np.array([_toward(setup, events, relayed, (k,), costs, row) for k, row in enumerate(leverage)]),
        links=_mu(costs, np.ones(n)), distance=np.where(np.isinf(hops), -1.0, hops),
    )  # fmt: skip


def coalition(setup: Setup, events: Events, viewers: Sequence[int]) -> Vector | None:
    """Return μ of every agent toward viewers that share all they know: (n,); nan for the viewers.

    None: the messages are not known to be linear.
    """
    relayed = Relayed.of(setup, events)
    if relayed is None:
        return None
    events = events[: relayed.start]
    costs = [_cost(setup, events, agent) for agent in range(len(relayed.scale))]
    return _toward(setup, events, relayed, viewers, costs, relayed.leverages(viewers))


Costs = Sequence[tuple[Vector, Vector]]


def _toward(
    setup: Setup, events: Events, relayed: Relayed, viewers: Sequence[int], costs: Costs, leverage: Vector
) -> Vector:
    """Return μ of every agent toward viewers, the smaller of what the two reductions give: (n,)."""
    mu, whole = _mu(costs, leverage), carried_on(setup, events, relayed, viewers)
    return mu if whole is None else np.minimum(mu, whole)


def _cost(setup: Setup, events: Events, agent: int) -> tuple[Vector, Vector]:
    """Return ρ of an agent's messages before round L, the last of `events`, and of that message: (groups,) each."""
    own = events[:, agent]
    ledger = open_ledger(own, Uses.of(own, groups(setup)(agent)))
    before, whole = ledger.at(len(own) - 1)[1], ledger.at(len(own))[1]
    return before, np.where(np.isfinite(whole), whole - np.where(np.isfinite(before), before, 0.0), inf)


def _mu(costs: Costs, leverage: Vector) -> Vector:
    """Return μ of the worst group of every agent, toward a view of its last release with some leverage: (n,)."""
    mu = leverage.copy()  # nan where the leverage is nan
    for agent, ((before, last), share) in enumerate(zip(costs, leverage.tolist(), strict=True)):
        if not np.isnan(share):
            seen = share * last if share else np.zeros_like(last)
            mu[agent] = np.sqrt(2 * (before + seen).max(initial=0.0))
    return mu
