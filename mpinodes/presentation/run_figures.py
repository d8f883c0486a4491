"""The figures of a run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from mpinodes.presentation import plots as drawing
from mpinodes.presentation import privacy_words
from mpinodes.presentation.figure_data import Drawn, Values
from mpinodes.presentation.findings import naive
from mpinodes.presentation.graph import topology
from mpinodes.presentation.plots import AGENT, AVERAGE, CLAIM, NETWORK
from mpinodes.presentation.terminal import bounded, estimated
from mpinodes.summary.summary import ShownMetric, Summary

SILENT = "running mean, same run without noise"


def draw_all(data: Drawn, summary: Summary, target: Path, vector: bool) -> dict[str, Path]:
    """Draw every figure that the run has the numbers for, as PNG; returns titles and files.

    Args:
        data: the record.
        summary: summary.json.
        target: where the files go.
        vector: whether SVG and PDF are written beside each, which takes as long again.
    """
    drawers: dict[str, tuple[str, Callable[[Drawn, Summary], Figure | None]]] = {
        "accuracy": ("Accuracy", accuracy),
        "rmse": ("Root mean squared error", rmse),
        "regret": ("Regret per round", regret),
        "gap": ("Optimality gap", gap),
        "error": ("Distance to the best decision", error),
        "training": ("Training loss", training),
        "privacy": ("Privacy loss", privacy),
        "views": ("What one node learns of another", views),
        "topology": ("Topology", topology),
    }
    drawn = {}
    with drawing.style():
        for name, (title, drawer) in drawers.items():
            if (figure := drawer(data, summary)) is not None:
                drawn[title] = _saved(figure, target / f"{name}.png", vector)
        for metric in summary.metrics:
            if metric.figure and metric.variable in data:
                path = target / f"{metric.variable}.png"
                drawn[metric.label.capitalize()] = _saved(_of_metric(data, metric, summary), path, vector)
    return drawn


def _saved(figure: Figure, path: Path, vector: bool) -> Path:
    drawing.save(figure, path)
    if vector:
        drawing.save(figure, path.with_suffix(".svg"), metadata={"Date": None})
        drawing.save(figure, path.with_suffix(".pdf"), metadata={"CreationDate": None})
    return path


def _of_metric(data: Drawn, metric: ShownMetric, summary: Summary) -> Figure:
    """A metric that was asked for, by round or horizon; of agents their range and mean."""
    axes = drawing.axes()
    values = data[metric.variable]
    along = data["horizon" if "horizon" in values.dims else "round"]
    t = along.values
    if metric.per_round:
        values = values / along
    if metric.unit == "share":
        values = 100 * values
    if "agent" in values.dims:
        drawing.band(axes, t, values, label="agents, least to most")
        values = values.mean("agent")
    drawing.line(axes, t, values, NETWORK, label=metric.label)
    drawing.log(axes, "x", *(("y",) if float(values.min()) > 0 else ()))
    axes.set(xlabel="rounds", ylabel=metric.label + " (%)" * (metric.unit == "share"))
    return drawing.finished(axes, summary, metric.label)


def regret(data: Drawn, summary: Summary) -> Figure | None:
    """R(T)/T of the network and, as far as they are known, of every agent and of the running average."""
    if "network_regret" not in data:
        return None
    axes = drawing.axes()
    t = data["horizon"].values
    least = np.inf
    if "agent_regret" in data and summary.agents > 1:
        agents = data["agent_regret"] / data["horizon"]
        drawing.band(axes, t, agents, label=f"agents, least to most{estimated(summary)}")
        least = float(agents.min())
    drawing.line(axes, t, data["network_regret"] / data["horizon"], NETWORK, marker="o", ms=3, label="network")
    if "network_regret_average_iterate" in data:
        average = data["network_regret_average_iterate"] / data["horizon"]
        drawing.line(axes, t, average, AVERAGE, marker="s", ms=3, label="network, running average")
    if "dynamic_regret" in data:
        drawing.line(
            axes, t, data["dynamic_regret"] / data["horizon"], CLAIM, marker="^", ms=3, label="network, dynamic"
        )
    if data.noise_free and data.noise_free.network_regret:
        t0, values = np.array(data.noise_free.horizon), np.array(data.noise_free.network_regret, float)
        axes.plot(t0, values / t0, color="black", ls="-.", lw=1, label="network, same run without noise")
    shown = np.concatenate([np.asarray(curve.get_ydata(), float) for curve in axes.lines])
    least = min(least, float(np.nanmin(shown)))
    if plain := not 0 < drawing.PLAIN * least < float(np.nanmax(shown)):
        axes.axhline(0, color="black", lw=0.8)
    drawing.log(axes, "x", *(() if plain else ("y",)))
    _bounds(axes, data, summary)
    axes.set(xlabel="horizon T (rounds)", ylabel="regret per round, R(T)/T")
    return drawing.finished(axes, summary, f"Regret per round, against the best fixed decision{' (0)' * plain}")


def _bounds(axes: Axes, data: Drawn, summary: Summary) -> None:
    """The theorems' bounds that apply and end within the figure."""
    low, top = axes.get_ylim()
    for bound in summary.bounds:
        values = data[bound.variable] / data["horizon"]
        if "regret" in bound.of and bound.applies and float(values.last("horizon").max()) <= top:
            label = f"{bound.name}: {bounded(summary, bound)}"
            drawing.line(axes, data["horizon"].values, values, CLAIM, ls="--", label=label)
    axes.set_ylim(low, top)


