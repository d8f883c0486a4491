"""Replay: one agent on adjacent data against a recorded transcript.

Given all that was said, an agent's next message is a function of its data: running it on its own data and on adjacent
data against the same transcript gives the change of every message, which no sensitivity may fall short of. Where the
noise is inside a minimization, what the two densities of the release differ by stands in for the change, times the
noise's scale. Only the transcript, the events and the experiment are read; ξ and all else that is not data is the same
on both sides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mpinodes import load
from mpinodes.config.resolve import resolve
from mpinodes.config.setup import Parts, build
from mpinodes.core.errors import BadInput
from mpinodes.core.experiment import log_spaced, parse
from mpinodes.core.protocol import Event, Features, Inbox, Kind, Loss, Message, Query, Solve, Vector
from mpinodes.losses.linear import LinearLoss, NoisyGradient
from mpinodes.privacy.penalty import log_density
from mpinodes.simulation.agent import HEADER, Voice, allowed, frame_width, open_inbox

SLACK = 1 + 1e-9  # rounding, relative
ROUNDING = 1e-12  # a change smaller than this, relative to the messages, counts as none


class Change(NamedTuple):
    """Adjacent data: in the rounds where a sample stands, this row of the loss is put in its place."""

    round: int  # the first whose loss changes
    sample: int | None  # None: the whole round changes
    feature: Vector  # (d,)
    target: float


class Finding(NamedTuple):
    """The worst of one agent's replays.

    Attributes:
        agent: who.
        changes: how many adjacent data sets were tried.
        direct, hidden: largest realised/claimed L2 or L1 change, of messages that first carry the changed sample and
            of later ones; 0 where nothing is claimed.
        round: of the message where it was largest.
        touched: most messages that one changed sample moved.
        public: whether the sensitivities stated were the same on adjacent data.
    """

    agent: int
    changes: int
    direct: float
    hidden: float
    round: int
    touched: int
    public: bool

    @property
    def exceeded(self) -> bool:
        """Whether a message moved by more than its sensitivity, or its sensitivity depends on the data."""
        return max(self.direct, self.hidden) > SLACK or not self.public


class NotThatRun(BadInput):
    """What was said does not follow from experiment, data, code and what was said before."""


class Transcript:
    """What a run has said.

    Attributes:
        parts: of the run.
        frames: (rounds, agents, words) on the links.
        events: (rounds, agents, fields of an Event).
        losses: by agent, by round.
    """

    def __init__(self, parts: Parts, frames: Vector, events: Vector) -> None:
        self.parts, self.frames, self.events = parts, frames, events
        self.losses = lru_cache(parts.stream.of)


class Recorded(Transcript):
    """That of a run directory."""

    def __init__(self, directory: Path) -> None:
        try:
            data = load(directory)
            asked = parse(str(directory / "experiment.toml"), [])
        except BadInput:
            raise
        except (OSError, ValueError) as error:
            raise BadInput(f"{directory}: not a run directory ({error})") from error
        if "transcript" not in data:
            raise BadInput(f"{directory}: it has no transcript; run it again with record.transcript=true")
        events = np.stack([data[f"event_{name}"].values for name in Event._fields], axis=2)
        super().__init__(build(resolve(asked, ranks=None)), data.transcript.values, events)
        rounds = self.parts.experiment.rounds
        if getattr(self.parts.algorithm, "stop", 0.0):  # it may have ended before its time
            rounds = min(rounds, len(self.frames))
        wanted = (rounds, self.parts.topology.agents, frame_width(self.parts))
        if self.frames.shape != wanted:
            raise BadInput(
                f"{directory}: experiment.toml is not that of the record: {wanted} against {self.frames.shape}"
            )
        for t, receiver in enumerate(data.receiver.values, 1):
            if {(j, i) for j, i in np.argwhere(receiver).tolist()} != self.parts.topology.edges(t):
                raise BadInput(f"{directory}: the topology is not that of the record: round {t} differs")


class Replayed:
    """One agent, run against a transcript from any round on."""

    def __init__(self, recorded: Transcript, agent: int) -> None:
        self._parts, self._frames, self.agent = recorded.parts, recorded.frames, agent
        self._voice = Voice(agent, recorded.parts)
        self._own = self._voice.losses
        self.kind, self.scale = recorded.events[:, agent, :2].T
        self._starts: list[tuple[Any, Any]] = []
        self.messages = list(self._original())
        if isinstance(recorded, Recorded):
            self.require_same_run(recorded)

    def said(self, t: int) -> Vector:
        """The recorded release of round t: (d,)."""
        return np.asarray(self._frames[t - 1, self.agent, HEADER : HEADER + self._parts.dimension])

    def require_same_run(self, recorded: Transcript) -> None:
        """Refuse to replay another run: the messages with the noise drawn then must be the recorded releases.

        Of noise that cannot be drawn again only the scales and sensitivities can be compared.

        Raises:
            NotThatRun: they are not.
        """
        out = np.empty(self._parts.dimension)
        for t, message in enumerate(self.messages, 1):
            event = self._voice.say(message, t, self.heard(t - 1) if t > 1 else None, out)
            said, told = self.said(t), len(event)
            near = np.allclose(out, said, rtol=1e-9, atol=1e-9 * (1 + np.abs(said).max()) + event.grain_l1 / len(out))
            if event.scale > 0 and not self._parts.experiment.reproducible:
                # Other noise was drawn, and a local solve depends on it: what is left are the public facts.
                near, told = True, Event._fields.index("residual")
            if not (
                near and np.allclose(event[:told], recorded.events[t - 1, self.agent, :told], 1e-9, equal_nan=True)
            ):
                raise NotThatRun(
                    f"this is not the run that was recorded: message {t} of agent {self.agent} differs from what "
                    "experiment, data and code give now"
                )

    def _original(self) -> Iterator[Message]:
        """The messages on the agent's own data; keeps the state at every round."""
        algorithm, mixing = self._parts.algorithm, self._parts.mixing
        state, mixed = algorithm.init(self._voice.start), mixing.init(self.agent)
        for t in range(1, len(self._frames) + 1):
            self._starts.append((state, mixed))
            message, state, mixed = self._step(t, state, mixed, self._own)
            yield message

    def _step(self, t: int, state: Any, mixed: Any, losses: Callable[[int], Loss]) -> tuple[Message, Any, Any]:
        algorithm, place = self._parts.algorithm, self._parts.topology.round(t, self.agent)
        message = allowed(algorithm.message(state, place), self._parts, place)
        mixed, inbox = self._hear(t, mixed)
        return message, algorithm.update(state, place, inbox, losses(t)), mixed

    def heard(self, t: int) -> Inbox:
        """What the agent heard in round t."""
        return self._hear(t, self._starts[t - 1][1])[1]

    def _hear(self, t: int, mixed: Any) -> tuple[Any, Inbox]:
        place = self._parts.topology.round(t, self.agent)
        frames = {j: self._frames[t - 1, j] for j in place.senders}
        return open_inbox(self._parts.mixing, mixed, place, frames, self._parts.dimension)

    def moved(self, change: Change, last: int) -> tuple[Vector, bool]:
        """How far messages on adjacent data are from those on the agent's own, to round `last`, in L1 and L2: (r, 2).

        And whether what was said of their sensitivity is the same on both, as it must be: it is public.
        """
        losses = changed(self._own, self._parts.stream.samples(self.agent), change)
        moved, public = [], True
        for t, message in self._adjacent(change, last, losses):
            own = self.messages[t - 1]
            public &= _public(message) == _public(own)
            if isinstance(message, Query) and isinstance(own, Query):
                moved.append(_sizes(message.value - own.value, own.value))
            elif isinstance(message, Solve) and isinstance(own, Solve):
                moved.append(self._diverged(t, message, losses(message.uses)))
            else:
                moved.append([0.0, 0.0])
        return np.array(moved), public

    def _diverged(self, t: int, ask: Solve, adjacent: Any) -> list[float]:
        """What the log densities of the release of round t differ by, times the scale; without noise, two centers."""
        x, scale, own = self.said(t), self.scale[t - 1], self._own(ask.uses)
        if scale == 0:
            return _sizes(ask.step * (adjacent.grad(x) - own.grad(x)), x)
        one, other = (log_density(x, ask, loss, scale) for loss in (own, adjacent))  # type: ignore[arg-type]
        return [scale * abs(one - other)] * 2

    def _adjacent(self, change: Change, last: int, losses: Callable[[int], Loss]) -> Iterator[tuple[int, Message]]:
        """The messages on adjacent losses, from the changed round on."""
        state, mixed = self._starts[change.round - 1]
        for t in range(change.round, last + 1):
            message, state, mixed = self._step(t, state, mixed, losses)
            yield t, message

    def log_ratio(self, change: Change, last: int) -> float:
        """By how much likelier what was said to round `last` is on the agent's own data: a logarithm; ±inf: certain."""
        losses = changed(self._own, self._parts.stream.samples(self.agent), change)
        total = 0.0
        for t, message in self._adjacent(change, last, losses):
            own, other = self._log_density(t, self.messages[t - 1], self._own), self._log_density(t, message, losses)
            total += 0.0 if own == other else own - other  # both −inf: rounding
        return total

    def drawn(self, t: int) -> Vector | None:
        """The noise in the release of round t: (d,); None: it has none, or is rounded."""
        message = self.messages[t - 1]
        if self.scale[t - 1] == 0 or not isinstance(message, (Query, Solve)) or getattr(message, "grid", 0.0):
            return None
        return self._off(t, message, self._own)

    def _off(self, t: int, message: Query | Solve, losses: Callable[[int], Loss]) -> Vector:
        """What must have been added to the value, or to the center, for the release of round t to come of it."""
        x = self.said(t)
        if isinstance(message, Query):
            return x - message.value
        return np.asarray(x + message.step * losses(message.uses).grad(x) - message.center)

    def _log_density(self, t: int, message: Message, losses: Callable[[int], Loss]) -> float:
        """Of what was said in round t, up to a constant that is the same for all data."""
        if not isinstance(message, (Query, Solve)):
            return 0.0
        off, kind, scale = self._off(t, message, losses), self.kind[t - 1], float(self.scale[t - 1])
        if scale == 0:
            slack = 10 * message.step * message.tolerance if isinstance(message, Solve) else 0.0
            return 0.0 if _sizes(off, self.said(t))[1] <= slack else -np.inf
        if isinstance(message, Solve):
            return log_density(self.said(t), message, losses(message.uses), scale)  # type: ignore[arg-type]
        if kind == Kind.LAPLACE:
            return -float(np.abs(off).sum()) / scale
        return -float(off @ off) / (2 * scale**2) if kind == Kind.GAUSSIAN else -float(np.linalg.norm(off)) / scale


