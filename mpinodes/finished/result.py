"""Give a notebook access to a finished run: its summary, its record, its figures, and its report as a web page."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from html import escape
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mpinodes.core.errors import BadInput
from mpinodes.presentation import terminal as words
from mpinodes.summary.summary import FILE, Summary

if TYPE_CHECKING:
    import xarray
    from matplotlib.figure import Figure

    from mpinodes.finished.model import Model


@dataclass(frozen=True, repr=False)
class Result:
    """Give access to the results of a finished run. Printing a `Result` shows the text that the run printed at its end.

    Attributes:
        directory: the run directory.
    """

    directory: Path

    def __repr__(self) -> str:
        """Return the text that a run prints at its end."""
        return words.text(Summary.read(self.directory), self.directory)

    def _repr_html_(self) -> str:
        """Return HTML that a notebook shows: the text that the run prints at its end, and the most important figure."""
        from mpinodes.presentation.run_figures import drawers

        figures, image = drawers(Summary.read(self.directory)), ""
        for name in figures:  # the most important figure first
            with suppress(BadInput):  # the run may have no numbers for this figure
                png = b64encode(vars(self.plot._drawn(name))["_repr_png_"]()).decode()
                image = f'<img width="560" src="data:image/png;base64,{png}">'
                break
        return f'<pre style="font-family: monospace">{escape(repr(self))}</pre>{image}'

    @cached_property
    def summary(self) -> dict[str, Any]:
        """Return the content of summary.json."""
        return dict(json.loads((self.directory / FILE).read_text("utf-8")))

    @cached_property
    def record(self) -> xarray.Dataset:
        """Return the content of record.h5, read into memory.

        A job with repeats (runs that differ in the seed) has the additional axis `repeat`, with the coordinate `seed`.
        """
        from mpinodes.runlog.reader import load

        return load(self.directory)

    @cached_property
    def model(self) -> Model:
        """Return the model that the run trained, with the methods `predict` and `score`.

        Raises:
            BadInput: the run has no model, for example because its data have no targets; or a job has repeats, each of
                which has a model.
        """
        from mpinodes.finished.model import load_model

        return load_model(self.directory)

    @property
    def plot(self) -> Plots:
        """Return an object that draws the figures of the run: each figure by a method, for example `plot.regret()`."""
        return Plots(self)

    def report(self) -> Path:
        """Draw the figures and the web page report.html, and return the path of the page.

        To show the page, open the path in a browser, or pass the path to IPython.display.IFrame.

        Raises:
            BadInput: the directory contains no finished run, or cannot be written.
        """
        from mpinodes.presentation.draw import draw

        return draw(self.directory)


@dataclass(frozen=True)
class Plots:
    """Draw the figures of a run; each method returns a `matplotlib.figure.Figure`, which a notebook shows.

    A method is named like the file of its figure in the directory `figures`: accuracy, rmse, regret, gap, error,
    training, privacy, views or topology. There is also a method for every metric of `record.metrics` that the summary
    shows.

    If the run has no numbers for a figure, the method raises BadInput. Any other name raises AttributeError.
    """

    _result: Result

    def __dir__(self) -> list[str]:
        from mpinodes.presentation.run_figures import drawers

        return [*drawers(Summary.read(self._result.directory))]

    def __getattr__(self, name: str) -> Callable[[], Figure]:
        if name.startswith("_") or name not in dir(self):
            raise AttributeError(f"there is no figure named {name}")
        return lambda: self._drawn(name)

    def _drawn(self, name: str) -> Figure:
        from mpinodes.presentation import plots as drawing
        from mpinodes.presentation.run_figures import drawers

        summary = Summary.read(self._result.directory)
        with drawing.Drawn(self._result.directory) as data, drawing.style():
            figure = drawers(summary)[name][1](data, summary)
        if figure is None:
            raise BadInput(f"{self._result.directory}: the run has no numbers for the figure {name}")

        def png() -> bytes:
            file = BytesIO()
            with drawing.style():
                figure.savefig(file, format="png")
            return file.getvalue()

        vars(figure)["_repr_png_"] = png  # a notebook without pyplot calls this method to show the figure
        return figure
