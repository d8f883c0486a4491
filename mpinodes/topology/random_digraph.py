"""Define a random digraph, which stays the same in all rounds."""

from __future__ import annotations

from dataclasses import dataclass

from mpinodes.core.parts import Edges
from mpinodes.topology.base import Fixed, Probability, as_edges, random_digraph, titled

__all__ = ["RandomDigraph"]


@dataclass(frozen=True)
class RandomDigraph(Fixed):
    """Draw one digraph for all rounds: a directed ring of all agents in random order, and further random edges.

    Each edge outside the ring is in the graph with the probability `probability`.
    """

    probability: Probability = 0.5

    title = titled("random digraph, p = {0.probability:g}")

    def graph(self) -> Edges:
        """Return the edges of every round."""
        return as_edges(random_digraph(self.agents, self.probability, self.random_numbers.at(0)))
