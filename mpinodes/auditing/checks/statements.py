"""Tests of the statements in messages, by replays of every agent on data that move messages as far as possible."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.random import Generator

from mpinodes.auditing.adjacent_replay import SLACK, Compared, compared
from mpinodes.auditing.changes import ALL as EVERY
from mpinodes.auditing.changes import Change, adjacent, changed, differs, usual
from mpinodes.auditing.checks.failures import Fault, Report, shown
from mpinodes.auditing.checks.walks import TriedRun, walk
from mpinodes.auditing.transcripts import Replayed, Transcript, clean_vectors
from mpinodes.core import ALL, RELEASED, UNKNOWN, Feedback, Hidden, Message, Queries, Query, Relay, Solve, Start, Vector
from mpinodes.core.experiment import log_spaced
from mpinodes.core.messages import HEADER, HIDDEN_KIND, RELEASED_KIND
from mpinodes.losses.linear import Around, dense

MESSAGES = (Query, Queries, Solve, Start, Relay)
LEAKS = (Feedback, Hidden, type(RELEASED), type(UNKNOWN), type(None))
SOLVES, POINTS = 4, 8  # minimizations that are tested at random points, and how many points
FOLLOWED, EXTRA = 7, 3  # changed rounds whose later messages are all compared; `extreme` data sets in each of them
BRIEF, FEW = 60, 2  # runs above so many rounds try so few random data sets in the other changed rounds
RELATIVE = 1e-7  # relative rounding error of a bound over many rounds


def statements(run: TriedRun, seed: int, report: Report) -> None:
    """Replay every agent on many adjacent data sets that change each round in turn."""
    for agent in run.agents:
        faults, tried = [], 0
        for fault in _agent(run, agent, np.random.default_rng([seed, agent])):
            if fault is None:
                tried += 1
            else:
                faults.append(fault)
                if len(faults) >= 4:
                    break
        report.take("adjacent data sets", faults, tried)


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


def _outside(run: TriedRun, agent: int) -> Iterator[Fault]:
    """Find gradients at points outside the set, for an algorithm that states `gradients_in_set`."""
    setup, points, project = run.fresh(), list[Vector](), run.setup.feasible.project
    own = setup.losses(agent)
    stated = vars(type(setup.algorithm)).get("gradients_in_set", False)
    for call in walk(setup, run.frames, agent, lambda t: Asked(own(t), points)) if stated else ():
        if not all(np.allclose(x, project(x.copy()), rtol=1e-9, atol=1e-12) for x in points):
            yield Fault(
                "a gradient outside the set", f"{run.what}: update() of agent {agent}, round {call.here.t}",
                "gradients_in_set = True requires that every point at which a gradient is taken is projected",
            )  # fmt: skip
            return


def _carried(run: TriedRun, agent: int, rng: Generator) -> Iterator[Fault]:
    """Test `carried_on` by replay: with other messages received, and with a changed sample but the same messages."""
    setup, moved = run.setup, run.frames.copy()
    if not setup.algorithm.whole_data or np.isfinite(setup.experiment.clip):
        return  # the accountant does not use it here
    moved[..., HEADER : HEADER + setup.dimension] += rng.normal(size=(*moved.shape[:2], setup.dimension))
    losses = setup.losses(agent)
    other = changed(losses, setup.stream.samples(agent), [*usual(setup, losses, agent, 1, rng)][3])
    tried = ((run.frames, None), (moved, None), (run.frames, other))
    walks = [walk(run.fresh(), frames, agent, of) for frames, of in tried]
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
                    "carried_on() is not so", f"{run.what}: message() of agent {agent}, round {own.here.t}",
                    f"{factor:.4g} times the mix of the round before, plus a change of size l2 along one direction",
                )  # fmt: skip
                return
        carried = heard.inbox.mix() - own.inbox.mix()


def _agent(run: TriedRun, agent: int, rng: Generator) -> Iterator[Fault | None]:
    """Yield the faults of an agent, and None for each adjacent data set without a fault."""
    recorded = Transcript(run.setup, run.frames.copy(), run.events)
    replayed = Replayed(recorded, agent)
    total = len(run.frames)
    yield from chain(_own(run, agent, replayed), _outside(run, agent), _carried(run, agent, rng))
    begun = _first(run, agent)
    followed = {1, 2, total - 1, total // 2, *log_spaced(max(total - 1, 1), FOLLOWED).tolist()}
    ends = 3 if run.setup.algorithm.whole_data else total  # losses are the same in every round
    for round in range(1, min(total, ends)):
        last = total if round in followed else min(round + 2, total)
        losses = recorded.losses(agent)
        whole = [*adjacent(run.setup, losses, agent, round, rng)]
        tried = [*whole, *extreme(run, losses, agent, round, rng, EXTRA if round in followed else 1)]
        if total > BRIEF and round not in followed:
            tried = [tried[0], *(tried[k] for k in rng.integers(1, len(tried), FEW))]
        for change in tried:
            first = change.round if change.sample in (None, EVERY) else begun[change.sample]
            if first < change.round:
                change, last = change._replace(round=first), total
            yield from _one(run, recorded, replayed, change, last)
            yield from at_many_points(run, agent, replayed.messages[:SOLVES], change, rng)


def _first(run: TriedRun, agent: int) -> dict[int, int]:
    """Return the first round in which each sample is used."""
    samples = run.setup.stream.samples(agent)
    rounds: dict[int, int] = {}
    for t in range(1, len(run.frames) + 1):
        for sample in samples(t):
            rounds.setdefault(sample, t)
    return rounds


def extreme(run: TriedRun, losses: Any, agent: int, round: int, rng: Generator, many: int) -> Iterator[Change]:
    """Yield adjacent data sets with samples at corners of their domain and inside it."""
    loss: Any = losses(round)
    row = int(rng.integers(len(loss.targets)))
    sample = differs(run.setup, agent, round, row)
    own, d = dense(loss.features[[row]])[0], loss.features.shape[1]
    bound, norm = run.setup.stream.feature_bound, run.setup.stream.feature_norm
    size = min(bound if np.isfinite(bound) else 1.0, norm if np.isfinite(norm) else 1.0)
    edge = min(size, norm / np.sqrt(d))
    features = [np.full(d, edge), -own, np.zeros(d), np.eye(d)[rng.integers(d)] * size, rng.uniform(-edge, edge, d)]
    targets = [-1.0, 1.0] if loss.needs_labels else [1e6, -1e6, 1e3, -1e3, 0.0, 0.1, -3.0, float(rng.normal())]
    for _ in range(many):
        yield Change(round, sample, features[rng.integers(len(features))], float(rng.choice(targets)))


def _own(run: TriedRun, agent: int, replayed: Replayed) -> Iterator[Fault]:
    """Find messages on the agent's own data that are not finite, or that state impossible facts."""
    messages: list[Any] = replayed.messages
    for t, message in enumerate(messages, 1):
        where, values = f"{run.what}: message() of agent {agent}, round {t}", clean_vectors(message)
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


