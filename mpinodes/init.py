"""Write an experiment on your own data: python -m mpinodes.init FILE... [key=value ...] [--output experiment.toml].

FILE is a .csv, .parquet, .npz or LIBSVM text file with samples for all agents. Several files, as in part-0.csv
part-1.csv, are the files of agents 0, 1, ... The command reads what a run must know about the files (columns, header,
labels, bounds), and chooses a loss and a method. Keys override the experiment: data.target=NAME names the column of the
targets, if the targets are not in the last column.
"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from mpinodes.core.errors import BadInput
from mpinodes.launch.arguments import Parser
from mpinodes.launch.launching import command, show


@command
def main(argv: list[str]) -> int:
    """Run the command `mpinodes init` and return its exit code."""
    parser = Parser("init", __doc__)
    parser.add_words("FILE | key=value", "data files, then keys of the experiment")
    parser.add_argument("--output", metavar="FILE", type=Path, default=Path("experiment.toml"), help="file to write")
    options = parser.parse_intermixed_args(argv)
    files, keys = ([word for word in options.words if ("=" in word) == is_key] for is_key in (False, True))
    if not files:
        raise BadInput(f"the data file is missing; see {parser.prog} --help")
    if options.output.exists():
        raise BadInput(f"{options.output}: this file exists; delete the file, or choose another --output")
    if not options.output.parent.is_dir():
        raise BadInput(f"--output {options.output}: the folder does not exist")
    from mpinodes.config.initial import experiment
    from mpinodes.core.asked import as_typed, parse
    from mpinodes.runlog.directories import write_text

    tree, text, line = experiment(files, parse(None, keys))
    write_text(options.output, text)
    out, method = shlex.quote(str(options.output)), tree["algorithm"]
    budget = f"ε = {tree['privacy']['budget']['epsilon']:g} at δ = {tree['privacy']['delta']:g}"
    lines = [
        line,
        f"{out}: {method.get('name', method.get('path'))}, loss {tree['problem']['loss']}, {budget}",
        "Next:",
        f"  mpinodes run --lockstep {out}       run the experiment; nothing is proven yet",
        f"  mpinodes tune {out} --private       choose better settings; or --public FILE, --accounted",
        f'  in {out}, check the facts in [data], and set facts = "stated": then ε is proven',
    ]
    show(as_typed("\n".join(lines)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
