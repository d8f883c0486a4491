"""What a run cost in privacy, in words."""

from __future__ import annotations

import textwrap
from typing import Any

from mpinodes.config.own_files import condition

Json = dict[str, Any]

LARGE_DELTA = 0.1  # per sample
KEYS = {
    "rehearsal": "rehearsal: the noise can be redrawn from the seed; proven for a secret key used once",
    "secret": "secret key: used once and stored nowhere",
    "unknown": "whether the noise depends on its key is not known: several keys drew the same, or could not be tried",
}
CEILING = (
    "What messages hide is priced at the most that it can ever move later ones, which may be far more than it does: "
    "no finite smoothness of the losses is known, or there is too much to follow it step by step."
)
SOLVERS = "That they come within their tolerance on adjacent data too is assumed."
DIFFERENCE = {
    "one-sample": "one sample",
    "one-round": "one round's whole loss",
    "one-agent": "all samples of one agent, in every round",
}


def number(epsilon: float | None, none: str = "unproven") -> str:
    """An ε for people."""
    if epsilon is None:
        return none
    return f"{epsilon:.0f}" if 1000 <= epsilon < 1e9 else f"{epsilon:.4g}"


def worst(agents: list[Json]) -> Json:
    """Return the largest of each number over the agents; unproven is larger than any."""

    def largest(key: str) -> float | None:
        values = [agent[key] for agent in agents]
        return None if None in values else max(values)

    worst = max(agents, key=lambda a: float("inf") if a["proven"] is None else a["proven"])
    claimed = max((a["claimed"] for a in agents), key=lambda claim: claim or 0.0)
    return worst | {"claimed": claimed, "proven_pure": largest("proven_pure")}


def lines(privacy: Json, checked: list[Json] | None) -> list[str]:
    """For the terminal; `checked`: the files of the user's that it rests on."""
    noise = privacy["noise"]
    if noise is None:
        return ["  privacy: none, messages carry no noise"]
    rows = [("worst agent's share", worst(privacy["agents"])), ("network", privacy["network"])]
    if together := privacy.get("together"):
        rows = [
            *((f"{who}, each run", loss) for who, loss in rows),
            *((f"{who}, all {together['runs']} together", loss) for who, loss in of_all(together)),
        ]
    width = max(26, *(len(who) for who, _ in rows))
    covers = f" in rounds 1 to {privacy['recorded']}, those recorded" if privacy.get("recorded") else ""
    found = [
        f"  {'privacy loss, ε':{width + 2}} {'claimed':>10} {'proven pure':>12} {'proven at δ':>12}",
        *(
            f"    {who:{width}} {number(p['claimed'], 'none'):>10} {number(p['proven_pure']):>12} "
            f"{number(p['proven']):>12}   {by(p['rule'], checked)}"
            for who, p in rows
        ),
        f"    δ = {privacy['delta']:g}; {claimed_for(privacy)}proven: against who reads every link{covers}",
        f"    {KEYS[privacy['key']]}",
        f"    adjacent data differ in {DIFFERENCE[privacy['adjacency']]}",
    ]
    return [*found, *textwrap.wrap(" ".join(_remarks(privacy)), 100, initial_indent="    ", subsequent_indent="    ")]


def claimed_for(privacy: Json) -> str:
    """Whose claim it is; empty where nothing is claimed, for the noise then need not go by the label."""
    if privacy["network"]["claimed"] is None:
        return ""
    return f"claimed: the paper's, for the label ε = {privacy['noise']['epsilon']:g}; "


def of_all(together: Json) -> list[tuple[str, Json]]:
    """What all runs lose together, by whom; no paper claims anything of that."""
    nothing = {"claimed": None}
    agents = [nothing | agent for agent in together["agents"]]
    return [*([("worst agent's share", worst(agents))] if agents else []), ("network", nothing | together["network"])]


def by(rule: str, checked: list[Json] | None) -> str:
    """What a proven number rests on: the rule of composition, and statements of the user's own."""
    if rule == "unproven":
        return ""
    rests = condition(checked)
    return f"by {rule}{', ' if rests else ''}{rests}"


def remarks(privacy: Json) -> list[str]:
    """On a run with noise, in whole sentences."""
    return [f"{KEYS[privacy['key']]}.".capitalize(), *_remarks(privacy)]


def _remarks(privacy: Json) -> list[str]:
    views = privacy.get("views")
    seen = [toward_nodes(views, privacy["delta"])] if views and max(views["distance"], default=-1) >= 0 else []
    return [what_noise_buys(privacy["noise"]), what_draws_it(privacy["noise"]), *seen, *provisos(privacy)]


def toward_nodes(views: Json, delta: float) -> str:
    """What a single node learns of another, in a sentence."""
    far = [(at, most) for at, most in zip(views["distance"], views["largest"], strict=True) if at >= 0]
    (near, first), (last, least) = far[0], far[-1]
    text = f"Toward one node that colludes with none, ε at δ = {delta:g} is at most {number(first)} at distance {near}"
    rest = f" and {number(least)} at distance {last}" if last > near else ""
    return f"{text}{rest}: from round {views['relayed_from']} on all that is said are mixes of what was said then."


