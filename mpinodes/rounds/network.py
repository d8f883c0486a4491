"""MPI: the agents' exchange of frames, and the channel from each agent to the logger.

Frames are float64 buffers set up once, exchanged point to point by persistent requests; nothing is pickled
in the round loop, nothing is received from just anybody, and there is no barrier.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Mapping, Sequence
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from mpi4py import MPI

from mpinodes.core import Neighborhood, Setup, Vector
from mpinodes.rounds.plan import Plan
from mpinodes.rounds.step import RELEASE_FRAME, Arrivals
from mpinodes.rounds.waiting import Waits
from mpinodes.runlog.checkpoints import Chunk, Order

FRAMES, ROWS = 2, 3  # tags: of what agents exchange, and of a channel
OVER = -1  # in the place of a chunk's end: there is none any more
SLACK = 2.0  # limits that a wait on a channel may take: the neighbors of an agent that is late are to say so first


Ranks: TypeAlias = "tuple[int, ...]"
Chunks: TypeAlias = "Generator[Chunk, None, Vector]"


class RoundMismatch(RuntimeError):
    """A frame of another round or kind than the receiver is in."""


class Network:
    """An agent's links."""

    def __init__(self, comm: MPI.Comm, setup: Setup, frame: Vector, waits: Waits) -> None:
        self._comm, self._setup, self._waits = comm, setup, waits
        self._agent = comm.rank
        self._frames: dict[int, Vector] = {self._agent: frame}
        self._receives: dict[int, MPI.Prequest] = {}
        self._sends: dict[int, MPI.Prequest] = {}
        self._pattern = lru_cache(1024)(self._pattern_of)  # a graph drawn anew each round may never repeat

    def exchange(self, here: Neighborhood) -> Arrivals:
        """Send the own frame to the out-neighbors and receive the in-neighbors' frames.

        Raises:
            RoundMismatch: a frame is not of this round; names both agents and both rounds.
        """
        requests, arrivals, ranks = self._pattern(here.in_neighbors, here.out_neighbors)
        self._waits.round = t = here.t
        if requests:
            MPI.Prequest.Startall(requests)
            self._waits.in_round(requests, ranks)
        for k, frame in enumerate(arrivals.frames):
            if frame.item(0) != t or frame.item(1) != RELEASE_FRAME:
                raise RoundMismatch(
                    f"agent {self._agent} in round {here.t} got a frame of round {frame[0]:g}, kind {frame[1]:g}, "
                    f"from agent {arrivals.senders[k]}"
                )
        return arrivals

    def kept(self, arrivals: Arrivals) -> Mapping[int, Vector]:
        """What an agent goes on from, given what arrived."""
        return arrivals.by_sender

    def restored(self, here: Neighborhood, frames: Mapping[int, Vector]) -> Arrivals:
        """What was heard in a round, and said, before this process was there."""
        for j in here.in_neighbors:
            self._receive(j)
        for j, frame in frames.items():
            self._frames[j][:] = frame
        return self._pattern(here.in_neighbors, here.out_neighbors)[1]

    def _pattern_of(self, heard: Ranks, hearing: Ranks) -> tuple[list[MPI.Prequest], Arrivals, Ranks]:
        requests = [*map(self._receive, heard), *map(self._send, hearing)]
        arrivals = Arrivals.of(self._setup, self._agent, tuple(sorted((*heard, self._agent))), self._frames)
        return requests, arrivals, heard + hearing

    def _receive(self, j: int) -> MPI.Prequest:
        if j not in self._receives:
            self._frames[j] = np.empty_like(self._frames[self._agent])
            self._receives[j] = self._comm.Recv_init(self._frames[j], source=j, tag=FRAMES)
        return self._receives[j]

    def _send(self, i: int) -> MPI.Prequest:
        if i not in self._sends:
            self._sends[i] = self._comm.Send_init(self._frames[self._agent], dest=i, tag=FRAMES)
        return self._sends[i]

    def close(self) -> None:
        """Free the requests."""
        for request in (*self._receives.values(), *self._sends.values()):
            request.Free()


