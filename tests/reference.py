"""DPSDA written once more, from the paper's equations, with all agents in matrices.

Shares no code with mpinodes but its data: it draws from Philox by the documented addressing, builds the
weights from edges, and keeps the whole network in arrays.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

NOISE, GRADIENT_NOISE = 1, 3  # purposes, as documented in mpinodes.seeds


def draws(seed: int, purpose: int, agent: int, t: int) -> np.random.Generator:
    key = np.random.SeedSequence((seed, purpose, agent)).generate_state(2, np.uint64)
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
    """Σ over samples of each sample's gradient, scaled to norm `clip` where it is longer."""
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
    scale: float = 0.0,
    clip: float = np.inf,
    xi: float = 0.0,
    public: bool = False,
) -> dict[str, np.ndarray]:
    """Algorithms 1 and 2 with ψ = ½‖·‖² and α(t) = 1/√t.

    With `public` the gradient is taken at Π(mixed/w, α), which the agent's own gradient is not part of.
    `gradients(t, y)` are the samples' gradients of round t at y, (k, d). Returns y, the releases h (both
    (rounds, n, d)) and the push-sum weights w (rounds + 1, n).
    """
    owned = blocks(d, n)
    z, w = np.zeros((n, d)), np.ones(n)
    y = np.stack([project(np.zeros(d))] * n)
    at = y
    ys, hs, ws = [], [], [w]
    for t in range(1, rounds + 1):
        eta = np.zeros((n, d))
        if scale:
            eta = np.stack([draws(seed, NOISE, i, t).laplace(0.0, scale, d) for i in range(n)])
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
