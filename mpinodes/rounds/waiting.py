"""Waiting for other ranks: look, sleep, look again, and give up at the deadline.

MPI notices neither a rank that was stopped or that loops, nor a link that is cut: the others would wait for ever. So
all waits of a rank go through its `Waits`, which compares the seconds waited with a limit and raises `Overdue`. A rank
that is about to do something long outside the rounds tells the ranks that wait for it that it is alive: see
`Waits.at_work`. The start and the end of MPI itself cannot be interrupted: see `launching.find_world`.
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

LIMIT = 600.0  # seconds: a file system that hangs, or a machine that is needed elsewhere, may take some minutes
LEAP = 1.0  # seconds between two looks that count, at most: the time in which the whole job was stopped does not count
GROWTH = 1.03  # of a pause between two looks of a rank that waits long
FIRST_PAUSE, PAUSE = 1.25e-5, 4e-4  # seconds of a pause, at least and at most, for each rank there is
POLLS = 500  # a round of 65 ranks on two cores takes some tens; beyond some time slices they delay the other ranks
POLLS_ALONE = 100_000  # of a rank that has a core to itself: some tenths of a second
LOOKS = 4  # at each waking: MPICH takes in one message a look, and there may be others than those waited for
WORDS = 0  # the tag of what ranks tell each other outside the rounds
AT_WORK = "at work"  # a word that says only that its sender is alive


class Waits:
    """How one rank waits for others.

    Args:
        comm: of all ranks.
        limit: seconds that a wait may take; None: `LIMIT`.

    Attributes:
        limit: see above.
        round: the round that an agent is in; 0: none.
        polls: how often an agent that waits for its neighbors looks before it sleeps.
    """

    def __init__(self, comm: MPI.Comm, limit: float | None = None) -> None:
        self._comm = comm
        self.polls = POLLS_ALONE
        self.limit = LIMIT if limit is None else limit
        self.begin()

    def share_core(self, ranks: int, gives_way: bool) -> None:
        """Where the ranks of this host outnumber its cores, look less often, and have an agent that wakes up give way.

        Agents that wait wake up again and again to look: they would leave the logger, for whom they wait, next to
        nothing.

        Args:
            ranks: on this host.
            gives_way: whether this rank is an agent.
        """
        if ranks > len(os.sched_getaffinity(0)):
            self.polls = POLLS
            if gives_way:
                os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))

    def begin(self) -> None:
        """Count the seconds at work and waiting from now on."""
        self._begun, self._waited, self.round = time.perf_counter(), 0.0, 0

    def times(self) -> Vector:
        """Return the seconds at work and waiting since `begin`: (2,)."""
        return np.array([time.perf_counter() - self._begun - self._waited, self._waited])

    def in_round(self, requests: Sequence[MPI.Request], ranks: Sequence[int] = ()) -> None:
        """Wait as an agent does for its neighbors: yield the core, and sleep only if the wait is long.

        64 agents that spin, each yielding, leave a logger that has work to do next to nothing of the cores. One request
        is looked at a time, which takes a third of the time of looking at all. MPI's own waits would keep signals from
        Python.
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
        """Wait without taking the core from ranks that have work to do; return the status of the last request.

        Args:
            requests: all of them are waited for.
            ranks: the rank that each request waits for.
            times: so many limits may pass.

        Raises:
            Overdue: they have passed.
        """
        pairs = zip(ranks, requests, strict=False)
        done, status = 0, MPI.Status()
        looks = self._looks(lambda: [rank for rank, request in pairs if not request.Test()], times)
        while True:
            next(looks)
            for _ in range(LOOKS + len(requests)):
                while done < len(requests) and requests[done].Test(status):  # to look at all 256 takes 30 µs
                    done += 1
                if done == len(requests):
                    return status

    def _looks(self, missing: Callable[[], list[int]], times: float = 1.0) -> Iterator[None]:
        """Yield whenever it is time to look whether the wait is over, until the limit has passed `times` times.

        The pause between two looks is a part of what the rank has waited already. 64 ranks that look every millisecond
        take more than one core of a small machine, from the ranks that they wait for. Yet a rank that sleeps in a round
        makes its neighbors wait, and sleep: with pauses of a fifth of what they had waited, after one stall 55 of 64
        agents on a ring were asleep at any time, for good, and made 75 rounds a second where they make 200.
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
        """Return the next word of another rank. It may take longer than the limit where the rank is `at_work`.

        Raises:
            Overdue: nothing comes.
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
        """Tell ranks something, each of which will `hear` it. In a collective call they could not see the deadline."""
        self.patiently([self._comm.isend(word, dest=rank, tag=WORDS) for rank in ranks], ranks)

    def share(self, word: Any = None) -> list[Any]:
        """Return the words of all ranks, in their order. The last rank hears all and tells all."""
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
        """Tell ranks that will `hear` this one, from a thread, that it is alive while it does something long."""
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
    """Wait patiently until every rank is here: in a collective call, or in MPI_Finalize, they would spin."""
    Waits(comm, np.inf).patiently([comm.Ibarrier()])
