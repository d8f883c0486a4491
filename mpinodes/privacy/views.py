"""Bound what one node, or several colluding nodes, can learn of another node's data, if messages are linear in noise.

Setting. L is the last round in which any agent sends something new. In round L every agent k sends y_k = v_k + e_k: a
vector v_k that depends on data, plus noise e_k ~ N(0, s_k² I). After round L all agents *relay*: they send weighted
means of received messages. The message of agent j in round t ≥ L is then a fixed mix of the vectors of round L,

    Σ_k M(t)_jk y_k,   M(L) = I,   M(t + 1) = W(t) M(t),

where W(t) are the mixing weights of round t. The weights depend on the graph and on public scalars, never on data.

First bound. The *viewers* are the nodes C that collude. They receive the messages of their in-neighbors and know their
own messages. Adjacent data change the vector v_u of one agent u by at most Δ in L2 norm, and change no other v_k. Let A
be the matrix with one row for each message that the viewers receive from round L on: the row of the message in M(t),
without the columns of C. Let Σ = diag(s_k²) over k not in C, B = A Σ^½, and g the column u of A. The viewers
see A(v + e), a Gaussian vector of known covariance A Σ Aᵀ ⊗ I. This vector is μ-GDP with

    μ² = Δ² gᵀ (A Σ Aᵀ)⁺ g = (Δ/s_u)² ℓ_u,    ℓ_u = (B⁺ B)_uu.

This is exact: the best test attains μ. The *leverage* ℓ_u of agent u is the squared norm of the projection of the unit
vector of u onto the row space of B.

- The leverage is 1 if y_u follows from the received messages, as for all nodes that receive the message of u in round
  L.
- The leverage is 0 if no received message depends on y_u.
- Every leverage is at most 1, so the privacy loss toward a node is never above the privacy loss toward an eavesdropper
  on all links.

Messages before round L also depend on data, and round L depends on these messages. Given all earlier messages, on every
link, the formula above holds for round L. Let μ_before be μ of the messages before round L on all links. All messages
that the viewers receive are then together μ-GDP with

    μ² = μ_before² + Δ² ℓ_u/s_u².

This is an upper bound, and exact if there are no earlier messages.

A sum of the privacy losses of single rows of A is no bound, because all rows contain the same noise: the difference of
two rows that differ only in the weight of y_u reveals y_u.

Leverages are computed in double precision. A bound on the rounding error of all rounds is added to the leverages
(`Space`).

Second bound. This bound is tighter, but holds only if what an agent adds to the mix of received messages never depends
on received messages. Let m(t) be the messages of all agents in round t. Then m(t + 1) is c W(t) m(t) plus data and
noise of round t + 1, with c public (`Algorithm.carried_on`). All messages received from round 1 on are linear in the
noise of all rounds. Let A now be the matrix of the weights of the noise in the received messages: a row for each
received message, a column for each pair (round, agent). Adjacent data move the messages along one direction, by Δ(t) in
round t. Let Δ be the vector with the entry Δ(t) for round t of agent u, and 0 for all other agents. Then

    μ² = (A Δ)ᵀ (A Σ Aᵀ)⁻¹ (A Δ),

which is again exact. No such bound holds if the data in a message depend on messages that the viewers did not receive:
see scripts/relayed_message.py.
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

# The prime is random, so that nobody can choose weights whose rank modulo this prime is below the true rank.
PRIME: int = next(p for p in iter(lambda: randbits(29) | 1 << 30 | 1, 0) if pow(3, p - 1, p) == 1)
SMALL = 64  # residues of at most this size count as integers, which is wrong with a probability below 1e-6
EPSILON = 2.0**-52  # rounding unit of doubles
WIDE = 4 * float(np.finfo(np.longdouble).eps)  # bound on the relative rounding error of products in long doubles
BLUR = 1e-3  # a row space counts as known up to this rounding error; leverages rise by the error
SLACK = 1e-6  # added to leverages in addition to the rounding error
TERMS = 24  # largest number of terms of an error; more terms are replaced by their bound
WELL = 1e-6  # rows count as independent if their smallest singular value is at least this share of the largest
LARGEST = 1500  # largest number of releases for which `carried_on` computes a bound
MOST = 10**9  # if agents^4 times rounds is above this number (some seconds), the views of all nodes are not computed


def relayed_from(setup: Setup, events: Events) -> int | None:
    """Return the last round L in which any agent sends something new. After round L, all agents only relay messages.

    To relay is to send weighted means of received messages. The result is None in these cases:

    - No agent sends anything new, or an agent sends something new in the last round of the run.
    - It is not known that messages are linear in Gaussian noise (of the backend numpy).
    - In round L, an agent sends a vector without noise that depends on a new loss function.
    - Messages have several vectors, or may arrive late.
    - Batches are secret, or agents share data.
    - The stream states a reason why nothing is proven about it.
    - Agents may stop because of messages that a viewer does not receive.

    Args:
        setup: the set-up of the run.
        events: (rounds, agents) the privacy events (noise and sensitivity of messages) of the whole run.
    """
    e, links = setup.experiment, setup.links
    is_known = type(setup.mechanism).__module__.startswith("mpinodes.mechanisms.") and e.noise.backend == "numpy"
    is_late = links and links.faults.most_late  # if messages arrive late, a message mixes messages of several rounds
    settles = setup.algorithm.settled_below and not setup.endless  # which agents stop depends on messages not received
    spreads = e.data["partition"] == "shared" or setup.stream.unproven_because  # a sample changes several v_k
    is_amplified = e.sampling != "none"  # the amplified price covers the view of all links only
    if not (e.private and is_known) or is_amplified or events.vectors > 1 or is_late or settles or spreads:
        return None
    start = 0
    for first, some in events.blocks():
        is_gaussian = np.isin(some.kind, (Kind.CLEAN, Kind.GAUSSIAN)).all()
        if some.is_unknown.any() or some.is_hidden.any() or some.tv_distance.any() or not is_gaussian:
            return None
        # Every message except a Start or a Relay may be new. Only Start and Relay have l2 = 0.
        is_new = ((some.kind[..., 0] != Kind.CLEAN) | (some.uses > 0) | (some.l2[..., 0] > 0)).any(axis=1)
        start = first + int(np.flatnonzero(is_new)[-1]) + 1 if is_new.any() else start
    if not 0 < start < len(events):
        return None
    last = events[start - 1 : start][0]
    noised = last.scale[:, 0] > 0
    unfit = (noised & (last.kind[:, 0] != Kind.GAUSSIAN)) | ((last.uses > 0) & ~noised)
    return None if unfit.any() else start


def weights(setup: Setup, first: int, last: int) -> Vector:
    """Return the mixing weights of the rounds `first` to `last` − 1, as an array (rounds, agents, agents).

    The entry [t, i, j] is the weight that agent i gives to the message of agent j.
    """
    n, count = setup.topology.agents, max(0, last - first)
    rounds = islice(mixed(setup.mixing, setup.reached, range(n), first), count)
    return np.array([r.weights for r in rounds]).reshape(count, n, n)


@dataclass(frozen=True)
class Relayed:
    """Hold the mixing weights and links of the last rounds of a run, in which all agents only relay messages.

    To relay is to send weighted means of received messages. L is the last round in which any agent sends something new,
    T is the last round of the run, and n is the number of agents.

    Attributes:
        start: L.
        weights: (T − L, n, n) the mixing weights of rounds L to T − 1. The weights of round t give the messages of
            round t + 1.
        heard: (T − L + 1, n, n) the entry [t, i, j] says whether agent i receives the message of agent j in round L +
            t, or i = j. Lost messages count as received.
        scale: (n,) the standard deviation of the noise in the vectors of round L, per coordinate.
    """

    start: int
    weights: Vector
    heard: NDArray[np.bool_]
    scale: Vector

    @classmethod
    def of(cls, setup: Setup, events: Events) -> Relayed | None:
        """Return the rounds of a run in which all agents only relay: they send weighted means of received messages.

        The result is None if `relayed_from` returns None, for example because the run has no such rounds.

        Args:
            setup: the set-up of the run.
            events: (rounds, agents) the privacy events of the run.
        """
        start = relayed_from(setup, events)
        if start is None:
            return None
        last, n = len(events), setup.topology.agents
        heard = np.array([setup.topology.sends(t).T | np.eye(n, dtype=bool) for t in range(start, last + 1)])
        return cls(start, weights(setup, start, last), heard, np.array(events[start - 1 : start].scale[0, :, 0]))

    @cached_property
    def is_fixed(self) -> bool:
        """Return whether graph and mixing weights are the same in all rounds in which agents only relay messages."""
        return bool((self.weights == self.weights[:1]).all() and (self.heard == self.heard[:1]).all())

    @property
    def is_small(self) -> bool:
        """Return whether it takes only some seconds to compute what every node can learn.

        The time is estimated from the numbers of agents and rounds.
        """
        n = len(self.scale)
        return n**4 * (min(n, len(self.heard)) if self.is_fixed else len(self.heard)) <= MOST

    @cached_property
    def residues(self) -> Indices:
        """Return the mixing weights as integers modulo the prime number `PRIME`.

        The residues are exact, because every double-precision number is an integer divided by a power of two.
        """
        values, where = np.unique(self.weights, return_inverse=True)
        exact = [a * pow(b, -1, PRIME) % PRIME for a, b in (float(w).as_integer_ratio() for w in values)]
        return np.array(exact, np.int64)[where].reshape(self.weights.shape)

    def leverages(self, viewers: Sequence[int]) -> Vector:
        """Return upper bounds on the leverage of every agent toward colluding nodes, the viewers; nan for the viewers.

        The last new vector that an agent sends has a privacy loss μ (Gaussian DP) toward an observer who sees this
        vector. The viewers see only mixtures of the agents' vectors. Toward the viewers, μ² is multiplied by the
        leverage, a factor from 0 to 1.

        - If no message that the viewers receive depends on the agent's vector, the leverage is 0.
        - If such a message exists, and the agent's vector has no noise or rounding errors may be above `BLUR`, the
          result is 1.
        """
        others = np.setdiff1d(np.arange(len(self.scale)), viewers)
        noised = others[self.scale[others] > 0]
        exact, space = self.seen(viewers)
        # The rank over the prime field is at most the true rank, and below it with a probability of less than 1e-6.
        space = space.mixed(np.diag(self.scale)[:, noised], len(_echelon(exact[:, noised])))
        arrived = self._rows(-1, viewers).any(axis=0)  # whether any message that the viewers received depends on y_k
        for t in reversed(range(len(self.weights))):
            arrived = arrived @ (self.weights[t] != 0) | self._rows(t, viewers).any(axis=0)
        leverage = np.where(arrived, 1.0, 0.0)
        if isfinite(space.error):
            leverage[noised] *= np.minimum(1.0, np.vecdot(space.basis.T, space.basis.T) + SLACK + space.error)
        leverage[list(viewers)] = np.nan
        return leverage

    def _rows(self, t: int, viewers: Sequence[int]) -> Indices:
        """Return the unit vectors of the agents whose messages of round L + t the viewers know, as rows of an array.

        The viewers are colluding nodes. L is the last round in which any agent sends something new.
        """
        return np.eye(len(self.scale), dtype=np.int64)[self.heard[t, list(viewers)].any(axis=0)]

    def seen(self, viewers: Sequence[int]) -> tuple[Indices, Space]:
        """Return the row space of the matrix that maps the agents' vectors of round L to the messages of the viewers.

        L is the last round in which any agent sends something new. The viewers are colluding nodes; their messages are
        those that they receive or send. The row space is returned as a basis modulo `PRIME`, and as a `Space` in double
        precision.
        """
        n = len(self.scale)
        exact = self._rows(-1, viewers)
        space = Space.of(exact)
        for t in reversed(range(len(self.weights))):  # from the last round back to round L
            before, received = len(exact), self._rows(t, viewers)
            exact = _echelon(np.concatenate([received, _product(exact, self.residues[t])]))
            small = np.where(exact > PRIME // 2, exact - PRIME, exact)
            # If all entries are small integers, the basis over the prime field is also a basis over the rationals.
            is_known = bool((np.abs(small) <= SMALL).all())
            space = Space.of(small) if is_known else space.mixed(self.weights[t], len(exact), received)
            if self.is_fixed and len(exact) in (before, n) and t < len(self.weights) - 1:
                break  # the space no longer grows
        return exact, space


@dataclass(frozen=True)
class Space:
    """Hold a row space (the span of the rows of a matrix), with a bound on the rounding error of its basis.

    Attributes:
        basis: (rank, n) rows that are orthonormal up to rounding. The exact row space is the span of the rows of
            `basis` + X, where X is an unknown error.
        errors: triples (size, left, right). X is the sum of the matrices left · E · right, where E is an unknown matrix
            of spectral norm at most `size`.
    """

    basis: Vector
    errors: Errors

    @classmethod
    def of(cls, rows: Indices) -> Space:
        """Return the space that is spanned by the rows `rows`, which are a reduced basis of small integers."""
        size = 8 * rows.size * EPSILON * float(norm(rows))
        basis = np.linalg.qr(rows.T.astype(float)).Q.T
        return cls(basis, [(size, np.eye(len(rows)), np.eye(rows.shape[1]))])

    @cached_property
    def error(self) -> float:
        """Return a bound on the spectral norm of the rounding error of the basis; inf if the bound is above `BLUR`."""
        size = _largest(self.errors)
        return size if size <= BLUR else inf

    def mixed(self, w: Vector, rank: int, received: Any = ()) -> Space:
        """Return the space that is spanned by the rows of this space times `w` and the rows `received`.

        Args:
            w: (n, m) the matrix.
            rank: the dimension of the new space, which is known exactly.
            received: (rows, m) further rows.
        """
        if not isfinite(self.error):
            return self
        # Let `basis` be the basis of the returned space. The exact rows are C `basis` + D. The error D has two causes:
        # the error X of the basis of this space, and rounding in this step. Let G be the computed left inverse of C, so
        # that G C = I + F with a small matrix F. The exact rows span the rows of
        # `basis` + (I + F + G D basisᵀ)⁻¹ G D (I − basisᵀ basis). Errors of several rounds thus grow by the norm of a
        # product of matrices, which is far less than the product of the norms of the matrices.
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
    """Return a bound on the spectral norm of a sum of matrices left · E · right.

    Args:
        errors: a triple (size, left, right) for each matrix, where E is unknown, with a spectral norm of at most
            `size`.
    """

    def spectral(matrix: Vector) -> float:
        """Return a bound on the spectral norm of a matrix."""
        sizes = np.abs(matrix)  # √(‖·‖₁ ‖·‖∞) and the Frobenius norm are bounds
        largest = sizes.sum(axis=0).max(initial=0.0) * sizes.sum(axis=1).max(initial=0.0)
        return float(min(norm(matrix), np.sqrt(largest)))

    return sum(size * spectral(left) * spectral(right) for size, left, right in errors)


def _echelon(rows: Indices) -> Indices:
    """Return the reduced row echelon form of `rows` over the prime field (modulo `PRIME`), without zero rows."""
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
    """Return the product of two integer matrices over the prime field (integers modulo `PRIME`)."""
    high, low = np.divmod(right, 2**16)  # so that all sums fit in 63 bits
    return np.asarray((left @ high % PRIME * 2**16 + left @ low) % PRIME)


def carried_on(setup: Setup, events: Events, relayed: Relayed, viewers: Sequence[int]) -> Vector | None:
    """Return the privacy loss μ (Gaussian DP) of every agent's data toward colluding nodes, for all messages of a run.

    The colluding nodes are called the viewers; μ is nan for the viewers. The result is the second bound in the
    docstring of this module. L is the last round in which any agent sends something new. The result is None in these
    cases:

    - The algorithm does not state that a message is a mix of received messages plus a part that never depends on
      received messages (`carried_on`, `whole_data`).
    - The setting `privacy.clip` is finite, or L is 1.
    - In rounds 2 to L, an agent sends a vector without noise, or a vector that depends on no new loss function.
    - There are more than `LARGEST` noised vectors, or rounding hides the result.

    Args:
        setup: the set-up of the run.
        events: (L, agents) the privacy events (noise and sensitivity of messages) of rounds 1 to L.
        relayed: the weights and links of the rounds from L on, in which agents only relay what they received.
        viewers: the nodes that collude.
    """
    start, n = relayed.start, len(relayed.scale)
    factors = [setup.algorithm.carried_on(t) for t in range(2, start + 1)]
    scale, shift = (events.event(name)[1:start, :, 0] for name in ("scale", "l2"))  # of rounds 2 .. L
    uses = events.uses[1:start]
    if start < 2 or None in factors or not setup.algorithm.whole_data or np.isfinite(setup.experiment.clip):
        return None
    if not ((scale > 0).all() and (uses > 0).all()) or scale.size > LARGEST:
        return None
    mixed = weights(setup, 2, start)
    others = np.setdiff1d(np.arange(n), viewers)
    exact, space = relayed.seen(viewers)  # rows over the messages of round L; if rounding hides them, all rows are used
    space = space.mixed(np.eye(n)[:, others], len(_echelon(exact[:, others])))
    last, error = (space.basis, space.error) if isfinite(space.error) else (np.eye(len(others)), 0.0)
    made = np.zeros((start - 1, n, start - 1, n))  # [t, i, τ, k]: weight in message (t, i) of what is new in (τ, k)
    made[0, :, 0] = np.eye(n)
    lost = np.zeros(start - 1)  # for each round, a bound on the rounding error of `made`, in spectral norm
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
    # Rounding turns a direction of the rows by at most `off / sizes[-1]`; this angle times the μ of all links is added.
    angle = off / sizes[-1] * norm(shift / scale, axis=0)[others]
    mu[others] = norm(left.T @ moved / sizes[:, None], axis=0) * (1 + SLACK) + angle
    return mu


@dataclass(frozen=True)
class Views:
    """Hold bounds on what every node, called the viewer, can learn of every agent's data in a run.

    In the last rounds of the run, all agents only relay: they send weighted means of received messages. L is the last
    round in which any agent sends something new. Each bound is the μ of Gaussian DP; `epsilons` computes ε from μ.

    Attributes:
        start: L.
        leverage: (viewer, agent) the factor, from 0 to 1, with `relayed`² = factor · `release`².
        before: (agent,) μ of all messages before round L, on all links.
        release: (agent,) μ of the vector of round L alone, toward an observer of all links.
        relayed: (viewer, agent) μ of the messages from round L on, given all earlier messages on every link.
        mu: (viewer, agent) μ of all messages that the viewer receives; inf if unproven; nan on the diagonal.
        links: (agent,) μ of all messages on all links.
        distance: (viewer, agent) the number of hops from the agent to the viewer, over all edges of rounds L, L + 1,
            ...; −1 if there is no path; nan on the diagonal.
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
    """Return the ε at δ of μ-GDP for each entry μ of an array.

    An entry of the result is nan if μ or ε is not finite.
    """
    known = {m: e for m in np.unique(mu).tolist() if isfinite(m) and isfinite(e := gdp_epsilon(m, delta))}
    return np.array([known.get(m, np.nan) for m in mu.ravel().tolist()]).reshape(mu.shape)


