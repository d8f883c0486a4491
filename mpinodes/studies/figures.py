"""Draw the figures of a comparison: curves against rounds, and results against keys with numeric values.

The axes of a comparison are the keys in which the compared runs differ. The colour of a line shows the value of the
first axis, and its panel shows the values of the next axes. The lines of one colour in one panel differ in the
remaining axes.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Collection, Iterable, Iterator
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.style import available

from mpinodes.config.schema import suggest
from mpinodes.core.errors import BadInput
from mpinodes.finished.runs import PROVEN, FinishedRun, warned
from mpinodes.presentation import plots as drawing
from mpinodes.presentation.findings import naive
from mpinodes.presentation.plots import AGENT, AVERAGE, CLAIM, NETWORK, Drawn, Point
from mpinodes.presentation.run_figures import Curve, curve_figures
from mpinodes.studies.comparing import Comparison, compared_results, interval, shown

COLOURS = [NETWORK, AVERAGE, CLAIM, "#CC79A7", "#E69F00", "#56B4E9", AGENT, "#000000"]  # Okabe and Ito's
COLOURS += ["#7A4EAB", "#8C510A", "#5C7A00", "#9B1B30", "#1B2A6B", "#00A6A6", "#F08080", "#B8B800"]
STYLES: list[dict[str, Any]] = [
    {"color": colour, "ls": line, "marker": marker, "ms": 2.5}
    for marker in "osD^" for line in ("-", "--", "-.") for colour in COLOURS
]  # fmt: skip
MOST_FIGURES, MOST_PANELS, MOST_LETTERS = 12, 12, 28  # limits per comparison, per figure, per line of a label
LEAST_WIDTH = 1.6  # inches: the least width of a panel
MOST_SHARED = 1e5  # if the largest value exceeds the least value by this factor, each panel has its own scale
MARKS = ("accuracy", "rmse")  # how the names of results begin that say how good a model is
GUESS = "guessing: always the largest class"
WIDTHS = {"column": 3.3, "page": 7.0}  # inches: a column and the page of a paper with two columns
WORDS = {  # keys in the words of papers
    "privacy.budget.epsilon": "privacy budget ε", "privacy.epsilon": "nominal ε", "privacy.delta": "δ",
    "privacy.noise_multiplier": "noise multiplier", "privacy.clip": "clipping bound", "data.batch": "batch size",
    "topology.name": "graph", "topology.agents": "number of agents", "step.kind": "step schedule", "name": "variant",
}  # fmt: skip


PRIVACY = Curve("epsilon_proven_network", "proven ε of the network", "", per_round=False)
# The curves against rounds, by file name: the first curve of each figure of a single run, and the proven ε.
CURVES = {name: figure.curves[0] for name, figure in curve_figures().items()} | {"privacy": PRIVACY}


def guessed() -> dict[str, Any]:
    """Return the look of the line for the accuracy of guessing, in the colour of text, which a style may change."""
    return {"color": mpl.rcParams["text.color"], "ls": ":", "lw": 1.0}


class Plot(NamedTuple):
    """Hold the data of one figure.

    Each line shows a group of runs with equal values of the keys in `axes`. The tuple of these values is the key of the
    line in `lines` and `guesses`.

    Attributes:
        file: the name of the file, without .png.
        x, y: the labels of the horizontal and the vertical axis.
        axes: the keys that distinguish the lines. Colours show the values of the first key, and panels the values of
            the next `sides` keys.
        lines: for each line, the values of x, the mean, and half the width of the mean's 95 % confidence interval.
        guesses: for each line, the accuracy of always predicting the largest class, in the unit of y.
        ticks: the ticks of x; empty if x counts rounds.
    """

    file: str
    x: str
    y: str
    axes: list[str]
    lines: dict[tuple[Any, ...], tuple[np.ndarray, np.ndarray, np.ndarray]]
    guesses: dict[tuple[Any, ...], float]
    ticks: tuple[float, ...] = ()

    @property
    def sides(self) -> int:
        """Return how many keys are shown by panels: each combination of their values has a panel.

        The keys are counted from the second key in `axes`. The number is the first of these numbers with which the
        figure has at most `MOST_PANELS` panels: the number of all these keys, 2, 1, 0.
        """
        numbers = (max(0, len(self.axes) - 1), 2, 1)
        return next((n for n in numbers if len({group[1 : 1 + n] for group in self.lines}) <= MOST_PANELS), 0)

    def values(self, groups: Collection[tuple[Any, ...]]) -> np.ndarray:
        """Return the finite values that some lines show: means, ends of intervals, and accuracies in `guesses`.

        On a logarithmic axis, ends of intervals that are not positive are left out.

        If no value is finite, the array [0] is returned.

        Args:
            groups: the lines, each identified by its values of the keys in `axes`.
        """
        guesses = [self.guesses[group] for group in groups if group in self.guesses]
        means, bands = np.concatenate([self.lines[g][1] for g in groups]), [self.band(g) for g in groups]
        ends = np.concatenate([end for band in bands for end in band])
        if 0 < drawing.PLAIN * np.nanmin(means) < np.nanmax(means):
            ends = ends[ends > 0]
        values = np.concatenate([means, ends, guesses])
        return values[np.isfinite(values)] if np.isfinite(values).any() else np.zeros(1)

    def band(self, group: tuple[Any, ...]) -> tuple[np.ndarray, np.ndarray]:
        """Return the ends of the intervals of a line, at least 0 for errors and accuracies, and at most 100 %."""
        _, mean, half = self.lines[group]
        is_share = self.y.endswith("(%)")
        least = 0 if is_share or self.y.startswith(("RMSE", "‖")) else -np.inf
        return np.maximum(mean - half, least), np.minimum(mean + half, 100.0 if is_share else np.inf)

    def in_one_panel(self) -> Plot:
        """Return the same data, where each line has a colour and a label of its own, also if several keys differ."""
        if len(self.axes) < 2:
            return self
        names = {group: (", ".join(map(label, group)),) for group in self.lines}
        lines = {names[group]: line for group, line in self.lines.items()}
        return self._replace(lines=lines, guesses={names[g]: x for g, x in self.guesses.items() if g in names})

    def draw(self, axes: Axes, groups: Iterable[tuple[Any, ...]], points: list[Any]) -> None:
        """Draw lines with their bands into a panel. `points` are the values of the first key, which have colours."""
        for group in groups:
            style, (x, mean, _) = STYLES[points.index(group[0]) % len(STYLES) if group else 0], self.lines[group]
            axes.fill_between(x, *self.band(group), color=style["color"], alpha=0.15, lw=0)
            axes.plot(x, mean, label=label(group[0]) if group else None, **style)
            if group in self.guesses:
                axes.axhline(self.guesses[group], **guessed())

    def arrange(self, axes: Axes, values: np.ndarray) -> None:
        """Set the scales and the ticks of a panel, so that its vertical axis shows all `values`."""
        is_spread = not self.ticks or self.ticks[0] > 0
        if is_spread:
            drawing.log(axes, "x")
        gaps = np.diff(np.log(self.ticks) if is_spread else self.ticks)
        if self.ticks and gaps.min(initial=np.inf) > gaps.sum() / 8:
            axes.set_xticks(self.ticks, [f"{tick:g}" for tick in self.ticks])
        drawing.scale(axes, values, from_zero=False, is_share=self.y.endswith("(%)"))
        axes.minorticks_off()  # minor ticks would take most of the layout's time


def draw_all(
    comparison: Comparison, target: Path, tell: Callable[[str], object] = str, width: str = "", style: str = "",
    ax: Axes | None = None,
) -> dict[Path, tuple[str, list[Point]]]:  # fmt: skip
    """Draw the figures of a comparison, at most `MOST_FIGURES`, and return their files, with their titles and points.

    The page shows the values of the points. The figures show results of the runs against rounds, and against keys with
    numeric values.

    Args:
        comparison: the runs. If some figures are not drawn, a remark that names them is added to the comparison.
        target: the directory of the files.
        tell: a function that is called with lines of text on the progress.
        width: "column", "page", or "" for a width that fits the panels.
        style: a style of matplotlib, or a file with a style; "" means none.
        ax: Axes into which the main figure is drawn, too.

    Raises:
        BadInput: `width` is unknown, or there is no such style.
    """
    if width and width not in WIDTHS:
        raise BadInput(f"width = {width!r}: choose from: {', '.join(WIDTHS)}")
    if style and style not in available and not Path(style).is_file():
        raise BadInput(f"style = {style!r}: neither a file nor a style of matplotlib; {suggest(style, available)}")
    tell(f"reading the records of {len(comparison.runs)} runs")
    plots = [plot for plot in _plots(comparison) if plot.lines]
    drawn: dict[Path, tuple[str, list[Point]]] = {}
    if ax is not None and plots:
        by_key = [plot for plot in plots if plot.ticks] or plots
        plot = next((plot for plot in by_key if plot.y.endswith("(%)")), by_key[0]).in_one_panel()
        named = [name for group in plot.lines for name in group]  # with several keys, each line has a colour of its own
        plot.draw(ax, plot.lines, comparison.points(plot.axes[0]) if len(plot.axes) == 1 else named)
        plot.arrange(ax, plot.values(plot.lines))
        if plot.guesses:
            ax.plot([], [], label=GUESS.partition(":")[0], **guessed())
        ax.set(xlabel=plot.x, ylabel=textwrap.fill(plot.y, MOST_LETTERS))
        ax.legend(title=", ".join(phrase(comparison, axis) for axis in plot.axes) or None)
    with drawing.style(style, {"font.size": 7.5} if width else {}):
        for plot in plots[:MOST_FIGURES]:
            path = target / f"{plot.file}.png"
            tell(f"drawing {path.name}, {len(drawn) + 1} of {min(len(plots), MOST_FIGURES)}")
            figure = _drawn(comparison, plot, WIDTHS.get(width, 0.0))
            for suffix in (".png", ".pdf", ".svg"):
                drawing.save(figure, path.with_suffix(suffix))
            drawn[path] = f"{plot.y[0].upper()}{plot.y[1:]} against {plot.x}", drawing.points(figure)
    if names := ", ".join(plot.file for plot in plots[MOST_FIGURES:]):
        comparison.remarks.append(f"Figures left out: {names}; --along with fewer keys draws these figures.")
    if any(len(plot.axes) > 1 + plot.sides for plot in plots):
        comparison.remarks.append("In figures, lines of one colour differ in keys without panels: use --along KEY,...")
    return drawn


def _plots(comparison: Comparison) -> Iterator[Plot]:
    """Yield the data of all figures: curves against rounds, and main results against each key with numeric values."""
    guesses: dict[tuple[Any, ...], float] = {}
    for group, runs in comparison.groups.items():
        shares = [share for run in runs if (share := naive(run.summary.baselines, "accuracy").get("test")) is not None]
        guesses |= {group: 100 * float(np.mean(shares))} if shares else {}
    read = {id(run): _curves(run) for run in comparison.runs}
    for name, curve in CURVES.items():
        lines = {}
        for group, runs in comparison.groups.items():
            if there := [read[id(run)][name] for run in runs if name in read[id(run)]]:
                shared = sorted(set.intersection(*(set(t.tolist()) for t, _ in there)))
                values = np.array([values[np.isin(t, shared)] for t, values in there])
                mean, _, half = interval(values)
                lines[group] = np.array(shared), mean, half
        label = comparison.columns[PROVEN].label if curve is PRIVACY else curve.label
        label += ", per loss" * any(run.summary.losses_in_a_round(curve.variable) > 1 for run in comparison.runs)
        label += " (%)" * (curve.unit == "share")
        yield Plot(name, "rounds", label, comparison.axes, lines, guesses if name == "accuracy" else {})
    first, *rest = compared_results(comparison) or [PROVEN]
    for axis in filter(comparison.is_numeric, comparison.axes):
        for name in dict.fromkeys([first, *(name for name in rest if name.startswith(MARKS)), PROVEN]):
            yield _against(comparison, axis, name, guesses)


def _curves(run: FinishedRun) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return the curves of a run by file name, each as a pair: the rounds of measurement, and the values.

    Losses that sum over agents are divided by the number of agents. Values for each agent are averaged over the agents.
    """
    read = {}
    with Drawn(run.place) as record:
        for name, curve in CURVES.items():
            if curve.variable in record and "horizon" in record[curve.variable].dims:
                t, named = curve.values(record)
                values = named.reduced(np.nanmean, ["agent"]).values / run.summary.losses_in_a_round(curve.variable)
                # If the last privacy loss is infinite, draw no curve, as if nothing were proven.
                if np.isfinite(values[-1:] if curve is PRIVACY else values).any():
                    read[name] = t, values
    return read


