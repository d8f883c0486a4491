"""Tests of the statements in messages, by replays of every agent on data that move messages as far as possible."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

import numpy as np
from numpy.random import Generator

from mpinodes.auditing.adjacent_replay import SLACK, Compared, compared
from mpinodes.auditing.changes import Change, adjacent, carries, changed, usual
from mpinodes.auditing.checks.failures import Fault, Report, shown
from mpinodes.auditing.checks.walks import walk
from mpinodes.auditing.transcripts import Replayed, Transcript, clean_vectors
from mpinodes.core import ALL, RELEASED, UNKNOWN, Feedback, Hidden, Queries, Query, Relay, Solve, Start, Vector
from mpinodes.core.experiment import log_spaced
from mpinodes.core.messages import HEADER, HIDDEN_KIND, RELEASED_KIND
from mpinodes.losses.linear import Around

MESSAGES = (Query, Queries, Solve, Start, Relay)
LEAKS = (Feedback, Hidden, type(RELEASED), type(UNKNOWN), type(None))
SOLVES, POINTS = 4, 8  # minimizations that are tested at random points, and how many points
FOLLOWED = 7  # changed rounds whose later messages are all compared
BRIEF, FEW = 60, 3  # runs above so many rounds try so few data sets in the other changed rounds
ENOUGH = 4  # faults of an agent, after which its tests end
RELATIVE = 1e-7  # relative rounding error of a bound over many rounds


def statements(run: Transcript, seed: int, report: Report) -> None:
    """Test all statements of every agent: of its own messages, and on adjacent data that change each round in turn."""
    for agent in run.agents:
        rng, replayed = np.random.default_rng([seed, agent]), Replayed(run, agent)
        own = chain(possible(run, replayed), gradients_outside(run, agent), carried_on(run, agent, rng))
        report.take("", islice(chain(own, _replays(run, replayed, rng, report)), ENOUGH), where=run.label)


def possible(run: Transcript, replayed: Replayed) -> Iterator[Fault]:
    """Find messages on the agent's own data that are not finite, or that state impossible facts."""
    messages: list[Any] = replayed.messages
    for t, message in enumerate(messages, 1):
        where, values = f"{run.label}: message() of agent {replayed.agent}, round {t}", clean_vectors(message)
        uses = getattr(message, "uses", 0)
        is_exact = type(message) in MESSAGES and all(type(value) is np.ndarray for value in values)
        is_bare = not run.setup.algorithm.solves and type(message) is Query
        if not is_exact or type(getattr(message, "leaks", None)) not in LEAKS:
            right = "a Query, Queries, Solve, Start or Relay itself, of plain arrays, and leaks of mpinodes.core"
            yield Fault("a message of a type of its own", f"{where}: {type(message).__name__}", right)
        elif infinite := [value for value in values if not np.isfinite(value).all()]:
            right = "a message is a vector of finite numbers"
            yield Fault("a message that is not finite", f"{where}: {shown(infinite[0].tolist())}", right)
        elif is_bare and (message.residual or message.solver_steps):
            stated = f"residual={message.residual}, solver_steps={message.solver_steps}"
            right = "they are recorded without noise: only an algorithm with solves = True may set them"
            yield Fault("a local solve where there is none", f"{where}: {stated}", right)
        elif uses != int(uses) or not 0 <= uses <= t:
            right = "the round whose loss first reaches the network with this message: usually t - 1, 0 for none"
            yield Fault("`uses` names no round that was", f"{where}: uses={uses}", right)
        else:
            continue
        return


@dataclass(slots=True)
class Asked(Around):
    """A loss that records each point at which a gradient is requested."""

    points: list[Vector]

    def grad(self, x: Vector, block: slice = ALL) -> Vector:
        """Return the gradient of the wrapped loss, and record the point."""
        self.points.append(x.copy())
        return self.loss.grad(x, block)

    def data_grad(self, x: Vector, block: slice = ALL) -> Vector:
        """Return the samples' gradient of the wrapped loss, and record the point."""
        self.points.append(x.copy())
        return self.loss.data_grad(x, block)


