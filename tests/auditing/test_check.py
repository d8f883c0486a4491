"""Faults planted in a user's file are found and named; what is sound passes."""

from __future__ import annotations

import inspect
import itertools

import numpy as np
import pytest

from mpinodes.auditing import user_file as checking
from mpinodes.auditing.checks import algorithms, elsewhere, mechanisms, statements
from mpinodes.auditing.checks.failures import image
from mpinodes.auditing.transcripts import simulate
from mpinodes.config import registry
from mpinodes.core.asked import merge
from mpinodes.core.seeds import Draws, Purpose
from tests.helpers.parts import setup_of

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
PUBLIC = "a statement of a message depends on data"
OUTSIDE = "an agent sends other messages when it runs alone"
ELSEWHERE = "an agent sends other messages in another process"

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
        "a forbidden name", GRADIENT, "g = loss.grad(b); __import__('pathlib').Path('x').exists()",
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
    monkeypatch.setattr(algorithms, "alone", lambda *a: [])


def outcome(path):
    ((kind, part),) = registry.parts_called(str(path))
    return checking.check(kind, part, 0)


@pytest.mark.parametrize("name", PLANTED)
def test_planted_fault_is_named(name, tmp_path, few, monkeypatch):
    wanted, *changes = PLANTED[name]
    if wanted == ELSEWHERE:
        monkeypatch.setattr(algorithms, "alone", elsewhere.alone)
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
    ((kind, part),) = registry.parts_called(str(path))
    assert {fault.name for fault in checking.check(kind, part, 0).faults} == {"merged() does not fit of()"}


@pytest.mark.parametrize(("point", "stated", "outside"), [("b", 1, 1), ("s.x", 1, 0), ("b", 0, 0), ("2 * s.x", 1, 1)])
def test_gradients_stated_to_be_of_points_in_the_set_are(tmp_path, point, stated, outside):
    text = SOUND.replace("loss.grad(b)", f"loss.grad({point})")
    (tmp_path / "own.py").write_text(text + "    gradients_in_set = True\n" * stated)
    asked = {
        "algorithm": {"path": str(tmp_path / "own.py")}, "problem": {"set": "ball", "radius": 0.1}, "rounds": 5,
        "topology": {"name": "complete", "agents": 2}, "data": {"name": "unit-ball", "total": 40},
    }  # fmt: skip
    run = simulate(setup_of(asked | {"record": {"transcript": True}}))
    faults = [fault.name for agent in run.agents for fault in statements.gradients_outside(run, agent)]
    assert faults == ["a gradient outside the set"] * outside * 2


CARRIED = """
from dataclasses import dataclass
from mpinodes.algorithms.two_stage_gaussian import TwoStageGaussian
__all__ = ["Own"]

@dataclass(frozen=True)
class Own(TwoStageGaussian):
    def carried_on(self, t):
        return {factor}
{more}
"""
OTHER_DATA = """
    def update(self, s, here, inbox, loss):
        new = super().update(s, here, inbox, loss)
        return new._replace(x=new.x - 0.1 * {changed}) if here.t <= self.gradient_rounds else new
"""
SUPER, RIGHT = "super().carried_on(t)", "1 - float(self.eta(t - 1)) * 3.0"


