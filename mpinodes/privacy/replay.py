"""Replay: one agent on adjacent data against a recorded transcript.

Given all that was said, an agent's next message is a function of its data: running it on its own data and on adjacent
data against the same transcript gives the change of every message, which no sensitivity may fall short of. Only the
transcript, the events and the experiment are read; ξ and all else that is not data is the same on both sides.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from mpinodes import load
from mpinodes.agent import open_inbox
from mpinodes.errors import BadInput
from mpinodes.experiment import Experiment, log_spaced
from mpinodes.losses.linear import LinearLoss, NoisyGradient
from mpinodes.parts import Parts, build
from mpinodes.protocol import Event, Loss, Query, Vector

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
    """

    agent: int
    changes: int
    direct: float
    hidden: float
    round: int
    touched: int

    @property
    def exceeded(self) -> bool:
        """Whether a message moved by more than its sensitivity."""
        return max(self.direct, self.hidden) > SLACK


class Recorded:
    """A run with its transcript."""

    def __init__(self, directory: Path) -> None:
        try:
            data = load(directory)
            text = (directory / "experiment.toml").read_text()
        except (OSError, ValueError) as error:
            raise BadInput(f"{directory}: not a run directory ({error})") from error
        if "transcript" not in data:
            raise BadInput(f"{directory}: it has no transcript; run it again with record.transcript=true")
        self.parts: Parts = build(msgspec.convert(tomllib.loads(text), Experiment))
        self.frames: Vector = data.transcript.values
        self.events: Vector = np.stack([data[f"event_{name}"].values for name in Event._fields], axis=2)


class Replayed:
    """One agent, run against a transcript from any round on."""

    def __init__(self, recorded: Recorded, agent: int) -> None:
        self._parts, self._frames, self.agent = recorded.parts, recorded.frames, agent
        self._own = recorded.parts.losses(agent)
        self._starts: list[tuple[Any, Any]] = []
        self.values = np.array([query.value for query in self._original()])

    def _original(self) -> Iterator[Query]:
        """The messages on the agent's own data; keeps the state at every round."""
        algorithm, mixing = self._parts.algorithm, self._parts.mixing
        state, mixed = algorithm.init(np.zeros(self._parts.dimension)), mixing.init(self.agent)
        for t in range(1, len(self._frames) + 1):
            self._starts.append((state, mixed))
            query, state, mixed = self._step(t, state, mixed, self._own)
            yield query

    def _step(self, t: int, state: Any, mixed: Any, losses: Callable[[int], Loss]) -> tuple[Query, Any, Any]:
        algorithm, place = self._parts.algorithm, self._parts.topology.round(t, self.agent)
        query = algorithm.message(state, place)
        frames = {j: self._frames[t - 1, j] for j in place.senders}
        mixed, inbox = open_inbox(self._parts.mixing, mixed, place, frames, self._parts.dimension)
        return query, algorithm.update(state, place, inbox, losses(t)), mixed

    def moved(self, change: Change) -> Vector:
        """Clean messages on adjacent data less those on the agent's own, from the changed round on: (rounds, d)."""
        losses = self._adjacent(change)
        state, mixed = self._starts[change.round - 1]
        moved = []
        for t in range(change.round, len(self._frames) + 1):
            query, state, mixed = self._step(t, state, mixed, losses)
            moved.append(query.value - self.values[t - 1])
        return np.array(moved)

    def _adjacent(self, change: Change) -> Callable[[int], Loss]:
        samples = self._parts.stream.samples

        def losses(t: int) -> Loss:
            loss = self._own(t)
            if change.sample is None:
                return _with(loss, slice(None), change) if t == change.round else loss
            here = samples(t)
            return _with(loss, here.index(change.sample), change) if change.sample in here else loss

        return losses


def _with(loss: Any, rows: int | slice, change: Change) -> Loss:
    """A loss with the changed sample in some rows."""
    if isinstance(loss, NoisyGradient):
        return replace(loss, loss=_with(loss.loss, rows, change))  # type: ignore[arg-type]
    features, targets = loss.features.copy(), loss.targets.copy()
    features[rows], targets[rows] = change.feature, change.target
    changed: LinearLoss = replace(loss, features=features, targets=targets)
    return changed


def adjacent(recorded: Recorded, round: int, rng: np.random.Generator) -> Iterator[Change]:
    """Adjacent data sets that differ in a sample of a round: its label turned, and samples at the domain's edge."""
    parts = recorded.parts
    loss: Any = parts.stream.of(0)(round)
    row = int(rng.integers(len(loss.targets)))
    whole = parts.experiment.privacy.adjacency == "one-round"
    sample = None if whole else parts.stream.samples(round)[row]
    feature, target = loss.features[row], float(loss.targets[row])
    edge = parts.stream.feature_bound * rng.choice([-1.0, 1.0], feature.shape)
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
    l2, gain, cap = (events[:, Event._fields.index(name)] for name in ("l2", "hidden_gain", "hidden_cap"))
    bound, bounds = 0.0, []
    for t in range(len(events)):
        bound = (min(cap[t], gain[t] * bound) if bound > 0 else 0.0) + (l2[t] if carried[t] else 0.0)
        bounds.append(bound)
    return np.array(bounds)


def replay(recorded: Recorded, agent: int, rounds: int, seed: int) -> Finding:
    """Replay an agent on adjacent data that differ in one of about `rounds` log-spaced rounds."""
    replayed, rng = Replayed(recorded, agent), np.random.default_rng(seed)
    events = recorded.events[:, agent]
    uses = events[:, Event._fields.index("uses")].astype(int)
    ratio = events[:, Event._fields.index("l1")] / events[:, Event._fields.index("l2")]
    worst = Finding(agent, 0, 0.0, 0.0, 0, 0)
    for round in log_spaced(max(len(events) - 1, 1), rounds).tolist():
        for change in adjacent(recorded, round, rng):
            carried = np.array([bool(r) and _carries(recorded.parts, r, change) for r in uses])
            bound = claimed(events, carried)[round - 1 :]
            moved, carried = replayed.moved(change), carried[round - 1 :]
            # A difference of two messages is not exact to the last bits of either.
            floor = ROUNDING * max(1.0, float(np.abs(replayed.values).max()))
            l2 = np.maximum(np.linalg.norm(moved, axis=1) - floor, 0.0)
            l1 = np.maximum(np.abs(moved).sum(axis=1) - floor * moved.shape[1], 0.0)
            exceeds = np.maximum(_over(l2, bound), _over(l1, bound * ratio[round - 1 :]))
            direct, hidden = exceeds[carried].max(initial=0.0), exceeds[~carried].max(initial=0.0)
            where = (
                round + int(np.argmax(exceeds))
                if max(direct, hidden) > max(worst.direct, worst.hidden)
                else worst.round
            )
            worst = Finding(
                agent,
                worst.changes + 1,
                max(worst.direct, float(direct)),
                max(worst.hidden, float(hidden)),
                where,
                max(worst.touched, int((l2 > 0).sum())),
            )
    return worst


def _carries(parts: Parts, round: int, change: Change) -> bool:
    return round == change.round if change.sample is None else change.sample in parts.stream.samples(round)


def _over(realised: Vector, bound: Vector) -> Vector:
    """realised/bound; 0 for no change, and inf for a change where none is allowed."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(realised == 0, 0.0, np.where(np.isinf(bound), 0.0, realised / bound))
