"""Figures of a comparison: curves over each other in small multiples, and results against an axis of numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from mpinodes.results.report import drawing
from mpinodes.results.report.drawing import AGENT, AVERAGE, CLAIM, NETWORK
from mpinodes.results.report.reading import Drawn
from mpinodes.results.runs import PROVEN, Run
from mpinodes.studies.comparing import Comparison, compared_results, interval, shown
from mpinodes.studies.study import word_of

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
    with drawing.style():
        for name, figure in _all(comparison):
            path = target / f"{name}.png"
            figure.savefig(path)
            drawn.append(path)
    return drawn


def _all(comparison: Comparison) -> Iterator[tuple[str, Figure]]:
    for curve in CURVES:
        read = {id(run): _values(run, curve) for run in comparison.runs}
        there = [found[1] for found in read.values() if found is not None]
        if there:
            draw = _curves(comparison, read)
            yield from _multiples(comparison, Plot(curve.file, "rounds", curve.label, Reach.of(there), draw))
    for axis in comparison.axes:
        if comparison.is_numeric(axis):
            for name in [*_for_figures(comparison), PROVEN]:
                if any(run.results.get(name) is not None for run in comparison.runs):
                    yield from _multiples(comparison, _against(comparison, axis, name), left_out=axis)


class Reach(NamedTuple):
    """From where to where an axis goes: as far as there are values, and not as their intervals do.

    Attributes:
        low, high: its ends.
        log: whether it is logarithmic.
    """

    low: float
    high: float
    log: bool

    @classmethod
    def of(cls, found: Sequence[np.ndarray]) -> Reach:
        """Of all that is to be seen."""
        values = np.concatenate([np.ravel(each) for each in found])
        values = values[np.isfinite(values)]
        low, high = float(values.min(initial=np.inf)), float(values.max(initial=-np.inf))
        if low > 0 and high > 30 * low:
            return cls(low / 1.3, high * 1.3, True)
        margin = 0.07 * (high - low) or 0.1 * abs(high) or 1.0
        return cls(low - margin, high + margin, False)


Draw = Callable[[Axes, tuple[Any, ...], str, str, str], None]  # a group, its colour, line and label


class Plot(NamedTuple):
    """What all panels of a figure show.

    Attributes:
        file: of the figure.
        x, y: labels of the axes.
        reach: of y.
        draw: one group.
        ticks: of x; none: rounds.
    """

    file: str
    x: str
    y: str
    reach: Reach
    draw: Draw
    ticks: tuple[float, ...] = ()

    def arrange(self, axes: Axes) -> None:
        """Its axes."""
        if not self.ticks:
            drawing.log(axes, "x")
        else:
            if min(self.ticks) > 0:
                axes.set_xscale("log")
            axes.set_xticks(self.ticks, [f"{tick:g}" for tick in self.ticks])
            axes.xaxis.set_minor_locator(NullLocator())
        if np.isfinite(self.reach.low):
            axes.set_ylim(self.reach.low, self.reach.high)
        if self.reach.log:
            drawing.log(axes, "y")


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


def _for_figures(comparison: Comparison) -> list[str]:
    """The first result of all, and the accuracy."""
    first, *rest = compared_results(comparison) or [PROVEN]
    return [first, *(name for name in rest if name.startswith("accuracy"))]


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


def _multiples(comparison: Comparison, plot: Plot, left_out: str | None = None) -> Iterator[tuple[str, Figure]]:
    """The first axis by colour, the next two as columns and rows of panels, and a figure for each value of the rest."""
    first = comparison.axes[0] if comparison.axes and comparison.axes[0] != left_out else None
    rest = [axis for axis in comparison.axes if axis not in (first, left_out)]
    rest.sort(key=lambda axis: not comparison.is_numeric(axis))  # numbers from left to right
    sides, others = rest[:2], rest[2:]
    for values in product(*(comparison.points(axis) for axis in others)):
        at = dict(zip(others, values, strict=True))
        words = [word_of(word(comparison, axis).replace(".", "-"), value) for axis, value in at.items()]
        yield "-".join([plot.file, *words]), _panels(comparison, plot, first, sides, at)


def _panels(comparison: Comparison, plot: Plot, first: str | None, sides: Sequence[str], at: dict[str, Any]) -> Figure:
    """One figure: a panel for each value of the side axes, where the other axes are at some values."""
    columns, rows = ([*(comparison.points(axis) for axis in sides), [None], [None]])[:2]
    size = 1.2 + 2.7 * max(len(columns), 1.9), 1.1 + 2.2 * max(len(rows), 1.4)
    figure = Figure(figsize=size, layout="constrained")
    panels = figure.subplots(len(rows), len(columns), squeeze=False, sharex=True, sharey=True)
    colours = comparison.points(first) if first else [None]
    for (r, row), (c, column) in product(enumerate(rows), enumerate(columns)):
        here = at | dict(zip(sides, (column, row), strict=False))
        for k, point in enumerate(colours):
            group = tuple(point if axis == first else here.get(axis) for axis in comparison.axes)
            line, label = LINES[k // len(COLOURS) % len(LINES)], "all" if first is None else shown(point)
            plot.draw(panels[r, c], group, COLOURS[k % len(COLOURS)], line, label)
        panels[r, c].set_title(", ".join(f"{word(comparison, axis)} {shown(here[axis])}" for axis in sides), fontsize=9)
    for axes in panels.flat:
        plot.arrange(axes)
    for axes in panels[-1]:
        axes.set_xlabel(plot.x)
    figure.supylabel(plot.y, fontsize=10)
    _legend(figure, panels.flat, word(comparison, first) if first else "")
    return figure


def _legend(figure: Figure, panels: Iterable[Axes], first: str) -> None:
    handles = {
        label: handle for axes in panels for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    title = f"{first}; " if first else ""
    figure.legend(
        list(handles.values()), list(handles), loc="outside upper center", ncols=min(len(handles), 4) or 1,
        title=f"{title}mean over seeds, and its 95 % interval", title_fontsize=9,
    )  # fmt: skip


def _against(comparison: Comparison, axis: str, name: str) -> Plot:
    """A result against an axis of numbers."""
    points, estimates = comparison.points(axis), comparison.estimates(name)
    place = comparison.axes.index(axis)
    share = 100.0 if name.startswith("accuracy") else 1.0

    def draw(axes: Axes, group: tuple[Any, ...], colour: str, line: str, label: str) -> None:
        found = [(x, estimates.get((*group[:place], x, *group[place + 1 :]))) for x in points]
        known = [(x, share * e.mean, share * e.half) for x, e in found if e is not None]
        if known:
            x, mean, half = map(np.array, zip(*known, strict=True))
            axes.fill_between(x, mean - half, mean + half, color=colour, alpha=0.15, lw=0)
            axes.plot(x, mean, color=colour, ls=line, marker="o", ms=4, label=label)

    file = f"{'accuracy' if share > 1 else 'privacy' if name == PROVEN else 'result'}-by-{word(comparison, axis)}"
    seen = [np.array(run.results[name], float) for run in comparison.runs if run.results.get(name) is not None]
    reach = Reach.of([share * each for each in seen])
    return Plot(file, axis, name + " (%)" * (share > 1), reach, draw, tuple(points))


def word(comparison: Comparison, axis: str) -> str:
    """What tells an axis from the others: a word of its key, or all of it."""
    return axis if [short(other) for other in comparison.axes].count(short(axis)) > 1 else short(axis)


def short(key: str) -> str:
    """A key's last word, with its section where that alone says little."""
    *_, section, last = ("", *key.split("."))
    return section if last in ("name", "path") and section else last
