"""Send data over MPI: `Network` exchanges messages between agents, and `Channel` sends logged numbers to the logger.

A frame is the array of floats that an agent sends to its neighbors. A row is the array of floats that an agent logs in
one round (`core.events`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Mapping, Sequence
from functools import lru_cache

import numpy as np
from mpi4py import MPI

from mpinodes.core import Neighborhood, Setup, Vector
from mpinodes.rounds.plan import Plan
from mpinodes.rounds.step import RELEASE_FRAME, Arrivals
from mpinodes.rounds.waiting import Waits
from mpinodes.runlog.checkpoints import Chunk, Order

FRAMES, ROWS = 2, 3  # MPI tags: of frames between agents, and of messages between an agent and the logger
OVER = -1  # sent to an agent instead of the last round of a chunk: no chunk follows
SLACK = 2.0  # waits on a channel have so many times the limit, so that the neighbors of a late agent report it first


class RoundMismatch(RuntimeError):
    """Report that an agent received a message of a wrong round or of a wrong kind."""


class Network:
    """Exchange frames (messages as arrays) between one agent and its neighbors over MPI.

    Args:
        comm: the communicator of the agents and the logger; the rank is the number of the agent.
        setup: the set-up of the run.
        frame: (frame width,) the buffer to which the agent writes its message before each exchange.
        waits: the object through which this rank waits for other ranks.
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
        """Send the agent's message to the out-neighbors, and return the messages from the in-neighbors.

        Args:
            here: the current round, and the agent's neighbors in this round.

        Raises:
            RoundMismatch: a received message was sent in another round, or is of another kind than `RELEASE_FRAME`.
            Overdue: a neighbor did not send or receive within the time limit.
        """
        requests, arrivals = self._pattern(here.in_neighbors, here.out_neighbors)
        self._waits.round = t = here.t
        if requests:
            MPI.Prequest.Startall(requests)
            self._waits.in_round(requests, here.in_neighbors + here.out_neighbors)
        for j, frame in zip(arrivals.senders, arrivals.frames, strict=True):
            if frame.item(0) != t or frame.item(1) != RELEASE_FRAME:
                wrong = f"a message of round {frame[0]:g}, kind {frame[1]:g}, not of round {t}, kind {RELEASE_FRAME:g}"
                raise RoundMismatch(f"agent {self._agent} received from agent {j} {wrong}")
        return arrivals

    def kept(self, arrivals: Arrivals) -> Mapping[int, Vector]:
        """Return the received frames (messages as arrays) by sender, to be saved in a checkpoint.

        Args:
            arrivals: the frames that the agent received in the current round.
        """
        return arrivals.by_sender

    def restored(self, here: Neighborhood, frames: Mapping[int, Vector]) -> Arrivals:
        """Return the frames (messages as arrays) of a checkpoint as if the neighbors had just sent them.

        Args:
            here: the round of the checkpoint, and the agent's neighbors in this round.
            frames: the frames in the checkpoint, by sender.
        """
        arrivals = self._pattern(here.in_neighbors, here.out_neighbors)[1]
        for j, frame in frames.items():
            self._frames[j][:] = frame
        return arrivals

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
        """Free the MPI handles (persistent requests) by which frames were sent and received."""
        for request in (*self._receives.values(), *self._sends.values()):
            request.Free()


