"""Describe the privacy loss of a run in a table, and in sentences on the assumptions behind its numbers."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import cast

from mpinodes.config.own_files import NOT_TESTED, SHORT, TESTED
from mpinodes.config.registry import MECHANISMS, find
from mpinodes.core.errors import BadInput
from mpinodes.core.parts import Mechanism
from mpinodes.summary import summary as typed

LARGE_DELTA = 0.1  # δ counts as too large if δ times the number of samples exceeds this
KEYS = {
    "rehearsal": "Not private as run: anyone with the seed can regenerate the noise (use noise.entropy=os for secret "
    "noise). The proven numbers hold for a secret key that is used once",
    "secret": "The key of the noise is secret: it is used once and stored nowhere",
    "unknown": "It is unknown whether the noise depends on its key: keys gave equal noise, or could not be tried",
}
CEILING = (
    "The privacy loss assumes the largest possible effect of hidden state on later messages, which may be far above "
    "the true effect: no finite smoothness of the losses is known, or there are too many effects to compute one by one."
)
UNCONFIRMED = "it was changed, comes from another computer, or omits earlier trials"
SOLVERS = "The proof assumes that the local solvers reach their tolerance on adjacent data too."
DIFFERENCE = {
    "one-sample": "one sample",
    "zero-out": "one sample, whose gradient becomes zero",
    "one-round": "one round's whole loss",
    "one-agent": "all samples of one agent, in every round",
}


def number(epsilon: float | None, none: str = "unproven") -> str:
    """Return an epsilon as text, or the text `none` if the epsilon is None."""
    if epsilon is None:
        return none
    return f"{epsilon:.0f}" if 1000 <= epsilon < 1e9 else f"{epsilon:.4g}"


def condition(checked: list[typed.FileSummary] | None) -> str:
    """Return the condition under which the proven ε holds, as text; "" if the proof depends on no user-defined file."""
    if all(file.tested for file in checked or []):
        return TESTED.format(", ".join(file.sha256[:SHORT] for file in checked)) if checked else ""
    return NOT_TESTED


def head(privacy: typed.PrivacySummary) -> tuple[str, ...]:
    """Return the titles of the five columns of the privacy table; the first title contains the adjacency of the run."""
    return f"privacy loss, ε ({privacy.adjacency})", "claimed", "proven pure", "proven at δ", ""


def lines(privacy: typed.PrivacySummary, checked: list[typed.FileSummary] | None) -> list[str]:
    """Return the privacy loss of a run as lines for the terminal: a table, and sentences that explain its numbers.

    If the run has no noise, the result is one line that says so.

    Args:
        privacy: the privacy loss of a run.
        checked: the user-defined files on which the proven numbers depend.
    """
    if privacy.noise is None:
        return ["  privacy: none, messages carry no noise"]
    rows = [head(privacy), *((f"  {who}", *cells) for who, *cells in table(privacy, checked))]
    width = max(28, *(len(row[0]) + 2 for row in rows))
    cells = [f"  {who:{width}} {a:>10} {b:>12} {c:>12}   {rule}".rstrip() for who, a, b, c, rule in rows]
    wrap = textwrap.TextWrapper(100, initial_indent="    ", subsequent_indent="      ").wrap
    return [*cells, *(line for sentence in sentences(privacy) for line in wrap(sentence))]


def table(privacy: typed.PrivacySummary, checked: list[typed.FileSummary] | None) -> list[tuple[str, ...]]:
    """Return the rows of the privacy table: a row "worst agent's share", and a row "network".

    Each row has five cells: the name, the claimed ε, the proven pure ε, the proven ε at δ, and the accounting rule with
    the condition of the proof. An agent's share is the part of the network's privacy loss that the agent's messages
    add.

    - If the losses of single agents are unknown, the row "worst agent's share" is left out.
    - If the run is a job with repeats (runs that differ in the seed), there are two rows of each kind: one row for the
      loss of a single run, and one row for the loss of all runs together.

    Args:
        privacy: the privacy loss of a run.
        checked: the user-defined files on which the proven numbers depend.
    """
    together, rows = privacy.together, list[tuple[str, ...]]()
    for part in (privacy, together) if together else (privacy,):
        agents: Sequence[typed.ProvenSummary] = part.agents
        network: typed.ProvenSummary = part.network
        runs = f", all {together.runs} together" if part is together else ", each run" if together else ""
        for who, losses in (("worst agent's share", agents), ("network", [network])):
            if losses:
                loss = typed.worst_loss(losses)
                rule = ", ".join(filter(None, [f"by {loss.rule}", condition(checked)]))
                epsilons = number(getattr(loss, "claimed", None), "none"), number(loss.proven_pure), number(loss.proven)
                rows.append((f"{who}{runs}", *epsilons, "" if loss.rule == "unproven" else rule))
    return rows


def sentences(privacy: typed.PrivacySummary) -> list[str]:
    """Return sentences that explain the numbers of the privacy table; an empty list if the run has no noise."""
    noise = privacy.noise
    if noise is None:
        return []
    # If nothing is claimed (the noise does not depend on the nominal epsilon), this sentence is left out.
    claim = f" The claimed numbers are those of the paper, for its nominal ε = {noise.epsilon:g}."
    rounds = f" in rounds 1 to {privacy.recorded}, which are recorded," if privacy.recorded else ""
    return [
        f"Proven against an observer of every link{rounds} at δ = {privacy.delta:g}, where adjacent data differ in "
        f"{DIFFERENCE[privacy.adjacency]}.{claim * (privacy.network.claimed is not None)}",
        "Decisions are covered, because they are computed from noised gradients and received messages alone."
        if privacy.covers_decisions is True
        else "Decisions are not covered, because they depend on the agents' hidden state.",
        *([secret_batches(privacy.sampling)] if privacy.sampling else []),
        *([f"The privacy loss is computed as if every noised {privacy.unsent} were sent."] if privacy.unsent else []),
        f"{KEYS[privacy.key or 'unknown']}.",
        *remarks(privacy, noise),
    ]


def secret_batches(sampling: typed.SamplingSummary) -> str:
    """Return sentences on the secret batches of a run: how they are drawn, and what the accounting relies on."""
    rate = f"{sampling.least:.4g}" + (f" to {sampling.largest:.4g}" if sampling.largest > sampling.least else "")
    taken = "every sample with probability" if sampling.scheme == "poisson" else "a fixed number of samples, a share of"
    idle = " privacy.tight has no effect: no numerical composition of such batches is known." * sampling.tight_is_idle
    return (
        f"Batches are secret: for every gradient an agent takes {taken} {rate}, by coins as secret as its noise. "
        "Sums of clipped gradients are divided by a public constant, an agent with an empty batch sends a message too, "
        f"and neither the noise nor the number and size of messages depend on the batch. Timing is not covered.{idle}"
    )


def remarks(privacy: typed.PrivacySummary, noise: typed.NoiseSummary) -> list[str]:
    """Return sentences on the noise of a run, and on the conditions under which the run's proven ε values hold."""
    is_proven, delta, together = privacy.network.proven is not None, privacy.delta, privacy.together
    notes = [_what_noise_buys(noise, privacy.adjacency)]
    source = " from the system's entropy" if noise.entropy == "os" else ""
    if noise.backend == "opendp":
        notes.append("The noise is drawn by OpenDP.")
    elif noise.backend == "lattice":
        added = f"rounding adds at most {noise.rounding:.2g} noise scales to its L1 change, which is accounted for"
        notes.append(f"The noise is drawn{source} on a lattice, and every release is rounded to the lattice: {added}.")
    else:
        notes.append(f"The noise is drawn by NumPy{source} in floating point: its low bits reveal more than is proven.")
    views = privacy.views
    if views and (reached := [pair for pair in zip(views.distance, views.largest, strict=True) if pair[0] >= 0]):
        (near, first), (far, last) = reached[0], reached[-1]
        notes.append(
            f"Toward one node that colludes with no other node, ε ({privacy.adjacency}) at δ = {delta:g} is at most "
            f"{number(first)} at distance {near}{f' and {number(last)} at distance {far}' * (far > near)}: after round "
            f"{views.relayed_from} all messages are mixes of earlier messages."
        )
    if privacy.tuning:
        on = {"public": "a file that is stated to be public", "private": "the same data: ε does not include tuning"}
        where = on.get(privacy.tuning.mode, "the same data")
        notes.append(f"The settings were chosen by {privacy.tuning.trials} trials on {where}.")
        if privacy.tuning.mode == "accounted":
            rests = f", which rests on what privacy.tuning states: {UNCONFIRMED}" if privacy.tuning.stated else ""
            whole = number(privacy.tuning.epsilon)
            more = " `mpinodes spent` adds up tuning and all runs." if together else ""
            notes.append(f"Tuning and one such run together: ε = {whole} at δ = {delta:g}{rests}.{more}")
    if budget := privacy.budget:
        of, stops = f" for all {together.runs} runs together" if together else "", budget.stops or []
        text = f"The budget is ε = {budget.epsilon:g} ({privacy.adjacency}) at δ = {budget.delta:g}{of}, kept by "
        if budget.kept_by == "noise":
            chosen = f"nominal ε = {noise.epsilon:.4g}"
            chosen = f"multiplier {noise.multiplier:.4g}" if noise.multiplier else chosen
            notes.append(f"{text}noise of {chosen}.")
        elif not any(stops):
            notes.append(f"{text}stopping, but no agent had to stop.")
        else:
            stopped = sorted(filter(None, stops))
            when = f"round {stopped[0]}" if stopped[0] == stopped[-1] else f"rounds {stopped[0]} to {stopped[-1]}"
            who = "the agents" if len(stopped) == len(stops) else f"{len(stopped)} agents"
            notes.append(
                f"{text}stopping: after {when} {who} relay what they receive, and reveal nothing more about their data."
            )
    if recorded := privacy.recorded:
        notes.append(
            f"All numbers cover only the recorded rounds 1 to {recorded}: the run ended early, and messages of later "
            "rounds lose privacy too."
        )
    if others := privacy.shares_noise_with:
        more = f" and {len(others) - 1} more" if len(others) > 1 else ""
        notes.append(
            f"WARNING: the neighbouring run {others[0]}{more} has the same noise on data that differ or may differ: an "
            "observer of both runs can cancel the noise; use another seed."
        )
    if together:
        because = together.unproven_because
        if together.network.proven is None:
            how = f"unproven{': ' * bool(because)}{because}"
        elif together.by == "maxima":
            how = "added up by the worst sample of a run wherever the samples of the runs cannot be matched"
        else:
            how = f"added up {together.by} by {together.by}"
        notes.append(
            f"All {together.runs} runs use the same data: the privacy loss to an observer of all runs is {how}."
        )
    if privacy.views_left_out:
        notes.append(
            "With so many agents, no ε toward single nodes is computed; the ε for an observer of all links holds."
        )
    if noise.key is not None:
        key = f"noise.key = {noise.key!r}"
        notes.append(
            f"All runs with this seed and {key} share this noise: several of these runs together can reveal the data."
        )
    if privacy.unproven_because:
        notes.append(f"Nothing is proven: {privacy.unproven_because}.")
    elif privacy.public:
        notes.append(privacy.public)
    if privacy.uses_ceiling and is_proven:
        notes.append(CEILING)
    spent = max(loss.delta_spent or 0.0 for loss in privacy.agents)
    if spent:
        enough = "" if is_proven else ", too much: nothing is proven"
        notes.append(f"Rounding of messages hides the errors of the local solvers; this uses {spent:.2g} of δ{enough}.")
    elif privacy.exact_minimizers and is_proven:
        notes.append(
            "The proof assumes exact minimizers; the local solvers stop at the gradient norm that is printed above."
        )
    if is_proven and (spent or privacy.exact_minimizers):
        notes.append(SOLVERS)
    if privacy.against_colluders:
        notes.append(
            "Each agent's bound also holds, in exact arithmetic, against all other agents together, whatever they "
            "send, if they do not know its noise and see nothing but its messages."
        )
    if privacy.samples and delta * privacy.samples > LARGE_DELTA:
        unit, data = ("agent", "all that an agent has") if privacy.adjacency == "one-agent" else ("sample", "a sample")
        notes.append(
            f"δ = {delta:g} is not well below 1/{privacy.samples}, one over the number of {unit}s: at such a δ even "
            f"publishing {data} now and then counts as private."
        )
    return notes


