"""What graphs that are drawn at random have in common."""

from __future__ import annotations

from abc import abstractmethod
from functools import cached_property

import numpy as np

from mpinodes.core.errors import BadInput
from mpinodes.core.parts import Edges, Matrix
from mpinodes.core.seeds import Draws, Purpose
from mpinodes.topology.base import Periodic, as_edges
from mpinodes.topology.facts import unreached

ATTEMPTS = 20_000
PROBABILITY = "probability of each edge that is not in the ring; small-world: of moving an end of an edge"


def erdos_renyi(agents: int, probability: float, rng: np.random.Generator) -> Matrix:
    """An undirected Erdős–Rényi graph G(n, p)."""
    upper = np.triu(rng.random((agents, agents)) < probability, 1)
    return upper | upper.T


def hamiltonian_cycle(agents: int, rng: np.random.Generator) -> Matrix:
    """A directed ring of all agents in random order."""
    order = rng.permutation(agents)
    sends = np.zeros((agents, agents), dtype=bool)
    sends[order[:-1], order[1:]] = True
    sends[order[-1], order[0]] = agents > 1
    return sends


def random_digraph(agents: int, probability: float, rng: np.random.Generator) -> Matrix:
    """A Hamiltonian cycle, and each other edge with a probability."""
    sends = hamiltonian_cycle(agents, rng) | (rng.random((agents, agents)) < probability)
    np.fill_diagonal(sends, False)
    return sends


class Connected(Periodic):
    """One connected graph for the whole run: drawn again from the seed until it is connected."""

    @abstractmethod
    def draw(self, rng: np.random.Generator) -> Matrix:
        """One (n, n) matrix, connected or not."""

    @property
    @abstractmethod
    def too_sparse(self) -> tuple[str, str]:
        """For the error where no draw is connected: the key that is to blame, with its value, and what would do."""

    @cached_property
    def phases(self) -> tuple[Edges, ...]:
        """One.

        Raises:
            BadInput: none of `ATTEMPTS` draws was connected.
        """
        draws = Draws(self.seed, Purpose.TOPOLOGY)
        for attempt in range(ATTEMPTS):
            sends = self.draw(draws.at(attempt))
            if unreached(sends) is None:
                return (as_edges(sends),)
        key, hint = self.too_sparse
        raise BadInput(
            f"topology.{key}: none of {ATTEMPTS} random graphs on {self.agents} agents was connected; {hint}"
        )
