"""One agent: the place where algorithm, mechanism, mixing and data meet.

The agent speaks (one noised release, one event) and hears (mix, then update on the revealed loss). Who
carries the frames between the two is not its business: `network` over MPI, `lockstep` in one process.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from mpinodes.parts import Parts
from mpinodes.protocol import Event, Inbox, Mixing, Round, Vector
from mpinodes.seeds import Purpose, Stream

HEADER = 2  # round, kind
RELEASE = 1.0  # the kind of a frame: a noised release and the mixing's scalars


def frame_width(parts: Parts) -> int:
    """Floats of a frame: header, release, scalars."""
    return HEADER + parts.dimension + parts.mixing.width


def row_width(parts: Parts) -> int:
    """Floats that an agent hands to the logger each round: its estimate, its event, and its frame if recorded."""
    frame = frame_width(parts) if parts.experiment.record.transcript else 0
    return parts.dimension + len(Event._fields) + frame


def open_inbox(
    mixing: Mixing, state: Any, round: Round, frames: Mapping[int, Vector], dimension: int
) -> tuple[Any, Inbox]:
    """What agent `round.me` hears of the frames of all senders: the mixing's new state, and the inbox."""
    end = HEADER + dimension
    heard = [frames[j] for j in round.senders]
    state, row, scale = mixing.hear(state, round, [frame[end:] for frame in heard])
    return state, Inbox([frame[HEADER:end] for frame in heard], row, scale)


class Agent:
    """Agent `me` of an experiment.

    Attributes:
        frame: what it sends in a round: [round, kind | release (d,) | the mixing's scalars (width,)].
    """

    def __init__(self, me: int, parts: Parts) -> None:
        self._me = me
        self._algorithm, self._mechanism = parts.algorithm, parts.mechanism
        self._mixing, self._topology = parts.mixing, parts.topology
        self._losses = parts.losses(me)
        self._noise = Stream(parts.experiment.seed, Purpose.NOISE, me)
        self._dimension = d = parts.dimension
        self._state = self._algorithm.init(np.zeros(d))
        self._mixing_state = self._mixing.init(me)
        self.frame = np.zeros(frame_width(parts))
        self._recorded = parts.experiment.record.transcript
        self.frame[1] = RELEASE
        self._release, self._scalars = self.frame[HEADER : HEADER + d], self.frame[HEADER + d :]

    def speak(self, t: int, row: Vector) -> Round:
        """Fill `frame` with the release of round t, and `row` with the decision and the event of it."""
        round = self._topology.round(t, self._me)
        query = self._algorithm.message(self._state, round)
        if query.value.shape != self._release.shape:
            raise ValueError(f"message() gave a vector of shape {query.value.shape}, not {self._release.shape}")
        event = self._mechanism.release(query, t, self._noise, out=self._release)
        self.frame[0] = t
        self._scalars[:] = self._mixing.say(self._mixing_state, round)
        decision = self._algorithm.decision(self._state)
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
        self._state = self._algorithm.update(self._state, round, inbox, self._losses(round.t))
