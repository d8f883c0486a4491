"""Define the graph of two baselines: agents never send (`alone`), or send only in the last round (`one-shot`)."""

from __future__ import annotations

from dataclasses import dataclass

from mpinodes.core.messages import Neighborhood
from mpinodes.core.parts import Edges, Topology


@dataclass(frozen=True)
class Isolated(Topology):
    """Define a graph without edges, except that in one round every agent may send to every other agent.

    Attributes:
        meets: the round in which every agent sends to every other agent; 0 if there is no such round.
    """

    meets: int

    @property
    def title(self) -> str:
        """Return the name of the graph, for summaries and figures."""
        return f"no graph, one average in round {self.meets}" if self.meets else "no graph"

    @property
    def period(self) -> int | None:
        """Return the number of rounds after which the graph repeats.

        The number is 1 if no round has edges. If one round has edges, the graph never repeats, and the result is None.
        """
        return None if self.meets else 1

    def edges(self, t: int) -> Edges:
        """Return the edges of round t: the edges of the complete graph in the round `meets`, none in other rounds."""
        n = range(self.agents)
        return frozenset((j, i) for j in n for i in n if i != j) if t == self.meets else frozenset()

    def neighborhood(self, t: int, agent: int) -> Neighborhood:
        """Return the neighbors of an agent in round t: all other agents in the round `meets`, none in other rounds."""
        others = tuple(i for i in range(self.agents) if i != agent) if t == self.meets else ()
        return Neighborhood(t, agent, others, others)
