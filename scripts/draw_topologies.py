"""Draw a picture of every file in topologies/ beside it, and of small generated graphs in topologies/generated/.

python scripts/draw_topologies.py
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mpinodes import topology
from mpinodes.results.report.graph import draw_topology

SHOWN = 3  # rounds of a graph that never repeats

EXAMPLES: dict[str, dict[str, Any]] = {
    "ring": {"agents": 8},
    "complete": {"agents": 8},
    "torus": {"agents": 12},
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


def draw(graph: topology.Topology, picture: Path, dpi: int) -> None:
    rounds = [sorted(graph.edges(t)) for t in range(1, (graph.period or SHOWN) + 1)]
    shown = {"title": graph.title, "agents": graph.agents, "period": graph.period, "rounds": rounds}
    draw_topology(shown).savefig(picture, dpi=dpi)


for path in sorted(topology.folder().glob("*.json")):
    draw(topology.read(path), path.with_suffix(".png"), dpi=100)
generated = topology.folder() / "generated"
generated.mkdir(exist_ok=True)
for name, kind in topology.KINDS.items():
    made: Any = kind
    draw(made(**EXAMPLES[name]), generated / f"{name}.png", dpi=60)
