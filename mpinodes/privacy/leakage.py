"""Bound how far an agent's later messages move, through the agent's hidden state, if earlier samples change.

Hidden state is the part of an agent's state that no message reveals. Two runs are compared: their data differ in one
group of samples (samples that are always used together), and their messages so far are equal. In every round,

    v = min(r, ℓ·(p·h) + w·e),   u = s·k + v
    D = c·(A h + b v) + l2·k
    h <- A h + b u

- D bounds how far a vector of the round's message differs between the two runs.
- h bounds how far each part of the hidden state differs. At the start h = 0.
- v bounds how far the gradient differs because of earlier samples, and u bounds how far the gradient differs in total.
- k is how many times the new loss function of the message uses the group. A loss function is new in the first message
  that depends on it.
- e is 1 if the new loss function of an earlier message used the group, and 0 otherwise.
- l2 is the L2 sensitivity of the vector.
- The other symbols are fields of `Hidden`: A is `transition`, b `gradient`, c `reads`, p `point`, s `sensitivity`, r
  `largest`, ℓ `lipschitz` and w `offset`.

The formulas are for messages whose leakage (the effect of earlier samples) is a `Feedback` or a `Hidden`. Such messages
are called messages with hidden parts. There are two other kinds of leakage:

- If the leakage is `RELEASED`, D is l2·k. After the message, h is 0 if k = 0. If k > 0, h is inf, because the message
  does not state how its new samples change the hidden state.
- If the leakage is `UNKNOWN`, D is inf for this message and for all later messages with hidden parts.

Three classes and a function compute the bounds:

- `Norms` takes the absolute values of A, b, p and c.
- `Lanes` does the same for many changes of the data at once.
- `Signed` is for exact A, b, p and c: an input u of round q moves message t by |c_t A_t ⋯ A_{q+1} b_q| u.
- `ceilings` bounds how far a change of any earlier sample can move each message.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from mpinodes.core.events import Events
from mpinodes.core.messages import Vector

Indices = NDArray[np.int64]
NAMES = ("transition", "gradient", "point", "reads", "sensitivity", "lipschitz", "largest", "offset")
LARGEST_HISTORY = 20_000_000  # largest number of inputs that `Signed` stores: rounds times groups


class Lanes:
    """Bound how far agents' messages move, in L2 norm, for many changes of the data at once.

    A *lane* is one change of the data: one group of samples of one agent changes. Groups whose changes have equal
    effects may share a lane. The bounds are those of the class `Norms`.

    Args:
        events: (rounds, agents) the noise and the leakage (the effect of earlier samples) of every message.

    Attributes:
        reads: (rounds, agents, vectors of a message, hidden parts) how far a vector moves at most if a hidden part of
            the agent's state moves by 1.
    """

    def __init__(self, events: Events) -> None:
        a, b, p, c, s, lipschitz, r, offset = map(events.leakage, NAMES)
        a, b, p, c = map(np.abs, (a, b, p, c))
        hidden = events.is_hidden  # false for unknown messages, to which the callers give the bound inf
        self._a, self._p = a * hidden[..., None, None], p * hidden[..., None]
        self._r, self._offset = r * hidden, offset * hidden
        self._b, self._slope = b, np.minimum(lipschitz, 1e300) * hidden  # finite, so that the product with h = 0 is 0
        self.reads = c * hidden[..., None, None]
        # If a message without hidden parts is a use, nothing states how the use changes the hidden parts.
        self._new = np.where(hidden[..., None], _weighted(b, s[..., None]), np.inf)
        self._l2 = events.l2

    def follow(
        self, rounds: slice, agent: Indices, h: Vector, message: Indices, lane: Indices, before: NDArray[np.bool_]
    ) -> tuple[Vector, Vector]:
        """Bound how far the messages of some rounds move, and how far the hidden state has moved after these rounds.

        Hidden state is the part of an agent's state that no message reveals. A lane is one change of the data. Some
        messages are the first to depend on a loss function with changed samples; such a message is called a use of the
        lane.

        Args:
            rounds: the rounds.
            agent: (lanes,) the agent of each lane.
            h: (hidden parts, lanes) how far the hidden state has moved before these rounds.
            message: (uses,) the message of each use, as an index into `rounds`.
            lane: (uses,) the lane of each use.
            before: (rounds, lanes) whether a message of an earlier round is a use of the lane.

        Returns:
            The bounds for messages, (vectors of a message, rounds, lanes), and for the hidden state, (hidden parts,
            lanes).
        """
        new = np.zeros((rounds.stop - rounds.start, *h.shape))
        for part, own in enumerate(self._new[rounds][message, agent[lane]].T):
            np.add.at(new[:, part], (message, lane), own)
        a, b, p = (x[rounds][:, agent].transpose(0, *range(2, x.ndim), 1) for x in (self._a, self._b, self._p))
        slope, cap = self._slope[rounds][:, agent], self._r[rounds][:, agent]
        offset = np.where(before, self._offset[rounds][:, agent], 0.0)

        def followed(times: Callable[..., Vector]) -> tuple[Vector, Vector]:
            """Return bounds on how far changed samples move the hidden state of agents, in two arrays.

            The first array, (rounds, hidden parts, lanes), has the effect of samples of earlier rounds, in each round.
            The second array, (hidden parts, lanes), has the effect of all samples, after the last round.

            Args:
                times: multiplies two arrays elementwise: `np.multiply`, or `_weighted` if some bounds are infinite.
            """
            now, older = h, np.empty_like(b)
            for t in range(len(older)):
                caught = np.minimum(cap[t], times(slope[t], times(p[t], now).sum(axis=0)) + offset[t])
                older[t] = times(b[t], caught) + times(a[t], now).sum(axis=1)
                now = older[t] + new[t]
            return older, now

        with np.errstate(over="ignore", invalid="ignore"):
            older, last = followed(np.multiply)
            if not (np.isfinite(last).all() and np.isfinite(older).all()):
                older, last = followed(_weighted)
        reads = self.reads[rounds][:, agent].transpose(2, 0, 3, 1)
        moved = np.asarray(_weighted(reads, older).sum(axis=2))
        for vector, own in enumerate(self._l2[rounds][message, agent[lane]].T):
            np.add.at(moved[vector], (message, lane), own)
        return moved, last


class Norms:
    """Bound how far the messages of one agent move, in L2 norm, if a group of samples changes.

    A group is a set of samples that are always used together. Bounds are computed from the absolute values of the
    weights in the leakage (the effect of earlier samples on a message).

    Args:
        events: the noise and the leakage of the agent's messages, one event for each round.
        groups: the number of groups of samples.
    """

    def __init__(self, events: Events, groups: int) -> None:
        self._lanes = Lanes(events[:, None]) if events.hidden else None
        self._hidden, self._unknown, self._l2 = events.is_hidden, events.is_unknown, events.l2
        self._h = np.zeros((events.hidden, groups))
        self._used = np.zeros(groups, bool)  # whether any message before the next one is a use of the group

    def step(self, t: int, used: Indices) -> Vector:
        """Return how far each vector of the next message moves in L2 norm if a group of samples changes.

        The result is an array (vectors, groups). All entries are inf in two cases:

        - The effect of earlier samples on this message is unknown.
        - This message depends on hidden state, and the effect of earlier samples on an earlier message is unknown.

        Args:
            t: the number of the message, counted from 0. The method must be called for all messages, in order.
            used: the groups in the loss function on which this message is the first to depend; a group may occur
                several times.
        """
        agent = np.zeros(len(self._used), np.int64)
        moved = np.zeros((1, self._l2.shape[1], len(agent)))
        if self._lanes:
            here, first = slice(t, t + 1), np.zeros(len(used), np.int64)
            followed, self._h = self._lanes.follow(here, agent, self._h, first, used, self._used[None])
            moved = followed.transpose(1, 0, 2)
        else:
            np.add.at(moved[0].T, used, self._l2[t])
        if self._unknown[t] or (self._hidden[t] and self._unknown[:t].any()):
            moved[:] = np.inf
        self._used[used] = True
        return np.asarray(moved[0])


class Signed:
    """Bound how far the messages of one agent move if a group of samples changes; the agent's dynamics are linear.

    The dynamics are the weights with which the hidden state changes (the part of the agent's state that no message
    reveals). The weights are known exactly, with their signs, so the bounds are at most the bounds of the class
    `Norms`.

    Args:
        events: the noise and the leakage (the effect of earlier samples) of the agent's messages, one event for each
            round.
        groups: the number of groups of samples.
    """

    def __init__(self, events: Events, groups: int) -> None:
        self._hidden, self._unknown, self._l2 = events.is_hidden, events.is_unknown, events.l2
        self._a, self._b, self._p, self._c, self._s, lipschitz, self._r, self._offset = map(events.leakage, NAMES)
        self._slope = np.minimum(lipschitz, 1e300)  # finite, so that the product with h = 0 is 0
        self._used = np.zeros(groups, bool)  # whether any message before the next one is a use of the group
        self._inputs = np.zeros((len(events), groups))  # the input u of every round
        self._made = np.zeros((len(events), events.hidden))  # row s: the present h that an input of 1 in round s causes
        # Bounds on the norms of changes whose direction is unknown: inf if a message without hidden parts is a use.
        self._unsaid = np.zeros((events.hidden, groups))

    def older(self, t: int) -> Vector:
        """Return how far message t moves, through hidden state, if a group of samples of earlier messages changes.

        The result is an array (vectors of the message, groups). The call also updates the stored hidden state to round
        t.

        - If the effect of earlier samples on message t is unknown, all entries are inf.
        - If message t depends on hidden state, and the effect of earlier samples on an earlier message is unknown, all
          entries are inf.
        - If message t is known not to depend on hidden state, all entries are 0.

        Args:
            t: the number of the message, counted from 0.
        """
        moved = np.zeros((self._l2.shape[1], len(self._used)))
        if self._unknown[t] or (self._hidden[t] and self._unknown[:t].any()):
            return moved + np.inf
        if not self._hidden[t]:  # the message depends on released points alone: no earlier change is hidden any more
            self._inputs[:t] = self._unsaid[:] = 0.0
            return moved
        known = _product(np.abs(self._made[:t] @ self._p[t]), self._inputs[:t])
        point = known + _weighted(np.abs(self._p[t])[:, None], self._unsaid).sum(axis=0)
        caught = self._slope[t] * point if self._slope[t] else np.zeros_like(point)
        self._inputs[t] = np.minimum(self._r[t], caught + np.where(self._used, self._offset[t], 0.0))
        self._made[:t] = self._made[:t] @ self._a[t].T
        self._made[t] = self._b[t]
        self._unsaid = _weighted(np.abs(self._a[t])[..., None], self._unsaid).sum(axis=1)
        inputs, made = self._inputs[: t + 1], self._made[: t + 1]
        known = np.array([_product(np.abs(made @ row), inputs) for row in self._c[t]])
        return np.asarray(known + _weighted(np.abs(self._c[t])[..., None], self._unsaid).sum(axis=1))

    def step(self, t: int, used: Indices) -> Vector:
        """Return how far each vector of the next message moves in L2 norm if a group of samples changes.

        The result is an array (vectors, groups). All entries are inf in two cases:

        - The effect of earlier samples on this message is unknown.
        - This message depends on hidden state, and the effect of earlier samples on an earlier message is unknown.

        Args:
            t: the number of the message, counted from 0. The method must be called for all messages, in order.
            used: the groups in the loss function on which this message is the first to depend; a group may occur
                several times.
        """
        moved = self.older(t)
        for vector in range(len(moved)):
            np.add.at(moved[vector], used, self._l2[t, vector])
        if self._hidden[t]:
            np.add.at(self._inputs[t], used, self._s[t])
        else:
            self._unsaid[:, used] = np.inf  # nothing states how the use changes the hidden parts
        self._used[used] = True
        return moved


def response(events: Events, groups: int) -> Norms | Signed:
    """Return an object that bounds how far changed samples move the messages of one agent.

    If `is_signed(events)` is true, the object is a `Signed`; otherwise it is a `Norms`.

    Args:
        events: the noise and the leakage (the effect of earlier samples) of the agent's messages, one event for each
            round.
        groups: the number of groups of samples.
    """
    return (Signed if is_signed(events) else Norms)(events, groups)


def is_signed(events: Events) -> bool:
    """Return whether bounds for one agent use the signs of weights (class `Signed`) instead of norms (class `Norms`).

    The weights are those in the leakage of messages, which is the effect of earlier samples. All of these conditions
    must hold:

    - The algorithm has hidden state, which no message reveals.
    - The leakage of every message that depends on hidden state is exact.
    - At least one weight is negative.
    """
    return events.hidden > 0 and bool(events.is_exact[events.is_hidden].all()) and has_signs(events)


def has_signs(events: Events) -> bool:
    """Return whether a weight in the leakage (the effect of earlier samples) of any message is negative.

    The weights are the numbers in transition, gradient, point and reads.
    """
    return any(bool((events.leakage(name) < 0).any()) for name in ("transition", "gradient", "point", "reads"))


def _product(weights: Vector, inputs: Vector) -> Vector:
    """Return a weighted sum over rounds, for each group of samples; 0 times inf is taken as 0.

    Args:
        weights: (rounds,) the weight of each round.
        inputs: (rounds, groups) the numbers to add.
    """
    some = np.flatnonzero(weights)
    return np.asarray(weights[some] @ inputs[some])


def ceilings(events: Events, most_used: Indices) -> Vector:
    """Return how far each message of an agent can move, through hidden state, if any earlier sample changes.

    The result is an array (rounds, vectors of a message) of upper bounds. The direct change of a message by its own new
    samples is not included.

    - If the effect of earlier samples on a message is unknown, the bound is inf.
    - If a message depends on hidden state, and the effect on an earlier message is unknown, the bound is inf.
    - If a message is known not to depend on hidden state, the bound is 0.

    Args:
        events: the noise and the leakage (the effect of earlier samples) of the messages, one event for each round.
        most_used: (rounds,) for each message, a bound on how many times its new loss function uses one group of
            samples; at least 1. A loss function is new in the first message that depends on it.
    """
    if not is_signed(events):
        return Ceilings().take(events, most_used)
    reply, uses = Signed(events, 1), events.uses
    reply._used[:] = True
    reply._slope = np.where(reply._slope > 0, 1e300, 0.0)
    most = np.zeros((len(events), events.vectors))
    for t in range(len(events)):
        most[t] = reply.older(t)[:, 0]
        if reply._hidden[t]:
            reply._inputs[t] = most_used[t] * reply._s[t] + reply._r[t]
        elif uses[t]:
            reply._unsaid[:] = np.inf
    return most


class Ceilings:
    """Bound how far each message of an agent can move, through hidden state, if any earlier sample changes.

    The bounds are computed for one block of consecutive rounds after the other. The function `ceilings` uses this class
    unless `is_signed` is true; the class ignores the signs of weights.
    """

    def __init__(self) -> None:
        self._lost = False  # whether any earlier message was unknown
        self._h: list[float] = []  # upper bounds on h after the last message

    def take(self, events: Events, most_used: Indices) -> Vector:
        """Return how far each message of the next block can move if any sample of an earlier message changes.

        The result is an array (rounds, vectors of a message). The arguments are those of the function `ceilings`, for
        the rounds of the block.
        """
        most = np.zeros((len(events), events.vectors))
        most[events.is_unknown] = np.inf
        if not events.hidden or not len(events):
            return most
        a, b, _, c, s, lipschitz, r, offset = map(events.leakage, NAMES)
        a, b, c = map(np.abs, (a, b, c))
        lost, hidden = np.logical_or.accumulate(events.is_unknown) | self._lost, events.is_hidden
        # A message without hidden parts resets h: to inf if the message is unknown or is a use, else to 0.
        begun = np.where(events.is_unknown | (events.uses > 0), np.inf, 0.0)[:, None]
        entered = np.where(hidden[:, None], _weighted(b, (most_used * s + r)[:, None]), begun)
        # older is A(t) h(t - 1), where h(t) = A(t) h(t - 1) + entered(t)
        older, h, a = np.zeros_like(entered), self._h or [0.0] * events.hidden, a * hidden[:, None, None]
        for t, (rows, new) in enumerate(zip(a.tolist(), entered.tolist(), strict=True)) if a.any() else ():
            older[t] = [sum(weight * part for weight, part in zip(row, h, strict=True) if weight) for row in rows]
            h = [part + more for part, more in zip(older[t].tolist(), new, strict=True)]
        self._h = h if a.any() else entered[-1].tolist()
        moved = _weighted(b, np.where((lipschitz > 0) | (offset > 0), r, 0.0)[:, None]) + older
        read = np.where(lost[:, None], np.inf, _weighted(c, moved[:, None]).sum(axis=2))
        self._lost = bool(lost[-1])
        return np.asarray(np.where(hidden[:, None], read, most))


def _weighted(weights: Vector, sizes: Vector) -> Vector:
    """Return weights times sizes, elementwise; 0 times inf is taken as 0."""
    with np.errstate(invalid="ignore"):
        return np.where(weights == 0, 0.0, weights * sizes)
