"""An Eulerian digraph drawn anew in every round."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from msgspec import Meta

from mpinodes.core.parts import Matrix
from mpinodes.topology.base import EachRound
from mpinodes.topology.drawn import hamiltonian_cycle

__all__ = ["Eulerian"]


@dataclass(frozen=True)
class Eulerian(EachRound):
    """In every round a new strongly connected digraph in which each agent hears as many as it sends to.

    It is a random directed ring of all agents, and the cycles of random permutations. A cycle that would double an
    edge is left out whole, which takes one from the in-degree and one from the out-degree of each of its agents: the
    two stay equal, and differ from agent to agent.
    """

    cycles: Annotated[int, Meta(ge=0, description="random permutations whose cycles are added to the ring")] = 2

    @property
    def title(self) -> str:
        """With its permutations."""
        return f"Eulerian digraph drawn anew each round, {self.cycles} permutations"

    def draw(self, rng: np.random.Generator) -> Matrix:
        """The ring, and the cycles that fit in."""
        sends, agents = hamiltonian_cycle(self.agents, rng), np.arange(self.agents)
        for _ in range(self.cycles):
            to = rng.permutation(self.agents)
            doubled, step = sends[agents, to], to
            for _ in range(self.agents.bit_length()):  # spread the mark along each cycle by 1, 2, 4, ... places
                doubled, step = doubled | doubled[step], step[step]
            sends[agents[~doubled], to[~doubled]] = True
        np.fill_diagonal(sends, False)  # cycles of length one
        return sends
