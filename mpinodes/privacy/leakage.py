"""How far an older change moves an agent's messages, by what they state of their leakage (`core.messages.Hidden`).

The one place where that is worked out: the ledger prices it, and a replay holds real messages against it. With h the
change of the hidden parts, by group of samples,

    u = s·[the group is in the loss used] + min(r, ℓ·‖p·h‖),   h <- A h + b u,   a vector moves by c·h.

Where A, b, p and c are bounds on norms, or have no signs, h is kept as bounds on norms and the recursion is just that.
Where they are exact, what an input of round s makes of message t is |c_t A_t ⋯ A_{s+1} b_s| times it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpinodes.core.events import Events
from mpinodes.core.messages import Vector

Indices = NDArray[np.int64]
LARGEST_HISTORY = 20_000_000  # of inputs kept by a signed system: rounds times groups


class Response(ABC):
    """The messages of one agent under a change of each of some groups of samples, round by round.

    Args:
        events: (rounds,) of one agent.
        groups: how many groups of samples there are.
    """

    def __init__(self, events: Events, groups: int) -> None:
        self._vectors, self._parts = events.vectors, events.hidden
        self._hidden, self._unknown = events.is_hidden, events.is_unknown
        self._l2 = events.l2
        self._lost = False
        if self._parts:
            names = ("transition", "gradient", "point", "reads", "sensitivity", "lipschitz", "largest")
            self._a, self._b, self._p, self._c, self._s, lipschitz, self._r = (events.leakage(n) for n in names)
            self._lipschitz = np.minimum(lipschitz, 1e300)  # times no change it is then 0
            self._slopes, self._caps = self._lipschitz.tolist(), self._r.tolist()

    def _caught(self, t: int, point: Vector) -> Vector:
        """What a gradient on the same data is moved by, if its point is: (groups,)."""
        slope = self._slopes[t]
        return np.minimum(self._caps[t], slope * point) if slope else np.zeros_like(point)

    def older(self, t: int, groups: int) -> Vector:
        """How far message t (from 0) is moved by changes of before, of the first so many groups: (vectors, groups)."""
        self._lost |= bool(self._unknown[t])
        if self._unknown[t] or (self._lost and self._hidden[t]):
            return np.full((self._vectors, groups), np.inf)
        if self._hidden[t]:
            return self._follow(t, groups)
        self._forget(t)
        return np.zeros((self._vectors, groups))

    @abstractmethod
    def _follow(self, t: int, groups: int) -> Vector:
        """`older`, of a message with hidden parts that are still known."""

    @abstractmethod
    def _forget(self, t: int) -> None:
        """Message t is all released: nothing of before is hidden any more."""

    @abstractmethod
    def add(self, t: int, used: Indices) -> None:
        """Message t first carries samples of these groups."""

    def step(self, t: int, groups: int, used: Indices) -> Vector:
        """How far message t is moved in all: (vectors, groups). To be called for t = 0, 1, 2, ... in turn."""
        moved = self.older(t, groups)
        for vector in range(self._vectors):
            np.add.at(moved[vector], used, self._l2[t, vector])
        self.add(t, used)
        return moved


class Norms(Response):
    """Bounds on norms, or nothing hidden at all.

    Each group goes on by itself, so that the ledger may follow some together: `widen`, `copy`, `keep`.
    """

    def __init__(self, events: Events, groups: int) -> None:
        super().__init__(events, groups)
        if self._parts:
            self._a, self._b, self._p, self._c = map(np.abs, (self._a, self._b, self._p, self._c))
        self._h = np.zeros((self._parts, groups))
        ones = (self._b, self._p, self._c) if self._parts == 1 else ()
        # The usual case, `Feedback`: the part is the message. Nothing to combine, and it is most of the time.
        self._feeds_back = bool(ones) and all((one[self._hidden] == 1).all() for one in ones)

    def widen(self, groups: int) -> None:
        """Have room for so many groups; new ones have not been used."""
        self._h = np.pad(self._h, ((0, 0), (0, max(0, groups - self._h.shape[1]))))

    def copy(self, group: int, other: int) -> None:
        """Another group goes on from where one is."""
        self._h[:, other] = self._h[:, group]

    def hidden_changes(self, groups: int) -> Vector:
        """How far the hidden parts are moved, of the first so many groups: (parts, groups)."""
        return np.array(self._h[:, :groups])

    def keep(self, hidden_changes: Vector) -> None:
        """Go on with these groups alone."""
        self._h = hidden_changes

    def linear(self) -> tuple[Vector, Vector]:
        """Bounds by message t: |A + ℓ b pᵀ|, h(t) from h(t - 1), without caps; and |c|: what is read of h(t)."""
        step = self._a + self._b[:, :, None] * (self._lipschitz[:, None] * self._p)[:, None, :]
        return np.where(self._hidden[:, None, None], step, 0.0), np.where(self._hidden[:, None, None], self._c, 0.0)

    def _forget(self, t: int) -> None:
        self._h[:] = 0.0

    def _follow(self, t: int, groups: int) -> Vector:
        before = self._h[:, :groups]
        if self._feeds_back:
            h = self._caught(t, before[0])
            if keep := self._a[t, 0, 0]:
                h = h + keep * before[0]
            self._h[0, :groups] = h
            return np.array([h] * self._vectors)
        new = self._caught(t, _combined(self._p[t], before))
        self._h[:, :groups] = [
            _times(b, new) + _combined(row, before) for b, row in zip(self._b[t], self._a[t], strict=True)
        ]
        return np.array([_combined(row, self._h[:, :groups]) for row in self._c[t]])

    def add(self, t: int, used: Indices) -> None:
        """See `Response`."""
        for part in range(self._parts):
            if self._hidden[t]:
                np.add.at(self._h[part], used, _times(self._b[t, part], self._s[t]))
            elif len(used):
                self._h[part, used] = np.inf  # nothing is said of where it went


class Signed(Response):
    """Exact linear dynamics: what every input so far makes of the parts now is kept.

    Of an input that nothing is said of, beside a released message, not even the direction is known: it goes by norms.
    """

    def __init__(self, events: Events, groups: int) -> None:
        super().__init__(events, groups)
        self._inputs = np.zeros((len(events), groups))
        self._made = np.zeros((len(events), self._parts))  # by round of the input, what one of size 1 makes of h now
        self._unsaid = np.zeros((self._parts, groups))  # bounds on the norms of what nothing is said of

    def _forget(self, t: int) -> None:
        self._inputs[:t] = 0.0
        self._unsaid[:] = 0.0

    def _follow(self, t: int, groups: int) -> Vector:
        before, unsaid = self._inputs[:t, :groups], self._unsaid[:, :groups]
        point = _product(np.abs(self._made[:t] @ self._p[t]), before) + _combined(np.abs(self._p[t]), unsaid)
        self._inputs[t, :groups] = self._caught(t, point)
        self._made[:t] = self._made[:t] @ self._a[t].T
        self._made[t] = self._b[t]
        self._unsaid[:, :groups] = unsaid = np.array([_combined(np.abs(row), unsaid) for row in self._a[t]])
        so_far = self._inputs[: t + 1, :groups]
        return np.array(
            [_product(np.abs(self._made[: t + 1] @ row), so_far) + _combined(np.abs(row), unsaid) for row in self._c[t]]
        )

    def add(self, t: int, used: Indices) -> None:
        """See `Response`."""
        if self._hidden[t]:
            np.add.at(self._inputs[t], used, self._s[t])
        elif len(used):
            self._unsaid[:, used] = np.inf


def response(events: Events, groups: int) -> Response:
    """The response of one agent's messages: (rounds,) events."""
    return (Signed if _is_signed(events) else Norms)(events, groups)


