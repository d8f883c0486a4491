"""One agent run by itself on what a run sent, with a record of every call of its algorithm and its mixing."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from mpinodes.auditing.checks.failures import Fault, image
from mpinodes.config.building import build
from mpinodes.core import Loss, Setup, Vector
from mpinodes.core.events import Events
from mpinodes.core.messages import HEADER
from mpinodes.rounds.lockstep import simulate
from mpinodes.rounds.step import Arrivals, Step


class TriedRun(NamedTuple):
    """A finished run that is to be tested.

    Attributes:
        what: its label.
        setup: its setup.
        decisions: (rounds, n, d).
        frames: (rounds, n, words) everything sent.
        events: (rounds, n).
    """

    what: str
    setup: Setup
    decisions: Vector
    frames: Vector
    events: Events

    @property
    def agents(self) -> range:
        """Return the numbers of all agents."""
        return range(self.setup.topology.agents)

    def fresh(self) -> Setup:
        """Return a new setup equal to that of the run, from files that are imported anew."""
        return build(self.setup.experiment)


def made(label: str, setup: Setup) -> TriedRun:
    """Run an experiment in lockstep."""
    rows = np.concatenate([chunk.copy() for chunk in simulate(setup)], axis=1).transpose(1, 0, 2)
    decisions, events, frames = setup.layout.open(rows)
    return TriedRun(label, setup, decisions, frames, events)


def finite(run: TriedRun) -> list[Fault]:
    """Return a fault if a decision is not finite."""
    bad = np.argwhere(~np.isfinite(run.decisions).all(axis=2))
    where = [f"{run.what}: agent {i}, round {t + 1}" for t, i in bad[:1].tolist()]
    return [Fault("a decision that is not finite", place, "decisions are finite numbers") for place in where]


class Noting:
    """An algorithm that records copies of its methods' arguments and images of their results.

    Attributes:
        call: of the current round: `here`, `state`, `message`, `said`, `decision`, `inbox`, `loss` and `following`.
    """

    def __init__(self, algorithm: Any) -> None:
        self._algorithm, self.call = algorithm, SimpleNamespace(decision=None)

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the wrapped algorithm."""
        return getattr(self._algorithm, name)

    def message(self, s: Any, here: Any) -> Any:
        """Return the algorithm's message, and start the record of a round."""
        state = copy.deepcopy(s)
        message = self._algorithm.message(s, here)
        self.call = SimpleNamespace(here=here, state=state, message=message, said=image(message), decision=None)
        return message

    def decision(self, s: Any) -> Any:
        """Return the algorithm's decision, and record it."""
        decision = self._algorithm.decision(s)
        self.call.decision = image(decision)
        return decision

    def update(self, s: Any, here: Any, inbox: Any, loss: Any) -> Any:
        """Return the algorithm's next state, and record the call."""
        self.call.inbox, self.call.loss = copy.deepcopy(inbox), copy.deepcopy(loss)
        following = self._algorithm.update(s, here, inbox, loss)
        self.call.following = image(following)
        return following


def walk(setup: Setup, frames: Vector, agent: int, losses: Callable[[int], Loss] | None = None) -> Iterator[Any]:
    """Run an agent on what was sent, and yield the record of each round: the calls (`Noting`), `frame` and `estimate`.

    Args:
        setup: of the agent.
        frames: (rounds, n, words) what was sent.
        agent: the number of the agent.
        losses: its losses by round; None for its own.
    """
    noting: Any = Noting(setup.algorithm)
    setup = replace(setup, algorithm=noting, losses=(lambda _: losses) if losses else setup.losses)
    step, frame, row = Step(setup, agent), np.zeros(setup.frame_width), np.zeros(setup.layout.width)
    state = step.start()
    for t in range(1, len(frames) + 1):
        state = step(state, None, frame, row)
        arrivals = Arrivals.of_round(setup, state.here, lambda j, s: np.array(frames[s - 1, j]))
        state = step.receive(state, arrivals, step.losses(t))
        noting.call.frame, noting.call.estimate = frame.copy(), row[: setup.dimension].copy()
        yield noting.call


def scalars_at(run: TriedRun) -> int:
    """Return where in a frame the mixing's scalars begin."""
    return HEADER + len(run.setup.algorithm.vectors) * run.setup.dimension
