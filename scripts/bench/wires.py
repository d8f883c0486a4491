"""What a message costs here: mpirun -n 2 python scripts/bench/wires.py FILE [--quick].

Two ranks hand a frame to and fro by persistent requests, as agents do: with a core each (Waitall), and both on one
core, each yielding until the other has answered, where every message is a context switch too. FILE gets bytes, and
seconds one way, as JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path

import numpy as np
from mpi4py import MPI

SIZES = (16, 128, 512, 784 + 16, 3072 + 16, 16384, 65536)  # float64


def one_way(world: MPI.Comm, words: int, rounds: int, yields: bool) -> float:
    """Seconds of one message."""
    mine, other = np.zeros(words), 1 - world.rank
    yours = np.zeros(words)
    send, receive = world.Send_init(mine, dest=other), world.Recv_init(yours, source=other)

    def wait(request: MPI.Prequest) -> None:
        while yields and not request.Test():
            os.sched_yield()
        request.Wait()

    def turn() -> None:
        for request in (send, receive) if world.rank == 0 else (receive, send):
            request.Start()
            wait(request)

    for _ in range(10):
        turn()
    world.Barrier()
    begun = time.perf_counter()
    for _ in range(rounds):
        turn()
    seconds = time.perf_counter() - begun
    send.Free(), receive.Free()
    return seconds / rounds / 2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    world, cores = MPI.COMM_WORLD, sorted(os.sched_getaffinity(0))
    rounds, found = 20 if given.quick else 2000, {"bytes": [8 * words for words in SIZES]}
    if len(cores) > 1:
        os.sched_setaffinity(0, {cores[world.rank]})
        found["apart"] = [one_way(world, words, rounds, yields=False) for words in SIZES]
    os.sched_setaffinity(0, {cores[0]})
    found["together"] = [one_way(world, words, rounds, yields=True) for words in SIZES]
    if world.rank == 0:
        given.file.write_text(json.dumps(found))


if __name__ == "__main__":
    main()
