"""Texts of user-written parts, drawn at random for the attack of `generated.py`.

Each function returns a title and the text of one Python file. Everything that a file states is true in real arithmetic
under the contract in docs/own and mpinodes/core/parts; the docstring of a file derives the less obvious numbers.
"""

from __future__ import annotations

import re

import numpy as np

Random = np.random.Generator

IMPORTS = """from dataclasses import dataclass, replace
from functools import cached_property
from math import sqrt
from typing import NamedTuple

import numpy as np

from mpinodes.core import RELEASED, Algorithm, Feedback, Hidden, Loss, Query, SampleLoss, Start, Stream, Vector

__all__ = ["Generated"]


"""

MOMENTUM = (
    '''"""Gradient steps with momentum: u <- b u + grad f(point), x <- [P](z - a u), with z the public mix.

A change (dx, du) of the hidden parts becomes du <- b du + dg and dx <- a (b du + dg), where dg is the change of the
gradient, L |dx| + lambda |dx| at a hidden point. Projections lengthen no change.
"""

'''
    + IMPORTS.replace("\n__all__", "$IMPORT\n\n__all__")
    + """class State(NamedTuple):
    x: Vector
    u: Vector


@dataclass(frozen=True)
class Generated(Algorithm[State]):
    decomposable = True
    mechanism = "$LAW"
    mixings = ("metropolis", "laplacian")
    hidden = ("x", "u")
    gradients_in_set = "P(" in "$POINT"
    defaults = {
        "data": {"name": "unit-ball"}, "problem": {"loss": "logistic"}, "privacy": {"clip": 1.0, "mechanism": "$LAW"},
    }

    def init(self, x):
        return State(x, np.zeros_like(x))

    def message(self, s, here):
        if here.t == 1:
            return Start()
        run, i, a, b, moves = self.run, here.agent, self.run.step(here.t - 1), $BETA, $MOVES
        l2, regularizer = a * run.grad_sensitivity[i], moves * run.regularizer
        leaks = Hidden(
            transition=((a * regularizer, a * b), (regularizer, b)), gradient=(a, 1), reads=((1, 0),),
            sensitivity=run.grad_sensitivity[i], point=(moves, 0),
            lipschitz=run.grad_lipschitz[i] if moves else 0.0, largest=run.grad_range[i],
        )
        if not moves and not b:
            leaks = RELEASED
        return Query(s.x, l1=sqrt(len(s.x)) * l2, l2=l2, uses=here.t - 1, leaks=leaks, calibration=$CALIBRATION)

    def update(self, s, here, inbox, loss):
        P, z = self.run.feasible.project, inbox.mix()
        u = $BETA * s.u + loss.grad($POINT)
        return State($PROJECTS(z - self.run.step(here.t) * u), u)

    def decision(self, s):
        return self.run.feasible.project(s.x)
"""
)

COORDINATE = (
    '''"""Coordinate descent: round t moves coordinate t mod d; Q, the public cosine transform, carries x on.

x <- z - a g_k e_k + c Q x, with z the public mix. Replacing a sample moves one coordinate of the message, so the L1
change is the L2 change. An older change r moves x by at most min(range, a L r) + a lambda r in coordinate k, and by c r
through Q, which is orthogonal.
"""

from scipy.fft import dct

'''
    + IMPORTS
    + """class State(NamedTuple):
    x: Vector


@dataclass(frozen=True)
class Generated(Algorithm[State]):
    decomposable = True
    mechanism = "$LAW"
    mixings = ("metropolis",)
    hidden = ("x",)
    unconstrained = True
    defaults = {
        "data": {"name": "unit-ball"}, "problem": {"loss": "logistic", "set": "none"},
        "privacy": {"clip": 1.0, "mechanism": "$LAW"},
    }

    def init(self, x):
        return State(x)

    def message(self, s, here):
        if here.t == 1:
            return Start()
        run, i, a, moves = self.run, here.agent, self.run.step(here.t - 1), $MOVES
        l2 = a * run.grad_sensitivity[i]
        lipschitz = a * run.grad_lipschitz[i] if moves else 0.0
        leaks = Feedback(l2, lipschitz, a * run.grad_range[i], moves * a * run.regularizer + $CARRY)
        return Query(s.x, l1=l2, l2=l2, uses=here.t - 1, leaks=leaks, calibration=$CALIBRATION)

    def update(self, s, here, inbox, loss):
        z, k = inbox.mix(), here.t % len(s.x)
        step = np.zeros_like(z)
        step[k] = self.run.step(here.t) * loss.grad($POINT)[k]
        return State(z - step + $CARRY * dct(s.x, norm="ortho"))

    def decision(self, s):
        return s.x
"""
)


