"""Purity: the methods of an algorithm, called again on what they were given, and agents kept apart from each other."""

from __future__ import annotations

import copy
import random
import sys
import types
from collections.abc import Iterator
from dataclasses import is_dataclass, replace
from typing import Any

import numpy as np

from mpinodes.auditing.checks.failures import Fault, attributes, image, shown
from mpinodes.auditing.checks.walks import Call, TriedRun, Walk, release_of, scalars_of
from mpinodes.core import Loss, Setup
from mpinodes.losses.linear import Around, dense

PURE = "message, update and decision must be functions of their arguments alone, and return new values"


def purity(run: TriedRun, seed: int) -> Iterator[Fault]:
    """All of it on one run."""
    setup, rounds = run.fresh(), len(run.frames)
    before = world(setup)
    calls = {i: list(Walk(setup, run.frames, i).calls(rounds)) for i in run.agents}
    yield from _as_in_lockstep(run, calls)
    yield from _again(run, setup, calls, np.random.default_rng(seed))
    yield from _kept(run, before, world(setup))
    yield from _apart(run, calls, np.random.default_rng(seed + 1))
    yield from _scalars_alone(run)


def _as_in_lockstep(run: TriedRun, calls: dict[int, list[Call]]) -> Iterator[Fault]:
    """An agent alone says what it said among the others in one process."""
    for i in run.agents:
        for call in calls[i]:
            t = call.here.t
            if call.release != release_of(run, i, t).tobytes():
                yield Fault(
                    "lockstep differs from an agent alone",
                    f"{run.what}: message() of agent {i}, round {t}: alone, in a fresh import, it is another than in "
                    "one process with all agents",
                    "no global, class attribute, closure, cache, file or clock may carry anything between calls",
                )
                break
            if call.scalars != scalars_of(run, i, t).tobytes():
                yield _scalar(run, i, t)
                break


def _again(run: TriedRun, setup: Setup, calls: dict[int, list[Call]], rng: np.random.Generator) -> Iterator[Fault]:
    """Every call once more, on copies, in another order, other randomness about."""
    pairs = [(i, t) for i, each in calls.items() for t in range(len(each))]
    saved = random.getstate(), np.random.get_state()  # noqa: NPY002 (the global one, which a file may use)
    for place in rng.permutation(len(pairs)):
        i, t = pairs[place]
        random.seed(int(rng.integers(2**31)))
        np.random.seed(int(rng.integers(2**31)))  # noqa: NPY002
        before = random.getstate(), image(np.random.get_state())  # noqa: NPY002
        faults = list(_once_more(run, setup, i, calls[i][t]))
        if before != (random.getstate(), image(np.random.get_state())):  # noqa: NPY002
            faults.append(Fault(
                "own random draw", f"{run.what}: agent {i}, round {t + 1}: the state of a global generator has changed",
                "the mechanism is the only randomness there is: leave noise to it, and state a sensitivity",
            ))  # fmt: skip
        yield from faults
        if faults:
            break
    random.setstate(saved[0])
    np.random.set_state(saved[1])  # noqa: NPY002


def _once_more(run: TriedRun, setup: Setup, i: int, call: Call) -> Iterator[Fault]:
    algorithm, here = setup.algorithm, call.here
    where = f"{run.what}: agent {i}, round {here.t}"
    state = copy.deepcopy(call.state)
    before = image(state)
    for method, recorded in (("message", call.said), ("decision", call.decision)):
        got = algorithm.decision(state) if method == "decision" else algorithm.message(state, here)
        if image(state) != before:
            yield Fault("state mutated", f"{where}: {method}() changed the state it was given", PURE)
            return
        if image(got) != recorded:
            yield Fault(
                "two values for equal inputs", f"{where}: {method}() gives another value when asked again", PURE
            )
            return
    algorithm.update(copy.deepcopy(call.state), here, copy.deepcopy(call.inbox), decoy(call.loss))
    state, inbox, loss = copy.deepcopy((call.state, call.inbox, call.loss))
    images = image(state), image(inbox), image(loss)
    following = algorithm.update(state, here, inbox, loss)
    for what, was, now in zip(("state", "inbox", "loss"), images, map(image, (state, inbox, loss)), strict=True):
        if was != now:
            yield Fault(f"{what} mutated", f"{where}: update() changed the {what} it was given", PURE)
            return
    if image(following) != call.following:
        yield Fault("two values for equal inputs", f"{where}: update() gives another state when asked again", PURE)
        return
    for array in (*inbox.releases, inbox.own):
        array.fill(np.nan)
    if image(following) != call.following:
        yield Fault(
            "a view of the inbox kept in the state",
            f"{where}: update() kept an array of the inbox, which is written over when its sender speaks again",
            "copy what is kept",
        )
    yield from _read_only(where, algorithm, call)


