"""The end of a run in words: every number printed stands in summary.json, most under the key that labels it."""

from __future__ import annotations

from math import inf, isfinite
from pathlib import Path
from typing import Any, NamedTuple

from mpinodes.evaluation import feedback
from mpinodes.evaluation import message_faults as faults
from mpinodes.presentation import run_warnings
from mpinodes.presentation.privacy_words import lines
from mpinodes.runlog.warning import warn
from mpinodes.summary.timing import in_words

Json = dict[str, Any]

NOT_REPRODUCIBLE = "Not reproducible: no seed gives this noise again."
BOUNDED = {
    "network_regret": "network's regret",
    "network_regret_average_iterate": "running average's regret",
    "agent_regret": "worst agent's regret",
    "decision_error": "mean decision's error",
    "agent_decision_error": "worst agent's error",
    "optimality_gap": "worst agent's gap",
}
JUDGED = ("optimality_gap", "decision_error", "agent_decision_error")  # by what an offline method is


def text(summary: Json, directory: Path) -> str:
    """Return what a person wants to read when a run is over, or where to read it if putting it into words fails."""
    try:
        return _text(summary, directory)
    except Exception as error:
        warn(directory, "the results cannot be put into words", error)
        return f"  run: {directory}"


def _text(s: Json, directory: Path) -> str:
    found = [
        f"{s['name']}: {s['algorithm']} on {s['data']}{partition(s)}",
        f"  {s['agents']} agent{'s' * (s['agents'] != 1)}, {graph(s)}, {rounds(s)}, d = {s['dimension']}, "
        f"{seeds(s)}: {s['seconds']:.2f} s, {s['rounds_per_second']:.3g} rounds/s",
        *([f"  {faults.in_words(s['faults'])}"] if s.get("faults") else []),
        *([f"  {feedback.in_words(s['feedback'])}"] if s.get("feedback") else []),
        f"  {in_words(s['timing'])}",
        "",
        *(f"  {row.label:42}{row.value}" for row in results(s, why=False)),
        *(f"  WARNING: {said}" for said in run_warnings.sentences(s)),
        "",
        *lines(s["privacy"], s.get("checked")),
        "",
        *([] if s["reproducible"] else [f"  {NOT_REPRODUCIBLE}"]),
        f"  run: {directory}",
    ]
    return "\n".join(found)


def seeds(s: Json) -> str:
    """The seed, or those of the repeats."""
    return f"seeds {s['seeds'][0]} to {s['seeds'][-1]}" if "seeds" in s else f"seed {s['seed']}"


def rounds(s: Json) -> str:
    """How many there were, and whether they ended before their time."""
    why = "ended before their time" if s.get("partial") else "all agents had settled"
    early = f" (of {s['rounds_asked']}: {why})" if s["rounds"] < s["rounds_asked"] else ""
    return f"{s['rounds']} rounds{early}"


def partition(s: Json) -> str:
    """How the samples are dealt out, where they are."""
    return "" if s["partition"] == "shared" else f", {s['partition']} shares"


class Row(NamedTuple):
    """A result.

    Attributes:
        label: what it is.
        value: it, with its spread and remarks.
        key: where it stands in summary.json.
    """

    label: str
    value: str
    key: str


def results(s: Json, why: bool) -> list[Row]:
    """What the run was worth, and why a bound does not apply."""
    return [*measured(s), *(_bound(s, bound, k, why) for k, bound in enumerate(s["bounds"]))]


def measured(s: Json) -> list[Row]:
    """What the run was worth, and what it took to solve."""
    rows = [_row(s, metric) for metric in s["metrics"]]
    for label, key in (("accuracy", "accuracy_left_out"), ("best fixed decision, and regret", "comparator_left_out")):
        if why := s.get(key):
            rows.append(Row(label, f"      none: {why}", key))
    return [*rows, *_solver(s["solver"])]


def bounds(s: Json, applies: bool) -> list[Row]:
    """The theorems' bounds that apply, or those that do not, and why."""
    return [_bound(s, bound, k, True) for k, bound in enumerate(s["bounds"]) if bool(bound["applies"]) == applies]


