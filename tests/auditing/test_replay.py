"""Replay: the realised change of every message against what was accounted for, and planted lies."""

from __future__ import annotations

import numpy as np
import pytest

import mpinodes
from mpinodes import replay as command
from mpinodes.auditing.adjacent_replay import Finding, claimed, replay
from mpinodes.auditing.changes import adjacent
from mpinodes.auditing.transcripts import Recorded, Replayed, simulate
from mpinodes.core.errors import BadInput
from mpinodes.core.messages import HEADER
from tests.helpers.accounting import events
from tests.helpers.parts import run_of, setup_of

RUNS = [
    {"algorithm": {"name": "dpsda-ps"}},
    {"algorithm": {"name": "dpsda-c"}},
    {"algorithm": {"name": "dpcda"}},
    {"algorithm": {"name": "dpsda-ps", "gradient_at": "public"}},
    {"algorithm": {"name": "dpsda-ps"}, "data": {"batch": 10}},
    {"algorithm": {"name": "dpsda-c"}, "data": {"batch": 10, "epochs": 3}, "problem": {"average": True}},
    {"algorithm": {"name": "dpsda-ps"}, "data": {"batch": 10}, "privacy": {"adjacency": "one-round"}},
    {"algorithm": {"name": "dpsda-ps"}, "data": {"name": "olr", "batch": 4}},
    {"algorithm": {"name": "dpsda-c"}, "data": {"name": "olr"}, "problem": {"set": "product-of-balls"}},
]


def asked(**experiment) -> dict:
    return {"algorithm": {"name": "dpsda-ps"}, "rounds": 28, "record": {"transcript": True}} | experiment


def recorded(tmp_path, **experiment):
    return run_of(tmp_path / "run", asked(**experiment))


@pytest.mark.parametrize("experiment", RUNS, ids=str)
def test_no_message_moves_further_than_was_accounted_for(experiment):
    run = simulate(setup_of(asked(**experiment)))
    findings = [replay(run, i, rounds=3, seed=1) for i in range(0, run.setup.topology.agents, 4)]
    assert not any(f.exceeded for f in findings)
    assert max(f.direct for f in findings) > 0.5  # the claim is not vacuous
    if experiment["algorithm"].get("gradient_at") == "public":
        assert all(f.touched == 1 and f.hidden == 0 for f in findings)
    else:
        assert max(f.touched for f in findings) > 1


def test_late_feedback_is_followed_to_the_message_that_carries_it(tmp_path):
    experiment = {
        "algorithm": {"name": "weight-balancing", "gradient_at": "public", "noise_index": "corrected"},
        "feedback": {"points": 2, "delay": 3}, "rounds": 12,
    }  # fmt: skip
    found = replay(Recorded(recorded(tmp_path, **experiment)), 0, rounds=1, seed=0)
    assert not found.exceeded
    assert found.direct > 0.1
    tried = sum(1 for _ in adjacent_of_all(Recorded(tmp_path / "run"), range(1, 12 - 3)))
    assert found.changes == tried  # all but of the last rounds, whose samples no message carries


def adjacent_of_all(run, rounds):
    draws = np.random.default_rng(0)
    for round in rounds:
        yield from adjacent(run.setup, run.losses(0), 0, round, draws)


def test_the_replayed_messages_are_those_of_the_run(tmp_path):
    """On its own data an agent says what it said: its releases less the noise it drew."""
    from mpinodes.core.seeds import Draws, Purpose

    run = Recorded(recorded(tmp_path))
    for agent in range(7):
        noise = Draws(run.setup.noise_key, Purpose.NOISE, agent)
        drawn = np.array([noise.at(t).laplace(0.0, 4.5, 64) for t in range(1, 29)])
        np.testing.assert_array_equal(
            np.array([m.value for m in Replayed(run, agent).messages]) + drawn,
            run.frames[:, agent, HEADER : HEADER + 64],
        )


def test_a_change_moves_nothing_before_its_round(tmp_path):
    run = Recorded(recorded(tmp_path))
    change = next(adjacent(run.setup, run.losses(3), 3, 10, np.random.default_rng(0)))
    moved, differing = Replayed(run, 3).moved(change, last=28)
    assert not differing
    assert len(moved) == 28 - 9  # messages 10 to 28; the first says nothing of round 10 yet
    assert not moved[0].any()
    assert moved[1].any()


def test_the_bound_is_the_ledgers_recursion():
    made = events(4, l2=2.0, lipschitz=(0, 0.5, 10, 0.5), largest=3.0, linear=(0, 0, 0, 0.25))
    carried = np.array([False, True, False, False])
    assert claimed(made, carried)[:, 0].tolist() == [0.0, 2.0, 3.0, 2.25]


LIE = """
from dataclasses import dataclass, replace
from math import inf
import numpy as np
from mpinodes.algorithms.dpsda_ps import DPSDAPS
__all__ = ["Lie"]

@dataclass(frozen=True)
class Lie(DPSDAPS):
    lie: str = "none"

    def message(self, s, round):
        query = super().message(s, round)
        if self.lie == "small":
            return replace(query, l1=query.l1 / 2, l2=query.l2 / 2)
        if self.lie == "once" and round.t == 10:
            return replace(query, l1=query.l1 / 100, l2=query.l2 / 100)
        if self.lie == "leaky":
            return replace(query, l1=query.l1 * (1 + np.abs(s.z).max()))
        return query

    def update(self, s, round, inbox, loss):
        if self.lie == "unclipped":
            loss = replace(loss, clip=inf)
        after = super().update(s, round, inbox, loss)
        if self.lie == "index" and round.t > 1:  # the step of this round, not the larger one that made y
            ratio = self.run.step(round.t) / self.run.step(round.t - 1)
            return after._replace(previous_dual_gain=after.previous_dual_gain * ratio)
        return after
"""