def _budget(privacy: Json) -> str:
    """How a budget was kept."""
    budget = privacy["budget"]
    of = ""
    if together := privacy.get("together"):
        of = f" for {'all' if budget['covers'] == 'all' else 'each of the'} {together['runs']} runs"
        of += " together" if budget["covers"] == "all" else ", not for all together"
    text = f"The budget is ε = {budget['epsilon']:g} at δ = {budget['delta']:g}{of}, kept by "
    if budget["kept_by"] == "noise":
        return f"{text}the noise of the label ε = {privacy['noise']['epsilon']:.4g}."
    stops = [stop for stop in budget["stops"] if stop]
    if not stops:
        return f"{text}stopping, which no agent had to."
    first, last = min(stops), max(stops)
    when = f"round {first}" if first == last else f"rounds {first} to {last}"
    who = "the agents" if len(stops) == len(budget["stops"]) else f"{len(stops)} agents"
    return f"{text}stopping: after {when} {who} relay what they hear, and tell nothing of their data."


ADDED = {
    "sample": "sample by sample",
    "round": "round by round",
    "agent": "agent by agent",
    "maxima": "by each run's worst, since nothing says which sample of one is which of another",
}


def _together(together: Json) -> str:
    """What publishing all runs on the same data means."""
    text = f"All {together['runs']} runs are on the same data: who sees them all learns what they lose together"
    if together["network"]["proven"] is not None:
        return f"{text}, added up {ADDED.get(together['by'], together['by'])}."
    because = together["unproven_because"]
    return f"{text}, of which nothing is proven{': ' if because else ''}{because}."


def provisos(privacy: Json) -> list[str]:
    """What the proven numbers rest on, in whole sentences."""
    found = [_budget(privacy)] if privacy["budget"] else []
    if recorded := privacy.get("recorded"):
        found.append(
            f"All numbers cover rounds 1 to {recorded} alone, which are recorded: the run was ended before its time, "
            "and what was sent in later rounds costs privacy too."
        )
    if others := privacy["shares_noise_with"]:
        more = f" and {len(others) - 1} more" if len(others) > 1 else ""
        found.append(
            f"WARNING: {others[0]}{more} beside it has the same noise, on data that are other or may be: who reads "
            "the messages of both knows what either hides; take another seed."
        )
    if together := privacy.get("together"):
        found.append(_together(together))
    if privacy.get("views_left_out"):
        found.append("What single nodes learn is not worked out for so many agents: the bound for all links stands.")
    if (key := (privacy["noise"] or {}).get("key")) is not None:
        found.append(f"All runs of this seed with noise.key = {key!r} share its noise: together they hide nothing.")
    if privacy["unproven_because"]:
        found.append(f"Nothing is proven: {privacy['unproven_because']}.")
    elif privacy.get("public"):
        found.append(privacy["public"])
    if privacy.get("uses_ceiling") and privacy["network"]["proven"] is not None:
        found.append(CEILING)
    spent = max(loss.get("delta_spent", 0.0) for loss in privacy["agents"])
    if spent:
        enough = "" if privacy["network"]["proven"] is not None else ", too much: nothing is proven"
        found.append(f"Rounding to a grid covers what the local solvers leave, for {spent:.2g} of δ{enough}.")
        if not enough:
            found.append(SOLVERS)
    elif privacy["exact_minimizers"] and privacy["network"]["proven"] is not None:
        found.append("What is proven is proven of exact minimizers: the local solvers come as near as said above.")
        found.append(SOLVERS)
    if privacy["against_colluders"]:
        found.append(
            "Each agent's bound holds, in exact arithmetic, against all other agents together too, whatever they send, "
            "where its noise is unknown to them and nothing but messages gets out."
        )
    samples, delta = privacy["samples"], privacy["delta"]
    if samples and delta * samples > LARGE_DELTA:
        one = "agent" if privacy["adjacency"] == "one-agent" else "sample"
        found.append(
            f"δ = {delta:g} is not well below 1/{samples}, one over the number of {one}s: at such a δ even to publish "
            + (
                "all that an agent has now and then counts as private."
                if one == "agent"
                else "a sample now and then counts as private."
            )
        )
    return found


def what_noise_buys(noise: Json) -> str:
    """The scale used beside the scale that the label needs, in whole sentences."""
    used, least, needed, release = noise["scale"], noise["least_scale"], noise["calibrated_scale"], noise["release"]
    if used == 0:
        return "No message carried noise."
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
        moved = f"it moves by up to {noise['rounding']:.2g} scales more, in L1, which is accounted for"
        return f"Drawn{source} on a lattice that the release is rounded to: {moved}."
    return f"Drawn by NumPy{source}, in floating point: its low bits tell more than is proven."
