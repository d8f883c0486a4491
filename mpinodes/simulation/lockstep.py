"""All agents in one process, round by round, by the same step: what the MPI run must equal bit for bit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from mpinodes.core.checkpoints import Chunk, Keeper, Kept, Order
from mpinodes.core.messages import Vector
from mpinodes.core.parts import Setup
from mpinodes.simulation.plan import Plan
from mpinodes.simulation.step import Arrivals, Step, keep


def simulate(setup: Setup) -> Iterator[Vector]:
    """Rows of all agents, chunk by chunk: arrays (agents, rounds, row), each valid until the next one."""
    return (chunk.rows for chunk in run_agents(setup, Plan(setup)))


def run_agents(setup: Setup, plan: Plan, keepers: Sequence[Keeper] = (), kept: Sequence[Kept] = ()) -> Iterator[Chunk]:
    """The rounds of all agents.

    Args:
        setup: of the run.
        plan: where rounds are cut.
        keepers: of what agents need to go on; none where nothing is kept.
        kept: what they go on from; nothing: they begin.
    """
    n = setup.topology.agents
    rows = np.empty((n, plan.longest, setup.layout.width))
    # Two sets of frames take turns, as over a network: what was heard stays while its sender speaks again.
    frames = [{i: np.zeros(setup.frame_width) for i in range(n)} for _ in range(2)]

    @lru_cache(maxsize=4096)
    def arrived(agent: int, senders: tuple[int, ...], turn: int) -> Arrivals:
        return Arrivals.of(setup, agent, senders, frames[turn])

    steps = [Step(setup, i) for i in range(n)]
    states = [step.start() for step in steps]
    arrivals: list[Any] = [None] * n
    before = Order(kept[0]["round"] if kept else 0)
    if kept:
        states, turn = [of["state"] for of in kept], before.end % 2
        for i, of in enumerate(kept):
            frames[turn][i][:] = of["frames"][i]
        arrivals = [arrived(i, s.here.senders, turn) for i, s in enumerate(states)]
    while order := plan.next():
        for t in range(before.end + 1, order.end + 1):
            place, turn = t - 1 - before.end, t % 2
            states = [step(states[i], arrivals[i], frames[turn][i], rows[i, place]) for i, step in enumerate(steps)]
            if states[0].left:
                if place:
                    yield Chunk(rows[:, :place])
                return
            arrivals = [arrived(i, s.here.senders, turn) for i, s in enumerate(states)]
        plan.came()
        if order.keeps:
            for i, keeper in enumerate(keepers):
                keeper.forget_before(order.forget)
                keep(keeper, order.end, states[i], arrivals[i], order.stops)
        yield Chunk(rows[:, : order.end - before.end], order)
        if order.keeps:
            plan.is_whole(order.end)
        before = order
