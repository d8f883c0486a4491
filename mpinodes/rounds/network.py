"""Carry frames and rows over MPI: `Network` exchanges frames between agents, `Channel` sends rows to the logger.

Frames are float64 buffers that are allocated once and exchanged point to point by persistent requests. In the round
loop nothing is pickled, every receive names its source, and there is no barrier.
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

FRAMES, ROWS = 2, 3  # tags: of the frames that agents exchange, and of the traffic on channels
OVER = -1  # sent instead of a chunk's end: no chunk follows
SLACK = 2.0  # a wait on a channel may take so many limits, so that the neighbors of a late agent report the agent first


Chunks: TypeAlias = "Generator[Chunk, None, Vector]"


class RoundMismatch(RuntimeError):
    """A frame arrived whose round or kind is not the one that its receiver expects."""


class Network:
    """The links of one agent to its neighbors over MPI.

    Args:
        comm: the communicator of the agents and the logger; the rank is the agent.
        setup: the set-up of the run.
        frame: (frame width,) the agent's own frame. The agent writes its message there before each exchange.
        waits: the waits of this rank.
    """

    def __init__(self, comm: MPI.Comm, setup: Setup, frame: Vector, waits: Waits) -> None:
        self._comm, self._waits, self._agent = comm, waits, comm.rank
        self._frames: dict[int, Vector] = {self._agent: frame}
        self._receives: dict[int, MPI.Prequest] = {}
        self._sends: dict[int, MPI.Prequest] = {}

        @lru_cache(1024)  # bounded, because random graphs may never repeat
        def pattern(senders: tuple[int, ...], receivers: tuple[int, ...]) -> tuple[list[MPI.Prequest], Arrivals]:
            requests = [*map(self._receive, senders), *map(self._send, receivers)]
            return requests, Arrivals.of(setup, self._agent, tuple(sorted((*senders, self._agent))), self._frames)

        self._pattern = pattern

    def exchange(self, here: Neighborhood) -> Arrivals:
        """Send the agent's frame to its out-neighbors, receive its in-neighbors' frames, and return the arrivals.

        Raises:
            RoundMismatch: a frame is not of this round; the error names both agents and both rounds.
        """
        requests, arrivals = self._pattern(here.in_neighbors, here.out_neighbors)
        self._waits.round = t = here.t
        if requests:
            MPI.Prequest.Startall(requests)
            self._waits.in_round(requests, here.in_neighbors + here.out_neighbors)
        for k, frame in enumerate(arrivals.frames):
            if frame.item(0) != t or frame.item(1) != RELEASE_FRAME:
                raise RoundMismatch(
                    f"agent {self._agent} in round {here.t} got a frame of round {frame[0]:g}, kind {frame[1]:g}, "
                    f"from agent {arrivals.senders[k]}"
                )
        return arrivals

    def kept(self, arrivals: Arrivals) -> Mapping[int, Vector]:
        """Return the frames for a checkpoint: for each sender the frame that arrived, (frame width,)."""
        return arrivals.by_sender

    def restored(self, here: Neighborhood, frames: Mapping[int, Vector]) -> Arrivals:
        """Return the arrivals of a round from the frames of a checkpoint, and store these frames."""
        for j in here.in_neighbors:
            self._receive(j)
        for j, frame in frames.items():
            self._frames[j][:] = frame
        return self._pattern(here.in_neighbors, here.out_neighbors)[1]

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
        """Free the persistent requests of MPI."""
        for request in (*self._receives.values(), *self._sends.values()):
            request.Free()


class Channel:
    """The channel from an agent to the logger: rows of floats, sent in chunks.

    Two buffers take turns: while the chunk in one buffer is being sent, the agent fills the other. The logger orders
    each chunk (an `Order`: its last round, and whether to save a checkpoint or stop after it). It sends the order of
    chunk k + 2 when it has received chunk k. So memory is bounded even if the logger is slow, and all agents know of a
    checkpoint or stop before they reach its round. An agent that waits for the logger sleeps, so that the logger can
    use the core.

    Args:
        comm: the communicator of the agents and the logger.
        width: the number of floats in a row.
        longest: the largest number of rounds in a chunk.
        waits: the waits of this rank.
        begin: the round after which the run begins or goes on.
    """

    def __init__(self, comm: MPI.Comm, width: int, longest: int, waits: Waits, begin: int = 0) -> None:
        self._comm, self._logger, self._waits = comm, comm.size - 1, waits
        self._chunks = np.empty((2, longest, width))
        self._sending = [MPI.REQUEST_NULL, MPI.REQUEST_NULL]
        self._chunk, self._begin, self._order = 0, begin, Order(begin)
        self._word = np.empty(len(Order._fields), np.int64)

    def row(self, t: int) -> Vector:
        """Return the buffer (width,) for the row of round t. Wait for the logger's order if a new chunk begins."""
        if t > self._order.end:
            self._begin, self._order = self._order.end, self._next_order()
            self._wait([self._sending[self._chunk % 2]])
        return np.asarray(self._chunks[self._chunk % 2, t - 1 - self._begin])

    def done(self, t: int) -> Order | None:
        """Note that the row of round t is complete. If the chunk is complete, too, send it and return its order."""
        if t < self._order.end:
            return None
        self._send(t - self._begin)
        return self._order

    def _send(self, rows: int) -> None:
        self._wait([self._sending[self._chunk % 2]])
        filled = self._chunks[self._chunk % 2, :rows]
        self._sending[self._chunk % 2] = self._comm.Isend(filled, dest=self._logger, tag=ROWS)
        self._chunk += 1

    def _next_order(self) -> Order:
        self._wait([self._comm.Irecv(self._word, source=self._logger, tag=ROWS)])
        end, keeps, stops, forget = self._word.tolist()
        return Order(end, bool(keeps), bool(stops), forget)

    def close(self, t: int, times: Vector) -> None:
        """Tell the logger that round t was the last, and wait until the logger has received everything.

        The last chunk is shorter than its order, and may be empty; that tells the logger that no chunk follows. The
        agent must have saved its checkpoints before.

        Args:
            t: the last round.
            times: (2,) the seconds that this rank worked and waited.
        """
        self._send(t - self._begin if t < self._order.end else 0)
        self._wait(self._sending)
        while self._next_order().end != OVER:
            pass
        self._wait([self._comm.Isend(times, dest=self._logger, tag=ROWS)])

    def _wait(self, requests: Sequence[MPI.Request]) -> None:
        self._waits.patiently(requests, [self._logger] * len(requests), times=SLACK)


def receive_chunks(comm: MPI.Comm, plan: Plan, width: int, waits: Waits, begin: int = 0) -> Chunks:
    """Yield the chunks of all agents in order: the logger's end of all channels.

    Each chunk is valid until the next one. A chunk that is shorter than its order is the last.

    Args:
        comm: the communicator of the agents and the logger.
        plan: decides where chunks end.
        width: the number of floats in a row.
        waits: the waits of the logger.
        begin: the round after which the run begins or goes on.

    Returns:
        (ranks, 2) the seconds that each rank worked and waited, the logger last.
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
