"""Draw the topologies: python scripts/draw_topologies.py [DIR], topologies/ by default.

Beside every file of DIR, draw a figure of its graph. In DIR/generated/, draw a small example of every generated graph.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from mpinodes.config import registry
from mpinodes.core import Topology
from mpinodes.presentation.run_figures import draw_topology
from mpinodes.topology import graph_files as files
from mpinodes.topology import stored

SHOWN = 3  # the number of rounds drawn of a graph that never repeats

EXAMPLES: dict[str, dict[str, Any]] = {
    "ring": {"agents": 8},
    "complete": {"agents": 8},
    "star": {"agents": 8},
    "path": {"agents": 8},
    "barbell": {"agents": 9},
    "expander": {"agents": 12, "seed": 1},
    "torus": {"agents": 12},
    "grid": {"agents": 12},
    "hypercube": {"agents": 8},
    "exponential": {"agents": 8},
    "erdos-renyi": {"agents": 8, "seed": 1, "probability": 0.4},
    "geometric": {"agents": 12, "seed": 1},
    "small-world": {"agents": 12, "seed": 1},
    "barabasi-albert": {"agents": 12, "seed": 1},
    "random-digraph": {"agents": 8, "seed": 1, "probability": 0.1},
    "b-connected": {"agents": 8, "seed": 1, "probability": 0.1},
    "erdos-renyi-each-round": {"agents": 8, "seed": 1, "probability": 0.3},
    "random-digraph-each-round": {"agents": 8, "seed": 1, "probability": 0.1},
    "eulerian": {"agents": 8, "seed": 1},
    "matchings": {"agents": 8, "seed": 1},
}


def draw(graph: Topology, picture: Path, dpi: int) -> None:
    rounds = [sorted(graph.edges(t)) for t in range(1, (graph.period or SHOWN) + 1)]
    shown = {"title": graph.title, "agents": graph.agents, "period": graph.period, "rounds": rounds}
    draw_topology(shown).savefig(picture, dpi=dpi)


folder = Path(sys.argv[1]) if len(sys.argv) > 1 else stored.folder()
for path in sorted(folder.glob("*.json")):
    draw(files.read(path), path.with_suffix(".png"), dpi=100)
generated = folder / "generated"
generated.mkdir(exist_ok=True)
for name in registry.names(registry.TOPOLOGIES):
    draw(registry.find(registry.TOPOLOGIES, name)(**EXAMPLES[name]), generated / f"{name}.png", dpi=60)
