"""Decide where a run's rounds are cut into chunks for the logger, and after which rounds checkpoints are saved."""

from __future__ import annotations

import time
from collections.abc import Callable

from mpinodes.core.parts import Setup
from mpinodes.runlog.checkpoints import Order

CHUNK = 65536  # bytes, about, that an agent hands to the logger at once
LONG = 1.0  # seconds of a chunk: beyond it the next are shorter, below half of it longer


def longest_chunk(setup: Setup) -> int:
    """Return the rounds of a chunk, at most: what fits in `CHUNK`, and an eighth of a run, to see the run move.

    With `checkpoint.every` the number is as near to that as lets whole chunks end at each checkpoint.
    """
    e = setup.experiment
    fit = max(1, min(e.rounds // 8, CHUNK // (8 * setup.layout.width)))
    if not (every := e.checkpoint.every):
        return fit
    chunks = max(1, (every + fit // 2) // fit)
    return -(-every // chunks)


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
        self._every = e.checkpoint.every
        self._length = 1  # a round may take long
        self._came_at = time.monotonic()
        self._whole, self._before = begin, 0  # the last checkpoints that are whole

    def next(self) -> Order | None:
        """Return the order for the next chunk; None if there is none."""
        if self.stopped or self._end == self._rounds:
            return None
        end = min(self._end + self._length, self._rounds)
        if self._every:
            end = min(end, (self._end // self._every + 1) * self._every)
        self._end, self.stopped = end, self._is_asked() and end < self._rounds
        is_due = self._every and (end % self._every == 0 or end == self._rounds)
        return Order(end, self.stopped or bool(is_due), self.stopped, self._before)

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
