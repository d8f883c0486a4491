"""Decide after which rounds agents send their logged numbers to the logger, and after which they save checkpoints.

An agent logs a row of numbers in each round. Under MPI, the agent sends the rows of some consecutive rounds, a chunk,
in one message.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from mpinodes.core.parts import Setup
from mpinodes.runlog.checkpoints import Order

CHUNK = 262144  # the approximate size in bytes of the largest chunk
LONG = 1.0  # seconds: if a chunk takes longer, the next chunks are shorter; if it takes less than half, they are longer


def longest_chunk(setup: Setup) -> int:
    """Return the largest number of rounds in a chunk: consecutive rounds that an agent logs and sends together.

    A chunk has at most about an eighth of all rounds, and at most about `CHUNK` bytes for each agent, but at least one
    round. If `checkpoint.every` is set, chunks of this length divide the rounds between two checkpoints into nearly
    equal parts.
    """
    e = setup.experiment
    fit = max(1, min(e.rounds // 8, CHUNK // (8 * setup.layout.width)))
    if not (every := e.checkpoint.every):
        return fit
    chunks = max(1, (every + fit // 2) // fit)
    return -(-every // chunks)


class Plan:
    """Decide, for one chunk after the other, how many rounds the chunk has.

    A chunk is a number of consecutive rounds. Under MPI, an agent sends the numbers that it logged in a chunk to the
    logger in one message. The results of a run do not depend on the chunks.

    Args:
        setup: the set-up of the run.
        begin: the round before the first round of this job: 0, or the round of the checkpoint that the job resumes.
        is_asked: returns whether a signal has asked the run to stop.

    Attributes:
        longest: the largest number of rounds in a chunk.
        stopped: whether the latest order that `next` returned stops the run.
    """

    def __init__(self, setup: Setup, begin: int = 0, is_asked: Callable[[], bool] = lambda: False) -> None:
        e = setup.experiment
        self.longest = longest_chunk(setup)
        self.stopped = False
        self._rounds, self._end, self._is_asked = e.rounds, begin, is_asked
        self._every = e.checkpoint.every
        self._length = 1  # the first chunk has one round, because a round may take long
        self._came_at = time.monotonic()
        self._whole, self._before = begin, 0  # the rounds of the last two complete checkpoints

    def next(self) -> Order | None:
        """Return the `Order` of the next chunk (rounds that are sent together); None if no chunk follows.

        The `Order` has the last round of the chunk, and says whether to save a checkpoint or to stop after this round.
        """
        if self.stopped or self._end == self._rounds:
            return None
        end = min(self._end + self._length, self._rounds)
        if self._every:
            end = min(end, (self._end // self._every + 1) * self._every)
        self._end, self.stopped = end, self._is_asked() and end < self._rounds
        is_due = self._every and (end % self._every == 0 or end == self._rounds)
        return Order(end, self.stopped or bool(is_due), self.stopped, self._before)

    def came(self, logged: Order) -> None:
        """Record that a chunk (consecutive rounds) has arrived from all agents, and adapt the length of later chunks.

        - If more than `LONG` seconds have passed since the previous chunk, later chunks have half as many rounds, but
          at least one.
        - If less than half of `LONG` seconds have passed, later chunks have twice as many rounds, up to `longest`.

        Args:
            logged: the order of the previous chunk, which is in the log. If the order asked for a checkpoint, all
                agents and the logger have saved the checkpoint.
        """
        if logged.keeps:
            self._before, self._whole = self._whole, logged.end
        now = time.monotonic()
        took, self._came_at = now - self._came_at, now
        if took > LONG:
            self._length = max(1, self._length // 2)
        elif took < LONG / 2:
            self._length = min(self.longest, 2 * self._length)
