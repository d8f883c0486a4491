"""Define a random expander graph, which stays the same in all rounds."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Annotated

import numpy as np
from msgspec import Meta

from mpinodes.core.errors import BadInput
from mpinodes.core.parts import Edges, as_matrix
from mpinodes.topology.base import ATTEMPTS, Fixed, both_ways, titled

__all__ = ["Expander"]


@dataclass(frozen=True)
class Expander(Fixed):
    """Draw a random Ramanujan graph: an undirected graph with equal degrees d, on which information spreads fast.

    In a Ramanujan graph, the largest eigenvalue of the adjacency matrix is d, and all other eigenvalues have an
    absolute value of at most 2 √(d − 1) (Lubotzky, Phillips and Sarnak 1988). Random graphs are drawn until one of them
    is a Ramanujan graph, at most `ATTEMPTS` graphs.

    Attributes:
        degree: number of neighbors of every agent

    Raises:
        BadInput: no graph with this number of agents has this degree at every agent.
    """

    degree: Annotated[int, Meta(ge=3)] = 4

    title = titled("expander, {0.degree} neighbours each")

    def __post_init__(self) -> None:
        if self.degree >= self.agents or self.degree * self.agents % 2:
            limit = f"the number of agents, {self.agents}{', and even, because that number is odd' * (self.agents % 2)}"
            remedy = "for few agents use topology.name=complete"
            raise BadInput(f"topology.degree = {self.degree}: must be less than {limit}; {remedy}")

    def graph(self) -> Edges:
        """Return the edges of every round.

        Raises:
            BadInput: `ATTEMPTS` graphs were drawn, and none of them is a Ramanujan graph.
        """
        import networkx as nx

        for attempt in range(ATTEMPTS):
            graph = nx.random_regular_graph(self.degree, self.agents, seed=self.random_numbers.at(attempt))
            edges = both_ways(frozenset(graph.edges))
            eigenvalues = np.linalg.eigvalsh(as_matrix(self.agents, edges).astype(float))
            if max(-eigenvalues[0], eigenvalues[-2]) <= 2 * sqrt(self.degree - 1) + 1e-9:
                return edges
        raise BadInput(
            f"topology.degree = {self.degree}: none of {ATTEMPTS} random graphs was an expander; set another seed"
        )
