"""MPI: the agents' exchange of frames, and the channel from each agent to the logger.

Frames are float64 buffers set up once, exchanged point to point by persistent requests; nothing is pickled
in the round loop, nothing is received from just anybody, and there is no barrier.
"""

from __future__ import annotations

import os
import sys
import time
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from itertools import repeat
from typing import Any

import numpy as np
from mpi4py import MPI

from mpinodes.core import Neighborhood, Setup, Vector
from mpinodes.launch.launching import say
from mpinodes.launch.pulse import GROWTH, GROWTH_IN_A_ROUND, PRESENT, Waiting, pauses
from mpinodes.rounds.held import Held
from mpinodes.rounds.plan import Plan
from mpinodes.rounds.step import RELEASE_FRAME, Arrivals, Step, keep
from mpinodes.runlog.checkpoints import INSTEAD, Chunk, Keeper, Kept, Order
from mpinodes.runlog.snapshot import Damaged

Wait = Callable[[Sequence[MPI.Request]], object]

POLLS = 500  # a round of 65 ranks on two cores takes some tens; beyond some slices they only delay who is behind
POLLS_ALONE = 100_000  # of a rank that has a core to itself: some tenths of a second
SLICES = 100, 200  # µs, in which a round's work of an agent is done: with warm caches, and with cold ones
WARM = 8  # ranks on a core, at most, that leave each other some of its caches
WORDS, FRAMES, ROWS = 0, 2, 3  # tags: of what is told, exchanged by agents, on a channel; 1 is `pulse.SIGN`
OVER = -1  # in the place of a chunk's end: there is none any more
READY = 8  # requests that MPICH has at hand; see `make_requests`
LOOKS = 4  # at each waking: MPICH takes in one message a look, and there may be others than those waited for


class RoundMismatch(RuntimeError):
    """A frame of another round or kind than the receiver is in."""


def make_wait(world: MPI.Comm, ranks: int) -> Wait:
    """How an agent waits: it yields the core where the ranks of its host, so many, outnumber the cores.

    Where what it waits for is long in coming it sleeps: 64 agents that spin, each yielding, leave a logger that has
    work to do a fair share of the cores, which is next to nothing.
    """
    polls = POLLS if _is_crowded(ranks) else POLLS_ALONE

    def wait(requests: Sequence[MPI.Request]) -> None:
        if not _polled(requests, polls):
            patient_wait(requests, world, None)

    return wait


def _polled(requests: Sequence[MPI.Request], polls: int) -> bool:
    """Whether all requests are done, with so many looks at most: at one at a time, a third of the cost of all.

    Not in MPI's own waits, in which no signal would reach Python.
    """
    pause, begun = os.sched_yield, time.perf_counter()
    try:
        for request in requests:
            is_done = request.Test
            while not is_done():
                polls -= 1
                if not polls:
                    return False
                pause()
        return True
    finally:
        PRESENT.waited += time.perf_counter() - begun


def _cores() -> int:
    return len(os.sched_getaffinity(0))


def _is_crowded(ranks: int) -> bool:
    return ranks > _cores()


def share_core(ranks: int, gives_way: bool) -> None:
    """Have the kernel switch well between the ranks of this host, so many, where they outnumber the cores.

    With 7 agents a round takes some 80 µs of one's time. Where many take turns on a core each comes back to cold
    caches, and it takes 130: in a slice of 100 it was cut in two, with all others' slices between. With 200, 65 ranks
    on two cores made 8 and 12 % more rounds, and as many in a third sitting; with 300 fewer. 8 ranks made 2 % fewer.

    Args:
        ranks: the number.
        gives_way: whether this rank, when it wakes up, does not take the core from another. Agents that wait wake up
            again and again to look: they would leave the logger, for whom they wait, next to nothing.
    """
    if _is_crowded(ranks):
        shorten_time_slice(gives_way, SLICES[ranks > WARM * _cores()])


