"""The figures of the M-ADMM paper on Adult: convergence, and DVP against PP on 5 and on 100 agents.

Zhang, Khalili, Liu, section 5. L(t) is the average loss over the training rows, P(t) the paper's privacy loss; what
mpinodes proves is drawn below it. C, ρ, q1, q2 and the graphs are not printed: C = 900 (50 with 100 agents), ρ = 1, a
5-ring with a chord and an Erdős-Rényi graph.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import xarray as xr
from desk import COLOURS, Desk, Verdict, judged, not_done, panels, shown
from matplotlib.axes import Axes

NEEDS = ("adult",)
SETTINGS = ("admm-figure-1.toml", "admm-figure-2.toml", "admm-figure-3.toml")
PAPER = "madmm"

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
    ways: int  # θ and η of Fig. 1 (a) that are tried
    growths: tuple[float, ...]  # q1 of Fig. 1 (b)
    settings: int  # of PP in Fig. 2 to 4, and as many of DVP and of controls


FULL = Size(
    (100, 100, 50),
    (10, 3, 1),
    (3.0, 5.0),
    (900.0, 50.0),
    agents=100,
    probability=0.05,
    rows=ROWS,
    ways=4,
    growths=(1.0, 1.01, 1.05, 1.1),
    settings=2,
)
QUICK = Size(
    (40, 15, 6),
    (2, 2, 1),
    (3.0,),
    (50.0, 10.0),
    agents=10,
    probability=0.4,
    rows=300,
    ways=2,
    growths=(1.0, 1.1),
    settings=1,
)


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

    def __init__(self, desk: Desk, adult: Path, size: Size) -> None:
        self.desk, self._adult, self.size = desk, f"data.dir={adult}", size

    def convergence(self, key: str, *pairs: str) -> xr.Dataset:
        return self.desk.run(f"admm-1-{key}", "admm-figure-1.toml", *self._five(0), *pairs)

    def private(self, setting: Setting, rate: float) -> xr.Dataset:
        pairs = [*self._five(1), f"repeats={self.size.repeats[setting in CONTROLS]}", f"algorithm.noise_rate={rate!r}"]
        key = f"admm-2-alpha{rate:g}-{setting.key}"
        return self.desk.run(key, "admm-figure-2.toml", *pairs, *setting.pairs)

    def unequal(self, rate: float) -> xr.Dataset:
        """PP whose η_i and α_i grow about as in red, at another rate in each agent."""
        pairs = [*self._five(1), f"repeats={self.size.repeats[0]}", f"algorithm.noise_rate={rate!r}"]
        pairs += ["algorithm.name=pp-admm", "algorithm.penalty_growth=[1.08, 1.09, 1.1, 1.11, 1.12]"]
        pairs += ["algorithm.noise_growth=[1.04, 1.05, 1.06, 1.07, 1.08]"]
        return self.desk.run(f"admm-2-alpha{rate:g}-unequal", "admm-figure-2.toml", *pairs)

    def tens(self, setting: Setting) -> xr.Dataset:
        """Fig. 3 with 30 agents."""
        pairs = [
            self._adult,
            f"rounds={self.size.iterations[2] + 1}",
            "topology.agents=30",
            "topology.probability=0.25",
        ]
        run = self.desk.run(f"admm-3-tens-{setting.key}", "admm-figure-3.toml", *pairs, *setting.pairs)
        return run.expand_dims("repeat")

    def many(self, setting: Setting, spread: str) -> xr.Dataset:
        size = self.size
        pairs = [self._adult, f"rounds={size.iterations[2] + 1}", f"repeats={size.repeats[2]}"]
        pairs += [f"topology.agents={size.agents}", f"topology.probability={size.probability}"]
        pairs += [f"problem.weight={size.weights[1]}", *self._dealt(self.sizes(spread))]
        run = self.desk.run(f"admm-3-{spread}-{setting.key}", "admm-figure-3.toml", *pairs, *setting.pairs)
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


def figure_1(experiments: Experiments) -> list[Verdict]:
    size, cap = experiments.size, f"algorithm.penalty_cap={CAP}"
    ways = {
        "θ = 0.5": ("a-fixed", []),
        f"θ = 0.5, η at most {CAP:g}": ("a-capped", [cap]),
        "θ(t) = 0.5 · 1.01^(t−1)": ("a-growing", ["algorithm.dual_growth=1.01"]),
        "θ_i = η_i(1)": ("a-own", ["algorithm.dual_step=[0.55, 0.65, 0.6, 0.55, 0.6]"]),
    }
    varied = {title: experiments.convergence(key, *pairs) for title, (key, pairs) in list(ways.items())[: size.ways]}
    equal = {f"q1 = {q1:g}": experiments.convergence(f"b-{q1:g}", *same(q1)) for q1 in size.growths}
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
    told = convergence(experiments, varied, equal)
    title = f"M-ADMM, Fig. 1, on Adult: 5 agents, C = {size.weights[0]:g}, ρ = 1"
    experiments.desk.save(figure, "admm-figure-1.png", title, told)
    return told


def convergence(experiments: Experiments, varied: dict[str, xr.Dataset], equal: dict[str, xr.Dataset]) -> list[Verdict]:
    *grown, capped = [experiments.excess(run) for run in equal.values()]
    last = [float(excess[-1]) for excess in grown]
    uncapped, mended = [experiments.excess(run) for run in varied.values()][:2]
    stalls = [float(excess[-1] / halfway(excess)) for excess in (uncapped, grown[-1])]
    return [
        Verdict(
            PAPER, "Fig. 1", "a larger q1 slows it down", judged(last == sorted(last)),
            f"excess objective / C {shown(last, 2)} at q1 = {shown(experiments.size.growths)}",
        ),
        Verdict(
            PAPER, "Fig. 1", "M-ADMM converges to the optimum, η growing without bound", judged(max(stalls) < 0.5),
            f"excess / C {float(uncapped[-1]):.2g} in (a), {last[-1]:.2g} in (b) at q1 = 1.1; the second half of the "
            f"run takes off {1 - stalls[0]:.1%} and {1 - stalls[1]:.1%}", "→ 0", "",
            because="geometrically growing penalties hold agents where they are; Theorem 3.1 needs bounded ones",
        ),
        Verdict(
            PAPER, "Theorem 3.1", f"it converges to the optimum with η bounded (at most {CAP:g})",
            judged(bool(mended[-1] < uncapped[-1] / 2 and capped[-1] < last[-1] / 2)),
            f"excess / C {float(mended[-1]):.2g} and {float(capped[-1]):.2g}", "→ 0",
        ),
    ]  # fmt: skip


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


def figure_2(experiments: Experiments) -> list[Verdict]:
    size = experiments.size
    figure, axes = panels(2, len(size.rates))
    told = []
    for k, rate in enumerate(size.rates):
        runs = {s: experiments.private(s, rate) for s in (RED, MAGENTA, BLUE, BLACK)[: 2 * size.settings]}
        draw(axes[k], axes[len(size.rates) + k], runs)
        axes[k].set_title(f"({'ab'[k]}) α(t) = {rate:g} · q2^(t−1)")
        rows(f"α(1) = {rate:g}", runs)
        told += outperforms(f"Fig. 2 ({'ab'[k]})", runs, BLACK)
        if k == 0:
            told.append(
                alone(
                    axes[0], ends(runs[MAGENTA]), {s: experiments.private(s, rate) for s in CONTROLS[: size.settings]}
                )
            )
    axes[0].set_ylabel("L(t): mean and range")
    axes[len(size.rates)].set_ylabel("P(t); dotted: proven at δ = 1e-5")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    title = f"PP and DVP, Fig. 2, on Adult: 5 agents, C = {size.weights[0]:g}, ρ = 1, {size.repeats[0]} runs"
    experiments.desk.save(figure, "admm-figure-2.png", title, told)
    return told


def outperforms(item: str, runs: Mapping[Setting, xr.Dataset], black: Setting) -> list[Verdict]:
    pairs = (("red (PP) than magenta (DVP)", RED, MAGENTA), ("blue (PP) than black (DVP)", BLUE, black))
    return [against(item, name, ends(runs[a]), ends(runs[b])) for name, a, b in pairs if a in runs]


def against(item: str, name: str, one: Ends, other: Ends) -> Verdict:
    """Whether one has a lower loss, clearly, and a lower P. Equal seeds have equal f(0) and directions of noise."""
    less = other.loss - one.loss
    error = less.std(ddof=1) / np.sqrt(len(less)) if len(less) > 1 else 0.0
    alike = abs(less.mean()) <= CLEAR * error
    return Verdict(
        PAPER, item, f"lower loss and lower privacy loss: {name}",
        judged(less.mean() > -CLEAR * error and one.claimed < other.claimed),
        f"L {one.loss.mean():.3f} against {other.loss.mean():.3f}{f' (± {error:.3f})' if error else ''}; P "
        f"{one.claimed:.1f} against {other.claimed:.1f}; proven ε {one.proven:.1f} against {other.proven:.1f}",
        "both lower", seeds=len(one.loss),
        because="in P; in L the two are not told apart" if alike else "",
    )  # fmt: skip


def alone(axes: Axes, base: Ends, runs: Mapping[Setting, xr.Dataset]) -> Verdict:
    """What growing penalties do where the noise's law stays that of DVP."""
    rows("PP at DVP's noise rate", runs)
    found = {setting.q1: ends(run) for setting, run in runs.items()}
    low, high = axes.get_ylim()
    for setting, run in runs.items():
        mean = run.training_loss.mean("repeat")[1:]
        axes.plot(mean["round"] - 1, mean, "--", color=setting.colour, lw=1, label=setting.title)
    axes.set_ylim(low, 1.5 * high)
    lower = all(e.loss.mean() < base.loss.mean() for e in found.values())
    said = ", ".join(f"{e.loss.mean():.2f} (q1 = {q1:g}, P {e.claimed:.1f})" for q1, e in found.items())
    return Verdict(
        PAPER, "Section 6.1", "growing η makes it more accurate, the noise's law being the same (q2 = 1)",
        judged(lower),
        f"L {said} against {base.loss.mean():.2f} (P {base.claimed:.1f})", "lower",
        seeds=min(len(e.loss) for e in found.values()),
        because="" if lower else "L gains by the growing α, which the growing η makes cheap, not by η",
    )  # fmt: skip


