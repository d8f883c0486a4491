"""Test the statements of a part: python -m mpinodes.check FILE, or the name of a part.

A part is an algorithm, a loss, a data set, ... FILE is a Python file that you wrote for algorithm.path, data.path,
problem.path, problem.set_path, step.path, privacy.path, topology.path or record.metrics. The check runs the part on
small examples, and compares the behavior with the statements of the part.

- Purity (equal arguments give equal results): methods are called again.
- What an algorithm states about its messages (sensitivities and leakage): agents run again on adjacent data.
- The agents of an algorithm exchange only messages: each agent is run alone, and some runs are repeated in another
  process. If no fault was found, one run is repeated over MPI.

A check can refute a statement, but cannot prove a statement.

Exit code 0: no fault was found. If a FILE was checked, this outcome is recorded, and the summary of a later run with
this file may say that the statements were tested. Exit code 1: faults were found, and are printed. Exit code 2: the
command line is wrong, or there is nothing to check.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from mpinodes.core.errors import BadInput
from mpinodes.core.experiment import is_file
from mpinodes.launch.arguments import Parser
from mpinodes.launch.launching import command, say


@command
def main(argv: list[str]) -> int:
    """Run the command and return its exit code."""
    parser = Parser("check", __doc__)
    parser.add_argument("part", metavar="FILE | NAME", type=os.path.expanduser, help="a Python file, or a part's name")
    parser.add_argument("--seed", type=int, default=0, help="seed of the test data (0)")
    options = parser.parse_args(argv)
    from mpinodes.auditing.user_file import check
    from mpinodes.config import own_files as sources
    from mpinodes.config.registry import parts_called

    if options.seed < 0:
        raise BadInput("--seed must be at least 0")
    file = Path(options.part).absolute() if is_file(options.part) else None
    digest = sources.digest_of(file) if file and file.is_file() else ""
    reports = []
    for kind, part in parts_called(options.part):
        began = time.perf_counter()
        reports.append(check(kind, part, options.seed))
        print("\n".join(reports[-1].lines(time.perf_counter() - began)))
    if any(report.faults for report in reports):
        return 1
    if file:
        try:
            sources.stamp(file, digest)
            tested = sources.TESTED.format(digest[: sources.SHORT])
            print(f"this is recorded: a proven epsilon that depends on this file may now be marked: {tested}")
        except OSError as error:
            say(f"cannot store the outcome of the check: {error}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
