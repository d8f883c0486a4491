"""Replay: one agent on adjacent data against a recorded transcript.

Given all that was said, an agent's next message is a function of its data: running it on its own data and on adjacent
data against the same transcript gives the change of every message, which no sensitivity may fall short of. Where the
noise is inside a minimization, what the two densities of the release differ by stands in for the change, times the
noise's scale. Only the transcript, the events and the experiment are read; ξ and all else that is not data is the same
on both sides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mpinodes import load
from mpinodes.agent import HEADER, Voice, allowed, frame_width, open_inbox
from mpinodes.errors import BadInput
from mpinodes.experiment import log_spaced, parse
from mpinodes.losses.linear import LinearLoss, NoisyGradient
from mpinodes.parts import Parts, build
from mpinodes.privacy.penalty import log_density
from mpinodes.protocol import Event, Features, Inbox, Kind, Loss, Message, Query, Solve, Vector
from mpinodes.resolve import resolve

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


class Recorded:
    """A run with its transcript."""

    def __init__(self, directory: Path) -> None:
        try:
            data = load(directory)
            asked = parse(str(directory / "experiment.toml"), [])
        except (OSError, ValueError) as error:
            raise BadInput(f"{directory}: not a run directory ({error})") from error
        if "transcript" not in data:
            raise BadInput(f"{directory}: it has no transcript; run it again with record.transcript=true")
        self.parts: Parts = build(resolve(asked, ranks=None))
        self.frames: Vector = data.transcript.values
        self.events: Vector = np.stack([data[f"event_{name}"].values for name in Event._fields], axis=2)
        wanted = (self.parts.experiment.rounds, self.parts.topology.agents, frame_width(self.parts))
        stopped = getattr(self.parts.algorithm, "stop", 0.0) and len(self.frames) < wanted[0]
        if self.frames.shape != ((len(self.frames), *wanted[1:]) if stopped else wanted):
            raise BadInput(
                f"{directory}: experiment.toml is not that of the record: {wanted} against {self.frames.shape}"
            )
        self.losses = lru_cache(self.parts.stream.of)
        for t, receiver in enumerate(data.receiver.values, 1):
            if {(j, i) for j, i in np.argwhere(receiver).tolist()} != self.parts.topology.edges(t):
                raise BadInput(f"{directory}: the topology is not that of the record: round {t} differs")


class Replayed:
    """One agent, run against a transcript from any round on."""

    def __init__(self, recorded: Recorded, agent: int) -> None:
        self._parts, self._frames, self.agent = recorded.parts, recorded.frames, agent
        self._voice = Voice(agent, recorded.parts)
        self._own = self._voice.losses
        self._scale = recorded.events[:, agent, Event._fields.index("scale")]
        self._starts: list[tuple[Any, Any]] = []
        self.messages = list(self._original())
        self._same_run(recorded)

    def said(self, t: int) -> Vector:
        """The recorded release of round t: (d,)."""
        return np.asarray(self._frames[t - 1, self.agent, HEADER : HEADER + self._parts.dimension])

    def _same_run(self, recorded: Recorded) -> None:
        """Refuse to replay another run: the messages with the noise drawn then must be the recorded releases.

        Of noise that cannot be drawn again only the scales and sensitivities can be compared.
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
                raise BadInput(
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
        losses = self._adjacent(change)
        state, mixed = self._starts[change.round - 1]
        moved, public = [], True
        for t in range(change.round, last + 1):
            message, state, mixed = self._step(t, state, mixed, losses)
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
        x, scale, own = self.said(t), self._scale[t - 1], self._own(ask.uses)
        if scale == 0:
            return _sizes(ask.step * (adjacent.grad(x) - own.grad(x)), x)
        one, other = (log_density(x, ask, loss, scale) for loss in (own, adjacent))  # type: ignore[arg-type]
        return [scale * abs(one - other)] * 2

    def _adjacent(self, change: Change) -> Callable[[int], Loss]:
        samples = self._parts.stream.samples(self.agent)

        def losses(t: int) -> Loss:
            loss = self._own(t)
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


def adjacent(recorded: Recorded, agent: int, round: int, rng: np.random.Generator) -> Iterator[Change]:
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


def replay(recorded: Recorded, agent: int, rounds: int, seed: int) -> Finding:
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


def _try(recorded: Recorded, replayed: Replayed, change: Change, last: int) -> Finding:
    """One adjacent data set."""
    events = recorded.events[:, replayed.agent]
    uses = events[change.round - 1 : last, Event._fields.index("uses")].astype(int)
    l1_claimed, l2_claimed = (events[change.round - 1 : last, Event._fields.index(name)] for name in ("l1", "l2"))
    ratio = np.divide(l1_claimed, l2_claimed, out=np.ones(len(uses)), where=np.isfinite(l2_claimed) & (l2_claimed > 0))
    carried = np.array([bool(r) and _carries(recorded.parts, replayed.agent, r, change) for r in uses])
    bound = claimed(events[change.round - 1 : last], carried)
    moved, public = replayed.moved(change, last)
    l1, l2 = moved.T
    kind = events[change.round - 1 : last, Event._fields.index("kind")]
    l1 = np.where(kind == Kind.PURE, l2, l1)  # whose cost is that of an L2 change
    over = np.maximum(_over(l2, bound), _over(l1, bound * ratio))
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
