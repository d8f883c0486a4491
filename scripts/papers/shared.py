"""What the scripts of this folder share: command line, runs that are made once, and how a figure looks."""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import matplotlib as mpl
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import mpinodes
from mpinodes.core.experiment import parse
from mpinodes.results.report.drawing import AGENT, AVERAGE, CLAIM, NETWORK, STYLE
from mpinodes.simulation.launching import mpirun

HERE = Path(__file__).parent
COLOURS = [NETWORK, AVERAGE, CLAIM, "#CC79A7", AGENT]  # Okabe and Ito's

mpl.rcParams.update(STYLE | {"text.parse_math": True, "axes.titlesize": 9, "legend.fontsize": 8, "savefig.dpi": 90})


def arguments(description: str | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(description or "").partition("\n")[0])
    parser.add_argument("output", type=Path, help="directory of the figure, and below it of the runs")
    parser.add_argument("--quick", action="store_true", help="a small version, in seconds")
    return parser


class Runs:
    """Runs of the TOML files beside this one, each made where its directory does not hold it yet."""

    def __init__(self, output: Path) -> None:
        self._below = output / "runs"

    def __call__(self, key: str, toml: str, *pairs: str, ranks: int = 0) -> xr.Dataset:
        """The record of a run, by mpirun on so many ranks, or in this process (0): the bits are the same."""
        place = self._below / key
        if not (place / "summary.json").exists():
            shutil.rmtree(place, ignore_errors=True)  # cut short
            words = [*pairs, f"output.dir={place}", "report=false"]
            if ranks:
                _mpirun(ranks, HERE / toml, words)
            else:
                mpinodes.run_lockstep(parse(str(HERE / toml), words))
            print(f"made {place}", file=sys.stderr)
        return mpinodes.load(place)


def _mpirun(ranks: int, toml: Path, words: list[str]) -> None:
    subprocess.run([*mpirun(), "-n", str(ranks), sys.executable, "-m", "mpinodes.run", toml, *words], check=True)


def panels(rows: int, columns: int, width: float = 4.0, height: float = 3.3) -> tuple[Figure, list[Axes]]:
    figure = Figure(figsize=(width * columns, height * rows + 0.5), layout="constrained")
    return figure, list(figure.subplots(rows, columns, squeeze=False).flat)


def band(axes: Axes, values: xr.DataArray, colour: str, label: str, **style: object) -> None:
    """A curve over `horizon`; of repeats their mean, and a band from the least to the largest."""
    t = values.horizon.values
    if "repeat" in values.dims:
        axes.fill_between(t, values.min("repeat"), values.max("repeat"), color=colour, alpha=0.15, lw=0)
        values = values.mean("repeat")
    axes.plot(t, values, color=colour, label=label, marker="o", ms=2.5, **style)


def holds(is_so: bool) -> str:
    return "holds" if is_so else "does not hold"


def save(figure: Figure, path: Path, title: str, verdicts: list[str]) -> None:
    """Write the figure, its verdicts under the title and on standard output."""
    letters = int(13 * figure.get_figwidth())
    lines = [line for text in (title, *verdicts) for line in textwrap.wrap(text, letters)]
    figure.suptitle("\n".join(lines), fontsize=9)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
    print(*verdicts, f"figure: {path}", sep="\n")
