"""Wait for other MPI ranks, with a time limit for each wait.

MPI does not notice if a rank is stopped, is in an endless loop, or has lost its connection. Therefore each rank waits
through its `Waits` object, which raises `Overdue` at the limit. During a long computation outside the rounds, a rank
tells the waiting ranks repeatedly that it is alive (`Waits.at_work`).
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from mpi4py import MPI

from mpinodes.core.errors import Overdue
from mpinodes.core.messages import Vector

LIMIT = 600.0  # seconds: a file system that hangs, or a busy machine, may delay a rank by some minutes
LEAP = 1.0  # seconds: a longer time between two tests counts as this time, because the whole job may have been stopped
# Each pause is longer than the pause before by one of these factors. The logger's pauses grow fast, because the logger
# interrupts the agents whenever it wakes up. In a round, the neighbors would wait for an agent that sleeps too long.
GROWTH = 1.25
GROWTH_IN_ROUND = 1.03
FIRST_PAUSE, PAUSE = 1.25e-5, 4e-4  # the shortest and the longest pause are this many seconds times the number of ranks
POLLS = 500  # tests before a rank sleeps, if ranks share cores: a round of 65 ranks on two cores needs some tens
POLLS_ALONE = 100_000  # tests before a rank sleeps, if each rank has a core: some tenths of a second
LOOKS = 4  # tests after each pause, because MPICH receives one message in each test, perhaps not the awaited message
WORDS = 0  # the MPI tag of messages between ranks outside the rounds
AT_WORK = "at work"  # a message which says only that its sender is alive


class Waits:
    """Let one rank wait for other ranks, with a time limit for each wait, and count the seconds of all waits.

    If the whole job is stopped during a wait, the stop counts as at most `LEAP` seconds.

    Args:
        comm: the communicator of all ranks.
        limit: the largest number of seconds of one wait; None means the constant `LIMIT`, ten minutes.

    Attributes:
        limit: the largest number of seconds of one wait.
        round: the current round of the agent, for error messages; 0 outside the rounds.
        polls: how many times an agent that waits for its neighbors tests its requests before it sleeps.
    """

    def __init__(self, comm: MPI.Comm, limit: float | None = None) -> None:
        self._comm, self._parent, self.polls = comm, os.getppid(), POLLS_ALONE
        self.limit = LIMIT if limit is None else limit
        self.reset()

    def share_core(self, ranks: int, gives_way: bool) -> None:
        """Let this rank sleep earlier when it waits for neighbors, if the host has more ranks than cores.

        In this case, an agent also gets the scheduling policy SCHED_BATCH.

        Args:
            ranks: the number of ranks on this host.
            gives_way: whether this rank is an agent; False for the logger.
        """
        if ranks > len(os.sched_getaffinity(0)):
            self.polls = POLLS
            if gives_way:
                os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))

    def reset(self) -> None:
        """Start to count the seconds of computing and waiting from zero, and set the attribute `round` to 0."""
        self._begun, self._waited, self.round = time.perf_counter(), 0.0, 0

    def times(self) -> Vector:
        """Return an array (2,): the seconds for which this rank computed, and for which it waited, since `reset`."""
        return np.array([time.perf_counter() - self._begun - self._waited, self._waited])

    def in_round(self, requests: Sequence[MPI.Request], ranks: Sequence[int] = ()) -> None:
        """Wait until all MPI requests of an agent in a round are complete.

        The requests are tested up to `polls` times without sleep, then a few times after each sleep.

        Args:
            requests: the requests whose completion is awaited.
            ranks: for each request, the rank with which it communicates, for the error message.

        Raises:
            Overdue: the time limit has passed.
        """
        # Python cannot handle signals during MPI_Wait. A sleep lets a logger on the same core work.
        polls, begun = self.polls, time.perf_counter()
        for request in requests:
            while polls and not request.Test():
                polls -= 1
                os.sched_yield()
        self._waited += time.perf_counter() - begun
        if not polls:
            self.patiently(requests, ranks, growth=GROWTH_IN_ROUND)

    def patiently(
        self, requests: Sequence[MPI.Request], ranks: Sequence[int] = (), times: float = 1.0, growth: float = GROWTH
    ) -> MPI.Status:
        """Wait until all requests are complete, sleeping in between; return the status of the last of them.

        Args:
            requests: the requests whose completion is awaited.
            ranks: for each request, the rank with which it communicates, for the error.
            times: the factor by which the time limit is multiplied, for this wait.
            growth: the factor by which each pause is longer than the pause before, up to a maximum.

        Raises:
            Overdue: the wait lasted too long; the error contains the ranks whose requests are not complete.
        """
        pairs = zip(ranks, requests, strict=False)
        done, status = 0, MPI.Status()
        looks = self._looks(lambda: [rank for rank, request in pairs if not request.Test()], times, growth)
        while True:
            next(looks)
            for _ in range(LOOKS + len(requests)):
                while done < len(requests) and requests[done].Test(status):
                    done += 1
                if done == len(requests):
                    return status

    def _looks(self, missing: Callable[[], list[int]], times: float = 1.0, growth: float = GROWTH) -> Iterator[None]:
        """Yield whenever the caller should test its requests, and sleep between two yields.

        Each pause is longer than the pause before, up to a maximum. Pauses are proportional to the number of ranks.

        Args:
            missing: returns the ranks that have not answered, for the error message.
            times: the factor by which the time limit is multiplied, for this wait.
            growth: the factor by which each pause is longer than the pause before.

        Raises:
            Overdue: the wait lasted too long.
        """
        begun = before = time.perf_counter()
        passed, pause = 0.0, FIRST_PAUSE * self._comm.size
        try:
            while True:
                yield
                time.sleep(pause)
                now, pause = time.perf_counter(), min(growth * pause, PAUSE * self._comm.size)
                passed, before = passed + min(now - before, LEAP), now
                if os.getppid() != self._parent:  # the process that started this rank is gone, and the job with it
                    os._exit(1)
                if passed > times * self.limit:
                    raise Overdue(sorted(set(missing())), passed, self.round)
        finally:
            self._waited += time.perf_counter() - begun

    def hear(self, source: int) -> Any:
        """Wait for the next message from the rank `source`, and return the message.

        Messages that say only that the rank is alive (`at_work`) are skipped, and restart the time limit.

        Raises:
            Overdue: no message arrived within the limit.
        """
        word: Any = AT_WORK
        while word == AT_WORK:
            for _ in self._looks(lambda: [source]):
                looks = (self._comm.improbe(source=source, tag=WORDS) for _ in range(LOOKS))
                if message := next(filter(None, looks), None):
                    word = message.recv()
                    break
        return word

    def send(self, ranks: Sequence[int], word: Any = None) -> None:
        """Send a message to other ranks, which call `hear` to receive the message.

        Args:
            ranks: the ranks that receive the message.
            word: the message.

        Raises:
            Overdue: MPI did not complete the sending within the limit.
        """
        self.patiently([self._comm.isend(word, dest=rank, tag=WORDS) for rank in ranks], ranks)

    def share(self, word: Any = None) -> list[Any]:
        """Exchange messages with all ranks: return the messages of all ranks, ordered by rank.

        All ranks call this function at the same point of the program. The last rank collects and distributes the
        messages.

        Args:
            word: the message of this rank.

        Raises:
            Overdue: a rank did not answer within the limit.
        """
        last = self._comm.size - 1
        if self._comm.rank < last:
            self.send([last], word)
            return list(self.hear(last))
        with self.at_work(range(last)):
            words = [*map(self.hear, range(last)), word]
        self.send(range(last), words)
        return words

    @contextmanager
    def at_work(self, ranks: Sequence[int]) -> Iterator[None]:
        """Tell other ranks repeatedly that this rank is alive, as long as the `with` block runs.

        After the block, this rank waits until these messages have been sent.

        Raises:
            Overdue: MPI did not complete the sending within the limit.
        """
        over, sent = threading.Event(), list[MPI.Request]()

        def sign() -> None:
            while not over.wait(min(self.limit / 8, LIMIT)):
                sent.extend([self._comm.isend(AT_WORK, dest=rank, tag=WORDS) for rank in ranks])

        thread = threading.Thread(target=sign, daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
        self.patiently(sent, list(ranks) * (len(sent) // max(1, len(ranks))))