def views(setup: Setup, events: Events, relayed: Relayed | None = None) -> Views | None:
    """Return bounds on what every node can learn of every agent's data from the messages that the node receives.

    The result is None if the computation would take too long (`Relayed.is_small`), or if `relayed_from` returns None,
    for example because there are no rounds in which all agents only send weighted means of received messages.

    Args:
        setup: the set-up of the run.
        events: (rounds, agents) the privacy events (noise and sensitivity of messages) of the whole run.
        relayed: the last rounds, in which all agents only send weighted means; None if the caller has not computed
            them.
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
    """Return the privacy loss μ (Gaussian DP) of every agent's data toward nodes that share all messages they receive.

    These nodes are called the viewers; μ is nan for the viewers. The result is None if `relayed_from` returns None, for
    example because there are no rounds in which all agents only send weighted means of received messages.

    Args:
        setup: the set-up of the run.
        events: (rounds, agents) the privacy events of the whole run.
        viewers: the nodes that collude.
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
    """Return the privacy loss μ (Gaussian DP) of every agent's data toward the viewers, which are colluding nodes.

    Each μ is the smaller of two bounds: the bound from the leverages (`_mu`), and the bound of `carried_on`.
    """
    mu, whole = _mu(costs, leverage), carried_on(setup, events, relayed, viewers)
    return mu if whole is None else np.minimum(mu, whole)


