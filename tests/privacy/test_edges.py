"""Proven numbers at the edges of the contract: each case was printed too small before, as its replay shows."""

from __future__ import annotations

import py_compile
import shutil
import sys
from dataclasses import replace
from math import sqrt
from pathlib import Path

import msgspec
import numpy as np
import pytest

from mpinodes.auditing.checks import mechanisms
from mpinodes.auditing.checks.failures import Report
from mpinodes.auditing.transcripts import Replayed, Transcript
from mpinodes.config import registry
from mpinodes.config.building import build
from mpinodes.config.noise_key import fingerprint, noise_name
from mpinodes.core import Kind
from mpinodes.core.events import Layout
from mpinodes.presentation.privacy_words import number
from mpinodes.privacy.accountant import Accountant, groups
from mpinodes.privacy.curves import ORDERS, gdp_epsilon, laplace_rdp
from mpinodes.privacy.ledger import Uses
from mpinodes.privacy.recursive import Recursive, open_ledger
from mpinodes.privacy.together import Cost, cost_of, whole
from mpinodes.privacy.views import Relayed
from mpinodes.summary.summary import LossSummary, worst_loss
from tests.helpers.accounting import DELTA, events
from tests.helpers.parts import rows_of, setup_of

BASE = {"report": False, "record": {"transcript": True}, "noise": {"key": "edges"}}  # wherever the files lie


def transcript_of(setup) -> Transcript:
    _, made, frames = setup.layout.open(rows_of(setup))
    return Transcript(setup, frames, made)


def proven(run: Transcript):
    accountant = Accountant(run.events, groups(run.setup), run.setup.experiment.data["partition"] == "shared")
    return accountant.losses(np.array([len(run.frames)]), 1e-5, None).network[-1]


def realised(run: Transcript, data: dict, agent: int = 0, power: int = 1) -> float:
    """Σ over messages of the L1 change over the scale, of an agent on other data against the same transcript.

    With `power` 2, that of the squares of the L2 change over the scale.
    """
    e = run.setup.experiment
    other = Transcript(build(msgspec.structs.replace(e, data={**e.data, **data})), run.frames, run.events)
    one, two = Replayed(run, agent), Replayed(other, agent)
    scales = one.scale[:, 0]
    pairs = zip(one.messages, two.messages, strict=True)
    moved = [np.linalg.norm(a.value - b.value, power) if hasattr(a, "value") else 0.0 for a, b in pairs]
    return sum((m / s) ** power for m, s in zip(moved, scales, strict=True) if s)


# ------------------------------------------------------------------------------------------------ bandit feedback
@pytest.mark.parametrize(("target", "radius"), [(1e8, 0.01), (1e9, 0.1), (1e7, 0.001)])
def test_rounding_of_large_losses_is_paid_for_where_two_values_are_compared(target, radius, tmp_path):
    rounds = 60
    for name, first in (("a", 1000.0), ("b", -1000.0)):
        for i in range(2):
            features, targets = np.full((rounds, 1), 1e-7), np.full(rounds, target)
            features[0], targets[0] = 1.0, first if i == 0 else 1000.0
            np.savez(tmp_path / f"{name}-{i}.npz", features=features, targets=targets)
    data = {"file": str(tmp_path / "a-{agent}.npz"), "targets": "real", "bound": 1.0, "columns": 1, "shuffle": False}
    asked = {
        **BASE, "algorithm": {"name": "dpps"}, "data": data, "rounds": rounds,
        "problem": {"loss": "least-squares", "set": "box", "radius": 50.0}, "step": {"kind": "constant", "value": 0.02},
        "topology": {"name": "complete", "agents": 2}, "privacy": {"clip": 5.0, "epsilon": 1.0},
        "feedback": {"points": 2, "radius": radius, "decay": 0.0},
    }  # fmt: skip
    most, least = 0.0, np.inf
    for seed in range(12):
        run = transcript_of(setup_of({**asked, "seed": seed}))
        most = max(most, realised(run, {"file": str(tmp_path / "b-{agent}.npz")}))
        least = min(least, proven(run).pure)
    assert 0.9 < most <= least


def test_rounding_of_small_losses_costs_next_to_nothing():
    words = "algorithm.name=dpps rounds=30 data.name=unit-ball data.total=300 problem.radius=2"
    share = transcript_of(setup_of(f"{words} feedback.points=2")).events.leakage("offset")[5:]
    assert 0 < share.max() < 1e-9