def _one(run: TriedRun, recorded: Transcript, replayed: Replayed, change: Change, last: int) -> Iterator[Fault | None]:
    """Replay one adjacent data set; yield its fault, or None."""
    where = f"{run.what}: agent {replayed.agent}"
    try:
        comparison = compared(recorded, replayed, change, last)
    except Exception as error:
        yield Fault(
            "it fails on other data",
            f"{where}: with a sample of round {change.round} replaced, {type(error).__name__}: {error}",
            "everyone sees an exception, so it must not depend on data",
        )
        return
    if not comparison.public:
        yield _not_public(run, replayed, change, last)
        return
    if not np.isfinite(comparison.l2[np.isfinite(comparison.bound)]).all():
        t = change.round + int(np.argmax(~np.isfinite(comparison.l2).all(axis=1)))
        yield Fault(
            "a message that moves without bound",
            f"{where}, round {t}: not finite, or of another kind, once a sample of round {change.round} is replaced",
            "a message stays a finite vector, and of its kind, whatever the data",
        )
        return
    over = np.where(comparison.carried, comparison.over, comparison.over / (1 + RELATIVE))
    if (over > SLACK).any():
        yield _understated(run, replayed.agent, change, comparison, int(np.argmax(over > SLACK)))
        return
    yield None