def fits(events: Events, groups: int) -> bool:
    """Whether the response of so many groups can be followed one by one."""
    return not _is_signed(events) or len(events) * groups <= LARGEST_HISTORY


def _is_signed(events: Events) -> bool:
    """Whether there are signs, and all that is hidden is exact: beside a bound on norms a sign is worth nothing."""
    names = ("transition", "gradient", "point", "reads")
    exact = events.hidden > 0 and bool(events.is_exact[events.is_hidden].all())
    return exact and any((events.leakage(name) < 0).any() for name in names)


def _combined(weights: Vector, parts: Vector) -> Vector:
    """Σ_q w_q h_q, in order: (m,), (m, groups) -> (groups,); a weight of 0 takes nothing, whatever there is."""
    total: Vector = np.zeros(parts.shape[1])
    for weight, part in zip(weights, parts, strict=True):
        if weight:
            total = total + weight * part
    return total


def _times(weight: float, size: Any) -> Any:
    """A weight of 0 takes nothing, whatever there is."""
    return weight * size if weight else 0.0


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
    most = np.zeros((len(events), events.vectors))
    most[events.is_unknown] = np.inf
    if not events.hidden:
        return most
    a, b, c, s, r, lipschitz = (
        events.leakage(n) for n in ("transition", "gradient", "reads", "sensitivity", "largest", "lipschitz")
    )
    if _is_signed(events):
        return np.maximum(most, _signed_ceilings(events, most_used))
    a, b, c = map(np.abs, (a, b, c))
    lost, hidden = np.logical_or.accumulate(events.is_unknown), events.is_hidden
    begun = np.where(events.is_unknown | (events.uses > 0), np.inf, 0.0)[:, None]  # where all is said but for these
    entered = np.where(hidden[:, None], _weighted(b, (most_used * s + r)[:, None]), begun)
    moved = _weighted(b, np.where(lipschitz > 0, r, 0.0)[:, None]) + _kept(a * hidden[:, None, None], entered)
    read = np.where(lost[:, None], np.inf, _weighted(c, moved[:, None]).sum(axis=2))
    return np.asarray(np.where(hidden[:, None], read, most))


def _weighted(weights: Vector, sizes: Vector) -> Vector:
    """A weight of 0 takes nothing, whatever there is."""
    with np.errstate(invalid="ignore"):
        return np.where(weights == 0, 0.0, weights * sizes)


def _kept(a: Vector, entered: Vector) -> Vector:
    """A(t) h(t - 1) with h(t) = A(t) h(t - 1) + entered(t): (rounds, parts, parts), (rounds, parts) -> the latter."""
    if not a.any():
        return np.zeros_like(entered)
    h, kept = [0.0] * entered.shape[1], []
    for rows, new in zip(a.tolist(), entered.tolist(), strict=True):
        kept.append([sum(weight * part for weight, part in zip(row, h, strict=True) if weight) for row in rows])
        h = [part + more for part, more in zip(kept[-1], new, strict=True)]
    return np.array(kept)


def _signed_ceilings(events: Events, most_used: Indices) -> Vector:
    """The response to inputs that are as large as can be in every round, the new one only by the hidden point."""
    reply = Signed(events, 1)
    most = np.zeros((len(events), events.vectors))
    one = np.zeros(1, np.int64)
    for t in range(len(events)):
        reply._slopes[t] = 1e300 if reply._slopes[t] > 0 else 0.0
        most[t] = reply.older(t, 1)[:, 0]
        reply.add(t, one[: events.uses[t] if not events.is_hidden[t] else 0])
        if events.is_hidden[t]:
            reply._inputs[t] = most_used[t] * reply._s[t] + reply._r[t]
    return most