CUT = """
from dataclasses import dataclass
from math import sqrt
from typing import NamedTuple
import numpy as np
from mpinodes.core import Algorithm, Feedback, Hidden, Query, Start, Vector
__all__ = ["Cut"]

class State(NamedTuple):
    z: Vector

@dataclass(frozen=True)
class Cut(Algorithm[State]):
    most: float = 0.5  # the norm that a gradient is cut to
    gain: float = 1.0  # of a cut gradient in the message
    slope: float = 0.01  # of the point in the message
    by_parts: bool = False
    decomposable = True
    mixings = ("metropolis",)
    hidden = ("z",)

    def init(self, x):
        return State(np.zeros_like(x))

    def message(self, s, here):
        if here.t == 1:
            return Start()
        i, most = here.agent, 2 * self.most
        sensitivity, largest = min(self.run.grad_sensitivity[i], most), min(self.run.grad_range[i], most)
        lipschitz, l2 = self.run.grad_lipschitz[i], self.gain * sensitivity
        leaks = Feedback(l2, self.gain * self.slope * lipschitz, self.gain * largest)
        if self.by_parts:
            leaks = Hidden(((0.0,),), (self.gain,), sensitivity, (self.slope,), lipschitz, largest, ((1.0,),))
        return Query(s.z, l1=sqrt(len(s.z)) * l2, l2=l2, uses=here.t - 1, leaks=leaks)

    def update(self, s, here, inbox, loss):
        g = loss.data_grad(-self.slope * s.z)
        return State(inbox.mix() + self.gain * g * min(1.0, self.most / max(np.linalg.norm(g), 1e-300)))

    def decision(self, s):
        return -self.slope * s.z
"""


@pytest.mark.parametrize(
    ("gain", "slope", "by_parts"), [(0.01, 1.0, False), (1.0, 0.01, False), (100.0, 1e-4, False), (100.0, 1e-4, True)]
)
@pytest.mark.parametrize(("radius", "cuts"), [(1e-6, (2e-11, 5e-11, 8e-11)), (3e-6, (1e-11,))])
def test_rounding_is_paid_for_where_an_algorithm_cuts_gradients_below_it(radius, cuts, gain, slope, by_parts, tmp_path):
    (tmp_path / "cut.py").write_text(CUT)
    for name, first in (("a", 1.0), ("b", -1.0)):
        for i in range(2):
            targets = np.where(np.arange(100) % 2, 1.0, -1.0)
            targets[0] = first if i == 0 else -1.0
            np.savez(tmp_path / f"{name}-{i}.npz", features=np.ones((100, 1)), targets=targets)
    data = {"file": str(tmp_path / "a-{agent}.npz"), "labels": [-1, 1], "bound": 1.0, "norm": 1.0, "columns": 1}
    settings = {"path": str(tmp_path / "cut.py"), "gain": gain, "slope": slope, "by_parts": by_parts}
    asked = {
        **BASE, "rounds": 40,
        "data": {**data, "batch": 2, "shuffle": False, "train": 1.0},
        "problem": {"loss": "logistic", "set": "box", "radius": 1.0}, "topology": {"name": "complete", "agents": 2},
        "feedback": {"points": 2, "radius": radius, "decay": 0.0}, "privacy": {"clip": 1.0, "epsilon": 1.0},
    }  # fmt: skip
    largest = 0.0
    for most in cuts:  # the processor's exponential function decides at which of the cuts rounding is visible
        words = {**asked, "algorithm": {**settings, "most": most}}
        runs = [transcript_of(setup_of({**words, "seed": seed})) for seed in range(4)]
        found = max(realised(run, {"file": str(tmp_path / "b-{agent}.npz")}) for run in runs)
        assert found <= min(proven(run).pure for run in runs)
        largest = max(largest, found)
    assert largest > 1.1


# ------------------------------------------------------------------------------------------------ gradients anywhere
LAZY = """
from dataclasses import dataclass
from math import sqrt
from typing import NamedTuple
from mpinodes.core import Algorithm, Feedback, Query, Start, Vector
__all__ = ["Lazy"]

class State(NamedTuple):
    x: Vector

@dataclass(frozen=True)
class Lazy(Algorithm[State]):
    decomposable = True
    mixings = ("metropolis",)
    hidden = ("x",)

    def init(self, x):
        return State(x)

    def message(self, s, here):
        if here.t == 1:
            return Start()
        alpha, i = self.run.step(here.t - 1), here.agent
        l2 = alpha * self.run.grad_sensitivity[i]
        leaks = Feedback(l2, alpha * self.run.grad_lipschitz[i], alpha * self.run.grad_range[i])
        return Query(s.x, l1=sqrt(len(s.x)) * l2, l2=l2, uses=here.t - 1, leaks=leaks)

    def update(self, s, here, inbox, loss):
        return State(inbox.mix() - self.run.step(here.t) * loss.grad(s.x))

    def decision(self, s):
        return self.run.feasible.project(s.x)
"""


