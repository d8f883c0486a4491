"""Make the rows of the audit's table: results of the tests, beside the paper's claim and the proven privacy loss."""

from __future__ import annotations

from math import inf
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mpinodes.auditing.adjacent_replay import SLACK, Finding, replay, replays
from mpinodes.auditing.games import Canary, Ready, guess
from mpinodes.auditing.node_views import proven_toward
from mpinodes.auditing.noise import NoiseDraws, drawn_again, drawn_in, draws_needed, least_found
from mpinodes.auditing.recorded_frames import compare
from mpinodes.auditing.small_experiments import own_sizes
from mpinodes.auditing.statistics import CERTAIN, Shown, guessed, told_apart
from mpinodes.auditing.transcripts import NotThatRun, Replayed, Transcript, simulate
from mpinodes.config.compose import compose
from mpinodes.core import Diverged, Setup, Vector
from mpinodes.core.errors import BadInput
from mpinodes.presentation.privacy_words import number
from mpinodes.summary.summary import LossSummary

FALSE_ALARM = 0.001  # largest probability that an audit of a correct run refutes any proven value
OF_NOISE = 0.5  # share of FALSE_ALARM that the noise tests use; the games use the rest
SETS = 2  # number of sets of noise tests: on the noise of the run, and on noise drawn again
FOUND, OFF = 0.999, 0.05  # a relative error OFF of a noise scale should be detected with probability FOUND
AGENTS, FOLLOWED = 4, 4  # of `of_settings`: agents replayed, and changed rounds compared up to the last message
ROUNDING = 1e-7  # relative rounding error of the bounds on hidden state, over all rounds
MANY = "adjacent data, many runs"  # the label of a probe without a name
REFUTED = "REFUTES THE PROVEN VALUE"


class Verdict(NamedTuple):
    """Hold one row of the audit's table.

    Attributes:
        what: what was examined.
        shown: the result in numbers.
        verdict: the conclusion in words.
        refuted: whether the result shows that a proven value is false.
        claimed: the ε that the paper claims; None if there is none.
        pure, at_delta: the proven pure ε, and the proven ε at δ; None if nothing is proven.
    """

    what: str
    shown: str
    verdict: str
    refuted: bool
    claimed: float | None = None
    pure: float | None = None
    at_delta: float | None = None


def of_summary(loss: LossSummary) -> Verdict:
    """Return a table row with the claimed and the proven ε of the run."""
    words = (number(loss.claimed, "none"), number(loss.proven_pure), number(loss.proven))
    shown = f"claimed {words[0]}, proven pure {words[1]}, at δ {words[2]}"
    return Verdict("privacy loss", shown, "as reported", False)


def of_replay(findings: list[Finding]) -> Verdict:
    """Return a table row that says whether the replays refute the accountant.

    The replays refute the accountant in two cases:

    - A message changed by more than the accountant's bound.
    - A fact that a message states about itself, such as a sensitivity, depends on the data.
    """
    worst = max(findings, key=lambda f: (f.exceeded, max(f.direct, f.hidden)))
    over = max(worst.direct, worst.hidden)
    where = f"agent {worst.agent}, round {worst.round}"
    tried = f"{sum(f.changes for f in findings)} adjacent data sets"
    shown = f"{tried}: the largest change of a message is {over:.4f} of the accounted change ({where})"
    if worst.exceeded:
        reason = "changes by more than its bound" if worst.public else "states a fact that depends on the data"
        return Verdict("replay", shown, f"{REFUTED}: a message {reason}", True)
    return Verdict("replay", shown if over else f"{tried}: no message with a finite bound changed", "holds", False)


def of_noise(drawn: NoiseDraws, alpha: float, label: str) -> Verdict:
    """Return a table row that says whether the noise has the distribution that the mechanism states.

    The row also says how much too small the noise scale must be for the test to notice. If there is no noise, or if a
    released number is not finite, the row says so.

    Args:
        drawn: the noise that was extracted from messages or drawn again.
        alpha: the probability of a false alarm.
        label: the label of the row.
    """
    if not drawn.checks:
        return Verdict(label, "no noise to test", "no noise, no privacy", False)
    if drawn.broken:
        return Verdict(label, f"{drawn.broken} numbers that are not finite", f"{REFUTED}: they have no noise", True)
    worst = min(drawn.checks, key=lambda check: check.p)
    failed = ", ".join(check.name for check in drawn.fails(alpha))
    least = alpha / len(drawn.checks)
    shortfall = least_found(drawn.number, drawn.linear, least, FOUND)
    power = f"a scale {shortfall:.1%} too small is detected with probability {FOUND}"
    if shortfall > OFF:
        power += f"; {OFF:.0%} would need {draws_needed(OFF, drawn.linear, least, FOUND):,} draws"
    shown = (
        f"{drawn.number:,} draws, {drawn.ratio:.4f} times the stated scale; p ≥ {worst.p:.2g} in "
        f"{len(drawn.checks)} tests ({worst.name})\n{'':23}{power}"
    )
    verdict = f"{REFUTED}: the noise is not what was accounted for ({failed})" if failed else "holds"
    return Verdict(label, shown, verdict, bool(failed))