def gap(data: Drawn, summary: Summary) -> Figure | None:
    """Optimality gap of the agents' average or last decisions, of offline methods."""
    if "optimality_gap" not in data:
        return None
    axes = drawing.axes()
    t, found = data["horizon"].values, data["optimality_gap"]
    drawing.band(axes, t, found, label="agents, least to most")
    drawing.line(axes, t, found.mean("agent"), NETWORK, marker="o", ms=3, label="mean over agents")
    drawing.log(axes, "x", *(("y",) if float(found.min()) > 0 else ()))
    axes.set(xlabel="rounds", ylabel=f"optimality gap of the {summary.judged} decision")
    return drawing.finished(axes, summary, "Optimality gap")


def error(data: Drawn, summary: Summary) -> Figure | None:
    """Squared distance to the best fixed decision, of the mean decision and of each agent's, with its bounds."""
    if "decision_error" not in data or not float(data["decision_error"].max()) > 0:
        return None
    axes = drawing.axes()
    t, each = data["horizon"].values, data["agent_decision_error"]
    drawing.band(axes, t, each, label="agents, least to most")
    drawing.line(axes, t, data["decision_error"], NETWORK, marker="o", ms=3, label="mean decision")
    applicable = [b for b in summary.bounds if "error" in b.of and b.applies]
    for bound, line in zip(applicable, ("--", ":", "-.", (0, (1, 3))), strict=False):
        label = f"{bound.name}: {bounded(summary, bound)}"
        drawing.line(axes, t, data[bound.variable], CLAIM, ls=line, label=label)
    drawing.log(axes, "x", "y")
    axes.set(xlabel="rounds", ylabel=f"‖{summary.judged} decision − best‖²")
    return drawing.finished(axes, summary, "Distance to the best decision")


def training(data: Drawn, summary: Summary) -> Figure | None:
    """Training loss of every round, of losses that stay the same."""
    if "training_loss" not in data:
        return None
    axes = drawing.axes()
    drawing.line(axes, data["round"].values, data["training_loss"], NETWORK, label="at each agent's own decision")
    axes.set(xlabel="round", ylabel="training loss L(t)")
    drawing.log_or_plain(axes, data["training_loss"].values)
    return drawing.finished(axes, summary, "Training loss of every round")


def privacy(data: Drawn, summary: Summary) -> Figure | None:
    """ε against rounds, of the network and of the worst agent's share: claimed, proven pure, proven at δ."""
    t, delta = data["horizon"].values, summary.privacy.delta
    kinds = [("claimed", "epsilon_claimed", CLAIM, 8.0), ("proven, pure", "epsilon_proven_pure", AVERAGE, 4.5)]
    kinds.append((f"proven at δ = {delta:g}", "epsilon_proven", NETWORK, 1.5))
    found = {
        who: [(words, _worst(data[name + of]), colour, width) for words, name, colour, width in kinds]
        for who, of in (("Network", "_network"), ("Worst agent's share", ""))
    }
    everything = np.concatenate([epsilon for curves in found.values() for _, epsilon, _, _ in curves])
    if not np.any(everything > 0):
        return None
    figure = Figure(figsize=(9.6, 3.8), layout="constrained")
    for place, (who, curves) in enumerate(found.items(), 1):
        axes = figure.add_subplot(1, 2, place)
        for _, epsilon, colour, width in curves:  # the first are the widest: what lies below is seen
            axes.plot(t, np.where(epsilon > 0, epsilon, np.nan), color=colour, lw=width, solid_capstyle="round")
        drawing.log_or_plain(axes, everything)
        low, high = axes.get_ylim()
        known = everything[everything > 0]
        axes.set_ylim(low if low == 0 else 0.8 * known.min(), high if low == 0 else 1.25 * known.max())
        drawing.log(axes, "x")
        ends = []
        for words, epsilon, colour, _ in curves:
            last = float(epsilon[-1]) if np.isfinite(epsilon[-1]) else None
            said = privacy_words.number(last, "none" if words == "claimed" else "unproven")
            ends.append((last or 0.0, f"{words}: {said}", colour))
        drawing.at_the_end(axes, float(t[-1]), ends)
        unproven = "" if np.isfinite(curves[-1][1][-1]) else ": nothing is proven"
        axes.set_title(f"{who}{unproven}", fontsize=9)
        axes.set(xlabel="rounds", ylabel="privacy loss ε")
    figure.suptitle(f"Privacy loss: {summary.algorithm} on {summary.data}", fontsize=10)
    return figure


