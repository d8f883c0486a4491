"""Draw the figures of a run: the metrics, the privacy loss, and the graph."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable
from functools import partial
from math import isnan
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from mpinodes.metrics.built_in import BUILT_IN
from mpinodes.presentation import plots as drawing
from mpinodes.presentation import privacy_words
from mpinodes.presentation.findings import GUESSED, best, naive
from mpinodes.presentation.plots import AGENT, AVERAGE, CLAIM, NETWORK, Drawn, Point, Values
from mpinodes.presentation.terminal import agents, bounded
from mpinodes.summary.summary import Summary

INK = "#444444"  # the colour of edges in graphs
LEAST_BAND = 0.02  # the least range of the agents, as a share of their mean, that is drawn as a band
MOST_NAMES = 25  # the most names of agents beside an axis of a figure
LETTERS = 24  # a legend with a longer label has one column instead of two
MARKERS = ((NETWORK, "o"), (AVERAGE, "s"), (CLAIM, "^"), ("#CC79A7", "D"))
# No two curves of a figure have the same colour. Thin broken lines need a contrast of at least 3 to white: so these are
# darker than the yellow and the light blue of Okabe and Ito.
BOUNDS: Any = ((CLAIM, "--"), ("#B07A00", ":"), ("#7A4EAB", "-."), ("#8C510A", (0, (1, 3))))
GUESS, BEST = "#B07A00", "#7A4EAB"

Table = tuple[str, list[str], list[tuple[str, ...]]]  # "horizon" or "agent", the titles of columns, and rows of cells


class Curve(NamedTuple):
    """A metric and how it is drawn as a curve.

    Attributes:
        variable: the variable in the record.
        label: the text that people read.
        unit: the unit; values with the unit "share" are drawn as percentages.
        per_round: whether the values are divided by the number of rounds so far.
    """

    variable: str
    label: str
    unit: str
    per_round: bool

    def values(self, data: Drawn) -> tuple[np.ndarray, Values]:
        """Return the rounds at which the metric has values, and the values as they are drawn.

        If `per_round` is true, the value at round t is divided by t. Values with the unit "share" become percentages.
        """
        values = data[self.variable]
        along = data["horizon" if "horizon" in values.dims else "round"]
        values = values / along if self.per_round else values
        return along.values, Values(values.dims, 100 * values.values) if self.unit == "share" else values


class CurveFigure(NamedTuple):
    """A figure with one panel, which shows curves of related metrics.

    Attributes:
        title: the title of the figure.
        curves: the metrics, the most important metric first.
    """

    title: str
    curves: list[Curve]


def curve_figures(summary: Summary | None = None) -> dict[str, CurveFigure]:
    """Return the figures of metrics by file name: those of built-in metrics, and one for each of `record.metrics`.

    Args:
        summary: the summary of a run, which names its metrics of `record.metrics`; None means built-in metrics only.
    """
    figures: dict[str, CurveFigure] = {}
    for built_in in sorted(BUILT_IN, key=lambda metric: metric.compared or len(BUILT_IN)):  # most important ones first
        if built_in.figure:
            figure = figures.setdefault(built_in.figure, CurveFigure(built_in.title, []))
            figure.curves.append(Curve(built_in.name, built_in.label, built_in.unit, built_in.per_round))
    for metric in summary.metrics if summary else ():
        if metric.figure:
            curve = Curve(metric.variable, metric.label, metric.unit, metric.per_round)
            figures[metric.variable] = CurveFigure(metric.label[:1].upper() + metric.label[1:], [curve])
    return figures


def drawers(summary: Summary) -> dict[str, tuple[str, Callable[[Drawn, Summary], Figure | None]]]:
    """Return a title and a drawing function for each figure of a run, by file name.

    A drawing function returns None if the run does not have the numbers for its figure.
    """
    curves = {name: (of.title, partial(draw_curves, name, of)) for name, of in curve_figures(summary).items()}
    others = {"privacy": ("Privacy loss", privacy), "views": ("What one node learns of another", views)}
    topology = ("Topology", lambda data, _: draw_topology(json.loads(data.attrs["topology"])))
    return {**curves, **others, "topology": topology}


def draw_all(data: Drawn, summary: Summary, target: Path, vector: bool) -> dict[str, tuple[Path, list[Point]]]:
    """Draw all figures for which the run has the numbers, and return the PNG files, with their points, by title.

    Args:
        data: the record.
        summary: the summary.
        target: the directory of the files.
        vector: whether SVG and PDF files are also written.
    """
    drawn = {}
    with drawing.style():
        for name, (title, drawer) in drawers(summary).items():
            if (figure := drawer(data, summary)) is not None:
                path = target / f"{name}.png"
                drawing.save(figure, path)
                drawn[title] = path, drawing.points(figure)
                if vector:
                    drawing.save(figure, path.with_suffix(".svg"), metadata={"Date": None})
                    drawing.save(figure, path.with_suffix(".pdf"), metadata={"CreationDate": None})
    return drawn


def tables(data: Drawn, summary: Summary) -> list[Table]:
    """Return two tables of text: results of the network over time, and the last results of each agent.

    Results are ε values, and those metrics with a figure that have values at horizons (rounds at which results are
    measured). All values are means over seeds; values over time are also means over agents.
    """
    of = f" ({summary.privacy.adjacency})"
    kinds = {"claimed": f"claimed{of}", "proven_pure": f"proven pure{of}"}
    kinds["proven"] = f"proven at δ = {summary.privacy.delta:g}{of}"
    curves = [curve for figure in curve_figures(summary).values() for curve in figure.curves if curve.variable in data]
    curves = [curve for curve in curves if "horizon" in data[curve.variable].dims]
    agents = [curve for curve in curves if "agent" in data[curve.variable].dims]
    curves += [Curve(f"epsilon_{kind}_network", f"ε of the network, {name}", "", False) for kind, name in kinds.items()]
    agents += [Curve(f"epsilon_{kind}", f"share of ε, {name}", "", False) for kind, name in kinds.items()]
    made = []
    for along, columns in (("horizon", curves), ("agent", agents)):
        head, means = [along], [data.agents if along == "agent" else [str(t) for t in data[along].values.tolist()]]
        for curve in columns:
            values = curve.values(data)[1]
            values = values.last("horizon") if along == "agent" else values
            if np.isnan(values.values).all():
                continue
            head.append(f"{curve.label}{' (%)' * (curve.unit == 'share')}")
            means.append(["none" if isnan(x) else f"{x:.4g}" for x in _by(along, values, np.nanmean).tolist()])
        made.append((along, head, list(zip(*means, strict=True))))
    return made


def draw_curves(name: str, figure: CurveFigure, data: Drawn, summary: Summary) -> Figure | None:
    """Draw a figure of related metrics; return None if the run has none of the metrics, or each of them is constant.

    A metric of single agents is drawn as a band over the agents. Every other metric is drawn as a curve, and so is the
    mean over agents if no other metric is shown. The figure also shows, as far as known, the run without noise, the
    values of a constant prediction and of the best fixed decision, and bounds of theorems whose assumptions hold. A
    bound per round is left out if it ends above the largest measured value.

    Args:
        name: the file name of the figure.
        figure: the metrics.
        data: the record.
        summary: the summary.
    """
    curves = {curve.variable: curve for curve in figure.curves if curve.variable in data}
    if not curves:
        return None
    drawn, (axes,) = drawing.panels(1)
    shown = []
    for curve, (colour, marker) in zip(curves.values(), MARKERS, strict=False):
        t, values = curve.values(data)
        shown.append(values.values.ravel())
        of_agents, label = "agent" in values.dims, curve.label
        if of_agents:
            means = values.reduced(np.nanmean, ["agent"])
            if np.nanmax(np.ptp(values.values, axis=values.dims.index("agent")) / np.abs(means.values)) > LEAST_BAND:
                drawing.band(axes, t, values, ["agent", "repeat"], AGENT, alpha=0.45, label="agents, least to most")
            values, label = means, "mean over agents"
        if not of_agents or len(curves) == 1:
            drawing.line(axes, t, values, colour, marker=marker if len(t) < 100 else "", ms=3, label=label)
    if all(np.nanmin(values) == np.nanmax(values) for values in shown):
        return None
    first = next(iter(curves.values()))
    silent, percent = data.noise_free, 100.0 if first.unit == "share" else 1.0
    if silent and (values_without := getattr(silent, first.variable, None)):
        t = np.array(silent.horizon)
        scale = percent / (t if first.per_round else 1.0)
        axes.plot(t, scale * np.array(values_without, float), color="black", ls="-.", lw=1, label="without noise")
    which = "test" if first.variable == name else "train"
    horizontal = {"best fixed decision, not private": (best, BEST, "--"), GUESSED.get(name, ""): (naive, GUESS, ":")}
    for label, (reference, colour, style) in horizontal.items():
        if (value := reference(summary.baselines, name).get(which)) is not None:
            axes.plot(t, np.full(len(t), value * percent), color=colour, ls=style, label=label)
    everything = np.concatenate(shown)
    most = float(np.nanmax(everything))
    applicable = [bound for bound in summary.bounds if bound.applies and bound.of in curves]
    for bound, (colour, style) in zip(applicable, BOUNDS, strict=False):
        curve = curves[bound.of]._replace(variable=bound.variable)
        t, values = curve.values(data)
        if not curve.per_round or np.nanmax(values.last("horizon").values) <= most:
            drawing.line(axes, t, values, colour, ls=style, label=f"{bound.name}: {bounded(bound)}")
    drawing.log(axes, "x")
    if first.unit != "share":
        drawing.scale(axes, np.concatenate([everything, *(np.asarray(line.get_ydata(), float) for line in axes.lines)]))
    title = figure.title.lower().replace("rmse", "RMSE")
    axes.set(xlabel="rounds", ylabel=title + " (%)" * (figure.curves[0].unit == "share"))
    repeats = f", {summary.repeats} seeds" if summary.repeats else ""
    run = textwrap.fill(f"{summary.algorithm} on {summary.data}, {agents(summary)}{repeats}", 60)
    axes.set_title(f"{figure.title}\n{run}", fontsize=9)
    lines, words = axes.get_legend_handles_labels()
    if len(lines) > 1 or repeats:  # the legend of a single curve says no more than the title
        columns = 1 if max(map(len, words)) > LETTERS else 2
        drawn.legend(handles=lines, loc="outside lower center", ncols=columns, fontsize=8)
        drawn.set_figheight(3.1 + 0.16 * -(-len(lines) // columns))
    return drawn


def privacy(data: Drawn, summary: Summary) -> Figure | None:
    """Draw the claimed ε, the proven pure ε and the proven ε at δ against rounds; return None if no ε above 0 is known.

    One panel is for the network, and one panel for the worst agent, if the two panels differ.
    """
    t, proven = data["horizon"].values, f"proven at δ = {summary.privacy.delta:g}"
    kinds = {"epsilon_claimed": ("claimed", CLAIM, 8.0), "epsilon_proven_pure": ("proven, pure", AVERAGE, 4.5)}
    kinds |= {"epsilon_proven": (proven, NETWORK, 1.5)}  # the first lines are wider, so that all lines are visible
    network, worst = ([_by("horizon", data[name + of], np.max) for name in kinds] for of in ("_network", ""))
    everything = np.concatenate([*network, *worst])
    if not (everything > 0).any():
        return None
    drawn = {"Network": network, "Worst agent's share": worst}
    if np.array_equal(network, worst, equal_nan=True):
        drawn = {"Network and worst agent": network}
    figure, panels = drawing.panels(len(drawn))
    for axes, (who, epsilons) in zip(panels, drawn.items(), strict=True):
        for epsilon, (words, colour, width) in zip(epsilons, kinds.values(), strict=True):
            last = float(epsilon[-1]) if np.isfinite(epsilon[-1]) else None
            label = f"{words}: {privacy_words.number(last, 'none' if words == 'claimed' else 'unproven')}"
            shown = np.where(epsilon > 0, epsilon, np.nan)
            axes.plot(t, shown, color=colour, lw=width, solid_capstyle="round", label=label)
        unproven = "" if last is not None else ": nothing is proven"
        axes.set_title(f"{who}{unproven}", fontsize=9)
        axes.set(xlabel="rounds", ylabel=f"privacy loss ε ({summary.privacy.adjacency})")
        axes.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.18))
        drawing.scale(axes, everything[everything > 0])
        drawing.log(axes, "x")
    figure.suptitle(textwrap.fill(f"Privacy loss: {summary.algorithm} on {summary.data}", 60), fontsize=10)
    return figure


def views(data: Drawn, summary: Summary) -> Figure | None:
    """Draw bounds on how much every node learns of every agent's data: ε against distance, and ε as a heat map.

    The distance of a node from an agent is counted in hops. The heat map is left out if all its cells are equal. The
    result is None if the record has no ε toward single nodes, if no node receives data of another agent, or if all
    cells and all distances are equal.
    """
    if "epsilon_node" not in data or not np.any(data["distance"].values > 0):
        return None
    hops, before = data["distance"].values, float(np.nanmax(data["epsilon_before_relaying"].values))
    far = np.unique(hops[hops > 0])
    name, label = ("epsilon_node_relayed", "ε from then on") if before > 0 else ("epsilon_node", "ε in all")
    cells = data[name].values
    has_map = bool(np.nanmax(cells) - np.nanmin(cells) > 1e-9 * np.nanmax(cells))
    if len(far) == 1 and not has_map:
        return None
    figure, (left, *others) = drawing.panels(1 + has_map)
    drawn = [("epsilon_node", NETWORK, f"in all, at δ = {summary.privacy.delta:g}")]
    drawn += [("epsilon_node_relayed", AVERAGE, "from then on, given all before")] * (before > 0)
    for variable, colour, words in drawn:
        epsilons = [data[variable].values[hops == at] for at in far]
        left.fill_between(far, [v.min() for v in epsilons], [v.max() for v in epsilons], color=colour, alpha=0.2, lw=0)
        left.plot(far, [v.max() for v in epsilons], color=colour, marker="o", ms=4, label=words)
    if before > 0:
        since = summary.privacy.views.relayed_from if summary.privacy.views else 1
        left.axhline(before, color=AGENT, lw=7, alpha=0.5, zorder=1, label=f"before round {since}, on all links")
    links = _by("horizon", data["epsilon_proven_network"], np.max)[-1]
    left.axhline(links, color="black", ls=":", label="in all, on all links")
    left.set(xlabel="distance (hops)", ylabel=f"ε toward one node ({summary.privacy.adjacency})", ylim=(0, None))
    left.set_ylim(0, 1.12 * left.get_ylim()[1])
    left.xaxis.set_major_locator(MaxNLocator(integer=True))
    left.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.2))
    left.set_title("against distance", fontsize=9)
    names = data.agents
    for right in others:
        right.set_title("of every agent, to every node", fontsize=9)
        right.grid(visible=False)
        for axis in (right.xaxis, right.yaxis):
            axis.set_major_locator(MaxNLocator(MOST_NAMES, integer=True))
            axis.set_major_formatter(lambda agent, _: names[round(agent)] if 0 <= agent < len(names) else "")
        right.tick_params("x", rotation=90 if max(map(len, names)) > 2 else 0)
        shown = right.imshow(cells, vmin=0, cmap="YlOrBr")  # large values differ most from a page, light or dark
        right.set(xlabel="agent whose data it is", ylabel="node that learns of it")
        figure.colorbar(shown, ax=right, shrink=0.8, label=label)
    title = f"{summary.algorithm}, {summary.topology}: what one node learns of another"
    figure.suptitle(textwrap.fill(title, 60), fontsize=10)
    return figure


def _by(along: str, values: Values, combine: Callable[..., Any]) -> np.ndarray:
    """Return the values with all axes but `along` combined by a function of NumPy, such as `np.nanmean`."""
    return values.reduced(combine, [name for name in values.dims if name != along]).values


def draw_topology(graph: dict[str, Any]) -> Figure | None:
    """Draw the communication graph, with a panel for each round in `graph`; return None for a single agent.

    Args:
        graph: a dictionary with five keys. `title` is the title of the figure, and `agents` the number of agents.
            `rounds` has a list of pairs (j, i) for each round: agent j sends to agent i. `period` is the number of
            rounds after which the graph repeats; None if the graph does not repeat. `names` has the names of the
            agents; if the key is missing or empty, the names are 0, 1, ...
    """
    rounds = graph["rounds"]
    if graph["agents"] == 1:
        return None
    columns = min(3, len(rounds))
    rows = -(-len(rounds) // columns)
    wide = min(drawing.WIDTH / columns, 2.8)
    figure = Figure(figsize=(drawing.WIDTH, wide * rows + 0.4), layout="constrained")
    period, names = graph["period"], graph.get("names") or [str(agent) for agent in range(graph["agents"])]
    angles = 2 * np.pi * np.arange(graph["agents"]) / graph["agents"]
    place = np.column_stack([np.cos(angles), np.sin(angles)])
    crowded, beside = graph["agents"] > 25, 1.0 if max(map(len, names)) <= 2 else 1.25  # long names are outside
    width, radius, size = (0.3, 0.03, 20) if crowded else (1.0, 0.34 / wide, 200 if beside == 1 else 60)
    for k, pairs in enumerate(rounds):
        edges = {(j, i) for j, i in pairs}
        axes = figure.add_subplot(rows, columns, k + 1)
        both = [place[[j, i]] for j, i in edges if (i, j) in edges and j < i]
        axes.add_collection(LineCollection(both, colors=INK, linewidths=width, zorder=1))
        one_way = np.array([(j, i) for j, i in sorted(edges) if (i, j) not in edges], dtype=int).reshape(-1, 2)
        start, way = place[one_way[:, 0]], place[one_way[:, 1]] - place[one_way[:, 0]]
        lengths = np.maximum(np.linalg.norm(way, axis=1, keepdims=True), radius)
        way *= 1 - radius / lengths  # the arrow ends at the circle of the receiver
        axes.quiver(
            *start.T, *way.T, angles="xy", scale_units="xy", scale=1, color=INK, zorder=1, units="dots",
            width=0.6 if crowded else 1.6, headwidth=6, headlength=7, headaxislength=6,
        )  # fmt: skip
        axes.scatter(place[:, 0], place[:, 1], s=size, c="#DDEAF3", edgecolors=NETWORK, zorder=2)
        if not crowded:
            for name, (x, y) in zip(names, beside * place, strict=True):
                axes.text(x, y, name, fontsize=8, ha="center", va="center", zorder=3)
        axes.set(xlim=(-1.25, 1.25), ylim=(-1.25, 1.25), aspect="equal")
        axes.set_axis_off()
        if period != 1:
            axes.set_title(f"round {k + 1}" + (f", {k + 1 + period}, …" if period else ""), fontsize=9)
    figure.suptitle(textwrap.fill(graph["title"], 60), fontsize=10)
    return figure
