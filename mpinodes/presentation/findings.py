"""Write whole sentences on the main results of a run, for the top of the page of the run."""

from __future__ import annotations

from math import exp

from mpinodes.presentation.privacy_words import DIFFERENCE, number
from mpinodes.summary.summary import BaselinesSummary, Sets, Summary, WorthSummary

LARGEST_ODDS = 1e4  # if exp(ε), the factor on the odds of a guess, is larger, the run counts as not private
GUESSED = {"accuracy": "always the largest class", "rmse": "always the mean target"}
SETS = {"test": "test samples", "train": "training samples"}


def findings(s: Summary, silent: WorthSummary | None) -> list[str]:
    """Return sentences on the main results of a run: accuracy or error, regret or optimality gap, and privacy.

    Results that the run does not have are left out. There is always a sentence on privacy.

    Args:
        s: the summary of the run.
        silent: the results of the same run without noise; None if these results are unknown.
    """
    sentences = [*_marks(s, silent, "accuracy"), *_marks(s, silent, "rmse")]
    gap, regret = s.value("optimality_gap_mean"), s.value("network_regret_per_round")
    if reason := s.comparator_left_out:
        sentences.append(f"The regret is unknown, because the best fixed decision was not computed: {reason}.")
    elif s.judged and gap is not None:
        quiet = f" Without noise: {silent.value('optimality_gap_mean'):.4g}." if silent else ""
        sentences.append(f"The loss of the {s.judged} decision is {gap:.4g} above the minimum.{quiet}")
    elif not s.judged and regret is not None:
        best = (s.value("comparator.value") or 0.0) / s.rounds
        quiet = f" Without noise: {silent.value('network_regret_per_round'):.4g} more." if silent else ""
        more = f"{regret:.4g} more" if regret >= 0 else f"{-regret:.4g} less"
        than = f"than the best fixed decision in hindsight, whose loss is {best:.4g}"
        sentences.append(f"Per round, the network lost {more} {than}.{quiet}")
    privacy, network = s.privacy, s.privacy.network
    if privacy.noise is None:
        return [*sentences, "Nothing is private: messages carry no noise."]
    claimed, proven, difference = network.claimed, network.proven, DIFFERENCE[privacy.adjacency]
    paper = "The paper claims nothing" if claimed is None else f"The paper claims ε = {number(claimed)}"
    observer = "An observer of every message on every link learns"
    if proven is None:
        return [*sentences, f"{paper}, but nothing is proven of what the messages reveal about {difference}."]
    if proven == 0:
        return [*sentences, f"{observer} nothing about {difference}; this is proven.", f"{paper}."]
    odds = exp(min(proven, 700))
    is_pure = network.proven_pure is not None and proven >= network.proven_pure
    at = "" if is_pure else f" at δ = {privacy.delta:g}"
    buys = f"it multiplies the odds of any guess by at most {odds:.3g}"
    large = "such a large ε protects almost nothing"
    text = f"{observer} at most ε = {number(proven)}{at} about {difference}; this is proven"
    above = claimed is not None and proven > 1.01 * claimed
    more = f"; the proven ε of this run is {proven / claimed:.3g} times as large" if claimed and above else ""
    return [*sentences, f"{text}: {buys if odds < LARGEST_ODDS else large}.", f"{paper}{more}."]


def marks(s: Summary, name: str) -> tuple[str, float | None]:
    """Return the data set on which a method is judged ("test" or "train"), and the accuracy or RMSE on this data set.

    If an offline method is judged by its last decision, the number is that of the last decision; otherwise it is that
    of the running mean of the decisions. An unknown number is None.

    Args:
        s: the summary of the run.
        name: "accuracy" or "rmse".
    """
    key = f"{name}_last_decision" if s.judged == "last" else name
    which = "test" if f"{key}.test" in s.values else "train"
    return which, s.value(f"{key}.{which}")


def naive(baselines: BaselinesSummary | None, name: str) -> Sets:
    """Return the accuracy or RMSE of a constant prediction, by data set ("test", "train"); empty if it is unknown.

    The constant is the largest class for the accuracy, and the mean training target for the RMSE.

    Args:
        baselines: the results of methods that learn nothing, from the summary of a run.
        name: "accuracy" or "rmse"; for other names the result is empty.
    """
    guesses = {"accuracy": baselines.majority, "rmse": baselines.mean_target} if baselines else {}
    return guesses.get(name) or {}


def best(baselines: BaselinesSummary | None, name: str) -> Sets:
    """Return the accuracy or RMSE of the best fixed decision, by data set ("test", "train"); empty if it is unknown.

    Args:
        baselines: the results of the best fixed decision, from the summary of a run.
        name: "accuracy" or "rmse".
    """
    values = (baselines and baselines.best_fixed) or {}
    return {key.removeprefix(f"{name}."): value for key, value in values.items() if key.startswith(f"{name}.")}


def compared(s: Summary, silent: WorthSummary | None, key: str) -> str:
    """Return the numbers to which people compare an accuracy or an RMSE, as text; "" if none of the numbers is known.

    The numbers are those of a constant prediction, of the same run without noise, and of the best fixed decision, which
    is not private.

    Args:
        s: the summary of the run.
        silent: the results of the same run without noise; None if these results are unknown.
        key: the dotted key of the accuracy or RMSE in summary.json; for other keys the text is empty.
    """
    name, _, which = key.partition(".")
    name = name.removesuffix("_last_decision")
    if name not in GUESSED:
        return ""
    numbers = {"guessing": naive(s.baselines, name).get(which), "without noise": silent and silent.value(key)}
    numbers["best fixed decision"] = best(s.baselines, name).get(which)
    form = ".1%" if name == "accuracy" else ".4g"
    return ", ".join(f"{words} {number:{form}}" for words, number in numbers.items() if number is not None)


def _marks(s: Summary, silent: WorthSummary | None, name: str) -> list[str]:
    which, value = marks(s, name)
    if value is None:
        return []
    is_last = s.judged == "last"
    metric = f"an accuracy of {value:.1%}" if name == "accuracy" else f"a root mean squared error of {value:.4g}"
    others = compared(s, silent, f"{name}{'_last_decision' * is_last}.{which}")
    decision = f"{'last decision' if is_last else 'running mean of its decisions'} has {metric} on the {SETS[which]}"
    return [f"The {decision} ({others})." if others else f"The {decision}."]
