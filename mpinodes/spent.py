"""Compute the privacy loss of publishing several finished runs: python -m mpinodes.spent RUN...

A RUN is the directory of a finished run, with all its repeats. If runs use the same data, their privacy losses are
composed. The losses are composed for each sample separately, if the records say which samples each run used. If runs
use data sets without common samples, the result is the largest privacy loss of a single data set.

Two runs on your own files count as runs on the same data, unless both data.file and data.identity are different. With
different names in data.identity, you declare that the data sets have no common sample. The result holds only if the
settings of all runs were fixed before the first run.

Exit code 2: the command line is wrong, or the runs cannot be read or cannot be combined.
"""

from __future__ import annotations

import sys

from mpinodes.core.errors import BadInput
from mpinodes.launch.arguments import Parser
from mpinodes.launch.launching import command


@command
def main(argv: list[str]) -> int:
    """Run the command `mpinodes.spent`, and return its exit code."""
    parser = Parser("spent", __doc__)
    parser.add_runs("RUN", "the directory of a finished run")
    delta = "the delta of the proven epsilon (default: the least delta of the runs)"
    parser.add_argument("--delta", type=float, help=delta)
    options = parser.parse_args(argv)
    from mpinodes.finished import joint_cost as spent

    if options.delta is not None and not 0 < options.delta < 1:
        raise BadInput("--delta must be above 0 and below 1")
    print(spent.text(spent.read(options.runs), options.delta))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
