"""What the figures of a run have in common."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from mpinodes.results.report.reading import Values

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


def axes(width: float = 6.4, height: float = 3.8) -> tuple[Figure, Axes]:
    """A figure with one pair of axes."""
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.add_subplot()


def pair(width: float = 9.6, height: float = 4.0) -> tuple[Figure, tuple[Axes, Axes]]:
    """A figure with two pairs of axes side by side."""
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, (figure.add_subplot(1, 2, 1), figure.add_subplot(1, 2, 2))


def line(axes: Axes, t: np.ndarray, values: Values, colour: str, **style: Any) -> None:
    """A curve; of repeats their mean, and a band from the least to the largest."""
    if "repeat" in values.dims:
        axes.fill_between(t, values.min("repeat").values, values.max("repeat").values, color=colour, alpha=0.15, lw=0)
        values = values.mean("repeat")
    axes.plot(t, values.values, color=colour, **style)


def band(axes: Axes, t: np.ndarray, values: Values, **style: Any) -> None:
    """From the least to the largest of agents and repeats, by round or horizon."""
    rest = [name for name in values.dims if name not in ("round", "horizon")]
    least, most = values.min(rest).values, values.max(rest).values
    axes.fill_between(t, least, most, color=AGENT, alpha=0.3, lw=0, **style)


def title(axes: Axes, summary: Json) -> None:
    """Which run it is."""
    repeats = f", mean and range of {summary['repeats']} seeds" if "repeats" in summary else ""
    axes.set_title(f"{summary['algorithm']} on {summary['data']}, {summary['agents']} agents{repeats}", fontsize=9)


def log(axes: Axes, *names: Literal["x", "y"]) -> None:
    """Logarithmic, with plain numbers: no text of a figure is read as mathematics."""
    for name in names:
        getattr(axes, f"set_{name}scale")("log")
        axis = getattr(axes, f"{name}axis")
        low, high = axis.get_view_interval()
        axis.set_major_formatter("{x:g}")
        axis.set_minor_formatter("{x:g}" if high < 10 * low else NullFormatter())
