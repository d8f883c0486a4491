"""The figures of a run."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import matplotlib as mpl
import networkx as nx
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from mpinodes.results.summary import BOUNDED

Json = dict[str, Any]

# Okabe and Ito's colours, which most kinds of colour blindness leave apart.
NETWORK, AVERAGE, AGENT, CLAIM = "#0072B2", "#D55E00", "#999999", "#009E73"

STYLE: Any = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "legend.frameon": False,
    "savefig.dpi": 144,
    "text.parse_math": False,  # titles may be a user's own
}


def draw_all(data: xr.Dataset, summary: Json, target: Path) -> dict[str, Path]:
    """Draw every figure that the run has the numbers for, as PNG; returns titles and files."""
    drawers: dict[str, tuple[str, Callable[[xr.Dataset, Json], Figure | None]]] = {
        "regret": ("Regret per round", regret),
        "gap": ("Optimality gap", gap),
        "error": ("Distance to the best decision", error),
        "training": ("Training loss", training),
        "privacy": ("Privacy loss", privacy),
        "accuracy": ("Accuracy", accuracy),
        "topology": ("Topology", topology),
    }
    drawn = {}
    with mpl.rc_context(STYLE):
        for name, (title, drawer) in drawers.items():
            if (figure := drawer(data, summary)) is not None:
                path = target / f"{name}.png"
                figure.savefig(path)
                drawn[title] = path
        for metric in summary["metrics"]:
            if metric["figure"] and metric["variable"] in data:
                path = target / f"{metric['variable']}.png"
                _of_metric(data[metric["variable"]], metric, summary).savefig(path)
                drawn[metric["label"].capitalize()] = path
    return drawn


def _axes(width: float = 6.4, height: float = 3.8) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.add_subplot()


def _line(axes: Axes, t: np.ndarray, values: xr.DataArray, colour: str, **style: Any) -> None:
    """A curve; of repeats their mean, and a band from the least to the largest."""
    if "repeat" in values.dims:
        axes.fill_between(t, values.min("repeat"), values.max("repeat"), color=colour, alpha=0.15, lw=0)
        values = values.mean("repeat")
    axes.plot(t, values, color=colour, **style)


def _title(axes: Axes, summary: Json) -> None:
    repeats = f", mean and range of {summary['repeats']} seeds" if "repeats" in summary else ""
    axes.set_title(f"{summary['algorithm']} on {summary['data']}, {summary['agents']} agents{repeats}", fontsize=9)


def _of_metric(values: xr.DataArray, metric: Json, summary: Json) -> Figure:
    """A metric that was asked for, by round or horizon; of agents their range and mean."""
    figure, axes = _axes()
    along = "horizon" if "horizon" in values.dims else "round"
    t = values[along].values
    if metric["per_round"]:
        values = values / values[along]
    if metric["unit"] == "share":
        values = 100 * values
    if "agent" in values.dims:
        rest = [dim for dim in values.dims if dim != along]
        axes.fill_between(t, values.min(rest), values.max(rest), color=AGENT, alpha=0.3, lw=0)
        values = values.mean("agent")
    _line(axes, t, values, NETWORK)
    _log(axes, "x", *(("y",) if float(values.min()) > 0 else ()))
    axes.set(xlabel="rounds", ylabel=metric["label"] + " (%)" * (metric["unit"] == "share"))
    _title(axes, summary)
    return figure


def regret(data: xr.Dataset, summary: Json) -> Figure:
    """R(T)/T of the network, of every agent, and of the running average."""
    figure, axes = _axes()
    t = data.horizon.values
    agents = data.agent_regret / data.horizon
    if agents.sizes["agent"] > 1:
        rest = [dim for dim in agents.dims if dim != "horizon"]
        axes.fill_between(
            t, agents.min(rest), agents.max(rest), color=AGENT, alpha=0.3, lw=0, label="agents, least to most"
        )
    _line(axes, t, data.network_regret / data.horizon, NETWORK, marker="o", ms=3, label="network")
    average = data.network_regret_average_iterate / data.horizon
    _line(axes, t, average, AVERAGE, marker="s", ms=3, label="network, running average")
    if "dynamic_regret" in data:
        _line(axes, t, data.dynamic_regret / data.horizon, CLAIM, marker="^", ms=3, label="network, dynamic")
    _bounds(axes, data, summary)
    axes.axhline(0, color="black", lw=0.8)
    _log(axes, "x")
    axes.set(xlabel="horizon T (rounds)", ylabel="regret per round, R(T)/T")
    _title(axes, summary)
    axes.legend()
    return figure


def _bounds(axes: Axes, data: xr.Dataset, summary: Json) -> None:
    """The theorems' bounds that apply and end within the figure."""
    low, top = axes.get_ylim()
    for bound in summary["bounds"]:
        values = data[bound["variable"]] / data.horizon
        if "regret" in bound["of"] and bound["applies"] and float(values.isel(horizon=-1).max()) <= top:
            label = f"{bound['name']}: {BOUNDED[bound['of']]}"
            _line(axes, data.horizon.values, values, CLAIM, ls="--", label=label)
    axes.set_ylim(low, top)


