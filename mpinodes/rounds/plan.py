"""Decide where a run's rounds are cut into chunks for the logger, and after which rounds checkpoints are saved."""

from __future__ import annotations

import time
from collections.abc import Callable

from mpinodes.core.experiment import chunk_rounds
from mpinodes.core.parts import Setup
from mpinodes.runlog.checkpoints import Order

LONG = 1.0  # seconds; a chunk that takes longer halves the next chunk, and one of less than half doubles the next chunk


def longest_chunk(setup: Setup) -> int:
    """Return the largest number of rounds in a chunk."""
    return chunk_rounds(setup.experiment, setup.layout.width)


class Plan:
    """Decide, one chunk at a time, where rounds are cut. The results of a run do not depend on the cuts.

    Args:
        setup: the set-up of the run.
        begin: the round after which the run begins or goes on.
        is_asked: returns whether somebody has asked the run to stop.

    Attributes:
        longest: the largest number of rounds in a chunk.
        stopped: whether the latest order stops the run.
    """

    def __init__(self, setup: Setup, begin: int = 0, is_asked: Callable[[], bool] = lambda: False) -> None:
        e = setup.experiment
        self.longest = longest_chunk(setup)
        self.stopped = False
        self._rounds, self._end, self._is_asked = e.rounds, begin, is_asked
        self._every, self._seconds = e.checkpoint.every, e.checkpoint.seconds
        self._length = 1  # because a round may take long
        self._kept_at = self._came_at = time.monotonic()
        self._whole, self._before = begin, 0  # the rounds of the last two complete checkpoints

    def next(self) -> Order | None:
        """Return the order for the next chunk; None if there is none."""
        if self.stopped or self._end == self._rounds:
            return None
        end = min(self._end + self._length, self._rounds)
        if self._every:
            end = min(end, (self._end // self._every + 1) * self._every)
        self._end, self.stopped = end, self._is_asked() and end < self._rounds
        at_multiple = self._every and end % self._every == 0
        long_ago = self._seconds and time.monotonic() - self._kept_at >= self._seconds
        at_end = end == self._rounds and (self._every or self._seconds)
        keeps = bool(self.stopped or at_multiple or long_ago or at_end)
        if keeps:
            self._kept_at = time.monotonic()
        return Order(end, keeps, self.stopped, self._before)

    def came(self) -> None:
        """Note that a chunk has arrived from all agents, and adapt the length of the next chunks to the time taken."""
        now = time.monotonic()
        took, self._came_at = now - self._came_at, now
        if took > LONG:
            self._length = max(1, self._length // 2)
        elif took < LONG / 2:
            self._length = min(self.longest, 2 * self._length)

    def is_whole(self, t: int) -> int:
        """Note that all participants have saved their checkpoint of round t.

        Returns:
            The round of the previous complete checkpoint. Still older checkpoints are not needed any more.
        """
        self._before, self._whole = self._whole, t
        return self._before