def changed(
    own: Callable[[int], Loss], samples: Callable[[int], Sequence[int]], change: Change
) -> Callable[[int], Loss]:
    """The adjacent losses by round, of an agent with these losses and samples."""

    def losses(t: int) -> Loss:
        loss = own(t)
        if change.sample is None:
            return _with(loss, slice(None), change) if t == change.round else loss
        rows = [k for k, sample in enumerate(samples(t)) if sample == change.sample]
        return _with(loss, rows, change) if rows else loss

    return losses


def _public(message: Message) -> dict[str, Any]:
    """All that a message says of itself, which no data may tell on."""
    said = {field.name: getattr(message, field.name) for field in fields(message)}
    private = ("value", "residual", "solver_steps") if isinstance(message, Query) else ()
    return {k: v.tobytes() if isinstance(v, np.ndarray) else v for k, v in said.items() if k not in private}


def _sizes(moved: Vector, message: Vector) -> list[float]:
    """L1 and L2 of a difference, less what rounding makes: a difference of messages is not exact to their last bits."""
    floor = ROUNDING * max(1.0, float(np.abs(message).max()))
    return [
        max(float(np.abs(moved).sum()) - floor * len(moved), 0.0),
        max(float(np.linalg.norm(moved)) - floor, 0.0),
    ]