def figures_3_and_4(experiments: Experiments) -> list[Verdict]:
    size = experiments.size
    figure, axes = panels(2, 2)
    told, most = [], {}
    for k, spread in enumerate(("evenly", "unevenly")):
        runs = {s: experiments.many(s, spread) for s in (RED, MAGENTA, BLUE, BLACK_MANY)[: 2 * size.settings]}
        draw(axes[k], axes[2 + k], runs)
        sizes = experiments.sizes(spread)
        axes[k].set_title(f"Fig. {3 + k}: rows {spread} spread, {sizes.min()} to {sizes.max()} each")
        rows(f"{len(sizes)} agents, {spread}", runs)
        most[spread] = ends(runs[RED])
        told += outperforms(f"Fig. {3 + k}", runs, BLACK_MANY)
    times = most["unevenly"].claimed / most["evenly"].claimed
    told.append(
        Verdict(
            PAPER, "Fig. 4", "unevenly spread rows cost more privacy", judged(times > 1), f"P × {times:.1f}",
            seeds=len(most["evenly"].loss),
        )
    )  # fmt: skip
    axes[0].set_ylabel("L(t)")
    axes[2].set_ylabel("P(t); dotted: proven at δ = 1e-5")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    title = f"PP and DVP on {size.agents} agents, Adult: C = {size.weights[1]:g}, ρ = 1, α(1) = 3"
    experiments.desk.save(figure, "admm-figures-3-4.png", title, told)
    return told


