"""Define the barbell graph: two complete graphs that are joined by a path."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from msgspec import Meta

from mpinodes.core.errors import BadInput
from mpinodes.core.parts import Edges
from mpinodes.topology.base import Fixed, both_ways

__all__ = ["Barbell"]


@dataclass(frozen=True)
class Barbell(Fixed):
    """Join two complete graphs of equal size by a path. Information spreads very slowly on this graph.

    Attributes:
        bridge: agents on the path between the halves; least: 0, or 1 if the number of agents is odd

    Raises:
        BadInput: the agents outside the path do not form two equal halves of at least two agents each.
    """

    bridge: Annotated[int, Meta(ge=0)] | Literal["least"] = "least"

    def __post_init__(self) -> None:
        rest = self.agents - self.between
        if rest < 4 or rest % 2:
            keys = f"topology.agents = {self.agents}, topology.bridge = {self.between}"
            raise BadInput(
                f"{keys}: the {rest} agents outside the bridge must be two halves of at least two agents each"
            )

    @property
    def between(self) -> int:
        """Return the number of agents on the path between the two complete graphs."""
        return self.agents % 2 if self.bridge == "least" else self.bridge

    @property
    def title(self) -> str:
        """Return the name of the graph, with the sizes of its halves and of its path."""
        half = (self.agents - self.between) // 2
        return f"barbell, {half} and {half}, {self.between} between"

    def graph(self) -> Edges:
        """Return the edges of every round."""
        import networkx as nx

        return both_ways(frozenset(nx.barbell_graph((self.agents - self.between) // 2, self.between).edges))
