"""Random graphs drawn anew in every round, each a pure function of (seed, t)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from msgspec import Meta

from mpinodes.topology.base import Agents, EachRound, Matrix
from mpinodes.topology.drawn import erdos_renyi, hamiltonian_cycle, random_digraph


@dataclass(frozen=True)
class ErdosRenyiEachRound(EachRound):
    """A new G(n, p) in every round, connected or not."""

    agents: Agents
    seed: int
    probability: Annotated[float, Meta(gt=0, le=1, description="of each edge in each round")] = 0.5

    @property
    def title(self) -> str:
        """With its p."""
        return f"Erdős–Rényi graph drawn anew each round, p = {self.probability:g}"

    def draw(self, rng: np.random.Generator) -> Matrix:
        """G(n, p)."""
        return erdos_renyi(self.agents, self.probability, rng)


@dataclass(frozen=True)
class RandomDigraphEachRound(EachRound):
    """In every round a new random directed ring of all agents, and random edges besides."""

    agents: Agents
    seed: int
    probability: Annotated[float, Meta(ge=0, le=1, description="of each edge that is not in the ring")] = 0.5

    @property
    def title(self) -> str:
        """With its p."""
        return f"random digraph drawn anew each round, p = {self.probability:g}"

    def draw(self, rng: np.random.Generator) -> Matrix:
        """The ring, and the edges besides."""
        return random_digraph(self.agents, self.probability, rng)


@dataclass(frozen=True)
class Eulerian(EachRound):
    """In every round a new strongly connected digraph in which each agent hears as many as it sends to.

    It is a random directed ring of all agents, and the cycles of random permutations. A cycle that would double an
    edge is left out whole, which takes one from the in-degree and one from the out-degree of each of its agents: the
    two stay equal, and differ from agent to agent.
    """

    agents: Agents
    seed: int
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
            free = ~_along_cycles(to, sends[agents, to])
            sends[agents[free], to[free]] = True
        np.fill_diagonal(sends, False)  # cycles of one
        return sends


def _along_cycles(to: np.ndarray, marked: np.ndarray) -> np.ndarray:
    """Marks all of a permutation's cycle where one of it is marked."""
    for _ in range(len(to).bit_length()):  # looks 1, 2, 4, ... places ahead
        marked, to = marked | marked[to], to[to]
    return marked


@dataclass(frozen=True)
class Matchings(EachRound):
    """In every round the agents meet in random pairs; one sits out where they are odd in number."""

    agents: Agents
    seed: int

    @property
    def title(self) -> str:
        """Random matchings."""
        return "random matching drawn anew each round"

    def draw(self, rng: np.random.Generator) -> Matrix:
        """A matching."""
        one, other = rng.permutation(self.agents)[: self.agents // 2 * 2].reshape(2, -1)
        sends = np.zeros((self.agents, self.agents), dtype=bool)
        sends[one, other] = sends[other, one] = True
        return sends
