"""Run all agents in one process, one round after the other.

The class `step.Step` computes each agent here and under MPI. Therefore both ways to run give bit-identical results,
unless the noise is secret.
"""

from __future__ import annotations

import dataclasses
import pickle
import time
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, cast

import numpy as np
from msgspec.structs import replace

from mpinodes.core.errors import is_users
from mpinodes.core.messages import Vector
from mpinodes.core.parts import Setup
from mpinodes.rounds.plan import Plan
from mpinodes.rounds.step import Arrivals, State, Step, keep
from mpinodes.runlog.checkpoints import Chunk, Keeper, Kept, Order

MEMORY = 60_000_000  # bytes of the rows and samples of runs that are computed at once


def simulate(setup: Setup) -> Iterator[Vector]:
    """Run all agents in one process, and yield arrays (agents, rounds, row width) of the numbers that they log.

    A row holds the numbers of one agent in one round, in the format `core.events.Layout`. Each array holds some
    consecutive rounds, and is overwritten by the next array.
    """
    return (chunk.rows for chunk in run_agents(setup, Plan(setup)) if chunk.models is None)


def run_agents(
    setup: Setup, plan: Plan, keepers: Sequence[Keeper] = (), saved: Sequence[Kept] = (), runs: Sequence[Setup] = ()
) -> Iterator[Chunk]:
    """Run all agents in one process, and yield the numbers that they log, in chunks of consecutive rounds.

    A chunk has a row for each agent and round, in the format `core.events.Layout`. The last chunk has no rows, but the
    models that the agents' releases state. The generator ends after the last round, or earlier if the plan stops the
    run or the algorithm ends the run (`State.left`).

    Args:
        setup: the set-up of the run.
        plan: decides after which rounds chunks end and checkpoints are saved.
        keepers: for each agent, the writer of its checkpoints; empty if the run saves no checkpoints.
        saved: for each agent, its checkpoint of the round after which the run continues; empty if the run starts at
            round 1.
        runs: the set-ups of several runs, beginning with `setup`, that are computed at once; a row then has the axes
            (runs, row width). Empty: one run.
    """
    n, axis = setup.topology.agents, [len(runs)] * bool(runs)
    rows = np.empty((n, plan.longest, *axis, setup.layout.width))
    # Two sets of frames alternate between rounds, so that a sender does not overwrite a frame that receivers still use.
    # Late messages need one more set for each round of the largest delay.
    turns = 2 + (setup.links.faults.most_late if setup.links else 0)
    frames = [{i: np.zeros((*axis, setup.frame_width)) for i in range(n)} for _ in range(turns)]

    @lru_cache(maxsize=4096)
    def arrived(agent: int, senders: tuple[int, ...], turn: int) -> Arrivals:
        return Arrivals.of(setup, agent, senders, frames[turn])

    def frame_of(agent: int, t: int) -> Vector:
        return frames[t % turns][agent]

    def arrivals_in(states: list[State], turn: int) -> list[Any]:
        if setup.links:
            return [Arrivals.of_round(setup, s.here, frame_of) for s in states]
        return [arrived(i, s.here.senders, turn) for i, s in enumerate(states)]

    steps = [Step(setup, i, runs) for i in range(n)]
    states = [step.start() for step in steps]
    arrivals: list[Any] = [None] * n
    before = Order(saved[0]["round"] if saved else 0)
    if saved:
        states, turn = [checkpoint["state"] for checkpoint in saved], before.end % turns
        for i, checkpoint in enumerate(saved):
            own = checkpoint["frames"][i]
            for place, frame in enumerate(own) if setup.links else [(turn, own)]:
                frames[place][i][:] = frame
        arrivals = arrivals_in(states, turn)
    while order := plan.next():
        for t in range(before.end + 1, order.end + 1):
            place, turn = t - 1 - before.end, t % turns
            states = [step(states[i], arrivals[i], frames[turn][i], rows[i, place]) for i, step in enumerate(steps)]
            if states[0].left:
                if place:
                    yield Chunk(rows[:, :place])
                break
            arrivals = arrivals_in(states, turn)
            if steps[0].plays:
                for i, step in enumerate(steps):
                    step.play(states[i], arrivals[i], rows[i, place])
        if states[0].left:
            break
        if order.keeps:
            under_way = {i: np.array([turn[i] for turn in frames]) for i in range(n)} if setup.links else None
            for i, keeper in enumerate(keepers):
                keeper.forget_before(order.forget)
                keep(keeper, order.end, states[i], under_way or arrivals[i].by_sender, order.stops)
        yield Chunk(rows[:, : order.end - before.end], order)
        plan.came(order)
        before = order
    models = np.stack([step.model(s, heard) for step, s, heard in zip(steps, states, arrivals, strict=True)])
    yield Chunk(rows[:, :0], models=models)