def _not_public(run: TriedRun, replayed: Replayed, change: Change, last: int) -> Fault:
    """Describe the first public fact that differs on adjacent data."""
    t, own_facts, other_facts = next((t, a, b) for t, a, b in replayed.stated(change, last) if a != b)
    pairs = [(a, b) for a, b in zip(own_facts, other_facts, strict=False) if a != b] or [(own_facts, other_facts)]
    a, b = pairs[0]
    return Fault(
        "what a message says of itself depends on data",
        f"{run.what}: message() of agent {replayed.agent}, round {t}: {shown(a)} on its own data, {shown(b)} with a "
        f"sample of round {change.round} replaced",
        "kind, sensitivities, calibration, uses and leaks are public: compute them from self.run, here and the inbox",
    )


def _understated(run: TriedRun, agent: int, change: Change, comparison: Compared, k: int) -> Fault:
    """Describe a message that moves further than its statements allow."""
    t, events = change.round + k, run.events[change.round - 1 + k, agent]
    moved, bound = float(comparison.l2[k].max()), float(comparison.bound[k].max())
    where = (
        f"{run.what}: message() of agent {agent}, round {t}, moves by {moved:.4g} in L2 when a sample of round "
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
    return Fault(
        "leakage understated",
        f"{where}; it and earlier messages state {'hidden parts' if kind == HIDDEN_KIND else 'a leakage'} that allow"
        f"{'' if kind == HIDDEN_KIND else 's'} {bound:.4g}",
        "transition, gradient, lipschitz, largest and reads must bound the later effect of an older change",
    )


def at_many_points(
    run: TriedRun, agent: int, messages: list[Message], change: Change, rng: Generator
) -> Iterator[Fault]:
    """Test `l2` and `log_volume` of a Solve at random points.

    They must bound the changes of step·∇f and of log det(I + step·∇²f).
    """
    own = run.setup.losses(agent)
    other = changed(own, run.setup.stream.samples(agent), change)
    for t, ask in enumerate(messages, 1):
        if not isinstance(ask, Solve) or not ask.uses or not ask.step < np.inf:
            continue
        own_loss, other_loss = own(ask.uses), other(ask.uses)
        for _ in range(POINTS):
            x = rng.normal(size=run.setup.dimension) * rng.choice([0.0, 0.1, 1.0, 10.0, 1000.0])
            moved = float(np.linalg.norm(ask.step * (own_loss.grad(x) - other_loss.grad(x))))
            volume = abs(_log_volume(own_loss, ask.step, x) - _log_volume(other_loss, ask.step, x))
            for name, difference, bound in (("l2", moved, ask.l2), ("log_volume", volume, ask.log_volume)):
                if difference > bound * (1 + RELATIVE) + 1e-9:
                    yield Fault(
                        f"a {name} of a Solve too small",
                        f"{run.what}: message() of agent {agent}, round {t}: {difference:.4g} at a point of norm "
                        f"{np.linalg.norm(x):.3g}, with a sample replaced; {bound:.4g} is claimed",
                        "l2 and log_volume must hold at every point, for any sample there could be",
                    )
                    return


def _log_volume(loss: Any, step: float, x: Vector) -> float:
    """Compute log det(I + step·∇²f) at x."""
    return float(np.linalg.slogdet(np.eye(len(x)) + step * loss.hessian(x))[1])
