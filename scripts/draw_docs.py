"""Draw the pictures of the documentation: python scripts/draw_docs.py [DIR], docs/ by default."""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

INK, QUIET, AGENT, NOISE, LOGGER = (
    "#222222",
    "#6b7280",
    "#0072b2",
    "#d55e00",
    "#009e73",
)  # Okabe, Ito: colour-blind safe
AGENTS = 7


def page(width: float, height: float) -> tuple[Figure, Axes]:
    """Return a figure without content, and axes whose unit is an inch."""
    figure = Figure((width, height), facecolor="white")
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, width), ylim=(0, height))
    axes.axis("off")
    return figure, axes


def arrow(axes: Axes, start: tuple[float, float], end: tuple[float, float], **style: object) -> None:
    axes.add_patch(FancyArrowPatch(start, end, **{"arrowstyle": "-|>", "mutation_scale": 11, "color": QUIET} | style))


def box(axes: Axes, x: float, y: float, width: float, height: float, colour: str) -> None:
    axes.add_patch(
        FancyBboxPatch(
            (x, y), width, height, boxstyle="round,pad=0.02,rounding_size=0.12", fc="white", ec=colour, lw=1.6
        )
    )


def overview() -> Figure:
    """Draw agents, the inside of one agent, and the logger, with the data that each holds and sends."""
    figure, axes = page(9.6, 3.9)
    middle, radius = np.array([2.0, 1.95]), 1.42
    angles = np.pi / 2 + 2 * np.pi * np.arange(AGENTS) / AGENTS
    spots = middle + radius * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    chords = [(i, (i + 1) % AGENTS) for i in range(AGENTS)] + [(0, 3), (2, 5), (6, 4)]
    for j, i in chords:
        arrow(axes, tuple(spots[j]), tuple(spots[i]), shrinkA=15, shrinkB=15, color=NOISE, linestyle="-", lw=1.2)
    axes.scatter(*spots.T, s=620, color="white", edgecolors=AGENT, linewidths=1.8, zorder=3)
    for i, (x, y) in enumerate(spots):
        axes.text(x, y - 0.01, str(i), ha="center", va="center", color=AGENT, fontsize=12, weight="bold", zorder=4)
    axes.text(2.0, 0.12, "agents: one MPI process each", ha="center", color=QUIET, fontsize=9.5)

    box(axes, 4.35, 0.62, 2.35, 2.75, AGENT)
    axes.text(5.52, 3.12, "inside an agent", ha="center", color=AGENT, fontsize=11, weight="bold")
    steps = [
        ("its own data", INK),
        ("clipped gradient, mix of\nwhat it heard, update", INK),
        ("+ its own noise", NOISE),
    ]
    for (text, colour), y in zip(steps, (2.68, 1.95, 1.2), strict=True):
        axes.text(5.52, y, text, ha="center", va="center", color=colour, fontsize=10)
    for high, low in ((2.52, 2.28), (1.64, 1.38), (1.04, 0.74)):
        arrow(axes, (5.52, high), (5.52, low), shrinkA=0, shrinkB=0)
    axes.text(5.52, 0.3, "a perturbed message to every neighbour", ha="center", color=NOISE, fontsize=9.5)
    arrow(axes, (3.75, 1.95), (4.27, 1.95), arrowstyle="-", linestyle=":", lw=1.4, shrinkA=0, shrinkB=0)

    box(axes, 7.25, 0.62, 2.1, 2.75, LOGGER)
    axes.text(8.3, 3.12, "the logger", ha="center", color=LOGGER, fontsize=11, weight="bold")
    axes.text(8.3, 2.45, "regret, accuracy,\nconsensus", ha="center", va="center", color=INK, fontsize=10)
    axes.text(8.3, 1.33, "privacy loss ε:\nclaimed by the paper,\nproven, and by which rule,\ndemonstrated by attack",
              ha="center", va="center", color=INK, fontsize=10)  # fmt: skip
    axes.text(8.3, 0.3, "one more process: it measures", ha="center", color=QUIET, fontsize=9.5)
    arrow(axes, (6.76, 1.95), (7.2, 1.95), linestyle="--", shrinkA=0, shrinkB=0)
    return figure


def numbers() -> Figure:
    """Draw the claimed, proven and demonstrated privacy losses on one axis."""
    figure, axes = page(9.6, 2.5)
    left, right, line = 0.5, 9.1, 1.35
    lower, upper = 3.1, 5.9
    arrow(axes, (left, line), (right + 0.2, line), color=INK, lw=1.4, shrinkA=0, shrinkB=0)
    axes.text(right + 0.22, line - 0.3, "ε", fontsize=13, color=INK, ha="center")
    axes.text(left, line - 0.3, "0", fontsize=11, color=INK, ha="center")
    axes.fill_between([lower, upper], line - 0.1, line + 0.1, color=LOGGER, alpha=0.25, lw=0)
    axes.text(lower + 1.05, line - 0.34, "the true loss lies here", ha="center", color=LOGGER, fontsize=10.5)
    for x, colour, name, meaning in (
        (lower, NOISE, "demonstrated", "an attack achieved it:\nno smaller ε can be true"),
        (upper, AGENT, "proven at δ", "the accountant proves it:\nthe loss is no larger"),
        (7.5, AGENT, "proven pure", "the same for δ = 0,\nas papers claim it"),
    ):
        axes.plot([x, x], [line - 0.16, line + 0.3], color=colour, lw=2.4)
        axes.text(x, line + 0.78, name, ha="center", color=colour, fontsize=11.5, weight="bold")
        axes.text(x, line + 0.4, meaning, ha="center", color=INK, fontsize=9, linespacing=1.15)
    for x, verdict in ((1.6, "claimed: refuted"), (5.4, "claimed: may hold"), (8.6, "claimed: holds")):
        axes.plot(x, line, marker="D", color=INK, markersize=7, zorder=5)
        axes.text(x, line - 0.78, verdict, ha="center", color=INK, fontsize=10)
        axes.plot([x, x], [line - 0.6, line - 0.12], color=QUIET, lw=0.9, linestyle=":")
    axes.text(0.4, 0.14, "A paper's claim may lie anywhere: what it is worth depends on where the other numbers are.",
              color=QUIET, fontsize=9.5)  # fmt: skip
    return figure


def main(folder: Path) -> None:
    """Write both figures as SVG files.

    Args:
        folder: the directory of the files.
    """
    mpl.rcParams["svg.hashsalt"] = "mpinodes"  # makes the files the same in every run
    for name, figure in (("overview", overview()), ("numbers", numbers())):
        figure.savefig(folder / f"{name}.svg", metadata={"Date": None})


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent.parent / "docs")
