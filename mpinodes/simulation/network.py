"""MPI: the agents' exchange of frames, and the channel from each agent to the logger.

Frames are float64 buffers set up once, exchanged point to point by persistent requests; nothing is pickled
in the round loop, nothing is received from just anybody, and there is no barrier.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from mpi4py import MPI

from mpinodes.core import Neighborhood, Setup, Vector
from mpinodes.core.experiment import chunk_rounds
from mpinodes.simulation.pulse import PRESENT, Waiting
from mpinodes.simulation.step import RELEASE_FRAME, Arrivals, Step

Wait = Callable[[Sequence[MPI.Request]], object]

POLLS = 200  # a round of 65 ranks on two cores takes some tens
POLLS_ALONE = 100_000  # of a rank that has a core to itself: some tenths of a second
WORDS = 0  # the tag of what is told and heard
PAUSE = 2.5e-5  # seconds between two looks of a rank that waits long, for each rank there is
LOOKS = 4e-4  # the same of one that waits for what may take seconds


class RoundMismatch(RuntimeError):
    """A frame of another round or kind than the receiver is in."""


def make_wait(world: MPI.Comm, ranks: int) -> Wait:
    """How this rank waits: it yields the core where the ranks of its host, so many, outnumber the cores.

    Where what it waits for is long in coming it sleeps: 64 agents that spin, each yielding, leave a logger that has
    work to do a fair share of the cores, which is next to nothing.
    """
    polls = POLLS_ALONE
    if ranks > len(os.sched_getaffinity(0)):
        _shorten_time_slice()
        polls = POLLS

    def wait(requests: Sequence[MPI.Request]) -> None:
        test, pause = MPI.Request.Testall, os.sched_yield  # not Waitall, in which no signal would reach Python
        for _ in range(polls):
            if test(requests):
                return
            pause()
        patient_wait(requests, world, None)

    return wait


def _shorten_time_slice(microseconds: int = 100) -> None:
    """Ask the kernel (Linux 6.12 on) to switch sooner between ranks that share a core; elsewhere, nothing."""
    import ctypes

    number = {"x86_64": 314, "aarch64": 274}.get(os.uname().machine)
    if number is None or sys.platform != "linux":
        return
    # struct sched_attr: size, policy, flags, nice, priority, runtime (the slice, ns), deadline, period
    attributes = np.array([0, 0, 0, microseconds * 1000, 0, 0], dtype=np.uint64)
    attributes[0] = 48
    ctypes.CDLL(None).syscall(number, 0, ctypes.c_void_p(attributes.ctypes.data), 0)


class Network:
    """An agent's links."""

    def __init__(self, agents: MPI.Comm, setup: Setup, frame: Vector, wait: Wait) -> None:
        self._comm, self._setup, self._wait = agents, setup, wait
        self._agent = agents.rank
        self._frames: dict[int, Vector] = {self._agent: frame}
        self._receives: dict[int, MPI.Prequest] = {}
        self._sends: dict[int, MPI.Prequest] = {}
        self._patterns: dict[tuple[tuple[int, ...], tuple[int, ...]], tuple[list[MPI.Prequest], Arrivals]] = {}

    def exchange(self, here: Neighborhood) -> Arrivals:
        """Send the own frame to the out-neighbors and receive the in-neighbors' frames.

        Raises:
            RoundMismatch: a frame is not of this round; names both agents and both rounds.
        """
        requests, arrivals = self._pattern(here)
        PRESENT.here = here
        PRESENT.steps += 1
        if requests:
            MPI.Prequest.Startall(requests)
            self._wait(requests)
        t = here.t
        for j, frame in zip(arrivals.senders, arrivals.frames, strict=True):
            if frame.item(0) != t or frame.item(1) != RELEASE_FRAME:
                raise RoundMismatch(
                    f"agent {self._agent} in round {here.t} got a frame of round {frame[0]:g}, kind {frame[1]:g}, "
                    f"from agent {j}"
                )
        return arrivals

    def _pattern(self, here: Neighborhood) -> tuple[list[MPI.Prequest], Arrivals]:
        pattern = self._patterns.get(here[2:])
        if pattern is None:
            requests = [self._receive(j) for j in here.in_neighbors] + [self._send(i) for i in here.out_neighbors]
            pattern = requests, Arrivals.of(self._setup, self._agent, here.senders, self._frames)
            if len(self._patterns) < 1024:  # a graph drawn anew each round may never repeat
                self._patterns[here.in_neighbors, here.out_neighbors] = pattern
        return pattern

    def _receive(self, j: int) -> MPI.Prequest:
        if j not in self._receives:
            self._frames[j] = np.empty_like(self._frames[self._agent])
            self._receives[j] = self._comm.Recv_init(self._frames[j], source=j)
        return self._receives[j]

    def _send(self, i: int) -> MPI.Prequest:
        if i not in self._sends:
            self._sends[i] = self._comm.Send_init(self._frames[self._agent], dest=i)
        return self._sends[i]

    def close(self) -> None:
        """Free the requests."""
        for request in (*self._receives.values(), *self._sends.values()):
            request.Free()


