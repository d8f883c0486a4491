"""Faults planted in a user's file are found and named; what is sound passes."""

from __future__ import annotations

import inspect
import itertools

import numpy as np
import pytest

from mpinodes.auditing import check as checking
from mpinodes.auditing.checks import algorithms, alone
from mpinodes.auditing.checks.faults import image
from mpinodes.config import registry
from mpinodes.core.experiment import merge
from mpinodes.core.seeds import Draws, Purpose

SOUND = """
from __future__ import annotations
from dataclasses import dataclass
from math import sqrt
import numpy as np
from mpinodes.core import RELEASED, Algorithm, Mixing, Query, Relay, Vector, Feedback
__all__ = ["Own"]
LAST = {}
@dataclass(frozen=True)
class Weights(Mixing):
    @property
    def width(self):
        return 1
    def outgoing(self, s, here):
        return (1.0,)
    def weights(self, s, here, incoming):
        return None, [1 / len(incoming)] * len(incoming), 1.0
@dataclass(frozen=True)
class State:
    x: Vector
    made_with: float
    old: Vector
@dataclass(frozen=True)
class Own(Algorithm[State]):
    mixings = (Weights,)
    decomposable = True
    def init(self, x):
        return State(x, 0.0, 0.0 * x)
    def message(self, s, here):
        l2 = self.run.grad_sensitivity[here.agent] * (s.made_with or self.run.step(1))
        l1 = sqrt(len(s.x)) * l2
        return Query(s.x, l1=l1, l2=l2, uses=here.t - 1, leaks=RELEASED)
    def update(self, s, here, inbox, loss):
        alpha = self.run.step(here.t)
        b = inbox.mix()
        g = loss.grad(b)
        return State(self.run.feasible.project(b - alpha * g), alpha, g)
    def decision(self, s):
        return s.x
    def both(self, g, kept=[]):
        kept.append(g)
        return 0.5 * kept[-1] + 0.5 * kept[-2 % len(kept)]
"""
GRADIENT, QUERY, ALPHA = "g = loss.grad(b)", "return Query(s.x", "b - alpha * g)"
PUBLIC = "what a message says of itself depends on data"
OUTSIDE = "data of another agent reach this one outside of messages"
ELSEWHERE = "an agent says something else in another process"

PLANTED = {
    "sensitivity/10": ("a sensitivity too small", "l2 = self", "l2 = 0.1 * self"),
    "sensitivity of agent 2": ("a sensitivity too small", "l2 = self", "l2 = (0.8 if here.agent == 2 else 1.0) * self"),
    "l1 of one coordinate": ("a sensitivity too small", "l1 = sqrt(len(s.x)) * l2", "l1 = 0.9 * sqrt(len(s.x)) * l2"),
    "uses=0": ("`uses` leaves a sample out", "uses=here.t - 1", "uses=0"),
    "uses off by one": ("`uses` leaves a sample out", "uses=here.t - 1", "uses=max(here.t - 2, 0)"),
    "later messages": ("hidden lag left out", ALPHA, "b - alpha * (g + 0.1 * s.old))"),
    "hidden point": ("hidden lag left out", GRADIENT, "g = loss.grad(s.x)"),
    "sensitivity by state": (PUBLIC, "l1 = sqrt", "l2 = min(l2, 1e-3 + float(np.abs(s.x).max())); l1 = sqrt"),
    "calibration by state": (PUBLIC, "leaks=RELEASED", "leaks=RELEASED, calibration=1.0 + abs(float(s.x[0]))"),
    "kind by state": (PUBLIC, QUERY, "if here.t > 1 and s.x[0] % 0.1 > 0.05: return Relay()\n        return Query(s.x"),
    "state written to": ("state mutated", GRADIENT, "g = loss.grad(b); s.old[:] = g"),
    "state written to in message": ("state mutated", QUERY, "np.multiply(s.x, 0.9, out=s.x)\n        return Query(s.x"),
    "release written to": ("inbox mutated", "b = inbox.mix()", "b = inbox.releases[0]; b *= 0.5"),
    "weight written to": ("inbox mutated", "b = inbox.mix()", "inbox.weights[0] = 0.1; b = inbox.mix()"),
    "a view of the inbox": ("a view of the inbox kept in the state", "alpha, g)", "alpha, inbox.releases[0])"),
    "a module's dictionary": (
        OUTSIDE, GRADIENT, "g = loss.grad(b); g, LAST['g'] = g + 0.1 * LAST.get('g', 0.0 * g), g",
    ),
    "a default argument": (OUTSIDE, GRADIENT, "g = self.both(loss.grad(b))"),
    "an attribute": (
        OUTSIDE, GRADIENT,
        "g = loss.grad(b); old = getattr(self, 'o', 0.0 * g); object.__setattr__(self, 'o', g); g = g + 0.1 * old",
    ),
    "a seeded generator": ("own random draw", GRADIENT, "g = loss.grad(b) + np.random.default_rng(here.t).normal()"),
    "an id": ("own random draw", GRADIENT, "g = loss.grad(b) * (1 + 1e-9 * (id(b) % 7))"),
    "a hash": (ELSEWHERE, GRADIENT, "g = loss.grad(b) * (1 + 1e-9 * (hash(str(here.t)) % 97))"),
    "a box for the mixing": (
        "data in a public scalar", GRADIENT, "g = loss.grad(b); LAST[here.agent] = float(g[0])", "return (1.0,)",
        "return (LAST.get(here.agent, 1.0),)",
    ),
    "weights that the mixing keeps": (
        "data in a public scalar", "b = inbox.mix()", "b = inbox.mix(); inbox.weights[0] = float(loss.grad(b)[0])",
        "return None, [1 / len(incoming)] * len(incoming), 1.0",
        "w = [1 / len(incoming)] * len(incoming)\n        return w, w, 1.0", "return (1.0,)",
        "return (s[0] if s else 1.0,)",
    ),
    "a file": (
        "the world outside is touched", GRADIENT, "g = loss.grad(b); __import__('pathlib').Path('x').exists()",
    ),
}  # fmt: skip

