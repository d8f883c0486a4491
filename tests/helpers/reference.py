"""Compute the runs of the algorithms again, from the papers' equations, with the vectors of all agents in matrices.

This module shares only data with mpinodes, no code. It draws from Philox by the documented addressing, builds the
weights from the edges, and keeps the whole network in arrays.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from hashlib import blake2b

import numpy as np
from scipy.special import expit

NOISE, GRADIENT_NOISE, START, DITHER = 1, 3, 10, 11  # purposes, as documented in mpinodes.core.seeds


def draws(source: int | bytes, purpose: int, agent: int, t: int) -> np.random.Generator:
    if isinstance(source, bytes):  # the key of a run's noise and dither
        digest = blake2b(struct.pack("<IQ", purpose, agent), key=source, digest_size=16).digest()
        key = np.array(struct.unpack("<2Q", digest), np.uint64)
    else:
        key = np.random.SeedSequence((source, purpose, agent)).generate_state(2, np.uint64)
    return np.random.Generator(np.random.Philox(key=key, counter=[0, 0, t, 0]))


def blocks(d: int, n: int) -> list[np.ndarray]:
    return np.array_split(np.arange(d), n)


def uniform(n: int, edges: set[tuple[int, int]]) -> np.ndarray:
    hears = np.eye(n)
    for j, i in edges:
        hears[i, j] = 1
    return hears / hears.sum(axis=1, keepdims=True)


def column_stochastic(n: int, edges: set[tuple[int, int]]) -> np.ndarray:
    hears = np.eye(n)
    for j, i in edges:
        hears[i, j] = 1
    return hears / hears.sum(axis=0, keepdims=True)


def adjacency(n: int, edges: set[tuple[int, int]]) -> np.ndarray:
    """Return the matrix (n, n) with 1 at [i, j] if j sends to i, and zeros on the diagonal."""
    hears = np.zeros((n, n))
    for j, i in edges:
        hears[i, j] = 1
    return hears


def lazy_metropolis(n: int, edges: set[tuple[int, int]]) -> np.ndarray:
    hears = adjacency(n, edges)
    degree = hears.sum(axis=1)
    weights = hears / np.maximum(2 * np.maximum.outer(degree, degree), 1)
    return weights + np.diag(1 - weights.sum(axis=1))


def laplacian(n: int, edges: set[tuple[int, int]], largest: float) -> np.ndarray:
    """Return the weights I − 2/(3 λ_max) L, with λ_max = `largest`."""
    hears = adjacency(n, edges)
    return np.eye(n) - 2 / (3 * largest) * (np.diag(hears.sum(axis=1)) - hears) if largest else np.eye(n)


def laplacian_max(n: int, edges: set[tuple[int, int]]) -> float:
    hears = adjacency(n, edges)
    return float(np.linalg.eigvalsh(np.diag(hears.sum(axis=1)) - hears).max())


def metropolis(n: int, edges: set[tuple[int, int]]) -> np.ndarray:
    degree = [sum(1 for j, _ in edges if j == i) for i in range(n)]
    weights = np.zeros((n, n))
    for j, i in edges:
        weights[i, j] = 1 / (1 + max(degree[i], degree[j]))
    return weights + np.diag(1 - weights.sum(axis=1))


def ball(radius: float) -> Callable[[np.ndarray], np.ndarray]:
    return lambda x: x / max(1.0, np.linalg.norm(x) / radius)


def box(radius: float) -> Callable[[np.ndarray], np.ndarray]:
    return lambda x: np.clip(x, -radius, radius)


def clipped(gradients: np.ndarray, clip: float) -> np.ndarray:
    """Return the sum of the samples' gradients, each scaled to norm `clip` if it is longer."""
    norms = np.linalg.norm(gradients, axis=1)
    return (gradients * np.where(norms > clip, clip / np.maximum(norms, 1e-300), 1.0)[:, None]).sum(axis=0)