def _with(loss: Any, rows: list[int] | slice, change: Change) -> Loss:
    """A loss with the changed sample in some rows."""
    if isinstance(loss, NoisyGradient):
        return replace(loss, loss=_with(loss.loss, rows, change))
    features, targets = _dense(loss.features).copy(), loss.targets.copy()
    features[rows], targets[rows] = change.feature, change.target
    changed: LinearLoss = replace(loss, features=features, targets=targets)
    return changed


def _dense(features: Features) -> Vector:
    return np.asarray(features if isinstance(features, np.ndarray) else features.toarray())


def adjacent(recorded: Transcript, agent: int, round: int, rng: np.random.Generator) -> Iterator[Change]:
    """Adjacent data sets that differ in a sample of a round: its label turned, and samples at the domain's edge."""
    parts = recorded.parts
    loss: Any = recorded.losses(agent)(round)
    row = int(rng.integers(len(loss.targets)))
    whole = parts.experiment.privacy.adjacency == "one-round"
    sample = None if whole else parts.stream.samples(agent)(round)[row]
    feature, target = _dense(loss.features[[row]])[0], float(loss.targets[row])
    bound = parts.stream.feature_bound
    edge = min(bound if np.isfinite(bound) else 1.0, parts.stream.feature_norm / np.sqrt(len(feature)))
    edge = edge * rng.choice([-1.0, 1.0], feature.shape)
    labels = loss.needs_labels
    yield Change(round, sample, feature, -target)
    for turned in (feature, edge, np.abs(edge)):
        yield Change(round, sample, turned, -target if labels else -100 * np.sign(target) - 1)
        yield Change(round, sample, turned, target if labels else 100 * np.sign(target) + 1)