def shorten_time_slice(gives_way: bool, microseconds: int) -> None:
    """Ask the kernel (Linux 6.12 on) for a short time slice; elsewhere, nothing.

    Of ranks that have work, one with a longer slice than others is taken after all of these: all have to ask for it.
    """
    import ctypes

    number = {"x86_64": 314, "aarch64": 274}.get(os.uname().machine)
    if number is None or sys.platform != "linux":
        return
    policy = os.SCHED_BATCH if gives_way else os.SCHED_OTHER
    # struct sched_attr: size and policy, flags, nice and priority, runtime (the slice, ns), deadline, period
    nice = os.getpriority(os.PRIO_PROCESS, 0) & 0xFFFFFFFF
    attributes = np.array([48 | policy << 32, 0, nice, microseconds * 1000, 0, 0], dtype=np.uint64)
    ctypes.CDLL(None).syscall(number, 0, ctypes.c_void_p(attributes.ctypes.data), 0)


def make_requests() -> None:
    """Have MPICH make its requests now.

    At the first one that it has not at hand it makes 4,096, 2 MB. With few neighbors that is somewhere in the rounds,
    in another round for each agent, and all others wait for it: 64 agents on a ring, on two cores, some tenths of a
    second in all.
    """
    unused = np.empty(0)
    for request in [MPI.COMM_SELF.Send_init(unused, dest=0) for _ in range(READY + 1)]:
        request.Free()