def dpsda(
    rounds: int,
    d: int,
    n: int,
    gradients: Callable[[int, np.ndarray], np.ndarray],
    matrices: Callable[[int], np.ndarray],
    project: Callable[[np.ndarray], np.ndarray],
    *,
    push_sum: bool,
    seed: int = 0,
    key: bytes = b"",
    scale: float = 0.0,
    clip: float = np.inf,
    xi: float = 0.0,
    public: bool = False,
) -> dict[str, np.ndarray]:
    """Run DPSDA, algorithms 1 and 2 of the paper, with ψ = ½‖·‖² and α(t) = 1/√t.

    With `public`, gradients are taken at Π(mixed/w, α), a point that leaves out the agent's newest gradient.
    `gradients(t, y)` returns the gradients (k, d) of the k samples of round t at y. Return the decisions y and the
    releases h, both (rounds, n, d), and the push-sum weights w (rounds + 1, n).
    """
    owned = blocks(d, n)
    z, w = np.zeros((n, d)), np.ones(n)
    y = np.stack([project(np.zeros(d))] * n)
    at = y
    ys, hs, ws = [], [], [w]
    for t in range(1, rounds + 1):
        eta = np.zeros((n, d))
        if scale:
            eta = np.stack([draws(key, NOISE, i, t).laplace(0.0, scale, d) for i in range(n)])
        h = z + eta
        ys.append(y), hs.append(h)
        u = np.zeros((n, d))
        for i, block in enumerate(owned):
            u[i, block] = clipped(gradients(t, at[i])[:, block], clip)
            if xi:
                u[i, block] += draws(seed, GRADIENT_NOISE, i, t).normal(0.0, np.sqrt(xi), len(block))
        matrix = matrices(t)
        mixed = matrix @ h if push_sum else h + (matrix - np.eye(n)) @ h
        z = n * u + mixed
        w = matrix @ w if push_sum else w
        y = np.stack([project(-(1 / np.sqrt(t)) * z[i] / w[i]) for i in range(n)])
        at = np.stack([project(-(1 / np.sqrt(t)) * mixed[i] / w[i]) for i in range(n)]) if public else y
        ws.append(w)
    return {"y": np.array(ys), "h": np.array(hs), "w": np.array(ws)}


Gradients = Callable[[int, np.ndarray], np.ndarray]  # (t, a point for each agent (n, d)) -> their gradients (n, d)
Step = Callable[[int], float]


class Run:
    """The decisions and messages of a run of n agents with private losses, round by round.

    Attributes:
        x, h: the decisions and the releases, (rounds, n, d).
        scale: the scales of the noise on h, (rounds, n).
        said: the scalars that were sent with h, (rounds, n, width).
    """

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._x, self._h, self._scale, self._said = [], [], [], []

    def release(self, t: int, x: np.ndarray, value: np.ndarray, scale: np.ndarray, said: np.ndarray) -> np.ndarray:
        n, d = value.shape
        noise = [draws(self._key, NOISE, i, t).laplace(0.0, 1.0, d) for i in range(n)]
        h = value + scale[:, None] * np.array(noise)
        for kept, new in ((self._x, x), (self._h, h), (self._scale, scale), (self._said, said)):
            kept.append(np.array(new))
        return h

    @property
    def x(self) -> np.ndarray:
        return np.array(self._x)

    @property
    def h(self) -> np.ndarray:
        return np.array(self._h)

    @property
    def scale(self) -> np.ndarray:
        return np.array(self._scale)

    @property
    def said(self) -> np.ndarray:
        return np.array(self._said).reshape(len(self._h), self._h[0].shape[0], -1)


def weight_balancing(
    run: Run,
    rounds: int,
    d: int,
    gradients: Gradients,
    hears: Callable[[int], np.ndarray],
    start: float,
    alpha: Step,
    unit: float,
    *,
    public: bool,
    corrected: bool,
) -> Run:
    """Run weight balancing: x(t + 1) = W(t) y(t) − α(t) g(t), W(t) = I − diag(w d) + H(t) diag(w); `unit` is 2L√d/ε."""
    n = len(hears(1))
    x, w = np.zeros((n, d)), np.full(n, start)
    for t in range(1, rounds + 1):
        calibrated = alpha(t) if not corrected else alpha(t - 1) if t > 1 else 0.0
        y = run.release(t, x, x, np.full(n, unit * calibrated), w)
        h = hears(t)
        out = h.sum(axis=0)
        z = (np.eye(n) - np.diag(w * out) + h @ np.diag(w)) @ y
        x = z - alpha(t) * gradients(t, z if public else x)
        w = w / 2 + np.divide(h @ w / 2, out, out=w / 2, where=out > 0)
    return run


def dola(
    run: Run,
    rounds: int,
    d: int,
    gradients: Gradients,
    matrices: Callable[[int], np.ndarray],
    said: Callable[[int], np.ndarray],
    project: Callable[[np.ndarray], np.ndarray],
    alpha: Step,
    unit: float,
    *,
    phi: float,
    public: bool,
) -> Run:
    """Run DOLA: w(t + 1) = Pro[b − α(t)(φ·(w(t) or b) + g(b))], b = A(w(t) + σ(t)); `unit` is 2L√d/ε."""
    n = len(matrices(1))
    x = np.stack([project(np.zeros(d))] * n)
    for t in range(1, rounds + 1):
        m = run.release(t, x, x, np.full(n, unit * alpha(t - 1) if t > 1 else 0.0), said(t))
        b = matrices(t) @ m
        ahead = b - alpha(t) * (phi * (b if public else x) + gradients(t, b))
        x = np.stack([project(row) for row in ahead])
    return run