def claimed(events: Vector, carried: Vector) -> Vector:
    """The accountant's bound on the L2 change of each message, by the ledger's recursion.

    Args:
        events: (rounds, fields of an Event) of one agent.
        carried: (rounds,) whether a message first carries a round of the changed sample.
    """
    names = ("l2", "hidden_gain", "hidden_cap", "hidden_keep")
    l2, gain, cap, keep = (events[:, Event._fields.index(name)] for name in names)
    bound, bounds = 0.0, []
    for t in range(len(events)):
        older = 0.0
        if bound > 0:
            older = min(cap[t], gain[t] * bound if gain[t] else 0.0) + (keep[t] * bound if keep[t] else 0.0)
        bound = older + (l2[t] if carried[t] else 0.0)
        bounds.append(bound)
    return np.array(bounds)


def replay(recorded: Transcript, agent: int, rounds: int, seed: int) -> Finding:
    """Replay an agent on adjacent data that differ in one round, for every round.

    The message that first carries the change is looked at for every round, all later ones for about `rounds`
    log-spaced ones.
    """
    replayed, rng = Replayed(recorded, agent), np.random.default_rng(seed)
    total = len(recorded.frames)
    followed = set(log_spaced(max(total - 1, 1), rounds).tolist())
    worst = Finding(agent, 0, 0.0, 0.0, 0, 0, True)
    for round in range(1, total):
        last = total if round in followed else round + 1
        for change in adjacent(recorded, agent, round, rng):
            worst = _worse(worst, _try(recorded, replayed, change, last))
    return worst


def _try(recorded: Transcript, replayed: Replayed, change: Change, last: int) -> Finding:
    """One adjacent data set."""
    events = recorded.events[:, replayed.agent]
    uses = events[change.round - 1 : last, Event._fields.index("uses")].astype(int)
    l1_claimed, l2_claimed = (events[change.round - 1 : last, Event._fields.index(name)] for name in ("l1", "l2"))
    ratio = np.divide(l1_claimed, l2_claimed, out=np.ones(len(uses)), where=np.isfinite(l2_claimed) & (l2_claimed > 0))
    carried = np.array([bool(r) and _carries(recorded.parts, replayed.agent, r, change) for r in uses])
    bound = claimed(events[change.round - 1 : last], carried)
    moved, public = replayed.moved(change, last)
    l1, l2 = moved.T
    # Of gamma-norm noise l1 is the L2 sensitivity, by which it costs: nothing is said of the L1 change.
    by_norm = events[change.round - 1 : last, Event._fields.index("kind")] == Kind.PURE
    over = np.maximum(_over(l2, bound), np.where(by_norm, 0.0, _over(l1, bound * ratio)))
    where = change.round + int(np.argmax(over))
    direct, hidden = float(over[carried].max(initial=0.0)), float(over[~carried].max(initial=0.0))
    return Finding(replayed.agent, 1, direct, hidden, where, int((l2 > 0).sum()), public)


def _worse(one: Finding, other: Finding) -> Finding:
    """Two findings on the same agent in one."""
    worst = max(one, other, key=lambda f: max(f.direct, f.hidden))
    return Finding(
        one.agent,
        one.changes + other.changes,
        max(one.direct, other.direct),
        max(one.hidden, other.hidden),
        worst.round,
        max(one.touched, other.touched),
        one.public and other.public,
    )


def _carries(parts: Parts, agent: int, round: int, change: Change) -> bool:
    return round == change.round if change.sample is None else change.sample in parts.stream.samples(agent)(round)


def _over(realised: Vector, bound: Vector) -> Vector:
    """realised/bound; 0 for no change, and inf for a change where none is allowed."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(realised == 0, 0.0, np.where(np.isinf(bound), 0.0, realised / bound))
