"""Rounds per second of mpinodes beside a bare loop that does the same work: mpirun -n 8 python scripts/bench/round.py.

The bare loop is DPSDA-PS of 7 agents, or DOLA on a ring of as many as there are ranks but one (other numbers of ranks
run this alone), without mpinodes: the same typed exchange (persistent requests on preallocated float64 frames, the same
way of waiting), the same NumPy work (noise, mixing, gradient, projection) and the same logger arithmetic, written out
by hand. Both run in turn within one job, several times, so that a machine whose speed drifts slows both; what is
printed is the median of the ratios. Where the rest goes is printed below: the CPU time of a round by stage, summed over
the ranks, from one more run with a clock around every stage.

Where ranks take turns, `mpinodes.run` makes forks of one process of them, and so does this: both loops gain by it.
With --apart they stay as mpirun starts them, which is what a loop of one's own would have.
"""

from __future__ import annotations

import os
import sys

from mpinodes.launch.launching import find_world, has_more_ranks_than_cores, launcher, leave
from mpinodes.launch.threads import ONE_THREAD

os.environ.update(ONE_THREAD)  # before numpy is imported
if __name__ == "__main__" and has_more_ranks_than_cores() and "--apart" not in sys.argv:  # before MPI is
    from mpinodes.launch.forking import fork_with_others

    sys.argv[1:] = fork_with_others(sys.argv[1:])

import argparse
import statistics
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import mpi4py
import numpy as np

mpi4py.rc(initialize=False)  # `find_world` begins MPI, and `leave` ends it
from mpi4py import MPI

from mpinodes.config.compose import compose
from mpinodes.core import Setup
from mpinodes.core.asked import parse
from mpinodes.core.messages import HEADER
from mpinodes.core.seeds import Draws, Purpose
from mpinodes.data import Source
from mpinodes.rounds.agent import run_agent
from mpinodes.rounds.network import Channel, Network, receive_chunks
from mpinodes.rounds.plan import Plan, longest_chunk
from mpinodes.rounds.step import Step
from mpinodes.rounds.waiting import Waits
from mpinodes.runlog.checkpoints import Keeper, name_of
from mpinodes.streams.labelled import LabelledStream, in_memory
from mpinodes.summary.timing import Stopwatch

__all__ = ["Images"]  # this file is a `data.path`, too

CASES = {
    "dpsda-ps": ["algorithm.name=dpsda-ps", "data.epochs=20", "rounds=5000"],
    "d784": [
        "algorithm.name=dpsda-ps",
        *(f"data.{word}" for word in (f"path={__file__}", "batch=100", "epochs=5", "shuffle=false")),
        *(f"problem.{word}" for word in ("loss=logistic", "set=ball", "radius=5", "gradient_noise=0.1")),
        *(f"privacy.{word}" for word in ("clip=5", "scale=1")),
        "rounds=400",
    ],
    "ring": [
        *(f"topology.{word}" for word in ("name=ring", "agents={agents}")),
        "algorithm.name=dola",
        "rounds={rounds}",
    ],
}
QUICK = 40  # rounds


@dataclass(frozen=True)
class Images(LabelledStream):
    """Stands in for MNIST: 8000 rows of 784 pixels."""

    feature_bound: ClassVar[float] = 1.0
    name: ClassVar[str] = "784 pixels"

    def open(self) -> tuple[Source, None]:
        """Uniform pixels, and labels that have nothing to do with them."""
        rng = np.random.default_rng(0)
        features = rng.random((8000, 784))
        return in_memory(features, np.where(rng.random(8000) < 0.5, 1.0, -1.0)), None