def dpps(
    run: Run,
    rounds: int,
    d: int,
    gradients: Gradients,
    matrices: Callable[[int], np.ndarray],
    project: Callable[[np.ndarray], np.ndarray],
    alpha: Step,
    unit: float,
) -> Run:
    """Run DPPS: z(t + 1) = A(z + η) + g(x), w(t + 1) = A w, x(t + 1) = P(−α(t) z(t + 1)/w(t + 1)); `unit` is 2L√d/ε."""
    n = len(matrices(1))
    z, w = np.zeros((n, d)), np.ones(n)
    x = np.stack([project(np.zeros(d))] * n)
    for t in range(1, rounds + 1):
        a = matrices(t)
        share = a.max(axis=0)  # 1/out_j, of agent j itself too
        h = run.release(t, x, z, np.full(n, unit), np.column_stack([share, w]))
        z, w = a @ h + gradients(t, x), a @ w
        x = np.stack([project(-alpha(t) * z[i] / w[i]) for i in range(n)])
    return run


def dpsr(
    run: Run,
    rounds: int,
    d: int,
    gradients: Gradients,
    a: np.ndarray,
    project: Callable[[np.ndarray], np.ndarray],
    alpha: Step,
    unit: float,
) -> Run:
    """Run DPSR: x(t + 1) = P(A(x + η) − α(t) diag(R)⁻¹ g(x)), R(t + 1) = A R(t), R(1) = I; `unit` is 2L√d/ε."""
    n = len(a)
    x, r = np.stack([project(np.zeros(d))] * n), np.eye(n)
    made = np.zeros(n)
    for t in range(1, rounds + 1):
        h = run.release(t, x, x, unit * made, r)
        made = alpha(t) / np.diag(r)
        ahead = a @ h - made[:, None] * gradients(t, x)
        x, r = np.stack([project(row) for row in ahead]), a @ r
    return run


Data = list[tuple[np.ndarray, np.ndarray]]  # by agent, features (B, d) and labels (B,)
ByAgent = Callable[[int], np.ndarray]  # iteration t from 1 -> (n,)


def erm_gradient(x: np.ndarray, y: np.ndarray, f: np.ndarray, weight: float, regularizer: float) -> np.ndarray:
    """Return ∇O(f) of O(f) = (C/B) Σ log(1 + exp(−y f·x)) + (ρ/N) ‖f‖²/2."""
    return regularizer * f - weight / len(y) * (y * expit(-y * (x @ f))) @ x


def erm_hessian(x: np.ndarray, y: np.ndarray, f: np.ndarray, weight: float, regularizer: float) -> np.ndarray:
    p = expit(y * (x @ f))
    return regularizer * np.eye(len(f)) + weight / len(y) * (x.T * (p * (1 - p))) @ x


def root(gradient: Callable[[np.ndarray], np.ndarray], hessian: Callable[[np.ndarray], np.ndarray], f: np.ndarray):
    """Return the minimizer of a strongly convex function up to rounding, by Newton's method from f with line search."""
    g = gradient(f)
    for _ in range(200):
        move, length = np.linalg.solve(hessian(f), g), 1.0
        if np.linalg.norm(move) <= 1e-14 * np.linalg.norm(f):
            return f - move
        while np.linalg.norm(gradient(f - length * move)) >= np.linalg.norm(g):
            length /= 2
            if length < 1e-4:  # nothing but rounding is left
                return f
        f = f - length * move
        g = gradient(f)
    raise AssertionError(f"no minimum: the gradient is still {np.linalg.norm(g)}")


def erm_minimizer(data: Data, weight: float, regularizer: float) -> np.ndarray:
    """Return argmin Σ_i O_i(f), the minimizer of the objective of all agents."""
    return root(
        lambda f: sum(erm_gradient(x, y, f, weight, regularizer) for x, y in data),
        lambda f: sum(erm_hessian(x, y, f, weight, regularizer) for x, y in data),
        np.zeros(data[0][0].shape[1]),
    )


def erm_prox(
    x: np.ndarray,
    y: np.ndarray,
    weight: float,
    regularizer: float,
    linear: np.ndarray,
    square: float,
    near: np.ndarray,
) -> np.ndarray:
    """Return argmin O(f) + linear·f + square ‖f‖²/2 of one agent."""
    return root(
        lambda f: erm_gradient(x, y, f, weight, regularizer) + linear + square * f,
        lambda f: erm_hessian(x, y, f, weight, regularizer) + square * np.eye(len(f)),
        near,
    )