def filled(text: str, **values: object) -> str:
    """Return a template with every `$NAME` replaced, the longest names first."""
    for name in sorted(values, key=len, reverse=True):
        text = text.replace(f"${name}", str(values[name]))
    return text


def calibration(rng: Random, law: str) -> str:
    """Draw what noise is calibrated to: a standard deviation for Gaussian noise, else the sensitivity."""
    return f"{rng.choice([0.5, 1.0, 3.0])} * l2 / self.run.epsilon" if law == "gaussian" else "None"


def momentum(law: str, point: str, beta: object, projects: str = "", imports: str = "", noise: str = "None") -> str:
    """Return gradient descent with momentum beta; z is a public point, s.x a hidden one, and P projects."""
    values = {"LAW": law, "POINT": point, "MOVES": int("s.x" in point), "BETA": beta, "PROJECTS": projects}
    return filled(MOMENTUM, IMPORT=imports, CALIBRATION=noise, **values)


def algorithm(rng: Random, law: str, is_outside: bool = False) -> tuple[str, str]:
    """Draw gradient descent with momentum; if `is_outside`, with gradients at hidden points that nothing projects."""
    point, projects = str(rng.choice(["z", "P(z)", "s.x", "P(s.x)"])), str(rng.choice(["P", ""]))
    if is_outside:
        point, projects = "s.x", ""
    beta = rng.choice([0.0, 0.0, 0.3, 0.9])
    text = momentum(law, point, beta, projects, noise=calibration(rng, law))
    return f"momentum {beta:g}, {law}, at {point}", text


def imported(how: str, module: str) -> tuple[str, dict[str, str]]:
    """Return an algorithm that imports its momentum, and the files that it imports, under a module's name."""
    imports, beta, files = IMPORTED[how]
    names = {file.replace("M", module, 1): content for file, content in files.items()}
    return re.sub(r"\bM\b", module, momentum("laplace", "z", beta, "P", imports)), names


def coordinate(rng: Random, law: str) -> tuple[str, str]:
    """Draw coordinate descent, whose messages state an L1 sensitivity that equals their L2 sensitivity."""
    point, carry = str(rng.choice(["z", "s.x"])), rng.choice([0.5, 0.9, 1.0])
    values = {"LAW": law, "POINT": point, "MOVES": int(point == "s.x"), "CARRY": carry}
    return f"coordinates, {law}, at {point}", filled(COORDINATE, CALIBRATION=calibration(rng, law), **values)


