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
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import repeat
from typing import Any

import numpy as np
from mpi4py import MPI

from mpinodes.core.errors import Overdue
from mpinodes.core.messages import Vector

LIMIT = 600.0  # seconds: a file system that hangs, or a machine that is needed elsewhere, may take some minutes
UNATTENDED = 6000.0  # seconds for which a rank says that it is at work
LEAP = 1.0  # seconds between two looks that count, at most: the time in which the whole job was stopped does not count
GROWTH = 1.03  # of a pause between two looks of a rank that waits long
FIRST_PAUSE, PAUSE = 1.25e-5, 4e-4  # seconds of a pause, at least and at most, for each rank there is
POLLS = 500  # a round of 65 ranks on two cores takes some tens; beyond some time slices they delay the other ranks
POLLS_ALONE = 100_000  # of a rank that has a core to itself: some tenths of a second
LOOKS = 4  # at each waking: MPICH takes in one message a look, and there may be others than those waited for
WORDS = 0  # the tag of what ranks tell each other outside the rounds
AT_WORK = "at work"  # a word that says only that its sender is alive


def pauses(ranks: int) -> Iterator[float]:
    """Yield the seconds between two looks of a rank that waits: a part of what it has waited already, if need be.

    64 ranks that look every millisecond take more than one core of a small machine, from the ranks that they wait for.
    Yet a rank that sleeps in a round makes its neighbors wait, and sleep: with pauses of a fifth of what they had
    waited, after one stall 55 of 64 agents on a ring were asleep at any time, for good, and made 75 rounds a second
    where they make 200.

    Args:
        ranks: how many there are.
    """
    pause, longest = FIRST_PAUSE * ranks, PAUSE * ranks
    while True:
        yield pause
        pause = min(GROWTH * pause, longest)


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
        pause, polls, begun = os.sched_yield, self.polls, time.perf_counter()
        for request in requests:
            is_done = request.Test
            while not is_done():
                polls -= 1
                if not polls:
                    self._waited += time.perf_counter() - begun
                    self.patiently(requests, ranks)
                    return
                pause()
        self._waited += time.perf_counter() - begun

    def patiently(
        self,
        requests: Sequence[MPI.Request],
        ranks: Sequence[int] = (),
        statuses: list[MPI.Status] | None = None,
        times: float = 1.0,
    ) -> None:
        """Wait without taking the core from ranks that have work to do.

        Args:
            requests: all of them are waited for.
            ranks: the rank that each request waits for.
            statuses: to be filled in.
            times: so many limits may pass.

        Raises:
            Overdue: they have passed.
        """
        ahead = deque[tuple[MPI.Request, MPI.Status | None]](zip(requests, statuses or repeat(None), strict=False))

        def missing() -> list[int]:
            return [rank for rank, (request, _) in zip(ranks[-len(ahead) :], ahead, strict=False) if not request.Test()]

        for _ in self._looks(missing, times):
            for _ in range(LOOKS + len(requests)):
                while ahead and ahead[0][0].Test(ahead[0][1]):  # one at a time, for to look at 256 takes 30 µs
                    ahead.popleft()
                if not ahead:
                    return

    def _looks(self, missing: Callable[[], list[int]], times: float = 1.0) -> Iterator[None]:
        """Yield whenever it is time to look whether the wait is over, until the limit has passed `times` times."""
        begun = before = time.perf_counter()
        passed = 0.0
        try:
            for pause in pauses(self._comm.size):
                yield
                time.sleep(pause)
                now = time.perf_counter()
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
                if message := next(
                    filter(None, (self._comm.improbe(source=source, tag=WORDS) for _ in range(LOOKS))), None
                ):
                    word = message.recv()
                    break
        return word

    def tell(self, ranks: Sequence[int], word: Any = None) -> None:
        """Tell ranks something, each of which will `hear` it. In a collective call they could not see the deadline."""
        self.patiently([self._comm.isend(word, dest=rank, tag=WORDS) for rank in ranks], ranks)

    @contextmanager
    def at_work(self, ranks: Sequence[int]) -> Iterator[None]:
        """Tell ranks that will `hear` this one, from a thread, that it is alive while it does something long."""
        over = threading.Event()
        sent: list[MPI.Request] = []

        def sign() -> None:
            for _ in range(int(UNATTENDED / pause)):
                if over.wait(pause):
                    return
                sent.extend([self._comm.isend(AT_WORK, dest=rank, tag=WORDS) for rank in ranks])

        pause = min(self.limit / 8, LIMIT)
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
