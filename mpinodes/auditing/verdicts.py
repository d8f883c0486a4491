"""The rows of the audit's table: results of the tests, beside the paper's claim and the accountant's proof."""

from __future__ import annotations

from math import inf
from typing import NamedTuple

from mpinodes.auditing import recorded_frames as frames
from mpinodes.auditing.adjacent_replay import SLACK, Finding
from mpinodes.auditing.draws import NoiseDraws, drawn_again, drawn_in
from mpinodes.auditing.games import Canary, Guesses, Ready, apart, guess, replays
from mpinodes.auditing.node_views import proven_toward
from mpinodes.auditing.noise import NoiseTests, draws_needed, examine, least_found
from mpinodes.auditing.settings import Tried
from mpinodes.auditing.statistics import Shown
from mpinodes.auditing.transcripts import NotThatRun, Replayed, Transcript
from mpinodes.core import Vector
from mpinodes.presentation.privacy_words import number
from mpinodes.summary.summary import LossSummary

FALSE_ALARM = 0.001  # probability that an audit of a correct run refutes anything, at most
OF_NOISE = 0.5  # the noise tests' share of it
SETS = 3  # sets of noise tests: of the run, of noise drawn again, of the probes' runs
FOUND, OFF = 0.999, 0.05  # the wanted probability of detecting a scale with this relative error
REFUTED = "REFUTES THE PROVEN VALUE"


class Verdict(NamedTuple):
    """One row of the table.

    Attributes:
        what: what was examined.
        shown: the result in figures.
        verdict: the conclusion in words.
        refuted: whether a proven value is false.
        claimed, pure, at_delta: the paper's ε, and the proven ones; None if there is none.
    """

    what: str
    shown: str
    verdict: str
    refuted: bool
    claimed: float | None = None
    pure: float | None = None
    at_delta: float | None = None


def of_summary(loss: LossSummary) -> Verdict:
    """Return a row with the privacy loss as the run reports it."""
    words = (number(loss.claimed, "none"), number(loss.proven_pure), number(loss.proven))
    shown = f"claimed {words[0]}, proven pure {words[1]}, at δ {words[2]}"
    return Verdict("privacy loss", shown, "as reported", False)


def of_replay(findings: list[Finding]) -> Verdict:
    """Judge whether no message changed by more than its bound."""
    worst = max(findings, key=lambda f: (f.exceeded, max(f.direct, f.hidden)))
    over = max(worst.direct, worst.hidden)
    where = f"agent {worst.agent}, round {worst.round}"
    tried = f"{sum(f.changes for f in findings)} adjacent data sets"
    shown = f"{tried}: a message moved by at most {over:.4f} of the accounted change ({where})"
    if not worst.public:
        return Verdict("replay", shown, f"{REFUTED}: a sensitivity depends on the data", True)
    if worst.exceeded:
        return Verdict("replay", shown, f"{REFUTED}: a message moves further", True)
    return Verdict("replay", shown if over else f"{tried}: no message with a bound moved", "holds", False)


def of_noise(drawn: NoiseDraws, noise: NoiseTests, alpha: float, label: str) -> Verdict:
    """Judge whether the noise is as the events state, and say how small a shortfall would be detected."""
    if not noise.checks:
        return Verdict(label, "no noise to test", "no noise, no privacy", False)
    worst = min(noise.checks, key=lambda check: check.p)
    failed = ", ".join(check.name for check in noise.fails(alpha))
    if drawn.broken:
        return Verdict(label, f"{drawn.broken} numbers that are not finite", f"{REFUTED}: they carry no noise", True)
    least = alpha / len(noise.checks)
    shortfall = least_found(drawn.number, drawn.linear, least, FOUND)
    power = f"a scale {shortfall:.1%} too small is detected with probability {FOUND}"
    if shortfall > OFF:
        power += f"; {OFF:.0%} would need {draws_needed(OFF, drawn.linear, least, FOUND):,} draws"
    shown = (
        f"{noise.draws:,} draws, {noise.ratio:.4f} times the stated scale; p ≥ {worst.p:.2g} in "
        f"{len(noise.checks)} tests ({worst.name})\n{'':23}{power}"
    )
    verdict = f"{REFUTED}: the noise is not what was accounted for ({failed})" if failed else "holds"
    return Verdict(label, shown, verdict, bool(failed))


def of_frames(remade: frames.RemadeFrames) -> Verdict:
    """Judge whether all parts of frames without noise follow from public facts and releases."""
    if not remade.slips:
        return Verdict(
            "frames", f"{remade.words:,} words follow, to the bit, from public facts and releases", "holds", False
        )
    shown = f"{len(remade.slips)} of {remade.words:,} words do not follow from public facts and releases"
    verdict = f"{REFUTED}: something travels without noise"
    return Verdict("frames", f"{shown}: {remade.slips[0].line}", verdict, True)


def of_settings(experiments: list[Tried]) -> list[Verdict]:
    """Judge replays on other data and under other settings: one row if all hold, else a row for each that does not."""
    label = "other settings"
    replayed = [experiment for experiment in experiments if experiment.findings]
    rows = [(experiment, of_replay(experiment.findings)) for experiment in replayed]
    if bad := [
        row._replace(what=label, shown=f"{experiment.what}: {row.shown}") for experiment, row in rows if row.refuted
    ]:
        return bad
    left = "".join(f"; left out, {experiment.what}: {experiment.why}" for experiment in experiments if experiment.why)
    if not replayed:
        return [Verdict(label, f"none could be tried{left}", "not tested", False)]
    every = [finding for experiment in replayed for finding in experiment.findings]
    over = max(max(finding.direct, finding.hidden) for finding in every)
    names = ", ".join(experiment.what for experiment in replayed)
    count = sum(finding.changes for finding in every)
    shown = f"{count} adjacent data sets: moved by {over:.4f} of the accounted change ({names}{left})"
    return [Verdict(label, shown, "holds", False)]


