"""The end of a run in words."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

Json = dict[str, Any]


def text(summary: Json, directory: Path) -> str:
    """What a person wants to read when a run is over."""
    s = summary
    t = s["rounds"]
    lines = [
        f"{s['name']}: {s['algorithm']} on {s['data']}",
        f"  {s['agents']} agent{'s' * (s['agents'] != 1)}, {graph(s)}, {t} rounds, d = {s['dimension']}, "
        f"seed {s['seed']}: "
        f"{s['seconds']:.2f} s, {s['rounds_per_second']:.0f} rounds/s",
        "",
        *_accuracy(s),
        f"  average fitness F(T)/T        {s['average_fitness']:10.4g}",
        f"  norm of the last decision     {s['decision_norm']:10.4g}",
        f"  network regret R(T)/T         {s['network_regret'] / t:10.4g}    "
        f"(running average {s['network_regret_average_iterate'] / t:.4g}; "
        f"agents {min(s['agent_regret']) / t:.4g} to {max(s['agent_regret']) / t:.4g})",
        f"  best fixed decision, Σf/T     {s['comparator']['value'] / t:10.4g}    "
        f"(within {s['comparator']['certificate'] / t:.1g})",
        "",
        *_privacy(s["privacy"], t),
        "",
        f"  run: {directory}",
    ]
    return "\n".join(lines)


def _accuracy(s: Json) -> list[str]:
    if not s["accuracy"]:
        return []
    mean, last = s["accuracy"], s["accuracy_last_decision"]
    return [
        f"  accuracy, running mean        {mean['test']:10.1%}    on test data ({mean['train']:.1%} on training data)",
        f"  accuracy, last decision       {last['test']:10.1%}    on test data ({last['train']:.1%} on training data)",
    ]


def number(epsilon: float | None, none: str = "unproven") -> str:
    """An ε for people."""
    if epsilon is None:
        return none
    return f"{epsilon:.0f}" if epsilon >= 1000 else f"{epsilon:.4g}"


def worst(agents: list[Json]) -> Json:
    """The agent that loses most, unproven before all."""
    return max(agents, key=lambda a: float("inf") if a["proven"] is None else a["proven"])


def _privacy(privacy: Json, rounds: int) -> list[str]:
    noise = privacy["noise"]
    if noise is None:
        return ["  privacy: none, messages carry no noise"]
    rows = [("worst agent's share", worst(privacy["agents"])), ("network", privacy["network"])]
    lines = [
        f"  {'privacy loss, ε':28} {'claimed':>10} {'proven pure':>12} {'proven at δ':>12}",
        *(
            f"    {who:26} {number(p['claimed'], 'none'):>10} {number(p['proven_pure']):>12} {number(p['proven']):>12}"
            f"   {'' if p['rule'] == 'unproven' else 'by ' + p['rule']}"
            for who, p in rows
        ),
        f"    δ = {privacy['delta']:g}; claimed: the paper's, for the label ε = {noise['epsilon']:g}; "
        "proven: against who reads every link",
    ]
    return [*lines, *textwrap.wrap(what_noise_buys(noise), 100, initial_indent="    ", subsequent_indent="    ")]


def what_noise_buys(noise: Json) -> str:
    """The scale used beside the scale that the label needs, in whole sentences."""
    used, least, needed, release = noise["scale"], noise["least_scale"], noise["calibrated_scale"], noise["release"]
    text = f"Noise of scale {used:.4g}" if used == least else f"Noise of scale {used:.4g} down to {least:.4g}"
    if needed is None:
        return f"{text}; gradients are not clipped, so no sensitivity bounds what it hides."
    really = "has no noise for some data" if release is None else f"is really {release:.3g}-DP"
    if noise["calibrated"]:
        if release is not None and release <= noise["epsilon"] * (1 + 1e-9):
            return f"{text}, calibrated: each release of an agent is {noise['epsilon']:g}-DP."
        return f"{text}, calibrated as the paper prints it: a release of an agent {really}."
    return (
        f"{text}; the label ε = {noise['epsilon']:g} a round needs {needed:.4g}, "
        f"{needed / used:.3g} times as much: a release of an agent {really}."
        f"{' ' if noise['remark'] else ''}{noise['remark']}"
    )


def graph(s: Json) -> str:
    """The topology and how often it is connected."""
    b = s["connectivity"]
    return f"{s['topology']} (connected {'in every round' if b == 1 else f'over any {b} rounds'})"
