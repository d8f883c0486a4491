"""Show that a relayed message may reveal as much as the message itself: python scripts/relayed_message.py [--runs N].

Agent u sends y = v + n to agent w; the viewer does not see y. Agent w mixes y with weight 0.1, takes a gradient step,
adds noise of the same law, and sends the result m to the viewer:

    z = 0.1 y + 0.9 x,    m = z − η f'(z) + n',    n, n' ~ N(0, 1),  x = 0 known,  v = ±1/2

The total variation distance of the two laws of m measures how well m distinguishes v = 1/2 from v = −1/2. The script
computes it by integration over n, and bounds it from below by guessing v in simulated runs.

Published analyses of the loss between two nodes, for gossip with gradient steps, follow the *linear* path of a message:
a share of 0.1 arrives under noise of standard deviation at least 1, and the gradient of w adds nothing. This assumes
that the inputs of each agent are fixed beforehand, or depend only on what the viewer has seen. Here they do not: the
gradient is taken at a point that depends on y, which the viewer has not seen. A steep gradient can reveal y almost
completely. By post-processing, m cannot reveal more than y does on the link from u to w.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np
from scipy.stats import norm

WEIGHT, SHIFT = 0.1, 1.0
Gradient = Callable[[np.ndarray], np.ndarray]

LOSSES: dict[str, tuple[str, Gradient]] = {
    "frozen": ("none, as if it did not depend on received messages", np.zeros_like),
    "mild": ("quadratic, step times curvature 1/2", lambda z: 0.5 * z),
    "steep": ("quadratic, step times curvature 100", lambda z: 100 * z),
    "clipped": ("logistic at scale 1/1000, clipped; step times clip 3", lambda z: 3 * np.tanh(1000 * z)),
}


def distance(gradient: Gradient) -> float:
    """Return the total variation distance of m's laws at v = ±1/2: ½ ∫ |p₊ − p₋|, by quadrature over n and m."""
    noise, width = np.linspace(-9, 9, 4001, retstep=True)
    weights = norm.pdf(noise) * width

    def sent(v: float) -> np.ndarray:
        z = WEIGHT * (v + noise)
        return np.asarray(z - gradient(z))

    ends = [sent(v) for v in (SHIFT / 2, -SHIFT / 2)]
    m, step = np.linspace(min(map(np.min, ends)) - 9, max(map(np.max, ends)) + 9, 2001, retstep=True)
    apart = np.zeros(len(m))
    for sign, end in zip((1, -1), ends, strict=True):
        for k in range(0, len(m), 500):
            apart[k : k + 500] += sign * norm.pdf(m[k : k + 500, None] - end) @ weights
    return float(np.abs(apart).sum() * step / 2)


def guessed(gradient: Gradient, runs: int, seed: int = 0) -> tuple[float, float]:
    """Return the advantage of guessing v by the sign of m (or of −m) in simulated runs, and its standard error.

    The advantage is the share of right guesses minus the share of wrong guesses, a lower bound on the distance.
    """
    rng = np.random.default_rng(seed)
    v = SHIFT / 2 * rng.choice([-1.0, 1.0], runs)
    z = WEIGHT * (v + rng.standard_normal(runs))
    m = z - gradient(z) + rng.standard_normal(runs)
    share = float((np.sign(m) == np.sign(v)).mean())
    return abs(2 * share - 1), float(2 * np.sqrt(share * (1 - share) / runs))


def direct() -> float:
    """Return the total variation distance of y, on the link from u to w: 2 Φ(Δ/2σ) − 1."""
    return float(2 * norm.cdf(SHIFT / 2) - 1)


def linear(gain: float = 1.0) -> float:
    """Return the total variation distance of gain · 0.1 y + n' in closed form; y includes its own noise."""
    moved = gain * WEIGHT * SHIFT / np.sqrt(1 + (gain * WEIGHT) ** 2)
    return float(2 * norm.cdf(moved / 2) - 1)


def main() -> None:
    """Print one line for each gradient."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1_000_000)
    runs = parser.parse_args().runs
    print(f"total variation of u's message on its own link: {direct():.3f}")
    print(f"of a share of {WEIGHT:g} of it under the relay's noise alone, as in linear analyses: {linear():.3f}")
    for name, (text, gradient) in LOSSES.items():
        shown, error = guessed(gradient, runs)
        print(f"{name}: {distance(gradient):.3f}, guessed {shown:.3f} ± {error:.3f}   gradient: {text}")


if __name__ == "__main__":
    main()