# One constant feature at the edge of its domain; targets that send some gradients to the clip and leave the others
# well inside it; no noise. A changed sample then moves every message by exactly what the recursion says.
TIGHT = """
from dataclasses import dataclass
from typing import ClassVar
import numpy as np
from mpinodes.streams.olr import OLR
__all__ = ["Edge"]

@dataclass(frozen=True)
class Edge(OLR):
    def of(self, agent):
        return lambda t: self.make_loss(np.full((1, 21), 0.5), np.array([-100.0 if t == 1 else 0.0]))
"""


def lying(tmp_path, lie: str, topology: dict, **experiment):
    (tmp_path / "lie.py").write_text(LIE)
    algorithm = {"path": str(tmp_path / "lie.py"), "lie": lie}
    return recorded(tmp_path, algorithm=algorithm, topology=topology, **experiment)


@pytest.mark.parametrize("lie", ["none", "small", "once", "leaky", "unclipped"])
def test_a_sensitivity_too_small_or_leaky_and_a_clip_skipped_are_caught(tmp_path, lie, capsys):
    run = lying(
        tmp_path, lie, {"name": "ring", "agents": 3}, rounds=14,
        privacy={"clip": 0.3}, problem={"gradient_noise": 0.0, "loss": "logistic"},
    )  # fmt: skip
    assert command.main([str(run), "--rounds=3"]) == (0 if lie == "none" else 1)
    printed = capsys.readouterr().out
    assert ("EXCEEDED" in printed) == (lie != "none")
    said = "exceeded: the sensitivity that agent" if lie == "leaky" else "exceeded: agent"
    assert (said in printed) == (lie != "none")


def test_a_sensitivity_that_depends_on_the_data_is_not_hidden_by_a_larger_ratio(tmp_path, monkeypatch, capsys):
    findings = [Finding(0, 3, 0.9, 0.0, 2, 1, public=True), Finding(1, 3, 0.5, 0.0, 1, 1, public=False)]
    monkeypatch.setattr("mpinodes.auditing.adjacent_replay.replays", lambda *_: findings)
    assert command.main([str(recorded(tmp_path))]) == 1
    assert "exceeded: the sensitivity that agent 1 states depends on the data" in capsys.readouterr().out


@pytest.mark.parametrize("lie", ["none", "index"])
def test_a_wrong_step_index_is_caught(tmp_path, lie, monkeypatch):
    from mpinodes.streams import olr

    namespace: dict = {}
    exec(TIGHT, namespace)  # a stream has no path key: put it in the place of OLR
    monkeypatch.setattr(olr, "OLR", namespace["Edge"])
    run = lying(
        tmp_path, lie, {"name": "seven-agent-digraph"}, data={"name": "olr"},
        problem={"set": "none", "loss": "least-squares", "gradient_noise": 0.0},
        privacy={"clip": 1.0, "epsilon": "inf"}, step={"initial": 0.003}, rounds=20,
    )  # fmt: skip
    findings = [replay(Recorded(run), i, rounds=6, seed=0) for i in (0, 3, 6)]
    if lie == "none":
        assert max(f.hidden for f in findings) == pytest.approx(1.0, abs=1e-6)  # tight
        assert not any(f.exceeded for f in findings)
    else:
        assert any(f.exceeded for f in findings)


def test_a_run_without_a_transcript_is_refused(tmp_path, capsys):
    run = run_of(tmp_path / "run", "rounds=4")
    assert command.main([str(run)]) == 2
    assert "run it again with record.transcript=true" in capsys.readouterr().err
    with pytest.raises(BadInput, match="not a run directory"):
        Recorded(tmp_path)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("seed = 0", "seed = 9", "message 1 of agent 0 differs"),
        ("rounds = 28", "rounds = 10", "experiment.toml does not fit the record"),
        ("clip = 1.0", "clip = 0.01", "message 1 of agent 0 differs"),
        ("undirected = false", "undirected = true", "the topology or faults do not fit the record"),
        ("seed = 0", "sead = 0", "unknown key sead; did you mean seed?"),
        ("seed = 0", "seed = ", "not TOML"),
    ],
)
def test_another_run_than_the_recorded_one_is_refused(tmp_path, capsys, old, new, message):
    run = recorded(tmp_path)
    text = (run / "experiment.toml").read_text()
    assert old in text
    (run / "experiment.toml").write_text(text.replace(old, new))
    assert command.main([str(run)]) == 2
    assert message in capsys.readouterr().err


def test_a_run_that_claims_nothing_is_not_said_to_pass(tmp_path, capsys):
    run = recorded(tmp_path, privacy={"clip": "inf", "scale": 3.0}, rounds=6)
    assert command.main([str(run)]) == 0
    assert "no sensitivity was tested" in capsys.readouterr().out


def test_the_transcript_is_what_an_eavesdropper_sees(tmp_path):
    """Round and kind, the release, the scalars; and to whom."""
    data = mpinodes.load(recorded(tmp_path, record={"transcript": True}))
    run = Recorded(tmp_path / "run")
    assert data.transcript.dims == ("round", "agent", "word")
    assert data.receiver.dims == ("round", "agent", "neighbor")
    for t in range(1, 29):
        edges = {(j, i) for j, i in np.argwhere(data.receiver.values[t - 1]).tolist()}
        assert edges == run.setup.topology.edges(t)
        assert (data.transcript.values[t - 1, :, 0] == t).all()
        shares = data.transcript.values[t - 1, :, -2]
        assert shares.tolist() == [1 / (1 + len(run.setup.topology.neighborhood(t, j).out_neighbors)) for j in range(7)]
