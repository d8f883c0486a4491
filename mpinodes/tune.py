"""Tune settings at a fixed proven ε: python -m mpinodes.tune EXPERIMENT [key=a,b,c ...] MODE.

MODE is --public FILE, --private or --accounted. The experiment needs a privacy budget. A trial is a run with other
values of some keys: those that key=a,b,c lists, or by default the step, the clip, the radius and the rounds. The number
of trials and their settings are fixed before the first trial. The best settings are written to tuned.toml. The test
samples of the experiment are never read.

--public FILE runs the trials on a public or synthetic file with the same columns, which costs no privacy. --private
runs the trials on the private data, with a fourth of the training samples held out to score the trials; ε does not
include the cost of tuning. --accounted does the same, but each agent releases only noised counts of correct answers,
and all trials, counts and the final run together keep the budget.
"""

from __future__ import annotations

import os

from mpinodes.launch.threads import ONE_THREAD

os.environ.update(ONE_THREAD)  # before numpy is imported, here and by workers

import sys
from pathlib import Path

from mpinodes.core.errors import BadInput
from mpinodes.launch.arguments import Parser
from mpinodes.launch.launching import INTERRUPTED, command, say, show


@command
def main(argv: list[str]) -> int:
    """Run the command `mpinodes tune` and return its exit code."""
    parser = Parser("tune", __doc__)
    parser.add_words("EXPERIMENT | key=a,b,c", "an experiment file, then keys")
    mode = parser.add_mutually_exclusive_group(required=True)
    mode.add_argument("--public", metavar="FILE", default="", help="run the trials on a public file")
    mode.add_argument("--private", dest="mode", action="store_const", const="private", help="ε does not include tuning")
    mode.add_argument("--accounted", dest="mode", action="store_const", const="accounted", help="ε includes tuning")
    parser.add_argument("--trials", metavar="N", type=int, default=16, help="number of trials; default: 16")
    parser.add_argument("--output", metavar="FILE", type=Path, default=Path("tuned.toml"), help="file to write")
    options = parser.parse_intermixed_args(argv)
    file, *words = options.words or [""]
    if not file or "=" in file:
        raise BadInput(f"the experiment file is missing; see {parser.prog} --help")
    if not 1 <= options.trials <= 1000:
        raise BadInput(f"--trials {options.trials}: expected a number from 1 to 1000")
    if not options.output.parent.is_dir():
        raise BadInput(f"--output {options.output}: the folder does not exist")
    from mpinodes.core.asked import as_typed
    from mpinodes.studies.tuning import HEAD, tune

    if options.output.exists() and not options.output.read_text("utf-8", errors="replace").startswith(HEAD):
        raise BadInput(f"{options.output}: mpinodes tune did not write this file: choose another --output")
    try:
        tuned = tune(file, words, options.mode or "public", options.trials, options.public, options.output)
    except KeyboardInterrupt:
        say("interrupted; the same command continues the trials")
        return INTERRUPTED
    show(as_typed(str(tuned)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
