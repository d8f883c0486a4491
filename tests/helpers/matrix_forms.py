"""Compute the expected runs of set-ups of the package by `reference`, the papers' equations in matrix form."""

from __future__ import annotations

from math import sqrt

import numpy as np

from mpinodes.core import Setup
from tests.helpers import reference

METHODS = ["weight-balancing", "dola", "dola-minibatch", "dpps", "dpsr"]


def sample_gradients(parts: Setup):
    """Return a function of t and y that computes the samples' unclipped gradients from features and targets."""
    losses = parts.stream.of(0)

    def gradients(t: int, y: np.ndarray) -> np.ndarray:
        a, b = losses(t).features, losses(t).targets
        m = a @ y
        slope = -b / (1 + np.exp(b * m)) if parts.experiment.problem.loss == "logistic" else 2 * (m - b)
        return slope[:, None] * a

    return gradients


def dpsda(parts: Setup, weights, *, push_sum: bool) -> dict[str, np.ndarray]:
    e = parts.experiment
    project = {"ball": reference.ball, "box": reference.box}[e.problem.set](e.problem.radius)
    n = parts.topology.agents
    return reference.dpsda(
        e.rounds, parts.dimension, n, sample_gradients(parts), lambda t: weights(n, parts.topology.edges(t)), project,
        push_sum=push_sum, seed=e.seed, key=parts.noise_key, clip=e.clip, xi=e.problem.gradient_noise,
        scale=float(e.privacy.scale) / e.privacy.epsilon if e.private else 0.0,
        public=e.algorithm["gradient_at"] == "public",
    )  # fmt: skip


def slope(loss: str, m: np.ndarray, b: np.ndarray) -> np.ndarray:
    match loss:
        case "hinge":
            return np.where(b * m < 1, -b, 0.0)
        case "logistic":
            return -b / (1 + np.exp(b * m))
        case "absolute":
            return np.sign(m - b)
        case _:
            return 2 * (m - b)


def gradients(parts: Setup, regularizer: float) -> reference.Gradients:
    """Return a function that computes every agent's clipped gradient at its own point, from features and targets."""
    e = parts.experiment
    n = parts.topology.agents
    streams = [parts.stream.of(i) for i in range(n)]
    divisor = e.data["batch"] if e.problem.average else 1

    def of(t: int, i: int, x: np.ndarray) -> np.ndarray:
        a, b = streams[i](t).features, streams[i](t).targets
        samples = slope(e.problem.loss, a @ x, b)[:, None] * a
        if e.privacy.adjacency == "one-round":
            data = reference.clipped(samples.sum(axis=0, keepdims=True) / divisor, e.clip)
        else:
            data = reference.clipped(samples, e.clip) / divisor
        if e.problem.gradient_noise:
            error = reference.draws(e.seed, reference.GRADIENT_NOISE, i, t)
            data += error.normal(0.0, sqrt(e.problem.gradient_noise), len(x))
        return data + regularizer * x

    return lambda t, points: np.stack([of(t, i, points[i]) for i in range(n)])


def step(parts: Setup) -> reference.Step:
    e = parts.experiment
    modulus = e.problem.regularizer / (2 if e.algorithm["name"] == "weight-balancing" else 1)
    offset, initial = e.step.get("offset", 0), e.step.get("initial", 1)
    return {
        "strongly-convex": lambda t: 1 / (modulus * (t + offset)),
        "inverse-sqrt": lambda t: initial / sqrt(t),
        "doubling": lambda t: initial / sqrt(2 ** np.floor(np.log2(t))),
    }[e.step["kind"]]


def doubly_stochastic(parts: Setup):
    """Return two functions of the round: the weights (n, n), and the scalars that agents send about their weights."""
    n, edges = parts.topology.agents, parts.topology.edges
    name = parts.experiment.algorithm["mixing"]
    if name == "laplacian":
        drawn = "each-round" in parts.experiment.topology["name"] or parts.experiment.topology["name"] == "matchings"
        largest = n if drawn else reference.laplacian_max(n, edges(1))
        return lambda t: reference.laplacian(n, edges(t), largest), lambda t: np.zeros((n, 0))
    weights = {"metropolis": reference.metropolis, "lazy-metropolis": reference.lazy_metropolis}[name]
    return lambda t: weights(n, edges(t)), lambda t: reference.adjacency(n, edges(t)).sum(axis=1)


