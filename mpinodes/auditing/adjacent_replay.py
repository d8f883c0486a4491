"""Run every agent again on adjacent data, and compare the largest change of a message with the accountant's bound."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mpinodes.auditing.changes import Change, adjacent, carries
from mpinodes.auditing.transcripts import Replayed, Transcript
from mpinodes.core import Kind, Vector
from mpinodes.core.events import Events
from mpinodes.core.experiment import log_spaced
from mpinodes.privacy.leakage import response

SLACK = 1 + 1e-9  # a change may exceed its bound by this factor, because of rounding


class Finding(NamedTuple):
    """Hold the worst result over all replays of one agent on adjacent data.

    A message is *direct* if it is the first message that depends on a loss function with the changed sample. The ratio
    of a message is its change, in L1 or L2, divided by the accountant's bound on this change.

    Attributes:
        agent: the number of the agent.
        changes: the number of replays with a direct message among the compared messages.
        direct: the largest ratio of a direct message.
        hidden: the largest ratio of any other message.
        round: the round of the message with the largest ratio; 0 if all ratios are 0.
        touched: the largest number of messages that changed in one replay.
        public: whether the facts that messages state about themselves, such as sensitivities, were equal on both data
            sets.
    """

    agent: int
    changes: int
    direct: float
    hidden: float
    round: int
    touched: int
    public: bool

    @property
    def exceeded(self) -> bool:
        """Return whether the replays refute the accountant.

        The replays refute the accountant in two cases:

        - A message changed by more than the accountant's bound, up to rounding.
        - A fact that a message states about itself, such as its sensitivity, depends on data.
        """
        return max(self.direct, self.hidden) > SLACK or not self.public


def claimed(events: Events, carried: Vector) -> Vector:
    """Return the accountant's bounds on the L2 changes of an agent's messages; inf if unknown.

    The result has a row for each round, and a column for each vector of a message.

    Args:
        events: (rounds,) the noise and the sensitivity of each message of the agent.
        carried: (rounds,) whether the message is the first that depends on a loss function with the changed sample.
    """
    reply, first = response(events, 1), np.zeros(1, np.int64)
    return np.array([reply.step(t, first[: int(carried[t])])[:, 0] for t in range(len(events))])


@np.errstate(all="ignore")
def replay(recorded: Transcript, agent: int, rounds: int, seed: int) -> Finding:
    """Run one agent again on many adjacent data sets, and return the worst result.

    Each adjacent data set changes one sample of a round, the changed round, or all samples that `privacy.adjacency`
    replaces together. Every round but the last is the changed round in turn. For about `rounds` changed rounds, all
    later messages are compared. For the other changed rounds, only messages up to the first that depends on the changed
    sample are compared.

    Args:
        recorded: the transcript (all messages) of the run.
        agent: the number of the agent.
        rounds: the approximate number of changed rounds for which all later messages are compared.
        seed: the seed of the adjacent data.
    """
    replayed, rng = Replayed(recorded, agent), np.random.default_rng(seed)
    setup, total = recorded.setup, len(recorded.frames)
    followed = set(log_spaced(max(total - 1, 1), rounds).tolist())
    worst = Finding(agent, 0, 0.0, 0.0, 0, 0, True)
    for round in range(1, total):
        for change in adjacent(setup, recorded.losses(agent), agent, round, rng):
            last = total
            if round not in followed:
                uses = enumerate(recorded.events.uses[round - 1 :, agent].tolist(), round)
                carriers = (t for t, used in uses if used and carries(setup, agent, used, change))
                last = max(next(carriers, total), round + 1)
            over, carried, l2, _, differing = compared(recorded, replayed, change, last)
            direct, hidden = (float(over[which].max(initial=0.0)) for which in (carried, ~carried))
            is_worse = max(direct, hidden) > max(worst.direct, worst.hidden)
            worst = Finding(
                agent,
                worst.changes + int(carried.any()),
                max(worst.direct, direct),
                max(worst.hidden, hidden),
                round + int(np.argmax(over)) if is_worse else worst.round,
                max(worst.touched, int((l2 > 0).any(axis=1).sum())),
                worst.public and not differing,
            )
    return worst


def replays(recorded: Transcript, seed: int, rounds: int = 12) -> list[Finding]:
    """Run every agent of a run again on adjacent data, and return the worst result for each agent.

    Args:
        recorded: the transcript (all messages) of the run.
        seed: the seed of the adjacent data.
        rounds: the approximate number of changed rounds for which `replay` compares all later messages.
    """
    return [replay(recorded, agent, rounds, seed) for agent in recorded.agents]


class Compared(NamedTuple):
    """Hold the changes of one agent's messages on one adjacent data set.

    Every array has a row for each of the r compared rounds, from the changed round on.

    Attributes:
        over: (r,) the change of the message divided by the accountant's bound on this change. The largest of the ratios
            counts, over all vectors of the message, in L1 and in L2.
        carried: (r,) whether the message is the first that depends on a loss function with the changed sample.
        l2: (r, vectors of a message) the L2 change of each vector.
        bound: (r, vectors of a message) the accountant's bound on the L2 change of each vector.
        differing: facts that a message states about itself, such as a sensitivity, and that depend on data, although
            they must not: triples (round, fact on the recorded data, fact on adjacent data).
    """

    over: Vector
    carried: NDArray[np.bool_]
    l2: Vector
    bound: Vector
    differing: list[tuple[int, Any, Any]]


@np.errstate(all="ignore")
def compared(recorded: Transcript, replayed: Replayed, change: Change, last: int) -> Compared:
    """Compare an agent's messages on an adjacent data set with its messages on the recorded data.

    Args:
        recorded: the transcript (all messages) of the run.
        replayed: the replay of the agent on the recorded data.
        change: the adjacent data set. The first compared round is `change.round`.
        last: the last compared round.
    """
    events = recorded.events[change.round - 1 : last, replayed.agent]
    carried = np.array([bool(r) and carries(recorded.setup, replayed.agent, r, change) for r in events.uses.tolist()])
    moment = change.round, last, carried.tobytes()
    if replayed.claim[0] != moment:  # all changes of a sample have equal bounds
        l2 = claimed(events, carried)
        # For gamma-norm noise the field l1 holds the L2 sensitivity, so nothing is claimed about the L1 change.
        l1 = np.where(np.isin(events.kind, (Kind.PURE, Kind.GAMMA_NORM)), np.inf, l2 * events.l1_per_l2)
        replayed.claim = moment, np.stack([l1, l2], axis=-1)
    bounds = replayed.claim[1]
    moved, differing = replayed.moved(change, last)
    over = np.where((moved == 0) | np.isinf(bounds), 0.0, moved / bounds).max(axis=(1, 2))
    return Compared(over, carried, moved[..., 1], bounds[..., 1], differing)
