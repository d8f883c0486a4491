"""Test what messages state about themselves, such as sensitivities.

The tests run every agent again on adjacent data, which are chosen such that messages change as much as possible.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator

from mpinodes.auditing.adjacent_replay import SLACK, compared
from mpinodes.auditing.changes import Change, adjacent, carries, changed, usual
from mpinodes.auditing.checks.failures import Fault, Report, shown
from mpinodes.auditing.checks.purity import walk
from mpinodes.auditing.transcripts import Replayed, Transcript
from mpinodes.core import ALL, Query, Vector
from mpinodes.core.experiment import log_spaced
from mpinodes.core.messages import HEADER, RELEASED_KIND
from mpinodes.losses.linear import Around

FOLLOWED = 7  # for about this number of changed rounds, all later messages are compared
BRIEF, FEW = 60, 3  # in runs of more than BRIEF rounds, the remaining changed rounds try only FEW data sets each
RELATIVE = 1e-7  # relative rounding error of a bound over many rounds


def statements(run: Transcript, seed: int, report: Report) -> None:
    """Test what the messages of every agent state about themselves, such as sensitivities.

    The agents run again on adjacent data. Each of these replays changes one sample, or all samples that the setting
    `privacy.adjacency` replaces together. Two statements of the algorithm are tested, too: `gradients_in_set` and
    `carried_on`.
    """
    setup, total = run.setup, len(run.frames)
    followed = {1, 2, total - 1, total // 2, *log_spaced(max(total - 1, 1), FOLLOWED).tolist()}
    end = min(total, 3) if setup.algorithm.whole_data else total  # with `whole_data` all rounds have the same loss
    for agent in run.agents:
        rng, replayed = np.random.default_rng([seed, agent]), Replayed(run, agent)
        report.take("", gradients_outside(run, agent), where=run.label)
        report.take("", carried_on(run, agent, rng), where=run.label)
        for round in range(1, end):
            changes = [*adjacent(setup, run.losses(agent), agent, round, rng)]
            if total > BRIEF and round not in followed:
                changes = [changes[k] for k in rng.integers(len(changes), size=FEW)]
            for change in changes:
                first = next(t for t in range(1, round + 1) if carries(setup, agent, t, change))
                last = total if round in followed or first < round else min(round + 2, total)
                replay = misstated(run, replayed, change._replace(round=first), last)
                report.take("adjacent data sets", replay, where=run.label)


@dataclass(slots=True)
class Asked(Around):
    """Wrap a loss, and record each point at which a gradient is requested."""

    points: list[Vector]

    def grad(self, x: Vector, block: slice = ALL) -> Vector:
        """Return the gradient of the wrapped loss, and record the point."""
        self.points.append(x.copy())
        return self.loss.grad(x, block)

    def data_grad(self, x: Vector, block: slice = ALL) -> Vector:
        """Return the gradient of the wrapped loss without its regularizer, and record the point."""
        self.points.append(x.copy())
        return self.loss.data_grad(x, block)


def gradients_outside(run: Transcript, agent: int) -> Iterator[Fault]:
    """Yield a fault if the algorithm states `gradients_in_set`, but takes a gradient outside the constraint set.

    Nothing is tested if the class of the algorithm does not set `gradients_in_set` itself.
    """
    setup, points, project = run.fresh().setup, list[Vector](), run.setup.feasible.project
    own = setup.losses(agent)
    stated = vars(type(setup.algorithm)).get("gradients_in_set", False)
    for call in walk(setup, run.frames, agent, lambda t: Asked(own(t), points)) if stated else ():
        if not all(np.allclose(x, project(x.copy()), rtol=1e-9, atol=1e-12) for x in points):
            place = f"{run.label}: update() of agent {agent}, round {call.here.t}"
            right = "gradients_in_set = True requires that every point at which a gradient is taken is projected"
            yield Fault("a gradient outside the set", place, right)
            return


def carried_on(run: Transcript, agent: int, rng: Generator) -> Iterator[Fault]:
    """Yield a fault if the factor that the method `carried_on` of an algorithm returns is wrong.

    By the factor, the algorithm states that a message contains the factor times the mix of the previous messages. Two
    replays of an agent test this statement:

    - If the received messages are changed, the next message must change by the factor times the change of the mix.
    - If a sample is changed, all messages of the agent must change along one common direction.

    Nothing is tested if gradients are clipped, or if not every round uses all samples (`whole_data`).

    Args:
        run: the run.
        agent: the agent that is replayed.
        rng: draws the changes.
    """
    setup, moved = run.setup, run.frames.copy()
    if not setup.algorithm.whole_data or np.isfinite(setup.experiment.clip):
        return  # the accountant does not call `carried_on` for such a run
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
                place = f"{run.label}: message() of agent {agent}, round {own.here.t}"
                right = f"{factor:.4g} times the mix of the round before, plus a change of size l2 along one direction"
                yield Fault("carried_on() returns a wrong factor", place, right)
                return
        carried = heard.inbox.mix() - own.inbox.mix()


def misstated(run: Transcript, replayed: Replayed, change: Change, last: int) -> Iterator[Fault]:
    """Replay an agent on one adjacent data set, and yield a fault if a statement in a message is false.

    A statement, such as a sensitivity, is false if it depends on data, or if the message changes by more than it
    states.

    Args:
        run: the run.
        replayed: the replay of the agent.
        change: the adjacent data set.
        last: the last round that is compared.
    """
    where, comparison = f"{run.label}: message() of agent {replayed.agent}", compared(run, replayed, change, last)
    replaced = f"with a sample of round {change.round} replaced"
    if comparison.differing:
        t, own, other = comparison.differing[0]
        yield Fault(
            "a statement of a message depends on data",
            f"{where}, round {t}: {shown(own)} on its own data, {shown(other)} {replaced}",
            "kind, sensitivities, calibration, uses and leaks are public: compute them from self.run, here and inbox",
        )
        return
    over = np.where(comparison.carried, comparison.over, comparison.over / (1 + RELATIVE))
    if not (over > SLACK).any():
        return
    k = int(np.argmax(over > SLACK))
    t, event = change.round + k, run.events[change.round - 1 + k, replayed.agent]
    moved, bound = float(comparison.l2[k].max()), float(comparison.bound[k].max())
    if comparison.carried[k]:
        name, right = "a sensitivity too small", "l1 and l2 must bound the change for every possible sample"
        l1, l2 = float(event.l1.max()), float(event.l2.max())
        stated = f"{bound:.4g} is claimed (l2={l2:.4g}, l1={l1:.4g}): {comparison.over[k]:.4g} times too little"
    elif not comparison.carried[:k].any():
        name, right = "`uses` leaves a sample out", "the first message that depends on a loss must state its round"
        stated = f"the message states uses={int(event.uses)}, and no earlier message states the round of the sample"
    elif float(event.leakage("kind")) == RELEASED_KIND:
        name = "hidden lag left out"
        right = "a message that depends on hidden state must state leaks=Hidden(...), Feedback(...) or UNKNOWN"
        stated = "an earlier message carried the sample, and leaks=RELEASED allows no change now"
    else:
        name = "leakage understated"
        right = "transition, gradient, lipschitz, largest and reads must bound the effect of earlier samples"
        stated = f"the stated leakages or hidden parts allow {bound:.4g}"
    yield Fault(name, f"{where}, round {t}, moves by {moved:.4g} in L2 {replaced}; {stated}", right)