def of_run(run: Transcript, seed: int) -> list[Verdict]:
    """Test a run: whether messages follow from the recorded releases, its frames, replay and noise."""
    try:
        agents = [Replayed(run, agent) for agent in range(run.setup.topology.agents)]
        for agent in agents:
            agent.require_same_run(run)
    except NotThatRun as error:
        verdict = f"{REFUTED}: messages do not follow from the recorded releases"
        return [Verdict("one release for all", str(error), verdict, True)]
    shown, alpha = "every message follows from the releases recorded", FALSE_ALARM * OF_NOISE / SETS
    rows = [
        Verdict("one release for all", shown, "holds", False),
        of_frames(frames.compare(run, agents)),
        of_replay(replays(run, seed)),
    ]
    own = drawn_in(run, agents)
    rows.append(of_noise(own, examine(own), alpha, "noise"))
    if run.setup.experiment.private:
        again = drawn_again(run, agents, seed)
        if again.number:
            rows.append(of_noise(again, examine(again), alpha, "noise drawn again"))
    return rows


def of_probes(ready: list[Ready]) -> list[Verdict]:
    """Test the noise and the frames of the probes' own runs; return the rows that refute."""
    rows = []
    for probe in ready:
        agents = [Replayed(probe.run, agent) for agent in range(probe.run.setup.topology.agents)]
        drawn, label = drawn_in(probe.run, agents), probe.probe.what or "adjacent data, many runs"
        rows.append(of_noise(drawn, examine(drawn), FALSE_ALARM * OF_NOISE / SETS / len(ready), f"{label}: noise"))
        rows.append(of_frames(frames.compare(probe.run, agents))._replace(what=f"{label}: frames"))
    return [row for row in rows if row.refuted]


def judge(shown: Shown, claimed: float | None, pure: float | None, at_delta: float | None) -> tuple[str, bool]:
    """Return the verdict on a lower bound, and whether it refutes a proven value."""
    if shown.pure > _limit(pure) or shown.at_delta > _limit(at_delta):
        return REFUTED, True
    at = pure is None and at_delta is not None  # only ε at δ is proven
    least = shown.at_delta if at else shown.pure
    if claimed is not None and least > _limit(claimed):
        unproven = "" if at_delta is not None else "; unproven, as reported"
        return f"refutes the paper's claim (LB {number(least)} > claim {number(claimed)}){unproven}", False
    if at_delta is None:
        return "unproven, as reported", False
    proven = at_delta if at else pure
    if claimed is None or (proven is not None and proven < claimed):
        return f"holds (LB {number(least)} ≤ proven {number(proven)})", False
    return f"holds (LB {number(least)} ≤ claim {number(claimed)})", False


def _limit(epsilon: float | None) -> float:
    """Return an ε with slack for rounding, or inf for None."""
    return inf if epsilon is None else epsilon * SLACK


def of_probe(ready: Ready, target: Canary | None, ratios: Vector | None, alpha: float, seed: int) -> list[Verdict]:
    """Judge the game of one probe, and its replay if that fails."""
    label, loss = ready.probe.what or "adjacent data, many runs", ready.summary.privacy.network
    values = loss.claimed, loss.proven_pure, loss.proven
    if target and target.sight and (toward := proven_toward(ready.run.setup, ready.run, target.agents[0])) is not None:
        values = loss.claimed, None, toward
    if target is None or ratios is None:
        guesses: Guesses = guess(ready)
        shown = guesses.shown(alpha)
        words = f"{number(shown.pure)}   ({guesses.right} of {guesses.made} guesses right, {guesses.secrets} secrets)"
    else:
        shown = apart(ready, target, ratios, alpha)
        words = number(shown.at_delta if values[1] is None and values[2] is not None else shown.pure)
    verdict, refuted = judge(shown, *values)
    rows = [Verdict(label, words, verdict, refuted, *values)]
    moved = of_replay(replays(ready.run, seed)) if target else None
    if moved and moved.refuted:
        rows.append(moved._replace(what=f"{label}: replay"))
    return rows


def table(title: str, own: list[Verdict], probes: list[Verdict], alpha: float, view: str = "links") -> str:
    """Format all rows as text.

    Args:
        title: the first line.
        own: rows of the run itself.
        probes: rows of the games.
        alpha: each bound is wrong with probability at most alpha.
        view: whose ε the games bound: "links", or the view of `audit.view`.
    """
    lines = [title, "", "this run"]
    lines += [f"  {row.what + ':':21}{row.shown}\n{'':23}{row.verdict}" for row in own]
    confidence = f"{1 - alpha:.2%}".rstrip("0%").rstrip(".")
    head = f"  {'':46}{'ε ≥':>8}{'claimed':>10}{'proven pure':>13}{'at δ':>10}"
    if view == "links":
        lines += [
            "", f"probes: lower bounds on the joint view's ε, each with {confidence} % confidence",
            "(the algorithm on small problems; only word-valued algorithm.* keys of the run apply)",
        ]  # fmt: skip
    else:
        lines += ["", f"this run against audit.view={view}: a lower bound on ε, with {confidence} % confidence"]
    lines.append(head)
    for row in probes:
        least, _, rest = row.shown.partition("   ")
        if row.what.endswith((": replay", ": noise", ": frames")):
            lines.append(f"  {row.what}: {row.shown}\n{'':48}{row.verdict}")
            continue
        values = f"{number(row.claimed, 'none'):>10}{number(row.pure):>13}{number(row.at_delta):>10}"
        lines.append(f"  {row.what:46}{least:>8}{values}  {row.verdict} {rest}".rstrip())
    return "\n".join(lines)
