"""Define a small-world random graph, which stays the same in all rounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from msgspec import Meta

from mpinodes.core.errors import BadInput
from mpinodes.core.parts import Matrix, as_matrix
from mpinodes.topology.base import Connected, Probability, both_ways, titled

__all__ = ["SmallWorld"]


@dataclass(frozen=True)
class SmallWorld(Connected):
    """Join each agent to its nearest agents on a ring, then move one end of random edges (Watts and Strogatz 1998).

    Each edge is moved with the probability `probability`. If the graph is then not connected, the moves are drawn
    again, for at most `ATTEMPTS` graphs.

    Attributes:
        neighbours: neighbors of an agent on the ring before edges are moved; an even number

    Raises:
        BadInput: `neighbours` is odd, or at least the number of agents.
    """

    neighbours: Annotated[int, Meta(ge=2)] = 4
    probability: Probability = 0.1

    title = titled("small world, k = {0.neighbours}, p = {0.probability:g}")

    def __post_init__(self) -> None:
        if self.neighbours % 2 or self.neighbours >= self.agents:
            requirement = f"must be even and less than the number of agents, {self.agents}"
            raise BadInput(f"topology.neighbours = {self.neighbours}: {requirement}")

    def draw(self, rng: np.random.Generator) -> Matrix:
        """Draw one graph, which need not be connected, and return its adjacency matrix (n, n)."""
        import networkx as nx

        graph = nx.watts_strogatz_graph(self.agents, self.neighbours, self.probability, seed=rng)
        return as_matrix(self.agents, both_ways(frozenset(graph.edges)))

    @property
    def too_sparse(self) -> tuple[str, str]:
        """Return two texts for an error message: the value of `neighbours`, and which other settings may suffice."""
        return f"neighbours = {self.neighbours}", "set more neighbours, or a lower topology.probability"