def _against(comparison: Comparison, axis: str, name: str, guesses: dict[tuple[Any, ...], float]) -> Plot:
    """Return the data of a figure that shows a result against a key whose values are numbers.

    The figure has a line for each combination of values of the other keys. Values of the key that are not finite are
    left out. A line with a single point is left out if the key has several values.

    Args:
        comparison: the runs.
        axis: the key.
        name: the name of the result.
        guesses: the accuracy of always predicting the largest class, for each group of runs.
    """
    place = comparison.axes.index(axis)
    share = 100.0 if comparison.columns[name].unit == "share" else 1.0
    rows: dict[tuple[Any, ...], list[tuple[float, float, float, float]]] = {}
    for group, e in comparison.estimates(name).items():
        if e is not None and np.isfinite(group[place]):
            rest = (*group[:place], *group[place + 1 :])
            rows.setdefault(rest, []).append((group[place], share * e.mean, share * e.half, guesses.get(group, np.nan)))
    enough = min(2, len(comparison.points(axis)))
    columns = {rest: np.array(those).T for rest, those in rows.items() if len(those) >= enough}
    lines = {rest: (x, mean, half) for rest, (x, mean, half, _) in columns.items()}
    beside = {rest: float(c[3].mean()) for rest, c in columns.items() if share > 1 and np.isfinite(c[3]).all()}
    kind = name.partition("_")[0] if name.startswith(MARKS) else "privacy" if name == PROVEN else "result"
    ticks = tuple(sorted({float(x) for line in lines.values() for x in line[0]}))
    others = [other for other in comparison.axes if other != axis]
    y = comparison.columns[name].label + " (%)" * (share > 1)
    return Plot(f"{kind}-by-{word(comparison, axis)}", phrase(comparison, axis), y, others, lines, beside, ticks)