def gamma_noise(key: bytes, agent: int, t: int, d: int, scale: float) -> np.ndarray:
    """Return the noise e (d,) of an agent in round t, of density ∝ exp(−‖e‖/scale)."""
    draw = draws(key, NOISE, agent, t)
    direction = draw.standard_normal(d)
    return draw.gamma(d, scale) * direction / np.linalg.norm(direction)


def admm(
    iterations: int,
    data: Data,
    a: np.ndarray,
    weight: float,
    regularizer: float,
    theta: ByAgent,
    eta: ByAgent,
    scale: ByAgent,
    *,
    seed: int = 0,
    key: bytes = b"",
    primal: bool = False,
    grid: float = 0.0,
) -> tuple[np.ndarray, np.ndarray]:
    """Run ADMM by (13) and (14) of Zhang, Khalili and Liu, with the noise −ε(t) of (24).

    W(t) is diag(η(t)), and each agent has a θ of its own.
    There is no noise if `scale` is 0. The noise is inside the argmin; with `primal` it is added to the sent minimizer
    instead. Return the minimizers and the sent vectors f̂(0), ..., f̂(iterations), both (iterations + 1, n, d).
    """
    n, d = len(data), data[0][0].shape[1]
    degrees = np.diag(a.sum(axis=1))
    sent = np.stack([draws(seed, START, i, 0).standard_normal(d) for i in range(n)])
    dual = np.zeros((n, d))
    found, said = [sent], [sent]
    for t in range(1, iterations + 1):
        w = np.diag(eta(t))
        noise = np.zeros((n, d))
        if scale(t).any():
            noise = np.stack([gamma_noise(key, i, t + 1, d, scale(t)[i]) for i in range(n)])
        inside = np.zeros((n, d)) if primal else noise
        linear = 2 * dual - w @ (degrees + a) @ sent - 2 * w @ degrees @ inside
        square = np.diag(2 * w @ degrees)
        f = np.stack([
            erm_prox(*data[i], weight, regularizer, linear[i], square[i], near=sent[i]) for i in range(n)
        ])  # fmt: skip
        found.append(f)
        if grid:
            dither = [draws(key, DITHER, i, t + 1).uniform(-grid / 2, grid / 2, d) for i in range(n)]
            f = grid * np.rint((f + np.array(dither)) / grid)
        sent = f + noise if primal else f
        dual = dual + np.diag(theta(t)) @ (degrees - a) @ sent / 2
        said.append(sent)
    return np.array(found), np.array(said)


def two_stage(
    key: bytes,
    rounds: int,
    d: int,
    gradients: Gradients,
    w: np.ndarray,
    project: Callable[[np.ndarray], np.ndarray],
    eta: Step,
    noise: Step,
    stages: int,
    *,
    clean: bool,
) -> dict[str, np.ndarray]:
    """Run the two-stage method, (8) to (12) of its paper, with T = `stages`.

    With `clean`, y(T + 1) is that of (12), otherwise that of (11).
    Return x(t − 1) and y(t), both (rounds, n, d), and the standard deviation of the noise on y(t), (rounds,).
    """
    n = len(w)
    x = np.zeros((n, d))
    xs, ys, scales = [], [], []
    for t in range(1, rounds + 1):
        noised = 2 <= t <= (stages if clean else stages + 1)
        scale = noise(t - 1) if noised else 0.0
        y = x + scale * np.array([draws(key, NOISE, i, t).standard_normal(d) for i in range(n)])
        xs.append(x), ys.append(y), scales.append(scale)
        x = w @ y
        if t <= stages:
            z = np.stack([project(row) for row in x])
            x = np.stack([project(row) for row in z - eta(t) * gradients(t, z)])
    return {"x": np.array(xs), "h": np.array(ys), "scale": np.array(scales)}


def huang(
    run: Run,
    rounds: int,
    d: int,
    gradients: Gradients,
    a: np.ndarray,
    project: Callable[[np.ndarray], np.ndarray],
    gamma: Step,
    scale: Step,
) -> Run:
    """Run Huang: y(t) = x(t − 1) + Lap(b(t − 1)), z = A y, x(t) = P(z − γ(t) g(z)); x(0) = 0 is sent without noise."""
    n = len(a)
    x = np.zeros((n, d))
    for t in range(1, rounds + 1):
        y = run.release(t, x, x, np.full(n, scale(t - 1) if t > 1 else 0.0), np.zeros((n, 0)))
        z = a @ y
        x = np.stack([project(row) for row in z - gamma(t) * gradients(t, z)])
    return run