LABELLED = (
    '"""Samples of one file for each agent, shown $TITLE."""\n\n'
    + IMPORTS.replace("\n__all__", "from mpinodes.streams.labelled import LabelledStream, in_memory\n\n__all__")
    + '''class Opaque(Loss):
    """Shows no samples: $BIG times log-cosh of the predictions."""

    def __init__(self, loss):
        self.a, self.b = loss.features, loss.targets

    def value(self, x):
        return float($BIG * np.logaddexp(self.a @ x - self.b, self.b - self.a @ x).sum())

    def data_grad(self, x, block=slice(None)):
        return ($BIG * np.tanh(self.a @ x - self.b)) @ self.a[:, block]

    grad = data_grad

    def prox(self, v, step, near, tolerance):
        raise NotImplementedError


@dataclass(frozen=True)
class Generated(LabelledStream):
    source: str = "$SOURCE"

    name = "generated"
    has_labels = $LABELS
    feature_bound = 1.0
    drawn_from_seed = False
    defaults = {"problem": {"loss": "$LOSS"}}

    @cached_property
    def tables(self):
        return [np.load(self.source.replace("{agent}", str(i))) for i in range(self.agents)]

    def open(self):
        features, targets = (np.concatenate([table[name] for table in self.tables]) for name in ("features", "targets"))
        return in_memory(features, targets), None

    @cached_property
    def shares(self):
        ends = np.cumsum([len(table["targets"]) for table in self.tables])
        return tuple(np.split(np.arange(ends[-1]), ends[:-1]))

    def of(self, agent):
        losses = super().of(agent)

        def shown(t):
            loss = losses(t)
            return $SHOWN

        return shown
'''
)
SHOWN = {  # how a stream changes the losses that it shows
    "with weights by target": "replace(loss, divisor=loss.divisor / np.where(loss.targets > 0, $BIG, 1.0))",
    "with weights by size": "replace(loss, divisor=loss.divisor / (1 + $BIG * abs(loss.features).max(axis=1)))",
    "as short floats": "replace(loss, features=np.float32(loss.features), targets=np.float32(loss.targets))",
    "unclipped": "replace(loss, clip=np.inf)",
    "opaque": "Opaque(loss)",
    "as they are": "loss",
}

PLAIN = (
    '"""Samples of one file for each agent, $TITLE."""\n\n'
    + IMPORTS
    + """@dataclass(frozen=True)
class Generated(Stream):
    source: str = "$SOURCE"
    partition: str = "even"
    $BATCH
    title = "generated"
    dimension = $DIMENSION
    rounds = None
    has_labels = $LABELS
    feature_bound = 1.0
    feature_norm = sqrt($DIMENSION)
    drawn_from_seed = False
    defaults = {"rounds": 20, "problem": {"loss": "$LOSS"}}

    @cached_property
    def tables(self):
        read = [np.load(self.source.replace("{agent}", str(i))) for i in range(self.agents)]
        return [(table["features"], table["targets"]) for table in read]

    @cached_property
    def shares(self):
        return tuple(np.arange(len(targets)) for _, targets in self.tables)

    def samples(self, agent):
        m = len(self.tables[agent][1])
        return lambda t: $PLACES

    def of(self, agent):
        (features, targets), places = self.tables[agent], self.samples(agent)
        return lambda t: self.make_loss(features[places(t)]$TYPE, targets[places(t)]$TYPE)

    def passes(self, rounds):
        return rounds
"""
)
PLACES = {  # which rows a round shows
    "K a round": "[(t * $K + j) % m for j in range($K)]",
    "K a round, some of them twice": "[(t * $K + j // 2) % m for j in range($K)]",
}


def labelled_stream(rng: Random, labels: bool, loss: str, source: str = "") -> tuple[str, str]:
    """Draw a stream that extends LabelledStream and changes the losses that it shows."""
    title = str(rng.choice(list(SHOWN)))
    values = {"TITLE": title, "LABELS": labels, "LOSS": loss, "BIG": rng.choice([3.0, 50.0]), "SOURCE": source}
    return f"LabelledStream, {title}", filled(LABELLED.replace("$SHOWN", SHOWN[title]), **values)


def plain_stream(rng: Random, labels: bool, loss: str, dimension: int, source: str = "") -> tuple[str, str]:
    """Draw a stream that extends Stream: rounds of k samples, with and without a field `batch`."""
    k, title, kind = rng.choice([1, 2, 4, 7]), str(rng.choice(list(PLACES))), str(rng.choice(["float64", "float16"]))
    batch = f"batch: int = {k}\n" if rng.random() < 0.5 else ""
    values = {"TITLE": title, "BATCH": batch, "DIMENSION": dimension, "LABELS": labels, "LOSS": loss, "K": k}
    text = filled(PLAIN.replace("$PLACES", PLACES[title]), TYPE=f'.astype("{kind}")', **values)
    text = text.replace("$SOURCE", source)
    return f"Stream, {title}, K = {k}, {kind}{', with batch' if batch else ''}", text


