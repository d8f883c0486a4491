"""Provide the random graphs that several topologies use."""

from __future__ import annotations

from abc import abstractmethod
from functools import cache, cached_property

import numpy as np

from mpinodes.core.errors import BadInput
from mpinodes.core.parts import Edges, Matrix
from mpinodes.core.seeds import Draws, Purpose
from mpinodes.topology.base import Periodic, as_edges
from mpinodes.topology.facts import unreached

ATTEMPTS = 20_000
PROBABILITY = "probability of each edge that is not in the ring; small-world: of moving an end of an edge"


def erdos_renyi(agents: int, probability: float, rng: np.random.Generator) -> Matrix:
    """Draw an undirected Erdős–Rényi graph G(n, p), as an (n, n) matrix."""
    upper = (rng.random((agents, agents)) < probability) & _above_diagonal(agents)
    return upper | upper.T


@cache
def _above_diagonal(agents: int) -> Matrix:
    return np.triu(np.ones((agents, agents), dtype=bool), 1)  # once, because np.triu takes most of the time of a draw


def hamiltonian_cycle(agents: int, rng: np.random.Generator) -> Matrix:
    """Draw a directed ring of all agents in random order, as an (n, n) matrix."""
    order = rng.permutation(agents)
    sends = np.zeros((agents, agents), dtype=bool)
    sends[order[:-1], order[1:]] = True
    sends[order[-1], order[0]] = agents > 1
    return sends


def random_digraph(agents: int, probability: float, rng: np.random.Generator) -> Matrix:
    """Draw a Hamiltonian cycle, and each other edge with a probability, as an (n, n) matrix."""
    sends = hamiltonian_cycle(agents, rng) | (rng.random((agents, agents)) < probability)
    np.fill_diagonal(sends, False)
    return sends


class Connected(Periodic):
    """Define a graph for the whole run that is drawn from the seed, again until it is connected."""

    @abstractmethod
    def draw(self, rng: np.random.Generator) -> Matrix:
        """Draw one graph, connected or not, as an (n, n) matrix."""

    @property
    @abstractmethod
    def too_sparse(self) -> tuple[str, str]:
        """Return `key = value` of the setting that makes graphs too sparse, and a remedy; for the error message."""

    @cached_property
    def phases(self) -> tuple[Edges, ...]:
        """Return the edges of the graph, as one phase.

        Raises:
            BadInput: none of `ATTEMPTS` draws was connected.
        """
        draws = Draws(self.seed, Purpose.TOPOLOGY)
        for attempt in range(ATTEMPTS):
            sends = self.draw(draws.at(attempt))
            if unreached(sends) is None:
                return (as_edges(sends),)
        key, hint = self.too_sparse
        raise BadInput(f"topology.{key}: none of {ATTEMPTS} random graphs of {self.agents} agents is connected; {hint}")
