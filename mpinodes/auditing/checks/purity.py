"""Tests of purity: call an algorithm's methods again on equal arguments, and keep agents apart from each other."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from mpinodes.auditing.checks.failures import Fault, image, shown
from mpinodes.auditing.checks.walks import TriedRun, scalars_at, walk
from mpinodes.core import Loss, Setup
from mpinodes.core.parts import mixed
from mpinodes.losses.linear import Around, dense

PURE = "message, update and decision must be functions of their arguments alone, and return new values"
KEPT = "no global, class attribute, closure, cache, file or clock may carry anything between calls"


def purity(run: TriedRun, seed: int) -> Iterator[Fault]:
    """Run all tests of purity on one run."""
    rng = np.random.default_rng(seed)
    setup = run.fresh()
    calls = {i: list(walk(setup, run.frames, i)) for i in run.agents}
    yield from _as_in_lockstep(run, calls)
    yield from _again(run, setup, calls, rng)
    yield from _apart(run, calls, rng)
    yield from _scalars_alone(run)


def _as_in_lockstep(run: TriedRun, calls: dict[int, list[Any]]) -> Iterator[Fault]:
    """Find an agent that sends something else when it runs alone than among the others in one process."""
    end = scalars_at(run)
    for i in run.agents:
        for t, call in enumerate(calls[i], 1):
            if call.frame[:end].tobytes() != run.frames[t - 1, i, :end].tobytes():
                where = f"{run.what}: message() of agent {i}, round {t}: it differs alone, in a fresh import"
                yield Fault("lockstep differs from an agent alone", where, KEPT)
                break


def _again(run: TriedRun, setup: Setup, calls: dict[int, list[Any]], rng: np.random.Generator) -> Iterator[Fault]:
    """Repeat every call on copies, in random order; report the first call with faults."""
    pairs = [(i, t) for i, recorded in calls.items() for t in range(len(recorded))]
    for place in rng.permutation(len(pairs)):
        i, t = pairs[place]
        if faults := list(_once_more(setup.algorithm, calls[i][t], f"{run.what}: agent {i}, round {t + 1}")):
            yield from faults
            return


def _once_more(algorithm: Any, call: Any, where: str) -> Iterator[Fault]:
    """Find a call that returns something else than before, or that changes an argument."""
    state, here = copy.deepcopy(call.state), call.here
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


def _apart(run: TriedRun, calls: dict[int, list[Any]], rng: np.random.Generator) -> Iterator[Fault]:
    """Run each agent while all other agents in this process have other data, and find a message that changes."""
    for i in run.agents:
        setup = run.fresh()
        others = [j for j in run.agents if j != i]
        shadows = {j: walk(setup, run.frames, j, _decoys(setup, j)) for j in others}
        for call, own in zip(walk(setup, run.frames, i), calls[i], strict=True):
            if call.said != own.said or call.decision != own.decision:
                yield Fault(
                    "data of another agent reach this one outside of messages",
                    f"{run.what}: agent {i}, round {call.here.t}: message() or decision() changes when other agents in "
                    "the same process have other data, though all that the agent received is the same",
                    "all that an agent knows must be in its state and its inbox",
                )
                break
            for j in rng.permutation(others):
                next(shadows[int(j)], None)


def _decoys(setup: Setup, agent: int) -> Any:
    """Return the decoys of an agent's losses by round."""
    own = setup.losses(agent)
    return lambda t: decoy(own(t))


def decoy(loss: Loss) -> Loss:
    """Return a loss with other samples; the original stays unchanged."""
    if isinstance(loss, Around):
        return replace(loss, loss=decoy(loss.loss))
    sample: Any = loss
    labels = sample.needs_labels
    targets = -sample.targets if labels else -3.0 * sample.targets + 7.0
    other: Loss = replace(sample, features=-dense(sample.features)[:, ::-1].copy(), targets=targets)
    return other


def _scalars_alone(run: TriedRun) -> Iterator[Fault]:
    """Run the mixing of all agents without the algorithm, and find a scalar that changes."""
    setup, end = run.fresh(), scalars_at(run)
    rounds = mixed(setup.mixing, setup.reached, run.agents)
    for t, sent in zip(range(1, len(run.frames) + 1), (r.said for r in rounds), strict=False):
        for i, scalars in sent.items():
            recorded = run.frames[t - 1, i, end:]
            if scalars.tobytes() != recorded.tobytes():
                yield Fault(
                    "data in a public scalar",
                    f"{run.what}: outgoing() of the mixing, agent {i}, round {t}: {shown(recorded.tolist())} is not "
                    "what the graph and the received scalars alone give",
                    "scalars are sent without noise, so a mixing must not use the algorithm's values or data",
                )
                return