class Network:
    """An agent's links."""

    def __init__(self, comm: MPI.Comm, setup: Setup, frame: Vector, wait: Wait) -> None:
        self._comm, self._setup, self._wait = comm, setup, wait
        self._agent = comm.rank
        self._frames: dict[int, Vector] = {self._agent: frame}
        self._receives: dict[int, MPI.Prequest] = {}
        self._sends: dict[int, MPI.Prequest] = {}
        self._patterns: dict[tuple[tuple[int, ...], tuple[int, ...]], tuple[list[MPI.Prequest], Arrivals]] = {}

    def exchange(self, here: Neighborhood) -> Arrivals:
        """Send the own frame to the out-neighbors and receive the in-neighbors' frames.

        Raises:
            RoundMismatch: a frame is not of this round; names both agents and both rounds.
        """
        requests, arrivals = self._patterns.get(here[2:]) or self._pattern(here)
        PRESENT.here = here
        PRESENT.steps += 1
        if requests:
            MPI.Prequest.Startall(requests)
            self._wait(requests)
        t = here.t
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
        return self._pattern(here)[1]

    def _pattern(self, here: Neighborhood) -> tuple[list[MPI.Prequest], Arrivals]:
        requests = [self._receive(j) for j in here.in_neighbors] + [self._send(i) for i in here.out_neighbors]
        pattern = requests, Arrivals.of(self._setup, self._agent, here.senders, self._frames)
        if len(self._patterns) < 1024:  # a graph drawn anew each round may never repeat
            self._patterns[here.in_neighbors, here.out_neighbors] = pattern
        return pattern

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
        begin: the round after which rows begin.
    """

    def __init__(self, comm: MPI.Comm, width: int, longest: int, begin: int = 0) -> None:
        self._comm, self._logger = comm, comm.size - 1
        self._chunks = np.empty((2, longest, width))
        self._sending = [MPI.REQUEST_NULL, MPI.REQUEST_NULL]
        self._chunk, self._begin, self._order = 0, begin, Order(begin)
        self._word = np.empty(len(Order._fields), np.int64)

    def row(self, t: int) -> Vector:
        """Where the row of round t is to be written."""
        if t > self._order.end:
            self._begin, self._order = self._order.end, self._heard()
            patient_wait([self._sending[self._chunk % 2]], self._comm, [self._logger])
        row: Vector = self._chunks[self._chunk % 2, t - 1 - self._begin]
        return row

    def done(self, t: int) -> Order | None:
        """The row of round t is complete; where the chunk is, it is sent, and what was asked for is returned."""
        if t < self._order.end:
            return None
        self._send(t - self._begin)
        return self._order

    def _send(self, rows: int) -> None:
        patient_wait([self._sending[self._chunk % 2]], self._comm, [self._logger])
        filled = self._chunks[self._chunk % 2, :rows]
        self._sending[self._chunk % 2] = self._comm.Isend(filled, dest=self._logger, tag=ROWS)
        self._chunk += 1

    def _heard(self) -> Order:
        patient_wait([self._comm.Irecv(self._word, source=self._logger, tag=ROWS)], self._comm, [self._logger])
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
        patient_wait(self._sending, self._comm, [self._logger, self._logger])
        while self._heard().end != OVER:
            pass
        patient_wait([self._comm.Isend(times, dest=self._logger, tag=ROWS)], self._comm, [self._logger])


def run_agent(
    step: Step,
    setup: Setup,
    comm: MPI.Comm,
    channel: Channel,
    wait: Wait,
    keeper: Keeper,
    kept: Kept | None = None,
) -> bool:
    """The rounds of one agent; the channel is closed at the end.

    Args:
        step: the agent's.
        setup: of the run.
        comm: of the agents and the logger.
        channel: to the logger.
        wait: how it waits for others.
        keeper: of what it needs to go on.
        kept: what it goes on from; None: it begins.

    Returns:
        Whether it was stopped.
    """
    PRESENT.busy = False
    clock = _Clock()
    frame = np.zeros(setup.frame_width)
    network = Network(comm, setup, frame, wait)
    links = Held(network, setup, comm.rank) if setup.links else network
    exchange = links.exchange
    t, state, arrivals, order = 0, step.start(), None, None
    if kept:
        t, state = kept["round"], kept["state"]
        arrivals = links.restored(state.here, kept["frames"])
    keeper.forget_after(t)
    while t < setup.experiment.rounds:
        row = channel.row(t + 1)
        state = step(state, arrivals, frame, row)
        if state.left:
            break
        t += 1
        if step.plays:  # only then is its row complete
            arrivals = exchange(state.here)
            step.play(state, arrivals, row)
            order = channel.done(t)
        else:
            order = channel.done(t)
            arrivals = exchange(state.here)
        if order is None:
            continue
        keeper.forget_before(order.forget)
        if order.keeps:
            keep(keeper, t, state, links.kept(arrivals), order.stops)
        if order.stops:
            break
    PRESENT.here = None
    channel.close(t, clock.read())
    network.close()
    PRESENT.busy = True
    return order is not None and order.stops


class _Clock:
    """From now on, what this rank does and waits for."""

    def __init__(self) -> None:
        self._begun, PRESENT.waited = time.perf_counter(), 0.0

    def read(self) -> Vector:
        """Seconds at work and waiting: (2,)."""
        return np.array([time.perf_counter() - self._begun - PRESENT.waited, PRESENT.waited])


def receive_chunks(comm: MPI.Comm, plan: Plan, width: int, begin: int = 0) -> Generator[Chunk, None, Vector]:
    """The logger's end of all channels: chunks in order, each valid until the next one.

    A chunk shorter than was asked for is the last.

    Returns:
        Seconds at work and waiting of every rank, the logger last: (ranks, 2).
    """
    agents, clock = comm.size - 1, _Clock()
    buffers = np.empty((2, agents, plan.longest, width))
    asked: deque[Order] = deque()

    def say(order: Order) -> None:
        word = np.array(order, np.int64)
        patient_wait([comm.Isend(word, dest=i, tag=ROWS) for i in range(agents)], comm, range(agents))

    def ask() -> None:
        if order := plan.next():
            asked.append(order)
            say(order)

    def post(k: int) -> list[MPI.Request]:
        return [comm.Irecv(buffers[k % 2, i], source=i, tag=ROWS) for i in range(agents)]

    ask()
    ask()
    coming, status = post(0), [MPI.Status() for _ in range(agents)]
    k, before = 0, Order(begin)
    PRESENT.busy = False
    while True:
        patient_wait(coming, comm, range(agents), statuses=status)
        PRESENT.steps += 1
        came = status[0].Get_count(MPI.DOUBLE) // width
        plan.came()
        if before.keeps:
            plan.is_whole(before.end)
        order = asked.popleft() if asked else None
        is_last = order is None or came < order.end - before.end
        if is_last:
            say(Order(OVER))
        else:
            ask()
            coming = post(k + 1)
        if came:
            yield Chunk(buffers[k % 2, :, :came], None if is_last else order)
        if order is None or is_last:
            break
        k, before = k + 1, order
    times = np.empty((comm.size, 2))
    times[agents] = clock.read()
    patient_wait([comm.Irecv(times[i], source=i, tag=ROWS) for i in range(agents)], comm, range(agents))
    PRESENT.busy = True
    return times


def patient_wait(
    requests: Sequence[MPI.Request],
    comm: MPI.Comm,
    ranks: Sequence[int] | None = (),
    statuses: list[MPI.Status] | None = None,
) -> None:
    """Wait without taking the core from ranks that have work to do: see `pulse.pauses`.

    Args:
        requests: all of them.
        comm: of those that may be waiting.
        ranks: the one that each request waits for; None: the neighbors of this round.
        statuses: to be filled in.
    """
    begun = time.perf_counter()
    PRESENT.waiting = Waiting(requests, ranks)
    ahead = deque(zip(requests, statuses or repeat(None), strict=False))
    for pause in pauses(comm.size, GROWTH_IN_A_ROUND if ranks is None else GROWTH):
        if any(_are_done(ahead) for _ in range(LOOKS + len(requests))):
            break
        time.sleep(pause)
    PRESENT.waiting = None
    PRESENT.waited += time.perf_counter() - begun


def _are_done(ahead: deque[tuple[MPI.Request, MPI.Status | None]]) -> bool:
    """Whether all requests are, those from the left taken off; one at a time, for to look at 256 takes 30 µs."""
    while ahead and ahead[0][0].Test(ahead[0][1]):
        ahead.popleft()
    return not ahead


def assemble(comm: MPI.Comm) -> None:
    """Wait patiently until every rank is here: in a collective call, or in MPI_Finalize, they would spin."""
    patient_wait([comm.Ibarrier()], comm)


def tell(comm: MPI.Comm, word: Any) -> None:
    """Say something to every other rank, each of which will `hear` it.

    In a collective call each waits for some of the others, which sleep.
    """
    others = [rank for rank in range(comm.size) if rank != comm.rank]
    patient_wait([comm.isend(word, dest=rank, tag=WORDS) for rank in others], comm, others)


def hear(comm: MPI.Comm, source: int) -> Any:
    """What another rank says, waited for patiently."""
    PRESENT.waiting = Waiting((), (source,))
    looks = LOOKS + (comm.size if comm.rank == comm.size - 1 else 0)
    for pause in pauses(comm.size):
        for _ in range(looks):
            if (message := comm.improbe(source=source, tag=WORDS)) is not None:
                PRESENT.waiting = None
                return message.recv()
        time.sleep(pause)
    raise AssertionError


def agree(comm: MPI.Comm, found: Sequence[Kept]) -> Kept | None:
    """What a run goes on from, the latest that all can read; None: nothing. As the logger does it.

    Args:
        comm: of the agents and the logger.
        found: what the logger has kept.
    """
    for kept in found:
        tell(comm, (kept["round"], False))
        problems = [problem for agent in range(comm.size - 1) if (problem := hear(comm, agent))]
        if not problems:
            tell(comm, (kept["round"], True))
            return kept
        say(f"{problems[0]}; {INSTEAD}")
    tell(comm, (0, True))
    return None


def agreed(comm: MPI.Comm, keeper: Keeper) -> Kept | None:
    """The same, as an agent does it."""
    kept: Kept | None = None
    while True:
        t, is_agreed = hear(comm, comm.size - 1)
        if is_agreed:
            return kept if t else None
        try:
            kept, problem = keeper.load(t), ""
        except (OSError, Damaged) as error:
            problem = str(error)
        comm.send(problem, dest=comm.size - 1, tag=WORDS)