class Channel:
    """An agent's way to the logger: rows of floats, sent a chunk at a time.

    Two chunks take turns: while one is on its way the other is filled. An agent that finds both full waits,
    so memory is bounded however slow the logger is, and it sleeps, to leave the logger the core.
    """

    def __init__(self, comm: MPI.Comm, rounds: int, width: int, chunk: int) -> None:
        self._comm, self._rounds, self._logger = comm, rounds, comm.size - 1
        self._length = chunk_rounds(chunk, width, rounds)
        self._chunks = np.empty((2, self._length, width))
        self._sending = [MPI.REQUEST_NULL, MPI.REQUEST_NULL]
        self._filled, self._place = self._chunks[0], 0

    def row(self, t: int) -> Vector:
        """Where the row of round t is to be written."""
        chunk, self._place = divmod(t - 1, self._length)
        if self._place == 0:
            patient_wait([self._sending[chunk % 2]], self._comm, [self._logger])
            self._filled = self._chunks[chunk % 2]
        row: Vector = self._filled[self._place]
        return row

    def done(self, t: int) -> None:
        """The row of round t is complete; send the chunk if it is full or the last."""
        if self._place == self._length - 1 or t == self._rounds:
            self._send((t - 1) // self._length, self._place + 1)

    def _send(self, chunk: int, rows: int) -> None:
        patient_wait([self._sending[chunk % 2]], self._comm, [self._logger])
        self._sending[chunk % 2] = self._comm.Isend(self._chunks[chunk % 2, :rows], dest=self._logger)

    def close(self, t: int) -> None:
        """Wait until everything has left; a run that ends before its time, in round t, ends with a short chunk."""
        if t < self._rounds:
            self._send(*divmod(t, self._length))
        patient_wait(self._sending, self._comm, [self._logger, self._logger])


def run_agent(step: Step, setup: Setup, agents: MPI.Comm, channel: Channel, wait: Wait) -> None:
    """All rounds of one agent; the channel is closed at the end."""
    frame = np.zeros(setup.frame_width)
    network = Network(agents, setup, frame, wait)
    state, arrivals = step.start(), None
    done, PRESENT.busy = 0, False
    for t in range(1, setup.experiment.rounds + 1):
        state = step(state, arrivals, frame, channel.row(t))
        if state.left:
            break
        channel.done(t)
        done, arrivals = t, network.exchange(state.here)
    PRESENT.here = None
    channel.close(done)
    network.close()
    PRESENT.busy = True


def receive_chunks(comm: MPI.Comm, rounds: int, width: int, chunk: int) -> Iterator[Vector]:
    """The logger's end of all channels: arrays (agent, round, width), in order, valid until the next one.

    A chunk shorter than it should be is the last.
    """
    agents, length = comm.size - 1, chunk_rounds(chunk, width, rounds)
    buffers = np.empty((2, agents, length, width))
    last = (rounds - 1) // length

    def size_of(k: int) -> int:
        return min(length, rounds - k * length)

    def post(k: int) -> list[MPI.Request]:
        return [comm.Irecv(buffers[k % 2, i, : size_of(k)], source=i) for i in range(agents)]

    coming, status = post(0), [MPI.Status() for _ in range(agents)]
    PRESENT.busy = False
    for k in range(last + 1):
        size = size_of(k)
        patient_wait(coming, comm, range(agents), statuses=status)
        PRESENT.steps += 1
        came = status[0].Get_count(MPI.DOUBLE) // width
        coming = post(k + 1) if came == size and k < last else []
        if came:
            yield buffers[k % 2, :, :came]
        if came < size:
            break
    PRESENT.busy = True


def patient_wait(
    requests: Sequence[MPI.Request],
    comm: MPI.Comm,
    ranks: Sequence[int] | None = (),
    longest: float = 0.0,
    statuses: list[MPI.Status] | None = None,
) -> None:
    """Wait without taking the core from ranks that have work to do.

    The more ranks may be waiting, the longer the pauses between two looks: 64 that look every 100 µs take both cores of
    a small machine.

    Args:
        requests: all of them.
        comm: of those that may be waiting.
        ranks: the one that each request waits for; None: the neighbors of this round.
        longest: pause, in seconds.
        statuses: to be filled in.
    """
    pause, longest = 5e-5, max(longest, PAUSE * comm.size)
    PRESENT.waiting = Waiting(requests, ranks)
    while not MPI.Request.Testall(requests, statuses):
        time.sleep(pause)
        pause = min(2 * pause, longest)
    PRESENT.waiting = None


def assemble(comm: MPI.Comm) -> None:
    """Wait patiently until every rank is here: in a collective call, or in MPI_Finalize, they would spin."""
    patient_wait([comm.Ibarrier()], comm, longest=0.02)


def tell(comm: MPI.Comm, word: Any) -> None:
    """Say something to every other rank, each of which will `hear` it.

    In a collective call each waits for some of the others, which sleep.
    """
    others = [rank for rank in range(comm.size) if rank != comm.rank]
    patient_wait([comm.isend(word, dest=rank, tag=WORDS) for rank in others], comm, others)


def hear(comm: MPI.Comm, source: int) -> Any:
    """What another rank says, waited for patiently."""
    pause, longest = 5e-5, LOOKS * comm.size
    PRESENT.waiting = Waiting((), (source,))
    while (message := comm.improbe(source=source, tag=WORDS)) is None:
        time.sleep(pause)
        pause = min(2 * pause, longest)
    PRESENT.waiting = None
    return message.recv()