LINEAR = '''"""A loss of a linear prediction m and a target b."""

from dataclasses import dataclass

import numpy as np

from mpinodes.losses.linear import $BASE

__all__ = ["Generated"]


@dataclass(frozen=True, slots=True)
class Generated($BASE):
    $STATED
    point = staticmethod(lambda m, b: $POINT)
    slope = staticmethod(lambda m, b: $SLOPE)
    bend = staticmethod(lambda m, b: $BEND)
    curvature = staticmethod(lambda: $CURVATURE)
'''
SLOPE_BOUND = "\n    slope_bound = classmethod(lambda cls: $BOUND)"
# By name: what the class states, the function, its slope, its second derivative and the largest curvature.
LINEAR_LOSSES = {
    "log-cosh": (
        "convex = True" + SLOPE_BOUND.replace("$BOUND", "1.0"),
        "np.logaddexp(m - b, b - m)", "np.tanh(m - b)", "1 - np.tanh(m - b) ** 2", 1.0,
    ),
    # Quadratic as far as |b|: the slope is bounded by 1 + |b| only.
    "wide": (
        "convex = True", "(1 + abs(b)) ** 2 * np.logaddexp(m / (1 + abs(b)), -m / (1 + abs(b)))",
        "(1 + abs(b)) * np.tanh(m / (1 + abs(b)))", "1 - np.tanh(m / (1 + abs(b))) ** 2", 1.0,
    ),
    "sum": ("convex = True", "b * m + np.logaddexp(m, -m)", "b + np.tanh(m)", "1 - np.tanh(m) ** 2", 1.0),
    "squares": ("convex = True", "(m - b) ** 2 / 2", "m - b", "np.ones_like(m - b)", 1.0),
    "labels": (
        "convex = needs_labels = True", "3 * np.logaddexp(0, -b * m)", "-3 * b / (1 + np.exp(b * m))",
        "0.75 / np.cosh(m / 2) ** 2", 0.75,
    ),
    # Not convex: -4.5 exp(-(m - b)^2/2) bends by -2.01 at least and by 4.5 at most.
    "bump": (
        "sample_modulus = -np.inf\n    sample_smoothness = classmethod(lambda cls, norm, other: 5.5 * norm * other)",
        "-4.5 * np.exp(-((m - b) ** 2) / 2) + np.logaddexp(m - b, b - m)",
        "4.5 * (m - b).clip(-99, 99) * np.exp(-((m - b).clip(-99, 99) ** 2) / 2) + np.tanh(m - b)",
        "4.5 * (1 - (m - b).clip(-99, 99) ** 2) * np.exp(-((m - b).clip(-99, 99) ** 2) / 2) + 1 - np.tanh(m - b) ** 2",
        5.5,
    ),
}  # fmt: skip

