"""The script that one writes and throws away: all agents of DOLA on a ring as rows of one matrix, in one process.

    python scripts/bench/peers/vectorised.py --agents 7 --dimension 784 --rounds 1000

A round does the arithmetic of one of mpinodes (noise, mixing, clipped subgradient of the hinge with its regularizer,
step, projection), and the losses of every agent's point on every agent's sample are computed in blocks. Nothing is
sent, checked, accounted for, recorded or certified: what that is worth is for the reader to say. --runs N does as many
runs, one after the other, with different noise. Prints one line of JSON: seconds and CPU seconds of the rounds, and of
the losses.
"""

from __future__ import annotations

import os

for _library in ("OPENBLAS", "OMP", "MKL"):
    os.environ[f"{_library}_NUM_THREADS"] = "1"

import argparse
import json
import time

import numpy as np

BLOCK = 64  # rounds


def ring(n: int) -> np.ndarray:
    """Metropolis weights: (n, n)."""
    w = np.zeros((n, n))
    for i in range(n):
        for j in {(i - 1) % n, (i + 1) % n} - {i}:
            w[i, j] = 1 / (1 + min(2, n - 1))
    return w + np.diag(1 - w.sum(axis=1))


def simulate(a, b, weights, strength=0.01, clip=1.0, radius=10.0, epsilon=1.0, seed=0) -> np.ndarray:
    """Decisions (rounds, agents, d) on samples a (rounds, agents, d) with labels b (rounds, agents)."""
    rounds, n, d = a.shape
    rng = np.random.default_rng(seed)
    x, decisions, alpha = np.zeros((n, d)), np.empty(a.shape), 0.0
    for t in range(rounds):
        decisions[t] = x
        # Laplace noise for sensitivity 2 alpha sqrt(d) clip, none on the start, which no data has reached.
        scale = 2 * alpha * np.sqrt(d) * clip / epsilon
        said = x + rng.laplace(0.0, 1.0, (n, d)) * scale
        mixed = weights @ said
        slope = np.where(b[t] * np.vecdot(a[t], mixed) < 1, -b[t], 0.0)
        norms = np.abs(slope) * np.sqrt(np.vecdot(a[t], a[t]))
        gradient = (slope * clip / np.maximum(norms, clip))[:, None] * a[t] + strength * mixed
        alpha = 1 / (strength * (t + 1))
        x = mixed - alpha * gradient
        size = np.sqrt(np.vecdot(x, x))
        x *= (radius / np.maximum(size, radius))[:, None]
    return decisions


def losses(a, b, decisions, strength=0.01) -> np.ndarray:
    """Of every agent's point on all agents' samples together: (rounds, agents)."""
    found = np.empty(decisions.shape[:2])
    for first in range(0, len(a), BLOCK):
        block = slice(first, first + BLOCK)
        margins = b[block, None] * (decisions[block] @ a[block].transpose(0, 2, 1))
        squares = np.vecdot(decisions[block], decisions[block])
        found[block] = np.maximum(0, 1 - margins).sum(axis=2) + len(b[0]) * strength / 2 * squares
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in (("agents", 7), ("dimension", 784), ("rounds", 1000), ("runs", 1)):
        parser.add_argument(f"--{name}", type=int, default=value)
    given = parser.parse_args()
    rng = np.random.default_rng(1)
    a = rng.standard_normal((given.rounds, given.agents, given.dimension))
    a /= np.sqrt(np.vecdot(a, a))[..., None]
    b = np.where(a @ rng.standard_normal(given.dimension) > 0, 1.0, -1.0)
    spent = np.zeros((2, 2))  # of rounds and losses: seconds, and those of CPU
    for seed in range(given.runs):
        clocks = [(time.perf_counter(), time.process_time())]
        decisions = simulate(a, b, ring(given.agents), seed=seed)
        clocks.append((time.perf_counter(), time.process_time()))
        fit = losses(a, b, decisions)
        clocks.append((time.perf_counter(), time.process_time()))
        spent += np.diff(np.array(clocks), axis=0)
    wall, cpu = spent.T.tolist()
    print(
        json.dumps(
            {"seconds": sum(wall), "cpu": sum(cpu), "cpu_rounds": cpu[0], "cpu_losses": cpu[1], "loss": fit[-1].mean()}
        )
    )


if __name__ == "__main__":
    main()
