"""What a run found, in whole sentences: the first thing that a person is told of it."""

from __future__ import annotations

from math import exp

from mpinodes.presentation.privacy_words import DIFFERENCE, number
from mpinodes.summary.summary import BaselinesSummary, Sets, Summary, WorthSummary

LARGEST_ODDS = 1e4  # above which odds tell nothing any more
GUESSED = {"accuracy": "always the largest class", "rmse": "always the mean target"}
SETS = {"test": "test samples", "train": "training samples"}


def findings(s: Summary, silent: WorthSummary | None) -> list[str]:
    """Return sentences on accuracy or error, regret and privacy.

    Args:
        s: the summary of a run.
        silent: what the same run without noise was worth; None: it was not made.
    """
    return [*_marks(s, silent, "accuracy"), *_marks(s, silent, "rmse"), *_regret(s, silent), *_privacy(s)]


def marks(s: Summary, name: str, worth: WorthSummary | None = None) -> tuple[str, float | None]:
    """Return on which samples a method is judged, and its accuracy or RMSE there, by the decision that judges it.

    Args:
        s: the summary of a run.
        name: "accuracy" or "rmse".
        worth: what another run of the same method was worth, whose value is returned; None: that of the run.
    """
    values, key = (worth or s).values, f"{name}_last_decision" if s.judged == "last" else name
    which = "test" if f"{key}.test" in values else "train"
    return which, (worth or s).value(f"{key}.{which}")


def naive(baselines: BaselinesSummary | None, name: str) -> Sets:
    """Return accuracy or RMSE of what predicts one value, `GUESSED`; of another metric nothing."""
    guesses = {"accuracy": baselines.majority, "rmse": baselines.mean_target} if baselines else {}
    return guesses.get(name) or {}


def _marks(s: Summary, silent: WorthSummary | None, name: str) -> list[str]:
    which, value = marks(s, name)
    if value is None:
        return []
    share = name == "accuracy"
    form, verb, guess = (".1%", "gets", "the largest class") if share else (".4g", "is off by", "the mean target")
    compared = []
    if (guessed := naive(s.baselines, name).get(which)) is not None:
        compared.append(f"always naming {guess} {verb} {guessed:{form}}")
    if silent and (quiet := marks(s, name, silent)[1]) is not None:
        compared.append(f"the same run without noise {'' if share else 'by '}{quiet:{form}}")
    decision = "last decision" if s.judged == "last" else "running mean of its decisions"
    result = f"{value:{form}} {'of' if share else 'on'} the {SETS[which]}{' right' if share else ', root mean squared'}"
    return [f"The {decision} {verb} {result}" + (f" ({', '.join(compared)})." if compared else ".")]


def _regret(s: Summary, silent: WorthSummary | None) -> list[str]:
    gap, regret = s.value("optimality_gap_mean"), s.value("network_regret_per_round")
    if s.judged and not s.comparator_left_out:
        quiet = f" Without noise: {silent.value('optimality_gap_mean'):.4g}." if silent and gap is not None else ""
        return [] if gap is None else [f"Its {s.judged} decision is {gap:.4g} above the least loss there is.{quiet}"]
    if why := s.comparator_left_out:
        return [f"No regret is told, for the best fixed decision is left out: {why}."]
    if regret is None:
        return []
    best = (s.value("comparator.value") or 0.0) / s.rounds
    quiet = f" Without noise: {silent.value('network_regret_per_round'):.4g} more." if silent else ""
    more = f"{regret:.4g} more" if regret >= 0 else f"{-regret:.4g} less"
    return [
        f"In a round the network lost {more} than the best fixed decision in hindsight, which lost {best:.4g}.{quiet}"
    ]


def _privacy(s: Summary) -> list[str]:
    privacy, network = s.privacy, s.privacy.network
    if privacy.noise is None:
        return ["Nothing is kept private: messages carry no noise."]
    claimed, proven, difference = network.claimed, network.proven, DIFFERENCE[privacy.adjacency]
    paper = "The paper claims nothing" if claimed is None else f"The paper claims ε = {number(claimed)}"
    if proven is None:
        return [f"{paper}, and nothing is proven of what the messages tell of {difference}."]
    reads = "Whoever reads every message on every link learns"
    if proven == 0:
        return [f"{reads} nothing of {difference}, as is proven.", f"{paper}."]
    odds = exp(min(proven, 700))
    is_pure = network.proven_pure is not None and proven >= network.proven_pure
    at = "" if is_pure else f" at δ = {privacy.delta:g}"
    buys = f"it multiplies the odds of any guess by at most {odds:.3g}"
    large = "so large an ε keeps next to nothing private"
    text = f"{reads} of {difference} no more than ε = {number(proven)}, as is proven{at}"
    text += f": {buys if odds < LARGEST_ODDS else large}."
    above = claimed is not None and proven > 1.01 * claimed
    more = f": what is proven of this run is {proven / claimed:.3g} times as much" if claimed and above else ""
    return [text, f"{paper}{more}."]