def _drawn(comparison: Comparison, plot: Plot, width: float = 0.0) -> Figure:
    """Draw a figure, in which colours show the first key in `plot.axes`, and panels show the next `plot.sides` keys.

    Args:
        comparison: the runs.
        plot: the data of the figure.
        width: the width of the figure in inches; 0: wide enough for the panels.
    """
    places = [{x: k for k, x in enumerate(comparison.points(axis))} for axis in plot.axes]
    sides = plot.axes[1 : 1 + plot.sides]
    settings = {group[1 : 1 + len(sides)] for group in plot.lines}
    panels = sorted(settings, key=lambda panel: [at[x] for at, x in zip(places[1:], panel, strict=False)])
    across = [len(set(values)) for values in zip(*panels, strict=True)]
    columns = across[-1] if across and len(panels) == prod(across) and 2 <= across[-1] <= 6 else min(4, len(panels))
    columns = min(columns, max(1, int(width / LEAST_WIDTH))) if width else columns
    rows = -(-len(panels) // columns)
    wide, high = (width, 1.0 + 1.6 * rows) if width else (1.2 + 2.7 * max(columns, 1.9), 1.4 + 2.2 * max(rows, 1.4))
    figure = Figure(figsize=(wide, high), layout="constrained")
    whole = plot.values(plot.lines)
    shared = bool(whole.max() < MOST_SHARED * whole.min() or whole.min() <= 0)
    grid = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=shared)
    for axes in grid.flat[len(panels) :]:
        axes.set_visible(False)
    for n, (axes, panel) in enumerate(zip(grid.flat, panels, strict=False)):
        groups = [group for group in plot.lines if group[1 : 1 + len(sides)] == panel]
        plot.draw(axes, groups, comparison.points(plot.axes[0]) if plot.axes else [])
        titles = [f"{phrase(comparison, axis)} = {label(x)}" for axis, x in zip(sides, panel, strict=True)]
        letters = int(14 * wide / columns)
        axes.set_title("\n".join(textwrap.fill(title, letters) for title in titles), fontsize=7 if width else 8)
        plot.arrange(axes, whole if shared else plot.values(groups))
        if n + columns >= len(panels):
            axes.set_xlabel(plot.x)
            axes.tick_params(labelbottom=True)
    letters = int(125 * high / mpl.rcParams["font.size"])  # on one line beside the panels; a style may enlarge letters
    figure.supylabel(textwrap.fill(plot.y, letters), fontsize="medium")
    _legend(figure, comparison, plot, 7 if width else 8)
    if not width and (warnings := warned(comparison.runs).values()):  # the caption of a figure in a paper is the user's
        counts = "; ".join(": ".join(line.split(": ")[:2]) for line in warnings)
        words = textwrap.fill(f"WARNING: {counts}", int(wide * 17), break_on_hyphens=False)
        figure.supxlabel(words, fontsize=7)
    return figure