@pytest.mark.parametrize(
    ("factor", "changed", "words", "is_so"),
    [
        (SUPER, None, "problem.set=none", True), (RIGHT, None, "problem.set=none", True),
        ("0.5", None, "problem.set=none", False), ("1.0", None, "problem.set=none", False),
        ("0.0", None, "problem.set=none", False), (f"0.9 * ({RIGHT})", None, "problem.set=none", False),
        (RIGHT, None, "problem.set=box problem.radius=0.3", False),
        (RIGHT, "inbox.mix()", "problem.set=none", False), (RIGHT, "inbox.mix() ** 2", "problem.set=none", False),
        (RIGHT, "loss.grad(0 * s.x) ** 2", "problem.set=none", False),
        (RIGHT, "loss.grad(0 * s.x) * here.t ** 2", "problem.set=none", False),
        (RIGHT, "loss.grad(0 * s.x)[::-1] * (here.t == 2)", "problem.set=none", False),
    ],
)  # fmt: skip
def test_what_messages_are_said_to_carry_on_is_replayed(tmp_path, factor, changed, words, is_so):
    more = OTHER_DATA.format(changed=changed) if changed else ""
    (tmp_path / "own.py").write_text(CARRIED.format(factor=factor, more=more))
    asked = f"algorithm.path={tmp_path}/own.py algorithm.gradient_rounds=4 data.name=mean data.points=3 "
    asked += f"data.dimension=2 topology.name=ring topology.agents=4 rounds=7 record.transcript=true {words}"
    run = simulate(setup_of(asked))
    rng = np.random.default_rng(0)
    faults = [fault.name for agent in run.agents for fault in statements.carried_on(run, agent, rng)]
    assert faults == ([] if is_so else ["carried_on() returns a wrong factor"] * 4)


MIXING = """
from dataclasses import dataclass
from mpinodes.core import Mixing
__all__ = ["Own"]
SEEN = []

@dataclass(frozen=True)
class Own(Mixing):
    width = 1
    def init(self, agent):
        return [1.0]
    def outgoing(self, s, here):
        return (1.0,)
    def weights(self, s, here, incoming):
        w = [1 / len(incoming)] * len(incoming)
        return s, w, 1.0
"""


@pytest.mark.parametrize(
    ("fault", "old", "new"),
    [
        ("", "", ""),
        ("a wrong number of scalars", "return (1.0,)", "return (1.0, 2.0)"),
        ("invalid weights", "return s, w", "return s, w[1:]"),
        ("invalid weights", "w, 1.0", "w, 0.0"),
        ("state mutated", "return s, w", "s[0] = 2.0\n        return s, w"),
        ("state mutated", "return s, w", "incoming[0][0] = 2.0\n        return s, w"),
        ("two values for equal inputs", "return s, w", "SEEN.append(1)\n        return [len(SEEN)], w"),
        ("two values for equal inputs", "return (1.0,)", "SEEN.append(here.agent)\n        return (len(SEEN),)"),
    ],
)
def test_what_a_mixing_says_and_gives_is_tested(tmp_path, fault, old, new):
    (tmp_path / "own.py").write_text(MIXING.replace(old, new) if old else MIXING)
    faults = {found.name for found in outcome(tmp_path / "own.py").faults}
    assert fault in faults if fault else not faults


LOSS = """
from dataclasses import dataclass
import numpy as np
from mpinodes.losses.linear import SmoothLoss
__all__ = ["Own"]

@dataclass(frozen=True, slots=True)
class Own(SmoothLoss):
    point = staticmethod(lambda m, b: np.logaddexp(m - b, b - m) - np.log(2))
    slope = staticmethod(lambda m, b: np.tanh(m - b))
    bend = staticmethod(lambda m, b: 1 - np.tanh(m - b) ** 2)
    curvature = staticmethod(lambda: 1.0)
    convex = True
    slope_bound = staticmethod(lambda: 1.0)
"""
WAVE = (
    "np.logaddexp(m - b, b - m) - np.log(2)", "np.sin(m)", "np.tanh(m - b))", "np.cos(m))",
    "1 - np.tanh(m - b) ** 2", "-np.sin(m)",
)  # fmt: skip
ROUNDED = "    @classmethod\n    def value_rounding(cls, dimension, norm, radius):\n        return {}\n"
RANK = "convex = True\n    hessian_rank = classmethod(lambda cls, dimension: {})\n"
CURVED = (
    "    def data_grad(self, x, block=slice(None)):\n        return SmoothLoss.data_grad(self, x, block) + 3 * x[block]"
)


