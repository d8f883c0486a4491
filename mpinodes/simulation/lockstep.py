"""All agents in one process, round by round, through the same kernels: what the MPI run must equal bit for bit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from mpinodes.config.resolve import resolve
from mpinodes.config.setup import Parts, build, check
from mpinodes.core.errors import BadInput
from mpinodes.core.experiment import chunk_rounds, parse
from mpinodes.core.protocol import Vector
from mpinodes.results import repeats
from mpinodes.results.logger import Json
from mpinodes.results.record import make_directory, unmake_directory
from mpinodes.simulation.agent import Agent, row_width


def simulate(parts: Parts) -> Iterator[Vector]:
    """Rows of all agents, chunk by chunk: arrays (agents, rounds, row), each valid until the next one."""
    n, rounds, width = parts.topology.agents, parts.experiment.rounds, row_width(parts)
    agents = [Agent(i, parts) for i in range(n)]
    length = chunk_rounds(parts.experiment.record.chunk, width, rounds)
    rows = np.empty((n, length, width))
    for t in range(1, rounds + 1):
        place = (t - 1) % length
        spoken = [agent.speak(t, rows[i, place]) for i, agent in enumerate(agents)]
        # As over a network: what was heard stays when its sender speaks again.
        frames = {i: agent.frame.copy() for i, agent in enumerate(agents)}
        for agent, round in zip(agents, spoken, strict=True):
            agent.hear(round, frames)
        if place == length - 1 or t == rounds or agents[0].left:
            yield rows[:, : place + 1]
        if agents[0].left:
            return


def run(asked: dict[str, Any]) -> tuple[Path, Json]:
    """Run an experiment given as nested dictionaries; returns the run directory and the summary.

    Raises:
        BadInput: something in the experiment is wrong.
    """
    with threadpool_limits(1), np.errstate(all="ignore"):
        parts = build(resolve(asked, ranks=None))
        b = check(parts, ranks=None)
        if parts.experiment.privacy.budget:
            from mpinodes.simulation.budget import within_budget  # which runs in lockstep itself

            parts = build(within_budget(parts.experiment))
        directory = make_directory(parts.experiment)
        try:
            return directory, repeats.log(parts, directory, "none (lockstep)", b, simulate)
        except BadInput:  # a file is found to be wrong where its rows are read
            unmake_directory(directory)
            raise


def run_lockstep(experiment: str | Path | dict[str, Any]) -> Path:
    """See `mpinodes.run_lockstep`."""
    asked = experiment if isinstance(experiment, dict) else parse(str(experiment), [])
    return run(asked)[0]
