"""Pictures of graphs."""

from __future__ import annotations

import json
from typing import Any

import networkx as nx
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mpinodes.results.report.drawing import NETWORK
from mpinodes.results.report.reading import Drawn

Json = dict[str, Any]


def topology(data: Drawn, summary: Json) -> Figure:
    """The graph, one picture for each round of its period."""
    return draw_topology(json.loads(data.attrs["topology"]))


def draw_topology(graph: Json) -> Figure:
    """A graph given as {title, agents, period, rounds: [[(j, i), ...], ...]}."""
    rounds = graph["rounds"]
    columns = min(4, len(rounds))
    rows = -(-len(rounds) // columns)
    figure = Figure(figsize=(max(3.2, 2.4 * columns), 2.5 * rows + 0.4), layout="constrained")
    period = graph["period"]
    for k, edges in enumerate(rounds):
        axes = figure.add_subplot(rows, columns, k + 1)
        _draw_edges(axes, graph["agents"], {(j, i) for j, i in edges})
        if period != 1:
            axes.set_title(f"round {k + 1}" + (f", {k + 1 + period}, …" if period else ""), fontsize=9)
    figure.suptitle(graph["title"], fontsize=10)
    return figure


def _draw_edges(axes: Axes, agents: int, edges: set[tuple[int, int]]) -> None:
    place = nx.circular_layout(nx.empty_graph(agents))
    one_way = [(j, i) for j, i in edges if (i, j) not in edges]
    both_ways = [(j, i) for j, i in edges if (i, j) in edges and j < i]
    digraph: nx.DiGraph[int] = nx.DiGraph()
    digraph.add_nodes_from(range(agents))
    crowded = agents > 25
    nx.draw_networkx_nodes(
        digraph, place, ax=axes, node_size=20 if crowded else 200, node_color="#DDEAF3", edgecolors=NETWORK
    )
    if not crowded:
        nx.draw_networkx_labels(digraph, place, ax=axes, font_size=8)
    width = 0.3 if crowded else 1.0
    nx.draw_networkx_edges(nx.Graph(both_ways), place, ax=axes, edgelist=both_ways, width=width)
    nx.draw_networkx_edges(
        nx.DiGraph(one_way),
        place,
        ax=axes,
        edgelist=one_way,
        width=width,
        node_size=20 if crowded else 200,
        arrowsize=9,
    )
    axes.set_axis_off()
    axes.margins(0.15)
