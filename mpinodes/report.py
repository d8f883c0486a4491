"""Draw the report of runs again: python -m mpinodes.report RUN..."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from mpinodes.results.report import draw
from mpinodes.simulation.launching import command


@command
def main(argv: list[str]) -> int:
    """The whole command; returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m mpinodes.report", description=__doc__)
    parser.add_argument("runs", nargs="+", metavar="RUN", type=Path, help="a run directory")
    for run in parser.parse_args(argv).runs:
        print(draw(run, vector=True))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