def _legend(figure: Figure, comparison: Comparison, plot: Plot, size: int) -> None:
    """Add a legend above the panels."""
    points = comparison.points(plot.axes[0]) if plot.axes else ["mean"]
    drawn = {group[0] if group else "mean" for group in plot.lines}
    handles = {label(x): Line2D([], [], **STYLES[k % len(STYLES)]) for k, x in enumerate(points) if x in drawn}
    if not plot.guesses.keys().isdisjoint(plot.lines):
        handles[GUESS if size > 7 else GUESS.partition(":")[0]] = Line2D([], [], **guessed())
    longest = max(len(x) for text in handles for x in text.splitlines())
    columns = min(len(handles), max(1, int(figure.get_figwidth() * 104 / size / (7 + longest))))
    mixed = ", ".join(phrase(comparison, axis) for axis in plot.axes[1 + plot.sides :])
    title = f"{phrase(comparison, plot.axes[0])}; " if plot.axes else ""
    if max(map(len, comparison.groups.values())) == 1:
        title += "one run each"
    else:
        title += f"mean over {'runs' if comparison.over else 'seeds'}, and its 95 % interval"
    title += f"\nlines of one colour differ in {mixed}" if mixed else ""
    title = "\n".join(textwrap.fill(line, int(figure.get_figwidth() * 130 / (size + 1))) for line in title.split("\n"))
    lines = title.count("\n") + sum(text.count("\n") + 1 for text in handles) / columns
    figure.set_figheight(figure.get_figheight() + 0.022 * size * lines)
    legend = figure.legend(
        list(handles.values()), list(handles), loc="outside upper center", ncols=columns,
        fontsize=size, title=title, title_fontsize=size + 1 if size > 7 else size,
    )  # fmt: skip
    legend.get_title().set_multialignment("center")


def phrase(comparison: Comparison, axis: str) -> str:
    """Return the words for a key in labels, titles and legends."""
    return WORDS.get(axis) or word(comparison, axis).replace("_", " ")


def label(value: Any) -> str:
    """Return the value of a setting as text for a legend or a title, broken into lines, also after "_", "." and "/"."""
    breakable = re.sub(r"(?<=[_./])", "\v", shown(value))  # textwrap breaks lines at this kind of white space, too
    return textwrap.fill(breakable, MOST_LETTERS, replace_whitespace=False).replace("\v", "")


def word(comparison: Comparison, axis: str) -> str:
    """Return the short name of a key, or the whole key if another axis of the comparison has the same short name."""
    return axis if [short(other) for other in comparison.axes].count(short(axis)) > 1 else short(axis)


def short(key: str) -> str:
    """Return the last part of a dotted key; if this part is `name` or `path`, return the part before."""
    *_, section, last = ("", *key.split("."))
    return section if last in ("name", "path") and section else last
