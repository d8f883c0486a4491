"""Draw a picture of every file in topologies/ beside it: python scripts/draw_topologies.py."""

from __future__ import annotations

from mpinodes import topology
from mpinodes.report.figures import draw_topology

for path in sorted(topology.folder().glob("*.json")):
    graph = topology.read(path)
    rounds = [sorted(graph.edges(t)) for t in range(1, graph.period + 1)]
    picture = {"title": graph.title, "agents": graph.agents, "period": graph.period, "rounds": rounds}
    draw_topology(picture).savefig(path.with_suffix(".png"), dpi=100)
