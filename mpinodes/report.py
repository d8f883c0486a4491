"""Draw the report of runs again: python -m mpinodes.report RUN..."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from mpinodes.core.errors import BadInput
from mpinodes.results.report import draw


def main(argv: list[str]) -> int:
    """The whole command; returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m mpinodes.report", description=__doc__)
    parser.add_argument("runs", nargs="+", metavar="RUN", type=Path, help="a run directory")
    try:
        for run in parser.parse_args(argv).runs:
            print(draw(run))
    except BadInput as error:
        print(f"mpinodes: error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