def _read_only(where: str, algorithm: Any, call: Call) -> Iterator[Fault]:
    """With arrays that cannot be written to."""
    for kept in ("state", "inbox", "loss"):
        given = copy.deepcopy({"state": call.state, "inbox": call.inbox, "loss": call.loss})
        _lock(given[kept])
        try:
            algorithm.message(given["state"], call.here)
            algorithm.update(given["state"], call.here, given["inbox"], given["loss"])
        except ValueError as error:
            if "read-only" not in str(error):
                raise
            yield Fault(f"{kept} mutated", f"{where}: an array of the {kept} is written to ({error})", PURE)


def _lock(value: Any, depth: int = 12) -> None:
    if isinstance(value, np.ndarray):
        value.flags.writeable = False
    elif isinstance(value, (list, tuple)):
        for inner in value:
            _lock(inner, depth - 1)
    elif isinstance(value, dict):
        for inner in value.values():
            _lock(inner, depth - 1)
    elif depth and is_dataclass(value):
        for inner in attributes(value).values():
            _lock(inner, depth - 1)


def _apart(run: TriedRun, calls: dict[int, list[Call]], rng: np.random.Generator) -> Iterator[Fault]:
    """Each agent, while all others in this process have other data: what it says stays what it is."""
    rounds = len(run.frames)
    for i in run.agents:
        setup = run.fresh()
        others = [j for j in run.agents if j != i]
        shadows = {j: Walk(setup, run.frames, j, _decoys(setup, j)).calls(rounds) for j in others}
        for call, own in zip(Walk(setup, run.frames, i).calls(rounds), calls[i], strict=True):
            if call.said != own.said or call.decision != own.decision:
                yield Fault(
                    "data of another agent reach this one outside of messages",
                    f"{run.what}: agent {i}, round {call.here.t}: message() or decision() changes when other agents in "
                    "the same process have other data, though all that it heard is the same",
                    "all that an agent knows must be in its state and its inbox",
                )
                break
            if call.scalars != own.scalars:
                yield _scalar(run, i, call.here.t)
                break
            for j in rng.permutation(others):
                next(shadows[int(j)], None)


def _decoys(setup: Setup, agent: int) -> Any:
    own = setup.losses(agent)
    return lambda t: decoy(own(t))


def decoy(loss: Loss) -> Loss:
    """The same loss on other samples; the one it was made of stays as it is."""
    if isinstance(loss, Around):
        return replace(loss, loss=decoy(loss.loss))
    sample: Any = loss
    labels = sample.needs_labels
    targets = -sample.targets if labels else -3.0 * sample.targets + 7.0
    other: Loss = replace(sample, features=-dense(sample.features)[:, ::-1].copy(), targets=targets)
    return other


def _scalars_alone(run: TriedRun) -> Iterator[Fault]:
    """The mixing, without any algorithm about."""
    setup = run.fresh()
    for i in run.agents:
        walk, s = Walk(setup, run.frames, i), setup.mixing.init(i)
        for t in range(1, len(run.frames) + 1):
            here = setup.reached.neighborhood(t, i)
            if np.asarray(setup.mixing.outgoing(s, here), dtype=float).tobytes() != scalars_of(run, i, t).tobytes():
                yield _scalar(run, i, t)
                break
            s = setup.mixing.weights(s, here, walk.arrivals(here).scalars)[0]


def _scalar(run: TriedRun, i: int, t: int) -> Fault:
    return Fault(
        "data in a public scalar",
        f"{run.what}: outgoing() of the mixing, agent {i}, round {t}: {shown(scalars_of(run, i, t).tolist())} is not "
        "what the graph and what was heard alone make of it",
        "a mixing says nothing that algorithm or data have touched: it goes out without noise",
    )


def world(setup: Setup) -> dict[str, Any]:
    """What a part's module, its classes and its own fields hold, by where."""
    found: dict[str, Any] = {}
    for part in (setup.algorithm, setup.mixing):
        found[f"a field of {type(part).__name__}"] = image(attributes(part))
        for kind in type(part).__mro__:
            module = sys.modules.get(kind.__module__)
            if module is None or not hasattr(module, "__file__") or kind.__module__ in ("builtins", "abc", "typing"):
                continue
            if kind.__module__.startswith("mpinodes.core"):
                continue
            for name, value in vars(kind).items():
                if not name.startswith("__") and name not in ("_abc_impl",):
                    found[f"the class attribute {kind.__name__}.{name}"] = image(_function(value))
            if vars(module).get(kind.__name__) is not kind:  # imported again since
                continue
            for name, value in vars(module).items():
                if not name.startswith("__") and not isinstance(value, types.ModuleType):
                    found[f"the module's {name}"] = image(value)
    return found


def _function(value: Any) -> Any:
    return value.__func__ if isinstance(value, (staticmethod, classmethod)) else value


def _kept(run: TriedRun, before: dict[str, Any], after: dict[str, Any]) -> Iterator[Fault]:
    for where in before.keys() | after.keys():
        if before.get(where) != after.get(where):
            yield Fault(
                "something is kept outside of the state",
                f"{run.what}: {where} was changed by the calls of a run",
                "what the next round needs is in the state; nothing else is remembered",
            )
            return