def setup_of(case: str, ranks: int, quick: bool) -> Setup:
    words = [word.format(agents=ranks - 1, rounds=16_000 // (ranks - 1)) for word in CASES[case]]
    return compose(parse(None, [*words, *[f"rounds={QUICK}"] * quick]), ranks)


def with_mpinodes(world: MPI.Comm, setup: Setup, waits: Waits) -> float:
    """Seconds for all rounds, as `mpinodes.run` does them."""
    if world.rank == world.size - 1:
        from mpinodes.running.logger import Logger

        with tempfile.TemporaryDirectory() as directory:
            logger = Logger(setup, Path(directory), "", Stopwatch())
            world.Barrier()
            start = time.perf_counter()
            logger.follow(receive_chunks(world, Plan(setup), setup.layout.width, waits, dimension=setup.dimension))
            seconds = time.perf_counter() - start
    else:
        step = Step(setup, world.rank)
        channel = Channel(world, setup.layout.width, longest_chunk(setup), waits)
        world.Barrier()
        start = time.perf_counter()
        run_agent(step, setup, world, channel, waits, Keeper(Path(), name_of(world.rank)))
        seconds = time.perf_counter() - start
    Waits(world, np.inf).patiently([world.Ibarrier()])  # the barrier of MPI would use a whole core
    return world.allreduce(seconds, MPI.MAX)


def bare(world: MPI.Comm, setup: Setup, waits: Waits) -> float:
    """Seconds for all rounds of the same work written out by hand."""
    logger = world.size - 1
    agents, comm = world.Split(int(world.rank == logger)), world.Dup()
    e, d, me = setup.experiment, setup.dimension, world.rank
    rounds, end = e.rounds, HEADER + d
    length = longest_chunk(setup)
    owners = range(logger) if setup.algorithm.decomposable else [0]
    losses = [
        [(f.features, f.targets) for f in map(setup.stream.of(i), range(1, rounds + 1))]
        for i in (owners if me == logger else [me])
    ]
    world.Barrier()
    start = time.perf_counter()
    if me == logger:
        _bare_logger(comm, setup, losses, length)
    else:
        frames = {j: np.zeros(end + setup.mixing.width) for j in range(logger)}
        receives = {j: agents.Recv_init(frames[j], source=j) for j in range(logger) if j != me}
        sends = {i: agents.Send_init(frames[me], dest=i) for i in range(logger) if i != me}
        places = [setup.topology.neighborhood(t, me) for t in range(1, setup.topology.period + 1)]
        requests = [[receives[j] for j in r.in_neighbors] + [sends[i] for i in r.out_neighbors] for r in places]
        heard = [[frames[j] for j in r.senders] for r in places]
        chunks, sending = np.zeros((2, length, d + 4)), [MPI.REQUEST_NULL, MPI.REQUEST_NULL]
        frame = frames[me]
        say, hear = (_dola if setup.algorithm.decomposable else _dpsda)(setup, me, places, losses[0])
        for t in range(1, rounds + 1):
            k, place = divmod(t - 1, length)
            if place == 0:
                waits.in_round([sending[k % 2]])
            phase = (t - 1) % len(places)
            frame[0], frame[1] = t, 1
            say(t, phase, frame, chunks[k % 2, place])
            if place == length - 1 or t == rounds:
                sending[k % 2] = comm.Isend(chunks[k % 2, : place + 1], dest=logger)
            if requests[phase]:
                MPI.Prequest.Startall(requests[phase])
                waits.in_round(requests[phase])
            hear(t, phase, heard[phase])
        waits.in_round(sending)
    seconds = time.perf_counter() - start
    world.Barrier()
    agents.Free(), comm.Free()
    return world.allreduce(seconds, MPI.MAX)


Kernel = tuple[Callable[..., None], Callable[..., None]]  # what an agent says, and what it makes of what it hears


def _dpsda(setup: Setup, me: int, places: list, losses: list) -> Kernel:
    """DPSDA-PS on logistic losses in a ball."""
    e, d, n = setup.experiment, setup.dimension, setup.topology.agents
    radius, scale, clip, end = e.problem.radius, float(e.privacy.scale), e.clip, HEADER + d
    shares = [1 / (len(r.out_neighbors) + 1) for r in places]
    block, size = setup.blocks[me], setup.blocks[me].stop - setup.blocks[me].start
    noise, xi, sigma = Draws(0, Purpose.NOISE, me), Draws(0, Purpose.GRADIENT_NOISE, me), e.problem.gradient_noise**0.5
    z, y, w = np.zeros(d), np.zeros(d), 1.0

    def say(t: int, phase: int, frame: np.ndarray, row: np.ndarray) -> None:
        np.add(z, noise.at(t).laplace(0.0, scale, d), out=frame[HEADER:end])
        frame[end], frame[end + 1] = shares[phase], w
        row[:d] = y
        row[d:] = (scale, 1.0, 1.0, 1.0)

    def hear(t: int, phase: int, frames: list) -> None:
        nonlocal z, y, w
        z, w = np.zeros(d), 0.0
        for f in frames:
            z += f[end] * f[HEADER:end]
            w += f[end] * f[end + 1]
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

    return say, hear


def _dola(setup: Setup, me: int, places: list, losses: list) -> Kernel:
    """DOLA on hinge losses in a ball, by Metropolis weights."""
    e, d, run = setup.experiment, setup.dimension, setup.run
    radius, clip, end = e.problem.radius, e.clip, HEADER + d
    each = np.sqrt(d) * run.grad_sensitivity[me] / e.privacy.epsilon
    noise, x, made_with = Draws(0, Purpose.NOISE, me), np.zeros(d), 0.0

    def say(t: int, phase: int, frame: np.ndarray, row: np.ndarray) -> None:
        np.add(x, noise.at(t).laplace(0.0, each * made_with, d), out=frame[HEADER:end])
        frame[end] = len(places[phase].out_neighbors)
        row[:d] = x
        row[d:] = (each * made_with, 1.0, 1.0, 1.0)

    def hear(t: int, phase: int, frames: list) -> None:
        nonlocal x, made_with
        here = places[phase]
        weights = [1 / (1 + max(f[end], len(here.in_neighbors))) for f in frames]
        weights[here.senders.index(me)] += 1 - sum(weights)
        mixed = np.zeros(d)
        for weight, f in zip(weights, frames, strict=True):
            mixed += weight * f[HEADER:end]
        a, b = losses[t - 1]
        slope = np.where(b * (a @ mixed) < 1.0, -b, 0.0)
        norms = np.abs(slope) * np.sqrt(np.vecdot(a, a))
        g = (slope * (clip / np.maximum(norms, clip))) @ a + run.regularizer * mixed
        made_with = run.steps(t)
        x = mixed - made_with * g
        norm = np.sqrt(x @ x)
        if norm > radius:
            x *= radius / norm

    return say, hear


def _bare_logger(comm: MPI.Comm, setup: Setup, losses: list[list], length: int) -> None:
    """Receive, and add up all losses at what was decided, at its running mean and at every agent's estimate."""
    rounds, d, n = setup.experiment.rounds, setup.dimension, setup.topology.agents
    own = setup.algorithm.decomposable
    a = [np.concatenate([of[t][0] for of in losses]) for t in range(rounds)]
    b = [np.concatenate([of[t][1] for of in losses]) for t in range(rounds)]
    starts, total = list(range(0, rounds, length)), 0.0
    buffers, before = np.empty((2, n, length, d + 4)), 0.0

    def post(k: int) -> list:
        r = min(length, rounds - starts[k])
        return [comm.Irecv(buffers[k % 2, i, :r], source=i) for i in range(n)]

    coming = post(0)
    for k, first in enumerate(starts):
        Waits(comm).patiently(coming)
        coming = post(k + 1) if k + 1 < len(starts) else []
        r = min(length, rounds - first)
        estimates = buffers[k % 2, :, :r, :d].transpose(1, 0, 2)
        decided = estimates if own else np.concatenate([estimates[:, [i], s] for i, s in enumerate(setup.blocks)], -1)
        sums = before + np.cumsum(decided, axis=0)
        means = sums / np.arange(first + 1, first + r + 1)[:, None, None]
        points = np.concatenate([means, estimates] if own else [decided, means, estimates], axis=1)
        margins = np.stack(b[first : first + r])[:, None] * (points @ np.stack(a[first : first + r]).transpose(0, 2, 1))
        total += (np.maximum(0.0, 1.0 - margins) if own else np.logaddexp(0, -margins)).sum(axis=(0, 2))
        before = sums[-1]


class Clock:
    """CPU seconds by stage; a stage within another is taken off the outer one."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names, self.spent = names, np.zeros(len(names))
        self._stage, self._since = -1, 0.0

    def around(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, timed."""
        stage = self.names.index(name)

        def timed(*args: Any, **kwargs: Any) -> Any:
            outer = self._turn_to(stage)
            found = function(*args, **kwargs)
            self._turn_to(outer)
            return found

        return timed

    def put_around(self, name: str, owner: object, method: str) -> None:
        """Time a method of an object, whoever calls it; its class may be frozen."""
        object.__setattr__(owner, method, self.around(name, getattr(owner, method)))

    def _turn_to(self, stage: int) -> int:
        now, outer = time.process_time(), self._stage
        if outer >= 0:
            self.spent[outer] += now - self._since
        self._stage, self._since = stage, now
        return outer


STAGES = ("hear", "mix", "update", "speak", "message", "release", "exchange and wait", "logger's arithmetic", "record")


def stages(world: MPI.Comm, setup: Setup, waits: Waits) -> dict[str, float]:
    """CPU microseconds of a round of mpinodes by stage, over all ranks: what is not exchange is work."""
    e, clock = setup.experiment, Clock(STAGES)
    world.Barrier()
    if world.rank == world.size - 1:
        from mpinodes.running.logger import Logger

        with tempfile.TemporaryDirectory() as directory:
            logger = Logger(setup, Path(directory), "", Stopwatch())
            clock.put_around("record", logger._log, "append")
            clock.put_around("logger's arithmetic", logger, "take")
            logger.follow(receive_chunks(world, Plan(setup), setup.layout.width, waits, dimension=setup.dimension))
    else:
        step = Step(setup, world.rank)
        clock.put_around("update", setup.algorithm, "update")
        clock.put_around("message", setup.algorithm, "message")
        clock.put_around("mix", setup.mixing, "weights")
        clock.put_around("release", step.releaser, "release")
        _live(step, setup, world, clock, waits)
    Waits(world, np.inf).patiently([world.Ibarrier()])  # the barrier of MPI would use a whole core
    return dict(zip(STAGES, (1e6 * world.allreduce(clock.spent) / e.rounds).tolist(), strict=True))


def _live(step: Step, setup: Setup, world: MPI.Comm, clock: Clock, waits: Waits) -> None:
    """As `run_agent`, but hearing and speaking apart."""
    e, frame = setup.experiment, np.zeros(setup.frame_width)
    network = Network(world, setup, frame, waits)
    channel = Channel(world, setup.layout.width, longest_chunk(setup), waits)
    hear, speak = clock.around("hear", step.receive), clock.around("speak", step)
    exchange = clock.around("exchange and wait", network.exchange)
    state = step.start()
    for t in range(1, e.rounds + 1):
        state = speak(state, None, frame, channel.row(t))
        channel.done(t)
        state = hear(state, exchange(state.here), step.losses(t))
    channel.close(e.rounds, np.zeros(2 + setup.dimension))  # times, and a model
    network.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--case", choices=list(CASES), action="append")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK} rounds, once: whether it runs, not how fast")
    parser.add_argument("--apart", action="store_true", help="no forks: each rank as mpirun starts it")
    options = parser.parse_args()
    world = find_world(launcher())
    waits = Waits(world)
    waits.share_core(world.size, gives_way=world.rank < world.size - 1)
    for case in options.case or (CASES if world.size == 8 else ["ring"]):
        setup = setup_of(case, world.size, options.quick)
        taken = []
        for _ in range(2 if options.quick else options.repeats + 1):
            taken.append((with_mpinodes(world, setup, waits), bare(world, setup, waits)))
        if world.rank == 0:
            rates = [(setup.experiment.rounds / a, setup.experiment.rounds / b) for a, b in taken[1:]]
            ratios = sorted(a / b for a, b in rates)
            ours, theirs = (statistics.median(r) for r in zip(*rates, strict=True))
            print(
                f"{case}, {world.size - 1} agents: mpinodes {ours:.0f} rounds/s, bare loop {theirs:.0f} rounds/s, "
                f"ratio {statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})"
            )
        spent = stages(world, setup, waits)
        if world.rank == 0:
            print("   CPU µs a round, all ranks:", ", ".join(f"{k} {v:.0f}" for k, v in spent.items()), flush=True)
    return 0


if __name__ == "__main__":
    try:
        leave(main())
    except Exception:  # the other ranks would wait for ever
        traceback.print_exc()
        MPI.COMM_WORLD.Abort(1)