def of_frames(run: Transcript, agents: list[Replayed]) -> Verdict:
    """Return a table row that says whether headers, scalars and relayed vectors follow from public facts and releases.

    A release is a vector that was sent with noise. Releases are compared, too, if their noise can be drawn again.
    """
    numbers, slips = compare(run, agents)
    if not slips:
        shown = f"all {numbers:,} compared numbers follow, bit by bit, from public facts and releases"
        return Verdict("frames", shown, "holds", False)
    shown = f"{len(slips)} parts of messages do not follow from public facts and releases, first: {slips[0].line}"
    return Verdict("frames", shown, f"{REFUTED}: a number is sent without noise, and may reveal data", True)


def of_settings(own: Setup, folder: Path, seed: int) -> list[Verdict]:
    """Replay the run's agents on extreme data and with other batch sizes, and return rows with the result.

    - If all replays agree with the accountant: there is one row.
    - If replays refute the accountant: there is a row for each experiment with such a replay.
    - If no experiment can be run: one row says so.

    Args:
        own: the setup of the run.
        folder: where the data files are written.
        seed: the seed of the audit.
    """
    label, left, rows, findings, names = "other settings", "", list[Verdict](), list[Finding](), list[str]()
    try:
        for name, asked in own_sizes(own, folder, seed):
            run = simulate(compose(asked, ranks=None))
            agents = np.unique(np.linspace(0, len(run.agents) - 1, AGENTS).round().astype(int))
            replayed = [replay(run, int(agent), FOLLOWED, seed) for agent in agents]
            replayed = [finding._replace(hidden=finding.hidden / (1 + ROUNDING)) for finding in replayed]
            row = of_replay(replayed)
            rows += [row._replace(what=label, shown=f"{name}: {row.shown}")] * row.refuted
            names.append(name)
            findings += replayed
    except (BadInput, Diverged) as error:
        left = f"; left out, its own sizes: {error}"
    if not findings:
        return [Verdict(label, f"no experiment could be run{left}", "not tested", False)]
    over = max(max(finding.direct, finding.hidden) for finding in findings)
    moved = f"the largest change is {over:.4f} of the accounted change ({', '.join(names)}{left})"
    return rows or [Verdict(label, f"{sum(f.changes for f in findings)} adjacent data sets: {moved}", "holds", False)]


def of_run(run: Transcript, seed: int) -> list[Verdict]:
    """Test a run, and return a table row for each test.

    The tests are:

    - Do the messages follow from the recorded releases? If they do not, there is only one row, which says so.
    - Do headers, scalars and relayed vectors follow from public facts and releases?
    - Does a message change by more than the accountant assumes if an agent runs again on adjacent data?
    - Does the noise of the run have the stated distribution?
    - If the run has noise: does noise that is drawn again have the stated distribution?

    Args:
        run: the run.
        seed: the seed of the audit.

    Raises:
        BadInput: the run noises gradients or has secret batches, but its noise cannot be drawn again.
    """
    try:
        agents = run.replayed()
        for agent in agents:
            agent.require_same_run(run)
    except NotThatRun as error:
        verdict = f"{REFUTED}: messages do not follow from the recorded releases"
        return [Verdict("one release for all", str(error), verdict, True)]
    alpha = FALSE_ALARM * OF_NOISE / SETS
    rows = [
        Verdict("one release for all", "every message follows from the recorded releases", "holds", False),
        of_frames(run, agents),
        of_replay(replays(run, seed)),
        of_noise(drawn_in(run, agents), alpha, "noise"),
    ]
    if run.setup.experiment.private:
        again = drawn_again(run, agents, seed)
        if again.number:
            rows.append(of_noise(again, alpha, "noise drawn again"))
    return rows


