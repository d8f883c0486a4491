"""Rounds per second of mpinodes beside a bare loop that does the same work: mpirun -n 8 python scripts/bench/round.py.

The bare loop is DPSDA-PS without mpinodes: the same typed exchange (persistent requests on preallocated float64
frames, the same way of waiting), the same NumPy work (noise, mixing, gradient, projection) and the same logger
arithmetic, written out by hand. Both run in turn within one job, several times, so that a machine whose speed drifts
slows both; what is printed is the median of the ratios. Where the rest goes is printed below: the CPU time of a round
by stage, summed over the ranks, from one more run with a clock around every stage.
"""

from __future__ import annotations

import os

for _library in ("OPENBLAS", "OMP", "MKL"):
    os.environ[f"{_library}_NUM_THREADS"] = "1"

import argparse
import statistics
import sys
import tempfile
import time
import traceback
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from mpi4py import MPI
from mpinodes.config.resolve import resolve
from mpinodes.simulation.agent import Agent, row_width

from mpinodes.config.compose import build
from mpinodes.core import Setup, sets
from mpinodes.core.experiment import parse
from mpinodes.core.seeds import Purpose, Stream
from mpinodes.losses.logistic import Logistic
from mpinodes.simulation.network import Channel, Network, assemble, live, make_wait, patient_wait, receive_chunks
from mpinodes.streams.labelled import Cycle

CASES = {
    "default": ["data.epochs=20", "rounds=5000"],
    "d784": ["rounds=400"],
}
QUICK = 40  # rounds


class Images:
    """Stands in for MNIST: 8000 rows of 784 pixels, in batches of 100."""

    dimension, rounds, title, feature_bound = 784, None, "784 pixels", 1.0
    feature_norm = 28.0

    def __init__(self, clip: float) -> None:
        rng = np.random.default_rng(0)
        self.features = rng.random((8000, 784))
        self.targets = np.where(rng.random(8000) < 0.5, 1.0, -1.0)
        self.make_loss = partial(Logistic, clip=clip)

    def of(self, agent: int):
        def loss(t: int) -> Logistic:
            rows = slice((t - 1) % 80 * 100, (t - 1) % 80 * 100 + 100)
            return self.make_loss(self.features[rows], self.targets[rows])

        return loss

    def groups(self, agent: int) -> Cycle:
        return Cycle(80)

    def labelled(self) -> dict:
        return {}


def setup_of(case: str, quick: bool) -> Setup:
    words = [*CASES[case], *[f"rounds={QUICK}"] * quick]
    if case == "default":
        return build(resolve(parse(None, words), ranks=8))
    small = build(resolve(parse(None, ["data.name=olr", "problem.set=ball", *words]), ranks=8))
    blocks = sets.blocks(784, 7)
    algorithm = replace(small.algorithm, blocks=blocks)
    return replace(small, stream=Images(5.0), dimension=784, blocks=blocks, algorithm=algorithm)


def with_mpinodes(world: MPI.Comm, parts: Setup, wait) -> float:
    """Seconds for all rounds, as `mpinodes.run` does them."""
    agents, comm = world.Split(int(world.rank == 7)), world.Dup()
    e = parts.experiment
    if world.rank == 7:
        from mpinodes.results.logger import Logger

        with tempfile.TemporaryDirectory() as directory:
            logger = Logger(parts, Path(directory), "", 4)
            world.Barrier()
            start = time.perf_counter()
            logger.follow(receive_chunks(comm, e.rounds, row_width(parts), e.record.chunk))
            seconds = time.perf_counter() - start
        assemble(comm)
    else:
        agent = Agent(world.rank, parts)
        network = Network(agents, agent.frame, wait)
        channel = Channel(comm, e.rounds, row_width(parts), e.record.chunk)
        world.Barrier()
        start = time.perf_counter()
        live(agent, network, channel, e.rounds)
        seconds = time.perf_counter() - start
        assemble(comm)
    agents.Free(), comm.Free()
    return world.allreduce(seconds, MPI.MAX)