def _cost(setup: Setup, events: Events, agent: int) -> tuple[Vector, Vector]:
    """Return two arrays with ρ of zCDP of each group of samples of one agent.

    The first array is for the messages before the last round of `events`, and the second array for the message of the
    last round.
    """
    own = events[:, agent]
    ledger = open_ledger(own, Uses.of(own, groups(setup)(agent)))
    before, whole = ledger.at(len(own) - 1)[1], ledger.at(len(own))[1]
    return before, np.where(np.isfinite(whole), whole - np.where(np.isfinite(before), before, 0.0), inf)


def _mu(costs: Costs, leverage: Vector) -> Vector:
    """Return the privacy loss μ (Gaussian DP) of every agent's data: the μ of the group of samples with the largest μ.

    Args:
        costs: for each agent, the two arrays that `_cost` returns.
        leverage: for each agent, the factor, from 0 to 1, by which ρ of the agent's last vector is smaller toward the
            viewers than toward an observer of all links.
    """
    mu = leverage.copy()  # nan where the leverage is nan
    for agent, ((before, last), share) in enumerate(zip(costs, leverage.tolist(), strict=True)):
        if not np.isnan(share):
            seen = share * last if share else np.zeros_like(last)
            mu[agent] = np.sqrt(2 * (before + seen).max(initial=0.0))
    return mu
