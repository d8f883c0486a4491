"""What a run cost in privacy, in words."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import cast

from mpinodes.config.own_files import NOT_TESTED, SHORT, TESTED
from mpinodes.config.registry import MECHANISMS, find
from mpinodes.core.errors import BadInput
from mpinodes.core.parts import Mechanism
from mpinodes.summary import summary as typed

LARGE_DELTA = 0.1  # per sample
KEYS = {
    "rehearsal": "Rehearsal: the noise can be redrawn from the seed; proven for a secret key used once",
    "secret": "Secret key: used once and stored nowhere",
    "unknown": "Whether the noise depends on its key is not known: several keys drew the same, or could not be tried",
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
    """Return an ε for people."""
    if epsilon is None:
        return none
    return f"{epsilon:.0f}" if 1000 <= epsilon < 1e9 else f"{epsilon:.4g}"


def condition(checked: list[typed.FileSummary] | None) -> str:
    """Return what stands beside every proven number; empty: no number rests on a file of the user's."""
    if all(file.tested for file in checked or []):
        return TESTED.format(", ".join(file.sha256[:SHORT] for file in checked)) if checked else ""
    return NOT_TESTED


HEAD = ("privacy loss, ε", "claimed", "proven pure", "proven at δ", "")


def lines(privacy: typed.PrivacySummary, checked: list[typed.FileSummary] | None) -> list[str]:
    """Return lines for the terminal: `table`, then `sentences`.

    Args:
        privacy: what a run cost.
        checked: the files of the user's that the proven numbers rest on.
    """
    if privacy.noise is None:
        return ["  privacy: none, messages carry no noise"]
    rows = [(f"  {row[0]}", *row[1:]) for row in table(privacy, checked)]
    width = max(28, *(len(row[0]) + 2 for row in rows))
    cells = [f"  {who:{width}} {a:>10} {b:>12} {c:>12}   {rule}".rstrip() for who, a, b, c, rule in (HEAD, *rows)]
    wrap = textwrap.TextWrapper(100, initial_indent="    ", subsequent_indent="      ").wrap
    return [*cells, *(line for sentence in sentences(privacy) for line in wrap(sentence))]


def table(privacy: typed.PrivacySummary, checked: list[typed.FileSummary] | None) -> list[tuple[str, ...]]:
    """Return rows of cells: whose loss, claimed, proven pure, proven at δ, by which rule.

    Args:
        privacy: what a run cost.
        checked: the files of the user's that the proven numbers rest on.
    """
    together, rows = privacy.together, list[tuple[str, ...]]()
    groups: list[tuple[Sequence[typed.ProvenSummary], typed.ProvenSummary, str]] = [
        (privacy.agents, privacy.network, ", each run" if together else "")
    ]
    if together:
        groups.append((together.agents, together.network, f", all {together.runs} together"))
    for agents, network, runs in groups:
        for who, losses in (("worst agent's share", agents), ("network", [network])):
            if losses:
                loss = typed.worst_loss(losses)
                rule = ", ".join(filter(None, [f"by {loss.rule}", condition(checked)]))
                epsilons = number(getattr(loss, "claimed", None), "none"), number(loss.proven_pure), number(loss.proven)
                rows.append((f"{who}{runs}", *epsilons, "" if loss.rule == "unproven" else rule))
    return rows


def sentences(privacy: typed.PrivacySummary) -> list[str]:
    """Return what is to be known of the numbers in `table`, in whole sentences."""
    noise = privacy.noise
    if noise is None:
        return []
    # Nothing is claimed if the noise need not go by the nominal epsilon.
    claim = f" The claimed numbers are the paper's, for ε = {noise.epsilon:g} a round."
    rounds = f" in rounds 1 to {privacy.recorded}, those recorded" if privacy.recorded else ""
    return [
        f"Proven: against who reads every link{rounds}, at δ = {privacy.delta:g}, where adjacent data differ in "
        f"{DIFFERENCE[privacy.adjacency]}.{claim * (privacy.network.claimed is not None)}",
        "Decisions are not covered: they come from the agents' hidden state.",
        f"{KEYS[privacy.key or 'unknown']}.",
        *remarks(privacy, noise),
    ]


def remarks(privacy: typed.PrivacySummary, noise: typed.NoiseSummary) -> list[str]:
    """Return what is to be known of a run's noise and of its proven numbers, in whole sentences."""
    notes = [_what_noise_buys(noise)]
    source = " from the system's entropy" if noise.entropy == "os" else ""
    if noise.backend == "opendp":
        notes.append("Drawn by OpenDP.")
    elif noise.backend == "lattice":
        moved = f"it moves by up to {noise.rounding:.2g} scales more, in L1, which is accounted for"
        notes.append(f"Drawn{source} on a lattice that the release is rounded to: {moved}.")
    else:
        notes.append(f"Drawn by NumPy{source}, in floating point: its low bits tell more than is proven.")
    if views := privacy.views:
        reached = [(at, most) for at, most in zip(views.distance, views.largest, strict=True) if at >= 0]
        if reached:
            (near, first), (far, last) = reached[0], reached[-1]
            notes.append(
                f"Toward one node that colludes with none, ε at δ = {privacy.delta:g} is at most {number(first)} at "
                f"distance {near}{f' and {number(last)} at distance {far}' * (far > near)}: from round "
                f"{views.relayed_from} on all that is said are mixes of what was said then."
            )
    return [*notes, *_provisos(privacy, noise)]


