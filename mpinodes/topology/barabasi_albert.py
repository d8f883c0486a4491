"""Define a scale-free graph that stays the same in all rounds."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Annotated

from msgspec import Meta

from mpinodes.core.errors import BadInput
from mpinodes.core.parts import Edges
from mpinodes.core.seeds import Draws, Purpose
from mpinodes.topology.base import Periodic, both_ways, titled

__all__ = ["BarabasiAlbert"]


@dataclass(frozen=True)
class BarabasiAlbert(Periodic):
    """Add agents one by one to a star; each joins mostly agents with many edges (Barabási and Albert 1999).

    Raises:
        BadInput: there are not more agents than edges of a new agent.
    """

    attachments: Annotated[int, Meta(ge=1, description="edges that each new agent adds")] = 2

    title = titled("Barabási–Albert graph, m = {0.attachments}")

    def __post_init__(self) -> None:
        if self.attachments >= self.agents:
            raise BadInput(f"topology.attachments = {self.attachments}: must be below topology.agents = {self.agents}")

    @cached_property
    def phases(self) -> tuple[Edges, ...]:
        """Return the edges of the graph, as one phase."""
        import networkx as nx

        rng = Draws(self.seed, Purpose.TOPOLOGY).at(0)
        return (both_ways(frozenset(nx.barabasi_albert_graph(self.agents, self.attachments, seed=rng).edges)),)
