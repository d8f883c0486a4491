"""Watch runs while they go on, from another shell: python -m mpinodes.watch RUN...

It prints the rounds done, the metrics of the last round that was logged, rounds per second and seconds left. It reads
the log of a run, as `mpinodes.load` does, and costs the run nothing. It ends when all the runs have ended: exit code 0,
or 1 where one failed, or ended before its time.
"""

from __future__ import annotations

import sys

from mpinodes.launch.arguments import Parser
from mpinodes.launch.launching import INTERRUPTED, command


@command
def main(argv: list[str]) -> int:
    """Run the command and return its exit code."""
    parser = Parser("watch", __doc__)
    parser.add_runs("RUN", "a run directory, also one that is to come")
    runs = parser.parse_args(argv).runs
    from mpinodes.running.monitor import watch

    try:
        return watch(runs, sys.stdout)
    except KeyboardInterrupt:
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
