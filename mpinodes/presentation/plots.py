"""What the figures of a run have in common."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any, Literal

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

from mpinodes.presentation.figure_data import Values
from mpinodes.presentation.terminal import agents
from mpinodes.runlog.directories import write_bytes
from mpinodes.summary.summary import Summary

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


WIDE = 34  # letters, of which no two columns fit below a figure


@contextmanager
def style() -> Iterator[None]:
    """Draw with matplotlib's own defaults and `STYLE`, whatever the user has set, and without warnings."""
    defaults = {key: value for key, value in mpl.rcParamsDefault.items() if key != "backend"}
    with warnings.catch_warnings(action="ignore"), mpl.rc_context(defaults | STYLE):
        yield


def axes(width: float = 6.4, height: float = 3.8) -> Axes:
    """Return one pair of axes in a figure of its own."""
    return Figure(figsize=(width, height), layout="constrained").add_subplot()


def pair(width: float = 9.6, height: float = 4.0) -> tuple[Figure, tuple[Axes, Axes]]:
    """A figure with two pairs of axes side by side."""
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, (figure.add_subplot(1, 2, 1), figure.add_subplot(1, 2, 2))


def line(axes: Axes, t: np.ndarray, values: Values, colour: str, **style: Any) -> None:
    """A curve; of repeats their mean, and a band from the least to the largest."""
    if "repeat" in values.dims:
        axes.fill_between(t, values.min("repeat").values, values.max("repeat").values, color=colour, alpha=0.15, lw=0)
        values = values.mean("repeat")
        if "label" in style:
            style["label"] += ": mean, range of seeds"
    axes.plot(t, values.values, color=colour, **style)


def band(axes: Axes, t: np.ndarray, values: Values, **style: Any) -> None:
    """From the least to the largest of agents and repeats, by round or horizon."""
    rest = [name for name in values.dims if name not in ("round", "horizon")]
    least, most = values.min(rest).values, values.max(rest).values
    axes.fill_between(t, least, most, color=AGENT, alpha=0.3, lw=0, **style)


def at_the_end(axes: Axes, t: float, labels: Sequence[tuple[float, str, str]]) -> None:
    """Label curves at their right ends, as far apart as the words are high.

    Args:
        axes: theirs, with the limits that they keep.
        t: where they end.
        labels: where each curve ends, its words and its colour; not above 0: there is none to be seen, and its words
            stand at the bottom.
    """
    height = 1.0 / 14  # of a line of words, as a share of the axes
    transform = axes.transData + axes.transAxes.inverted()
    wanted = sorted(
        (float(transform.transform((t, y))[1]) if y > 0 else 0.0, y, words, colour) for y, words, colour in labels
    )
    places: list[float] = []
    for share, *_ in wanted:
        places.append(max(share, places[-1] + height if places else share))
    over = max(0.0, places[-1] - 1.0) if places else 0.0
    for k in range(len(places) - 1, -1, -1):
        places[k] = min(places[k], 1.0 - height * (len(places) - 1 - k)) if over else places[k]
    for place, (_, y, words, colour) in zip(places, wanted, strict=True):
        axes.annotate(
            words, (t, y), (1.03, place), textcoords="axes fraction", color=colour, fontsize=8, va="center",
            annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": colour, "lw": 0.6, "alpha": 0.6} if y > 0 else None,
        )  # fmt: skip


def finished(axes: Axes, summary: Summary, what: str) -> Figure:
    """Return the figure of some axes, with a title of what they show and of which run, and a legend below them."""
    figure = axes.figure
    assert isinstance(figure, Figure)
    repeats = f", {summary.repeats} seeds" if summary.repeats else ""
    axes.set_title(f"{what}\n{summary.algorithm} on {summary.data}, {agents(summary)}{repeats}", fontsize=9)
    curves, words = axes.get_legend_handles_labels()
    if curves:
        columns = 1 if max(map(len, words)) > WIDE else 2
        figure.legend(handles=curves, loc="outside lower center", ncols=columns, fontsize=8)
    return figure


def save(figure: Figure, path: Path, **options: Any) -> None:
    """Write a figure whole or not at all: matplotlib's writers fail in ways of their own where the disk is full."""
    write_bytes(path, image(figure, path.suffix[1:], **options))


def image(figure: Figure, kind: str, **options: Any) -> bytes:
    """Return a figure as a file of a kind, as png."""
    file = BytesIO()
    figure.savefig(file, format=kind, **options)
    return file.getvalue()


LEAST_SHARE = 1e-9  # of the largest value that is shown: what is below counts as rounding
TICKS: list[tuple[float, tuple[float, ...]]] = [  # above so many decades, at these multiples of a power of ten
    (3.0, (1,)), (1.8, (1, 3)), (1.0, (1, 2, 5)), (0.4, tuple(range(1, 10))),
]  # fmt: skip
PLAIN = 30.0  # times as large: what spans less is shown on plain axes from 0 on


def log(axes: Axes, *names: Literal["x", "y"]) -> None:
    """Logarithmic, with plain numbers and three of them at least: no text of a figure is read as mathematics."""
    for name in names:
        curves = list(axes.lines)
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
            _tell_of_what_is_below(axes, low, curves)
            axes.set_ylim(low, high)


def _tell_of_what_is_below(axes: Axes, low: float, curves: Sequence[Line2D]) -> None:
    """Triangles at the foot of the axes where a curve leaves them, and how far down it goes."""
    for curve in curves:
        t, values = np.asarray(curve.get_xdata(), float), np.asarray(curve.get_ydata(), float)
        under = values < low
        if under.any():
            label = f"below, at the least {values[under].min():.2g}"
            foot = np.full(np.count_nonzero(under), low)
            axes.plot(t[under], foot, ls="", marker="v", ms=6, color=curve.get_color(), clip_on=False, label=label)


def log_or_plain(axes: Axes, values: np.ndarray) -> None:
    """The vertical axis of positive numbers: logarithmic where they span much, else plain from 0 on."""
    known = values[np.isfinite(values) & (values > 0)]
    if len(known) and known.max() > PLAIN * known.min():
        log(axes, "y")
    elif len(known):
        axes.set_ylim(0.0, 1.12 * float(known.max()))