@pytest.mark.parametrize(("kind", "radius"), [("ball", 0.001), ("box", 0.01), ("ball", 0.1)])
def test_a_gradient_outside_of_a_small_set_is_paid_for(kind, radius, tmp_path):
    (tmp_path / "lazy.py").write_text(LAZY)
    for name, first in (("a", 100.0), ("b", -100.0)):
        for i in range(3):
            targets = np.where(np.arange(40) == 0, first if i == 0 else 0.0, 0.0)
            np.savez(tmp_path / f"{name}-{i}.npz", features=np.ones((40, 1)), targets=targets)
    data = {"file": str(tmp_path / "a-{agent}.npz"), "targets": "real", "bound": 1.0, "columns": 1, "shuffle": False}
    asked = {
        **BASE, "algorithm": {"path": str(tmp_path / "lazy.py")}, "data": data, "rounds": 40,
        "problem": {"loss": "least-squares", "set": kind, "radius": radius},
        "step": {"kind": "constant", "value": 0.45}, "topology": {"name": "complete", "agents": 3},
        "privacy": {"clip": 1.0, "epsilon": 5.0},
    }  # fmt: skip
    run = transcript_of(setup_of(asked))
    assert 20 < realised(run, {"file": str(tmp_path / "b-{agent}.npz")}) <= proven(run).pure


# ------------------------------------------------------------------------------------------------ streams of the user's
STREAM = """
from dataclasses import dataclass, replace
import numpy as np
from mpinodes.core import Loss
from mpinodes.losses.least_squares import LeastSquares
from mpinodes.streams.labelled import LabelledStream, in_memory
__all__ = ["Own"]

class Steep(Loss):
    def __init__(self, a, b): self.a, self.b = a, b
    def value(self, x): return 500.0 * float(self.a @ x - self.b) ** 2
    def grad(self, x, block=slice(None)): return self.data_grad(x, block)
    def data_grad(self, x, block=slice(None)): return (1000.0 * (self.a @ x - self.b) * self.a)[block]
    def prox(self, v, step, near, tolerance): raise NotImplementedError

@dataclass(frozen=True)
class Own(LabelledStream):
    flip: int = 0
    kind: str = "weight"
    name = "own"
    feature_bound = 1.0
    drawn_from_seed = True

    def open(self):
        signs = np.where(np.arange(64) % 2, 1.0, -1.0)
        points = np.stack([np.ones(64), signs], axis=1)
        if self.flip:
            points[self.flip - 1] *= [-1.0, 1.0]
        return in_memory(points, signs), None

    def of(self, agent):
        losses = super().of(agent)
        def own(t):
            loss = losses(t)
            if self.kind == "weight":
                return replace(loss, divisor=loss.divisor / 20.0)
            if self.kind == "rows":
                rows = np.full(5, 0)
                return replace(loss, features=loss.features[rows], targets=loss.targets[rows])
            if self.kind == "negative":
                return replace(loss, divisor=-0.01)
            if self.kind == "regularizer":
                return replace(loss, regularizer=50.0 if loss.features[0, 0] < 0 else 0.0)
            if self.kind == "class":
                return LeastSquares(loss.features, 50 * loss.targets, loss.clip, loss.whole, loss.divisor / 9)
            return Steep(loss.features[0], loss.targets[0])
        return own
"""