def _log(axes: Axes, *names: Literal["x", "y"]) -> None:
    """Logarithmic, with plain numbers: no text of a figure is read as mathematics."""
    for name in names:
        getattr(axes, f"set_{name}scale")("log")
        axis = getattr(axes, f"{name}axis")
        low, high = axis.get_view_interval()
        axis.set_major_formatter("{x:g}")
        axis.set_minor_formatter("{x:g}" if high < 10 * low else NullFormatter())


def gap(data: xr.Dataset, summary: Json) -> Figure | None:
    """Optimality gap of the agents' average or last decisions, of offline methods."""
    if "optimality_gap" not in data:
        return None
    figure, axes = _axes()
    t, found = data.horizon.values, data.optimality_gap
    rest = [dim for dim in found.dims if dim != "horizon"]
    axes.fill_between(t, found.min(rest), found.max(rest), color=AGENT, alpha=0.3, lw=0, label="agents, least to most")
    _line(axes, t, found.mean("agent"), NETWORK, marker="o", ms=3, label="mean over agents")
    _log(axes, "x", *(("y",) if float(found.min()) > 0 else ()))
    axes.set(xlabel="rounds", ylabel=f"F({summary['judged']} decision) − min F, per agent and round")
    _title(axes, summary)
    axes.legend()
    return figure


def error(data: xr.Dataset, summary: Json) -> Figure | None:
    """Squared distance to the best fixed decision, of the mean decision and of each agent's, with its bounds."""
    if "decision_error" not in data or not float(data.decision_error.max()) > 0:
        return None
    figure, axes = _axes()
    t, each = data.horizon.values, data.agent_decision_error
    rest = [dim for dim in each.dims if dim != "horizon"]
    axes.fill_between(t, each.min(rest), each.max(rest), color=AGENT, alpha=0.3, lw=0, label="agents, least to most")
    _line(axes, t, data.decision_error, NETWORK, marker="o", ms=3, label="mean decision")
    for bound, line in zip(
        [b for b in summary["bounds"] if "error" in b["of"] and b["applies"]], ("--", ":"), strict=False
    ):
        _line(axes, t, data[bound["variable"]], CLAIM, ls=line, label=f"{bound['name']}: {BOUNDED[bound['of']]}")
    _log(axes, "x", "y")
    axes.set(xlabel="rounds", ylabel=f"‖{summary['judged']} decision − best‖²")
    _title(axes, summary)
    axes.legend(fontsize=8)
    return figure


def training(data: xr.Dataset, summary: Json) -> Figure | None:
    """Training loss of every round, of losses that stay the same."""
    if "training_loss" not in data:
        return None
    figure, axes = _axes()
    _line(axes, data["round"].values, data.training_loss, NETWORK, label="at each agent's own decision")
    _log(axes, "y")
    axes.set(xlabel="round", ylabel="training loss L(t)")
    _title(axes, summary)
    axes.legend()
    return figure


def privacy(data: xr.Dataset, summary: Json) -> Figure | None:
    """ε against rounds: claimed, proven pure, proven at δ, for the worst agent and the network."""
    t = data.horizon.values
    delta = summary["privacy"]["delta"]
    curves = [
        ("claimed by the paper", data.epsilon_claimed_network, CLAIM, "-"),
        ("network, proven pure", data.epsilon_proven_pure_network, NETWORK, "--"),
        (f"network, proven at δ = {delta:g}", data.epsilon_proven_network, NETWORK, "-"),
        ("worst agent's share, proven pure", data.epsilon_proven_pure, AVERAGE, "--"),
        (f"worst agent's share, proven at δ = {delta:g}", data.epsilon_proven, AVERAGE, "-"),
    ]
    worst = [(label, _worst(e), colour, line) for label, e, colour, line in curves]
    shown = [(label, e, colour, line) for label, e, colour, line in worst if np.any(e > 0)]
    if not shown:
        return None
    figure, axes = _axes()
    for label, epsilon, colour, line in shown:
        known = epsilon > 0
        axes.plot(t[known], epsilon[known], color=colour, ls=line, marker=".", label=label)
    if np.isnan(_worst(data.epsilon_proven_network)[-1]):
        axes.set_title("nothing is proven for this run", fontsize=10)
    _log(axes, "x", "y")
    axes.set(xlabel="rounds", ylabel="privacy loss ε")
    axes.legend(fontsize=8)
    return figure


def _worst(epsilon: xr.DataArray) -> np.ndarray:
    """Over agents and repeats, by horizon."""
    return np.asarray(epsilon.max([dim for dim in epsilon.dims if dim != "horizon"], skipna=False))


def accuracy(data: xr.Dataset, summary: Json) -> Figure | None:
    """Accuracy of the running mean and of the last decision against rounds, on test data where there are some."""
    if "accuracy_train" not in data:
        return None
    figure, axes = _axes()
    t = data.horizon.values
    if "accuracy" in data:
        _line(axes, t, 100 * data.accuracy, NETWORK, marker="o", ms=3, label="running mean of the decisions, test")
        _line(axes, t, 100 * data.accuracy_last, AVERAGE, marker="s", ms=3, label="last decision, test")
    _line(axes, t, 100 * data.accuracy_train, NETWORK, ls=":", label="running mean, training")
    _log(axes, "x")
    axes.set(xlabel="rounds", ylabel="accuracy (%)")
    _title(axes, summary)
    axes.legend(loc="lower right")
    return figure


def topology(data: xr.Dataset, summary: Json) -> Figure:
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
