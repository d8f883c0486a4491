"""Pictures of the benchmark: parts of commands, scaling with agents, start-up and memory, edges, and peers."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("agg")

import matplotlib.pyplot as plt
import model
from model import Model, Point, Taken
from rows import FITTED, Row

from mpinodes.summary.timing import PARTS

COLOURS = ["#4477aa", "#66ccee", "#ee6677", "#228833", "#ccbb44", "#aa3377"]  # Paul Tol's bright scheme
Runs = list[tuple[Row, list[dict[str, Any]]]]


def draw(out: Path, taken: Taken, runs: Runs) -> None:
    """All that there are figures for."""
    plt.rcParams.update({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "svg.fonttype": "none"})
    _parts(out / "parts.png", [(row, found) for row, found in runs if found and row.group in ("commands", "long")])
    if taken.shared:
        _scaling(out / "scaling.png", taken)
        _start(out / "start.png", taken)
        _edges(out / "edges.png", taken)
    _peers(out / "peers.png", [(row, found) for row, found in runs if found and row.group == "peers"])


def _parts(path: Path, taken: Runs) -> None:
    """Bars of seconds, part by part, beside the bare start."""
    if not taken:
        return
    figure, axes = plt.subplots(figsize=(9, 1.6 + 0.32 * len(taken)), layout="constrained")
    names = [row.name for row, _ in taken][::-1]
    middle = [sorted(found, key=lambda run: run["ratio"])[len(found) // 2] for _, found in taken][::-1]
    left = [0.0] * len(middle)
    for part, colour in zip(PARTS, COLOURS, strict=True):
        widths = [run["timing"][part] for run in middle]
        axes.barh(names, widths, left=left, color=colour, label=part.replace("_", "-"))
        left = [a + b for a, b in zip(left, widths, strict=True)]
    rest = [max(0.0, run["whole"] - done) for run, done in zip(middle, left, strict=True)]
    axes.barh(names, rest, left=left, color="#bbbbbb", label="launch and end")
    axes.plot([run["bare"] for run in middle], names, "k|", markersize=11, label="bare start")
    for name, run in zip(names, middle, strict=True):
        axes.annotate(f" {run['ratio']:.1f}×", (run["whole"], name), va="center", fontsize=8)
    axes.set_xscale("asinh", linear_width=5)
    ticks = [x for x in (0, 1, 2, 5, 10, 20, 50, 100, 200, 500) if x <= 1.2 * max(run["whole"] for run in middle)]
    axes.set_xticks(ticks, [str(x) for x in ticks])
    axes.set_xlabel("seconds of the command (linear to 5, then logarithmic); × times the bare start")
    figure.legend(loc="outside upper center", ncols=4, frameon=False)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def _scaling(path: Path, taken: Taken) -> None:
    """Rounds per second, and CPU of a round, against agents."""
    figure, (rates, cpu) = plt.subplots(1, 2, figsize=(12, 4), layout="constrained")
    grid = [p for p in taken.shared if p.group == "grid"]
    few, _ = model.split(taken.shared)
    fitted = Model.of(taken, few, [p for p in taken.alone if p.agents <= max(q.agents for q in few)])
    for d, colour in zip(sorted({p.dimension for p in grid}), COLOURS, strict=False):
        mine = sorted((p for p in grid if p.dimension == d), key=lambda p: p.agents)
        x = [p.agents for p in mine]
        rates.loglog(x, [1 / p.round for p in mine], "o", color=colour, label=f"d = {d}")
        rates.loglog(x, [taken.cores / fitted.round(p) for p in mine], "-", color=colour, lw=1)
    for d, colour in zip(sorted({p.dimension for p in taken.alone}), COLOURS, strict=False):
        warm = sorted((p for p in taken.alone if p.dimension == d), key=lambda p: p.agents)
        cold = sorted((p for p in grid if p.dimension == d), key=lambda p: p.agents)
        _line(cpu, warm, lambda p: p.spent.logger, "s-", colour, f"logger, d = {d}")
        _line(cpu, warm, lambda p: p.spent.step, "o--", colour, f"step, warm, d = {d}")
        _line(cpu, cold, lambda p: p.spent.step, "o:", colour, f"step, under MPI, d = {d}")
    rates.axvline(FITTED * 1.12, color="#999999", lw=0.8, ls=":")
    rates.set(
        xlabel="agents",
        ylabel="rounds per second",
        title=f"Ring on {taken.cores} cores: measured, and fitted left of the line",
    )
    cpu.set(xlabel="agents", ylabel="µs of CPU in a round", title="What an agent and the logger take")
    for axes, points in ((rates, grid), (cpu, [*taken.alone, *grid])):
        _agents(axes, points)
        axes.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
    figure.savefig(path, dpi=150)
    plt.close(figure)


def _line(axes: Any, points: list[Point], value: Any, style: str, colour: str, label: str) -> None:
    axes.loglog(
        [p.agents for p in points], [1e6 * value(p) for p in points], style, color=colour, ms=4, lw=1, label=label
    )


def _agents(axes: Any, points: list[Point]) -> None:
    numbers = sorted({p.agents for p in points})
    axes.set_xticks(numbers, [str(n) for n in numbers])
    axes.minorticks_off()


def _start(path: Path, taken: Taken) -> None:
    """Seconds before and after the rounds, and memory, against ranks."""
    figure, (start, memory) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    grid = sorted((p for p in taken.shared if p.group == "grid"), key=lambda p: p.agents)
    for d, colour in zip(sorted({p.dimension for p in grid}), COLOURS, strict=False):
        mine = [p for p in grid if p.dimension == d]
        x = [p.agents for p in mine]
        start.loglog(x, [p.own for p in mine], "o-", color=colour, label=f"mpinodes, d = {d}")
        if not all(p.whole_mb for p in mine):  # too short to be seen, or nobody tells
            continue
        memory.loglog(x, [p.whole_mb for p in mine], "o-", color=colour, label=f"all ranks, d = {d}")
        memory.loglog(x, [p.rank_mb for p in mine], "s:", color=colour, label=f"the middle rank, d = {d}")
    numbers = sorted({p.agents for p in grid})
    bare = [statistics.median(p.bare for p in grid if p.agents == n) for n in numbers]
    start.loglog(numbers, bare, "k--", label="MPI and numpy alone")
    start.set(xlabel="agents", ylabel="seconds", title="Start-up and end")
    memory.set(xlabel="agents", ylabel="MB of PSS, at most", title="Memory")
    for axes in (start, memory):
        if axes.has_data():
            _agents(axes, grid)
            axes.legend(frameon=False, fontsize=8)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def _edges(path: Path, taken: Taken) -> None:
    """A round against its messages."""
    points = [p for p in taken.shared if p.group == "edges"]
    if not points:
        return
    figure, axes = plt.subplots(figsize=(5, 4), layout="constrained")
    for n, colour in zip(sorted({p.agents for p in points}), COLOURS, strict=False):
        mine = sorted((p for p in points if p.agents == n), key=lambda p: p.messages)
        x = [p.messages for p in mine]
        axes.loglog(x, [1e3 * p.round for p in mine], "o-", color=colour, label=f"round, {n} agents")
        axes.loglog(x, [1e3 * p.spent.agent for p in mine], "s--", color=colour, label=f"CPU of one of {n} agents")
        axes.loglog(x, [1e3 * p.spent.step for p in mine], "x:", color=colour, label="of which its step")
    numbers = sorted({p.messages for p in points})
    shown = [m for m, after in zip(numbers, [*numbers[1:], 10**9], strict=True) if after > 1.1 * m]
    axes.set_xticks(shown, [str(m) for m in shown])
    axes.minorticks_off()
    axes.set(xlabel="messages in a round", ylabel="ms", title="Cost of a round against edges, d = 10")
    axes.legend(frameon=False, fontsize=8)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def _peers(path: Path, taken: Runs) -> None:
    """Rounds per second and CPU of a round, ours and theirs."""
    if not taken:
        return
    figure, both = plt.subplots(1, 2, figsize=(10, 1.4 + 0.5 * len(taken)), layout="constrained", sharey=True)
    names = [row.name for row, _ in taken][::-1]
    for axes, what, scale, label in (
        (both[0], "rate", 1.0, "rounds per second"),
        (both[1], "cpu", 1e6, "µs of CPU in a round"),
    ):
        for whose, colour, shift in (("ours", COLOURS[0], 0.2), ("theirs", COLOURS[2], -0.2)):
            values = [statistics.median(scale * run[whose][what] for run in found) for _, found in taken][::-1]
            bars = axes.barh([k + shift for k in range(len(names))], values, 0.38, color=colour,
                             label="mpinodes" if whose == "ours" else "the other")  # fmt: skip
            axes.bar_label(bars, fmt=" {:.0f}", fontsize=8)
        axes.set_xscale("log")
        axes.margins(x=0.15)
        axes.set_xlabel(label)
    both[0].set_yticks(range(len(names)), names)
    both[0].legend(frameon=False, fontsize=8)
    figure.savefig(path, dpi=150)
    plt.close(figure)
