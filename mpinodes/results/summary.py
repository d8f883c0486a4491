"""The end of a run in words."""

from __future__ import annotations

import textwrap
from math import isfinite
from pathlib import Path
from typing import Any

Json = dict[str, Any]

BY_LABEL = "Who owns which sample depends on the labels here, and is taken to be public."
NOT_REPRODUCIBLE = "Not reproducible: no seed gives this noise again."
LARGE_DELTA = 0.1  # per sample
BOUNDED = {
    "network_regret": "network's regret",
    "network_regret_average_iterate": "running average's regret",
    "agent_regret": "worst agent's regret",
    "decision_error": "mean decision's error",
    "agent_decision_error": "worst agent's error",
    "optimality_gap": "worst agent's gap",
}


def text(summary: Json, directory: Path) -> str:
    """What a person wants to read when a run is over."""
    s = summary
    lines = [
        f"{s['name']}: {s['algorithm']} on {s['data']}{partition(s)}",
        f"  {s['agents']} agent{'s' * (s['agents'] != 1)}, {graph(s)}, {rounds(s)}, d = {s['dimension']}, "
        f"{seeds(s)}: {s['seconds']:.2f} s, {s['rounds_per_second']:.3g} rounds/s",
        "",
        *(f"  {label:32}{value}" for label, value in results(s, why=False)),
        "",
        *_privacy(s["privacy"]),
        *([] if s["partition"] != "by-label" else [f"    {BY_LABEL}"]),
        "",
        *([] if s["reproducible"] else [f"  {NOT_REPRODUCIBLE}"]),
        f"  run: {directory}",
    ]
    return "\n".join(lines)


def seeds(s: Json) -> str:
    """The seed, or those of the repeats."""
    return f"seeds {s['seeds'][0]} to {s['seeds'][-1]}" if "seeds" in s else f"seed {s['seed']}"


def rounds(s: Json) -> str:
    """How many there were, and whether they ended before their time."""
    early = f" (of {s['rounds_asked']}: all agents had settled)" if s["rounds"] < s["rounds_asked"] else ""
    return f"{s['rounds']} rounds{early}"


def partition(s: Json) -> str:
    """How the samples are dealt out, where they are."""
    return "" if s["partition"] == "shared" else f", {s['partition']} shares"


def results(s: Json, why: bool) -> list[tuple[str, str]]:
    """What the run was worth: labels and values with their remarks, and why a bound does not apply."""
    n, t = s["agents"], s["rounds"]
    unit, per = (t * n, "/(nT)") if s["decomposable"] else (t, "/T")
    least, spread = s["comparator"], s.get("spread", {})

    def regret(value: float) -> str:
        if abs(value) <= least["certificate"]:
            return f"{'0':>10}    (below the comparator's certificate)"
        return f"{value / unit:10.4g}"

    def over(key: str, scale: float) -> str:
        return f" ± {spread[key]['std'] / scale:.2g}" if key in spread else ""

    rows = [
        *_accuracy(s),
        (f"average fitness F(T){per}", f"{s['average_fitness'] * t / unit:10.4g}{over('average_fitness', unit / t)}"),
        ("norm of the last decision", f"{s['decision_norm']:10.4g}{over('decision_norm', 1)}"),
        (
            f"network regret R(T){per}",
            f"{regret(s['network_regret'])}{over('network_regret', unit)}    (running average "
            f"{s['network_regret_average_iterate'] / unit:.4g}; agents {min(s['agent_regret']) / unit:.4g} to "
            f"{max(s['agent_regret']) / unit:.4g})",
        ),
    ]
    if s["dynamic_regret"] is not None:
        rows.append((f"dynamic regret R(T){per}", f"{regret(s['dynamic_regret'])}{over('dynamic_regret', unit)}"))
    if s["optimality_gap"] is not None:
        gap = s["optimality_gap"]
        shown = f"{sum(gap) / n:10.4g}{over('optimality_gap', 1)}    (agents {min(gap):.4g} to {max(gap):.4g})"
        rows.append((f"gap of the {s['judged']} decision", shown))
        error = f"{s['decision_error']:10.4g}{over('decision_error', 1)}"
        rows.append((f"error of the mean {s['judged']} decision", f"{error}    (its squared distance to the best)"))
    if s["training_loss"] is not None:
        rows.insert(0, ("training loss L(T)", f"{s['training_loss']:10.4g}{over('training_loss', 1)}"))
    value = f"{least['value'] / unit:10.4g}    (within {least['certificate'] / unit:.1g})"
    return [*rows, (f"best fixed decision, Σf{per}", value), *_bounds(s, why), *_solver(s["solver"])]


def _solver(solver: Json | None) -> list[tuple[str, str]]:
    """How the agents' local solves went."""
    if solver is None:
        return []
    reached = f"to gradients of norm {solver['largest_residual']:.1g}"
    shown = f"{solver['steps']:10.3g}    at most {solver['most_steps']}, {reached}"
    failed = f"; {solver['unsolved']} short of the tolerance {solver['tolerance']:g}" if solver["unsolved"] else ""
    return [("steps of a local solve", shown + failed)]


def _bounds(s: Json, why: bool) -> list[tuple[str, str]]:
    """Each bound as a multiple of what it bounds."""
    rows = []
    for bound in s["bounds"]:
        if bound["value"] is None or not isfinite(bound["value"]):
            shown = f"{'inf':>10}    no bound on"
        elif bound["measured"] > 0:
            shown = f"{bound['value'] / bound['measured']:10.3g}    times"
        else:
            shown = f"{bound['value']:10.3g}    where 0 or less was measured:"
        rest = "" if bound["applies"] else f"; does not apply{': ' + bound['why_not'] if why else ''}"
        rows.append((bound["name"], f"{shown} the {BOUNDED[bound['of']]}{rest}"))
    return rows


