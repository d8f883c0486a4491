"""Run an experiment: mpirun -n N python -m mpinodes.run [experiment.toml] [key=value ...].

N - 1 ranks are agents, and the last rank is the logger. The experiment has default values for all keys: with -n 8, 7
agents run DOLA on 25,000 synthetic samples, with the proven privacy loss ε = 1. Keys are the dotted keys of the TOML
file, as in privacy.epsilon=0.5.

Exit codes: 0 done; 2 bad input; 3 a rank failed; 4 a rank waited too long for another rank; 5 stopped by a signal, and
can be resumed; 130 interrupted; 141 the output pipe was closed. If a rank was killed, the launcher sets the code: 9
(MPICH), 137 (Open MPI, srun).
"""

from __future__ import annotations

import gc
import os
import signal

if __name__ == "__main__":
    gc.disable()  # until `Job.run`, because imports create no garbage
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # until `Job` begins: a rank that waits in MPI ends at once

from mpinodes.launch.threads import ONE_THREAD

os.environ.update(ONE_THREAD)  # before numpy is imported

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from mpinodes.core.errors import BadInput
from mpinodes.launch.launching import command, deadline_of, find_world, has_more_ranks_than_cores, launcher, leave

if TYPE_CHECKING:
    import argparse


def inform(options: argparse.Namespace, ranks: int | None) -> None:
    """Print the information for the option --list, --explain or --dry-run.

    If there are several of these options, only one is obeyed: --list before --explain before --dry-run.

    Args:
        options: the parsed command line.
        ranks: the number of MPI processes, including the logger; None if one process runs all agents.

    Raises:
        BadInput: --explain names no key, section or part, or the experiment cannot be run.
    """
    from mpinodes.config import explaining
    from mpinodes.config.compose import origin
    from mpinodes.config.schema import suggest
    from mpinodes.core.asked import asked_for
    from mpinodes.running import estimate
    from mpinodes.running.setup import rehearse, set_up

    word, asked = options.explain, asked_for(options.words)
    if options.list:
        print(explaining.listed())
    elif not word:
        setup = set_up(asked, ranks)
        rehearse(setup)
        print(setup.experiment.toml() + estimate.as_comments(setup), end="")
    elif part := explaining.explained_part(word):
        print(part)
    else:
        keys = explaining.documented_keys(asked)
        asked_keys = [key for key in keys if word == "all" or f"{key}.".startswith(f"{word}.")]
        lines = [f"{key}: {keys[key]}" for key in asked_keys]
        if len(lines) > 1:  # all keys, or the keys of a section
            print("\n".join(lines))
        elif lines:
            print(f"{lines[0]}{origin(word, asked, ranks)}")
        else:
            raise BadInput(f"--explain {word}: no such key; {suggest(word, list(keys))}")


@command
def main(argv: list[str]) -> int:
    """Run the command `mpinodes.run`, and return its exit code."""
    started = launcher()
    ranks = started.size if started else None
    speaks = started is None or started.rank == 0
    words, resumed, in_one = argv, None, False
    if any(word.startswith("-") for word in argv):  # without options no rank has to import the parser
        from mpinodes.launch.arguments import Parser

        parser = Parser("run", __doc__)
        parser.add_words("experiment.toml | key=value", "a file, then overrides")
        parser.add_argument("--lockstep", action="store_true", help="run all agents in this process, without mpirun")
        go_on = "continue the run in the directory RUN, which ended before its last round"
        parser.add_argument("--resume", metavar="RUN", type=Path, help=go_on)
        parser.add_argument("--dry-run", action="store_true", help="check everything and print the resolved experiment")
        parser.add_argument("--list", action="store_true", help="print all installed parts, one line for each")
        explain = "explain a key, and which file or default sets its value; or a section ('all': all keys); or a part: "
        parser.add_argument("--explain", metavar="WORD", help=explain + "--explain dola")
        options = parser.parse_intermixed_args(argv)
        words, resumed, in_one = options.words, options.resume, options.lockstep
        if options.list or options.explain or options.dry_run:
            if speaks:
                inform(options, ranks)
            return 0
        if in_one and started and started.size > 1:
            raise BadInput("--lockstep runs all agents in one process: start it without mpirun")
    limit = deadline_of(words, resumed)
    world = None if in_one else find_world(started, limit)
    from mpinodes.running.job import Job

    if signal.getsignal(signal.SIGINT) == signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)  # from here on, the job reports an interrupt
    with Job(world, limit) as job:
        return job.guarded(lambda: job.run(words, resumed))


if __name__ == "__main__":
    words = sys.argv[1:]
    if has_more_ranks_than_cores():
        from mpinodes.launch.forking import fork_with_others

        words = fork_with_others(words)
    leave(main(words))
