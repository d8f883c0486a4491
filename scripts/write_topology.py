"""Write a generated topology to a file: python scripts/write_topology.py geometric agents=12 seed=3 graph.json.

The keys are those of `topology.` in an experiment, and `seed` (default 0). A graph that never repeats also needs
`rounds=`: the graph in the file repeats after this number of rounds.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta

from mpinodes.config import registry
from mpinodes.config.schema import checked
from mpinodes.core import Topology
from mpinodes.core.asked import parse
from mpinodes.core.errors import BadInput

Rounds = Annotated[int, Meta(ge=1, le=100_000)]
Seed = Annotated[int, Meta(ge=0, le=2**63 - 1)]


def make(name: str, words: list[str]) -> tuple[Topology, int]:
    """Return the topology of a name and key=value words, and the number of rounds to write.

    Raises:
        BadInput: the name or a key is wrong, or `rounds` is missing or not needed.
    """
    kind = registry.find(registry.TOPOLOGIES, name)
    keys = parse(None, words)
    rounds = checked(keys.pop("rounds", None), Rounds | None, "rounds")
    seed = checked(keys.pop("seed", 0), Seed, "seed")
    made: Topology = kind(seed=seed, **registry.fill(registry.TOPOLOGIES, kind, keys))
    if (made.period is None) == (rounds is None):
        raise BadInput(
            f"{name} never repeats: add the number of rounds to write, as in rounds=100"
            if made.period is None
            else f"rounds = {rounds}: {name} has period {made.period}, and one period is written; leave out rounds"
        )
    return made, made.period or rounds


def node_link(graph: Topology, period: int, description: str) -> dict[str, Any]:
    """Return rounds 1 to `period` of a topology as networkx node-link JSON."""
    there: dict[tuple[int, int], list[int]] = {}
    for t in range(1, period + 1):
        for edge in graph.edges(t):
            there.setdefault(edge, []).append(t)
    edges = [
        {"source": j, "target": i} | ({"rounds": rounds} if len(rounds) < period else {})
        for (j, i), rounds in sorted(there.items())
    ]
    return {
        "directed": True,
        "multigraph": False,
        "graph": {"period": period, "name": graph.title, "description": description},
        "nodes": [{"id": i} for i in range(graph.agents)],
        "edges": edges,
    }


def main(argv: list[str]) -> int:
    """Write the file, or print an error; return the exit code."""
    try:
        if len(argv) < 2:
            raise BadInput("expected NAME key=value ... FILE, as in geometric agents=12 seed=3 graph.json")
        name, *words, file = argv
        if "=" in file:
            raise BadInput(f"{file!r}: the last word must be the file to write")
        description = " ".join(["python scripts/write_topology.py", *argv])
        Path(file).write_text(json.dumps(node_link(*make(name, words), description)) + "\n")
    except OSError as error:
        print(f"write_topology: error: {file}: cannot be written: {error.strerror}", file=sys.stderr)
    except BadInput as error:
        print(f"write_topology: error: {error}", file=sys.stderr)
    else:
        return 0
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