@pytest.mark.parametrize(
    ("fault", "changes"),
    [
        ("", ()), ("", (*WAVE, "convex = True", "has_prox = False")), ("less convex than stated", WAVE),
        ("less convex than stated", (*WAVE, "convex = True", "sample_modulus = 0.1")),
        ("sample_smoothness too small", ("lambda: 1.0)\n    convex", "lambda: 0.1)\n    convex")),
        ("slope_bound too small", ("slope_bound = staticmethod(lambda: 1", "slope_bound = staticmethod(lambda: 0")),
        ("hessian_rank too small", ("convex = True", RANK.format(1) + CURVED)),
        ("hessian_rank too small", ("convex = True", RANK.format(0))),
        ("value_rounding too small", ("convex = True", "convex = True\n" + ROUNDED.format("0.0"))),
        ("value_rounding too small", ("convex = True", "convex = True\n" + ROUNDED.format("1e-17 * radius"))),
        ("", ("convex = True", "convex = True\n" + ROUNDED.format("1e-13 * (1e4 + dimension * norm * radius)"))),
    ],
)  # fmt: skip
def test_what_a_loss_states_of_its_samples_is_tested(tmp_path, fault, changes):
    text = LOSS
    for old, new in zip(changes[::2], changes[1::2], strict=True):
        assert text.count(old) == 1
        text = text.replace(old, new)
    (tmp_path / "own.py").write_text(text)
    faults = {found.name for found in outcome(tmp_path / "own.py").faults}
    assert fault in faults if fault else not faults


NOISE = """
from dataclasses import dataclass
import numpy as np
from mpinodes.core import Event, Kind, Mechanism
__all__ = ["Own"]

@dataclass(frozen=True)
class Own(Mechanism):
    takes_the_place_of = "laplace"

    def release(self, query, t, noise, out):
        wanted = query.l1 if query.calibration is None else query.calibration
        scale = (wanted if self.constant is None else self.constant) / self.epsilon
        drawn = noise.at(t).laplace(0, scale, out.shape)
        out[:] = query.value + drawn
        return Event.of(query, Kind.LAPLACE, scale)
"""
DRAWN, OF = "noise.at(t).laplace(0, scale, out.shape)", "return Event.of(query, Kind.LAPLACE, scale)"
PHILOX = "np.random.Generator(np.random.Philox(key=np.array(noise.origin[1:3], np.uint64), counter=[0, 0, t, 0]))"


@pytest.mark.parametrize(
    ("fault", "old", "new"),
    [
        ("", "drawn", "drawn"),
        ("noise of other rounds", DRAWN, f"(1 - t % 4 // 2 * 2) * {DRAWN.replace('at(t)', 'at(t - t % 4 // 2 * 2)')}"),
        ("noise of other rounds", DRAWN, f"{DRAWN} if t % 50 else {DRAWN.replace('at(t)', 'at(t - 7)')}"),
        ("vectors that share their noise", DRAWN, DRAWN.replace("noise.at(t)", PHILOX)),
        ("noise that does not depend on its key", DRAWN, DRAWN.replace("noise.at(t)", "np.random.default_rng(t)")),
        ("a method that raises an exception", DRAWN, f"{DRAWN}; query.value *= 0.9"),
        ("a method that raises an exception", DRAWN, f"{DRAWN}; query.l1 *= 1 + 1e-12"),
        ("impossible numbers in an event", OF, f"{OF}._replace(draws=0.0)"),
        ("impossible numbers in an event", OF, f"{OF}._replace(rounding_l1=-1.0)"),
        ("impossible numbers in an event", OF, f"{OF}._replace(tv_distance=-0.5)"),
    ],
)  # fmt: skip
def test_noise_that_is_not_all_of_its_round_key_and_vector_is_a_fault(tmp_path, monkeypatch, fault, old, new):
    monkeypatch.setattr(mechanisms, "RELEASES", 100)
    assert old in NOISE
    (tmp_path / "own.py").write_text(NOISE.replace(old, new))
    faults = {found.name for found in outcome(tmp_path / "own.py").faults}
    assert fault in faults if fault else not faults


