"""Regret against proven ε: several algorithms at the same proven loss of privacy, instead of at their papers' labels.

The papers' ε are not comparable: a round's or the whole run's, an agent's or the network's, true or not. Here every run
has a budget, `privacy.budget.epsilon`, for what is proven of the whole network at δ = 1e-5, and its noise is chosen to
keep it. 7 agents, 300 samples each, logistic loss + 0.05‖x‖²; a fixed random digraph, for DOLA an undirected one.
"""

from __future__ import annotations

import json

import numpy as np
from desk import COLOURS, ORDER, Desk, Verdict, panels

import mpinodes

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


def redraw(desk: Desk) -> list[Verdict]:
    budgets, repeats = ([4], 2) if desk.quick else (BUDGETS, 5)
    figure, (axes, labels) = panels(1, 2, width=5.0, height=4.0)
    variants = [(name, []) for name in ALGORITHMS] + [(name, extra) for name, extra in PUBLIC.items()]
    variants = variants[:2] if desk.quick else variants
    best: dict[float, tuple[float, str]] = {}
    furthest = 0.0
    for (name, extra), colour in zip(variants, COLOURS, strict=False):
        found, label = [], []
        title = f"{name}{', public' if extra else ''}"
        for epsilon in budgets:
            words = [f"algorithm.name={name}", *ALGORITHMS[name], *extra, f"privacy.budget.epsilon={epsilon}"]
            key = f"equal-{title.replace(', ', '-')}-{epsilon}"
            short = ["rounds=40", "data.total=280"] if desk.quick else []
            place = desk.made(key, "equal-epsilon.toml", *words, *short, f"repeats={repeats}")
            data = mpinodes.load(place)
            regret = data.network_regret.isel(horizon=-1) / (data.sizes["agent"] * int(data.horizon[-1]))
            proven = float(data.epsilon_proven_network.isel(horizon=-1).max())
            furthest = max(furthest, 1 - proven / epsilon)
            found.append((proven, float(regret.mean()), float(regret.min()), float(regret.max())))
            summary = json.loads((place / "summary.json").read_text())
            label.append(summary["privacy"]["noise"]["epsilon"])
            best[epsilon] = min(best.get(epsilon, (np.inf, "")), (found[-1][1], title))
        proven, mean, low, high = np.array(found).T
        axes.fill_between(proven, low, high, color=colour, alpha=0.15, lw=0)
        axes.plot(proven, mean, color=colour, marker="o", ms=3, label=title)
        labels.plot(proven, label, color=colour, marker="o", ms=3, label=title)
    axes.set(xscale="log", yscale="log", xlabel="proven ε of the network at δ = 1e-5", ylabel="R(T) / (nT)")
    labels.set(xscale="log", yscale="log", xlabel="proven ε of the network at δ = 1e-5", ylabel="the paper's label ε")
    axes.legend()
    labels.legend()
    who = "; ".join(f"ε = {epsilon:g}: {name} ({value:.3g})" for epsilon, (value, name) in best.items())
    told = [
        Verdict(
            "beyond", "Equal proven ε",
            "who regrets least per agent and round at the same proven ε of the network, δ = 1e-5",
            ORDER, who, seeds=repeats, because="the papers compare at labels ε, which are not comparable",
        )
    ]  # fmt: skip
    desk.save(
        figure,
        "equal-epsilon.png",
        "Regret at equal proven ε, mean and range over "
        f"{repeats} seeds; every run within {furthest:.1%} below its budget. Right: the label that buys it",
        told,
    )
    return told