@pytest.mark.parametrize("algorithm", ["dola", "dpps", "weight-balancing"])
@pytest.mark.parametrize("kind", ["weight", "rows", "negative", "class", "opaque", "regularizer"])
def test_what_a_users_stream_yields_is_held_to_what_is_accounted_for(algorithm, kind, tmp_path):
    (tmp_path / "own.py").write_text(STREAM)
    data = {"path": str(tmp_path / "own.py"), "kind": kind, "shuffle": False, "partition": "even"}
    bounded = {} if algorithm == "weight-balancing" else {"set": "box", "radius": 1000.0}
    asked = {
        **BASE, "algorithm": {"name": algorithm}, "data": data, "rounds": 20,
        "problem": {"loss": "logistic", "regularizer": 0.0, **bounded}, "step": {"kind": "inverse-sqrt"},
        "topology": {"agents": 2, **({"name": "complete"} if algorithm == "dola" else {})},
        "privacy": {"clip": 0.5, "epsilon": 1.0},
    }  # fmt: skip
    run = transcript_of(setup_of(asked))
    share = run.setup.stream.shares[0]
    found = realised(run, {"flip": int(share[3]) + 1})
    assert 0 < found <= proven(run).pure * (1 + 1e-9)


BOOTSTRAP = """
from dataclasses import dataclass
import numpy as np
from mpinodes.core import Stream
from mpinodes.core.seeds import Draws, Purpose
from mpinodes.streams.labelled import LabelledStream, in_memory
__all__ = ["Bootstrap"]

@dataclass(frozen=True)
class Bootstrap(LabelledStream):
    flip: int = 0
    name = "bootstrap"
    feature_bound = 1.0
    drawn_from_seed = False
    merged = Stream.merged

    def open(self):
        points, targets = np.full((40, 2), 1e-3), np.where(np.arange(40) % 7, -1.0, 1.0)
        points[20], targets[20] = -1.0 if self.flip else 1.0, 1.0
        return in_memory(points, targets), None

    def samples(self, agent):
        size, draws = len(self.shares[agent]), Draws(self.seed, Purpose.SHUFFLE, agent)
        return lambda t: draws.at(t).integers(0, size, self.batch).tolist()

    def groups(self, agent):
        return self.samples(agent)

    def of(self, agent):
        points, targets = self._own(agent)
        samples = self.samples(agent)
        return lambda t: self.make_loss(points[samples(t)], targets[samples(t)])
"""
PLAIN = """
from dataclasses import dataclass
from math import sqrt
from typing import NamedTuple
from mpinodes.core import RELEASED, Algorithm, Query, Start, Vector
__all__ = ["Plain"]

class State(NamedTuple):
    x: Vector

@dataclass(frozen=True)
class Plain(Algorithm[State]):
    mixings = ("metropolis",)
    decomposable = True
    mechanism = "gaussian"

    def init(self, x):
        return State(x)

    def message(self, s, here):
        if here.t == 1:
            return Start()
        l2 = self.run.step(here.t - 1) * self.run.grad_sensitivity[here.agent]
        noise = l2 / self.run.gdp(self.run.epsilon, self.run.delta)
        return Query(s.x, l1=sqrt(len(s.x)) * l2, l2=l2, uses=here.t - 1, leaks=RELEASED, calibration=noise)

    def update(self, s, here, inbox, loss):
        mix = inbox.mix()
        return State(mix - self.run.step(here.t) * loss.grad(mix))

    def decision(self, s):
        return s.x
"""


@pytest.mark.parametrize("batch", [12, 20])
@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
def test_a_bootstrap_pays_for_every_time_that_it_draws_a_sample(mechanism, batch, tmp_path):
    (tmp_path / "own.py").write_text(BOOTSTRAP)
    (tmp_path / "plain.py").write_text(PLAIN)
    algorithm = {"path": str(tmp_path / "plain.py")} if mechanism == "gaussian" else {"name": "dola"}
    asked = {
        **BASE, "algorithm": algorithm, "data": {"path": str(tmp_path / "own.py"), "batch": batch, "epochs": 20},
        "problem": {"loss": "logistic", "set": "ball", "radius": 5.0}, "topology": {"name": "complete", "agents": 2},
        "step": {"kind": "inverse-sqrt"}, "privacy": {"mechanism": mechanism, "clip": 0.5, "epsilon": 1.0}, "rounds": 6,
    }  # fmt: skip
    run = transcript_of(setup_of(asked))
    owner = next(i for i in range(2) if 20 in run.setup.stream.source_rows(i))
    power = 2 if mechanism == "gaussian" else 1
    moved, found = realised(run, {"flip": 1}, owner, power), proven(run)
    if mechanism == "gaussian":
        assert 0 < gdp_epsilon(sqrt(moved), 1e-5) <= found.epsilon
    else:
        assert 0 < moved <= found.pure
    accountant = Accountant(run.events, groups(run.setup), False)
    recorded = cost_of(run.setup, accountant, len(run.frames)).network.settled().loss(1e-5)
    assert (recorded.epsilon, recorded.rule) == (pytest.approx(found.epsilon), found.rule)


