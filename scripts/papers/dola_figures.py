"""DOLA's figures and table on its synthetic data: regret, mini-batches, accuracy against a closed form.

Li, Zhou, Chen, Jiang. With steps 1/(λt), all margins below 1 and fast mixing, the last iterate is E[b a]/λ plus noise
of standard deviation 2√(2d)·L/(λ ε √N) per coordinate, N samples of all agents together: λ cancels, and so does the
number of agents. Accuracy is then 1 − E[angle between the two]/π, a function of d·L/(ε √N).

python scripts/papers/dola_figures.py OUT [--rcv1 DIR]

The 64 agents of Fig. 1 are run by mpirun -n 65, all else in one process, to the same bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gamma, pi, sqrt
from pathlib import Path

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from shared import COLOURS, Runs, arguments, band, holds, panels, save

EPSILONS = ["inf", "1.0", "0.1", "0.01"]
DIMENSION = 10


@dataclass(frozen=True)
class Size:
    """How large the experiments are."""

    total: int  # samples of Fig. 1
    fewer: int  # of Fig. 2 and Table 1
    agents: tuple[int, int, int]
    repeats: int  # of Table 1
    batch_repeats: int  # of Fig. 2
    mpi: bool  # whether the most agents are run by mpirun


FULL = Size(total=100_000, fewer=20_000, agents=(1, 4, 64), repeats=5, batch_repeats=10, mpi=True)
QUICK = Size(total=640, fewer=400, agents=(1, 4, 16), repeats=2, batch_repeats=3, mpi=False)


def name(epsilon: str) -> str:
    return "ε = ∞" if epsilon == "inf" else f"ε = {float(epsilon):g}"


def graph(agents: int) -> list[str]:
    """Some six neighbours for many agents, who would otherwise mostly wait for messages."""
    return [f"topology.agents={agents}", f"topology.probability={0.5 if agents < 16 else 0.1}"]


def per_sample(run: xr.Dataset) -> xr.DataArray:
    """R(T)/(nT) against nT."""
    n = run.sizes["agent"]
    return (run.network_regret / (n * run.horizon)).assign_coords(horizon=n * run.horizon)


def finish(axes: Axes, title: str) -> None:
    axes.set(xscale="log", yscale="log", xlabel="samples seen, nT", ylabel="R(T) / (nT)", title=title)
    axes.legend()


def figure_1(asked: Path, runs: Runs, size: Size, rcv1: Path | None) -> None:
    most = size.agents[-1]

    def run(agents: int, epsilon: str, ranks: int = 0) -> xr.Dataset:
        key = f"dola-1-m{agents}-eps{epsilon.removesuffix('.0')}" + ("-mpi" if ranks else "")
        return runs(
            key,
            "dola-figure-1.toml",
            f"data.total={size.total}",
            f"privacy.epsilon={epsilon}",
            *graph(agents),
            ranks=ranks,
        )

    figure, axes = panels(1, 4 if rcv1 else 3, width=3.6)
    by_epsilon = {e: run(most, e, most + 1 if size.mpi else 0) for e in EPSILONS}
    for colour, (epsilon, found) in zip(COLOURS, by_epsilon.items(), strict=False):
        band(axes[0], per_sample(found), colour, name(epsilon))
    finish(axes[0], f"(a) unit ball, {most} agents")
    ends: dict[tuple[int, str], float] = {}
    for panel, letter, epsilon in ((axes[1], "c", "0.1"), (axes[2], "c′", "inf")):
        for colour, agents in zip(COLOURS, size.agents, strict=False):
            found = by_epsilon[epsilon] if agents == most else run(agents, epsilon)
            band(panel, per_sample(found), colour, f"{agents} agent{'s' * (agents > 1)}")
            ends[agents, epsilon] = float(per_sample(found)[-1])
        finish(panel, f"({letter}) unit ball, {name(epsilon)}")
    if rcv1:
        figure_1b(axes[3], runs, rcv1, most)
    print("R(T)/(nT) of the unit ball:")
    last = [float(per_sample(found)[-1]) for found in by_epsilon.values()]
    print(f"  {most} agents:", ", ".join(f"{v:.3g} at {name(e)}" for e, v in zip(EPSILONS, last, strict=True)))
    for (agents, epsilon), value in ends.items():
        print(f"  {agents:3} agents, {name(epsilon)}: {value:.3g}")
    idle = 1 - float(by_epsilon["0.01"].comparator_value[-1]) / size.total  # the hinge at 0 is 1
    ratios = [ends[most, e] / ends[1, e] for e in ("inf", "0.1")]
    alike = run(most, "0.1").network_regret.equals(by_epsilon["0.1"].network_regret)
    save(
        figure,
        asked / "dola-figure-1.png",
        f"DOLA, Fig. 1: hinge loss, λ = 1, {size.total:,} samples, one seed",
        [
            f"Less ε, more regret: {holds(last == sorted(last))} ({', '.join(f'{v:.2g}' for v in last)}). "
            f"Low regret at ε = 0.01: {holds(last[-1] < idle / 2)}, {last[-1] / idle:.1f} times that of deciding 0.",
            f"More agents, more regret: {holds(ratios[0] > 2)} at ε = ∞ (×{ratios[0]:.1f} from 1 to {most}), "
            f"{holds(ratios[1] > 2)} at ε = 0.1 (×{ratios[1]:.2f}). "
            + f"Lockstep and {'mpirun' if size.mpi else 'lockstep'}: {'same bits' if alike else 'NOT the same bits'}.",
        ],
    )


def figure_1b(axes: Axes, runs: Runs, folder: Path, agents: int) -> None:
    for colour, epsilon in zip(COLOURS, EPSILONS, strict=False):
        pairs = [f"data.dir={folder.absolute()}", f"privacy.epsilon={epsilon}", *graph(agents)]
        found = runs(f"dola-1-rcv1-m{agents}-eps{epsilon}", "dola-figure-1-rcv1.toml", *pairs)
        band(axes, per_sample(found), colour, name(epsilon))
        last, right = float(per_sample(found)[-1]), float(found.accuracy_last[-1])
        print(f"  RCV1, {agents} agents, {name(epsilon)}: {last:.3g}, accuracy {right:.1%}")
    finish(axes, f"(b) RCV1, {int(per_sample(found).horizon[-1]):,} training rows of it, {agents} agents")


def figure_2(asked: Path, runs: Runs, size: Size) -> None:
    figure, axes = panels(1, 2)
    batches = (1, 5, 20)
    found: dict[tuple[str, int], np.ndarray] = {}
    for colour, epsilon in zip(COLOURS, ("1.0", "inf"), strict=False):
        for h in batches:
            pairs = [
                f"data.total={size.fewer}",
                f"data.batch={h}",
                f"repeats={size.batch_repeats}",
                f"privacy.epsilon={epsilon}",
                *graph(4),
            ]
            run = runs(f"dola-2-h{h}-eps{epsilon}", "dola-figure-2.toml", *pairs)
            found[epsilon, h] = (run.network_regret / (4 * run.horizon))[:, -1].values
        values = np.array([found[epsilon, h] for h in batches])
        axes[0].errorbar(
            batches,
            values.mean(axis=1),
            values.std(axis=1, ddof=1),
            color=colour,
            marker="o",
            ms=4,
            capsize=3,
            label=name(epsilon),
        )
        axes[1].plot(batches, values.var(axis=1, ddof=1), color=colour, marker="o", ms=4, label=name(epsilon))
    for panel, title in zip(axes, ("mean and standard deviation", "variance"), strict=True):
        panel.set(xscale="log", yscale="log", xlabel="batch size h", ylabel="R / (nT)", title=title)
        panel.set_xticks(batches, map(str, batches))
        panel.minorticks_off()
        panel.legend()
    print("R(T)/(nT) by batch size, mean (std):")
    for (epsilon, h), values in found.items():
        print(f"  {name(epsilon)}, h = {h:2}: {values.mean():.3g} ({values.std(ddof=1):.2g})")
    private, open_ = (np.array([found[e, h] for h in batches]) for e in ("1.0", "inf"))
    means, stds = private.mean(axis=1), private.std(axis=1, ddof=1)
    times = stds / open_.std(axis=1, ddof=1)
    save(
        figure,
        asked / "dola-figure-2.png",
        f"DOLA, Fig. 2: Algorithm 2, 4 agents, {size.fewer:,} samples, λ = 1, {size.batch_repeats} repeats",
        [
            f"Batches lessen mean and variance: {holds(means[2] < means[1] < means[0] and stds[1] < stds[0])} "
            f"(h = 5: mean / {means[0] / means[1]:.1f}, std / {stds[0] / stds[1]:.1f}; "
            f"h = 20: / {means[0] / means[2]:.1f}, / {stds[0] / stds[2]:.1f}).",
            f"With h = 5 nearly as without privacy: {holds(bool(times[1] < 2))} "
            f"(mean × {means[1] / open_[1].mean():.0f}, std × {times[1]:.0f}).",
        ],
    )


def closed_form(epsilon: str, samples: int) -> float:
    """1 − E[angle]/π, for labels sign(a·x̂) and a uniform in the unit ball, where ‖E[b a]‖ = E|a_1|."""
    signal = gamma(DIMENSION / 2 + 1) / (sqrt(pi) * gamma((DIMENSION + 3) / 2))
    noise = 2 * sqrt(2 * DIMENSION) / (float(epsilon) * sqrt(samples))
    points = noise * np.random.default_rng(0).standard_normal((100_000, DIMENSION))
    points[:, 0] += signal
    return float(1 - np.arccos(points[:, 0] / np.linalg.norm(points, axis=1)).mean() / pi)


def table_1(asked: Path, runs: Runs, size: Size) -> None:
    rows = {f"{agents} agent{'s' * (agents > 1)}": (agents, "1.0", "1.0") for agents in size.agents}
    rows["4 agents, λ = 0.01"] = (4, "0.01", "10.0")
    found = {}
    for title, (agents, penalty, radius) in rows.items():
        for epsilon in EPSILONS:
            pairs = [
                f"data.total={size.fewer}",
                f"repeats={size.repeats}",
                f"privacy.epsilon={epsilon}",
                *graph(agents),
            ]
            pairs += [f"problem.regularizer={penalty}", f"problem.radius={radius}"]
            run = runs(f"dola-t1-m{agents}-lambda{penalty}-eps{epsilon}", "dola-table-1.toml", *pairs)
            found[title, epsilon] = 100 * run.accuracy_last[:, -1].values
    law = {e: 100 * (closed_form(e, size.fewer) if e != "inf" else 1.0) for e in EPSILONS}
    figure, (axes,) = panels(1, 1, width=6.4)
    x = np.arange(len(EPSILONS))
    print(f"test accuracy of the last decision (%), {size.fewer:,} samples, mean (std) of {size.repeats} seeds:")
    print(f"  {'':20}" + "".join(f"{name(e):>15}" for e in EPSILONS))
    print(f"  {'closed form':20}" + "".join(f"{law[e]:9.1f}      " for e in EPSILONS))
    for k, (colour, title) in enumerate(zip(COLOURS, rows, strict=False)):
        values = np.array([found[title, e] for e in EPSILONS])
        print(f"  {title:20}" + "".join(f"{v.mean():9.1f} ({v.std(ddof=1):3.1f})" for v in values))
        axes.errorbar(
            x + 0.08 * (k - 1.5),
            values.mean(axis=1),
            values.std(axis=1, ddof=1),
            color=colour,
            marker="o",
            ms=4,
            ls="",
            capsize=3,
            label=title,
        )
    axes.plot(
        x,
        [law[e] for e in EPSILONS],
        color="black",
        marker="_",
        ms=28,
        ls="",
        label="closed form, any λ and number of agents",
    )
    axes.set_xticks(x, map(name, EPSILONS))
    axes.set(ylabel="test accuracy, last decision (%)", ylim=(35, 102))
    axes.legend()
    few, *_, most = list(rows)[:3]
    alike = [np.mean([found[title, e].mean() for title in list(rows)[:3]]) for e in EPSILONS]
    off = max(abs(a - law[e]) for a, e in zip(alike, EPSILONS, strict=True))
    drops = {e: found[few, e].mean() - found[most, e].mean() for e in EPSILONS}
    errors = {e: np.hypot(found[few, e].std(ddof=1), found[most, e].std(ddof=1)) / sqrt(size.repeats) for e in EPSILONS}
    private = EPSILONS[1:]
    shown = ", ".join(f"{drops[e]:.1f} ± {errors[e]:.1f}" for e in EPSILONS)
    save(
        figure,
        asked / "dola-table-1.png",
        f"DOLA, Table 1, on the unit ball: {size.fewer:,} samples, mean and std of {size.repeats} seeds",
        [
            f"Accuracy falls with ε: {holds(alike == sorted(alike, reverse=True))}; the closed form is within "
            f"{off:.1f} points.",
            f"Accuracy falls with the number of agents: {holds(all(drops[e] > 2 * errors[e] for e in private))}; "
            f"points lost from {few} to {most}: {shown}.",
        ],
    )


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--rcv1", type=Path, metavar="DIR", help="directory of RCV1, for Fig. 1 (b)")
    asked = parser.parse_args()
    size = QUICK if asked.quick else FULL
    output = asked.output.absolute()
    runs = Runs(output)
    figure_1(output, runs, size, asked.rcv1)
    figure_2(output, runs, size)
    table_1(output, runs, size)


if __name__ == "__main__":
    main()
