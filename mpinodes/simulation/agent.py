"""One agent: the place where algorithm, mechanism, mixing and data meet.

The agent speaks (one noised release, one event) and hears (mix, then update on the revealed loss). Who
carries the frames between the two is not its business: `network` over MPI, `lockstep` in one process.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf, sqrt
from typing import Any

import numpy as np
from numpy.linalg import norm

from mpinodes.config.setup import Parts
from mpinodes.core.protocol import (
    NOTHING_SAID,
    Event,
    Inbox,
    Kind,
    Message,
    Mixing,
    Query,
    Relay,
    Round,
    Solve,
    Vector,
)  # fmt: skip
from mpinodes.core.seeds import LocalEntropy, Purpose
from mpinodes.topology import diameter

HEADER = 3  # round, kind, and (as bits, the lowest this one) the last rounds in which some agent is known to move still
RELEASE = 1.0  # the kind of a frame: a noised release and the mixing's scalars


def frame_width(parts: Parts) -> int:
    """Floats of a frame: header, release, scalars."""
    return HEADER + parts.dimension + parts.mixing.width


def row_width(parts: Parts) -> int:
    """Floats that an agent hands to the logger each round: its estimate, its event, and its frame if recorded."""
    frame = frame_width(parts) if parts.experiment.record.transcript else 0
    return parts.dimension + len(Event._fields) + frame


def open_rows(parts: Parts, rows: Vector) -> tuple[Vector, Vector, Vector]:
    """Estimates, events and frames (of no words, unless recorded) of rows: (..., row)."""
    estimates, events, frames = np.split(rows, [parts.dimension, parts.dimension + len(Event._fields)], axis=-1)
    return estimates, events, frames


def open_inbox(
    mixing: Mixing, state: Any, round: Round, frames: Mapping[int, Vector], dimension: int
) -> tuple[Any, Inbox]:
    """What agent `round.me` hears of the frames of all senders: the mixing's new state, and the inbox."""
    end = HEADER + dimension
    heard = [frames[j] for j in round.senders]
    state, row, scale = mixing.hear(state, round, [frame[end:] for frame in heard])
    return state, Inbox([frame[HEADER:end] for frame in heard], row, scale, frames[round.me][HEADER:end])


class Voice:
    """The one place that adds noise: makes the release of what an agent's algorithm wants to say.

    Attributes:
        losses: the agent's own, by round.
        start: (d,) what its algorithm's `init` is given, and what a `Start` says.
    """

    def __init__(self, me: int, parts: Parts) -> None:
        seed, d = parts.experiment.seed, parts.dimension
        self._mechanism = parts.mechanism
        self.losses = parts.losses(me)
        own = parts.experiment.private and parts.experiment.noise.entropy == "os"
        self._noise, self._dither = (
            LocalEntropy(me) if own else Stream(seed, purpose, me) for purpose in (Purpose.NOISE, Purpose.DITHER)
        )
        drawn = getattr(parts.algorithm, "random_start", False)
        self.start = Stream(seed, Purpose.START, me).at(0).standard_normal(d) if drawn else np.zeros(d)

    def say(self, message: Message, t: int, heard: Inbox | None, out: Vector) -> Event:
        """Write the release of round t to `out`: (d,); `heard` in the round before."""
        if isinstance(message, Query):
            if message.value.shape != out.shape:
                raise ValueError(f"message() gave a vector of shape {message.value.shape}, not {out.shape}")
            return self._mechanism.release(message, t, self._noise, out)
        if isinstance(message, Solve):
            return self._solve(message, t, out)
        if isinstance(message, Relay) == (heard is None):
            raise ValueError(
                f"message() gave a {type(message).__name__} in round {t}: round 1 is for a Start, not a Relay"
            )
        out[:] = self.start if heard is None else heard.mix()
        return NOTHING_SAID

    def _solve(self, ask: Solve, t: int, out: Vector) -> Event:
        center = Query(ask.center, l1=sqrt(len(out)) * ask.l2, l2=ask.l2, uses=ask.uses, nominal=ask.nominal)
        event = self._mechanism.release(center, t, self._noise, out)
        x, residual, steps = self.losses(ask.uses).prox(out, ask.step, ask.near, ask.tolerance)
        out[:] = x
        slip = 0.0
        if ask.grid:
            out += self._dither.at(t).uniform(-ask.grid / 2, ask.grid / 2, len(out))
            np.rint(out / ask.grid, out=out)
            out *= ask.grid
            slip = sqrt(len(out)) * ask.tolerance * ask.stretch / ask.grid
        if event.kind != Kind.CLEAN:
            # What is proven is proven of the minimizer itself.
            cost = event.l1 + event.scale * ask.log_volume if residual <= ask.tolerance else inf
            event = event._replace(kind=Kind.PURE, l1=cost, l2=cost)
        return event._replace(slip=slip, residual=residual, solver_steps=steps)