# ------------------------------------------------------------------------------------------------ losses of the user's
def test_what_a_loss_does_not_state_counts_as_the_worst():
    from mpinodes.losses.linear import SmoothLoss
    from mpinodes.losses.logistic import Logistic

    class Mine(SmoothLoss):
        __slots__ = ()
        point = staticmethod(lambda m, b: np.logaddexp(m, -m) * b**2)
        slope = staticmethod(lambda m, b: np.tanh(m) * b**2)
        bend = staticmethod(lambda m, b: (1 - np.tanh(m) ** 2) * b**2)
        curvature = staticmethod(lambda: 1.0)

    class Curved(Logistic):
        __slots__ = ()

        def hessian(self, x):
            return np.eye(len(x))

    assert Mine.slope_bound() == Mine.sample_smoothness(1.0, 1.0) == np.inf
    assert (Mine.hessian_rank(7), Curved.hessian_rank(7), Logistic.hessian_rank(7)) == (1, 7, 1)
    assert Logistic.slope_bound() == 1.0


def test_a_hessian_of_higher_rank_costs_a_minimizer_more():
    words = "algorithm.name=dvp-admm rounds=4"
    setup = setup_of(words)
    algorithm = setup.algorithm
    state = algorithm.init(np.zeros(setup.dimension))
    d = setup.dimension
    one = algorithm.problem(state, 0, 1).log_volume
    full = replace(algorithm, run=replace(setup.run, sample_rank=d)).problem(state, 0, 1)
    modulus = 1 / full.stretch
    each = setup.run.sample_weight[0] * setup.run.sample_curvature / modulus
    assert one == pytest.approx(np.log1p(each))
    assert full.log_volume == pytest.approx(d * np.log1p(each))
    unknown = replace(algorithm, run=replace(setup.run, sample_curvature=np.inf)).problem(state, 0, 1)
    assert unknown.log_volume == np.inf


# ------------------------------------------------------------------------------------------------ hidden changes
def test_a_hidden_change_moves_all_coordinates_unless_fewer_are_stated():
    made = events(6, l1=1.0, l2=1.0, uses=np.arange(6), largest=1.0, lipschitz=0.5)
    for dimension, coordinates, root in ((9, 0, 3.0), (9, 4, 2.0), (9, 20, 3.0), (1, 0, 1.0)):
        made.data["leakage"]["coordinates"] = coordinates
        wide = type(made)(made.data, dimension)
        np.testing.assert_array_equal(wide.l1_per_l2, root)
    released = np.zeros((3, 1), Layout(9).record)
    released["event"]["l1"], released["event"]["l2"] = 1.0, 2.0
    assert (type(made)(released, 9).l1_per_l2 == 0.5).all()


@pytest.mark.parametrize("rounds", [50, 300])
@pytest.mark.parametrize("smoothness", [0.25, 0.9])
def test_gaussian_noise_with_hidden_state_costs_the_recursion(rounds, smoothness):
    """D-PSGD with steps 1/√t, noise in proportion to each release's own sensitivity."""
    a = 1 / np.sqrt(np.maximum(np.arange(rounds), 1))
    made = events(
        rounds, kind=Kind.GAUSSIAN, scale=a * 2, l1=a * 2, l2=a * 2, uses=np.arange(rounds), largest=a * 2,
        lipschitz=a * smoothness,
    )  # fmt: skip
    made.data["leakage"]["transition"] = 0.0
    ledger = open_ledger(made, Uses.of(made, lambda t: [t - 1]))
    assert isinstance(ledger, Recursive)
    pure, rho = ledger.at(rounds)
    worst_square = 0.0
    for used in range(1, rounds):
        h, total = 2 * a[used], 1.0
        for t in range(used + 1, rounds):
            h = a[t] * min(2.0, smoothness * h)
            total += (h / (2 * a[t])) ** 2
        worst_square = max(worst_square, total)
    assert np.isinf(pure[rho > 0]).all()
    mine, hand = (gdp_epsilon(sqrt(square), DELTA) for square in (2 * rho.max(), worst_square))
    assert hand * (1 - 1e-9) <= mine <= hand * 1.01