def decomposable(parts: Setup) -> reference.Run:
    """Return the run of a method with private losses (`METHODS`), computed in matrices."""
    e, d, n, edges = parts.experiment, parts.dimension, parts.topology.agents, parts.topology.edges
    radius = e.problem.radius
    project = {"ball": reference.ball(radius), "box": reference.box(radius), "none": lambda x: x}[e.problem.set]
    name, lam, alpha, run = e.algorithm["name"], e.problem.regularizer, step(parts), reference.Run(parts.noise_key)
    mean_of_samples = e.problem.average and e.privacy.adjacency == "one-sample"
    changed = e.clip / (e.data["batch"] if mean_of_samples else 1)
    unit = 2 * changed * (d if e.feedback.points else 1) * sqrt(d) / e.privacy.epsilon  # 0 where ε = ∞
    hidden = gradients(parts, lam)
    if name == "weight-balancing":
        start = 1 / n if e.topology["name"] == "eulerian" or n == 1 else 1 / len(edges(1))
        return reference.weight_balancing(
            run, e.rounds, d, hidden, lambda t: reference.adjacency(n, edges(t)), start, alpha, unit,
            public=e.algorithm["gradient_at"] == "public", corrected=e.algorithm["noise_index"] == "corrected",
        )  # fmt: skip
    if name == "dpps":
        matrices = lambda t: reference.column_stochastic(n, edges(t))  # noqa: E731
        return reference.dpps(run, e.rounds, d, hidden, matrices, project, alpha, unit)
    if name == "dpsr":
        return reference.dpsr(run, e.rounds, d, hidden, reference.uniform(n, edges(1)), project, alpha, unit)
    matrices, said = doubly_stochastic(parts)
    phi = lam if name == "dola-minibatch" else 0.0
    return reference.dola(
        run, e.rounds, d, gradients(parts, lam - phi), matrices, said, project, alpha, unit,
        phi=phi, public=e.algorithm.get("regularizer_at") == "public",
    )  # fmt: skip


def value(loss: str, m: np.ndarray, b: np.ndarray) -> np.ndarray:
    match loss:
        case "hinge":
            return np.maximum(0, 1 - b * m)
        case "logistic":
            return np.logaddexp(0, -b * m)
        case "absolute":
            return np.abs(m - b)
        case _:
            return (m - b) ** 2


class TwoPoints:
    """Two-point gradient estimates of all agents, computed from features and targets.

    Attributes:
        centers: (rounds, n, d) the midpoints between the two points, for the rounds computed so far.
    """

    def __init__(self, parts: Setup, regularizer: float) -> None:
        e, n, d = parts.experiment, parts.topology.agents, parts.dimension
        self._e, self._lam = e, regularizer
        self._streams = [parts.stream.of(i) for i in range(n)]
        shared = e.data["partition"] == "shared"
        self._owned = reference.blocks(d, n) if shared else [np.arange(d)] * n
        self._centers = [[] for _ in range(n)]

    @property
    def centers(self) -> np.ndarray:
        return np.array(self._centers).transpose(1, 0, 2)

    def __call__(self, t: int, points: np.ndarray) -> np.ndarray:
        return np.stack([self.of(t, i, x) for i, x in enumerate(points)])

    def of(self, t: int, i: int, x: np.ndarray) -> np.ndarray:
        e, owned = self._e, self._owned[i]
        r = e.feedback.radius / t**e.feedback.decay
        room = e.problem.radius - r
        c = {"ball": reference.ball(room), "box": reference.box(room), "none": lambda x: x}[e.problem.set](x)
        self._centers[i].append(c)
        u = np.zeros(len(x))
        u[owned] = reference.draws(e.seed, 13, i, t).standard_normal(len(owned))
        u /= np.linalg.norm(u)
        a, b = self._streams[i](t).features, self._streams[i](t).targets
        ahead, behind = (value(e.problem.loss, a @ (c + s * r * u), b) for s in (1, -1))
        divisor = e.data["batch"] if e.problem.average else 1
        if e.privacy.adjacency == "one-round":
            slope = np.clip(np.sum(ahead - behind) / divisor / (2 * r), -e.clip, e.clip)
        else:
            slope = np.clip((ahead - behind) / (2 * r), -e.clip, e.clip).sum() / divisor
        return len(owned) * slope * u + self._lam * x


class Late:
    """Delayed gradients (or estimates) of all agents, plus the regularizer's gradients without delay."""

    def __init__(self, data: reference.Gradients, delay: int, regularizer: float) -> None:
        self._data, self._delay, self._lam, self._told = data, delay, regularizer, []

    def __call__(self, t: int, points: np.ndarray) -> np.ndarray:
        self._told.append(self._data(t, points))
        now = self._told[t - 1 - self._delay] if t > self._delay else np.zeros_like(points)
        return now + self._lam * points