def public(run: Setup) -> tuple[Any, ...]:
    """Return the values that determine the privacy events (noise and sensitivity of every message) of a run."""
    e, graph = run.experiment, run.topology
    # Noise, starting points and output move no event. Faults and some graphs depend on the seed.
    settings = replace(e, seed=e.seed if run.links else 0, name="", output=None, report=False)
    edges = [sorted(graph.edges(t + 1)) for t in range(graph.period)] if graph.period else graph
    return settings, type(run.algorithm), run.run, run.samples, edges


def kind_of(run: Setup) -> bytes | None:
    """Return a value that is equal for runs that `run_together` accepts together; None if the run must be done alone.

    Runs with equal values have equal graphs, and privacy events (noise and sensitivity of every message) that are equal
    except for the scale of Laplace noise.
    """
    e, algorithm = run.experiment, run.algorithm
    is_plain = e.noise.backend == "numpy" and e.noise.entropy != "os" and not e.checkpoint.every
    needs_data = algorithm.solves or algorithm.noises_gradients or algorithm.settled_below or algorithm.random_start
    needs_data = needs_data or e.feedback.points or e.feedback.delay or e.sampling != "none" or e.repeats > 1
    if not is_plain or needs_data or run.cut or run.links:
        return None
    settings, _, constants, samples, edges = public(run)
    own = any(is_users(type(part)) for part in (algorithm, run.mechanism, run.mixing))
    if e.private and run.mechanism.pure and not own:  # epsilon changes the scale of the noise alone
        budget = e.privacy.budget
        free = budget if budget and budget.kept_by == "stopping" else None
        settings = replace(settings, privacy=replace(e.privacy, epsilon=1.0, budget=free))
        constants = dataclasses.replace(constants, epsilon=1.0)
    # A class of a user has no pickle. The settings name its file, so it is the same for equal settings.
    constants = dataclasses.replace(constants, feasible=None, steps=None, gdp=None)
    return None if edges is run.topology else pickle.dumps((settings, constants, samples, edges))


def most_together(run: Setup) -> int:
    """Return how many runs like this run, at least 1, have rows and samples that fit into `MEMORY` together."""
    shares, rounds = run.stream.shares or (), run.experiment.rounds
    samples = rounds * sum(run.samples) + sum(map(len, shares))
    numbers = run.topology.agents * rounds * run.layout.width + samples * run.dimension
    return max(1, MEMORY // (8 * numbers))


def run_together(runs: Sequence[Setup]) -> list[list[Chunk]]:
    """Compute all rounds of several runs at once, and return the chunks of each run: all rows, and the agents' models.

    Each run gives the same bits as if it were computed alone. If a part is user-written, the last run is also computed
    alone, to verify that the part works with stacked vectors of several runs.

    Args:
        runs: the set-ups of the runs, for which `kind_of` is equal.

    Raises:
        ValueError: a user-written part does not work with stacked vectors. Such a part may also raise any other error.
    """
    first, last, begun = runs[0], runs[-1], time.perf_counter()
    parts = first.algorithm, first.mixing, first.mechanism, first.feasible, first.run.steps
    epsilons = np.array([run.experiment.privacy.epsilon for run in runs])
    if (epsilons != epsilons[0]).any():
        mechanism: Any = dataclasses.replace(first.mechanism, epsilon=cast(Any, epsilons[:, None]))
        # An algorithm that used epsilon would compute nan.
        algorithm = dataclasses.replace(first.algorithm, run=dataclasses.replace(first.run, epsilon=np.nan))
        first = dataclasses.replace(first, mechanism=mechanism, algorithm=algorithm)
    with np.errstate(all="ignore"):
        together = run_agents(first, Plan(first), runs=[first, *runs[1:]])
        chunks = [chunk._replace(rows=chunk.rows.copy()) for chunk in together]
        rows = np.moveaxis(np.concatenate([chunk.rows for chunk in chunks], axis=1), 2, 0)
        if any(is_users(type(part)) for part in parts):
            alone = np.concatenate([chunk.copy() for chunk in simulate(last)], axis=1)
            if not np.array_equal(alone, rows[-1], equal_nan=True):
                raise ValueError("a part in your file gives other numbers if several runs are computed together")
    models = np.moveaxis(np.asarray(chunks[-1].models), 1, 0)
    seconds = (time.perf_counter() - begun) / len(runs)
    return [[Chunk(rows[k], seconds=seconds), Chunk(rows[k, :, :0], models=models[k])] for k in range(len(runs))]