def allowed(message: Message, parts: Parts, round: Round) -> Message:
    """What agent `round.me` says in a round: what its algorithm would, for as long as its privacy budget lasts."""
    budget = parts.experiment.privacy.budget
    last = budget.stops[round.me] if budget and budget.stops else 0
    return Relay() if 0 < last < round.t and isinstance(message, (Query, Solve)) else message


class Agent:
    """Agent `me` of an experiment.

    Attributes:
        frame: what it sends in a round: [round, kind, moving | release (d,) | the mixing's scalars (width,)].
        left: whether it has left, for all agents had settled in some round: all leave together.
    """

    def __init__(self, me: int, parts: Parts) -> None:
        self._me, self._parts = me, parts
        self._algorithm, self._mixing, self._topology = parts.algorithm, parts.mixing, parts.topology
        self._voice = Voice(me, parts)
        self._dimension = d = parts.dimension
        self._state = self._algorithm.init(self._voice.start)
        self._heard: Inbox | None = None
        self._decides_release = getattr(parts.algorithm, "decides_release", False)
        self._stop = getattr(parts.algorithm, "stop", 0.0)
        self._hops = max(1, diameter(parts.topology)) if self._stop else 0
        self._moving = (1 << self._hops) - 1  # by round, the last one the lowest bit: whether some agent moved still
        self.left = False
        self._mixing_state = self._mixing.init(me)
        self.frame = np.zeros(frame_width(parts))
        self._recorded = parts.experiment.record.transcript
        self.frame[1] = RELEASE
        self._release, self._scalars = self.frame[HEADER : HEADER + d], self.frame[HEADER + d :]

    def speak(self, t: int, row: Vector) -> Round:
        """Fill `frame` with the release of round t, and `row` with the decision and the event of it."""
        round = self._topology.round(t, self._me)
        wanted = self._algorithm.message(self._state, round)
        message = allowed(wanted, self._parts, round)
        before = self._release.copy() if self._stop and isinstance(wanted, Relay) else None
        event = self._voice.say(message, t, self._heard, out=self._release)
        self.frame[0] = t
        if self._stop:
            settled = before is not None and norm(self._release - before) <= self._stop * norm(before)
            self._moving = (self._moving << 1 | (not settled)) & ((1 << self._hops) - 1)
            self.frame[2] = self._moving
        self._scalars[:] = self._mixing.say(self._mixing_state, round)
        decision = self._release if self._decides_release else self._algorithm.decision(self._state)
        if decision.shape != self._release.shape:
            raise ValueError(f"decision() gave a vector of shape {decision.shape}, not {self._release.shape}")
        row[: self._dimension] = decision
        events_end = self._dimension + len(event)
        row[self._dimension : events_end] = event
        if self._recorded:
            row[events_end:] = self.frame
        return round

    def hear(self, round: Round, frames: Mapping[int, Vector]) -> None:
        """Mix the frames of all senders, the own among them, and move on to the next round."""
        self._mixing_state, inbox = open_inbox(self._mixing, self._mixing_state, round, frames, self._dimension)
        self._state = self._algorithm.update(self._state, round, inbox, self._voice.losses(round.t))
        self._heard = inbox
        if self._stop:
            for j in round.senders:
                self._moving |= int(frames[j][2])
            # Of the oldest round there, every agent now knows what every other one knew then: all see the same bit.
            self.left = not self._moving >> (self._hops - 1)