def gradients_outside(run: Transcript, agent: int) -> Iterator[Fault]:
    """Find gradients at points outside the set, for an algorithm that states `gradients_in_set`."""
    setup, points, project = run.fresh().setup, list[Vector](), run.setup.feasible.project
    own = setup.losses(agent)
    stated = vars(type(setup.algorithm)).get("gradients_in_set", False)
    for call in walk(setup, run.frames, agent, lambda t: Asked(own(t), points)) if stated else ():
        if not all(np.allclose(x, project(x.copy()), rtol=1e-9, atol=1e-12) for x in points):
            yield Fault(
                "a gradient outside the set", f"{run.label}: update() of agent {agent}, round {call.here.t}",
                "gradients_in_set = True requires that every point at which a gradient is taken is projected",
            )  # fmt: skip
            return


def carried_on(run: Transcript, agent: int, rng: Generator) -> Iterator[Fault]:
    """Test `carried_on` by replay: with other messages received, and with a changed sample but the same messages."""
    setup, moved = run.setup, run.frames.copy()
    if not setup.algorithm.whole_data or np.isfinite(setup.experiment.clip):
        return  # the accountant does not use it here
    moved[..., HEADER : HEADER + setup.dimension] += rng.normal(size=(*moved.shape[:2], setup.dimension))
    losses = setup.losses(agent)
    other = changed(losses, setup.stream.samples(agent), [*usual(setup, losses, agent, 1, rng)][3])
    tried = ((run.frames, None), (moved, None), (run.frames, other))
    walks = [walk(run.fresh().setup, frames, agent, of) for frames, of in tried]
    carried, parts = np.zeros(setup.dimension), list[Vector]()
    for own, heard, adjacent_data in zip(*walks, strict=True):
        message: Any = own.message
        is_own = own.here.t > 1 and isinstance(message, Query) and np.isfinite(message.l2)
        factor = setup.algorithm.carried_on(own.here.t) if is_own else None
        if factor is not None:
            value, slack = message.value, 1e-6 * (1 + np.abs(message.value).max())
            parts.append((adjacent_data.message.value - value) / message.l2)
            is_so = np.allclose(heard.message.value - value, factor * carried, atol=slack)
            if not is_so or not np.allclose(parts[-1] * message.l2, parts[0] * message.l2, atol=slack):
                yield Fault(
                    "carried_on() is not so", f"{run.label}: message() of agent {agent}, round {own.here.t}",
                    f"{factor:.4g} times the mix of the round before, plus a change of size l2 along one direction",
                )  # fmt: skip
                return
        carried = heard.inbox.mix() - own.inbox.mix()


