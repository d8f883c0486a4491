"""One scale-free graph."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Annotated

from msgspec import Meta

from mpinodes.core.errors import BadInput
from mpinodes.core.parts import Edges
from mpinodes.core.seeds import Draws, Purpose
from mpinodes.topology.base import Periodic, both_ways

__all__ = ["BarabasiAlbert"]


@dataclass(frozen=True)
class BarabasiAlbert(Periodic):
    """A star that grows by agents joined to older ones, mostly those of many edges (Barabási and Albert 1999).

    Raises:
        BadInput: fewer agents than a new one is to be joined to.
    """

    attachments: Annotated[int, Meta(ge=1, description="edges that each new agent adds")] = 2

    def __post_init__(self) -> None:
        if self.attachments >= self.agents:
            raise BadInput(
                f"topology.attachments = {self.attachments}: must be less than the number of agents, {self.agents}"
            )

    @property
    def title(self) -> str:
        """With its attachments, m."""
        return f"Barabási–Albert graph, m = {self.attachments}"

    @cached_property
    def phases(self) -> tuple[Edges, ...]:
        """One."""
        import networkx as nx

        rng = Draws(self.seed, Purpose.TOPOLOGY).at(0)
        return (both_ways(frozenset(nx.barabasi_albert_graph(self.agents, self.attachments, seed=rng).edges)),)
