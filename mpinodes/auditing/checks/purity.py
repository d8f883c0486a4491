"""Tests of purity: call an algorithm's methods again on equal arguments, and keep agents apart from each other."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from mpinodes.auditing.checks.failures import Fault, image
from mpinodes.auditing.checks.walks import walk
from mpinodes.auditing.recorded_frames import SCALARS, compare
from mpinodes.auditing.transcripts import Transcript
from mpinodes.core import Loss, Setup
from mpinodes.losses.linear import Around, dense

PURE = "message, update and decision must be functions of their arguments alone, and return new values"
KEPT = "no global, class attribute, closure, cache, file or clock may carry anything between calls"
PUBLIC = "scalars are sent without noise, so a mixing must not use the algorithm's values or data"


def purity(run: Transcript, seed: int) -> Iterator[Fault]:
    """Find an agent, or a mixing, that sends something else alone, and calls that are no functions of their arguments.

    Each agent runs alone on what the run sent. The calls of all agents are then repeated in random order.
    """
    alone = run.fresh()
    for slip in compare(alone, alone.replayed()).slips:
        if slip.what == SCALARS:
            yield Fault("data in a public scalar", f"{run.label}: {slip.line}", PUBLIC)
        else:
            yield Fault("lockstep differs from an agent alone", f"{run.label}: {slip.line} in a fresh import", KEPT)
    rng, setup = np.random.default_rng(seed), alone.setup
    calls = {i: list(walk(setup, run.frames, i)) for i in run.agents}
    pairs = [(i, t) for i in run.agents for t in range(len(calls[i]))]
    for i, t in (pairs[k] for k in rng.permutation(len(pairs))):
        if faults := list(call_again(setup, calls[i][t], f"{run.label}: agent {i}, round {t + 1}")):
            yield from faults
            break
    for i in run.agents:
        yield from apart(run, i, calls[i], rng)


def call_again(setup: Setup, call: Any, where: str) -> Iterator[Fault]:
    """Repeat a recorded call on copies; find another result than before, and an argument that the call changes."""
    algorithm, here, state = setup.algorithm, call.here, copy.deepcopy(call.state)
    before = image(state)
    for method, recorded in (("message", call.said), ("decision", call.decision)):
        got = image(algorithm.message(state, here) if method == "message" else algorithm.decision(state))
        if image(state) != before:
            yield Fault("state mutated", f"{where}: {method}() changed the state it was given", PURE)
            return
        if recorded is not None and got != recorded:
            yield Fault("two values for equal inputs", f"{where}: {method}() gives another value if called again", PURE)
            return
    algorithm.update(copy.deepcopy(call.state), here, copy.deepcopy(call.inbox), decoy(call.loss))
    state, inbox, loss = given = copy.deepcopy((call.state, call.inbox, call.loss))
    images = [image(value) for value in given]
    following = algorithm.update(state, here, inbox, loss)
    for argument, was, now in zip(("state", "inbox", "loss"), images, map(image, given), strict=True):
        if was != now:
            yield Fault(f"{argument} mutated", f"{where}: update() changed the {argument} it was given", PURE)
            return
    if image(following) != call.following:
        yield Fault("two values for equal inputs", f"{where}: update() gives another state if called again", PURE)
        return
    for array in (*inbox.releases, inbox.own):
        array.fill(np.nan)
    if image(following) != call.following:
        yield Fault(
            "a view of the inbox kept in the state",
            f"{where}: update() kept an array of the inbox, which the sender's next message overwrites",
            "copy arrays that the state keeps",
        )


def apart(run: Transcript, agent: int, calls: list[Any], rng: np.random.Generator) -> Iterator[Fault]:
    """Run an agent while all other agents in this process have other data; find a call whose result changes."""
    setup = run.fresh().setup

    def decoys(other: int) -> Any:
        losses = setup.losses(other)
        return lambda t: decoy(losses(t))

    others = [walk(setup, run.frames, j, decoys(j)) for j in run.agents if j != agent]
    for call, own in zip(walk(setup, run.frames, agent), calls, strict=True):
        if (call.said, call.decision) != (own.said, own.decision):
            yield Fault(
                "data of another agent reach this one outside of messages",
                f"{run.label}: agent {agent}, round {call.here.t}: message() or decision() changes when other agents "
                "in the same process have other data, though all that the agent received is the same",
                "all that an agent knows must be in its state and its inbox",
            )
            return
        for k in rng.permutation(len(others)):
            next(others[k])


def decoy(loss: Loss) -> Loss:
    """Return a loss with other samples; the original stays unchanged."""
    if isinstance(loss, Around):
        return replace(loss, loss=decoy(loss.loss))
    sample: Any = loss
    targets = -sample.targets if sample.needs_labels else -3.0 * sample.targets + 7.0
    other: Loss = replace(sample, features=-dense(sample.features)[:, ::-1].copy(), targets=targets)
    return other
