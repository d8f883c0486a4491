"""One small world."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from msgspec import Meta

from mpinodes.core.errors import BadInput
from mpinodes.core.parts import Matrix
from mpinodes.topology.base import as_matrix, both_ways
from mpinodes.topology.drawn import PROBABILITY, Connected

__all__ = ["SmallWorld"]


@dataclass(frozen=True)
class SmallWorld(Connected):
    """A ring with some edges moved, undirected; drawn until it is connected (Watts and Strogatz 1998).

    Raises:
        BadInput: neighbours is odd, or there are not so many.
    """

    neighbours: Annotated[
        int, Meta(ge=2, description="neighbors of an agent on the ring before edges move; even: half on each side")
    ] = 4
    probability: Annotated[float, Meta(ge=0, le=1, description=PROBABILITY)] = 0.1

    def __post_init__(self) -> None:
        if self.neighbours % 2 or self.neighbours >= self.agents:
            raise BadInput(
                f"topology.neighbours = {self.neighbours}: must be even and less than the number of agents, "
                f"{self.agents}"
            )

    @property
    def title(self) -> str:
        """With its neighbours, k, and p."""
        return f"small world, k = {self.neighbours}, p = {self.probability:g}"

    def draw(self, rng: np.random.Generator) -> Matrix:
        """One, connected or not."""
        import networkx as nx

        graph = nx.watts_strogatz_graph(self.agents, self.neighbours, self.probability, seed=rng)
        return as_matrix(self.agents, both_ways(frozenset(graph.edges)))

    @property
    def too_sparse(self) -> tuple[str, str]:
        """The neighbours."""
        return f"neighbours = {self.neighbours}", "more neighbours, or a lower topology.probability, would do"
