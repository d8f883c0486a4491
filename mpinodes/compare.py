"""Put finished runs side by side: python -m mpinodes.compare STUDY|RUN...

Write figures (means over seeds with their 95 % intervals), tables (CSV, Parquet, Markdown, LaTeX) and differences
paired by seed. Report in which keys the runs differ in addition to the compared keys, and the privacy loss of
publishing all runs together. If each agent has its own loss, losses and regrets are divided by the number of agents.
If the runs form no grid of settings, choose the compared keys by --by and --along. At most 12 figures are drawn; the
output names the figures that are left out.
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
    along = "the keys of the other axes, or none; means are over the rest (as few keys as distinguish the runs)"
    parser.add_argument("--along", metavar="KEY,...", type=keys, help=along)
    parser.add_argument("--output", metavar="DIR", type=Path, help="the directory to write (STUDY/compare, or compare)")
    options = parser.parse_args(argv)
    from mpinodes.studies import compare

    show(str(compare(*options.runs, by=options.by, along=options.along, output=options.output)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
