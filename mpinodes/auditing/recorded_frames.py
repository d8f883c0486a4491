"""All of a recorded frame, made again from public facts and releases, and compared bit by bit.

A frame is header | releases | scalars. The header's round and kind are the schedule's, its bits say who moves still, as
the relays tell; a `Start` is what `init` was given, a `Relay` the mix of what was heard; the scalars are the mixing's,
which is run by itself, from files imported anew, on its own scalars alone. There is no noise on any of this, so that
one bit of another origin is a secret told. A noised release is what the mechanism made, to the last bit, too.
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
    """Words of a frame that are not what public facts make of them.

    Attributes:
        what: of the frame.
        agent, round: whose, and when.
        said, due: the first of them.
    """

    what: str
    agent: int
    round: int
    said: float
    due: float

    @property
    def line(self) -> str:
        """For people."""
        same = self.said == self.due or (np.isnan(self.said) and np.isnan(self.due))
        shown = f"{_bits(self.said)} and not {_bits(self.due)}" if same else f"{self.said!r} and not {self.due!r}"
        return f"{self.what} of agent {self.agent}, round {self.round}: {shown}"


class RemadeFrames(NamedTuple):
    """What was compared.

    Attributes:
        words: how many.
        slips: what differed.
    """

    words: int
    slips: list[Slip]


def compare(run: Transcript, agents: list[Replayed]) -> RemadeFrames:
    """Everything that was said, given the replays of all agents."""
    due = [*_headers(run, agents), *_releases(run, agents), *_scalars(run)]
    slips = [slip for slip in (_differ(run.frames, *one) for one in due) if slip]
    return RemadeFrames(sum(len(row) for *_, row in due), slips)


_Due = tuple[str, int, int, int, Vector]  # what it is, agent, round, the first word's place, words


def _differ(frames: Vector, what: str, agent: int, t: int, place: int, due: Vector) -> Slip | None:
    said = np.ascontiguousarray(frames[t - 1, agent, place : place + len(due)])
    off = np.flatnonzero(said.view(np.uint64) != np.ascontiguousarray(due).view(np.uint64))
    return Slip(what, agent, t, float(said[off[0]]), float(due[off[0]])) if len(off) else None


def _bits(word: float) -> str:
    return f"{word!r} ({np.float64(word).view(np.uint64):#018x})"


def _headers(run: Transcript, agents: list[Replayed]) -> Iterator[_Due]:
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
    """Whether what the agent relays has changed by no more than a share."""
    before = agent.heard(t - 1) if t > 1 else None
    if before is None or not isinstance(agent.wanted(t), Relay):
        return False
    return bool(norm(agent.said(t) - before.own) <= below * norm(before.own))


def _releases(run: Transcript, agents: list[Replayed]) -> Iterator[_Due]:
    """What is said as it is; of noise that can be drawn again, what is noised, too."""
    reproducible = run.setup.experiment.reproducible
    for agent in agents:
        for t, message in enumerate(agent.messages, 1):
            bare = isinstance(message, (Start, Relay))
            if bare or reproducible:
                what = f"the {type(message).__name__}" if bare else "the release"
                yield what, agent.agent, t, HEADER, agent.released(t)[0]


def _scalars(run: Transcript) -> Iterator[_Due]:
    """The mixing's, of all agents side by side; there is nothing for it to learn of anybody's data."""
    alone = build(run.setup.experiment)
    place = run.frames.shape[2] - alone.mixing.width
    rounds = mixed(alone.mixing, alone.reached, range(alone.topology.agents))
    for t, said in zip(range(1, len(run.frames) + 1), (r.said for r in rounds), strict=False):
        yield from (("the mixing's scalars", i, t, place, scalars) for i, scalars in said.items())