def judge(shown: Shown, claimed: float | None, pure: float | None, at_delta: float | None) -> tuple[str, bool]:
    """Compare the lower bounds on ε of a game with the claimed and the proven ε.

    Args:
        shown: the lower bounds.
        claimed: the ε that the paper claims; None if there is none.
        pure: the proven pure ε; None if nothing is proven.
        at_delta: the proven ε at δ; None if nothing is proven.

    Returns:
        The conclusion in words, and whether a lower bound refutes a proven ε.
    """
    limits = [inf if epsilon is None else epsilon * SLACK for epsilon in (claimed, pure, at_delta)]  # plus rounding
    if shown.pure > limits[1] or shown.at_delta > limits[2]:
        return REFUTED, True
    proven, least = (at_delta, shown.at_delta) if pure is None and at_delta is not None else (pure, shown.pure)
    if least > limits[0]:
        unproven = "" if at_delta is not None else "; unproven, as reported"
        return f"refutes the paper's claim (LB {number(least)} > claim {number(claimed)}){unproven}", False
    if at_delta is None:
        return "unproven, as reported", False
    if claimed is None or (proven is not None and proven < claimed):
        return f"holds (LB {number(least)} ≤ proven {number(proven)})", False
    return f"holds (LB {number(least)} ≤ claim {number(claimed)})", False


def of_probe(ready: Ready, target: Canary | None, ratios: Vector | None, alpha: float, seed: int) -> list[Verdict]:
    """Return a table row with the result of one game.

    In a game on two data sets, the run of the game is also replayed. If the replay refutes the proven value, a second
    row says so.

    Args:
        ready: the experiment of the game, after its first run.
        target: the adjacent data set; None for the game on one run.
        ratios: (k, 2) the log-likelihood ratios of k pairs of runs, one run on each data set; None for the game on one
            run.
        alpha: the probability that a lower bound is wrong.
        seed: the seed of the audit.
    """
    label, loss, setup = ready.probe.what or MANY, ready.summary.privacy.network, ready.run.setup
    values = loss.claimed, loss.proven_pure, loss.proven
    if setup.experiment.privacy.adjacency != "one-sample":
        label = f"{label} ({setup.experiment.privacy.adjacency})"
    if target is None or ratios is None:
        right, made, secrets = guess(ready)
        shown = Shown(guessed(right, made, alpha), 0.0)
        words = f"{number(shown.pure)}   ({right} of {made} guesses right, {secrets} secrets)"
        return [Verdict(label, words, *judge(shown, *values), *values)]
    if target.sight and (toward := proven_toward(setup, ready.run, target.agents[0])) is not None:
        values = loss.claimed, None, toward
    shown = CERTAIN  # a message without noise reveals the data set
    if not np.isinf(target.size):
        delta, gaussian = setup.experiment.privacy.delta, ready.gaussian and not ready.sampled
        shown = told_apart(ratios[:, 0], ratios[:, 1], delta, alpha, gaussian, ready.sampled)
    words = number(shown.at_delta if values[1] is None and values[2] is not None else shown.pure)
    moved = of_replay(replays(ready.run, seed))._replace(what=f"{label}: replay")
    return [Verdict(label, words, *judge(shown, *values), *values), *([moved] if moved.refuted else [])]


def table(title: str, own: list[Verdict], probes: list[Verdict], alpha: float, view: str = "links") -> str:
    """Return the audit's table as text.

    Args:
        title: the first line.
        own: rows of the run itself.
        probes: rows of the games.
        alpha: each lower bound is wrong with probability at most alpha.
        view: the setting `audit.view`: "links" if the adversary of the games sees all links.
    """
    lines = [title, "", "this run"]
    lines += [f"  {row.what + ':':21}{row.shown}\n{'':23}{row.verdict}" for row in own]
    confidence = f"{1 - alpha:.2%}".rstrip("0%").rstrip(".")
    if view == "links":
        lines += [
            "", f"probes: lower bounds on the ε of all messages, each with {confidence} % confidence",
            "(the algorithm on small problems, with all keys algorithm.* that are strings; one-sample, unless named)",
        ]  # fmt: skip
    else:
        lines += ["", f"this run against audit.view={view}: a lower bound on ε, with {confidence} % confidence"]
    lines.append(f"  {'':46}{'ε ≥':>8}{'claimed':>10}{'proven pure':>13}{'at δ':>10}")
    for row in probes:
        least, _, rest = row.shown.partition("   ")
        if row.what.endswith(": replay"):
            lines.append(f"  {row.what}: {row.shown}\n{'':48}{row.verdict}")
            continue
        values = f"{number(row.claimed, 'none'):>10}{number(row.pure):>13}{number(row.at_delta):>10}"
        lines.append(f"  {row.what:46}{least:>8}{values}  {row.verdict} {rest}".rstrip())
    return "\n".join(lines)