def section_5_2(experiments: Experiments) -> list[Verdict]:
    """What the text says of more experiments than it shows."""
    rate = experiments.size.rates[0]
    told = [
        against(
            "Section 5.2", "PP, η_i and α_i differing by agent, than magenta (DVP)", ends(experiments.unequal(rate)),
            ends(experiments.private(MAGENTA, rate)),
        )
    ]  # fmt: skip
    if not experiments.desk.quick:
        runs = {s: experiments.tens(s) for s in (RED, MAGENTA, BLUE, BLACK_MANY)}
        rows("30 agents, evenly", runs)
        told += [v._replace(claim=f"30 nodes: {v.claim}") for v in outperforms("Section 5.2", runs, BLACK_MANY)]
    return told


def made_rows(place: Path) -> Path:
    """300 rows in Adult's format, whose income depends on age, hours and sex."""
    place.mkdir(parents=True, exist_ok=True)
    draws = np.random.default_rng(0)
    for name, count, end in (("adult.data", 200, ""), ("adult.test", 100, ".")):
        lines = [] if end == "" else ["|1x3 Cross validator"]
        for age, hours, male in zip(*draws.integers([[17], [10], [0]], [[90], [99], [2]], (3, count)), strict=True):
            rich = age + hours + 40 * male + draws.normal(0, 20) > 130
            lines.append(
                f"{age}, Private, 100000, Bachelors, 13, Never-married, Sales, Husband, White, "
                f"{'Male' if male else 'Female'}, 0, 0, {hours}, United-States, {'>' if rich else '<='}50K{end}"
            )
        (place / name).write_text("\n".join([*lines, ""]))
    return place


def redraw(desk: Desk) -> list[Verdict]:
    adult = made_rows(desk.output / "made-adult") if desk.quick else desk.folder("adult")
    if adult is None:
        items = ("Fig. 1", "Theorem 3.1", "Fig. 2 (a)", "Fig. 2 (b)", "Section 6.1", "Fig. 3", "Fig. 4", "Section 5.2")
        return [not_done(PAPER, item, "on Adult") for item in items]
    experiments = Experiments(desk, adult, QUICK if desk.quick else FULL)
    return [*figure_1(experiments), *figure_2(experiments), *figures_3_and_4(experiments), *section_5_2(experiments)]