def mechanism(noise: typed.NoiseSummary) -> type[Mechanism]:
    """Return the class of the mechanism that a summary names; the base class if the mechanism no longer exists."""
    try:
        return cast(type[Mechanism], find(MECHANISMS, noise.mechanism or ""))
    except BadInput:
        return Mechanism


def _what_noise_buys(noise: typed.NoiseSummary, adjacency: str) -> str:
    """Return a sentence on the scale of a run's noise and, if known, on the privacy of one noised vector."""
    used, least, needed, release = noise.scale, noise.least_scale, noise.calibrated_scale, noise.release
    if used == 0:
        return "No message carried noise."
    part = mechanism(noise)
    text = f"Noise of scale {used:.4g}{'' if used == least else f' down to {least:.4g}'}"
    text += f" ({part.scale_is})" if part.scale_is else ""
    if noise.multiplier:
        return f"{text}: {noise.multiplier:.4g} times the clip on the sum of an agent's clipped gradients."
    if not part.pure:
        return f"{text}."
    if needed is None and release is None:
        return f"{text}; no sensitivity is known (are gradients not clipped?), so the noise proves nothing."
    really = "has no noise for some data" if release is None else f"is in fact {release:.3g}-DP ({adjacency})"
    if noise.calibrated:
        if release is not None and release <= noise.epsilon * (1 + 1e-9):
            return f"{text}, calibrated: no release of an agent costs more than ε = {release:.4g} ({adjacency})."
        return f"{text}, calibrated as printed in the paper: a release of an agent {really}."
    needs = "" if needed is None else f" needs {needed:.4g}, {needed / used:.3g} times as much"
    return f"{text}; the nominal ε = {noise.epsilon:g} per round{needs}: a release of an agent {really}."
