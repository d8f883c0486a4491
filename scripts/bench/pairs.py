"""Rounds per second of two checkouts in turn: python scripts/bench/pairs.py --old DIR --new DIR [key=value ...].

Each pair is `mpirun -n 8 python -m mpinodes.run key=value ... report=false` of one checkout and then of the other, the
order changing from pair to pair, so that a machine whose speed drifts slows both; what is printed is the median of the
ratios new/old of what the runs themselves counted.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from mpinodes.launch.launching import mpirun

WORDS = ["algorithm.name=dpsda-ps", "data.epochs=20", "rounds=5000"]  # without any others
QUICK = ["rounds=16"]


def rate(checkout: Path, ranks: int, words: list[str]) -> float:
    """Rounds per second of one run."""
    with tempfile.TemporaryDirectory() as there:
        subprocess.run(
            [
                *mpirun(), "-n", str(ranks), sys.executable, "-m", "mpinodes.run",
                *words, "report=false", "output.dir=run",
            ],
            cwd=there, env=os.environ | {"PYTHONPATH": str(checkout.resolve())}, stdout=subprocess.DEVNULL, check=True,
        )  # fmt: skip
        return float(json.loads((Path(there) / "run" / "summary.json").read_text())["rounds_per_second"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--old", type=Path, required=True, help="a checkout of mpinodes")
    parser.add_argument("--new", type=Path, required=True, help="another")
    parser.add_argument("--pairs", type=int, default=10, help="(10)")
    parser.add_argument("--ranks", type=int, default=8, help="(8)")
    parser.add_argument("--quick", action="store_true", help="one pair of a few rounds: whether it runs, not how fast")
    parser.add_argument("words", nargs="*", help="key=value of the experiment")
    asked = parser.parse_args()
    words = [*(asked.words or WORDS), *(QUICK if asked.quick else [])]
    ratios = []
    for pair in range(1 if asked.quick else asked.pairs):
        order = ["old", "new"] if pair % 2 == 0 else ["new", "old"]
        found = {name: rate(getattr(asked, name), asked.ranks, words) for name in order}
        ratios.append(found["new"] / found["old"])
        print(f"old {found['old']:.0f} rounds/s, new {found['new']:.0f}, new/old {ratios[-1]:.3f}", flush=True)
    print(f"median of {len(ratios)}: {statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})")


if __name__ == "__main__":
    main()