def bare(world: MPI.Comm, parts: Setup, wait) -> float:
    """Seconds for all rounds of the same work written out by hand."""
    agents, comm = world.Split(int(world.rank == 7)), world.Dup()
    e, d, n, me = parts.experiment, parts.dimension, 7, world.rank
    rounds, radius, scale = e.rounds, e.problem.radius, float(e.privacy.scale)
    losses = [(f.features, f.targets) for f in map(parts.stream.of(0), range(1, rounds + 1))]
    batch = len(losses[0][1])
    length = max(1, min(rounds, e.record.chunk // (8 * (d + 4))))
    world.Barrier()
    start = time.perf_counter()
    if me == 7:
        _bare_logger(comm, losses, parts.blocks, rounds, length, d)
    else:
        frames = {j: np.zeros(4 + d) for j in range(n)}
        receives = {j: agents.Recv_init(frames[j], source=j) for j in range(n) if j != me}
        sends = {i: agents.Send_init(frames[me], dest=i) for i in range(n) if i != me}
        hears = [parts.topology.round(t, me) for t in range(1, 5)]
        requests = [[receives[j] for j in r.inn] + [sends[i] for i in r.out] for r in hears]
        senders = [r.senders for r in hears]
        shares = [1 / (len(r.out) + 1) for r in hears]
        block, size = parts.blocks[me], parts.blocks[me].stop - parts.blocks[me].start
        clip, sigma = e.clip, np.sqrt(e.problem.gradient_noise)
        noise, xi = Stream(0, Purpose.NOISE, me), Stream(0, Purpose.GRADIENT_NOISE, me)
        z, y, w = np.zeros(d), np.zeros(d), 1.0
        chunks, sending = np.zeros((2, length, d + 4)), [MPI.REQUEST_NULL, MPI.REQUEST_NULL]
        frame = frames[me]
        for t in range(1, rounds + 1):
            k, place = divmod(t - 1, length)
            if place == 0:
                wait([sending[k % 2]])
            phase = (t - 1) % 4
            np.add(z, noise.at(t).laplace(0.0, scale, d), out=frame[2 : 2 + d])
            frame[0], frame[1], frame[2 + d], frame[3 + d] = t, 1, shares[phase], w
            chunks[k % 2, place, :d] = y
            chunks[k % 2, place, d:] = (scale, 1.0, 1.0, 1.0)
            if place == length - 1 or t == rounds:
                sending[k % 2] = comm.Isend(chunks[k % 2, : place + 1], dest=7)
            if requests[phase]:
                MPI.Prequest.Startall(requests[phase])
                wait(requests[phase])
            z, w = np.zeros(d), 0.0
            for j in senders[phase]:
                f = frames[j]
                z += f[2 + d] * f[2 : 2 + d]
                w += f[2 + d] * f[3 + d]
            a, b = losses[t - 1]
            slope = -0.5 * b * (1.0 - np.tanh(0.5 * b * (a @ y)))
            own = a[:, block]
            norms = np.abs(slope) * np.sqrt(np.vecdot(own, own))
            u = (slope * (clip / np.maximum(norms, clip))) @ own
            z[block] += n * (u + xi.at(t).normal(0.0, sigma, size))
            y = z * (-1 / np.sqrt(t) / w)
            norm = np.sqrt(y @ y)
            if norm > radius:
                y *= radius / norm
        wait(sending)
    seconds = time.perf_counter() - start
    world.Barrier()
    assert batch == len(losses[-1][1])
    agents.Free(), comm.Free()
    return world.allreduce(seconds, MPI.MAX)


def _bare_logger(comm: MPI.Comm, losses, blocks, rounds: int, length: int, d: int) -> None:
    """Receive, and add up f^t at the network's decision, at its running mean and at every agent's estimate."""
    buffers, sum_x, sum_f = np.empty((2, 7, length, d + 4)), np.zeros(d), np.zeros(9)
    starts = list(range(0, rounds, length))

    def post(k: int) -> list:
        r = min(length, rounds - starts[k])
        return [comm.Irecv(buffers[k % 2, i, :r], source=i) for i in range(7)]

    coming = post(0)
    for k, first in enumerate(starts):
        patient_wait(coming, comm)
        coming = post(k + 1) if k + 1 < len(starts) else []
        r = min(length, rounds - first)
        estimates = buffers[k % 2, :, :r, :d].transpose(1, 0, 2)
        x = np.concatenate([estimates[:, i, block] for i, block in enumerate(blocks)], axis=1)
        sums = sum_x + np.cumsum(x, axis=0)
        mean = sums / np.arange(first + 1, first + r + 1)[:, None]
        a = np.stack([losses[t][0] for t in range(first, first + r)])
        b = np.stack([losses[t][1] for t in range(first, first + r)])[:, None, :]
        points = np.concatenate([x[:, None], mean[:, None], estimates], axis=1)
        sum_f += np.logaddexp(0, -b * (points @ a.transpose(0, 2, 1))).sum(axis=(0, 2))
        sum_x = sums[-1]


def stages(world: MPI.Comm, parts: Setup, wait) -> dict[str, float]:
    """CPU microseconds of a round of mpinodes by stage, over all ranks: what is not exchange is work."""
    agents, comm = world.Split(int(world.rank == 7)), world.Dup()
    e, clock = parts.experiment, time.process_time
    spent = np.zeros(5)
    world.Barrier()
    if world.rank == 7:
        from mpinodes.results.logger import Logger

        with tempfile.TemporaryDirectory() as directory:
            logger = Logger(parts, Path(directory), "", 4)
            record, plain = logger._record, logger._record.append
            written = [0.0]

            def append(*args, **kwargs):
                start = clock()
                plain(*args, **kwargs)
                written[0] += clock() - start

            record.append = append
            for chunk in receive_chunks(comm, e.rounds, row_width(parts), e.record.chunk):
                begin = clock()
                logger.take(chunk)
                spent[3] += clock() - begin
            spent[3] -= written[0]
            spent[4] = written[0]
        assemble(comm)
    else:
        agent = Agent(world.rank, parts)
        network = Network(agents, agent.frame, wait)
        channel = Channel(comm, e.rounds, row_width(parts), e.record.chunk)
        for t in range(1, e.rounds + 1):
            a = clock()
            round = agent.speak(t, channel.row(t))
            b = clock()
            channel.done(t)
            network.exchange(round)
            c = clock()
            agent.hear(round, network.frames)
            spent[:3] += b - a, c - b, clock() - c
        channel.close(e.rounds)
        network.close()
        assemble(comm)
    agents.Free(), comm.Free()
    spent = world.allreduce(spent)
    names = ("speak", "exchange and wait", "hear", "logger's arithmetic", "record")
    return dict(zip(names, (1e6 * spent / e.rounds).tolist(), strict=True))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--case", choices=list(CASES), action="append")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK} rounds, once: whether it runs, not how fast")
    options = parser.parse_args()
    world = MPI.COMM_WORLD
    if world.size != 8:
        print("start it with mpirun -n 8", file=sys.stderr)
        return 2
    wait = make_wait(world)
    for case in options.case or CASES:
        parts = setup_of(case, options.quick)
        taken = []
        for _ in range(2 if options.quick else options.repeats + 1):
            taken.append((with_mpinodes(world, parts, wait), bare(world, parts, wait)))
        if world.rank == 0:
            rates = [(parts.experiment.rounds / a, parts.experiment.rounds / b) for a, b in taken[1:]]
            ratios = sorted(a / b for a, b in rates)
            ours, theirs = (statistics.median(r) for r in zip(*rates, strict=True))
            print(
                f"{case}: mpinodes {ours:.0f} rounds/s, bare loop {theirs:.0f} rounds/s, "
                f"ratio {statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})"
            )
        spent = stages(world, parts, wait)
        if world.rank == 0:
            print("   CPU µs a round, all ranks:", ", ".join(f"{k} {v:.0f}" for k, v in spent.items()), flush=True)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Exception:  # the other ranks would wait for ever
        traceback.print_exc()
        MPI.COMM_WORLD.Abort(1)
