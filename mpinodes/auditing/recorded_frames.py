"""Compare recorded messages, bit by bit, with messages that are computed again from public facts and releases.

A release is a vector that was sent with noise. A number that has no noise, and does not follow from public facts and
releases, may reveal data. A message is recorded as a frame: header | vectors | scalars. Each part of a frame is
computed again:

- The header has the round, the kind of frame, and bits that say in which of the last rounds any agent was still
  changing its vector.
- A `Start` is the public initial value, and a `Relay` is the mix of what the agent received.
- The scalars come from the mixing, which is run on its scalars alone, with the user's files imported again.
- A release must equal the mechanism's output. If the noise cannot be drawn again, releases are not compared.
- If the agents noise gradients, the sent vector must equal the vector that the algorithm computes from the noised
  gradients.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.linalg import norm

from mpinodes.auditing.transcripts import Replayed, Transcript
from mpinodes.config.building import build
from mpinodes.core import Relay, Start, Vector
from mpinodes.core.messages import HEADER
from mpinodes.core.parts import mixed
from mpinodes.rounds.step import RELEASE_FRAME
from mpinodes.topology.facts import diameter

SCALARS = "the mixing's scalars"
_Due = tuple[str, int, int, int, Vector]  # an expected part: name, agent, round, index of its first word, words


class Slip(NamedTuple):
    """Hold a part of a recorded message that differs from the same part computed again.

    Attributes:
        what: the name of the part.
        agent, round: the sender and the round.
        sent, due: the first number that differs, as sent and as computed.
    """

    what: str
    agent: int
    round: int
    sent: float
    due: float

    @property
    def line(self) -> str:
        """Return the difference as one line of text. If the two numbers look equal in print, their bits are printed."""
        sent, due = repr(self.sent), repr(self.due)
        if sent == due:
            sent, due = (f"{word!r} ({np.float64(word).view(np.uint64):#018x})" for word in (self.sent, self.due))
        return f"{self.what} of agent {self.agent}, round {self.round}: {sent} was sent, {due} was expected"


def compare(run: Transcript, agents: list[Replayed]) -> tuple[int, list[Slip]]:
    """Compare the recorded messages of a run, bit by bit, with messages that are computed again.

    Headers, scalars, starting points and relayed vectors are computed again from public facts and releases. Another
    vector is compared with the replay of its agent, but only if the noise of the run can be drawn again.

    Args:
        run: the run.
        agents: the replays of all agents.

    Returns:
        How many numbers were compared, and the parts that differ.
    """
    count, slips = 0, list[Slip]()
    for name, agent, t, place, words in (*_headers(run, agents), *_payloads(run, agents)):
        count += len(words)
        sent = np.ascontiguousarray(run.frames[t - 1, agent, place : place + len(words)])
        off = np.flatnonzero(sent.view(np.uint64) != np.ascontiguousarray(words).view(np.uint64))
        if len(off):
            slips.append(Slip(name, agent, t, float(sent[off[0]]), float(words[off[0]])))
    return count, slips


def _headers(run: Transcript, agents: list[Replayed]) -> Iterator[_Due]:
    """Yield the header that every recorded message should have: the round, the kind of frame, and perhaps further bits.

    If the run may end early, the header has a bit for each of the last rounds. The bit says whether any agent was still
    changing its vector in this round.
    """
    below = 0.0 if run.setup.endless else run.setup.algorithm.settled_below
    hops = max(1, diameter(run.setup.topology)) if below else 0
    full = (1 << hops) - 1
    moving = [full] * len(agents)
    for t in range(1, len(run.frames) + 1):
        for i, agent in enumerate(agents):
            if below:
                before, settled = agent.heard(t - 1) if t > 1 else None, False
                if before is not None and isinstance(agent.wanted(t), Relay):
                    settled = bool(norm(agent.said(t) - before.own) <= below * norm(before.own))
                moving[i] = (moving[i] << 1 | (not settled)) & full
            yield "the header", agent.agent, t, 0, np.array([t, RELEASE_FRAME, moving[i]], dtype=float)
        if below:
            heard = [run.setup.topology.neighborhood(t, agent.agent).senders for agent in agents]
            moving = [int(np.bitwise_or.reduce([moving[j] for j in senders])) for senders in heard]


def _payloads(run: Transcript, agents: list[Replayed]) -> Iterator[_Due]:
    """Yield what each recorded message must contain after its header, computed again.

    A message contains the releases of an agent, and the scalars that the mixing sends along. A release with noise is
    yielded only if its noise can be drawn again. The scalars are computed for all agents together, from the graph and
    from earlier scalars.
    """
    for agent in agents:
        for t, message in enumerate(agent.messages, 1):
            bare = isinstance(message, (Start, Relay))
            if bare or run.setup.experiment.reproducible:
                name = f"the {type(message).__name__}" if bare else "the release"
                yield name, agent.agent, t, HEADER, agent.released(t)[0]
    alone = build(run.setup.experiment)
    place = run.frames.shape[2] - alone.mixing.width
    rounds = mixed(alone.mixing, alone.reached, range(alone.topology.agents))
    for t, of_round in zip(range(1, len(run.frames) + 1), rounds, strict=False):
        yield from ((SCALARS, i, t, place, scalars) for i, scalars in of_round.said.items())
