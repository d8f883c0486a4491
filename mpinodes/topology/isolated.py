"""The graph of the baselines `alone` and `one-shot`: agents that send nothing, or only once, at the end."""

from __future__ import annotations

from dataclasses import dataclass, field

from mpinodes.core.messages import Neighborhood
from mpinodes.core.parts import Edges, Matrix, Topology
from mpinodes.topology.base import as_matrix


@dataclass(frozen=True)
class Isolated(Topology):
    """The agents of another graph without its edges.

    Attributes:
        inner: the other graph.
        meets: the round in which every agent sends to every other agent; 0: there is none.
    """

    inner: Topology = field(kw_only=True)
    meets: int = field(default=0, kw_only=True)

    @property
    def title(self) -> str:
        """Return the name of the graph for people."""
        return f"no graph, one average in round {self.meets}" if self.meets else "no graph"

    @property
    def period(self) -> int | None:
        """Return 1 if the agents never meet, else None."""
        return None if self.meets else 1

    def edges(self, t: int) -> Edges:
        """Return all edges in the round in which the agents meet, and none in other rounds."""
        n = range(self.agents)
        return frozenset((j, i) for j in n for i in n if i != j) if t == self.meets else frozenset()

    def sends(self, t: int) -> Matrix:
        """Return the edges of round t as a matrix."""
        return as_matrix(self.agents, self.edges(t))

    def neighborhood(self, t: int, agent: int) -> Neighborhood:
        """Return the neighbors of an agent in round t."""
        others = tuple(i for i in range(self.agents) if i != agent) if t == self.meets else ()
        return Neighborhood(t, agent, others, others)