@pytest.mark.parametrize(
    ("smoothness", "momentum", "is_ceiling"), [(0.9, 0, False), (np.inf, 0, True), (0, 0.5, False)]
)
def test_a_ceiling_is_called_one(smoothness, momentum, is_ceiling):
    made = events(20, l1=1.0, l2=1.0, uses=np.arange(20), largest=1.0, lipschitz=smoothness)
    made.data["leakage"]["transition"] = momentum
    assert open_ledger(made, Uses.of(made, lambda t: [t - 1])).uses_ceiling == is_ceiling


# ------------------------------------------------------------------------------------------------ views, keys, words
@pytest.mark.parametrize("topology", ["star", "ring", "complete"])
def test_a_node_is_not_said_to_learn_less_where_a_rule_stops_the_run(topology):
    words = f"algorithm.name=two-stage-gaussian rounds=30 algorithm.gradient_rounds=1 topology.name={topology}"
    for stop, is_linear in ((0.5, False), (0.0, True)):
        setup = setup_of(f"{words} algorithm.stop={stop} topology.agents=5")
        run = transcript_of(setup)
        assert (Relayed.of(setup, run.events) is not None) == is_linear


FILES = {
    "relative": (
        {"lib/__init__.py": "from .core import STEP\n", "lib/core.py": "STEP = 0.5\n"}, "import lib", "lib/core.py",
    ),
    "package": ({"pack/__init__.py": "STEP = 0.5\n", "pack/sub.py": "X = 1\n"}, "import pack.sub", "pack/__init__.py"),
    "sibling": (
        {"three/__init__.py": "", "three/a.py": "from . import b\n", "three/b.py": "S = 1\n"}, "from three.a import b",
        "three/b.py",
    ),
    "above": (
        {"up/__init__.py": "", "up/in_/__init__.py": "from ..low import S\n", "up/low.py": "S = 1\n"}, "import up.in_",
        "up/low.py",
    ),
    "by function": ({"helped.py": "S = 1\n"}, "import importlib\nh = importlib.import_module('helped')", "helped.py"),
    "by name": ({"aided.py": "S = 1\n"}, "h = __import__('aided')", "aided.py"),
}  # fmt: skip


@pytest.mark.parametrize("how", FILES)
def test_the_noise_depends_on_all_code_that_is_imported(how, tmp_path, monkeypatch):
    files, imports, edited = FILES[how]
    monkeypatch.syspath_prepend(str(tmp_path))
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    before = fingerprint_with(tmp_path, imports)
    (tmp_path / edited).write_text("S = 2\nSTEP = 2\n")
    assert fingerprint_with(tmp_path, imports) != before


def fingerprint_with(tmp_path, imports) -> str:
    (tmp_path / "mine.py").write_text(f"{imports}\n{LAZY}")
    asked = {"algorithm": {"path": str(tmp_path / "mine.py")}, "data": {"name": "unit-ball"}, "rounds": 5}
    return fingerprint(setup_of(asked))


def test_the_noise_depends_on_installed_packages_wherever_they_are(tmp_path, monkeypatch):
    site, other = tmp_path / "here" / "site-packages", tmp_path / "there" / "site-packages"
    (site / "installed-1.0.dist-info").mkdir(parents=True)
    (site / "installed.py").write_text("S = 1\n")
    (site / "installed-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: installed\nVersion: 1.0\n")
    record, lines = (
        site / "installed-1.0.dist-info" / "RECORD",
        "../../bin/tool,sha256=%s,9\ninstalled.py,sha256=%s,6\n",
    )
    record.write_text(lines % ("aa", "bb"))
    with monkeypatch.context() as here:
        here.syspath_prepend(str(site))
        before = fingerprint_with(tmp_path, "import installed")
        record.write_text(lines % ("aa", "cc"))
        assert fingerprint_with(tmp_path, "import installed") != before
    record.write_text(lines % ("dd", "bb"))  # a script with the path of its interpreter
    shutil.move(site, other)
    monkeypatch.syspath_prepend(str(other))
    monkeypatch.delitem(sys.modules, "installed")
    assert fingerprint_with(tmp_path, "import installed") == before


READS = ["exec((HERE / 'rule.txt').read_text())", "import numpy\nS = numpy.genfromtxt(f'{HERE}/rule.txt', str)"]


