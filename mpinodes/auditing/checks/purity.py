"""Test purity: a call with equal arguments gives equal results, and agents exchange nothing except messages.

The test runs each agent alone, with the user's files imported again, and repeats calls on equal arguments.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np

from mpinodes.auditing.checks.failures import Fault, image
from mpinodes.auditing.recorded_frames import SCALARS, compare
from mpinodes.auditing.transcripts import Replayed, Transcript
from mpinodes.core import Loss, Setup, Vector
from mpinodes.rounds.noised import again
from mpinodes.rounds.step import Arrivals, Step

PURE = "message, update and decision must be functions of their arguments alone, and return new values"
KEPT = (
    "all that an agent knows must be in its state and its inbox: no global, class attribute, closure, cache, file or "
    "clock may carry anything between calls or agents"
)
PUBLIC = "scalars are sent without noise, so a mixing must not use the algorithm's values or data"


class Noting:
    """Wrap an algorithm, and record the arguments and the results of its methods.

    Attributes:
        call: the record of the current round. It has the arguments `here`, `state`, `inbox` and `loss`, the result
            `message`, and the images of three results: `said` of the message, `decision` of the decision, and
            `following` of the next state. An image (`failures.image`) has all bits of a value.
    """

    def __init__(self, algorithm: Any) -> None:
        self._algorithm, self.call = algorithm, SimpleNamespace(decision=None)

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the wrapped algorithm."""
        return getattr(self._algorithm, name)

    def message(self, s: Any, here: Any) -> Any:
        """Return the algorithm's message, and start the record of a new round."""
        state = copy.deepcopy(s)
        message = self._algorithm.message(s, here)
        self.call = SimpleNamespace(here=here, state=state, message=message, said=image(message), decision=None)
        return message

    def decision(self, s: Any) -> Any:
        """Return the algorithm's decision, and record the image (all bits) of the decision."""
        decision = self._algorithm.decision(s)
        self.call.decision = image(decision)
        return decision

    def update(self, s: Any, here: Any, inbox: Any, loss: Any) -> Any:
        """Return the algorithm's next state, and record the arguments and the image (all bits) of the next state."""
        self.call.inbox, self.call.loss = copy.deepcopy(inbox), again(loss)
        following = self._algorithm.update(s, here, inbox, loss)
        self.call.following = image(following)
        return following


def walk(setup: Setup, frames: Vector, agent: int, losses: Callable[[int], Loss] | None = None) -> Iterator[Any]:
    """Run one agent on recorded messages, and yield a record of its method calls in each round.

    Args:
        setup: the setup of the run.
        frames: (rounds, agents, numbers of a message) the messages that all agents sent.
        agent: the number of the agent.
        losses: maps a round to the loss function that the agent gets; None for the loss functions of the run.
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


def purity(run: Transcript, seed: int) -> Iterator[Fault]:
    """Run each agent alone on the recorded messages of a run, and yield faults if its methods are not pure.

    - Messages: each part of a message must equal the recorded message. The user's files are imported again for each
      agent, so that agents cannot exchange data through global variables of these files.
    - Calls: all calls of all agents are repeated in random order. A call must give the recorded result, and must not
      change its arguments. Only the first such fault is yielded.
    """
    _, slips = compare(run, [Replayed(run.fresh(), agent) for agent in run.agents])
    for slip in slips:
        if slip.what == SCALARS:
            yield Fault("data in a public scalar", f"{run.label}: {slip.line}", PUBLIC)
        else:
            yield Fault("an agent sends other messages when it runs alone", f"{run.label}: {slip.line}", KEPT)
    setup = run.fresh().setup
    calls = [(i, call) for i in run.agents for call in walk(setup, run.frames, i)]
    for k in np.random.default_rng(seed).permutation(len(calls)):
        i, call = calls[k]
        if fault := call_again(setup, call, f"{run.label}: agent {i}, round {call.here.t}"):
            yield fault
            return


def call_again(setup: Setup, call: Any, where: str) -> Fault | None:
    """Repeat the recorded calls of a round on copies of the arguments, and return the first fault.

    The result is None if there is no fault.

    These are faults:

    - The result of a call differs from the recorded result.
    - A call changes one of its arguments.
    - The next state contains an array of the inbox instead of a copy.

    Args:
        setup: the setup of the run.
        call: the arguments and results of the calls in one round.
        where: the agent and round, for the report.
    """
    calls: dict[str, tuple[tuple[Any, ...], Any]] = {
        "message": ((call.state, call.here), call.said),
        "decision": ((call.state,), call.decision),
        "update": ((call.state, call.here, call.inbox, call.loss), call.following),
    }
    for method, (arguments, recorded) in calls.items():
        given = tuple(map(again, arguments))
        images = [image(argument) for argument in given]
        result = getattr(setup.algorithm, method)(*given)
        for name, argument, before in zip(("state", "here", "inbox", "loss"), given, images, strict=False):
            if image(argument) != before:
                return Fault(f"{name} mutated", f"{where}: {method}() changed its argument {name}", PURE)
        if recorded is not None and image(result) != recorded:
            where += f": {method}() gives another value if called again"
            return Fault("two values for equal inputs", where, PURE)
    inbox = given[2]
    for array in (*inbox.releases, inbox.own):
        array.fill(np.nan)
    if image(result) != recorded:
        place = f"{where}: update() kept an array of the inbox, which the sender's next message overwrites"
        return Fault("a view of the inbox kept in the state", place, "copy arrays that the state keeps")
    return None