def _accuracy(s: Json) -> list[tuple[str, str]]:
    rows = []
    labels = (("accuracy", "accuracy, running mean"), ("accuracy_last_decision", "accuracy, last decision"))
    for key, label in labels if s["accuracy"] else ():
        found, spread = s[key], s.get("spread", {}).get(key, {})
        name, words = ("test", "test data") if "test" in found else ("train", "training data")
        shown = f"{found[name]:10.1%}" + (f" ± {spread[name]['std']:.1%}" if name in spread else "")
        also = f" ({found['train']:.1%} on training data)" if name == "test" else ""
        rows.append((label, f"{shown}    on {words}{also}"))
    return rows


def number(epsilon: float | None, none: str = "unproven") -> str:
    """An ε for people."""
    if epsilon is None:
        return none
    return f"{epsilon:.0f}" if epsilon >= 1000 else f"{epsilon:.4g}"


def worst(agents: list[Json]) -> Json:
    """What the agents lose at most, as proven (unproven before all) and as claimed."""
    worst = max(agents, key=lambda a: float("inf") if a["proven"] is None else a["proven"])
    return worst | {"claimed": max((a["claimed"] for a in agents), key=lambda claim: claim or 0.0)}


def _privacy(privacy: Json) -> list[str]:
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
    return [*lines, *textwrap.wrap(" ".join(remarks(privacy)), 100, initial_indent="    ", subsequent_indent="    ")]


def remarks(privacy: Json) -> list[str]:
    """On a run with noise, in whole sentences."""
    return [what_noise_buys(privacy["noise"]), what_draws_it(privacy["noise"]), *provisos(privacy)]


def _budget(privacy: Json) -> str:
    """How a budget was kept."""
    budget = privacy["budget"]
    text = f"The budget is ε = {budget['epsilon']:g} at δ = {budget['delta']:g}, kept by "
    if budget["kept_by"] == "noise":
        return f"{text}the noise of the label ε = {privacy['noise']['epsilon']:.4g}."
    stops = [stop for stop in budget["stops"] if stop]
    if not stops:
        return f"{text}stopping, which no agent had to."
    first, last = min(stops), max(stops)
    when = f"round {first}" if first == last else f"rounds {first} to {last}"
    who = "the agents" if len(stops) == len(budget["stops"]) else f"{len(stops)} agents"
    return f"{text}stopping: after {when} {who} relay what they hear, and tell nothing of their data."


def provisos(privacy: Json) -> list[str]:
    """What the proven numbers rest on, in whole sentences."""
    found = [_budget(privacy)] if privacy["budget"] else []
    if privacy["unproven_because"]:
        found.append(f"Nothing is proven: {privacy['unproven_because']}.")
    slip = max(loss.get("slip", 0.0) for loss in privacy["agents"])
    if slip:
        enough = "" if privacy["network"]["proven"] is not None else ", too much: nothing is proven"
        found.append(f"Rounding to a grid covers what the local solvers leave, for {slip:.2g} of δ{enough}.")
    elif privacy["exact_minimizers"] and privacy["network"]["proven"] is not None:
        found.append("What is proven is proven of exact minimizers: the local solvers come as near as said above.")
    samples, delta = privacy["samples"], privacy["delta"]
    if samples and delta * samples > LARGE_DELTA:
        found.append(
            f"δ = {delta:g} is not well below 1/{samples}, one over the number of samples: at such a δ even to publish "
            "a sample now and then counts as private."
        )
    return found


def what_noise_buys(noise: Json) -> str:
    """The scale used beside the scale that the label needs, in whole sentences."""
    used, least, needed, release = noise["scale"], noise["least_scale"], noise["calibrated_scale"], noise["release"]
    text = f"Noise of scale {used:.4g}" if used == least else f"Noise of scale {used:.4g} down to {least:.4g}"
    if noise["mechanism"] == "gaussian":
        return f"{text} (standard deviation)."
    if needed is None and noise["mechanism"] != "gamma-norm":
        return f"{text}; gradients are not clipped, so no sensitivity bounds what it hides."
    really = "has no noise for some data" if release is None else f"is really {release:.3g}-DP"
    if noise["calibrated"]:
        if noise["mechanism"] == "gamma-norm":
            if release is None:
                return f"{text}, the inverse of the noise rate."
            return f"{text}, the inverse of the noise rate: a release of an agent {really}."
        if release is not None and release <= noise["epsilon"] * (1 + 1e-9):
            return f"{text}, calibrated: no release of an agent costs more than ε = {release:.4g}."
        return f"{text}, calibrated as the paper prints it: a release of an agent {really}."
    return (
        f"{text}; the label ε = {noise['epsilon']:g} a round needs {needed:.4g}, "
        f"{needed / used:.3g} times as much: a release of an agent {really}."
        f"{' ' if noise['remark'] else ''}{noise['remark']}"
    )


def what_draws_it(noise: Json) -> str:
    """Where the noise's numbers come from, in a sentence."""
    source = " from the system's entropy" if noise["entropy"] == "os" else ""
    if noise["backend"] == "opendp":
        return "Drawn by OpenDP."
    if noise["backend"] == "lattice":
        moved = f"it moves by up to {noise['grain']:.2g} scales more, in L1, which is accounted for"
        return f"Drawn{source} on a lattice that the release is rounded to: {moved}."
    return f"Drawn by NumPy{source}, in floating point: its low bits tell more than is proven."


def graph(s: Json) -> str:
    """The topology and how often it is connected."""
    b = s["connectivity"]
    return f"{s['topology']} (connected {'in every round' if b == 1 else f'over any {b} rounds'})"
