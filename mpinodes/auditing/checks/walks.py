"""One agent run by itself on what a run sent, with a record of every call of its algorithm."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np

from mpinodes.auditing.checks.failures import image
from mpinodes.core import Loss, Setup, Vector
from mpinodes.rounds.step import Arrivals, Step


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
    """Run an agent on what was sent, and yield the record of the calls of each round (`Noting.call`).

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
    for _ in frames:
        state = step(state, None, frame, row)
        arrivals = Arrivals.of_round(setup, state.here, lambda j, s: np.array(frames[s - 1, j]))
        state = step.receive(state, arrivals, step.losses(state.here.t))
        yield noting.call
