"""A relayed message may tell as much as the one that was relayed: python scripts/relayed_message.py [--runs N].

Agent u says y = v + n to agent w, whom the viewer does not see hear it; w mixes it with weight 0.1, takes a gradient
step of its own, and says the result, with noise of the same law, to the viewer:

    z = 0.1 y + 0.9 x,    m = z − η f'(z) + n',    n, n' ~ N(0, 1),  x = 0 known,  v = ±1/2

How well m tells v = 1/2 from v = −1/2 is the total variation distance of its two laws, which is computed exactly, by
integration over n, and bounded from below by guessing v in simulated runs.

Accounts of what one node learns of another that are published for gossip with gradient steps in between follow the
*linear* way of a message: a share of 0.1 of it arrives, under noise of standard deviation 1 at least, and the gradient
adds nothing, being w's own. That takes the values that each agent puts in to be fixed beforehand, or functions of what
the viewer itself has seen (composition over stretches of gossip, each with inputs that are given). Here they are not:
the gradient is taken at a point that depends on y, which the viewer has not seen. What it makes of y can be anything,
and comes near to y itself where it is steep; beyond the link u to w it cannot go, by post-processing.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np
from scipy.stats import norm

WEIGHT, SHIFT = 0.1, 1.0
Gradient = Callable[[np.ndarray], np.ndarray]

LOSSES: dict[str, tuple[str, Gradient]] = {
    "frozen": ("none: as if it did not depend on what was heard", np.zeros_like),
    "mild": ("quadratic, step times curvature 1/2", lambda z: 0.5 * z),
    "steep": ("quadratic, step times curvature 100", lambda z: 100 * z),
    "clipped": ("logistic at scale 1/1000, clipped; step times clip 3", lambda z: 3 * np.tanh(1000 * z)),
}


def distance(gradient: Gradient) -> float:
    """Total variation distance of m at v = ±1/2: ½ ∫ |p₊ − p₋|, by quadrature over n and over m."""
    noise, width = np.linspace(-9, 9, 4001, retstep=True)
    weights = norm.pdf(noise) * width

    def said(v: float) -> np.ndarray:
        z = WEIGHT * (v + noise)
        return np.asarray(z - gradient(z))

    ends = [said(v) for v in (SHIFT / 2, -SHIFT / 2)]
    m, step = np.linspace(min(map(np.min, ends)) - 9, max(map(np.max, ends)) + 9, 2001, retstep=True)
    apart = np.zeros(len(m))
    for sign, end in zip((1, -1), ends, strict=True):
        for k in range(0, len(m), 500):
            apart[k : k + 500] += sign * norm.pdf(m[k : k + 500, None] - end) @ weights
    return float(np.abs(apart).sum() * step / 2)


def guessed(gradient: Gradient, runs: int, seed: int = 0) -> tuple[float, float]:
    """Of simulated runs, how much oftener than not the sign of m (or of −m) tells v, and the standard error."""
    rng = np.random.default_rng(seed)
    v = SHIFT / 2 * rng.choice([-1.0, 1.0], runs)
    z = WEIGHT * (v + rng.standard_normal(runs))
    m = z - gradient(z) + rng.standard_normal(runs)
    share = float((np.sign(m) == np.sign(v)).mean())
    return abs(2 * share - 1), float(2 * np.sqrt(share * (1 - share) / runs))


def direct() -> float:
    """On the link itself: 2 Φ(Δ/2σ) − 1."""
    return float(2 * norm.cdf(SHIFT / 2) - 1)


def linear(gain: float = 1.0) -> float:
    """Of gain · 0.1 y + n' in closed form: y's own noise comes with it."""
    moved = gain * WEIGHT * SHIFT / np.sqrt(1 + (gain * WEIGHT) ** 2)
    return float(2 * norm.cdf(moved / 2) - 1)


def main() -> None:
    """Print a line for each gradient."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1_000_000)
    runs = parser.parse_args().runs
    print(f"total variation of u's message on its own link: {direct():.3f}")
    print(f"of a share of {WEIGHT:g} of it under the relay's noise alone, as linear accounts have it: {linear():.3f}")
    for name, (what, gradient) in LOSSES.items():
        shown, error = guessed(gradient, runs)
        print(f"{name}: {distance(gradient):.3f}, guessed {shown:.3f} ± {error:.3f}   gradient: {what}")


if __name__ == "__main__":
    main()
