"""Regret against proven ε: several algorithms at the same proven loss of privacy, instead of at their papers' labels.

The papers' ε are not comparable: a round's or the whole run's, an agent's or the network's, true or not. Here every run
has a budget, `privacy.budget.epsilon`, for what is proven of the whole network at δ = 1e-5, and its noise is chosen to
keep it, for each seed by itself. 7 agents, 300 samples each, logistic loss + 0.05‖x‖²; a fixed random digraph, for DOLA
an undirected one.
"""

from __future__ import annotations

import numpy as np
from desk import CLEAR, COLOURS, FOUND, Desk, Verdict, panels
from matplotlib.axes import Axes

ALGORITHMS = {
    "dola": ["problem.set=ball", "problem.radius=5", "topology.name=erdos-renyi", "step.kind=strongly-convex"],
    "dpps": ["problem.set=ball", "problem.radius=5", "step.kind=inverse-sqrt"],
    "dpsr": ["problem.set=ball", "problem.radius=5", "step.kind=strongly-convex"],
    "weight-balancing": ["problem.set=none", "step.kind=strongly-convex", "step.offset=1"],
}
PUBLIC = {"weight-balancing": ["algorithm.gradient_at=public", "algorithm.noise_index=corrected"]}
BUDGETS = [0.25, 0.5, 1, 2, 4, 8, 16]

NEEDS: tuple[str, ...] = ()
SETTINGS = ("equal-epsilon.toml",)


Runs = list[tuple[float, float, float]]  # of each seed: proven ε, regret per agent and round, the paper's label


def runs(desk: Desk, title: str, words: list[str], budgets: list[float], seeds: int) -> dict[float, Runs]:
    """By budget; each seed has graphs of its own and so, for one budget, a label of its own."""
    axes = [f"privacy.budget.epsilon={','.join(map(str, budgets))}", f"study.seeds={seeds}"]
    short = ["rounds=40", "data.total=280"] if desk.quick else []
    found: dict[float, Runs] = {epsilon: [] for epsilon in budgets}
    for run in desk.study("equal-epsilon.toml", *words, *axes, *short, key=f"-{title.replace(', ', '-')}"):
        regret = run.summary.value("network_regret_per_round") / run.summary.agents
        privacy = run.summary.privacy
        found[run.keys["privacy.budget.epsilon"]].append((privacy.network.proven, regret, privacy.noise.epsilon))
    return found


def draw(regrets: Axes, labels: Axes, by_budget: dict[float, Runs], colour: str, title: str) -> None:
    values = np.array(list(by_budget.values()))  # (budgets, seeds, 3)
    for axes, y in ((regrets, values[:, :, 1]), (labels, values[:, :, 2])):
        proven = values[:, :, 0].mean(axis=1)
        axes.fill_between(proven, y.min(axis=1), y.max(axis=1), color=colour, alpha=0.15, lw=0)
        axes.plot(proven, y.mean(axis=1), color=colour, marker="o", ms=3, label=title)


def told_of(found: dict[str, dict[float, Runs]], seeds: int) -> Verdict:
    """Who has the least mean at each budget, and by how many standard errors of the difference from the next."""
    said = []
    for epsilon in next(iter(found.values())):
        regrets = {name: np.array(runs[epsilon])[:, 1] for name, runs in found.items()}
        first, second = sorted(regrets, key=lambda name: float(regrets[name].mean()))[:2]
        less = regrets[second] - regrets[first]
        error = less.std(ddof=1) / np.sqrt(seeds)
        apart = "" if less.mean() > CLEAR * error else f", not told apart from {second}"
        said.append(f"ε = {epsilon:g}: {first} ({regrets[first].mean():.3g}{apart})")
    return Verdict(
        "beyond", "Equal proven ε",
        "who regrets least per agent and round at the same proven ε of the network, δ = 1e-5",
        FOUND, "; ".join(said), seeds=seeds,
        because=f"the papers compare at labels ε, which are not comparable; apart: by {CLEAR:g} standard errors of the "
        "difference",
    )  # fmt: skip


def redraw(desk: Desk) -> list[Verdict]:
    budgets, seeds = ([4], 2) if desk.quick else (BUDGETS, 5)
    figure, (axes, labels) = panels(1, 2, width=5.0, height=4.0)
    variants = [(name, []) for name in ALGORITHMS] + [(name, extra) for name, extra in PUBLIC.items()]
    found: dict[str, dict[float, Runs]] = {}
    for (name, extra), colour in zip(variants[: 2 if desk.quick else None], COLOURS, strict=False):
        title = f"{name}{', public' if extra else ''}"
        words = [f"algorithm.name={name}", *ALGORITHMS[name], *extra]
        found[title] = runs(desk, title, words, budgets, seeds)
        draw(axes, labels, found[title], colour, title)
    for panel, what in ((axes, "R(T) / (nT)"), (labels, "the paper's label ε")):
        panel.set(xscale="log", yscale="log", xlabel="proven ε of the network at δ = 1e-5", ylabel=what)
        panel.legend()
    print("proven ε over the budget, least and most of the seeds; the label, least and most; R(T)/(nT), mean:")
    for title, by_budget in found.items():
        for epsilon, each in by_budget.items():
            proven, regret, label = np.array(each).T
            print(
                f"  {title}, ε = {epsilon:g}: {min(proven) / epsilon:.4f} {max(proven) / epsilon:.4f}; "
                f"{min(label):.3g} {max(label):.3g}; {regret.mean():.3g}"
            )
    shares = [run[0] / epsilon for each in found.values() for epsilon, of in each.items() for run in of]
    print(f"all {len(shares)} runs: proven ε is {min(shares):.4f} to {max(shares):.4f} of the budget")
    told = [told_of(found, seeds)]
    title = (
        f"Regret at equal proven ε, mean and range of {seeds} seeds; proven is {min(shares):.2%} to {max(shares):.2%} "
        f"of the budget in all {len(shares)} runs. Right: the label that buys it"
    )
    desk.save(figure, "equal-epsilon.png", title, told)
    return told