def _replays(run: Transcript, replayed: Replayed, rng: Generator, report: Report) -> Iterator[Fault]:
    """Replay an agent on adjacent data sets that change each round in turn; yield the faults of its statements."""
    agent, total = replayed.agent, len(run.frames)
    followed = {1, 2, total - 1, total // 2, *log_spaced(max(total - 1, 1), FOLLOWED).tolist()}
    ends = 3 if run.setup.algorithm.whole_data else total  # losses are the same in every round
    for round in range(1, min(total, ends)):
        changes = [*adjacent(run.setup, run.losses(agent), agent, round, rng)]
        if total > BRIEF and round not in followed:
            changes = [changes[k] for k in rng.integers(len(changes), size=FEW)]
        for change in changes:
            first = next(t for t in range(1, round + 1) if carries(run.setup, agent, t, change))
            last = total if round in followed or first < round else min(round + 2, total)
            change = change._replace(round=first)
            report.take("adjacent data sets", _misstated(run, replayed, change, last), where=run.label)
            yield from solves_at_points(run, replayed, change, rng)


def _misstated(run: Transcript, replayed: Replayed, change: Change, last: int) -> Iterator[Fault]:
    """Replay one adjacent data set; find a statement that depends on data, or that allows less change than there is."""
    where = f"{run.label}: message() of agent {replayed.agent}, round"
    replaced = f"with a sample of round {change.round} replaced"
    try:
        comparison = compared(run, replayed, change, last)
    except Exception as error:
        right = "everyone sees an exception, so it must not depend on data"
        yield Fault(
            "it fails on other data", f"{where} {change.round} or later: {type(error).__name__}: {error}", right
        )
        return
    if comparison.differing:
        t, own, other = comparison.differing[0]
        yield Fault(
            "what a message says of itself depends on data",
            f"{where} {t}: {shown(own)} on its own data, {shown(other)} {replaced}",
            "kind, sensitivities, calibration, uses and leaks are public: compute them from self.run, here and inbox",
        )
        return
    infinite = ~np.isfinite(comparison.l2).all(axis=1)
    if not np.isfinite(comparison.l2[np.isfinite(comparison.bound)]).all():
        yield Fault(
            "a message that moves without bound",
            f"{where} {change.round + int(np.argmax(infinite))}: not finite, or of another kind, {replaced}",
            "a message stays a finite vector, and of its kind, whatever the data",
        )
        return
    over = np.where(comparison.carried, comparison.over, comparison.over / (1 + RELATIVE))
    if (over > SLACK).any():
        yield _understated(run, replayed.agent, change, comparison, int(np.argmax(over > SLACK)))


def _understated(run: Transcript, agent: int, change: Change, comparison: Compared, k: int) -> Fault:
    """Describe a message that moves further than its statements allow."""
    t, events = change.round + k, run.events[change.round - 1 + k, agent]
    moved, bound = float(comparison.l2[k].max()), float(comparison.bound[k].max())
    where = (
        f"{run.label}: message() of agent {agent}, round {t}, moves by {moved:.4g} in L2 when a sample of round "
        f"{change.round} is replaced"
    )
    if comparison.carried[k]:
        return Fault(
            "a sensitivity too small",
            f"{where}; {bound:.4g} is claimed (l2={float(events.l2.max()):.4g}, l1={float(events.l1.max()):.4g}): "
            f"{comparison.over[k]:.4g} times too little, in L1 or L2",
            "l1 and l2 must bound the change of the message by any sample there could be",
        )
    uses, kind = int(events.uses), float(events.leakage("kind"))
    if not comparison.carried[: k + 1].any():
        return Fault(
            "`uses` leaves a sample out",
            f"{where}; it states uses={uses}, and no earlier message states that it carries that sample",
            "the first message that a round's loss reaches must name that round in `uses`",
        )
    if kind == RELEASED_KIND:
        return Fault(
            "hidden lag left out",
            f"{where}, after an earlier message first carried it; it states leaks=RELEASED, which allows 0",
            "a message that hidden state reaches must state leaks=Hidden(...), Feedback(...) or UNKNOWN",
        )
    leaks = "hidden parts" if kind == HIDDEN_KIND else "leakages"
    return Fault(
        "leakage understated",
        f"{where}; it and earlier messages state {leaks} that allow {bound:.4g}",
        "transition, gradient, lipschitz, largest and reads must bound the later effect of an older change",
    )


def solves_at_points(run: Transcript, replayed: Replayed, change: Change, rng: Generator) -> Iterator[Fault]:
    """Test `l2` and `log_volume` of a Solve at random points.

    They must bound the changes of step·∇f and of log det(I + step·∇²f).
    """
    agent, d = replayed.agent, run.setup.dimension
    own = run.setup.losses(agent)
    other = changed(own, run.setup.stream.samples(agent), change)
    for t, ask in enumerate(replayed.messages[:SOLVES], 1):
        if not isinstance(ask, Solve) or not ask.uses or not ask.step < np.inf:
            continue
        losses: list[Any] = [own(ask.uses), other(ask.uses)]
        for _ in range(POINTS):
            x = rng.normal(size=d) * rng.choice([0.0, 0.1, 1.0, 10.0, 1000.0])
            gradients = [ask.step * loss.grad(x) for loss in losses]
            volumes = [np.linalg.slogdet(np.eye(d) + ask.step * loss.hessian(x)).logabsdet for loss in losses]
            moved, volume = float(np.linalg.norm(gradients[0] - gradients[1])), float(abs(volumes[0] - volumes[1]))
            for name, difference, bound in (("l2", moved, ask.l2), ("log_volume", volume, ask.log_volume)):
                if difference > bound * (1 + RELATIVE) + 1e-9:
                    yield Fault(
                        f"a {name} of a Solve too small",
                        f"{run.label}: message() of agent {agent}, round {t}: {difference:.4g} at a point of norm "
                        f"{np.linalg.norm(x):.3g}, with a sample replaced; {bound:.4g} is claimed",
                        "l2 and log_volume must hold at every point, for any sample there could be",
                    )
                    return
