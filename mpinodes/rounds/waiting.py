"""Wait for other ranks: test the requests, sleep, test again, and raise an error at the deadline.

MPI does not notice a rank that was stopped or that loops, or a link that is cut; the other ranks would wait forever.
Therefore all waits of a rank go through its `Waits`, which compares the seconds waited with a limit and raises
`Overdue`. Before a rank does something long outside the rounds, it tells the ranks that wait for it that it is alive
(`Waits.at_work`). The start and the end of MPI itself cannot be interrupted; `launching.end_in` limits them.
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
LEAP = 1.0  # seconds: of the time between two tests at most so much counts, because the whole job may have been stopped
GROWTH = 1.03  # the factor by which each pause is longer than the pause before
FIRST_PAUSE, PAUSE = 1.25e-5, 4e-4  # seconds: the shortest and the longest pause, times the number of ranks
POLLS = 500  # if ranks share cores: a round of 65 ranks on two cores takes some tens, and more delay the other ranks
POLLS_ALONE = 100_000  # for a rank that has a core to itself: some tenths of a second
LOOKS = 4  # tests after each pause: MPICH receives one message in each test, perhaps not one that is waited for
WORDS = 0  # the tag of messages between ranks outside the rounds
AT_WORK = "at work"  # a message that says only that its sender is alive


class Waits:
    """The waits of one rank for other ranks, with a common time limit.

    Args:
        comm: the communicator of all ranks.
        limit: the seconds that one wait may take; None means `LIMIT`.

    Attributes:
        limit: the seconds that one wait may take.
        round: the current round of an agent; 0 outside the rounds.
        polls: how often an agent that waits for its neighbors tests its requests before it sleeps.
    """

    def __init__(self, comm: MPI.Comm, limit: float | None = None) -> None:
        self._comm = comm
        self.polls = POLLS_ALONE
        self.limit = LIMIT if limit is None else limit
        self.begin()

    def share_core(self, ranks: int, gives_way: bool) -> None:
        """If this host has more ranks than cores, sleep earlier in waits, and let an agent that wakes up yield.

        Agents that wait wake up often to test their requests. Without SCHED_BATCH each of them would interrupt the
        logger, for which they wait.

        Args:
            ranks: the number of ranks on this host.
            gives_way: whether this rank is an agent, which yields to the logger.
        """
        if ranks > len(os.sched_getaffinity(0)):
            self.polls = POLLS
            if gives_way:
                os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))

    def begin(self) -> None:
        """Begin to count the seconds that this rank works and waits."""
        self._begun, self._waited, self.round = time.perf_counter(), 0.0, 0

    def times(self) -> Vector:
        """Return the seconds that this rank worked and waited since `begin`, as an array (2,)."""
        return np.array([time.perf_counter() - self._begun - self._waited, self._waited])

    def in_round(self, requests: Sequence[MPI.Request], ranks: Sequence[int] = ()) -> None:
        """Wait for the neighbors of an agent: test and yield the core `polls` times, then wait `patiently`.

        Only a short wait polls: agents that poll take the cores from a logger that has work to do. MPI's own waits are
        not used because Python handles no signals during them.

        Args:
            requests: the requests to wait for.
            ranks: the rank that each request waits for.

        Raises:
            Overdue: the limit has passed.
        """
        polls, begun = self.polls, time.perf_counter()
        for request in requests:
            while not request.Test():
                polls -= 1
                if not polls:
                    self._waited += time.perf_counter() - begun
                    self.patiently(requests, ranks)
                    return
                os.sched_yield()
        self._waited += time.perf_counter() - begun

    def patiently(self, requests: Sequence[MPI.Request], ranks: Sequence[int] = (), times: float = 1.0) -> MPI.Status:
        """Wait for all requests, sleeping between tests to leave the core to others; return the last one's status.

        Args:
            requests: the requests to wait for.
            ranks: the rank that each request waits for.
            times: the number of limits that may pass.

        Raises:
            Overdue: they have passed; the error holds the ranks whose requests are not complete.
        """
        pairs = zip(ranks, requests, strict=False)
        done, status = 0, MPI.Status()
        looks = self._looks(lambda: [rank for rank, request in pairs if not request.Test()], times)
        while True:
            next(looks)
            for _ in range(LOOKS + len(requests)):
                while done < len(requests) and requests[done].Test(status):
                    done += 1
                if done == len(requests):
                    return status

    def _looks(self, missing: Callable[[], list[int]], times: float = 1.0) -> Iterator[None]:
        """Yield whenever the caller should test whether its wait is over; raise `Overdue` after `times` limits.

        Pauses are proportional to the number of ranks, because 64 ranks that test every millisecond take more than one
        core from the ranks that they wait for. Pauses grow slowly, by `GROWTH`. A rank that sleeps too long in a round
        makes its neighbors sleep, too; with pauses of 20 % of the time waited, one stall slowed down all later rounds
        of 64 agents on a ring (75 rounds per second instead of 200).

        Args:
            missing: returns the ranks that have not answered, for the error.
            times: the number of limits that may pass.
        """
        begun = before = time.perf_counter()
        passed, pause = 0.0, FIRST_PAUSE * self._comm.size
        try:
            while True:
                yield
                time.sleep(pause)
                now, pause = time.perf_counter(), min(GROWTH * pause, PAUSE * self._comm.size)
                passed, before = passed + min(now - before, LEAP), now
                if passed > times * self.limit:
                    raise Overdue(sorted(set(missing())), passed, self.round)
        finally:
            self._waited += time.perf_counter() - begun

    def hear(self, source: int) -> Any:
        """Receive and return the next message of another rank; while that rank is `at_work`, the limit starts anew.

        Raises:
            Overdue: no message came within the limit.
        """
        word: Any = AT_WORK
        while word == AT_WORK:
            for _ in self._looks(lambda: [source]):
                looks = (self._comm.improbe(source=source, tag=WORDS) for _ in range(LOOKS))
                if message := next(filter(None, looks), None):
                    word = message.recv()
                    break
        return word

    def tell(self, ranks: Sequence[int], word: Any = None) -> None:
        """Send a message to ranks that `hear` it. Collective calls are not used because they know no deadline."""
        self.patiently([self._comm.isend(word, dest=rank, tag=WORDS) for rank in ranks], ranks)

    def share(self, word: Any = None) -> list[Any]:
        """Return the messages of all ranks, ordered by rank. The last rank collects and distributes them."""
        last = self._comm.size - 1
        if self._comm.rank < last:
            self.tell([last], word)
            return list(self.hear(last))
        with self.at_work(range(last)):
            words = [*map(self.hear, range(last)), word]
        self.tell(range(last), words)
        return words

    @contextmanager
    def at_work(self, ranks: Sequence[int]) -> Iterator[None]:
        """Tell the given ranks, from a thread, that this rank is alive as long as the context lasts."""
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


def assemble(comm: MPI.Comm) -> None:
    """Wait until all ranks have called this, sleeping. In MPI's own barrier or MPI_Finalize the ranks would spin."""
    Waits(comm, np.inf).patiently([comm.Ibarrier()])
