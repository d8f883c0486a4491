"""Define the graph of the baselines: agents never send (`alone`), or send only in the last round (`one-shot`)."""

from __future__ import annotations

from dataclasses import dataclass, field

from mpinodes.core.messages import Neighborhood
from mpinodes.core.parts import Edges, Matrix, Topology
from mpinodes.topology.base import as_matrix


@dataclass(frozen=True)
class Isolated(Topology):
    """Define a graph that has no edges, except in one round in which every agent may send to every other agent.

    Attributes:
        inner: the graph that the experiment would have without the baseline; its edges are not used.
        meets: the round in which every agent sends to every other agent; 0 if there is no such round.
    """

    inner: Topology = field(kw_only=True)
    meets: int = field(default=0, kw_only=True)

    @property
    def title(self) -> str:
        """Return the name of the graph that summaries and figures print."""
        return f"no graph, one average in round {self.meets}" if self.meets else "no graph"

    @property
    def period(self) -> int | None:
        """Return 1 if no round has edges, so that all rounds are equal; None if one round has edges."""
        return None if self.meets else 1

    def edges(self, t: int) -> Edges:
        """Return the edges (j, i) for all pairs of different agents if t is the round `meets`; no edges otherwise."""
        n = range(self.agents)
        return frozenset((j, i) for j in n for i in n if i != j) if t == self.meets else frozenset()

    def sends(self, t: int) -> Matrix:
        """Return the edges of round t as an (n, n) matrix; entry [j, i] is true if agent j sends to agent i."""
        return as_matrix(self.agents, self.edges(t))

    def neighborhood(self, t: int, agent: int) -> Neighborhood:
        """Return the neighbors of an agent in round t: all other agents if t is the round `meets`, otherwise none."""
        others = tuple(i for i in range(self.agents) if i != agent) if t == self.meets else ()
        return Neighborhood(t, agent, others, others)