class Channel:
    """Send the numbers that an agent logs to the logger, in chunks of consecutive rounds.

    A row holds the numbers of one round. For each chunk, the logger first sends an `Order`: the last round of the
    chunk, and whether the agent then saves a checkpoint or stops. The agent fills one buffer while the chunk in a
    second buffer is being sent.

    Args:
        comm: the communicator of the agents and the logger.
        width: the number of floats in a row.
        longest: the largest number of rounds in a chunk.
        waits: the object through which this rank waits for other ranks.
        begin: the round before the first round of this job: 0, or the round of the checkpoint that the job resumes.
    """

    def __init__(self, comm: MPI.Comm, width: int, longest: int, waits: Waits, begin: int = 0) -> None:
        self._comm, self._logger, self._waits = comm, comm.size - 1, waits
        # Two buffers bound the memory even if the logger is slow: the order of chunk k + 2 is sent after the logger has
        # received chunk k.
        self._chunks = np.empty((2, longest, width))
        self._sending = [MPI.REQUEST_NULL, MPI.REQUEST_NULL]
        self._chunk, self._begin, self._order = 0, begin, Order(begin)
        self._word = np.empty(len(Order._fields), np.int64)

    def row(self, t: int) -> Vector:
        """Return the buffer (width,) into which the agent writes the numbers that it logs in round t.

        In the first round of a chunk (rounds that are sent together), this method waits until the logger has sent the
        length of the chunk, and until the buffer is free.

        Raises:
            Overdue: the logger did not answer within the time limit.
        """
        if t > self._order.end:
            self._begin, self._order = self._order.end, self._next_order()
            self._wait([self._sending[self._chunk % 2]])
        return np.asarray(self._chunks[self._chunk % 2, t - 1 - self._begin])

    def done(self, t: int) -> Order | None:
        """Record that the logged numbers of round t are complete; if a chunk is complete, start to send the chunk.

        A chunk is a number of consecutive rounds that are sent together.

        Returns:
            After the last round of a chunk, an `Order`: whether to save a checkpoint or to stop now. Otherwise None.
        """
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
        return Order._make(self._word.tolist())

    def close(self, t: int, times: Vector) -> None:
        """Send the rest of the logged numbers, and wait until the logger has received all numbers.

        Call this method after the agent has saved its last checkpoint.

        Args:
            t: the last round of the agent.
            times: (2 + d,) the seconds for which this rank computed, and for which it waited; then the agent's model.
        """
        self._send(t - self._begin if t < self._order.end else 0)
        self._wait(self._sending)
        while self._next_order().end != OVER:
            pass
        self._wait([self._comm.Isend(times, dest=self._logger, tag=ROWS)])

    def _wait(self, requests: Sequence[MPI.Request]) -> None:
        self._waits.patiently(requests, [self._logger] * len(requests), times=SLACK)


def receive_chunks(
    comm: MPI.Comm, plan: Plan, width: int, waits: Waits, t: int = 0, dimension: int = 0
) -> Generator[Chunk, None, Vector]:
    """Receive the numbers that all agents log, and yield the numbers in chunks of consecutive rounds.

    The logger's rank calls this function. The last chunk has no rows, but the agents' models. The
    memory of a chunk is overwritten when the caller asks for the next chunk.

    Args:
        comm: the communicator of the agents and the logger.
        plan: decides after which rounds chunks end and checkpoints are saved.
        width: how many floats an agent logs in a round.
        waits: the object through which the logger waits for other ranks.
        t: the round before the first round of this job: 0, or the round of the checkpoint that the job resumes.
        dimension: d, the number of floats in the model of an agent.

    Returns:
        (ranks, 2) the seconds for which each rank computed, and for which it waited; the logger is the last row.

    Raises:
        Overdue: an agent did not send its numbers within the time limit.
    """
    agents = comm.size - 1
    buffers = np.empty((2, agents, plan.longest, width))
    asked: deque[Order] = deque()

    def send(order: Order) -> None:
        word = np.array(order, np.int64)
        waits.patiently([comm.Isend(word, dest=i, tag=ROWS) for i in range(agents)], range(agents), times=SLACK)

    def ask() -> None:
        if order := plan.next():
            asked.append(order)
            send(order)

    def post(k: int) -> list[MPI.Request]:
        return [comm.Irecv(buffers[k % 2, i], source=i, tag=ROWS) for i in range(agents)]

    waits.reset()
    ask()
    ask()
    coming, k, before = post(0), 0, Order(t)
    while True:
        came = waits.patiently(coming, range(agents), SLACK).Get_count(MPI.DOUBLE) // width
        plan.came(before)
        order = asked.popleft() if asked else None
        is_last = order is None or came < order.end - before.end
        if is_last:
            send(Order(OVER))
        else:
            ask()
            coming = post(k + 1)
        if came:
            yield Chunk(buffers[k % 2, :, :came], None if is_last else order)
        if order is None or is_last:
            break
        k, before = k + 1, order
    times = np.empty((comm.size, 2 + dimension))
    times[agents, :2] = waits.times()
    waits.patiently([comm.Irecv(times[i], source=i, tag=ROWS) for i in range(agents)], range(agents), times=SLACK)
    yield Chunk(buffers[0, :, :0], models=times[:agents, 2:])
    return times[:, :2]
