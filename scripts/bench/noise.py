"""Microseconds per release of every backend of Laplace and Gaussian noise, side by side: python scripts/bench/noise.py.

The backends take turns, many times over, so that a machine whose speed drifts slows all of them; what is printed is
the median, and beside numpy's how many times as long the others take. OpenDP is left out where it is not installed.
"""

from __future__ import annotations

import argparse
import statistics
import time
from importlib.util import find_spec

import numpy as np

from mpinodes.core import RELEASED, Kind, Query
from mpinodes.core.seeds import Draws, Purpose
from mpinodes.mechanisms.backends import Backend, Law, backend

SCALE = 3.0
SLOW = {"opendp": 20}  # of how many turns it takes one


def timed(release: Backend, law: Law, query: Query, noise: Draws, repeats: int) -> float:
    """Microseconds of one release."""
    out = np.empty_like(query.value)
    start = time.perf_counter()
    for t in range(repeats):
        release(query, law, t, noise, out)
    return (time.perf_counter() - start) / repeats * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=500, help="of every backend (500)")
    turns = parser.parse_args().turns
    names = ["numpy", "lattice", *(["opendp"] if find_spec("opendp") else [])]
    backends = {name: backend(name) for name in names}
    noise = Draws(0, Purpose.NOISE, 0)
    print(f"{'law':10} {'d':>4} " + " ".join(f"{name:>22}" for name in names))
    for kind in (Kind.LAPLACE, Kind.GAUSSIAN):
        for d in (10, 64, 784):
            query = Query(np.random.default_rng(0).standard_normal(d), l1=1.0, l2=1.0, uses=1, leaks=RELEASED)
            found: dict[str, list[float]] = {name: [] for name in names}
            for turn in range(turns):
                for name, release in backends.items():
                    if turn % SLOW.get(name, 1) == 0:
                        found[name].append(timed(release, Law(kind, SCALE), query, noise, 1 if name in SLOW else 20))
            middle = {name: statistics.median(times) for name, times in found.items()}
            cells = (f"{middle[name]:9.1f} us ({middle[name] / middle['numpy']:6.1f}x)" for name in names)
            print(f"{kind.name.lower():10} {d:4} " + " ".join(cells), flush=True)


if __name__ == "__main__":
    main()
