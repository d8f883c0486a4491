"""The papers' theorems: what they claim of privacy beside what is proven, and their bounds beside what is measured.

Small runs of theorems.toml. A bound holds where it is above the mean that was measured; where it is a thousand times as
large it is said to tell nothing. Sensitivities are tested by replay: a sample is replaced, and the messages
that a recorded run would then have sent are made again; 1 is what the lemma allows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from desk import NOT, ORDER, REPRODUCED, UNCONFIRMED, Desk, Verdict, judged, not_done
from threadpoolctl import threadpool_limits

from mpinodes.auditing.adjacent_replay import replay
from mpinodes.auditing.changes import adjacent
from mpinodes.auditing.transcripts import Recorded, Replayed
from mpinodes.finished.runs import FinishedRun
from mpinodes.summary.summary import BoundSummary

NEEDS: tuple[str, ...] = ()
SETTINGS = ("theorems.toml",)
ROUNDING = 1e-9
VACUOUS = 1e3  # times what is measured, from where a bound says nothing

By = dict[str, list[FinishedRun]]  # the runs of a case, by seed


class Privacy(NamedTuple):
    """A theorem on privacy, and the case that shows it."""

    paper: str
    item: str
    case: str
    claim: str
    because: str = ""


HIDDEN = "the gradient is taken at a hidden point, which an older sample moved"
CLAIMS = (
    Privacy("dpsda", "Theorem 2", "dpsda-c", "Tε of what an agent sends", HIDDEN),
    Privacy("dpsda", "Theorem 2", "dpsda-c-public", "the same with gradients at public points"),
    Privacy("dpsda", "Theorem 4", "dpsda-ps", "Tε of what an agent sends", HIDDEN),
    Privacy("dpsda", "Theorem 4", "dpsda-ps-public", "the same with gradients at public points"),
    Privacy("madmm", "Theorem 4.1", "pp-admm", "at most β in all"),
    Privacy(
        "weight-balancing", "Theorem 1", "weight-balancing", "ε in all",
        f"{HIDDEN}, and the noise is that of another round's step",
    ),
    Privacy("weight-balancing", "Theorem 1", "weight-balancing-public", "the same, public points and the right step"),
    Privacy("dola", "Lemma 2", "dola", "ε of a round, each sample used in one"),
    Privacy("dola", "Theorem 1", "dola", "ε in all, each sample used once"),
    Privacy("dola", "Lemma 8", "dola-minibatch", "ε of a round", "φ w_t is the hidden w_t: older samples move it"),
    Privacy("dola", "Theorem 3", "dola-minibatch", "ε in all", "φ w_t is the hidden w_t: older samples move it"),
    Privacy("dola", "Theorem 3", "dola-minibatch-public", "the same with φ at public points"),
    Privacy("two-stage", "Theorem 1", "two-stage", "(ε, δ) in all, x(T) handed over with noise"),
    Privacy(
        "two-stage", "Theorem 1", "two-stage-clean", "(ε, δ) in all, as (12) is printed",
        "x(T) is handed over as it is, with a gradient that no noise covers",
    ),
    Privacy("two-stage", "Corollary 1", "two-stage", "(ε, δ) by its schedule of M_t"),
)  # fmt: skip

SENSITIVITIES = (
    ("dpsda", "Lemma 1", "dpsda-c"),
    ("dpsda", "Lemma 4", "dpsda-ps"),
    ("weight-balancing", "Lemma 1", "weight-balancing"),
    ("dola", "Lemma 1", "dola"),
    ("dola", "Lemma 7", "dola-minibatch"),
    ("two-stage", "Proposition 3", "two-stage"),
)

BOUNDS = (
    ("dpsda", "Theorem 3", "dpsda-c-metropolis", "Theorem 3"),
    ("dpsda", "Corollary 1", "dpsda-c-metropolis", "Corollary 1"),
    ("dpsda", "Theorem 5", "dpsda-ps-unclipped", "Theorem 5"),
    ("dpsda", "Corollary 2", "dpsda-ps-unclipped", "Corollary 2"),
    ("weight-balancing", "Theorem 2, its bound", "weight-balancing", "Theorem 2"),
    ("weight-balancing", "Theorem 3, its bound", "weight-balancing-convex", "Theorem 3"),
    ("dola", "Theorem 2", "dola", "Theorem 2"),
    ("dola", "Theorem 2", "dola-convex", "Theorem 2"),
    ("dola", "Theorem 4", "dola-minibatch-public", "Theorem 4"),
    ("two-stage", "Theorem 2", "two-stage", "Theorem 2"),
    ("two-stage", "Corollary 2", "two-stage", "Corollary 2"),
)


def redraw(desk: Desk) -> list[Verdict]:
    words = ["rounds=22", "study.seeds=1"] if desk.quick else []
    by: By = {}
    for run in desk.study("theorems.toml", *words):
        by.setdefault(run.keys["name"], []).append(run)
    return [*map(lambda c: private(c, by[c.case]), CLAIMS), *sensitivities(by, desk), *bounds(by)]


def private(claim: Privacy, runs: list[FinishedRun]) -> Verdict:
    """What is claimed and proven of the worst agent, and of the network together."""
    agents, network = runs[0].summary.privacy.agents, runs[0].summary.privacy.network
    key = "proven" if claim.paper == "two-stage" else "proven_pure"
    claimed = max(agent.claimed or np.inf for agent in agents)
    losses = [np.inf if (loss := getattr(part, key)) is None else float(loss) for part in (*agents, network)]
    proven, together, rounds = max(losses[:-1]), losses[-1], runs[0].summary.rounds
    holds, moved = proven <= claimed * (1 + ROUNDING), 0.0 if np.isfinite(proven) else bare(runs[0])
    because = f"its proof does not cover it: {claim.because}" if claim.because else ""
    if not holds:
        shown = f"by replay, a message without noise moves by {moved:.2g}" if moved else "a larger loss is all that is"
        because += f"; {shown}" + (" on adjacent data" if moved else " proven: an upper bound, no attack")
    print(f"{claim.case:26} T = {rounds}: claimed {claimed:.4g}, proven: an agent {proven:.4g}, network {together:.4g}")
    return Verdict(
        claim.paper, claim.item, claim.claim, REPRODUCED if holds else NOT if moved else UNCONFIRMED,
        f"proven {told(proven)} of an agent, {told(together)} of the network, T = {rounds}", f"ε = {claimed:.4g}",
        f"× {proven / claimed:.3g}" if np.isfinite(proven) else "", 0, because,
    )  # fmt: skip


def bare(run: FinishedRun) -> float:
    """The most that a message of agent 0 without noise moves when a sample of round 1 is another, wherever it comes."""
    recorded = Recorded(run.place)
    replayed, total = Replayed(recorded, 0), len(recorded.frames)
    clean = recorded.events[:, 0].scale == 0
    with threadpool_limits(1):
        changes = adjacent(recorded.setup, recorded.losses(0), 0, 1, np.random.default_rng(0))
        return max(float(replayed.moved(change, total)[0][..., 1][clean].max(initial=0.0)) for change in changes)


def told(epsilon: float) -> str:
    return f"ε = {epsilon:.4g}" if np.isfinite(epsilon) else "nothing"


def sensitivities(by: By, desk: Desk) -> Iterator[Verdict]:
    for paper, item, case in SENSITIVITIES[3:4] if desk.quick else SENSITIVITIES:
        recorded = Recorded(by[case][0].place)
        agents = range(1 if desk.quick else recorded.setup.topology.agents)
        with threadpool_limits(1):
            findings = [replay(recorded, i, 1 if desk.quick else 4, 0) for i in agents]
        most = max(finding.direct for finding in findings)
        changes = sum(finding.changes for finding in findings)
        print(f"{case:26} largest realised/claimed change {most:.4f} of {changes} adjacent data sets")
        yield Verdict(
            paper, item, "the message that carries a sample moves by no more", REPRODUCED if most <= 1 + 1e-6 else NOT,
            f"largest realised change over the claimed: {most:.3g}, of {changes} adjacent data sets", "1",
        )  # fmt: skip


def bounds(by: By) -> Iterator[Verdict]:
    for paper, item, case, theorem in BOUNDS:
        runs = by[case]
        own = [bound for bound in runs[0].summary.bounds if bound.name.startswith(f"{theorem},")]
        for k, bound in enumerate(own):
            same = [[b for b in run.summary.bounds if b.name.startswith(f"{theorem},")][k] for run in runs]
            yield beside(paper, item, case, same, bound.name.removeprefix(f"{theorem}, "))


def beside(paper: str, item: str, case: str, same: list[BoundSummary], form: str) -> Verdict:
    """One bound and what it bounds, both in the mean over the seeds: the theorem is of an expectation."""
    value, measured = np.array([[b.value, b.measured] for b in same], float).mean(axis=0)  # None is nan
    applies = all(b.applies for b in same)
    claim = f"bound on {same[0].label}, {form}"
    print(f"{case:26} {same[0].name:34} {same[0].of:32} {value:10.3g} measured {measured:10.3g}")
    if not applies:
        return not_done(paper, item, f"{claim} ({case})", f"the run is not what it assumes: {same[0].why_not}")
    says_little = bool(value > VACUOUS * abs(measured))
    return Verdict(
        paper, item, f"{claim} ({case})", judged(bool(value >= measured), ORDER if says_little else REPRODUCED),
        f"measured {measured:.3g}", f"at most {value:.3g}", f"× {value / measured:.2g}" if measured > 0 else "",
        len(same), "true, and too large to say anything" if says_little else "",
    )  # fmt: skip
