"""Finished runs side by side: python -m mpinodes.compare STUDY|RUN...

Writes figures (means over seeds with their 95 % intervals), tables (CSV, Parquet, Markdown, LaTeX) and differences
paired by seed, and says in what the runs differ beyond the axes, and what it costs in privacy to publish them all.
Where each agent has losses of its own, losses and regrets are divided by the number of agents. Runs that form no grid
are grouped by --by and --along; of figures there are 12 at most, and what is left out is said.
"""

from __future__ import annotations

import sys
from pathlib import Path

from mpinodes.launch.arguments import Parser
from mpinodes.launch.launching import command, show


@command
def main(argv: list[str]) -> int:
    """Run the command and return its exit code."""
    parser = Parser("compare", __doc__)
    parser.add_runs("STUDY | RUN", "a study's directory, or finished runs")
    parser.add_argument("--by", metavar="KEY", help="the key whose values are compared (the first that is no number)")
    keys = lambda text: [] if text == "none" else text.replace(" ", "").split(",")  # noqa: E731
    along = "the keys of the other axes, or none; means are over the rest (as few keys as tell the runs apart)"
    parser.add_argument("--along", metavar="KEY,...", type=keys, help=along)
    parser.add_argument("--output", metavar="DIR", type=Path, help="where to (STUDY/compare, or compare)")
    options = parser.parse_args(argv)
    from mpinodes.studies import compare

    show(str(compare(*options.runs, by=options.by, along=options.along, output=options.output)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
