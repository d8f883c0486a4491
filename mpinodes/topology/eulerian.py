"""Define an Eulerian digraph that is drawn anew in every round."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from msgspec import Meta

from mpinodes.core.parts import Matrix
from mpinodes.topology.base import EachRound, hamiltonian_cycle, titled

__all__ = ["Eulerian"]


@dataclass(frozen=True)
class Eulerian(EachRound):
    """Draw in every round a strongly connected digraph in which each agent's in-degree equals its out-degree.

    The graph is a directed ring of all agents in random order, to which the cycles of `cycles` random permutations are
    added. A cycle is left out if its length is one, or if the graph already has an edge of the cycle.

    Attributes:
        cycles: random permutations whose cycles are added to the ring
    """

    cycles: Annotated[int, Meta(ge=0)] = 2

    title = titled("Eulerian digraph drawn anew each round, {0.cycles} permutations")

    def draw(self, rng: np.random.Generator) -> Matrix:
        """Draw the ring and the cycles of one round, and return the adjacency matrix (n, n) of the graph."""
        sends, agents = hamiltonian_cycle(self.agents, rng), np.arange(self.agents)
        for _ in range(self.cycles):
            to = rng.permutation(self.agents)
            doubled, step = sends[agents, to], to
            for _ in range(self.agents.bit_length()):  # mark the whole cycle of each repeated edge
                doubled, step = doubled | doubled[step], step[step]
            sends[agents[~doubled], to[~doubled]] = True
        np.fill_diagonal(sends, False)  # remove the cycles of length one
        return sends