BACKWARDS = """
from dataclasses import dataclass, replace
from mpinodes.streams.unit_ball import UnitBall

__all__ = ["Backwards"]


@dataclass(frozen=True)
class Backwards(UnitBall):
    def of(self, agent):
        losses = super().of(agent)
        return lambda t: replace(losses(t), targets=-losses(t).targets)
"""


@pytest.fixture
def few(monkeypatch):
    """One short experiment in this process; the others, other processes and MPI take a minute."""
    every = algorithms.experiments

    def one(*a):
        return ((what, merge(asked, {"rounds": 10})) for what, asked in itertools.islice(every(*a), 1))

    monkeypatch.setattr(algorithms, "experiments", one)
    monkeypatch.setattr(algorithms, "over_mpi", lambda *a: [])
    monkeypatch.setattr(algorithms, "elsewhere", lambda *a: [])


def outcome(path):
    ((kind, part),) = checking.parts_called(str(path))
    return checking.check(kind, part, 0)


@pytest.mark.parametrize("name", PLANTED)
def test_planted_fault_is_named(name, tmp_path, few, monkeypatch):
    wanted, *changes = PLANTED[name]
    if wanted == ELSEWHERE:
        monkeypatch.setattr(algorithms, "elsewhere", alone.elsewhere)
    text = SOUND
    for old, new in zip(changes[::2], changes[1::2], strict=True):
        assert text.count(old) == 1
        text = text.replace(old, new)
    path = tmp_path / "own.py"
    path.write_text(text)
    assert wanted in {fault.name for fault in outcome(path).faults}


def test_sound_file_passes(tmp_path, few):
    path = tmp_path / "own.py"
    path.write_text(SOUND)
    assert [fault.line for fault in outcome(path).faults] == []


@pytest.mark.parametrize("name", ["weight-balancing", "dpsda-ps", "dvp-admm"])
def test_algorithms_of_ours_pass(name, few):
    found = outcome(inspect.getsourcefile(registry.find(registry.ALGORITHMS, name)))
    assert [fault.line for fault in found.faults] == []


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (registry.LOSSES, "logistic"), (registry.LOSSES, "squared-distance"), (registry.MECHANISMS, "laplace"),
        (registry.MECHANISMS, "gamma-norm"), (registry.MIXINGS, "push-sum"), (registry.TOPOLOGIES, "eulerian"),
        (registry.STREAMS, "unit-ball"), (registry.METRICS, "disagreement"),
    ],
)  # fmt: skip
def test_other_parts_of_ours_pass(kind, name):
    found = checking.check(kind, registry.find(kind, name), 0)
    assert [fault.line for fault in found.faults] == []
    assert sum(found.tested.values()) > 1


def test_samples_that_are_judged_but_never_seen_are_a_fault(tmp_path):
    """A stream that shows its agents other samples than those that a run is judged on."""
    path = tmp_path / "own.py"
    path.write_text(BACKWARDS)
    ((kind, part),) = checking.parts_called(str(path))
    assert {fault.name for fault in checking.check(kind, part, 0).faults} == {"merged() does not fit of()"}


def test_image_is_to_the_last_bit():
    assert image(np.array([0.0])) != image(np.array([-0.0]))
    assert image({"a": [1, 2.0]}) == image({"a": [1, 2.0]})
    generator = np.random.default_rng(0)
    before = image(generator)
    generator.normal()
    assert image(generator) != before


def test_image_of_draws_is_what_they_are_and_not_what_they_have_drawn_ahead():
    draws = Draws(0, Purpose.GRADIENT_NOISE, agent=2)
    before = image(draws)
    for t in (1, 2, 3):
        draws.standard("standard_normal", t, 4)
    assert image(draws) == before
    assert image(Draws(0, Purpose.GRADIENT_NOISE, agent=2, part=1)) != before
    assert image(Draws(1, Purpose.GRADIENT_NOISE, agent=2)) != before
