"""Define a scale-free random graph, which stays the same in all rounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from mpinodes.core.errors import BadInput
from mpinodes.core.parts import Edges
from mpinodes.topology.base import Fixed, both_ways, titled

__all__ = ["BarabasiAlbert"]


@dataclass(frozen=True)
class BarabasiAlbert(Fixed):
    """Draw a scale-free graph: begin with a star, and add the other agents one by one (Barabási and Albert 1999).

    Each new agent gets `attachments` edges, preferably to agents that already have many edges.

    Attributes:
        attachments: number of edges that each new agent adds

    Raises:
        BadInput: the number of agents is not above `attachments`.
    """

    attachments: Annotated[int, Meta(ge=1)] = 2

    title = titled("Barabási–Albert graph, m = {0.attachments}")

    def __post_init__(self) -> None:
        if self.attachments >= self.agents:
            raise BadInput(f"topology.attachments = {self.attachments}: must be below topology.agents = {self.agents}")

    def graph(self) -> Edges:
        """Return the edges of every round."""
        import networkx as nx

        graph = nx.barabasi_albert_graph(self.agents, self.attachments, seed=self.random_numbers.at(0))
        return both_ways(frozenset(graph.edges))
