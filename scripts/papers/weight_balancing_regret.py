"""Regret of the weight-balancing method: against the horizon, against ε, and with a modulus outside of Theorem 2.

Zhu, Xu, Guan, Wu promise regret of order log T for strongly convex losses and √T for convex ones, growing as 1/ε², on
samples that are not separable: unit features, labels drawn by a logistic model. Theorem 2 prints μ̃ ≤ ½ Σ μ_i; what its
proof needs is (1/2n) Σ μ_i. With gradients of curvature κ around the optimum, steps 1/(μ̃(t + 1)) shrink the distance
of the agents' mean from it as t^(−κ/μ̃), the regret as T^(1 − 2κ/μ̃) where that is more than log T: for μ̃ = ½ Σ μ_i
that is T^(1 − 4κ/(nμ)).

python scripts/papers/weight_balancing_regret.py OUT
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from shared import COLOURS, Runs, arguments, band, holds, panels, save

AGENTS, MANY = 6, 16
DIMENSION = 4
REGULARIZER = 0.2  # as in the TOML file: μ_i, all alike
EPSILONS = ["inf", "100.0", "10.0", "3.0", "1.0"]
LEAST = 2**6  # horizons below are not fitted
GRAPHS = {"random-digraph": "fixed digraph", "eulerian": "Eulerian every round"}
STRONG, CONVEX = "weight-balancing-strongly-convex.toml", "weight-balancing-convex.toml"


class Experiments:
    """The runs, by what differs between them."""

    def __init__(self, output: Path, rounds: int, repeats: int) -> None:
        self._runs, self._output = Runs(output), output
        self._rounds, self._repeats = rounds, repeats

    def __call__(
        self, toml: str, epsilon: str = "10.0", graph: str = "random-digraph", agents: int = AGENTS,
        modulus: float = 0.0, shorter: int = 1,
    ) -> xr.Dataset:  # fmt: skip
        rounds = self._rounds // shorter
        pairs = [
            f"rounds={rounds}",
            f"topology.agents={agents}",
            f"topology.name={graph}",
            f"privacy.epsilon={epsilon}",
        ]
        pairs += [f"data.file={self._samples(agents)}"]
        pairs += [f"repeats={self._repeats}"] if epsilon != "inf" else []  # without noise seeds differ in graphs only
        pairs += [f"step.modulus={modulus!r}"] if modulus else []
        key = f"{Path(toml).stem}-{graph}-n{agents}-eps{epsilon}-T{rounds}" + (
            f"-modulus{modulus:.2g}" if modulus else ""
        )
        return self._runs(key, toml, *pairs, f"noise.key={key}")  # not of where the samples lie

    def _samples(self, agents: int) -> Path:
        """A file of samples, as many as the rounds take."""
        path = self._output / f"noisy-labels-{agents}-{self._rounds}.npz"
        if not path.exists():
            draws = np.random.default_rng(0)
            a = draws.standard_normal((agents * self._rounds, DIMENSION))
            a /= np.linalg.norm(a, axis=1)[:, None]
            positive = draws.random(len(a)) < 1 / (1 + np.exp(-1.5 * a.sum(axis=1)))
            path.parent.mkdir(parents=True, exist_ok=True)
            np.savez(path, features=a, targets=np.where(positive, 1.0, -1.0))
        return path


def worst(run: xr.Dataset) -> xr.DataArray:
    """R_j of the worst agent."""
    return run.agent_regret.max("agent")


def mean(values: xr.DataArray) -> xr.DataArray:
    """Over repeats where there are some, of the horizons that are fitted."""
    values = values.mean("repeat") if "repeat" in values.dims else values
    return values[values.horizon >= LEAST]


def misfit(values: xr.DataArray, shape: Callable[[np.ndarray], np.ndarray]) -> tuple[float, float]:
    """Slope of a + b·shape(T) by least squares, and the share of the variance that it leaves."""
    x, y = shape(values.horizon.values.astype(float)), values.values
    slope, offset = np.polyfit(x, y, 1)
    return float(slope), float(np.mean((y - offset - slope * x) ** 2) / y.var())


def growth(values: xr.DataArray) -> float:
    """The exponent p of T^p over the last fourfold horizons."""
    late = values[values.horizon >= values.horizon[-1] / 4.1]
    return float(np.polyfit(np.log(late.horizon), np.log(late), 1)[0])


def row(name: str, run: xr.Dataset) -> None:
    for who, values in (("worst agent", mean(worst(run))), ("network", mean(run.network_regret))):
        (b, log_left), (c, root_left) = misfit(values, np.log), misfit(values, np.sqrt)
        print(
            f"{name:46} {who:12} {values.values[0]:8.1f} {values.values[-1]:8.1f} {growth(values):8.2f} "
            f"{b:9.2f} {log_left:8.3f} {c:9.2f} {root_left:8.3f}"
        )


def against_horizon(axes: Axes, experiments: Experiments, toml: str) -> dict[str, xr.Dataset]:
    found = {}
    for k, (graph, title) in enumerate(GRAPHS.items()):
        run = found[graph] = experiments(toml, graph=graph)
        band(axes, worst(run), COLOURS[2 * k], f"{title}, worst agent")
        band(axes, run.network_regret, COLOURS[2 * k + 1], f"{title}, network", ls="--")
        row(f"{toml[17:-5]}, {title}, eps 10", run)
    run = found["inf"] = experiments(toml, "inf")
    band(axes, worst(run), COLOURS[4], "fixed, ε = ∞, worst agent", ls=":")
    row(f"{toml[17:-5]}, fixed digraph, eps inf", run)
    axes.set(xlim=(LEAST / 1.2, None), xlabel="horizon T", ylabel="regret")
    axes.legend(fontsize=7)
    return found


def against_epsilon(axes: Axes, experiments: Experiments) -> dict[str, float]:
    """The exponent p of (excess over ε = ∞) ~ ε^−p between ε = 3 and 1."""
    exponents = {}
    for colour, toml in zip(COLOURS, (STRONG, CONVEX), strict=False):
        name = toml[17:-5]
        last = {e: worst(experiments(toml, e, shorter=8)).isel(horizon=-1) for e in EPSILONS}
        none = float(last["inf"])
        excess = np.array([float(last[e].mean()) - none for e in EPSILONS[1:]])
        ranges = np.array([[last[e].min() - none, last[e].max() - none] for e in EPSILONS[1:]]).T
        x = np.array([float(e) for e in EPSILONS[1:]]) ** -2.0
        axes.plot(
            x, np.where(excess > 0, excess, np.nan), color=colour, marker="o", ms=3, label=f"{name} (ε = ∞: {none:.3g})"
        )
        axes.fill_between(x, *np.maximum(ranges, 1e-2), color=colour, alpha=0.15, lw=0)
        exponents[name] = 2 * float(np.log(excess[-1] / excess[-2]) / np.log(x[-1] / x[-2]))
        print(
            f"{name}, R_j less its {none:.1f} at eps inf: "
            + ", ".join(f"{v:.4g} at {e}" for v, e in zip(excess, EPSILONS[1:], strict=True))
        )
    guide = excess[-1] * x
    axes.plot(x, guide, color="black", lw=0.8, ls="--", label="∝ 1/ε²")
    axes.set(xscale="log", yscale="log", xlabel="1/ε²", ylabel="R_j less that at ε = ∞", ylim=(0.1, None))
    axes.legend()
    return exponents


def moduli(axes: Axes, experiments: Experiments) -> dict[str, float]:
    """Growth exponents with μ̃ as proven and as printed."""
    found = {}
    for k, agents in enumerate((AGENTS, MANY)):
        for which, share, style in (("proven", 0.5, "-"), ("printed", agents / 2, "--")):
            run = experiments(STRONG, "inf", agents=agents, modulus=share * REGULARIZER)
            band(axes, worst(run) / agents, COLOURS[k], f"n = {agents}, largest μ̃ {which}", ls=style)
            found[f"{which} {agents}"] = growth(mean(worst(run)))
            row(f"strongly-convex, modulus {which}, n {agents}, eps inf", run)
    noisy = experiments(STRONG, modulus=AGENTS / 2 * REGULARIZER)
    row(f"strongly-convex, modulus printed, n {AGENTS}, eps 10", noisy)
    band(axes, worst(noisy) / AGENTS, COLOURS[2], f"n = {AGENTS}, printed, ε = 10", ls="--")
    t = run.horizon.values[run.horizon.values >= LEAST]
    axes.plot(t, float(worst(run)[-1]) / MANY * np.sqrt(t / t[-1]), color="black", lw=0.8, label="∝ √T")
    axes.set(xscale="log", yscale="log", xlim=(LEAST / 1.2, None), xlabel="horizon T", ylabel="R_j / n, worst agent")
    axes.legend(fontsize=7)
    return found


def main() -> None:
    asked = arguments(__doc__).parse_args()
    rounds, repeats = (2**9, 2) if asked.quick else (2**14, 10)
    experiments = Experiments(asked.output.absolute(), rounds, repeats)
    figure, axes = panels(2, 2)
    print(f"{'':46} {'':12} {'R(64)':>8} {'R(T)':>8} {'growth':>8} {'b log T':>9} {'left':>8} {'b √T':>9} {'left':>8}")
    strong, convex = against_horizon(axes[0], experiments, STRONG), against_horizon(axes[1], experiments, CONVEX)
    axes[0].set_xscale("log", base=2)
    axes[0].set_title("strongly convex, ε = 10: a line if log T")
    axes[1].set_xscale("function", functions=(np.sqrt, np.square))
    axes[1].set_xticks(rounds // np.array([16, 4, 2, 1]))
    axes[1].set_title("convex, ε = 10: a line if √T")
    exponents = against_epsilon(axes[2], experiments)
    axes[2].set_title(f"fixed digraph, T = {rounds // 8}")
    grown = moduli(axes[3], experiments)
    axes[3].set_title("strongly convex, ε = ∞: μ̃ = (1/2n) Σ μ_i or ½ Σ μ_i")
    fixed, curved = mean(worst(strong["random-digraph"])), mean(worst(convex["random-digraph"]))
    (_, log_left), (_, root_left) = misfit(fixed, np.log), misfit(fixed, np.sqrt)
    p = growth(curved)
    save(
        figure,
        asked.output / "weight-balancing-regret.png",
        f"Weight balancing, logistic loss, n = {AGENTS}, d = {DIMENSION}: mean and range of {repeats} seeds",
        [
            f"Strongly convex, log T: {holds(log_left < root_left)}, it leaves {log_left:.1%} of R_j's variance, √T "
            f"{root_left:.1%}. Convex, at most √T: {holds(p <= 0.5)}, R_j grows as T^{p:.2f} at the end.",
            "Noise part ∝ ε^−p, the paper's p = 2: "
            + ", ".join(f"{p:.2f} {name}" for name, p in exponents.items())
            + ".",
            "Growth T^p with the printed μ̃: "
            + ", ".join(
                f"p = {grown[f'printed {n}']:.2f} (proven: {grown[f'proven {n}']:.2f}) at n = {n}"
                for n in (AGENTS, MANY)
            )
            + ".",
        ],
    )


if __name__ == "__main__":
    main()
