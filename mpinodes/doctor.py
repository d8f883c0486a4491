"""Whether runs will go well here, and what to change: [mpirun -n 8] python -m mpinodes.doctor [DIRECTORY].

One screen: MPI and its launcher, hosts and cores, BLAS threads, shared memory and what aborted jobs left in it, the
file system of DIRECTORY (where runs are to be written; default: runs), clocks, versions, and a second of exchanging
frames. Each line is ok, a note, or to mend, with what to do; it changes nothing itself. Exit code 0: nothing is to be
mended; 1: something is (or the launcher's own code, where it had to end ranks that hang).
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from mpinodes import (
    __version__,
    run,  # noqa: F401 (which sets the number of BLAS threads)
)
from mpinodes.config.arguments import QuietParser
from mpinodes.core.errors import BadInput
from mpinodes.launch.launching import BAD_INPUT, command, first_of_host, launcher


def _arguments() -> QuietParser:
    parser = QuietParser("doctor", __doc__, add_help=False)
    parser.add_argument("directory", nargs="?", type=Path, default=Path("runs"), metavar="DIRECTORY")
    parser.add_argument("--limit", type=float, metavar="SECONDS", help="for all of it; default: 60, and 1 a rank")
    parser.add_argument(
        "--leftovers", action="store_true", help="only print what aborted MPI jobs of yours left on this host"
    )
    parser.add_argument("--help", action="store_true", help="print this")
    return parser


@command
def main(argv: list[str]) -> int:
    """The whole command; returns its exit code."""
    started = launcher()
    speaks = started is None or started.rank == 0
    try:
        options = _arguments().parse_args(argv)
        if options.limit is not None and not 1 <= options.limit <= 86400:
            raise BadInput("--limit must be from 1 to 86400 seconds")
    except BadInput:
        if speaks:
            raise
        time.sleep(2)  # let rank 0 be heard: some launchers end all ranks with the first that fails
        return BAD_INPUT
    if options.help:
        if speaks:
            _arguments().print_help()
        return 0
    if options.leftovers:
        from mpinodes.running.doctor.leftovers import leftovers

        if first_of_host():
            print("".join(f"{path}\n" for path in leftovers()), end="")
        return 0
    from mpinodes.running.doctor.examination import examine
    from mpinodes.running.doctor.supervised import supervised

    limit = options.limit or 60.0 + (started.size if started else 0)
    return supervised(lambda stage: examine(options.directory, __version__, limit, stage), limit, started)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
