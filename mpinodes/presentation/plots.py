"""What the figures of a run have in common."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any, Literal

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

from mpinodes.presentation.figure_data import Values
from mpinodes.presentation.terminal import agents
from mpinodes.runlog.directories import write_bytes
from mpinodes.summary.summary import Summary

# Okabe and Ito's colours, which most kinds of colour blindness leave apart.
NETWORK, AVERAGE, AGENT, CLAIM = "#0072B2", "#D55E00", "#999999", "#009E73"

STYLE: Any = {"font.size": 10, "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True}
STYLE |= {"grid.alpha": 0.25, "legend.frameon": False, "savefig.dpi": 144}
STYLE |= {"text.parse_math": False}  # titles may be a user's own


WIDE = 34  # letters, of which no two columns fit below a figure


@contextmanager
def style() -> Iterator[None]:
    """Draw with matplotlib's own defaults and `STYLE`, whatever the user has set, and without warnings."""
    defaults = {key: value for key, value in mpl.rcParamsDefault.items() if key != "backend"}
    with warnings.catch_warnings(action="ignore"), mpl.rc_context(defaults | STYLE):
        yield


def pair() -> tuple[Figure, tuple[Axes, Axes]]:
    """Return a figure with two pairs of axes side by side."""
    figure = Figure(figsize=(9.6, 4.0), layout="constrained")
    return figure, (figure.add_subplot(1, 2, 1), figure.add_subplot(1, 2, 2))


def line(axes: Axes, t: np.ndarray, values: Values, colour: str, **style: Any) -> None:
    """Draw a curve; of repeats their mean, and a band from the least to the largest."""
    if "repeat" in values.dims:
        least, most = (values.reduced(combine, ["repeat"]).values for combine in (np.nanmin, np.nanmax))
        axes.fill_between(t, least, most, color=colour, alpha=0.15, lw=0)
        values = values.reduced(np.nanmean, ["repeat"])
        if "label" in style:
            style["label"] += ": mean, range of seeds"
    axes.plot(t, values.values, color=colour, **style)


def band(axes: Axes, t: np.ndarray, values: Values, **style: Any) -> None:
    """Draw a band from the least to the largest of agents and repeats, by round or horizon."""
    rest = [name for name in values.dims if name not in ("round", "horizon")]
    least, most = (values.reduced(combine, rest).values for combine in (np.nanmin, np.nanmax))
    axes.fill_between(t, least, most, color=AGENT, alpha=0.3, lw=0, **style)


def finished(axes: Axes, summary: Summary, title: str) -> Figure:
    """Return the figure of some axes, with a title of what they show and of which run, and a legend below them."""
    figure = axes.figure
    assert isinstance(figure, Figure)
    repeats = f", {summary.repeats} seeds" if summary.repeats else ""
    axes.set_title(f"{title}\n{summary.algorithm} on {summary.data}, {agents(summary)}{repeats}", fontsize=9)
    curves, words = axes.get_legend_handles_labels()
    if curves:
        columns = 1 if max(map(len, words)) > WIDE else 2
        figure.legend(handles=curves, loc="outside lower center", ncols=columns, fontsize=8)
    return figure


def save(figure: Figure, path: Path, **options: Any) -> None:
    """Write a figure whole or not at all: matplotlib's writers fail in ways of their own where the disk is full."""
    file = BytesIO()
    figure.savefig(file, format=path.suffix[1:], **options)
    write_bytes(path, file.getvalue())


LEAST_SHARE = 1e-9  # of the largest value that is shown: what is below counts as rounding
TICKS: list[tuple[float, tuple[float, ...]]] = [  # above so many decades, at these multiples of a power of ten
    (3.0, (1,)), (1.8, (1, 3)), (1.0, (1, 2, 5)), (0.4, tuple(range(1, 10))),
]  # fmt: skip
PLAIN = 30.0  # times as large: what spans less is shown on plain axes


def log(axes: Axes, *names: Literal["x", "y"]) -> None:
    """Make axes logarithmic, with at least three plain numbers: no text of a figure is read as mathematics."""
    for name in names:
        getattr(axes, f"set_{name}scale")("log")
        axis = getattr(axes, f"{name}axis")
        low, high = axis.get_view_interval()
        low = max(low, LEAST_SHARE * high)
        axis.set_view_interval(low, high, ignore=True)
        decades = np.log10(high / low)
        subs = next((subs for more, subs in TICKS if decades > more), None)
        axis.set_major_locator(LogLocator(subs=subs, numticks=8) if subs else MaxNLocator(5))
        axis.set_major_formatter("{x:g}")
        axis.set_minor_formatter(NullFormatter())
        if name == "y":
            axes.set_ylim(low, high)


def scale(axes: Axes, values: np.ndarray, from_zero: bool = True) -> None:
    """Scale and limit the vertical axis: logarithmic if all values are positive and span much, else plain.

    Args:
        axes: where curves were drawn.
        values: what the limits must show.
        from_zero: whether a plain axis begins at 0, or shows where 0 is.
    """
    known = values[np.isfinite(values)] if np.isfinite(values).any() else np.zeros(1)
    low, high = float(known.min()), float(known.max())
    if 0 < PLAIN * low < high:
        axes.set_ylim(low / 1.3, high * 1.3)
        log(axes, "y")
        return
    margin = 0.07 * (high - low) or 0.1 * abs(high) or 1.0
    axes.set_ylim(0.0 if from_zero and low >= 0 else low - margin, high + margin)
    if from_zero and low < 0:
        axes.axhline(0, color="black", lw=0.8)
