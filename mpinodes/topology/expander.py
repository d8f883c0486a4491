"""Define an expander graph that stays the same in all rounds."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import sqrt
from typing import Annotated

import numpy as np
from msgspec import Meta

from mpinodes.core.errors import BadInput
from mpinodes.core.parts import Edges
from mpinodes.core.seeds import Draws, Purpose
from mpinodes.topology.base import ATTEMPTS, Periodic, as_matrix, both_ways, titled

__all__ = ["Expander"]


@dataclass(frozen=True)
class Expander(Periodic):
    """Draw random undirected regular graphs, at most `ATTEMPTS`, until a drawn graph is a Ramanujan graph.

    The largest eigenvalue of the adjacency matrix of a regular graph is the degree d. In a Ramanujan graph all other
    eigenvalues are at most 2 √(d − 1) in absolute value. No infinite family of graphs of degree d has a smaller bound
    (Lubotzky, Phillips and Sarnak 1988).

    Raises:
        BadInput: no regular graph has this degree and number of agents.
    """

    degree: Annotated[int, Meta(ge=3, description="number of neighbors of every agent")] = 4

    title = titled("expander, {0.degree} neighbours each")

    def __post_init__(self) -> None:
        if self.degree >= self.agents or self.degree * self.agents % 2:
            limit = f"the number of agents, {self.agents}{', and even, because that number is odd' * (self.agents % 2)}"
            remedy = "for few agents use topology.name=complete"
            raise BadInput(f"topology.degree = {self.degree}: must be less than {limit}; {remedy}")

    @cached_property
    def phases(self) -> tuple[Edges, ...]:
        """Return a tuple with one set of edges, because the graph is the same in every round.

        Raises:
            BadInput: none of `ATTEMPTS` drawn graphs is a Ramanujan graph.
        """
        import networkx as nx

        draws = Draws(self.seed, Purpose.TOPOLOGY)
        for attempt in range(ATTEMPTS):
            graph = nx.random_regular_graph(self.degree, self.agents, seed=draws.at(attempt))
            edges = both_ways(frozenset(graph.edges))
            eigenvalues = np.linalg.eigvalsh(as_matrix(self.agents, edges).astype(float))
            if max(-eigenvalues[0], eigenvalues[-2]) <= 2 * sqrt(self.degree - 1) + 1e-9:
                return (edges,)
        raise BadInput(
            f"topology.degree = {self.degree}: none of {ATTEMPTS} random graphs was an expander; set another seed"
        )
