"""Algorithms of a user's own with two vectors and hidden parts, from the run to its audit; and what is not stated."""

from __future__ import annotations

import numpy as np
import pytest

from mpinodes import replay as command
from mpinodes.auditing.adjacent_replay import replay
from mpinodes.auditing.transcripts import Recorded, Replayed
from mpinodes.core.errors import BadInput
from mpinodes.core.messages import HEADER
from mpinodes.presentation import terminal as summary
from mpinodes.running.setup import set_up
from tests.helpers.parts import run_of
from tests.helpers.records import read, summary_of, typed

# Gradient tracking at released points: y <- W y + g(t) - g(t - 1), x <- W x - α y; both are said.
TRACKING = """
from dataclasses import dataclass
from math import sqrt
import numpy as np
from mpinodes.core import RELEASED, UNKNOWN, Algorithm, Hidden, Payload, Queries, Relay
__all__ = ["Tracking"]

@dataclass(frozen=True)
class State:
    x: np.ndarray
    y: np.ndarray
    g: np.ndarray

@dataclass(frozen=True)
class Tracking(Algorithm[State]):
    states: str = "hidden"
    decomposable = True
    mixings = ("metropolis",)
    vectors = ("x", "y")
    hidden = ("y", "g")

    def init(self, x):
        return State(x, x, x)

    def message(self, s, here):
        a, c = self.run.step(1), self.run.grad_sensitivity[here.agent]
        if self.states == "relay" and here.t == 3:
            return Relay()
        # y = (released) + g_new - g_old, and g_old is what part g was: y's change is g_new - g, x's is -a times that.
        leaks = Hidden(((0, -1), (0, 0)), (1, 1), c, (0, 0), 0, 0, ((-a, 0), (1, 0)), exact=True)
        if self.states == "unknown" or (self.states == "mixed" and here.agent == 1 and here.t == 4):
            leaks = UNKNOWN
        if self.states == "forgotten":
            leaks = RELEASED
        root = sqrt(len(s.x))
        return Queries(
            {"x": Payload(s.x, root * a * c, a * c), "y": Payload(s.y, root * c, c)}, uses=here.t - 1, leaks=leaks
        )

    def update(self, s, here, inbox, loss):
        x, y = inbox["x"].mix(), inbox["y"].mix()
        g = loss.grad(inbox["x"].own)
        y = y + g - s.g
        return State(x - self.run.step(1) * y, y, g)

    def decision(self, s):
        return s.x
"""


def asked(tmp_path, states: str = "hidden", **sections) -> dict:
    (tmp_path / "tracking.py").write_text(TRACKING)
    return {
        "algorithm": {"path": str(tmp_path / "tracking.py"), "states": states},
        "data": {"name": "olr", "dimension": 3}, "topology": {"name": "ring", "agents": 3}, "rounds": 12,
        "problem": {"set": "none"}, "step": {"kind": "constant", "value": 0.1}, "record": {"transcript": True},
    } | sections  # fmt: skip


def test_a_run_of_two_vectors_is_noised_accounted_for_and_replayed(tmp_path, capsys):
    run = run_of(tmp_path / "run", asked(tmp_path))
    privacy = summary_of(run)["privacy"]
    # A sample moves x and y of one message, and of the next by no more: 2 messages of 2 vectors, each at most 1 unit.
    assert 0 < privacy["network"]["proven"] <= privacy["network"]["proven_pure"]
    recorded = Recorded(run)
    assert recorded.events.vectors == recorded.events.hidden == 2
    findings = [replay(recorded, i, 12, 0) for i in range(3)]
    assert not any(f.exceeded for f in findings)
    assert max(f.direct for f in findings) > 0.1
    assert max(f.hidden for f in findings) > 0.1
    assert max(f.touched for f in findings) == 2
    noise = np.array([np.concatenate(Replayed(recorded, i).drawn(t)) for i in range(3) for t in range(2, 13)])
    noise[:, 3:] /= 1e-300 + np.abs(noise[:, 3:]).max()
    assert len(np.unique(np.round(noise, 12))) == noise.size  # no draw serves two
    said = read(run, "transcript")[:, :, HEADER:]
    assert said.shape[2] >= 6
    assert command.main([str(run)]) == 0
    assert "no message exceeded its bound" in capsys.readouterr().out


def test_a_leak_that_is_not_stated_is_caught_by_replay(tmp_path):
    recorded = Recorded(run_of(tmp_path / "run", asked(tmp_path, "forgotten")))
    assert replay(recorded, 0, 12, 0).exceeded


@pytest.mark.parametrize("states", ["unknown", "mixed"])
def test_nothing_is_proven_of_what_is_unknown(tmp_path, states):
    run = run_of(tmp_path / "run", asked(tmp_path, states) | {"report": True})
    found = summary_of(run)
    network = found["privacy"]["network"]
    assert (network["proven_pure"], network["proven"], network["rule"]) == (None, None, "unproven")
    rules = [agent["rule"] == "unproven" for agent in found["privacy"]["agents"]]
    assert rules == ([True] * 3 if states == "unknown" else [False, True, False])
    assert "unproven" in summary.text(typed(found), run)
    assert "unproven" in (run / "report.html").read_text()


def test_no_noise_keeps_a_budget_of_what_is_unknown(tmp_path):
    with pytest.raises(BadInput, match="no epsilon is proven"):
        set_up(asked(tmp_path, "unknown") | {"privacy": {"budget": {"epsilon": 1.0}}}, None)


def test_a_relay_with_hidden_parts_is_refused(tmp_path):
    with pytest.raises((BadInput, ValueError), match=r"Relay in round 3.*hidden parts \('y', 'g'\)"):
        run_of(tmp_path / "run", asked(tmp_path, "relay"))
