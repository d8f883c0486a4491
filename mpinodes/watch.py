"""Watch runs while they go on, from another shell: python -m mpinodes.watch RUN...

The command prints the number of completed rounds, the mean loss so far, the rounds per second and the remaining time.
After the last round, the command prints which part of the summary is being computed. The command only reads files of
the runs.

The command ends when all runs have ended. Exit codes: 0; 1 if a run failed or was interrupted before its last round; 2
if a RUN exists, but is neither the directory of a run nor empty. A run counts as failed if no new round comes for a
long time.
"""

from __future__ import annotations

import sys

from mpinodes.launch.arguments import Parser
from mpinodes.launch.launching import INTERRUPTED, command


@command
def main(argv: list[str]) -> int:
    """Run the command `mpinodes.watch`, and return its exit code."""
    parser = Parser("watch", __doc__)
    parser.add_runs("RUN", "a run directory; it may be created later")
    runs = parser.parse_args(argv).runs
    from mpinodes.running.monitor import watch

    try:
        return watch(runs, sys.stdout)
    except KeyboardInterrupt:
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