class Channel:
    """An agent's way to the logger: rows of floats, sent a chunk at a time.

    Two chunks take turns: while one is on its way the other is filled. How long a chunk is the logger says, two chunks
    ahead, once it has received the one before those. So memory is bounded however slow the logger is, and whatever it
    wants of all agents after a certain round reaches all of them in time. An agent that waits sleeps, to leave the
    logger the core.

    Args:
        comm: of the agents and the logger.
        width: floats of a row.
        longest: rounds of a chunk, at most.
        waits: how the agent waits.
        begin: the round after which rows begin.
    """

    def __init__(self, comm: MPI.Comm, width: int, longest: int, waits: Waits, begin: int = 0) -> None:
        self._comm, self._logger, self._waits = comm, comm.size - 1, waits
        self._chunks = np.empty((2, longest, width))
        self._sending = [MPI.REQUEST_NULL, MPI.REQUEST_NULL]
        self._chunk, self._begin, self._order = 0, begin, Order(begin)
        self._word = np.empty(len(Order._fields), np.int64)

    def row(self, t: int) -> Vector:
        """Where the row of round t is to be written."""
        if t > self._order.end:
            self._begin, self._order = self._order.end, self._heard()
            self._wait([self._sending[self._chunk % 2]])
        return np.asarray(self._chunks[self._chunk % 2, t - 1 - self._begin])

    def done(self, t: int) -> Order | None:
        """The row of round t is complete; where the chunk is, it is sent, and what was asked for is returned."""
        if t < self._order.end:
            return None
        self._send(t - self._begin)
        return self._order

    def _send(self, rows: int) -> None:
        self._wait([self._sending[self._chunk % 2]])
        filled = self._chunks[self._chunk % 2, :rows]
        self._sending[self._chunk % 2] = self._comm.Isend(filled, dest=self._logger, tag=ROWS)
        self._chunk += 1

    def _heard(self) -> Order:
        self._wait([self._comm.Irecv(self._word, source=self._logger, tag=ROWS)])
        end, keeps, stops, forget = self._word.tolist()
        return Order(end, bool(keeps), bool(stops), forget)

    def close(self, t: int, times: Vector) -> None:
        """Round t was the last; a chunk shorter than was asked for, though empty, tells the logger.

        By then an agent has written down what it was asked to.

        Args:
            t: the round.
            times: this rank's seconds at work and waiting, (2,).
        """
        self._send(t - self._begin if t < self._order.end else 0)
        self._wait(self._sending)
        while self._heard().end != OVER:
            pass
        self._wait([self._comm.Isend(times, dest=self._logger, tag=ROWS)])

    def _wait(self, requests: Sequence[MPI.Request]) -> None:
        self._waits.patiently(requests, [self._logger] * len(requests), times=SLACK)


def receive_chunks(comm: MPI.Comm, plan: Plan, width: int, waits: Waits, begin: int = 0) -> Chunks:
    """The logger's end of all channels: chunks in order, each valid until the next one.

    A chunk shorter than was asked for is the last.

    Returns:
        Seconds at work and waiting of every rank, the logger last: (ranks, 2).
    """
    agents = comm.size - 1
    buffers = np.empty((2, agents, plan.longest, width))
    asked: deque[Order] = deque()

    def tell(order: Order) -> None:
        word = np.array(order, np.int64)
        waits.patiently([comm.Isend(word, dest=i, tag=ROWS) for i in range(agents)], range(agents), times=SLACK)

    def ask() -> None:
        if order := plan.next():
            asked.append(order)
            tell(order)

    def post(k: int) -> list[MPI.Request]:
        return [comm.Irecv(buffers[k % 2, i], source=i, tag=ROWS) for i in range(agents)]

    waits.begin()
    ask()
    ask()
    coming, k, before = post(0), 0, Order(begin)
    while True:
        came = waits.patiently(coming, range(agents), SLACK).Get_count(MPI.DOUBLE) // width
        plan.came()
        if before.keeps:
            plan.is_whole(before.end)
        order = asked.popleft() if asked else None
        is_last = order is None or came < order.end - before.end
        if is_last:
            tell(Order(OVER))
        else:
            ask()
            coming = post(k + 1)
        if came:
            yield Chunk(buffers[k % 2, :, :came], None if is_last else order)
        if order is None or is_last:
            break
        k, before = k + 1, order
    times = np.empty((comm.size, 2))
    times[agents] = waits.times()
    waits.patiently([comm.Irecv(times[i], source=i, tag=ROWS) for i in range(agents)], range(agents), times=SLACK)
    return times