@pytest.mark.parametrize("stated", [True, False])
def test_a_release_that_is_rounded_states_its_lattice(tmp_path, monkeypatch, stated):
    monkeypatch.setattr(mechanisms, "RELEASES", 60)
    rounded = NOISE.replace("query.value + drawn", "np.round(query.value + drawn, 3)")
    (tmp_path / "own.py").write_text(rounded.replace("LAPLACE, scale", "LAPLACE, scale" + ", lattice=1e-3" * stated))
    lines = [fault.line for fault in outcome(tmp_path / "own.py").faults]
    assert len(lines) == (not stated)
    assert all("state Event.of(..., lattice=g)" in line for line in lines)
    assert all(line.endswith("own.py, line 11: Own.release)") for line in lines)


def test_a_method_that_fails_is_named_with_its_line(tmp_path, monkeypatch):
    monkeypatch.setattr(mechanisms, "RELEASES", 60)
    (tmp_path / "own.py").write_text(NOISE.replace("drawn = ", "assert query.calibration != 2.0; drawn = "))
    (fault,) = outcome(tmp_path / "own.py").faults
    assert "calibration 2.0: AssertionError (" in fault.line
    assert "own.py, line 14, in release)" in fault.line


STEEP = """
from dataclasses import dataclass
from mpinodes.losses.softmax import Softmax
__all__ = ["Own"]

@dataclass(frozen=True, slots=True)
class Own(Softmax):
    def _slopes(self, x):
        return 5 * Softmax._slopes(self, x)

    @classmethod
    def values(cls, features, targets, points):
        return 5 * Softmax.values(features, targets, points)
"""


@pytest.mark.parametrize("factor", ["5", "1"])
def test_what_a_loss_of_classes_inherits_is_tested_with_several_classes(tmp_path, factor):
    (tmp_path / "own.py").write_text(STEEP.replace("5 *", f"{factor} *"))
    faults = {found.name for found in outcome(tmp_path / "own.py").faults}
    assert faults == ({"slope_bound too small", "sample_smoothness too small"} if factor == "5" else set())


@pytest.mark.parametrize("loss", ["replace(one, divisor=0.5)", "replace(one, regularizer=9.0)", "one", "two"])
def test_whether_make_loss_makes_all_losses_is_tested(tmp_path, loss):
    text = BACKWARDS[: BACKWARDS.index("    def of")] + (
        "    makes_all_losses = True\n    def of(self, agent):\n        losses = super().of(agent)\n"
        "        def loss(t):\n            one = losses(t)\n            two = replace(one, clip=9.0)\n"
        f"            return {loss}\n        return loss\n"
    )
    (tmp_path / "own.py").write_text(text)
    faults = {fault.name for fault in outcome(tmp_path / "own.py").faults}
    assert faults == (set() if loss == "one" else {"makes_all_losses = True is wrong"})


def test_image_is_to_the_last_bit():
    assert image(np.array([0.0])) != image(np.array([-0.0]))
    assert image({"a": [1, 2.0]}) == image({"a": [1, 2.0]})
    generator = np.random.default_rng(0)
    before = image(generator)
    generator.normal()
    assert image(generator) != before


def test_image_of_draws_is_what_they_are_and_not_what_they_have_drawn():
    draws = Draws(0, Purpose.GRADIENT_NOISE, agent=2)
    before = image(draws)
    for t in (1, 2, 3):
        draws.at(t).standard_normal(4)
    assert image(draws) == before
    assert image(Draws(0, Purpose.GRADIENT_NOISE, agent=2, part=1)) != before
    assert image(Draws(1, Purpose.GRADIENT_NOISE, agent=2)) != before