RANK = (
    '"""Hessians of full rank: $W sqrt(1 + $K^2 |x - a|^2)/$K, with gradients shorter than $W."""\n\n'
    + IMPORTS.replace("\n__all__", "from mpinodes.losses.linear import SmoothLoss\n\n__all__")
    + """@dataclass(frozen=True, slots=True)
class Generated(SmoothLoss):
    predicts = False
    convex = True
    sample_sensitivity = classmethod(lambda cls, norm: 2 * $W)
    sample_smoothness = classmethod(lambda cls, norm, other: $W * $K)
    curvature = staticmethod(lambda: $W * $K)
    slope_bound = classmethod(lambda cls: np.inf)  # the loss is no function of a prediction

    def parts(self, x):
        away = x - self.features
        return away, np.sqrt(1 + $K**2 * (away**2).sum(axis=1)), $W * np.ones(len(away)) / self.divisor

    def value(self, x):
        _, size, weight = self.parts(x)
        return float(weight @ size) / $K + 0.5 * self.regularizer * float(x @ x)

    def data_grad(self, x, block=slice(None)):
        away, size, _ = self.parts(x)
        rows = ($W * $K / size)[:, None] * away[:, block]
        if self.clip < np.inf and not self.whole:
            rows *= (self.clip / np.maximum(np.linalg.norm(rows, axis=1), self.clip))[:, None]
        gradient = (np.ones(len(rows)) / self.divisor) @ rows
        if self.clip < np.inf and self.whole:
            gradient *= self.clip / max(np.linalg.norm(gradient), self.clip)
        return gradient

    def grad(self, x, block=slice(None)):
        return self.data_grad(x, block) + self.regularizer * x[block]

    def hessian(self, x):
        away, size, weight = self.parts(x)
        second = np.eye(len(x)) * ((weight * $K / size).sum() + self.regularizer)
        return second - (away.T * (weight * $K**3 / size**3)) @ away

    @classmethod
    def values(cls, features, targets, points):
        away = points[:, :, None, :] - features.reshape(*targets.shape, -1)[:, None, :, :]
        return $W * np.sqrt(1 + $K**2 * (away**2).sum(axis=3)) / $K

    @staticmethod
    def point(prediction, target):
        raise NotImplementedError

    slope = bend = point
"""
)


def linear_loss(rng: Random, name: str) -> tuple[str, str]:
    """Return a loss of linear predictions by its name."""
    stated, point, slope, bend, curvature = LINEAR_LOSSES[name]
    base = str(rng.choice(["SmoothLoss", "LinearLoss"], p=[0.8, 0.2])) if name != "bump" else "LinearLoss"
    values = {"BASE": base, "STATED": stated, "POINT": point, "SLOPE": slope, "BEND": bend, "CURVATURE": curvature}
    return f"{base}, {name}", filled(LINEAR, **values)


def rank_loss(rng: Random) -> tuple[str, str]:
    """Draw a loss whose Hessians have full rank."""
    return "Hessians of full rank", filled(RANK, W=rng.choice([0.5, 1.0]), K=rng.choice([1.0, 10.0]))


# How an algorithm imports its momentum from other files, of which the last is edited between two runs: the import, the
# expression of the momentum, and the files. M stands for a name that no other set-up has.
IMPORTED: dict[str, tuple[str, str, dict[str, str]]] = {
    "its own text": ("BETA = 0.5", "BETA", {}),
    "a module": ("import M", "M.BETA", {"M.py": "BETA = 0.5"}),
    "all of a module": ("from M import *", "BETA", {"M.py": "BETA = 0.5"}),
    "a namespace package": ("from M.inner import BETA", "BETA", {"M/inner.py": "BETA = 0.5"}),
    "a module of a package": ("from M import inner", "inner.BETA", {"M/__init__.py": "", "M/inner.py": "BETA = 0.5"}),
    "a relative import": ("import M", "M.BETA", {"M/__init__.py": "from .core import BETA", "M/core.py": "BETA = 0.5"}),
    "the parent of a module": ("import M.sub", "M.BETA", {"M/sub.py": "X = 1", "M/__init__.py": "BETA = 0.5"}),
    "two steps away": (
        "from M.core import BETA", "BETA",
        {"M/__init__.py": "", "M/core.py": "from . import last\nBETA = last.BETA", "M/last.py": "BETA = 0.5"},
    ),
    "importlib": ("import importlib\nM = importlib.import_module('M')", "M.BETA", {"M.py": "BETA = 0.5"}),
    "__import__": ("M = __import__('M')", "M.BETA", {"M.py": "BETA = 0.5"}),
    "a function": ("def beta():\n    import M\n    return M.BETA", "beta()", {"M.py": "BETA = 0.5"}),
}  # fmt: skip
