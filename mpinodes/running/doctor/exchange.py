"""A second of what a run does: frames on a ring."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
from mpi4py import MPI

from mpinodes.core.messages import HEADER
from mpinodes.rounds.network import Wait, assemble, make_wait, share_core
from mpinodes.running.doctor.report import Line, span

DIMENSIONS = (64, 784)
SECONDS = 0.35  # of each measurement
WARM = 20  # rounds
WORD = 1  # a tag


def hear(world: MPI.Comm, word: Any, limit: float) -> list[Any]:
    """What every rank has to say, on rank 0: None of those who have not said it within `limit` seconds.

    A collective call would wait for ever.
    """
    if world.rank != 0:
        world.send(word, 0, tag=WORD)
        return []
    words = [word] + [None] * (world.size - 1)
    coming = {rank: world.irecv(1 << 16, rank, WORD) for rank in range(1, world.size)}
    deadline, pause = time.monotonic() + limit, 1e-4
    while coming and time.monotonic() < deadline:
        for rank, request in list(coming.items()):
            done, said = request.test()
            if done:
                words[rank] = said
                del coming[rank]
        time.sleep(pause)
        pause = min(2 * pause, 0.02)
    return words


class Ring:
    """Every rank's frame goes to the rank before and after it, as agents exchange theirs."""

    def __init__(self, comm: MPI.Comm, dimension: int) -> None:
        self._comm = comm
        self.neighbors = sorted({(comm.rank - 1) % comm.size, (comm.rank + 1) % comm.size} - {comm.rank})
        frame = np.full(HEADER + dimension, float(comm.rank))
        self._requests = [
            *(comm.Recv_init(np.empty_like(frame), source=j) for j in self.neighbors),
            *(comm.Send_init(frame, dest=j) for j in self.neighbors),
        ]

    def free(self) -> None:
        """Give its requests back."""
        for request in self._requests:
            request.Free()

    def unheard(self, limit: float) -> list[int]:
        """The neighbours whose frame of a first round has not come within `limit` seconds."""
        MPI.Prequest.Startall(self._requests)
        deadline = time.monotonic() + limit
        while not MPI.Request.Testall(self._requests):
            if time.monotonic() > deadline:
                receives = zip(self.neighbors, self._requests[: len(self.neighbors)], strict=True)
                return [j for j, request in receives if not request.Test()] or self.neighbors
            time.sleep(1e-4)
        return []

    def rounds(self, wait: Wait, count: int) -> float:
        """Seconds that a round takes, over `count` of them."""
        begun = time.perf_counter()
        for _ in range(count):
            MPI.Prequest.Startall(self._requests)
            wait(self._requests)
        return (time.perf_counter() - begun) / count


def silent_links(world: MPI.Comm, limit: float) -> list[int]:
    """The neighbours on a ring that this rank does not hear within `limit` seconds."""
    ring = Ring(world, DIMENSIONS[0])
    unheard = ring.unheard(limit)
    if not unheard:
        ring.free()
    return unheard


def measure_rounds(world: MPI.Comm) -> dict[int, float]:
    """Measure the seconds that a round of all ranks takes, by dimension."""
    ranks = world.allgather(os.uname().nodename).count(os.uname().nodename)
    share_core(ranks, gives_way=True)
    wait = make_wait(world, ranks)
    return {d: _pace(world, d, wait) for d in DIMENSIONS}


def _pace(comm: MPI.Comm, dimension: int, wait: Wait) -> float:
    ring = Ring(comm, dimension)
    assemble(comm)
    warm = comm.allreduce(ring.rounds(wait, WARM), MPI.MAX)
    count = int(np.clip(SECONDS / warm, WARM, 10**6))
    slowest: float = comm.allreduce(ring.rounds(wait, count), MPI.MAX)
    ring.free()
    return slowest


def about_rounds(pace: Mapping[int, float], ranks: int) -> Line:
    """Say how long a round takes."""
    paces = "; ".join(f"d = {d}: {span(seconds)} a round ({1 / seconds:,.0f} rounds/s)" for d, seconds in pace.items())
    return Line("ok", "exchange", f"{ranks} ranks on a ring, {paces}")
