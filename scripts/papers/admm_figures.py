"""The figures of the M-ADMM paper on Adult: convergence, and DVP against PP on 5 and on 100 agents.

Zhang, Khalili, Liu, section 5. L(t) is the average loss over the training rows, P(t) the paper's privacy loss; what
mpinodes proves is drawn below it. C, ρ, q1, q2 and the graphs are not printed: C = 900 (50 with 100 agents), ρ = 1, a
5-ring with a chord and an Erdős-Rényi graph.

python scripts/papers/admm_figures.py OUT --adult DIR

The runs of PP with q1 = 1.1, q2 = 1.06 at α(1) = 5, and with 100 agents and even shares, are made by mpirun (6 and 101
ranks), all else in one process, to the same bits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from shared import COLOURS, Runs, arguments, holds, panels, save

ROWS = 45_222
CAP = 2.0
CLEAR = 2.0  # standard errors of a difference


@dataclass(frozen=True)
class Size:
    """How large the experiments are."""

    iterations: tuple[int, int, int]  # T of Figs. 1, 2, 3 and 4
    repeats: tuple[int, int, int]  # of Fig. 2, of PP at DVP's noise rate there, of Figs. 3 and 4
    rates: tuple[float, ...]  # α(1) of Fig. 2
    weights: tuple[float, float]  # C of Figs. 1 and 2, and of 3 and 4
    agents: int  # of Figs. 3 and 4
    probability: float  # of an edge between them
    rows: int
    mpi: bool


FULL = Size((100, 100, 50), (10, 3, 1), (3.0, 5.0), (900.0, 50.0), agents=100, probability=0.05, rows=ROWS, mpi=True)
QUICK = Size((40, 15, 6), (2, 2, 1), (3.0,), (50.0, 10.0), agents=10, probability=0.4, rows=300, mpi=False)


class Setting(NamedTuple):
    """η(t) = 0.5 q1^(t−1), α(t) = α(1) q2^(t−1)."""

    colour: str
    q1: float
    q2: float

    @property
    def title(self) -> str:
        return f"DVP, q2 = {self.q2:g}" if self.q1 == 1 else f"PP, q1 = {self.q1:g}, q2 = {self.q2:g}"

    @property
    def pairs(self) -> list[str]:
        penalty = [] if self.q1 == 1 else ["algorithm.name=pp-admm", f"algorithm.penalty_growth={self.q1!r}"]
        return [*penalty, f"algorithm.noise_growth={self.q2!r}"]

    @property
    def key(self) -> str:
        return f"q1-{self.q1:g}-q2-{self.q2:g}"


RED, BLUE = Setting("#D55E00", 1.1, 1.06), Setting("#0072B2", 1.05, 1.04)
MAGENTA, BLACK, BLACK_MANY = Setting("#CC79A7", 1.0, 1.0), Setting("black", 1.0, 1.01), Setting("black", 1.0, 1.02)
CONTROLS = (Setting(COLOURS[4], 1.05, 1.0), Setting("#E69F00", 1.1, 1.0))


class Experiments:
    """The runs, by what differs between them."""

    def __init__(self, output: Path, adult: Path, size: Size) -> None:
        self._runs, self._adult, self.size = Runs(output), f"data.dir={adult.absolute()}", size

    def convergence(self, key: str, *pairs: str) -> xr.Dataset:
        return self._runs(f"admm-1-{key}", "admm-figure-1.toml", *self._five(0), *pairs)

    def private(self, setting: Setting, rate: float) -> xr.Dataset:
        pairs = [*self._five(1), f"repeats={self.size.repeats[setting in CONTROLS]}", f"algorithm.noise_rate={rate!r}"]
        ranks = 6 if self.size.mpi and (setting, rate) == (RED, 5.0) else 0
        key = f"admm-2-alpha{rate:g}-{setting.key}"
        return self._runs(key, "admm-figure-2.toml", *pairs, *setting.pairs, ranks=ranks)

    def many(self, setting: Setting, spread: str) -> xr.Dataset:
        size = self.size
        pairs = [self._adult, f"rounds={size.iterations[2] + 1}", f"repeats={size.repeats[2]}"]
        pairs += [f"topology.agents={size.agents}", f"topology.probability={size.probability}"]
        pairs += [f"problem.weight={size.weights[1]}", *self._dealt(self.sizes(spread))]
        ranks = size.agents + 1 if size.mpi and (setting, spread) == (RED, "evenly") else 0
        key = f"admm-3-{spread}-{setting.key}"
        run = self._runs(key, "admm-figure-3.toml", *pairs, *setting.pairs, ranks=ranks)
        return run if "repeat" in run.dims else run.expand_dims("repeat")

    def sizes(self, spread: str) -> np.ndarray:
        """(agents,) B_i; unevenly: shares drawn from the uniform law on the simplex, above C rows for each."""
        size, least = self.size, int(self.size.weights[1])
        if spread == "evenly":
            return np.full(size.agents, size.rows // size.agents)
        drawn = np.random.default_rng(0).dirichlet(np.ones(size.agents))
        return np.asarray(least + (drawn * (size.rows - size.agents * least)).astype(int))

    def _dealt(self, sizes: np.ndarray) -> list[str]:
        """Evenly by default, which leaves no row out."""
        even = np.ptp(sizes) == 0 and self.size.rows == ROWS
        return [] if even else ["data.partition=uneven", f"data.sizes={sizes.tolist()}"]

    def excess(self, run: xr.Dataset) -> xr.DataArray:
        """(F(f_i(t)) − min F)/C of the worst agent, by horizon; runs of Fig. 1."""
        found: xr.DataArray = run.optimality_gap.max("agent") / self.size.weights[0]
        return found

    def _five(self, figure: int) -> list[str]:
        size = self.size
        rows = self._dealt(np.full(5, size.rows // 5))
        return [self._adult, f"rounds={size.iterations[figure] + 1}", f"problem.weight={size.weights[0]}", *rows]


def figure_1(output: Path, experiments: Experiments) -> None:
    cap = f"algorithm.penalty_cap={CAP}"
    varied = {
        "θ = 0.5": experiments.convergence("a-fixed"),
        "θ(t) = 0.5 · 1.01^(t−1)": experiments.convergence("a-growing", "algorithm.dual_growth=1.01"),
        "θ_i = η_i(1)": experiments.convergence("a-own", "algorithm.dual_step=[0.55, 0.65, 0.6, 0.55, 0.6]"),
        f"θ = 0.5, η at most {CAP:g}": experiments.convergence("a-capped", cap),
    }
    equal = {f"q1 = {q1:g}": experiments.convergence(f"b-{q1:g}", *same(q1)) for q1 in (1.0, 1.01, 1.05, 1.1)}
    equal[f"q1 = 1.1, η at most {CAP:g}"] = experiments.convergence("b-1.1-capped", *same(1.1), cap)
    figure, axes = panels(2, 2)
    for k, (title, runs) in enumerate((("(a) different η_i(t)", varied), ("(b) η(t) = 0.5 q1^(t−1)", equal))):
        print(f"{title}: loss of L(T), excess objective / C at T/2 and T")
        for colour, (name, run) in zip(COLOURS, runs.items(), strict=False):
            style = "--" if "most" in name else "-"
            axes[k].plot(run["round"][1:] - 1, run.training_loss[1:], style, color=colour, label=name)
            excess = experiments.excess(run)
            axes[2 + k].plot(excess.horizon[1:] - 1, excess[1:], style, color=colour, label=name)
            print(
                f"  {name:26} {float(run.training_loss[-1]):.5f}  {float(halfway(excess)):.3g}  {float(excess[-1]):.3g}"
            )
        axes[k].set(xscale="log", xlabel="t", title=title)
        axes[2 + k].set(xscale="log", yscale="log", xlabel="t")
        axes[k].legend(fontsize=7)
    axes[0].set_ylabel("L(t)")
    axes[2].set_ylabel("(F(f_i(t)) − min F) / C, worst agent")
    *grown, capped = [experiments.excess(run) for run in equal.values()]
    last = [float(excess[-1]) for excess in grown]
    uncapped, mended = (experiments.excess(varied[name]) for name in (next(iter(varied)), next(reversed(varied))))
    stalls = [float(excess[-1] / halfway(excess)) for excess in (uncapped, grown[-1])]
    save(
        figure,
        output / "admm-figure-1.png",
        f"M-ADMM, Fig. 1, on Adult: 5 agents, C = {experiments.size.weights[0]:g}, ρ = 1",
        [
            f"A larger q1 slows it down: {holds(last == sorted(last))} (excess {', '.join(f'{v:.2g}' for v in last)}). "
            f"To the optimum: {holds(max(stalls) < 0.5)} with η that grows without bound; the second half of the run "
            f"takes off {1 - stalls[0]:.1%} in (a) and {1 - stalls[1]:.1%} in (b) at q1 = 1.1.",
            f"η at most {CAP:g} mends it: {holds(bool(mended[-1] < uncapped[-1] / 2 and capped[-1] < last[-1] / 2))} "
            f"(excess {float(mended[-1]):.2g} and {float(capped[-1]):.2g}).",
        ],
    )


def same(q1: float) -> list[str]:
    """One penalty for all agents."""
    return ["algorithm.penalty=0.5", f"algorithm.penalty_growth={q1}"]


def halfway(values: xr.DataArray) -> xr.DataArray:
    """At the first judged round in the second half of the run."""
    return values[values.horizon >= values.horizon[-1] / 2][0]


def draw(above: Axes, below: Axes, runs: Mapping[Setting, xr.Dataset]) -> None:
    """L(t): mean and range; P(t), and what is proven."""
    for k, (setting, run) in enumerate(runs.items()):
        loss = run.training_loss.values[:, 1:]
        t = np.arange(1, loss.shape[1] + 1)
        mean = loss.mean(axis=0)
        above.plot(t, mean, color=setting.colour, label=setting.title, lw=1)
        if len(loss) > 1:
            at = slice(4 + k, None, max(1, len(t) // 15))
            ranges = np.abs(np.array([loss.min(axis=0), loss.max(axis=0)]) - mean)
            above.errorbar(t[at], mean[at], ranges[:, at], color=setting.colour, ls="", capsize=1.5, lw=0.8)
        for values, style in ((run.epsilon_claimed_network, "-"), (run.epsilon_proven_network, ":")):
            below.plot(values.horizon[1:] - 1, values[0, 1:], style, color=setting.colour)
    above.set(xlabel="t", yscale="log")
    below.set(xlabel="t", yscale="log")


class Ends(NamedTuple):
    """What is left at T."""

    loss: np.ndarray  # (repeats,) L(T)
    claimed: float  # P(T)
    pure: float  # proven
    proven: float  # at δ = 1e-5


def ends(run: xr.Dataset) -> Ends:
    losses = (run.epsilon_claimed_network, run.epsilon_proven_pure_network, run.epsilon_proven_network)
    return Ends(run.training_loss.values[:, -1], *(float(values[0, -1]) for values in losses))


def rows(title: str, runs: Mapping[Setting, xr.Dataset]) -> None:
    print(f"{title}: L(T), its std and range; P(T), proven pure, proven at δ = 1e-5")
    for setting, run in runs.items():
        loss, claimed, pure, proven = ends(run)
        spread = f"({loss.std(ddof=1):.4f}), {np.ptp(loss):.4f}" if len(loss) > 1 else "(one run)"
        print(f"  {setting.title:24} {loss.mean():.4f} {spread};  {claimed:.3g}, {pure:.3g}, {proven:.3g}")


def against(name: str, one: Ends, other: Ends) -> str:
    """Whether one has a lower loss, clearly, and a lower P. Equal seeds have equal f(0) and directions of noise."""
    less = other.loss - one.loss
    error = less.std(ddof=1) / np.sqrt(len(less)) if len(less) > 1 else 0.0
    holding = holds(less.mean() > -CLEAR * error and one.claimed < other.claimed)
    if abs(less.mean()) <= CLEAR * error:
        holding += " for P, L is not told apart"
    return (
        f"{name} {holding}: L {one.loss.mean():.3f} against {other.loss.mean():.3f}"
        f"{f' (± {error:.3f})' if error else ''}, P {one.claimed:.1f} against {other.claimed:.1f}"
    )


def figure_2(output: Path, experiments: Experiments) -> None:
    size = experiments.size
    figure, axes = panels(2, len(size.rates))
    verdicts = []
    for k, rate in enumerate(size.rates):
        runs = {s: experiments.private(s, rate) for s in (MAGENTA, BLACK, RED, BLUE)}
        draw(axes[k], axes[len(size.rates) + k], runs)
        axes[k].set_title(f"({'ab'[k]}) α(t) = {rate:g} · q2^(t−1)")
        rows(f"α(1) = {rate:g}", runs)
        verdicts.append(f"α(1) = {rate:g}: {outperforms(runs, BLACK)}")
        if k == 0:
            verdicts.append(alone(axes[0], ends(runs[MAGENTA]), {s: experiments.private(s, rate) for s in CONTROLS}))
    axes[0].set_ylabel("L(t): mean and range")
    axes[len(size.rates)].set_ylabel("P(t); dotted: proven at δ = 1e-5")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    title = f"PP and DVP, Fig. 2, on Adult: 5 agents, C = {size.weights[0]:g}, ρ = 1, {size.repeats[0]} runs"
    save(figure, output / "admm-figure-2.png", title, verdicts)


def outperforms(runs: Mapping[Setting, xr.Dataset], black: Setting) -> str:
    pairs = (("red than magenta", RED, MAGENTA), ("blue than black", BLUE, black))
    return (
        "Lower L and lower P: " + "; ".join(against(name, ends(runs[a]), ends(runs[b])) for name, a, b in pairs) + "."
    )


def alone(axes: Axes, base: Ends, runs: Mapping[Setting, xr.Dataset]) -> str:
    """What growing penalties do where the noise's law stays that of DVP."""
    rows("PP at DVP's noise rate", runs)
    found = {setting.q1: ends(run) for setting, run in runs.items()}
    low, high = axes.get_ylim()
    for setting, run in runs.items():
        mean = run.training_loss.mean("repeat")[1:]
        axes.plot(mean["round"] - 1, mean, "--", color=setting.colour, lw=1, label=setting.title)
    axes.set_ylim(low, 1.5 * high)
    lower = all(e.loss.mean() < base.loss.mean() for e in found.values())
    shown = ", ".join(f"{e.loss.mean():.2f} (q1 = {q1:g}, P {e.claimed:.1f})" for q1, e in found.items())
    return (
        f"At DVP's noise rate (q2 = 1) growing η lowers L: {holds(lower)}: {shown} against {base.loss.mean():.2f} "
        f"(P {base.claimed:.1f})."
    )


