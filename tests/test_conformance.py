"""What every algorithm file must keep, found by its name: a new file is tested by being there."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import mpinodes
from mpinodes import parts as pt
from mpinodes import registry
from mpinodes.lockstep import simulate
from mpinodes.privacy.replay import Recorded, replay
from mpinodes.protocol import Inbox
from mpinodes.resolve import ALGORITHM_FACTS, resolve


def settings(name: str) -> dict:
    return registry.settings(registry.find("algorithms", name, ""), ALGORITHM_FACTS)


CORRECTED = {"gradient_at": "public", "regularizer_at": "public", "noise_index": "corrected"}
VARIANTS = [
    (name, {key: value for key, value in CORRECTED.items() if key in settings(name)} if corrected else {})
    for name in registry.names("algorithms")
    for corrected in ([False, True] if CORRECTED.keys() & settings(name) else [False])
]
everywhere = pytest.mark.parametrize(("name", "variant"), VARIANTS, ids=str)


def parts_of(name: str, variant: dict, **sections) -> pt.Parts:
    asked = {"algorithm": {"name": name, **variant}, "rounds": 30}
    return pt.build(resolve(asked | sections, ranks=None))


def frozen(state) -> list:
    """The content of a state, copied."""
    return [np.array(getattr(state, field.name)) for field in dataclasses.fields(state)]


def same(one: list, other: list) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def some_states(parts: pt.Parts):
    """States, places, inboxes and losses along a run with random inboxes."""
    rng, me = np.random.default_rng(0), parts.topology.agents - 1
    losses, d = parts.losses(me), parts.dimension
    state = parts.algorithm.init(np.zeros(d))
    for t in range(1, 11):
        place = parts.topology.round(t, me)
        k = len(place.senders)
        inbox = Inbox([rng.standard_normal(d) for _ in range(k)], [1 / k] * k, rng.uniform(0.5, 1.5))
        yield state, place, inbox, losses
        state = parts.algorithm.update(state, place, inbox, losses(t))


@everywhere
def test_messages_and_updates_are_pure(name, variant):
    parts = parts_of(name, variant)
    for state, place, inbox, losses in some_states(parts):
        before, heard = frozen(state), [r.copy() for r in inbox.releases]
        messages = [parts.algorithm.message(state, place) for _ in range(2)]
        assert np.array_equal(messages[0].value, messages[1].value)
        assert messages[0].l1 == messages[1].l1
        after = [frozen(parts.algorithm.update(state, place, inbox, losses(place.t))) for _ in range(2)]
        assert same(*after)
        assert same(frozen(state), before)
        assert same(list(inbox.releases), heard)
        assert np.array_equal(parts.algorithm.decision(state), parts.algorithm.decision(state))


@everywhere
def test_the_state_is_immutable_and_the_first_message_holds_no_data(name, variant):
    parts = parts_of(name, variant)
    state, place, *_ = next(iter(some_states(parts)))
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(state, dataclasses.fields(state)[0].name, None)
    assert parts.algorithm.message(state, place).uses == 0


@everywhere
@pytest.mark.parametrize("data", ["digits", "olr"])
@pytest.mark.parametrize("adjacency", ["one-sample", "one-round"])
def test_replayed_sensitivity_is_at_most_the_claimed_one(tmp_path, name, variant, data, adjacency):
    run = mpinodes.run_lockstep(
        {
            "algorithm": {"name": name, **variant},
            "rounds": 20,
            "report": False,
            "data": {"name": data, "batch": 2},
            "problem": {"loss": "logistic" if data == "digits" else "least-squares", "regularizer": 0.3},
            "privacy": {"adjacency": adjacency, "clip": 0.5, "scale": "calibrated"},
            "record": {"transcript": True},
            "output": {"dir": str(tmp_path / "run")},
        }
    )
    recorded = Recorded(run)
    agents = {0, recorded.parts.topology.agents - 1}
    assert not any(replay(recorded, agent, rounds=6, seed=2).exceeded for agent in agents)


@everywhere
def test_with_noise_going_to_zero_the_run_becomes_the_one_without(name, variant):
    quiet = parts_of(name, variant, privacy={"scale": 1e-13})
    silent = parts_of(name, variant, privacy={"epsilon": "inf"})
    d = quiet.dimension
    one, other = (np.concatenate([c[:, :, :d].copy() for c in simulate(p)], axis=1) for p in (quiet, silent))
    np.testing.assert_allclose(one, other, atol=1e-9)


@everywhere
def test_it_says_what_its_paper_claims(name, variant):
    algorithm = parts_of(name, variant).algorithm
    if name in ("dpps", "dpsr"):  # whose papers are not at hand
        assert not hasattr(algorithm, "claim")
        return
    assert algorithm.claim(0.5, 10) > 0
    assert algorithm.claim(0.5, 20) >= algorithm.claim(0.5, 10)
