"""Put finished runs side by side: python -m mpinodes.compare STUDY|RUN...

The command writes

- figures: means over seeds with their 95 % intervals; at most 12 figures are drawn, and the output names the others,
- tables: CSV, Parquet (needs pyarrow or fastparquet), Markdown and LaTeX,
- differences of results, paired by seed,
- the privacy loss of publishing all runs together,
- the keys in which the runs differ, apart from the compared keys.

If each agent has its own loss function, losses and regrets are divided by the number of agents. If the runs do not have
all combinations of the values of their keys, choose the compared keys by --by and --along.
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
    parser.add_runs("STUDY | RUN", "the directory of a study, or of a finished run")
    by = "the key whose values are compared (default: the first key with a value that is no number, or the first key)"
    parser.add_argument("--by", metavar="KEY", help=by)
    keys = lambda text: [] if text == "none" else text.replace(" ", "").split(",")  # noqa: E731
    along = "further compared keys, or none; results are means over all other keys (default: keys that tell runs apart)"
    parser.add_argument("--along", metavar="KEY,...", type=keys, help=along)
    output = "the directory to which files are written (default: STUDY/compare, or compare)"
    parser.add_argument("--output", metavar="DIR", type=Path, help=output)
    table = "table.md and table.tex: a row for each setting, or the main result with a column for each compared value"
    parser.add_argument("--table", choices=("long", "wide"), default="long", help=table)
    width = "figures for a paper, without warnings, as wide as a column (3.3 inches) or the page (7 inches)"
    parser.add_argument("--width", choices=("column", "page"), default="", help=width)
    parser.add_argument("--style", metavar="NAME|FILE", default="", help="a style of matplotlib for the figures")
    options = parser.parse_args(argv)
    from mpinodes.studies import compare

    show(str(compare(*options.runs, **{name: value for name, value in vars(options).items() if name != "runs"})))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
