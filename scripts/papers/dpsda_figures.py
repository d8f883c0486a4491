"""DPSDA on its four problems: Figs. 3, 5 and 7, Tables II to IV, in the printed setting as far as it is printed.

Cheng, Liao, Li. What is not printed: c of the noise's scale c/ε, which is fitted to the tables on seeds of its own and
then judged on others; the digraph of Fig. 2; the decision whose accuracy is shown, here that of the running mean x̃(T),
the last one's beside it; whether N(0, 0.1) has that variance or standard deviation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from desk import COLOURS, HERE, NOT, ORDER, REPRODUCED, Desk, Verdict, apart, judged, not_done, panels, recorded, shown
from matplotlib.axes import Axes

from mpinodes.finished.runs import FinishedRun

PAPER = "dpsda"
NEEDS = ("mushrooms", "mnist", "cifar10")
ALGORITHMS = ("dpsda-c", "dpsda-ps")
EPSILONS = ("inf", 1.0, 0.5, 0.2)
FIRST_TO_FIT = 100  # seeds that c is fitted on begin here
WIDE = 5.0  # points, a standard deviation that leaves little to compare
NEAR = 2.0  # standard deviations of a run that a printed number may be away


class Table(NamedTuple):
    """A table of the paper.

    Attributes:
        item: its name.
        toml: its settings.
        data: the folder of its data set.
        title: of the data.
        scales: c that are tried.
        train: by algorithm, the printed accuracies by ε, in per cent.
        test: likewise.
        limits: what is unlike the paper's.
    """

    item: str
    toml: str
    data: str
    title: str
    scales: tuple[float, ...]
    train: Mapping[str, tuple[float, ...]]
    test: Mapping[str, tuple[float, ...]]
    limits: str = ""


TABLES = (
    Table(
        "Table II", "dpsda-table-2.toml", "mushrooms", "mushrooms", (12.5, 25.0, 50.0, 100.0, 200.0),
        {"dpsda-c": (97.95, 94.77, 88.25, 79.38), "dpsda-ps": (97.70, 94.50, 88.10, 75.35)},
        {"dpsda-c": (99.50, 85.05, 82.05, 76.50), "dpsda-ps": (97.90, 81.20, 78.10, 73.00)},
        "train and test as printed (97.95 against 99.50 without noise, 94.77 against 85.05 with) are of no one "
        "decision: splits of one data set differ by less than a point",
    ),
    Table(
        "Table III", "dpsda-table-3.toml", "mnist", "MNIST, 6 against 8", (100.0, 200.0, 400.0, 800.0),
        {"dpsda-c": (97.38, 86.15, 73.94, 59.75), "dpsda-ps": (97.39, 89.71, 77.15, 62.10)},
        {"dpsda-c": (97.98, 86.10, 73.92, 58.85), "dpsda-ps": (97.98, 89.60, 77.47, 61.02)},
    ),
    Table(
        "Table IV", "dpsda-table-4.toml", "cifar10", "CIFAR-10, cat or not", (1400.0, 4200.0, 14000.0, 42000.0),
        {"dpsda-c": (90.06, 83.90, 73.51, 63.47), "dpsda-ps": (90.06, 87.53, 83.59, 78.38)},
        {"dpsda-c": (89.70, 83.33, 72.64, 63.01), "dpsda-ps": (89.70, 87.21, 83.34, 77.61)},
        "9,085 of 60,000 images; 90 % is the share of the other nine classes, so nothing is learned",
    ),
)  # fmt: skip
METRIC = "agents_loss.py"
SETTINGS = (METRIC, "dpsda-figure-3.toml", "dpsda-figure-7.toml", *(table.toml for table in TABLES))


@dataclass(frozen=True)
class Size:
    """How large the experiments are."""

    seeds: Mapping[str, int]  # of a table, by its data
    fitted: int  # seeds that c is fitted on
    tables: tuple[Table, ...]
    words: tuple[str, ...]  # of the tables' studies
    figure_3: tuple[str, ...]  # of its study


FULL = Size({"mushrooms": 10, "mnist": 10, "cifar10": 5}, 4, TABLES, (), ())
DIGITS = TABLES[1]._replace(title="the bundled digits", scales=(40.0,))
QUICK = Size({"mnist": 2}, 0, (DIGITS,), ("data.name=digits", "data.batch=20"), (
    "rounds=60", "study.seeds=2", "privacy.epsilon=inf,0.2", "problem.gradient_noise=0.1",
))  # fmt: skip


class Outcome(NamedTuple):
    """Of a run: accuracies in per cent, and F(T)/T by round, of one sample."""

    mean_train: float  # of the running mean of the decisions
    mean_test: float
    last_train: float
    last_test: float
    fitness: np.ndarray  # (T,)

    @classmethod
    def of(cls, run: FinishedRun) -> Outcome:
        marks = ("accuracy_train", "accuracy", "accuracy_train_last", "accuracy_last")
        return cls(*(100 * recorded(run.place, mark)[0, -1] for mark in marks), fitness(run, "loss"))


def fitness(run: FinishedRun, losses: str) -> np.ndarray:
    """(T,) Σ_{s ≤ t} loss(s)/t, of one sample; the losses of a round are a variable of the record."""
    (values,) = recorded(run.place, losses)
    owners = run.summary.agents if run.summary.decomposable else 1
    return np.asarray(np.cumsum(values) / np.arange(1, len(values) + 1) / (owners * run.keys["data.batch"]))


# ------------------------------------------------------------------------------------------------------------- figure 3
def figure_3(desk: Desk, size: Size) -> list[Verdict]:
    found: dict[tuple[str, float, Any], list[np.ndarray]] = {}
    for run in desk.study("dpsda-figure-3.toml", *size.figure_3):
        (horizons,) = recorded(run.place, "horizon")
        both = np.concatenate([recorded(run.place, n) for n in ("network_regret", "network_regret_average_iterate")])
        key = (run.keys["algorithm.name"], run.keys["problem.gradient_noise"], run.keys["privacy.epsilon"])
        found.setdefault(key, []).append(both / horizons)
    figure, axes = panels(2, 2)
    epsilons = list(dict.fromkeys(epsilon for _, _, epsilon in found))
    for k, (kind, algorithm) in enumerate((kind, a) for kind in (0, 1) for a in ALGORITHMS):
        for colour, epsilon in zip(COLOURS, epsilons, strict=False):
            values = np.array(found[algorithm, 0.1, epsilon])[:, kind]
            axes[k].fill_between(horizons, values.min(axis=0), values.max(axis=0), color=colour, alpha=0.15, lw=0)
            axes[k].plot(horizons, values.mean(axis=0), color=colour, label=f"ε = {epsilon}")
        axes[k].set(xscale="log", yscale="log", xlabel="T", title=algorithm, ylabel=("R(T)/T", "R̃(T)/T")[kind])
        axes[k].legend()
    ends = {key: np.array(values)[:, :, -1] for key, values in found.items()}  # (seeds, 2)
    for (algorithm, noise, epsilon), values in ends.items():
        (a, b), (c, d) = values.mean(axis=0), values.std(axis=0, ddof=1)
        print(
            f"Fig. 3, {algorithm}, ξ of variance {noise}, ε = {epsilon}: R/T {a:.3f} ({c:.3f}), R̃/T {b:.3f} ({d:.3f})"
        )
    told = [regrets(a, {e: np.array(found[a, 0.1, e]) for e in epsilons}) for a in ALGORITHMS]
    told += [readings(ends)] if any(noise != 0.1 for _, noise, _ in found) else []
    title = f"DPSDA, Fig. 3: online linear regression, c = 1, mean and range of {len(values)} seeds"
    desk.save(figure, "dpsda-figure-3.png", title, told)
    return told


def regrets(algorithm: str, by_epsilon: dict[Any, np.ndarray]) -> Verdict:
    """Of (seeds, 2, horizons) by ε."""
    means = {epsilon: values.mean(axis=0) for epsilon, values in by_epsilon.items()}
    half = {epsilon: values[:, values.shape[1] * 3 // 4] for epsilon, values in means.items()}
    falls = all(bool((values[:, -1] < half[epsilon]).all()) for epsilon, values in means.items())
    last = np.array([values[:, -1] for values in means.values()])  # (ε, 2)
    in_order = bool((np.diff(last, axis=0) > 0).all())
    return Verdict(
        PAPER, "Fig. 3", f"{algorithm}: R/T and R̃/T fall, and the more the larger ε", judged(falls and in_order),
        f"R/T {shown(last[:, 0])}; R̃/T {shown(last[:, 1])} at ε = {', '.join(map(str, means))}", "→ 0",
        seeds=len(next(iter(by_epsilon.values()))), because="c is not printed: 1 here",
    )  # fmt: skip


def readings(ends: Mapping[tuple[str, float, Any], np.ndarray]) -> Verdict:
    apart = {}
    for (algorithm, noise, epsilon), values in ends.items():
        if noise == 0.1:
            other = ends[algorithm, 0.01, epsilon]
            apart[algorithm, epsilon] = (values[:, 0].mean() - other[:, 0].mean()) / values[:, 0].std(ddof=1)
    most = max(map(abs, apart.values()))
    return Verdict(
        PAPER, "Fig. 3", "N(0, 0.1): whether variance or standard deviation matters little",
        judged(most < 1, REPRODUCED),
        f"R/T of the two readings at most {most:.2f} of a seed's standard deviations apart",
        seeds=len(next(iter(ends.values()))),
    )  # fmt: skip


# --------------------------------------------------------------------------------------------------------------- tables
By = dict[tuple[str, Any], list[Outcome]]  # by algorithm and ε, by seed


def by_setting(desk: Desk, table: Table, words: Sequence[str]) -> By:
    found: By = {}
    for run in desk.keyed(table.toml, *words):
        epsilon = run.keys["privacy.epsilon"]
        key = (run.keys["algorithm.name"], "inf" if np.isinf(epsilon) else epsilon)
        found.setdefault(key, []).append(Outcome.of(run))
    return found


def misses(found: By, table: Table) -> np.ndarray:
    """(algorithms, ε with noise, 2) how many standard deviations of a run the printed numbers are from our mean."""
    told = []
    for algorithm in ALGORITHMS:
        for k, epsilon in enumerate(EPSILONS[1:], 1):
            outcomes = found[algorithm, epsilon]
            for printed, name in ((table.train, "mean_train"), (table.test, "mean_test")):
                values = np.array([getattr(o, name) for o in outcomes])
                spread = max(values.std(ddof=1), 0.5) * np.sqrt(1 + 1 / len(values))
                told.append((printed[algorithm][k] - values.mean()) / spread)
    return np.array(told).reshape(len(ALGORITHMS), len(EPSILONS) - 1, 2)


def fitted(desk: Desk, table: Table, size: Size, folder: str) -> tuple[float, str]:
    """The c whose accuracies come nearest, of those tried, on seeds that nothing else is judged on."""
    if not size.fitted:
        return table.scales[0], "c was not fitted"
    seeds = [FIRST_TO_FIT + k for k in range(size.fitted)]
    worst, compatible = {}, []
    for scale in table.scales:
        words = [f"data.dir={folder}", f"privacy.scale={scale}", f"seed={','.join(map(str, seeds))}"]
        away = misses(by_setting(desk, table, [*words, "privacy.epsilon=1.0,0.5,0.2"]), table)
        worst[scale] = float(np.sqrt(np.mean(away**2)))
        compatible += [scale] if np.abs(away[:, :, 0]).max() <= NEAR else []
        print(f"{table.item}, c = {scale:g}: printed numbers {worst[scale]:.2f} standard deviations away (rms)")
    best = min(worst, key=worst.__getitem__)
    which = ", ".join(f"{scale:g}" for scale in compatible) or "none"
    said = f"c = {best:g} fitted on {len(seeds)} other seeds; within {NEAR:g} std of all training entries: {which}"
    largest = table.scales[-1]
    if largest in (best, *compatible):
        said += f" (c = {largest:g} is the largest that was tried: larger ones may be as near or nearer)"
    return best, said


def table_of(desk: Desk, table: Table, size: Size) -> list[Verdict]:
    folder = "" if desk.quick else str(desk.folder(table.data))
    scale, how = fitted(desk, table, size, folder)
    words = [*size.words] if desk.quick else [f"data.dir={folder}"]
    found = by_setting(desk, table, [*words, f"privacy.scale={scale}", f"study.seeds={size.seeds[table.data]}"])
    print(f"{table.item}, {table.title}, c = {scale:g}: accuracy in %, mean (std); the paper's, train and test")
    for algorithm in ALGORITHMS:
        for k, epsilon in enumerate(EPSILONS):
            print(f"  {algorithm}, ε = {epsilon}: {row(found[algorithm, epsilon])}; "
                  f"{table.train[algorithm][k]}, {table.test[algorithm][k]}")  # fmt: skip
    draw_fitness(desk, table, found, scale)
    told = [accuracies(table, algorithm, found, how) for algorithm in ALGORITHMS]
    return [*told, *(falling(table, algorithm, found) for algorithm in ALGORITHMS)]


def row(outcomes: list[Outcome]) -> str:
    values = {name: np.array([getattr(o, name) for o in outcomes]) for name in Outcome._fields[:-1]}
    told = [f"{name.replace('_', ' ')} {v.mean():.1f} ({v.std(ddof=1):.1f})" for name, v in values.items()]
    return ", ".join(told)


def accuracies(table: Table, algorithm: str, found: By, how: str) -> Verdict:
    values = {e: np.array([o[:2] for o in found[algorithm, e]]) for e in EPSILONS}  # (seeds, 2): train, test
    means = np.array([v.mean(axis=0) for v in values.values()])
    stds = np.array([v.std(axis=0, ddof=1) for v in values.values()])
    printed = np.array([table.train[algorithm], table.test[algorithm]]).T
    seeds = len(values["inf"])
    away = np.abs(printed - means) / (np.maximum(stds, 0.5) * np.sqrt(1 + 1 / seeds))
    in_order = bool((np.diff(means, axis=0) < 0).all())
    near = bool((away <= NEAR).all())
    outside = ", ".join(
        f"{('train', 'test')[j]} at ε = {EPSILONS[i]}" for i, j in np.argwhere(away > NEAR).tolist()
    )  # fmt: skip
    ours = "; ".join(f"{m[0]:.1f} ({s[0]:.1f}) / {m[1]:.1f} ({s[1]:.1f})" for m, s in zip(means, stds, strict=True))
    wide = (
        f"the std over seeds is up to {stds.max():.0f} points: a single number says little" if stds.max() > WIDE else ""
    )
    because = [how, f"outside {NEAR:g} std: {outside}" if outside else "", wide, table.limits]
    return Verdict(
        PAPER, table.item, f"{algorithm}: accuracy, train / test, at ε = ∞, 1, 0.5, 0.2",
        REPRODUCED if near and in_order else ORDER if in_order else NOT, ours,
        "; ".join(f"{a} / {b}" for a, b in printed),
        "; ".join(f"{a:+.1f} / {b:+.1f}" for a, b in means - printed), seeds,
        "; ".join(part for part in because if part),
    )  # fmt: skip


def falling(table: Table, algorithm: str, found: By) -> Verdict:
    """Fig. 5."""
    curves = {e: np.mean([o.fitness for o in found[algorithm, e]], axis=0) for e in EPSILONS}
    ends = [float(curve[-1]) for curve in curves.values()]
    stays = [name_of(e) for e, curve in curves.items() if curve[-1] >= curve[len(curve) // 4]]
    swapped = [(a, b) for a, b in pairwise(curves) if curves[a][-1] > curves[b][-1]]
    because = [f"from a quarter of the rounds on it does not fall at ε = {', '.join(stays)}"] if stays else []
    because += [f"at ε = {name_of(a)} it ends above that at ε = {name_of(b)}" for a, b in swapped]
    return Verdict(
        PAPER, "Fig. 5", f"{table.title}, {algorithm}: F(T)/T falls, and is less for larger ε",
        judged(not because),
        f"of a sample: {shown(ends)} at ε = {', '.join(map(str, EPSILONS))}; always deciding 0 has {np.log(2):.3f}",
        "→ 0", seeds=len(found[algorithm, "inf"]),
        because="; ".join(because),
    )  # fmt: skip


def name_of(epsilon: Any) -> str:
    return f"{epsilon}".replace("inf", "∞")


def draw_fitness(desk: Desk, table: Table, found: By, scale: float) -> None:
    figure, axes = panels(1, 2)
    for panel, algorithm in zip(axes, ALGORITHMS, strict=True):
        for colour, epsilon in zip(COLOURS, EPSILONS, strict=False):
            curves = np.array([o.fitness for o in found[algorithm, epsilon]])
            t = np.arange(1, curves.shape[1] + 1)
            panel.fill_between(t, curves.min(axis=0), curves.max(axis=0), color=colour, alpha=0.15, lw=0)
            panel.plot(t, curves.mean(axis=0), color=colour, label=f"ε = {epsilon}".replace("inf", "∞"))
        panel.axhline(np.log(2), color="black", lw=0.8, ls=":", label="always deciding 0")
        panel.set(xlabel="T", ylabel="F(T)/T, of a sample", title=algorithm, yscale="log")
        panel.legend()
    seeds = len(found["dpsda-c", "inf"])
    title = f"DPSDA, Fig. 5, {table.title}: c = {scale:g}, mean and range of {seeds} seeds"
    desk.save(figure, f"dpsda-figure-5-{table.data}.png", title)


# ------------------------------------------------------------------------------------------------------------- figure 7
RIVALS = {"dpsda-c": ("dpdola",), "dpsda-ps": ("dpps", "dpsr")}


def figure_7(desk: Desk) -> list[Verdict]:
    folder = desk.folder("cifar10")
    if folder is None:
        return [not_done(PAPER, "Fig. 7", "DPSDA outperforms DPDOLA, DPPS and DPSR")]
    ends: dict[tuple[str, float], list[float]] = {}
    curves: dict[tuple[str, float], list[np.ndarray]] = {}
    for run in desk.keyed("dpsda-figure-7.toml", f"data.dir={folder}", f'record.metrics=["{HERE / METRIC}"]'):
        key = (run.keys["name"].partition(".")[0], run.keys["step.initial"])
        curve = fitness(run, "agents_loss" if run.summary.decomposable else "loss")
        curves.setdefault(key, []).append(curve)
        ends.setdefault(key, []).append(float(curve[-1]))
    names, steps = (list(dict.fromkeys(key[k] for key in ends)) for k in (0, 1))
    print("Fig. 7: F(T)/T of a sample, mean (std) by step a:", ", ".join(f"{a:g}" for a in steps))
    for name in names:
        print(
            f"  {name}: "
            + ", ".join(f"{np.mean(ends[name, a]):.3g} ({np.std(ends[name, a], ddof=1):.2g})" for a in steps)
        )
    figure, axes = panels(1, 2, width=5.0)
    draw_rivals(axes, names, steps, curves, ends)
    told = [verdict for own in RIVALS for verdict in outperforming(own, steps, ends)]
    seeds = len(ends[names[0], steps[0]])
    desk.save(figure, "dpsda-figure-7.png", f"DPSDA, Fig. 7: CIFAR-10 (a subset), σ = 1, {seeds} seeds", told)
    return told


def draw_rivals(axes: Sequence[Axes], names: list[str], steps: list[float], curves: Any, ends: Any) -> None:
    for colour, name in zip([*COLOURS, "black"], names, strict=False):
        values = np.array([ends[name, a] for a in steps])
        axes[0].errorbar(
            steps, values.mean(axis=1), values.std(axis=1, ddof=1), color=colour, marker="o", ms=4, label=name
        )
        best = min(steps, key=lambda a: float(np.mean(ends[name, a])))
        curve = np.mean(curves[name, best], axis=0)
        axes[1].plot(np.arange(1, len(curve) + 1), curve, color=colour, label=f"{name}, a = {best:g}")
    for panel in axes:
        panel.axhline(np.log(2), color="black", lw=0.8, ls=":", label="always deciding 0")
        panel.set(yscale="log", ylabel="F(T)/T, of a sample")
    axes[1].legend(fontsize=7, loc="upper left", bbox_to_anchor=(1.01, 1))
    axes[0].set(xscale="log", xlabel="a, step a/√t", title="at the end")
    axes[1].set(xlabel="T", title="each with its best step of these")


def outperforming(own: str, steps: list[float], ends: Mapping[tuple[str, float], list[float]]) -> Iterator[Verdict]:
    """At the printed step, 1/√t for all, and each at its best."""
    for rival in RIVALS[own]:
        wins = [a for a in steps if np.mean(ends[own, a]) < np.mean(ends[rival, a])]
        best = {name: min(steps, key=lambda a, name=name: float(np.mean(ends[name, a]))) for name in (own, rival)}
        ours, theirs = (np.array(ends[name, best[name]]) for name in (own, rival))
        printed = tuple(np.array(ends[name, 1.0]) for name in (own, rival))
        yield Verdict(
            PAPER, "Fig. 7", f"{own} outperforms {rival}, steps 1/√t", apart(*less(*printed)),
            f"F(T)/T of a sample {printed[0].mean():.3g} against {printed[1].mean():.3g}, ± {less(*printed)[1]:.2g}",
            "lower", seeds=len(ours),
            because="a subset of CIFAR-10; the rivals' steps are not printed; always deciding 0 has 0.693",
        )  # fmt: skip
        yield Verdict(
            PAPER, "Fig. 7", f"{own} outperforms {rival}, each with its best step",
            apart(*less(ours, theirs)),
            f"{ours.mean():.3g} (a = {best[own]:g}) against {theirs.mean():.3g} (a = {best[rival]:g}), "
            f"± {less(ours, theirs)[1]:.2g}; "
            f"at equal steps it is lower {f'for a = {shown(wins)}' if wins else 'for none of them'}", "lower",
            seeds=len(ours),
            because="a subset of CIFAR-10; equal σ is not equal privacy; who is better depends on the step",
        )  # fmt: skip


def less(ours: np.ndarray, theirs: np.ndarray) -> tuple[float, float]:
    """By how much ours are lower in the mean, and the standard error of that."""
    error = np.hypot(ours.std(ddof=1), theirs.std(ddof=1)) / np.sqrt(len(ours))
    return float(theirs.mean() - ours.mean()), float(error)


def redraw(desk: Desk) -> list[Verdict]:
    size = QUICK if desk.quick else FULL
    told = figure_3(desk, size)
    for table in TABLES:
        small = next((t for t in size.tables if t.item == table.item), None)
        if small is None or not (desk.quick or desk.folder(table.data)):
            told.append(not_done(PAPER, table.item, f"accuracy on {table.title}"))
        else:
            told += table_of(desk, small, size)
    if not any(verdict.item == "Fig. 5" for verdict in told):
        told.append(not_done(PAPER, "Fig. 5", "average fitness"))
    return told + figure_7(desk)
