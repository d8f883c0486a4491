"""The comparison of recorded frames, bit by bit, with frames rebuilt from public facts and releases.

A frame is header | releases | scalars. The schedule determines the header's round and kind, and the relays determine
its bits on which agents still move. A `Start` is the value that `init` was given, and a `Relay` is the mix of what the
agent received. The scalars come from the mixing, which is run on its own scalars alone, from files imported anew. None
of this has noise, so a single bit from another source reveals data. A noised release is what the mechanism made, to the
last bit.
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


class Slip(NamedTuple):
    """A part of a frame that differs from the part rebuilt from public facts.

    Attributes:
        what: the name of the part.
        agent, round: the sender and the round.
        said, due: the first differing word as sent and as rebuilt.
    """

    what: str
    agent: int
    round: int
    said: float
    due: float

    @property
    def line(self) -> str:
        """Return one line of text."""
        same = self.said == self.due or (np.isnan(self.said) and np.isnan(self.due))
        shown = f"{_bits(self.said)} and not {_bits(self.due)}" if same else f"{self.said!r} and not {self.due!r}"
        return f"{self.what} of agent {self.agent}, round {self.round}: {shown}"


class RemadeFrames(NamedTuple):
    """The outcome of the comparison.

    Attributes:
        words: how many words were compared.
        slips: the parts that differ.
    """

    words: int
    slips: list[Slip]


_Due = tuple[str, int, int, int, Vector]  # name, agent, round, index of the first word, words


def compare(run: Transcript, agents: list[Replayed]) -> RemadeFrames:
    """Compare all frames of a run with rebuilt ones, given the replays of all agents."""
    due = [*_headers(run, agents), *_releases(run, agents), *_scalars(run)]
    slips = []
    for name, agent, t, place, words in due:
        sent = np.ascontiguousarray(run.frames[t - 1, agent, place : place + len(words)])
        off = np.flatnonzero(sent.view(np.uint64) != np.ascontiguousarray(words).view(np.uint64))
        if len(off):
            slips.append(Slip(name, agent, t, float(sent[off[0]]), float(words[off[0]])))
    return RemadeFrames(sum(len(row) for *_, row in due), slips)


def _bits(word: float) -> str:
    """Return a word as a number and as bits."""
    return f"{word!r} ({np.float64(word).view(np.uint64):#018x})"


def _headers(run: Transcript, agents: list[Replayed]) -> Iterator[_Due]:
    """Yield the header of every frame; it says which agents still move, if the algorithm may end early."""
    below = 0.0 if run.setup.endless else run.setup.algorithm.settled_below
    hops = max(1, diameter(run.setup.topology)) if below else 0
    full = (1 << hops) - 1
    moving = [full] * len(agents)
    for t in range(1, len(run.frames) + 1):
        for i, agent in enumerate(agents):
            if below:
                moving[i] = (moving[i] << 1 | (not _settled(agent, t, below))) & full
            yield "the header", agent.agent, t, 0, np.array([t, RELEASE_FRAME, moving[i] if below else 0.0])
        if below:
            heard = [run.setup.topology.neighborhood(t, agent.agent).senders for agent in agents]
            moving = [int(np.bitwise_or.reduce([moving[j] for j in senders])) for senders in heard]


def _settled(agent: Replayed, t: int, below: float) -> bool:
    """Return whether the vector that an agent relays has changed by no more than a relative tolerance."""
    before = agent.heard(t - 1) if t > 1 else None
    if before is None or not isinstance(agent.wanted(t), Relay):
        return False
    return bool(norm(agent.said(t) - before.own) <= below * norm(before.own))


def _releases(run: Transcript, agents: list[Replayed]) -> Iterator[_Due]:
    """Yield the releases without noise, and, if the noise can be drawn again, the noised ones."""
    reproducible = run.setup.experiment.reproducible
    for agent in agents:
        for t, message in enumerate(agent.messages, 1):
            bare = isinstance(message, (Start, Relay))
            if bare or reproducible:
                name = f"the {type(message).__name__}" if bare else "the release"
                yield name, agent.agent, t, HEADER, agent.released(t)[0]


def _scalars(run: Transcript) -> Iterator[_Due]:
    """Yield the scalars of the mixing, run for all agents side by side without any data."""
    alone = build(run.setup.experiment)
    place = run.frames.shape[2] - alone.mixing.width
    rounds = mixed(alone.mixing, alone.reached, range(alone.topology.agents))
    for t, sent in zip(range(1, len(run.frames) + 1), (r.said for r in rounds), strict=False):
        yield from (("the mixing's scalars", i, t, place, scalars) for i, scalars in sent.items())
