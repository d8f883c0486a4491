"""One agent by itself against what was said: every call of its algorithm and its mixing, with what went in and out."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from mpinodes.auditing.checks.failures import image
from mpinodes.config.building import build
from mpinodes.core import Inbox, Loss, Message, Neighborhood, Setup, Vector
from mpinodes.core.events import Events
from mpinodes.core.messages import HEADER
from mpinodes.rounds.lockstep import simulate
from mpinodes.rounds.step import Arrivals, Releaser


class TriedRun(NamedTuple):
    """A run that was made to be looked at.

    Attributes:
        what: for people.
        setup: of it.
        decisions: (rounds, n, d).
        frames: (rounds, n, words) all that was said.
        events: (rounds, n).
    """

    what: str
    setup: Setup
    decisions: Vector
    frames: Vector
    events: Events

    @property
    def agents(self) -> range:
        """All of them."""
        return range(self.setup.topology.agents)

    def fresh(self) -> Setup:
        """The same set-up from files that are imported anew."""
        return build(self.setup.experiment)


class Call(NamedTuple):
    """What an agent said and heard in a round.

    Attributes:
        here: its place.
        state: of its algorithm, before; a copy.
        message, decision: of that state.
        release: as a mechanism made it.
        scalars: that its mixing sends.
        inbox, loss: what `update` was given; copies.
        following: the image of what it made of it.
    """

    here: Neighborhood
    state: Any
    message: Message
    said: Any
    decision: Any
    release: bytes
    scalars: bytes
    inbox: Inbox
    loss: Loss
    following: Any


def made(what: str, setup: Setup) -> TriedRun:
    """Run an experiment in lockstep."""
    rows = np.concatenate([chunk.copy() for chunk in simulate(setup)], axis=1).transpose(1, 0, 2)
    decisions, events, frames = setup.layout.open(rows)
    return TriedRun(what, setup, decisions, frames, events)


class Walk:
    """An agent of a set-up, run against frames.

    Args:
        setup: of it.
        frames: (rounds, n, words).
        agent: who.
        losses: its losses by round; None: its own.
    """

    def __init__(self, setup: Setup, frames: Vector, agent: int, losses: Callable[[int], Loss] | None = None) -> None:
        self._setup, self._frames, self._agent = setup, frames, agent
        self._losses = losses or setup.losses(agent)
        self._releaser = Releaser(setup, agent, self._losses)
        vectors = setup.algorithm.vectors
        self._vectors = vectors if len(vectors) > 1 else ()
        self.state = setup.algorithm.init(self._releaser.start)
        self.mixing = setup.mixing.init(agent)

    def calls(self, rounds: int) -> Iterator[Call]:
        """Round by round; each call is made once."""
        setup, heard = self._setup, None
        algorithm = setup.algorithm
        for t in range(1, rounds + 1):
            here = setup.reached.neighborhood(t, self._agent)
            state = copy.deepcopy(self.state)
            message = algorithm.message(self.state, here)
            said, decision = image(message), image(algorithm.decision(self.state))
            out = np.zeros(len(setup.algorithm.vectors) * setup.dimension)
            self._releaser.release(message, t, heard, out)
            scalars = np.asarray(setup.mixing.outgoing(self.mixing, here), dtype=float).tobytes()
            arrivals = self.arrivals(here)
            self.mixing, weights, scale = setup.mixing.weights(self.mixing, here, arrivals.scalars)
            inbox = Inbox(arrivals.releases, weights, scale, arrivals.own, self._vectors)
            loss = self._losses(t)
            kept = copy.deepcopy(inbox), copy.deepcopy(loss)
            self.state = algorithm.update(self.state, here, inbox, loss)
            yield Call(
                here, state, copy.deepcopy(message), said, decision, out.tobytes(), scalars, *kept, image(self.state)
            )
            heard = kept[0]

    def arrivals(self, here: Neighborhood) -> Arrivals:
        """Copies of what it hears."""
        return Arrivals.of_round(self._setup, here, lambda j, s: np.array(self._frames[s - 1, j]))


def release_of(run: TriedRun, agent: int, t: int) -> Vector:
    """What was said in a round."""
    end = HEADER + len(run.setup.algorithm.vectors) * run.setup.dimension
    return np.asarray(run.frames[t - 1, agent, HEADER:end])


def scalars_of(run: TriedRun, agent: int, t: int) -> Vector:
    """What its mixing sent."""
    end = HEADER + len(run.setup.algorithm.vectors) * run.setup.dimension
    return np.asarray(run.frames[t - 1, agent, end:])
