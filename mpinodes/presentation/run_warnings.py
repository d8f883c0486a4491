"""Define the warnings of a run: each warning has a short code and a sentence. No other module defines warnings.

In summary.json, `warnings` is an object with a sentence for each code. A single run prints these sentences, except
those of the codes in `PRIVACY`. A study counts the codes, and shows the counts in tables and figures.

`of_numbers` makes the warnings that follow from the numbers of a summary. Any other warning is added where its cause is
found:

    run_warnings.add(summary, "code", "A sentence that says what happened.")

A new code needs a line in `MEANINGS`, and a line in docs/studies.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from math import exp, inf

from msgspec.structs import replace

from mpinodes.presentation.findings import LARGEST_ODDS, SETS, marks, naive
from mpinodes.presentation.privacy_words import LARGE_DELTA, mechanism
from mpinodes.summary.summary import Summary

PRIVACY = {  # a single run states these facts in `privacy_words.sentences`, so their own sentences are not printed
    "no-noise": "messages carry no noise: nothing is private",
    "unproven": "nothing is proven about the privacy loss of the run, or of all repeats together",
    "not-tested": "the proven ε depends on statements of a user's file that no check has tested",
    "epsilon-too-large": "the proven ε is so large that almost nothing is protected",
    "above-claim": "the proven ε is above the ε that the paper claims",
    "label-not-kept": "the noise is smaller than the nominal ε requires",
    "delta-too-large": "δ is not well below one over the number of samples or agents",
    "budget-spent": "agents stopped using their data because the privacy budget was spent",
    "shared-noise": "another run has the same noise on different data: both runs together can reveal the data",
    "noise-key": "all runs with the same seed and noise.key share their noise: together they can reveal the data",
    "floating-point-noise": "noise of a secret key is drawn in floating point: its low bits reveal more than is proven",
}
MEANINGS = PRIVACY | {
    "partial": "the run ended early",
    "diverged": "the loss is not finite: the run diverged",
    "no-better-than-guessing": "the accuracy is no higher than that of always predicting the largest class",
    "no-better-than-mean-target": "the error is no lower than that of always predicting the mean target",
    "accuracy-below-start": "the starting point has a higher accuracy than the result",
    "error-above-start": "the starting point has a lower error than the result",
    "loss-above-start": "staying at the starting point has a lower loss or optimality gap",
    "features-not-scaled": "the user's file needs scaling: norms far from 1, nearly equal samples, or large targets",
    "unsolved": "local solvers did not reach their tolerance",
}


def add(summary: Summary, code: str, sentence: str = "") -> None:
    """Add a warning to the summary of a run.

    Args:
        summary: the summary, which is changed.
        code: the short code of the warning.
        sentence: the text of the warning; by default the meaning of the code in `MEANINGS`.

    Raises:
        KeyError: the code is not in `MEANINGS`.
    """
    meaning = MEANINGS[code]
    summary.warnings = (summary.warnings or {}) | {code: sentence or f"{meaning[0].upper()}{meaning[1:]}."}


def of(summary: Summary) -> dict[str, str]:
    """Return the warnings of a run, as a dictionary from warning codes to sentences.

    If the summary has no `warnings`, they are computed from the numbers of the summary.
    """
    return of_numbers(summary) if summary.warnings is None else summary.warnings


def sentences(summary: Summary) -> list[str]:
    """Return the sentences of all warnings of a run that are not about privacy."""
    return [sentence for code, sentence in of(summary).items() if code not in PRIVACY]


def sentences_of_some(codes: Iterable[str]) -> dict[str, str]:
    """Return a sentence for each warning code, which says that some repeats of a job have this warning.

    Repeats are runs that differ in the seed.
    """
    return {code: f"Of some repeats: {MEANINGS.get(code, code)}." for code in codes}


def counted(of_runs: Sequence[dict[str, str]]) -> dict[str, str]:
    """Return a text for each warning code: the code, the number of runs with this warning, and its meaning.

    The code with the most runs comes first.

    Args:
        of_runs: the warnings of each run, as sentences by code.
    """
    numbers, runs = Counter(code for codes in of_runs for code in codes).most_common(), len(of_runs)
    return {code: f"{code}: {number} of {runs} runs: {MEANINGS.get(code, code)}" for code, number in numbers}


def of_numbers(s: Summary) -> dict[str, str]:
    """Return the warnings that follow from the numbers of a summary, as a dictionary from codes to sentences."""
    made, privacy, noise = replace(s, warnings=None), s.privacy, s.privacy.noise
    if s.partial:
        add(made, "partial", f"The run ended early: {s.rounds} of {s.rounds_asked} rounds are recorded.")
    if s.value("average_fitness") is None:
        add(made, "diverged")
    if s.solver and s.solver.unsolved:
        add(made, "unsolved", f"{s.solver.unsolved} runs of a local solver did not reach the tolerance.")
    if s.baselines:  # compare accuracy, error and loss with trivial methods that learn nothing
        (which, share), (on, error), start = marks(s, "accuracy"), marks(s, "rmse"), s.baselines.start
        majority, mean = naive(s.baselines, "accuracy").get(which), naive(s.baselines, "rmse").get(on)
        first, off = (start.accuracy or {}).get(which), (start.rmse or {}).get(on)
        lost, losses = s.value("average_fitness"), "{:.4g} lost per round, against {:.4g} by staying"
        stayed = start.average_fitness
        if s.judged and "comparator.value" in s.values:
            least, owners = s.value("comparator.value"), s.agents if s.decomposable else 1
            lost, losses = s.value("optimality_gap_mean"), "an optimality gap of {:.4g}, against {:.4g}"
            stayed = None if stayed is None or least is None else (stayed - least / s.rounds) / owners
        shares = f"{{1:.1%}} of the {SETS[which]}, against {{0:.1%}}"
        errors = f"an RMSE of {{:.4g}} on the {SETS[on]}, against {{:.4g}}"
        for code, than, words, high, low in (  # warn if `high` is greater than `low`
            ("no-better-than-guessing", "always predicting the largest class", shares, majority, share),
            ("accuracy-below-start", "doing nothing", f"{shares} at the start", first, share),
            ("no-better-than-mean-target", "always predicting the mean target", errors, error, mean),
            ("error-above-start", "doing nothing", errors, error, off),
            ("loss-above-start", "doing nothing", f"{losses} at the start", lost, stayed),
        ):
            if high is not None and low is not None and (high > low or (high == low and code.startswith("no-better"))):
                advice = " To search better settings: mpinodes tune." if privacy.budget else ""
                how = "No better" if high == low else "Worse"
                add(made, code, f"{how} than {than}: {words.format(high, low)}.{advice}")
    if noise is None:
        add(made, "no-noise")
        return made.warnings or {}
    proven, claimed, together = privacy.network.proven, privacy.network.claimed, privacy.together
    nominal = noise.epsilon if mechanism(noise).pure else inf
    holds = {
        "unproven": privacy.unproven_because or proven is None or (together and together.network.proven is None),
        "not-tested": any(not file.tested for file in s.checked or []),
        "epsilon-too-large": proven is not None and exp(min(proven, 700)) >= LARGEST_ODDS,
        "above-claim": proven is not None and claimed is not None and proven > 1.01 * claimed,
        "label-not-kept": nominal < inf and (noise.release is None or noise.release > nominal * (1 + 1e-9)),
        "delta-too-large": privacy.delta * (privacy.samples or 0) > LARGE_DELTA,
        "budget-spent": privacy.budget and any(privacy.budget.stops or []),
        "shared-noise": privacy.shares_noise_with,
        "noise-key": noise.key is not None,
        "floating-point-noise": noise.backend == "numpy" and privacy.key == "secret",
    }
    for code in filter(holds.get, holds):
        add(made, code)
    return made.warnings or {}
