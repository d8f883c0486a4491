"""How far an older change moves an agent's messages, by what they state of their leakage (`core.messages.Hidden`).

The one place where that is worked out: the ledger prices it, and a replay holds real messages against it. With h the
change of the hidden parts, by group of samples,

    u = s·[the group is in the loss used] + min(r, ℓ·‖p·h‖ + w·[the group was used before]),
    h <- A h + b u,   a vector moves by c·h.

Where A, b, p and c are bounds on norms, or have no signs, h is kept as bounds on norms and the recursion is just that.
Where they are exact, what an input of round s makes of message t is |c_t A_t ⋯ A_{s+1} b_s| times it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from mpinodes.core.events import Events
from mpinodes.core.messages import Vector

Indices = NDArray[np.int64]
LARGEST_HISTORY = 20_000_000  # of inputs kept by a signed system: rounds times groups


class Lanes:
    """What `Norms` says of many changes at once, of several agents, over a stretch of rounds: a lane for each change.

    Args:
        events: (rounds, agents), with hidden parts; no message is unknown.
    """

    def __init__(self, events: Events) -> None:
        names = ("transition", "gradient", "point", "reads", "sensitivity", "lipschitz", "largest", "offset")
        a, b, p, c, s, lipschitz, r, offset = (events.leakage(n) for n in names)
        a, b, p, c = map(np.abs, (a, b, p, c))
        hidden = events.is_hidden
        self._offset = offset * hidden if offset.any() else None
        self._a, self._p, self._r = a * hidden[..., None, None], p * hidden[..., None], r * hidden
        self._b, self._slope = b, np.minimum(lipschitz, 1e300) * hidden  # times no change it is then 0
        self.reads = c * hidden[..., None, None]
        # Beside a released message nothing is said of where it went.
        self._new = np.where(hidden[..., None], _weighted(b, s[..., None]), np.inf)
        self._l2 = events.l2
        self._is_message = c.shape[2:] == (1, 1) and bool((c[hidden] == 1).all())

    def follow(
        self, rounds: slice, agent: Indices, h: Vector, message: Indices, lane: Indices, before: NDArray[np.bool_]
    ) -> tuple[Vector, Vector]:
        """How far each message is moved in all, (vectors, rounds, lanes), and the hidden parts after the last one.

        Args:
            rounds: of the stretch.
            agent: (lanes,) whose change it is.
            h: (parts, lanes) before the stretch.
            message: (uses,) of the stretch, that first carries a sample.
            lane: (uses,) of the sample.
            before: (rounds, lanes) whether a message before this one carried the sample.
        """
        new = np.zeros((rounds.stop - rounds.start, *h.shape))
        for part, own in enumerate(self._new[rounds][message, agent[lane]].T):
            np.add.at(new[:, part], (message, lane), own)
        with np.errstate(over="ignore", invalid="ignore"):
            found, last = self._followed(rounds, agent, h, new, before, np.multiply)
            if not (np.isfinite(last).all() and np.isfinite(found).all()):
                found, last = self._followed(rounds, agent, h, new, before, _weighted)
        moved = found[None, :, 0] if self._is_message else self._read(rounds, agent, found)
        for vector, own in enumerate(self._l2[rounds][message, agent[lane]].T):
            np.add.at(moved[vector], (message, lane), own)
        return moved, last

    def _read(self, rounds: slice, agent: Indices, h: Vector) -> Vector:
        """(rounds, parts, lanes) -> (vectors, rounds, lanes)."""
        reads = self.reads[rounds][:, agent].transpose(2, 0, 3, 1)
        return np.asarray(_weighted(reads, h).sum(axis=2))

    def _followed(
        self,
        rounds: slice,
        agent: Indices,
        h: Vector,
        new: Vector,
        before: NDArray[np.bool_],
        times: Callable[..., Vector],
    ) -> tuple[Vector, Vector]:
        a, b, p = (np.moveaxis(x[rounds][:, agent], 1, -1) for x in (self._a, self._b, self._p))
        slope, cap = self._slope[rounds][:, agent], self._r[rounds][:, agent]
        offset = np.zeros(cap.shape)
        if self._offset is not None:
            offset = np.where(before, self._offset[rounds][:, agent], 0.0)
        found = np.empty_like(b)
        for t in range(len(found)):
            caught = np.minimum(cap[t], times(slope[t], times(p[t], h).sum(axis=0)) + offset[t])
            found[t] = times(b[t], caught) + times(a[t], h).sum(axis=1)
            h = found[t] + new[t]
        return found, h


class Norms:
    """What `Lanes` says of a change of each of some groups of samples, message by message of one agent.

    Args:
        events: (rounds,) of the agent.
        groups: how many groups of samples there are.
    """

    def __init__(self, events: Events, groups: int) -> None:
        self._lanes = Lanes(events[:, None]) if events.hidden else None
        self._hidden, self._unknown, self._l2 = events.is_hidden, events.is_unknown, events.l2
        self._h = np.zeros((events.hidden, groups))
        self._used = np.zeros(groups, bool)  # in a message before the one that is asked for

    def step(self, t: int, used: Indices) -> Vector:
        """Return how far message t (from 0) is moved in all: (vectors, groups). To be called in turn.

        Args:
            t: the message.
            used: groups of which it first carries samples.
        """
        one = np.zeros(len(self._used), np.int64)
        moved = np.zeros((1, self._l2.shape[1], len(one)))
        if self._lanes:
            here, first = slice(t, t + 1), np.zeros(len(used), np.int64)
            found, self._h = self._lanes.follow(here, one, self._h, first, used, self._used[None])
            moved = found.transpose(1, 0, 2)
        else:
            np.add.at(moved[0].T, used, self._l2[t])
        if self._unknown[t] or (self._hidden[t] and self._unknown[:t].any()):
            moved[:] = np.inf
        self._used[used] = True
        return np.asarray(moved[0])


class Signed:
    """Exact linear dynamics of one agent: what every input so far makes of the parts now is kept.

    Of an input that nothing is said of, beside a released message, not even the direction is known: it goes by norms.

    Args:
        events: (rounds,) of the agent.
        groups: how many groups of samples there are.
    """

    def __init__(self, events: Events, groups: int) -> None:
        self._hidden, self._unknown, self._l2 = events.is_hidden, events.is_unknown, events.l2
        names = ("transition", "gradient", "point", "reads", "sensitivity", "lipschitz", "largest", "offset")
        self._a, self._b, self._p, self._c, self._s, lipschitz, self._r, self._offset = map(events.leakage, names)
        self._slope = np.minimum(lipschitz, 1e300)  # times no change it is then 0
        self._used = np.zeros(groups, bool)  # in a message before the one that is asked for
        self._inputs = np.zeros((len(events), groups))
        self._made = np.zeros((len(events), events.hidden))  # by round of the input, what one of size 1 makes of h now
        self._unsaid = np.zeros((events.hidden, groups))  # bounds on the norms of what nothing is said of

    def older(self, t: int) -> Vector:
        """Return how far message t (from 0) is moved by changes of before: (vectors, groups)."""
        moved = np.zeros((self._l2.shape[1], len(self._used)))
        if self._unknown[t] or (self._hidden[t] and self._unknown[:t].any()):
            return moved + np.inf
        if not self._hidden[t]:  # all is released: nothing of before is hidden any more
            self._inputs[:t] = self._unsaid[:] = 0.0
            return moved
        size = np.abs(self._p[t])
        point = _product(np.abs(self._made[:t] @ self._p[t]), self._inputs[:t]) + _combined(size, self._unsaid)
        caught = self._slope[t] * point if self._slope[t] else np.zeros_like(point)
        self._inputs[t] = np.minimum(self._r[t], caught + np.where(self._used, self._offset[t], 0.0))
        self._made[:t] = self._made[:t] @ self._a[t].T
        self._made[t] = self._b[t]
        self._unsaid = np.array([_combined(np.abs(row), self._unsaid) for row in self._a[t]])
        inputs, made = self._inputs[: t + 1], self._made[: t + 1]
        return np.array(
            [_product(np.abs(made @ row), inputs) + _combined(np.abs(row), self._unsaid) for row in self._c[t]]
        )

    def add(self, t: int, used: Indices) -> None:
        """Message t first carries samples of these groups."""
        if self._hidden[t]:
            np.add.at(self._inputs[t], used, self._s[t])
        elif len(used):
            self._unsaid[:, used] = np.inf  # nothing is said of where it went

    def step(self, t: int, used: Indices) -> Vector:
        """See `Norms.step`."""
        moved = self.older(t)
        for vector in range(len(moved)):
            np.add.at(moved[vector], used, self._l2[t, vector])
        self.add(t, used)
        self._used[used] = True
        return moved


def response(events: Events, groups: int) -> Norms | Signed:
    """Return what says how far messages are moved: (rounds,) events of one agent."""
    return (Signed if is_signed(events) else Norms)(events, groups)


def is_signed(events: Events) -> bool:
    """Whether there are signs, and all that is hidden is exact: beside a bound on norms a sign is worth nothing."""
    return events.hidden > 0 and bool(events.is_exact[events.is_hidden].all()) and has_signs(events)


def has_signs(events: Events) -> bool:
    """Whether any weight is below 0."""
    return any(bool((events.leakage(name) < 0).any()) for name in ("transition", "gradient", "point", "reads"))


def _combined(weights: Vector, parts: Vector) -> Vector:
    """Σ_q w_q h_q, in order: (m,), (m, groups) -> (groups,); a weight of 0 takes nothing, whatever there is."""
    total: Vector = np.zeros(parts.shape[1])
    for weight, part in zip(weights, parts, strict=True):
        if weight:
            total = total + weight * part
    return total


def _product(weights: Vector, inputs: Vector) -> Vector:
    """Σ_s w_s u_s: (t,), (t, groups) -> (groups,); a weight of 0 takes nothing, whatever there is."""
    some = np.flatnonzero(weights)
    return np.asarray(weights[some] @ inputs[some])


def ceilings(events: Events, most_used: Indices) -> Vector:
    """The most that older changes can ever move each message, whichever sample it is: (rounds, vectors).

    Args:
        events: (rounds,) of one agent.
        most_used: (rounds,) by message, how often it carries a sample at most, and no less than 1.
    """
    if is_signed(events):
        unknown = np.where(events.is_unknown, np.inf, 0.0)[:, None]
        return np.maximum(unknown, _signed_ceilings(events, most_used))
    return Ceilings().take(events, most_used)


class Ceilings:
    """`ceilings` of events that come some at a time, whatever their signs."""

    def __init__(self) -> None:
        self._lost = False
        self._h: list[float] = []  # after the last message

    def take(self, events: Events, most_used: Indices) -> Vector:
        """Those of the next messages."""
        most = np.zeros((len(events), events.vectors))
        most[events.is_unknown] = np.inf
        if not events.hidden or not len(events):
            return most
        names = ("transition", "gradient", "reads", "sensitivity", "largest", "lipschitz", "offset")
        a, b, c, s, r, lipschitz, offset = (events.leakage(n) for n in names)
        a, b, c = map(np.abs, (a, b, c))
        lost, hidden = np.logical_or.accumulate(events.is_unknown) | self._lost, events.is_hidden
        # Where all is said but for these.
        begun = np.where(events.is_unknown | (events.uses > 0), np.inf, 0.0)[:, None]
        entered = np.where(hidden[:, None], _weighted(b, (most_used * s + r)[:, None]), begun)
        kept, self._h = _kept(a * hidden[:, None, None], entered, self._h)
        moved = _weighted(b, np.where((lipschitz > 0) | (offset > 0), r, 0.0)[:, None]) + kept
        read = np.where(lost[:, None], np.inf, _weighted(c, moved[:, None]).sum(axis=2))
        self._lost = bool(lost[-1])
        return np.asarray(np.where(hidden[:, None], read, most))


def _weighted(weights: Vector, sizes: Vector) -> Vector:
    """A weight of 0 takes nothing, whatever there is."""
    with np.errstate(invalid="ignore"):
        return np.where(weights == 0, 0.0, weights * sizes)


def _kept(a: Vector, entered: Vector, h: list[float]) -> tuple[Vector, list[float]]:
    """A(t) h(t - 1) with h(t) = A(t) h(t - 1) + entered(t), from h on: (rounds, parts) both; and the last h."""
    h, kept = h or [0.0] * entered.shape[1], []
    if not a.any():
        return np.zeros_like(entered), entered[-1].tolist()
    for rows, new in zip(a.tolist(), entered.tolist(), strict=True):
        kept.append([sum(weight * part for weight, part in zip(row, h, strict=True) if weight) for row in rows])
        h = [part + more for part, more in zip(kept[-1], new, strict=True)]
    return np.array(kept), h


def _signed_ceilings(events: Events, most_used: Indices) -> Vector:
    """The response to inputs that are as large as can be in every round, the new one only by the hidden point."""
    reply = Signed(events, 1)
    reply._used[:] = True
    most = np.zeros((len(events), events.vectors))
    one = np.zeros(1, np.int64)
    for t in range(len(events)):
        reply._slope[t] = 1e300 if reply._slope[t] > 0 else 0.0
        most[t] = reply.older(t)[:, 0]
        reply.add(t, one[: events.uses[t] if not events.is_hidden[t] else 0])
        if events.is_hidden[t]:
            reply._inputs[t] = most_used[t] * reply._s[t] + reply._r[t]
    return most
