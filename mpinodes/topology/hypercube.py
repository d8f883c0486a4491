"""Define the hypercube graph."""

from __future__ import annotations

from dataclasses import dataclass

from mpinodes.core.errors import BadInput
from mpinodes.core.parts import Edges
from mpinodes.topology.base import Fixed

__all__ = ["Hypercube"]


@dataclass(frozen=True)
class Hypercube(Fixed):
    """Join two agents if their numbers differ in exactly one binary digit.

    Raises:
        BadInput: the number of agents is not a power of two; 1 is a power of two.
    """

    def __post_init__(self) -> None:
        if self.agents.bit_count() != 1:
            below = 1 << self.agents.bit_length() - 1
            near = f"the nearest powers are {below} and {2 * below}"
            raise BadInput(f"topology.agents = {self.agents}: a hypercube needs a power of two agents; {near}")

    @property
    def title(self) -> str:
        """Return the name of the graph, with its dimension."""
        return f"hypercube of dimension {self.agents.bit_length() - 1}"

    def graph(self) -> Edges:
        """Return the edges of every round."""
        bits = range(self.agents.bit_length() - 1)
        return frozenset((j, j ^ 1 << k) for j in range(self.agents) for k in bits)
