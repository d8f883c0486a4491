"""Provide what all figures share: reading a record, the style, curves and bands, axis scales, and writing files."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import Any, Literal, NamedTuple

import matplotlib as mpl
import matplotlib.style
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

from mpinodes.runlog.directories import write_bytes
from mpinodes.runlog.reader import Reader
from mpinodes.summary.summary import NoiseFree

# The colours of Okabe and Ito, which people with most kinds of colour blindness can distinguish.
NETWORK, AVERAGE, AGENT, CLAIM = "#0072B2", "#D55E00", "#999999", "#009E73"

STYLE: Any = {"font.size": 10, "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True}
STYLE |= {"grid.alpha": 0.4, "legend.frameon": False, "savefig.dpi": 144}
STYLE |= {"pdf.fonttype": 42}  # TrueType, which publishers accept
STYLE |= {"text.parse_math": False}  # a user-defined title may contain $


WIDTH = 4.8  # of a figure in inches; at this width, text of 8 points can be read on the screen of a phone
MOST_POINTS, MOST_CELLS = 60, 900  # of a curve, and of an image, whose values the page shows under the pointer

Point = tuple[float, float, str]  # a position in a figure, as shares of its width and height from the top left; a text


class Values(NamedTuple):
    """An array whose axes have names.

    Attributes:
        dims: the names of the axes.
        values: the array.
    """

    dims: tuple[str, ...]
    values: np.ndarray

    def reduced(self, combine: Callable[..., Any], over: Sequence[str]) -> Values:
        """Return the array combined over some axes by a function of NumPy, such as `np.nanmean`.

        Args:
            combine: the function.
            over: the names of the axes. Axes that the array does not have are ignored.
        """
        axes = tuple(k for k, name in enumerate(self.dims) if name in over)
        with warnings.catch_warnings(action="ignore", category=RuntimeWarning):  # all values may be nan
            return Values(tuple(name for name in self.dims if name not in over), combine(self.values, axis=axes))

    def last(self, along: str) -> Values:
        """Return the array at the last position of the axis `along`."""
        at = self.dims.index(along)
        return Values(self.dims[:at] + self.dims[at + 1 :], np.take(self.values, -1, axis=at))

    def __truediv__(self, other: Values) -> Values:
        """Divide this array by the array `other`, whose only axis must have the name of an axis of this array."""
        (name,) = other.dims
        rows = np.moveaxis(self.values, self.dims.index(name), -1) / other.values
        return Values(self.dims, np.moveaxis(rows, -1, self.dims.index(name)))


class Drawn(Reader):
    """Read a run for its figures: the record, and the results of the same run without noise.

    A variable of the record is read only when it is used.

    Raises:
        OSError: there is no record.
        mpinodes.core.errors.BadInput: the record is damaged, or has a layout that this version cannot read.
    """

    @cached_property
    def agents(self) -> list[str]:
        """Return the names of the agents: those of the graph file, or "0", "1", ..."""
        graph = json.loads(self.attrs["topology"])
        return graph.get("names") or [str(agent) for agent in range(graph["agents"])]

    @cached_property
    def noise_free(self) -> NoiseFree | None:
        """Return the curves and results of the same run without noise; None if there is no noise_free.json."""
        return NoiseFree.read(self.path.parent)

    def __getitem__(self, name: str) -> Values:
        return Values(*self.read(name)[:2])


@contextmanager
def style(name: str = "", more: Mapping[str, Any] | None = None) -> Iterator[None]:
    """Make matplotlib draw in the style of this package and without warnings, as a context manager.

    The style is matplotlib's default settings and `STYLE`. The user's own settings of matplotlib are ignored.

    Args:
        name: a style of matplotlib, or a file with a style, which overrides this style; "" means none.
        more: further settings of matplotlib, which the style `name` overrides.
    """
    styles = [STYLE, more or {}, *filter(None, [name])]
    with warnings.catch_warnings(action="ignore"), mpl.style.context(styles, after_reset=True):
        yield


def panels(number: int) -> tuple[Figure, list[Axes]]:
    """Return a new figure with empty panels, one below the other, and the panels."""
    figure = Figure(figsize=(WIDTH, 3.6 * number), layout="constrained")
    made = list(figure.subplots(number, squeeze=False)[:, 0])
    for axes in made:  # by default, the ticks depend on the height, which the layout chooses by the width of the ticks
        axes.yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 2.5, 5, 10]))
    return figure, made


def line(axes: Axes, t: np.ndarray, values: Values, colour: str, label: str, **style: Any) -> None:
    """Draw a curve of a metric over time.

    If the run has repeats, the curve is the mean of the repeats, with a band from the least to the largest value.
    """
    if "repeat" in values.dims:
        band(axes, t, values, ["repeat"], colour, alpha=0.15)
        values = values.reduced(np.nanmean, ["repeat"])
        label += ": mean, range of seeds"
    axes.plot(t, values.values, color=colour, label=label, **style)


def band(axes: Axes, t: np.ndarray, values: Values, over: Sequence[str], colour: str, **style: Any) -> None:
    """Draw a band over time, at each time from the least to the largest value over the axes `over` of `values`."""
    least, most = (values.reduced(combine, over).values for combine in (np.nanmin, np.nanmax))
    axes.fill_between(t, least, most, color=colour, lw=0, **style)


def points(figure: Figure) -> list[Point]:
    """Return points of a saved figure whose values the page shows: points of curves, and cells of images.

    A curve gives at most `MOST_POINTS` points, and an image with more than `MOST_CELLS` cells none.
    """
    marked: list[Point] = []
    for axes in figure.axes:
        marks, words = list[tuple[float, float, str]](), axes.get_xlabel() or "at"
        for curve in axes.lines:
            if curve.get_transform() == axes.transData:  # else the curve marks a value on the whole width of the panel
                name, xy = str(curve.get_label()), np.asarray(curve.get_xydata(), float)
                name = "" if name.startswith("_") else f": {name}"
                if len(xy) > MOST_POINTS:  # the horizontal axis is logarithmic
                    xy = xy[np.unique(np.geomspace(1, len(xy), MOST_POINTS).astype(int)) - 1]
                marks += [(x, y, f"{y:.4g} ({words}: {x:g}){name}") for x, y in xy.tolist()]
        for cells in [np.asarray(image.get_array()) for image in axes.images]:
            for j, i in np.argwhere(np.isfinite(cells)).tolist() if cells.size <= MOST_CELLS else ():
                at = f"{axes.get_ylabel()}: {axes.format_ydata(j)}, {axes.get_xlabel()}: {axes.format_xdata(i)}"
                marks.append((i, j, f"{cells[j, i]:.4g} ({at})"))
        places = axes.transData.transform(np.reshape([mark[:2] for mark in marks], (-1, 2)))
        shares = figure.transFigure.inverted().transform(places).tolist()
        marked += [(round(x, 4), round(1 - y, 4), mark[2]) for (x, y), mark in zip(shares, marks, strict=True)]
    return [point for point in marked if 0 <= point[0] <= 1 and 0 <= point[1] <= 1]


def save(figure: Figure, path: Path, **options: Any) -> None:
    """Write a figure to a file, completely or not at all."""
    file = BytesIO()  # if the disk is full, matplotlib's own functions would leave a partial file
    figure.savefig(file, format=path.suffix[1:], **options)
    figure.set_layout_engine("none")  # the layout is done; doing it again for each format takes half of the time
    write_bytes(path, file.getvalue())


LEAST_SHARE = 1e-9  # values below this fraction of the largest value count as rounding errors
TICKS: list[tuple[float, tuple[float, ...]]] = [  # if an axis spans more decades: ticks at these multiples of 10^k
    (3.0, (1,)), (1.8, (1, 3)), (1.0, (1, 2, 5)), (0.4, tuple(range(1, 10))),
]  # fmt: skip
PLAIN = 30.0  # an axis is linear if its largest value is at most this multiple of its least value


def log(axes: Axes, name: Literal["x", "y"]) -> None:
    """Make the axis `name` of a panel logarithmic, with ticks labelled by plain numbers.

    Values below `LEAST_SHARE` times the largest value of the axis are cut off.
    """
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


def scale(axes: Axes, values: np.ndarray, from_zero: bool = True, is_share: bool = False) -> None:
    """Choose the scale and the limits of the vertical axis for given values.

    The scale is logarithmic if all values are positive and their range is wide; otherwise, and for shares, linear.

    Args:
        axes: the panel, with its curves.
        values: the values that must be visible.
        from_zero: whether a linear axis starts at 0 or, if there are negative values, has a line at 0. If false, a
            linear axis begins just below the least value.
        is_share: whether the values are shares in %.
    """
    known = values[np.isfinite(values)] if np.isfinite(values).any() else np.zeros(1)
    low, high = float(known.min()), float(known.max())
    if 0 < PLAIN * low < high and not is_share:
        axes.set_ylim(low / 1.3, high * 1.3)
        log(axes, "y")
        return
    margin = 0.07 * (high - low) or 0.1 * abs(high) or 1.0
    axes.set_ylim(0.0 if from_zero and low >= 0 else low - margin, high + margin)
    if from_zero and low < 0:
        axes.axhline(0, color="black", lw=0.8)