def at(tree: Json | None, key: str) -> Any:
    """What stands at a dotted key; None where nothing does."""
    for part in key.split("."):
        tree = tree.get(part) if isinstance(tree, dict) else None
    return tree


def _row(s: Json, metric: Json) -> Row:
    key, share = metric["key"], metric["unit"] == "share"

    def number(value: float | None) -> str:
        return "none" if value is None else f"{value:.1%}" if share else f"{value:.4g}"

    spread, each = at(s.get("spread"), key), at(s, key.removesuffix("_mean")) if key.endswith("_mean") else None
    shown = f"{number(at(s, key)):>10}"
    if spread and spread["std"] is not None:
        shown += f" ± {spread['std']:.1%}" if share else f" ± {spread['std']:.2g}"
    if each and None not in each:
        shown += f"    (agents {number(min(each))} to {number(max(each))})"
    if "regret" in metric["variable"] and _is_nothing(s, metric["variable"]):
        shown += "    (0, as far as the comparator's certificate tells)"
    if metric["variable"] == "agent_regret":
        shown += estimated(s)
    if metric["variable"] in JUDGED:
        shown += f"    of the {s['judged']} decision"
    if metric["variable"] == "decision_norm" and not s["decomposable"] and s["agents"] > 1:
        shown += "    (blocks of different agents, together in no set; each one's estimate is)"
    if metric["variable"] == "comparator_value":
        within = at(s, "comparator.certificate_per_round")
        if within is None:
            shown += "    (no certificate: nothing known bounds the loss from below)"
        elif within >= (at(s, "comparator.value_per_round") or inf):
            shown += "    (its certificate is its own value: known is only that no loss is below 0)"
        else:
            shown += f"    (within {number(within)})"
    return Row(metric["label"], shown, key)


def estimated(s: Json) -> str:
    """What to add where agent regret is told of that was not found in every round."""
    every = s.get("agent_regret_every", 1)  # older runs do not say
    return f" (estimated from one round in {every})" if every > 1 else ""


def _is_nothing(s: Json, key: str) -> bool:
    """Whether a regret of the network is no larger than what the comparator may be off."""
    regret, certificate = s.get(key), s["comparator"].get("certificate")
    return isinstance(regret, float) and certificate is not None and abs(regret) <= certificate


def _bound(s: Json, bound: Json, place: int, why: bool) -> Row:
    """As a multiple of what it bounds."""
    if bound["value"] is None or not isfinite(bound["value"]):
        shown = f"{'inf':>10}    no bound on"
    elif bound["times"] is not None:
        shown = f"{bound['times']:10.3g}    times"
    elif bound["measured"] is None or not isfinite(bound["measured"]):
        shown = f"{bound['value']:10.3g}    on"
    else:
        shown = f"{bound['value']:10.3g}    where 0 or less was measured:"
    rest = "" if bound["applies"] else f"; does not apply{': ' + bound['why_not'] if why else ''}"
    of = f"{BOUNDED.get(bound['of'], bound['label'])}{estimated(s) if bound['of'] == 'agent_regret' else ''}"
    key = f"bounds[{place}].{'value' if bound['times'] is None else 'times'}"
    return Row(bound["name"], f"{shown} the {of}{rest}", key)


def _solver(solver: Json | None) -> list[Row]:
    """How the agents' local solves went."""
    if solver is None:
        return []
    residual = solver["largest_residual"]
    reached = "to no gradient" if residual is None else f"to gradients of norm {residual:.1g}"
    shown = f"{solver['steps']:10.3g}    (at most {solver['most_steps']}, {reached})"
    failed = f"; {solver['unsolved']} short of the tolerance {solver['tolerance']:g}" if solver["unsolved"] else ""
    return [Row("steps of a local solve", shown + failed, "solver.steps")]


def graph(s: Json) -> str:
    """The topology and how often it is connected."""
    b = s["connectivity"]
    return f"{s['topology']} (connected {'in every round' if b == 1 else f'over any {b} rounds'})"
