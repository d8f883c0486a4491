"""What every algorithm file must keep, found by its name: a new file is tested by being there."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from mpinodes.auditing.adjacent_replay import replay
from mpinodes.auditing.transcripts import simulate
from mpinodes.config import registry
from mpinodes.core import (
    RELEASED,
    UNKNOWN,
    Algorithm,
    Feedback,
    Hidden,
    Inbox,
    Mixing,
    Neighborhood,
    Queries,
    Query,
    Relay,
    Say,
    Setup,
    Solve,
    Start,
)
from mpinodes.rounds.noised import Gradients, NoisedLoss
from mpinodes.rounds.step import Releaser
from tests.helpers.parts import decisions, setup_of


def found(name: str) -> type[Algorithm]:
    return registry.find(registry.ALGORITHMS, name)


def settings(name: str) -> dict:
    return registry.keys(registry.ALGORITHMS, found(name))


CORRECTED = {"gradient_at": "public", "regularizer_at": "public", "noise_index": "corrected"}
VARIANTS = [
    (name, {key: value for key, value in CORRECTED.items() if key in settings(name)} if corrected else {})
    for name in registry.names(registry.ALGORITHMS)
    for corrected in ([False, True] if CORRECTED.keys() & settings(name) else [False])
]
everywhere = pytest.mark.parametrize(("name", "variant"), VARIANTS, ids=str)


def built(name: str, variant: dict, **sections) -> Setup:
    return setup_of({"algorithm": {"name": name, **short(name), **variant}, "rounds": 30} | sections)


def short(name: str) -> dict:
    """What makes an algorithm of stages go through them all in few rounds."""
    return {"gradient_rounds": 12} if "gradient_rounds" in settings(name) else {}


def frozen(said) -> list:
    """The content of a state or a message, copied, with what lies in it."""
    if dataclasses.is_dataclass(said):
        return [item for field in dataclasses.fields(said) for item in frozen(getattr(said, field.name))]
    return [item for part in said for item in frozen(part)] if isinstance(said, tuple) else [np.array(said)]


def same(one: list, other: list) -> bool:
    return len(one) == len(other) and all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def sealed(said):
    """A state or a vector, all of whose arrays are read only from now on."""
    if isinstance(said, np.ndarray):
        said.flags.writeable = False
    for part in vars_of(said):
        sealed(part)
    return said


def vars_of(said) -> list:
    if dataclasses.is_dataclass(said):
        return [getattr(said, field.name) for field in dataclasses.fields(said)]
    return list(said) if isinstance(said, (tuple, list)) else []


def some_states(parts: Setup):
    """States, places, inboxes and losses along a run with random inboxes, all read only."""
    rng, me = np.random.default_rng(0), parts.topology.agents - 1
    losses, d = parts.losses(me), parts.dimension
    state = sealed(parts.algorithm.init(sealed(np.zeros(d))))
    for t in range(1, 11):
        place = parts.topology.neighborhood(t, me)
        k = len(place.senders)
        said = [sealed(rng.standard_normal(d)) for _ in range(k)]
        inbox = Inbox(said, [1 / k] * k, rng.uniform(0.5, 1.5), said[place.senders.index(me)])
        if parts.algorithm.noises_gradients:
            losses = noised(parts, losses)
        yield state, place, inbox, losses
        state = sealed(parts.algorithm.update(state, place, inbox, losses(t)))


def noised(parts: Setup, losses):
    """Losses with noised gradients, as a step hands them to the algorithm."""
    if losses.__name__ == "of_round":
        return losses
    releaser = Releaser(parts, parts.topology.agents - 1, losses)

    def of_round(t: int) -> NoisedLoss:
        gradients = Gradients(lambda x, k: releaser.gradient(losses(t), x, t, k), parts.algorithm.gradients)
        return NoisedLoss(gradients)

    return of_round


@everywhere
def test_messages_and_updates_are_pure(name, variant):
    parts = built(name, variant)
    for state, place, inbox, losses in some_states(parts):
        before, heard = frozen(state), [r.copy() for r in inbox.releases]
        assert same(*(frozen(parts.algorithm.message(state, place)) for _ in range(2)))
        after = [frozen(parts.algorithm.update(state, place, inbox, losses(place.t))) for _ in range(2)]
        assert same(*after)
        assert same(frozen(state), before)
        assert same(list(inbox.releases), heard)
        assert np.array_equal(parts.algorithm.decision(state), parts.algorithm.decision(state))


@everywhere
def test_the_state_is_immutable_and_the_first_message_holds_no_data(name, variant):
    parts = built(name, variant)
    state, place, *_ = next(iter(some_states(parts)))
    with pytest.raises(AttributeError):
        setattr(state, state._fields[0], None)
    message = parts.algorithm.message(state, place)
    assert isinstance(message, Start) or message.uses == 0


@everywhere
def test_every_message_states_what_it_leaks_in_public_numbers(name, variant):
    parts = built(name, variant)
    hidden, vectors = len(parts.algorithm.hidden), parts.algorithm.vectors
    for state, place, *_ in some_states(parts):
        message = parts.algorithm.message(state, place)
        assert isinstance(message, Query | Queries | Solve | Say | Start | Relay)
        assert isinstance(message, Say) <= parts.algorithm.noises_gradients
        assert isinstance(message, Start) <= (place.t == 1)
        if isinstance(message, Start | Relay | Say):
            continue
        assert message.leaks in (RELEASED, UNKNOWN) or (isinstance(message.leaks, (Feedback, Hidden)) and hidden > 0)
        assert all(isinstance(x, int | float) for x in message.leaks.numbers(hidden, len(vectors)))
        assert 0 <= message.uses < place.t  # of a loss that it has seen
        assert isinstance(message, Queries) == (len(vectors) > 1)


@pytest.mark.parametrize("name", registry.names(registry.ALGORITHMS))
def test_an_algorithm_is_a_frozen_dataclass_that_extends_the_contract(name):
    algorithm, setup = found(name), built(name, {})
    assert issubclass(algorithm, Algorithm)
    assert algorithm.__dataclass_params__.frozen
    assert not algorithm.__abstractmethods__
    assert algorithm.paper
    assert algorithm.mixings
    for mixing in algorithm.mixings:
        assert issubclass(registry.find(registry.MIXINGS, mixing) if isinstance(mixing, str) else mixing, Mixing)
    assert "run" not in settings(name)
    told = setup.algorithm.run  # no horizon, if it is anytime
    assert dataclasses.replace(told, rounds=setup.run.rounds) == setup.run
    with pytest.raises(dataclasses.FrozenInstanceError):
        setup.algorithm.run = None


@everywhere
def test_a_decision_is_a_vector_of_the_problems_dimension(name, variant):
    parts = built(name, variant)
    for state, *_ in some_states(parts):
        assert parts.algorithm.decision(state).shape == (parts.dimension,)
    assert isinstance(parts.topology.neighborhood(1, 0), Neighborhood)


def of_rounds(name: str) -> bool:
    """Whether it sees new samples round by round."""
    return not found(name).whole_data


def online(data: str, adjacency: str) -> dict:
    return {
        "data": {"name": data, "batch": 2},
        "problem": {"loss": "logistic" if data == "digits" else "least-squares", "regularizer": 0.3},
        "privacy": {"adjacency": adjacency, "clip": 0.5, "scale": "calibrated"},
    }


ONLINE = [online(data, adjacency) for data in ("digits", "olr") for adjacency in ("one-sample", "one-round")]
OFFLINE = [
    {
        "data": {"name": "unit-ball", "dimension": 3, "total": 70, "batch": "all"},
        "problem": {"loss": "logistic", "weight": 3.0, "regularizer": 0.15},
    },
    {
        "data": {
            "name": "unit-ball", "dimension": 3, "total": 90, "batch": "all",
            "partition": "uneven", "sizes": (8, 10, 12, 14, 16, 10, 20),
        },
        "problem": {"loss": "logistic", "weight": 8.0, "regularizer": 0.5},
    },
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "variant", "sections"),
    [(*which, sections) for which in VARIANTS for sections in (ONLINE if of_rounds(which[0]) else OFFLINE)],
    ids=str,
)
def test_replayed_sensitivity_is_at_most_the_claimed_one(name, variant, sections):
    if not of_rounds(name) and not found(name).solves:
        sections = sections | {"privacy": {"clip": 0.5}}
    asked = {"algorithm": {"name": name, **variant, **short(name)}, "rounds": 15, "record": {"transcript": True}}
    run = simulate(setup_of(asked | sections))
    agents = {0, run.setup.topology.agents - 1}
    assert not any(replay(run, agent, rounds=3, seed=2).exceeded for agent in agents)


@everywhere
def test_with_noise_going_to_zero_the_run_becomes_the_one_without(name, variant):
    least = {"noise_multiplier": 1e-13} if found(name).noises_gradients else {"scale": 1e-13}
    quiet = built(name, variant, privacy=least if of_rounds(name) else {"epsilon": 1e11})
    if name in ("two-stage-gaussian", "gossip-averaging"):  # whose noise falls like the root of epsilon only
        quiet = built(name, variant | {"noise_scale": 1e-13})
    silent = built(name, variant, privacy={"epsilon": "inf"})
    np.testing.assert_allclose(decisions(quiet), decisions(silent), atol=1e-9)


@everywhere
def test_it_says_what_its_paper_claims(name, variant):
    algorithm = built(name, variant).algorithm
    if name in (
        "dpps",
        "dpsr",
        "admm",
        "m-admm",
        "gossip-averaging",
        "dp-dsgd",
    ):
        assert algorithm.claimed_epsilon(10, 1) is None
        return
    algorithm = dataclasses.replace(algorithm, run=dataclasses.replace(algorithm.run, epsilon=0.5))
    short, long = (np.max(algorithm.claimed_epsilon(rounds, 1)) for rounds in (10, 20))
    assert 0 < short <= long
