"""All agents in one process, round by round, by the same step: what the MPI run must equal bit for bit."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from mpinodes.core.experiment import chunk_rounds
from mpinodes.core.messages import Vector
from mpinodes.core.parts import Setup
from mpinodes.simulation.step import Arrivals, Step


def simulate(setup: Setup) -> Iterator[Vector]:
    """Rows of all agents, chunk by chunk: arrays (agents, rounds, row), each valid until the next one."""
    n, rounds, width = setup.topology.agents, setup.experiment.rounds, setup.layout.width
    length = chunk_rounds(setup.experiment.record.chunk, width, rounds)
    rows = np.empty((n, length, width))
    # Two sets of frames take turns, as over a network: what was heard stays while its sender speaks again.
    frames = [{i: np.zeros(setup.frame_width) for i in range(n)} for _ in range(2)]

    @lru_cache(maxsize=4096)
    def arrived(agent: int, senders: tuple[int, ...], turn: int) -> Arrivals:
        return Arrivals.of(setup, agent, senders, frames[turn])

    steps = [Step(setup, i) for i in range(n)]
    states = [step.start() for step in steps]
    arrivals: list[Arrivals | None] = [None] * n
    for t in range(1, rounds + 1):
        place, turn = (t - 1) % length, t % 2
        states = [step(states[i], arrivals[i], frames[turn][i], rows[i, place]) for i, step in enumerate(steps)]
        if states[0].left:
            if place:
                yield rows[:, :place]
            return
        arrivals = [arrived(i, s.here.senders, turn) for i, s in enumerate(states)]
        if place == length - 1 or t == rounds:
            yield rows[:, : place + 1]
