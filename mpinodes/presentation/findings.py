"""What a run found, in whole sentences: the first thing that a person is told of it."""

from __future__ import annotations

from math import exp, isfinite

from mpinodes.presentation.privacy_words import DIFFERENCE, number
from mpinodes.summary.combining import Json

LARGEST_ODDS = 1e4  # above which odds tell nothing any more


def found(s: Json, silent: Json | None) -> list[str]:
    """Accuracy or error, regret and privacy, a sentence or two each.

    Args:
        s: summary.json.
        silent: the summary of the same run without noise; None: it was not made.
    """
    return [*_accuracy(s, silent), *_error(s, silent), *_regret(s, silent), *_privacy(s)]


SETS = {"test": "test samples", "train": "training samples"}


def marks(s: Json, of: str) -> tuple[str, float | None]:
    """Return on which samples accuracy or RMSE is judged, and its value, by the decision that judges the method."""
    marks = s.get(f"{of}_last_decision" if s.get("judged") == "last" else of) or {}
    which = "test" if "test" in marks else "train"
    return which, marks.get(which)


def _accuracy(s: Json, silent: Json | None) -> list[str]:
    which, share = marks(s, "accuracy")
    if share is None:
        return []
    what = _decision(s)
    beside = []
    if majority := ((s.get("baselines") or {}).get("majority") or {}).get(which):
        beside.append(f"always naming the largest class gets {majority:.1%}")
    if silent and (quiet := marks(silent, "accuracy")[1]) is not None:
        beside.append(f"the same run without noise {quiet:.1%}")
    compared = f" ({', '.join(beside)})" if beside else ""
    return [f"The {what} gets {share:.1%} of the {SETS[which]} right{compared}."]


def _error(s: Json, silent: Json | None) -> list[str]:
    which, error = marks(s, "rmse")
    if error is None:
        return []
    beside = []
    if (mean := ((s.get("baselines") or {}).get("mean_target") or {}).get(which)) is not None:
        beside.append(f"always naming the mean target is off by {mean:.4g}")
    if silent and (quiet := marks(silent, "rmse")[1]) is not None:
        beside.append(f"the same run without noise by {quiet:.4g}")
    compared = f" ({', '.join(beside)})" if beside else ""
    return [f"The {_decision(s)} is off by {error:.4g} on the {SETS[which]}, root mean squared{compared}."]


def _decision(s: Json) -> str:
    return "last decision" if s.get("judged") == "last" else "running mean of its decisions"


def _regret(s: Json, silent: Json | None) -> list[str]:
    if s.get("judged") and not s.get("comparator_left_out"):
        gap = s.get("optimality_gap_mean")
        quiet = f" Without noise: {silent['optimality_gap_mean']:.4g}." if silent and gap is not None else ""
        return [] if gap is None else [f"Its {s['judged']} decision is {gap:.4g} above the least loss there is.{quiet}"]
    regret = s.get("network_regret_per_round")
    if why := s.get("comparator_left_out"):
        return [f"No regret is told, for the best fixed decision is left out: {why}."]
    if regret is None:
        return []
    best = (s["comparator"]["value"] or 0.0) / s["rounds"]
    quiet = f" Without noise: {silent['network_regret_per_round']:.4g} more." if silent else ""
    more = f"{regret:.4g} more" if regret >= 0 else f"{-regret:.4g} less"
    return [
        f"In a round the network lost {more} than the best fixed decision in hindsight, which lost {best:.4g}.{quiet}"
    ]


def _privacy(s: Json) -> list[str]:
    privacy = s["privacy"]
    if privacy["noise"] is None:
        return ["Nothing is kept private: messages carry no noise."]
    network, one = privacy["network"], DIFFERENCE[privacy["adjacency"]]
    claimed, proven = network["claimed"], network["proven"]
    paper = "The paper claims nothing" if claimed is None else f"The paper claims ε = {number(claimed)}"
    if proven is None:
        return [f"{paper}, and nothing is proven of what the messages tell of {one}."]
    if proven == 0:
        return [f"Whoever reads every message on every link learns nothing of {one}, as is proven.", f"{paper}."]
    text = f"Whoever reads every message on every link learns of {one} no more than ε = {number(proven)}, as is proven"
    if network["proven_pure"] is None or proven < network["proven_pure"]:
        text += f" at δ = {privacy['delta']:g}"
    odds = exp(proven) if proven < 700 else float("inf")
    if isfinite(odds) and odds < LARGEST_ODDS:
        text += f": it changes the odds of any guess {odds:.3g} times at most"
    else:
        text += ": so large an ε keeps next to nothing private"
    if claimed is not None and proven > 1.01 * claimed:
        return [f"{text}.", f"{paper}: what is proven of this run is {proven / claimed:.3g} times as much."]
    return [f"{text}.", f"{paper}."]