def views(data: Drawn, summary: Summary) -> Figure | None:
    """ε of every agent toward every other: against distance, and as a heat map."""
    if "epsilon_node" not in data or not np.any(data["distance"].values > 0):
        return None
    figure, (left, right) = drawing.pair()
    hops, before = data["distance"].values, float(data["epsilon_before_relaying"].max())
    total = f"in all, at δ = {summary.privacy.delta:g}"
    drawn = [
        (data["epsilon_node"], NETWORK, total),
        (data["epsilon_node_relayed"], AVERAGE, "from then on, given all before"),
    ]
    for values, colour, label in drawn[: 2 if before > 0 else 1]:
        far = np.unique(hops[hops > 0])
        found = [values.values[hops == at] for at in far]
        left.fill_between(far, [v.min() for v in found], [v.max() for v in found], color=colour, alpha=0.2, lw=0)
        left.plot(far, [v.max() for v in found], color=colour, marker="o", ms=4, label=label)
    if before > 0:
        since = summary.privacy.views.relayed_from if summary.privacy.views else 1
        left.axhline(before, color=AGENT, lw=7, alpha=0.5, zorder=1, label=f"before round {since}, on all links")
    links = float(_worst(data["epsilon_proven_network"])[-1])
    left.axhline(links, color="black", ls=":", label="in all, on all links")
    left.set(xlabel="distance (hops)", ylabel="privacy loss ε toward one node, at most", ylim=(0, None))
    left.set_ylim(0, 1.12 * left.get_ylim()[1])
    left.xaxis.set_major_locator(MaxNLocator(integer=True))
    left.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2)
    left.set_title("against distance", fontsize=9)
    right.set_title("of every agent, to every node", fontsize=9)
    right.grid(visible=False)
    name, what = ("epsilon_node_relayed", "ε from then on") if before > 0 else ("epsilon_node", "ε in all")
    for axis in (right.xaxis, right.yaxis):
        axis.set_major_locator(MaxNLocator(integer=True))
    shown = right.imshow(data[name].values, vmin=0, cmap="viridis")
    right.set(xlabel="agent whose data it is", ylabel="node that learns of it")
    figure.colorbar(shown, ax=right, shrink=0.8, label=what)
    figure.suptitle(f"{summary.algorithm}, {summary.topology}: what one node learns of another", fontsize=10)
    return figure


def _worst(epsilon: Values) -> np.ndarray:
    """Over agents and repeats, by horizon."""
    return epsilon.max([dim for dim in epsilon.dims if dim != "horizon"], skipna=False).values


def accuracy(data: Drawn, summary: Summary) -> Figure | None:
    """Accuracy of the running mean and of the last decision against rounds, on test data where there are some."""
    return _marks(data, summary, Marks("accuracy", "Accuracy", "accuracy (%)", "always the largest class", 100.0))


def rmse(data: Drawn, summary: Summary) -> Figure | None:
    """The same of the error, where targets are real."""
    title = "Root mean squared error"
    return _marks(data, summary, Marks("rmse", title, title.lower(), "always the mean target"))


class Marks(NamedTuple):
    """What decisions are worth on samples.

    Attributes:
        name: of the variable.
        title, label: of the figure and its ordinate.
        naive: what people call the best prediction of one value.
        factor: from what is recorded to what is drawn.
    """

    name: str
    title: str
    label: str
    naive: str
    factor: float = 1.0


def _marks(data: Drawn, summary: Summary, of: Marks) -> Figure | None:
    test, train = of.name, f"{of.name}_train"
    if test not in data and train not in data:
        return None
    axes = drawing.axes()
    t = data["horizon"].values
    if test in data:
        running, last = of.factor * data[test], of.factor * data[f"{of.name}_last"]
        drawing.line(axes, t, running, NETWORK, marker="o", ms=3, label="running mean of the decisions, test")
        drawing.line(axes, t, last, AVERAGE, marker="s", ms=3, label="last decision, test")
    if train in data:
        drawing.line(
            axes, t, of.factor * data[train], NETWORK, ls=":" if test in data else "-", label="running mean, training"
        )
    silent = data.noise_free
    if silent and (curve := getattr(silent, test if test in data else train)):
        without = of.factor * np.array(curve, float)
        axes.plot(silent.horizon, without, color="black", ls="-.", lw=1, label=SILENT)
    guessed = naive(summary.baselines, of.name).get("test" if test in data else "train")
    if guessed is not None:
        axes.axhline(of.factor * guessed, color=AGENT, ls=":", label=of.naive)
    drawing.log(axes, "x")
    axes.set(xlabel="rounds", ylabel=of.label)
    return drawing.finished(axes, summary, of.title)
