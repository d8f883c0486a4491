"""Check the sensitivities of a finished run by replaying the run on adjacent data: python -m mpinodes.replay RUN.

Adjacent data sets differ in one sample, one round or one agent (privacy.adjacency). The messages on adjacent data are
compared with the recorded messages of the run. For every agent, the command prints these numbers:

- the largest change of a message, divided by the change that the accountant assumes: for the first message that depends
  on the changed data, and for all later messages;
- the round of the message with the largest of these quotients;
- the largest number of compared messages that one change of the data moves;
- the number of adjacent data sets with which a message was tested.

The data of each round except the last are changed, one round at a time. The messages are compared up to the first
message that depends on the changed data. For some rounds (about --rounds), all later messages are compared, too.

The exit code is 1 if a message moved by more than the accountant assumes, or if a fact that a message states about
itself, such as its sensitivity, depends on the data. The exit code is 2 if the directory cannot be replayed.
"""

from __future__ import annotations

import sys
from pathlib import Path

from mpinodes.core.errors import BadInput
from mpinodes.launch.arguments import Parser
from mpinodes.launch.launching import command


@command
def main(argv: list[str]) -> int:
    """Run the command `mpinodes replay` and return its exit code."""
    parser = Parser("replay", __doc__)
    parser.add_argument("run", metavar="RUN", type=Path, help="the directory of a run with record.transcript=true")
    parser.add_argument(
        "--rounds", type=int, default=12, help="about how many rounds to change and compare in all later messages (12)"
    )
    parser.add_argument("--seed", type=int, default=0, help="seed for drawing the changed samples (0)")
    options = parser.parse_args(argv)
    from threadpoolctl import threadpool_limits

    from mpinodes.auditing.adjacent_replay import replays
    from mpinodes.auditing.transcripts import Recorded

    if options.rounds < 1 or options.seed < 0:
        raise BadInput("--rounds must be at least 1, and --seed at least 0")
    with threadpool_limits(1):
        findings = replays(Recorded(options.run), options.seed, options.rounds)
    print("        largest change/assumed change         messages moved")
    print("agent         first message   later    in round   by one sample   adjacent data sets")
    for f in findings:
        mark = "   EXCEEDED" * f.exceeded + " (its sensitivity depends on the data)" * (not f.public)
        print(f"{f.agent:5} {f.direct:21.4f} {f.hidden:7.4f} {f.round:11} {f.touched:15} {f.changes:20}{mark}")
    worst = max(findings, key=lambda f: (f.exceeded, max(f.direct, f.hidden)))
    if worst.exceeded:
        fault = f"agent {worst.agent}, round {worst.round}: a message changed by more than the accountant's bound"
        if not worst.public:
            fault = f"the sensitivity that agent {worst.agent} states depends on the data; use public constants only"
        print(f"exceeded: {fault}")
        return 1
    if not any(f.direct for f in findings):
        print(
            "no sensitivity was tested: changing a sample changed no message that has a finite sensitivity and is the "
            "first to depend on this sample"
        )
    else:
        print(f"no message exceeded its bound; nearest to its bound: agent {worst.agent}, round {worst.round}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
