"""Define the two-dimensional torus graph."""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt
from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from mpinodes.core.errors import BadInput
from mpinodes.core.parts import Edges
from mpinodes.topology.base import Fixed, both_ways, titled

__all__ = ["Torus"]


@dataclass(frozen=True)
class Torus(Fixed):
    """Join each agent to its neighbors in its row and column of a grid that wraps around.

    Agent j is in row j // columns. In a row or column of two agents, the agents are joined by one edge. A row or column
    of one agent has no edge.

    Attributes:
        rows: number of rows, a divisor of agents; square: as near to a square as possible

    Raises:
        BadInput: the number of agents is no multiple of `rows`; or `rows` is "square", and the number of agents is a
            prime above 3.
    """

    rows: Annotated[int, Meta(ge=1)] | Literal["square"] = "square"

    kind: ClassVar[str] = "torus"
    line: ClassVar[str] = "ring"  # the name of the graph with one row
    title = titled("{0.kind}, {0.sides[0]} × {0.sides[1]}")

    def __post_init__(self) -> None:
        n, (rows, columns) = self.agents, self.sides
        if rows * columns != n:
            divisors = ", ".join(str(k) for k in range(1, n + 1) if n % k == 0)
            raise BadInput(f"topology.rows = {self.rows}: {n} agents do not fill {self.rows} rows; choose {divisors}")
        if self.rows == "square" and rows == 1 and n > 3:
            remedy = f"set topology.agents to {n - 1} or {n + 1}, or topology.rows=1, a {self.line}"
            raise BadInput(f"topology.rows = square: {n} agents, a prime number, cannot fill two rows: {remedy}")

    @property
    def sides(self) -> tuple[int, int]:
        """Return the number of rows and the number of columns."""
        n = self.agents
        rows = max(k for k in range(1, isqrt(n) + 1) if n % k == 0) if self.rows == "square" else self.rows
        return rows, n // rows

    def graph(self) -> Edges:
        """Return the edges of every round."""
        rows, columns = self.sides
        places = [divmod(j, columns) for j in range(self.agents)]
        across = {(j, r * columns + (c + 1) % columns) for j, (r, c) in enumerate(places)}
        down = {(j, (r + 1) % rows * columns + c) for j, (r, c) in enumerate(places)}
        return both_ways(frozenset((j, i) for j, i in across | down if j != i))
