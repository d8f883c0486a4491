"""Draw graphs."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from mpinodes.presentation.plots import NETWORK

INK = "#444444"


def draw_topology(graph: dict[str, Any]) -> Figure:
    """Draw a graph, with a panel for each round of its period.

    Args:
        graph: {title, agents, period, rounds: [[(j, i), ...], ...]}, where agent j sends to agent i.
    """
    rounds = graph["rounds"]
    columns = min(4, len(rounds))
    rows = -(-len(rounds) // columns)
    figure = Figure(figsize=(max(3.2, 2.4 * columns), 2.5 * rows + 0.4), layout="constrained")
    period = graph["period"]
    angles = 2 * np.pi * np.arange(graph["agents"]) / graph["agents"]
    place = np.column_stack([np.cos(angles), np.sin(angles)])
    crowded = graph["agents"] > 25
    width, radius = (0.3, 0.03) if crowded else (1.0, 0.14)
    for k, pairs in enumerate(rounds):
        edges = {(j, i) for j, i in pairs}
        axes = figure.add_subplot(rows, columns, k + 1)
        both = [place[[j, i]] for j, i in edges if (i, j) in edges and j < i]
        axes.add_collection(LineCollection(both, colors=INK, linewidths=width, zorder=1))
        one_way = np.array([(j, i) for j, i in sorted(edges) if (i, j) not in edges], dtype=int).reshape(-1, 2)
        start, way = place[one_way[:, 0]], place[one_way[:, 1]] - place[one_way[:, 0]]
        lengths = np.maximum(np.linalg.norm(way, axis=1, keepdims=True), radius)
        way *= 1 - radius / lengths  # the head ends at the circle
        axes.quiver(
            *start.T, *way.T, angles="xy", scale_units="xy", scale=1, color=INK, zorder=1, units="dots",
            width=0.6 if crowded else 1.6, headwidth=6, headlength=7, headaxislength=6,
        )  # fmt: skip
        axes.scatter(place[:, 0], place[:, 1], s=20 if crowded else 200, c="#DDEAF3", edgecolors=NETWORK, zorder=2)
        if not crowded:
            for agent, (x, y) in enumerate(place):
                axes.text(x, y, str(agent), fontsize=8, ha="center", va="center", zorder=3)
        axes.set(xlim=(-1.25, 1.25), ylim=(-1.25, 1.25), aspect="equal")
        axes.set_axis_off()
        if period != 1:
            axes.set_title(f"round {k + 1}" + (f", {k + 1 + period}, …" if period else ""), fontsize=9)
    figure.suptitle(graph["title"], fontsize=10)
    return figure