def _budget(budget: typed.BudgetSummary, noise: typed.NoiseSummary, together: typed.TogetherSummary | None) -> str:
    """Return how a budget was kept, in a sentence."""
    of = f" for all {together.runs} runs together" if together else ""
    text = f"The budget is ε = {budget.epsilon:g} at δ = {budget.delta:g}{of}, kept by "
    if budget.kept_by == "noise":
        return f"{text}the noise of the label ε = {noise.epsilon:.4g}."
    stops = [stop for stop in budget.stops or [] if stop]
    if not stops:
        return f"{text}stopping, which no agent had to."
    first, last = min(stops), max(stops)
    when = f"round {first}" if first == last else f"rounds {first} to {last}"
    who = "the agents" if len(stops) == len(budget.stops or []) else f"{len(stops)} agents"
    return f"{text}stopping: after {when} {who} relay what they hear, and tell nothing of their data."


ADDED = {
    "sample": "sample by sample",
    "round": "round by round",
    "agent": "agent by agent",
    "maxima": "by each run's worst, since nothing says which sample of one is which of another",
}


def _provisos(privacy: typed.PrivacySummary, noise: typed.NoiseSummary) -> list[str]:
    """Return what the proven numbers rest on, in whole sentences."""
    is_proven = privacy.network.proven is not None
    notes = [_budget(privacy.budget, noise, privacy.together)] if privacy.budget else []
    if recorded := privacy.recorded:
        notes.append(
            f"All numbers cover rounds 1 to {recorded} alone, which are recorded: the run was ended before its time, "
            "and what was sent in later rounds costs privacy too."
        )
    if others := privacy.shares_noise_with:
        more = f" and {len(others) - 1} more" if len(others) > 1 else ""
        notes.append(
            f"WARNING: {others[0]}{more} beside it has the same noise, on data that are other or may be: who reads "
            "the messages of both knows what either hides; take another seed."
        )
    if together := privacy.together:
        because = together.unproven_because
        how = f"of which nothing is proven{': ' * bool(because)}{because}"
        how = how if together.network.proven is None else f"added up {ADDED.get(together.by, together.by)}"
        notes.append(
            f"All {together.runs} runs are on the same data: who sees them all learns what they lose together, {how}."
        )
    if privacy.views_left_out:
        notes.append("What single nodes learn is not worked out for so many agents: the bound for all links stands.")
    if noise.key is not None:
        key = f"noise.key = {noise.key!r}"
        notes.append(f"All runs of this seed with {key} share its noise: together they hide nothing.")
    if privacy.unproven_because:
        notes.append(f"Nothing is proven: {privacy.unproven_because}.")
    elif privacy.public:
        notes.append(privacy.public)
    if privacy.uses_ceiling and is_proven:
        notes.append(CEILING)
    spent = max(loss.delta_spent or 0.0 for loss in privacy.agents)
    if spent:
        enough = "" if is_proven else ", too much: nothing is proven"
        notes.append(f"Rounding to a grid covers what the local solvers leave, for {spent:.2g} of δ{enough}.")
    elif privacy.exact_minimizers and is_proven:
        notes.append("What is proven is proven of exact minimizers: the local solvers come as near as said above.")
    if is_proven and (spent or privacy.exact_minimizers):
        notes.append(SOLVERS)
    if privacy.against_colluders:
        notes.append(
            "Each agent's bound holds, in exact arithmetic, against all other agents together too, whatever they send, "
            "where its noise is unknown to them and nothing but messages gets out."
        )
    samples, delta = privacy.samples, privacy.delta
    if samples and delta * samples > LARGE_DELTA:
        unit, data = ("agent", "all that an agent has") if privacy.adjacency == "one-agent" else ("sample", "a sample")
        notes.append(
            f"δ = {delta:g} is not well below 1/{samples}, one over the number of {unit}s: at such a δ even to publish "
            f"{data} now and then counts as private."
        )
    return notes


def mechanism(noise: typed.NoiseSummary) -> type[Mechanism]:
    """Return the mechanism that a summary names; the contract itself if there is none of that name any more."""
    try:
        return cast(type[Mechanism], find(MECHANISMS, noise.mechanism or ""))
    except BadInput:
        return Mechanism


def _what_noise_buys(noise: typed.NoiseSummary) -> str:
    """Return the scale used beside the scale that the nominal epsilon needs, in whole sentences."""
    used, least, needed, release = noise.scale, noise.least_scale, noise.calibrated_scale, noise.release
    if used == 0:
        return "No message carried noise."
    part = mechanism(noise)
    text = f"Noise of scale {used:.4g}{'' if used == least else f' down to {least:.4g}'}"
    text += f" ({part.scale_is})" if part.scale_is else ""
    if not part.pure:
        return f"{text}."
    if needed is None and release is None:
        return f"{text}; no sensitivity bounds what it hides, as where gradients are not clipped."
    really = "has no noise for some data" if release is None else f"is really {release:.3g}-DP"
    if noise.calibrated:
        if release is not None and release <= noise.epsilon * (1 + 1e-9):
            return f"{text}, calibrated: no release of an agent costs more than ε = {release:.4g}."
        return f"{text}, calibrated as the paper prints it: a release of an agent {really}."
    needs = "" if needed is None else f" needs {needed:.4g}, {needed / used:.3g} times as much"
    remark = f" {noise.remark}" if noise.remark else ""
    return f"{text}; the nominal ε = {noise.epsilon:g} a round{needs}: a release of an agent {really}.{remark}"