@pytest.mark.parametrize("how", READS)
def test_the_noise_depends_on_files_that_code_reads_beside_it(how, tmp_path):
    keys, names = set(), set()
    for step in ("S = 1", "S = 2"):
        (tmp_path / "rule.txt").write_text(step)
        fingerprint_with(tmp_path, f"from pathlib import Path\nHERE = Path(__file__).parent\n{how}")
        asked = {"algorithm": {"path": str(tmp_path / "mine.py")}, "data": {"name": "unit-ball"}, "rounds": 5}
        setup = setup_of(asked)
        keys.add(setup.noise_key)
        names.add(noise_name(setup))
    assert (len(keys), len(names)) == (2, 1)  # what is read may be data, of which no hash is written


def test_the_noise_depends_on_compiled_code(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    made = []
    for step in (1, 2):
        (tmp_path / "source.py").write_text(f"S = {step}\n")
        py_compile.compile(str(tmp_path / "source.py"), cfile=str(tmp_path / "built.pyc"))
        made.append(fingerprint_with(tmp_path, "import built"))
        monkeypatch.delitem(sys.modules, "built")
    assert made[0] != made[1]


@pytest.mark.parametrize("name", ["make_loss = None", "def __post_init__(self): pass", "def groups(self, agent): pass"])
def test_a_stream_that_may_make_other_losses_is_not_taken_at_its_word(name):
    made: dict = {}
    exec(f"from mpinodes.streams.unit_ball import UnitBall\nclass Mine(UnitBall):\n    {name}\n", made)
    stream = setup_of("algorithm.name=dola data.name=unit-ball rounds=5").stream
    assert stream.makes_all_losses
    mine = made["Mine"]
    mine.__module__ = "mine"
    assert not mine.makes_all_losses.fget(object.__new__(mine))


NOISE = """
from dataclasses import dataclass
import numpy as np
from mpinodes.core import Event, Kind, Mechanism
__all__ = ["Known"]

@dataclass(frozen=True)
class Known(Mechanism):
    def release(self, query, t, noise, out):
        wanted = query.l1 if query.calibration is None else query.calibration
        scale = (wanted if self.constant is None else self.constant) / self.epsilon
        fixed = np.random.default_rng([t, noise.agent]).laplace(size=out.shape)
        drawn = noise.at(t).laplace(size=out.shape)
        out[:] = query.value + scale * np.where(np.arange(len(out)) {test}, fixed, drawn)
        return Event.of(query, Kind.LAPLACE, scale)
"""


@pytest.mark.parametrize(("test", "is_found"), [(">= 0", True), ("== 3", True), ("< 0", False)])
def test_noise_that_does_not_depend_on_its_key_is_a_fault(test, is_found, tmp_path, monkeypatch):
    monkeypatch.setattr(mechanisms, "RELEASES", 100)
    path = tmp_path / "known.py"
    path.write_text(NOISE.replace("{test}", test))
    report = Report()
    mechanisms.check_mechanism(registry.from_path(registry.MECHANISMS, str(path)), str(path), Path(tmp_path), 0, report)
    assert any("its key" in fault.line for fault in report.faults) == is_found


def test_the_worst_agents_numbers_are_each_the_largest():
    agents = [
        LossSummary(claimed=1.0, proven_pure=9.0, proven=2.0, rule="RDP"),
        LossSummary(claimed=3.0, proven_pure=5.0, proven=4.0, rule="pure"),
    ]
    assert worst_loss(agents) == LossSummary(claimed=3.0, proven_pure=9.0, proven=4.0, rule="pure")
    unlimited = LossSummary(claimed=1.0, proven_pure=None, proven=2.0, rule="RDP")
    assert worst_loss([*agents, unlimited]).proven_pure is None


def test_a_huge_epsilon_is_written_in_few_digits():
    assert [number(e) for e in (3.0517e70, 1e9, 123456.7, 999.94, None)] == [
        "3.052e+70", "1e+09", "123457", "999.9", "unproven",
    ]  # fmt: skip


def test_a_gaussian_run_is_charged_beside_a_laplace_run_whose_samples_cannot_be_matched():
    sample, shift = np.zeros(1, np.int64), np.array([0.1])
    gaussian = Cost(sample, np.array([np.inf]), np.array([0.5]), lambda at: 0.5 * ORDERS[None], is_gaussian=True)
    laplace = Cost(sample, shift, shift**2 / 2, lambda at: laplace_rdp(shift))
    both = whole([gaussian, laplace]).loss(DELTA).epsilon
    assert both > gdp_epsilon(1.0, DELTA), "the runs together cost at least as much as the Gaussian run alone"
