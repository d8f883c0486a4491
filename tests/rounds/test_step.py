"""The step of one agent: a pure function, and the one that every way to run an experiment calls."""

from __future__ import annotations

import numpy as np
import pytest

from mpinodes.auditing.transcripts import Recorded, Replayed
from mpinodes.core.messages import HEADER
from mpinodes.rounds import agent, lockstep
from mpinodes.rounds.step import Arrivals, State, Step
from mpinodes.rounds.waiting import Waits
from mpinodes.runlog.checkpoints import Keeper, name_of
from tests.helpers.parts import Lockstep, run_of, setup_of

RUNS = [
    "algorithm.name=dpsda-ps",
    "algorithm.name=dola data.total=350",
    "algorithm.name=dpsr",
    "algorithm.name=weight-balancing",
    "algorithm.name=pp-admm privacy.epsilon=1 problem.weight=20 data.total=350",
    "algorithm.name=two-stage-gaussian algorithm.gradient_rounds=3 algorithm.stop=0.1",
]
SHORT = "rounds=6 record.transcript=true"


def bits(said: object) -> list:
    """All that a state holds, as bytes."""
    if isinstance(said, np.ndarray):
        return [said.tobytes()]
    if isinstance(said, (tuple, list)):
        return [item for part in said for item in bits(part)]
    slots = getattr(type(said), "__slots__", None) or getattr(said, "__dict__", None)
    return [item for name in slots for item in bits(getattr(said, name))] if slots else [repr(said)]


def read_only(frames: dict[int, np.ndarray]) -> dict[int, np.ndarray]:
    for frame in frames.values():
        frame.flags.writeable = False
    return frames


@pytest.mark.parametrize("words", RUNS)
def test_a_step_is_a_pure_function_of_state_and_arrivals(words):
    """Twice from the same gives the same frame, row and state, and leaves what it was given alone."""
    setup = setup_of(f"{words} {SHORT}")
    n = setup.topology.agents
    steps = [Step(setup, i) for i in range(n)]
    states, arrivals = [step.start() for step in steps], [None] * n
    for _ in range(5):
        after, frames = [], {}
        for i, step in enumerate(steps):
            before, made = bits(states[i]), []
            for fresh in (step, Step(setup, i)):  # nor does a step remember
                frame, row = np.zeros(setup.frame_width), np.zeros(setup.layout.width)
                made.append((fresh(states[i], arrivals[i], frame, row), frame, row))
            (one, frame, row), (other, *again) = made
            np.testing.assert_array_equal(frame, again[0])
            np.testing.assert_array_equal(row, again[1])
            assert bits(one) == bits(other)
            assert bits(states[i]) == before
            after.append(one)
            frames[i] = frame
        read_only(frames)
        states = after
        arrivals = [Arrivals.of(setup, i, s.here.senders, frames) for i, s in enumerate(states)]


def test_arrivals_are_views_of_the_frames_of_those_who_are_heard():
    setup = setup_of(f"algorithm.name=dpsda-ps topology.name=ring {SHORT}")
    d = setup.dimension
    frames = {i: np.arange(setup.frame_width) + 1000.0 * i for i in range(7)}
    found = Arrivals.of(setup, 2, (1, 2, 3), frames)
    assert found.senders == (1, 2, 3)
    for j, frame, release, scalars in zip(*found[:4], strict=True):
        assert frame.base is frames[j]
        assert not frame.flags.writeable
        assert not release.flags.writeable
        np.testing.assert_array_equal(release, frames[j][HEADER : HEADER + d])
        np.testing.assert_array_equal(scalars, frames[j][HEADER + d :])
        assert np.shares_memory(release, frames[j])
    np.testing.assert_array_equal(found.own, frames[2][HEADER : HEADER + d])
    assert len(found.scalars[0]) == setup.mixing.width == 2


def counted(monkeypatch) -> list[State]:
    """The states that any `Step` hears in, from now on."""
    heard, plain = [], Step.receive

    def receive(self, s, arrivals, loss, *recorded):
        heard.append(s)
        return plain(self, s, arrivals, loss, *recorded)

    monkeypatch.setattr(Step, "receive", receive)
    return heard


def test_lockstep_and_replay_hear_by_the_same_step(monkeypatch, tmp_path):
    directory = run_of(tmp_path / "run", SHORT)
    heard = counted(monkeypatch)
    list(lockstep.simulate(setup_of(SHORT)))
    assert len(heard) == 7 * 5
    Replayed(Recorded(directory), 0)
    assert len(heard) == 7 * 5 + 6


def test_the_agent_of_the_network_makes_the_rows_of_lockstep_from_what_arrives(monkeypatch, tmp_path):
    """`run_agent`, its frames taken from a run in lockstep: MPI adds nothing but the carrying."""
    setup = setup_of(SHORT)
    rows = np.concatenate([chunk.copy() for chunk in lockstep.simulate(setup)], axis=1)
    said = [dict(enumerate(setup.layout.open(rows[:, t])[2].copy())) for t in range(6)]

    class Carried:
        def __init__(self, agents, setup, frame, wait):
            self.frame = frame

        def exchange(self, here):
            np.testing.assert_array_equal(self.frame, said[here.t - 1][here.agent])
            return Arrivals.of(setup, here.agent, here.senders, read_only(said[here.t - 1]))

        def close(self):
            pass

    class Rows:
        def __init__(self):
            self.rows = np.zeros((6, setup.layout.width))

        def row(self, t):
            return self.rows[t - 1]

        def done(self, t):
            return None

        def close(self, t, times):
            assert t == 6
            assert times.shape == (2 + setup.dimension,)
            assert times[:2].min() >= 0

    monkeypatch.setattr(agent, "Network", Carried)
    for i in range(7):
        channel = Rows()
        agent.run_agent(Step(setup, i), setup, None, channel, Waits(None), Keeper(tmp_path, name_of(i), "run"))
        np.testing.assert_array_equal(channel.rows, rows[i])


def test_round_by_round_equals_the_whole_run():
    setup = setup_of(SHORT)
    rows = np.concatenate([chunk.copy() for chunk in lockstep.simulate(setup)], axis=1)
    by_hand = Lockstep(setup)
    for t in range(6):
        np.testing.assert_array_equal(by_hand.speak(), setup.layout.open(rows[:, t])[2])
