"""Define the ring graph, directed or undirected."""

from __future__ import annotations

from dataclasses import dataclass

from mpinodes.core.parts import Edges
from mpinodes.topology.base import Fixed, both_ways

__all__ = ["Ring"]


@dataclass(frozen=True)
class Ring(Fixed):
    """Join the agents in a ring: 0 - 1 - ... - (n − 1) - 0.

    If `directed` is true, agent i sends to agent i + 1 (modulo n) only. If `directed` is false, both agents of an edge
    send to each other. A single agent has no edge.

    Attributes:
        directed: let agent i receive from agent i − 1 only
    """

    directed: bool = False

    @property
    def title(self) -> str:
        """Return the name of the graph: "ring" or "directed ring"."""
        return "directed ring" if self.directed else "ring"

    def graph(self) -> Edges:
        """Return the edges of every round."""
        n = self.agents
        onward = frozenset((j, (j + 1) % n) for j in range(n) if n > 1)
        return onward if self.directed else both_ways(onward)
