"""Compare the privacy loss of PVP-ADMM's releases: two proven values and a simulated lower bound.

python scripts/gamma_norm_loss.py [--runs 1000000] [--delta 1e-5] [DIMENSION...]

The first proven value treats the noise as any mechanism with pure differential privacy. The second uses the privacy
curve of the gamma-norm noise itself. The lower bound comes from simulated log density ratios. All are ε at --delta.
"""

from __future__ import annotations

import argparse

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray
from scipy import stats

from mpinodes.config.compose import compose
from mpinodes.core.events import Events
from mpinodes.privacy.accountant import price
from mpinodes.privacy.ledger import Uses
from mpinodes.privacy.recursive import open_ledger
from mpinodes.running.budget import events as events_of

CONFIDENCE, CHUNK = 0.999, 50_000


def simulated(d: int, shifts: NDArray[np.float64], runs: int, delta: float) -> float:
    """Return a lower bound on ε, from simulated log density ratios of runs in which every change is the largest.

    The direction of a change may depend on earlier messages. It does not matter, because the noise is isotropic.

    Args:
        d: the dimension.
        shifts: (rounds,) the largest changes of the messages, in units of the noise scale.
        runs: the number of simulated runs.
        delta: δ.
    """
    rng, losses = np.random.default_rng(0), np.zeros(runs)
    for start in range(0, runs, CHUNK):
        some = losses[start : start + CHUNK]
        for x in shifts:
            r, g = rng.gamma(d, size=len(some)), rng.standard_normal(len(some))
            along = r * g / np.sqrt(g * g + rng.chisquare(d - 1, len(some)))
            some += np.sqrt(r * r + 2 * along * x + x * x) - r
    # δ at ε is larger than P(loss > ε + more)(1 − e^−more), for any more > 0.
    losses, counts, epsilon = np.sort(losses)[::-1], np.arange(1, min(runs, 100_000)), 0.0
    more = np.geomspace(0.1, 5, 12)
    surely = stats.beta(counts, runs - counts + 1).ppf((1 - CONFIDENCE) / len(more))
    for m in more:
        enough = np.flatnonzero(surely * (1 - np.exp(-m)) > delta)
        epsilon = max(epsilon, losses[enough[0]] - m) if len(enough) else epsilon
    return float(epsilon)


def proven(events: Events, delta: float) -> float:
    """Return the proven ε of one agent, all of whose samples are used in every release."""
    uses = Uses.of(events, lambda t: [0])
    return price([open_ledger(events, uses)], [1], len(events), delta, False).epsilon


def main() -> None:
    """Print one line for each dimension."""
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("dimensions", type=int, nargs="*", default=[10, 50, 105])
    asked.add_argument("--runs", type=int, default=1_000_000)
    asked.add_argument("--delta", type=float, default=1e-5)
    given = asked.parse_args()
    print(f"{'d':>5} {'any pure mechanism':>20} {'proven':>10} {'at least':>10}")
    for d in given.dimensions:
        setup = compose({"algorithm": {"name": "pvp-admm"}, "data": {"dimension": d}}, ranks=None)
        events = events_of(setup)[:, 0]
        noised = events.scale[:, 0] > 0
        shifts = events.l2[noised, 0] / events.scale[noised, 0]
        before, now = proven(replace(events, dimension=0), given.delta), proven(events, given.delta)
        print(f"{d:5} {before:20.4g} {now:10.4g} {simulated(d, shifts, given.runs, given.delta):10.4g}", flush=True)


if __name__ == "__main__":
    main()
