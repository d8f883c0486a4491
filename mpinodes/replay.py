"""Replay a run on adjacent data against its transcript: python -m mpinodes.replay RUN.

Prints, for every agent, the largest realised change of a message beside the change that was accounted for, and how
many messages one changed sample moves. Exit code 1 where a message moved by more than its sensitivity.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from mpinodes.errors import BadInput


def main(argv: list[str]) -> int:
    """The whole command; returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m mpinodes.replay", description=__doc__)
    parser.add_argument("run", metavar="RUN", type=Path, help="the directory of a run with record.transcript=true")
    parser.add_argument("--rounds", type=int, default=12, help="how many rounds are changed, one at a time (12)")
    parser.add_argument("--seed", type=int, default=0, help="of the adjacent samples (0)")
    options = parser.parse_args(argv)
    from threadpoolctl import threadpool_limits

    from mpinodes.privacy.replay import Recorded, replay

    try:
        with threadpool_limits(1):
            recorded = Recorded(options.run)
            agents = range(recorded.parts.topology.agents)
            findings = [replay(recorded, i, options.rounds, options.seed) for i in agents]
    except BadInput as error:
        print(f"mpinodes: error: {error}", file=sys.stderr)
        return 2
    print("        largest realised/claimed change       messages moved")
    print("agent   carrying the sample   later    in round   by one sample   adjacent data sets")
    for f in findings:
        mark = "   EXCEEDED" if f.exceeded else ""
        print(f"{f.agent:5} {f.direct:21.4f} {f.hidden:7.4f} {f.round:11} {f.touched:15} {f.changes:20}{mark}")
    worst = max(findings, key=lambda f: max(f.direct, f.hidden))
    if worst.exceeded:
        print(f"a claim is exceeded: worst at agent {worst.agent}, round {worst.round}")
        return 1
    print(f"no claim is exceeded; closest at agent {worst.agent}, round {worst.round}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
