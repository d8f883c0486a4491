"""Figures of a comparison: curves over each other in small multiples, and results against an axis of numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mpinodes.results.report import drawing
from mpinodes.results.report.drawing import AGENT, AVERAGE, CLAIM, NETWORK, STYLE
from mpinodes.results.report.reading import Drawn
from mpinodes.results.runs import PROVEN, Run
from mpinodes.studies.comparing import Comparison, compared_results, interval, shown

COLOURS = [NETWORK, AVERAGE, CLAIM, "#CC79A7", "#E69F00", "#56B4E9", AGENT, "#000000"]  # Okabe and Ito's
LINES = ["-", "--", ":", "-."]


class Curve(NamedTuple):
    """A variable of the record, by horizon.

    Attributes:
        file: of its figure.
        label: of its axis.
        variable: its name.
        per_round: whether it is divided by the rounds.
        factor: and multiplied by.
    """

    file: str
    label: str
    variable: str
    per_round: bool = False
    factor: float = 1.0


CURVES = (
    Curve("regret", "network regret per round, R(T)/T", "network_regret", per_round=True),
    Curve("gap", "optimality gap, mean over agents", "optimality_gap"),
    Curve("accuracy", "accuracy of the running mean, test (%)", "accuracy", factor=100),
    Curve("privacy", "proven ε of the network", "epsilon_proven_network"),
)


def draw_all(comparison: Comparison, target: Path) -> list[Path]:
    """Every figure that the runs have the numbers for."""
    drawn = []
    with mpl.rc_context(STYLE):
        for name, figure in _all(comparison):
            path = target / f"{name}.png"
            figure.savefig(path)
            drawn.append(path)
    return drawn


def _all(comparison: Comparison) -> Iterator[tuple[str, Figure]]:
    for curve in CURVES:
        read = {id(run): _values(run, curve) for run in comparison.runs}
        if any(found is not None for found in read.values()):
            log_y = _spans_decades([found[1] for found in read.values() if found is not None])
            yield from _multiples(comparison, curve.file, "rounds", curve.label, log_y, _curves(comparison, read))
    for axis in comparison.axes:
        if comparison.is_numeric(axis) and len(comparison.points(axis)) > 1:
            for name in [*_for_figures(comparison), PROVEN]:
                if any(run.results.get(name) is not None for run in comparison.runs):
                    yield from _against(comparison, axis, name)


def _values(run: Run, curve: Curve) -> tuple[np.ndarray, np.ndarray] | None:
    """Horizons, and the variable there, of a loss as if each round had one; of agents their mean."""
    with Drawn(run.place) as record:
        if curve.variable not in record:
            return None
        found = record[curve.variable]
        if "agent" in found.dims:
            found = found.mean("agent")
        t = record["horizon"].values
    values = curve.factor * run.normalized(curve.variable, found.values)
    return (t, values / t if curve.per_round else values) if np.isfinite(values).any() else None


def _spans_decades(found: Sequence[np.ndarray]) -> bool:
    values = np.concatenate(found)
    values = values[np.isfinite(values)]
    return bool(values.min() > 0 and values.max() > 30 * values.min())


def _for_figures(comparison: Comparison) -> list[str]:
    """The first result of all, and the accuracy."""
    first, *rest = compared_results(comparison) or [PROVEN]
    return [first, *(name for name in rest if name.startswith("accuracy"))]


Draw = Callable[[Axes, tuple[Any, ...], str, str, str], None]  # a group, its colour, line and label


def _curves(comparison: Comparison, read: dict[int, tuple[np.ndarray, np.ndarray] | None]) -> Draw:
    """Mean over seeds and its 95 % interval, at the horizons that all seeds have."""

    def draw(axes: Axes, group: tuple[Any, ...], colour: str, line: str, label: str) -> None:
        found = [there for run in comparison.groups.get(group, []) if (there := read[id(run)]) is not None]
        if not found:
            return
        shared = sorted(set.intersection(*(set(t.tolist()) for t, _ in found)))
        mean, half = interval(np.array([values[np.isin(t, shared)] for t, values in found]))
        axes.fill_between(shared, mean - half, mean + half, color=colour, alpha=0.15, lw=0)
        axes.plot(shared, mean, color=colour, ls=line, marker="o", ms=2.5, label=label)

    return draw


def _multiples(
    comparison: Comparison, name: str, x: str, y: str, log_y: bool, draw: Draw, left_out: str | None = None
) -> Iterator[tuple[str, Figure]]:
    """The first axis by colour, the next two as columns and rows of panels, and a figure for each value of the rest."""
    rest = [axis for axis in comparison.axes[1:] if axis != left_out]
    first = comparison.axes[0] if comparison.axes and comparison.axes[0] != left_out else None
    rest.sort(key=lambda axis: not comparison.is_numeric(axis))  # numbers from left to right
    of = {axis: comparison.points(axis) for axis in rest}
    sides, others = rest[:2], rest[2:]
    columns, rows = (of[sides[0]] if sides else [None]), (of[sides[1]] if len(sides) > 1 else [None])
    colours = comparison.points(first) if first else [None]
    for values in product(*(of[axis] for axis in others)):
        figure = Figure(
            figsize=(1.2 + 2.7 * max(len(columns), 1.9), 1.1 + 2.2 * max(len(rows), 1.4)), layout="constrained"
        )
        panels = figure.subplots(len(rows), len(columns), squeeze=False, sharex=True, sharey=True)
        for (r, row), (c, column) in product(enumerate(rows), enumerate(columns)):
            axes = panels[r, c]
            at = dict(zip(others, values, strict=True)) | dict(zip(sides, (column, row), strict=False))
            for k, point in enumerate(colours):
                group = tuple(point if axis == first else at.get(axis) for axis in comparison.axes)
                line = LINES[k // len(COLOURS) % len(LINES)]
                draw(axes, group, COLOURS[k % len(COLOURS)], line, "all" if point is None else shown(point))
            told = [f"{short(axis)} {shown(at[axis])}" for axis in sides]
            axes.set_title(", ".join(told), fontsize=9)
        for axes in panels.flat:
            drawing.log(axes, "x", *(("y",) if log_y else ()))
        for axes in panels[-1]:
            axes.set_xlabel(x)
        figure.supylabel(y, fontsize=10)
        _legend(figure, panels[0, 0], first)
        where = "-".join(f"{short(axis)}-{value}" for axis, value in zip(others, values, strict=True))
        yield f"{name}-{where}" if where else name, figure


def _legend(figure: Figure, axes: Axes, first: str | None) -> None:
    handles, labels = axes.get_legend_handles_labels()
    title = f"{short(first)}; " if first else ""
    figure.legend(
        handles, labels, loc="outside upper center", ncols=min(len(labels), 4) or 1,
        title=f"{title}mean over seeds, and its 95 % interval", title_fontsize=9,
    )  # fmt: skip


def _against(comparison: Comparison, axis: str, name: str) -> Iterator[tuple[str, Figure]]:
    """A result against an axis of numbers."""
    points, estimates = comparison.points(axis), comparison.estimates(name)
    place = comparison.axes.index(axis)
    there = [e.mean for e in estimates.values() if e is not None]
    share = 100.0 if name.startswith("accuracy") else 1.0

    def draw(axes: Axes, group: tuple[Any, ...], colour: str, line: str, label: str) -> None:
        found = [(x, estimates.get((*group[:place], x, *group[place + 1 :]))) for x in points]
        known = [(x, share * e.mean, share * e.half) for x, e in found if e is not None]
        if known:
            x, mean, half = map(np.array, zip(*known, strict=True))
            axes.fill_between(x, mean - half, mean + half, color=colour, alpha=0.15, lw=0)
            axes.plot(x, mean, color=colour, ls=line, marker="o", ms=4, label=label)

    file = f"{'accuracy' if share > 1 else 'privacy' if name == PROVEN else 'result'}-by-{short(axis)}"
    label = name + " (%)" * (share > 1)
    return _multiples(comparison, file, axis, label, _spans_decades([np.array(there)]), draw, left_out=axis)


def short(key: str) -> str:
    """A key's last word, with its section where that alone says little."""
    *_, section, last = ("", *key.split("."))
    return section if last in ("name", "path") and section else last
