"""Finished runs side by side: python -m mpinodes.compare STUDY|RUN...

Writes figures (means over seeds with their 95 % intervals), tables (CSV, Parquet, Markdown, LaTeX) and differences
paired by seed, and says in what the runs differ beyond the axes, and what it costs in privacy to publish them all.
Where each agent has losses of its own, losses and regrets are divided by the number of agents. Runs that form no grid
are grouped by --by and --along; of figures there are 12 at most, and what is left out is said.
"""

from __future__ import annotations

import sys
from pathlib import Path

from mpinodes.config.arguments import Parser
from mpinodes.launch.launching import command, show


@command
def main(argv: list[str]) -> int:
    """The whole command; returns its exit code."""
    parser = Parser("compare", __doc__)
    parser.add_argument(
        "runs", nargs="+", metavar="STUDY | RUN", type=Path, help="a study's directory, or finished runs"
    )
    parser.add_argument("--by", metavar="KEY", help="the key whose values are compared (the first that is no number)")
    parser.add_argument(
        "--along", metavar="KEY,...", type=lambda keys: [] if keys == "none" else keys.replace(" ", "").split(","),
        help="the keys of the other axes, or none; means are over the rest (as few keys as tell the runs apart)",
    )  # fmt: skip
    parser.add_argument("--output", metavar="DIR", type=Path, help="where to (STUDY/compare, or compare)")
    options = parser.parse_args(argv)
    from mpinodes.studies import telling

    show(telling.compare(options.runs, options.by, options.output, options.along))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