def figures_3_and_4(output: Path, experiments: Experiments) -> None:
    figure, axes = panels(2, 2)
    verdicts, most = [], {}
    for k, spread in enumerate(("evenly", "unevenly")):
        runs = {s: experiments.many(s, spread) for s in (MAGENTA, BLACK_MANY, RED, BLUE)}
        draw(axes[k], axes[2 + k], runs)
        sizes = experiments.sizes(spread)
        axes[k].set_title(f"Fig. {3 + k}: rows {spread} spread, {sizes.min()} to {sizes.max()} each")
        rows(f"{len(sizes)} agents, {spread}", runs)
        most[spread] = ends(runs[RED]).claimed
        verdicts.append(f"Fig. {3 + k}: {outperforms(runs, BLACK_MANY)}")
    times = most["unevenly"] / most["evenly"]
    verdicts.append(f"Unevenly spread rows cost more privacy: {holds(times > 1)}, P × {times:.1f}.")
    axes[0].set_ylabel("L(t)")
    axes[2].set_ylabel("P(t); dotted: proven at δ = 1e-5")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    size = experiments.size
    title = f"PP and DVP on {size.agents} agents, Adult: C = {size.weights[1]:g}, ρ = 1, α(1) = 3"
    save(figure, output / "admm-figures-3-4.png", title, verdicts)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--adult", type=Path, metavar="DIR", required=True, help="directory of Adult")
    asked = parser.parse_args()
    output = asked.output.absolute()
    experiments = Experiments(output, asked.adult, QUICK if asked.quick else FULL)
    figure_1(output, experiments)
    figure_2(output, experiments)
    figures_3_and_4(output, experiments)


if __name__ == "__main__":
    main()
