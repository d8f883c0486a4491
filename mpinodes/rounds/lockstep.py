"""Run all agents in one process, one round after the other.

The class `step.Step` computes each agent here and under MPI. Therefore both ways to run give bit-identical results,
unless the noise is secret.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from mpinodes.core.messages import Vector
from mpinodes.core.parts import Setup
from mpinodes.rounds.plan import Plan
from mpinodes.rounds.step import Arrivals, State, Step, keep
from mpinodes.runlog.checkpoints import Chunk, Keeper, Kept, Order


def simulate(setup: Setup) -> Iterator[Vector]:
    """Run all agents in one process, and yield arrays (agents, rounds, row width) of the numbers that they log.

    A row holds the numbers of one agent in one round, in the format `core.events.Layout`. Each array holds some
    consecutive rounds, and is overwritten by the next array.
    """
    return (chunk.rows for chunk in run_agents(setup, Plan(setup)))


def run_agents(setup: Setup, plan: Plan, keepers: Sequence[Keeper] = (), saved: Sequence[Kept] = ()) -> Iterator[Chunk]:
    """Run all agents in one process, and yield the numbers that they log, in chunks of consecutive rounds.

    A chunk has a row for each agent and round, in the format `core.events.Layout`. The generator ends in one of these
    cases:

    - the last round is computed;
    - the plan stops the run after a chunk, because of a signal;
    - the algorithm ends the run early (`State.left`).

    Args:
        setup: the set-up of the run.
        plan: decides after which rounds chunks end and checkpoints are saved.
        keepers: for each agent, the writer of its checkpoints; empty if the run saves no checkpoints.
        saved: for each agent, its checkpoint of the round after which the run continues; empty if the run starts at
            round 1.
    """
    n = setup.topology.agents
    rows = np.empty((n, plan.longest, setup.layout.width))
    # Two sets of frames alternate between rounds, so that a sender does not overwrite a frame that receivers still use.
    # Late messages need one more set for each round of the largest delay.
    turns = 2 + (setup.links.most_late if setup.links else 0)
    frames = [{i: np.zeros(setup.frame_width) for i in range(n)} for _ in range(turns)]

    @lru_cache(maxsize=4096)
    def arrived(agent: int, senders: tuple[int, ...], turn: int) -> Arrivals:
        return Arrivals.of(setup, agent, senders, frames[turn])

    def frame_of(agent: int, t: int) -> Vector:
        return frames[t % turns][agent]

    def arrivals_in(states: list[State], turn: int) -> list[Any]:
        if setup.links:
            return [Arrivals.of_round(setup, s.here, frame_of) for s in states]
        return [arrived(i, s.here.senders, turn) for i, s in enumerate(states)]

    steps = [Step(setup, i) for i in range(n)]
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
                return
            arrivals = arrivals_in(states, turn)
            if steps[0].plays:
                for i, step in enumerate(steps):
                    step.play(states[i], arrivals[i], rows[i, place])
        if order.keeps:
            under_way = {i: np.array([turn[i] for turn in frames]) for i in range(n)} if setup.links else None
            for i, keeper in enumerate(keepers):
                keeper.forget_before(order.forget)
                keep(keeper, order.end, states[i], under_way or arrivals[i].by_sender, order.stops)
        yield Chunk(rows[:, : order.end - before.end], order)
        plan.came(order)
        before = order
