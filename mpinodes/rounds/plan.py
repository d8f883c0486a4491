"""Where the rounds of a run are cut: chunks of rows for the logger, and the rounds after which all is kept."""

from __future__ import annotations

import time
from collections.abc import Callable

from mpinodes.core.experiment import chunk_rounds
from mpinodes.core.parts import Setup
from mpinodes.runlog.checkpoints import Order

LONG = 1.0  # seconds of a chunk: beyond it the next are shorter, below half of it longer


def longest_chunk(setup: Setup) -> int:
    """Rounds of a chunk, at most."""
    return chunk_rounds(setup.experiment, setup.layout.width)


class Plan:
    """Decides, a chunk at a time, where rounds are cut. What a run gives does not depend on it.

    Args:
        setup: of the run.
        begin: the round after which it begins.
        is_asked: whether somebody wants the run to stop.

    Attributes:
        longest: rounds of a chunk, at most.
        stopped: whether the run has been told to.
    """

    def __init__(self, setup: Setup, begin: int = 0, is_asked: Callable[[], bool] = lambda: False) -> None:
        e = setup.experiment
        self.longest = longest_chunk(setup)
        self.stopped = False
        self._rounds, self._end, self._is_asked = e.rounds, begin, is_asked
        self._every, self._seconds = e.checkpoint.every, e.checkpoint.seconds
        self._length = 1  # a round may take long
        self._kept_at = self._came_at = time.monotonic()
        self._whole, self._before = begin, 0  # the last checkpoints that are whole

    def next(self) -> Order | None:
        """Of the next chunk; None: there is none."""
        if self.stopped or self._end == self._rounds:
            return None
        end = min(self._end + self._length, self._rounds)
        if self._every:
            end = min(end, (self._end // self._every + 1) * self._every)
        self._end, self.stopped = end, self._is_asked() and end < self._rounds
        keeps = self.stopped or self._is_due()
        if keeps:
            self._kept_at = time.monotonic()
        return Order(end, keeps, self.stopped, self._before)

    def _is_due(self) -> bool:
        if self._every and self._end % self._every == 0:
            return True
        if self._seconds and time.monotonic() - self._kept_at >= self._seconds:
            return True
        return self._end == self._rounds and bool(self._every or self._seconds)

    def came(self) -> None:
        """A chunk has come from all agents."""
        now = time.monotonic()
        took, self._came_at = now - self._came_at, now
        if took > LONG:
            self._length = max(1, self._length // 2)
        elif took < LONG / 2:
            self._length = min(self.longest, 2 * self._length)

    def is_whole(self, t: int) -> int:
        """All have written down what there is after round t; returns the round before which nothing is needed."""
        self._before, self._whole = self._whole, t
        return self._before
