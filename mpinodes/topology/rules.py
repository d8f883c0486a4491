"""Graphs made from a rule, without chance."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import isqrt
from typing import Annotated, Literal

from msgspec import Meta

from mpinodes.core.errors import BadInput
from mpinodes.topology.base import Agents, Edges, Periodic, both_ways


@dataclass(frozen=True)
class Ring(Periodic):
    """0 - 1 - ... - (n − 1) - 0."""

    agents: Agents
    directed: Annotated[bool, Meta(description="let i hear only i − 1")] = False

    @property
    def title(self) -> str:
        """Ring, and which way it goes."""
        return "directed ring" if self.directed else "ring"

    @cached_property
    def phases(self) -> tuple[Edges, ...]:
        """One."""
        n = self.agents
        onward = frozenset((j, (j + 1) % n) for j in range(n) if n > 1)
        return (onward if self.directed else both_ways(onward),)


@dataclass(frozen=True)
class Complete(Periodic):
    """Everybody hears everybody."""

    agents: Agents

    @property
    def title(self) -> str:
        """Complete graph."""
        return "complete graph"

    @cached_property
    def phases(self) -> tuple[Edges, ...]:
        """One."""
        n = range(self.agents)
        return (frozenset((j, i) for j in n for i in n if i != j),)


@dataclass(frozen=True)
class Torus(Periodic):
    """A grid that wraps: agent j stands in row j // columns and hears the next in its row and column, either way.

    In a row or column of two, both ways lead to the same neighbour; in one of one, nowhere.

    Raises:
        BadInput: the agents do not fill the rows; or nothing but a ring would, and it was not asked for by rows=1.
    """

    agents: Agents
    rows: Annotated[
        Annotated[int, Meta(ge=1)] | Literal["square"],
        Meta(description="of the grid, a divisor of agents; square: as near to a square as they can fill"),
    ] = "square"

    def __post_init__(self) -> None:
        n, (rows, columns) = self.agents, self.sides
        divisors = [k for k in range(1, n + 1) if n % k == 0]
        if rows * columns != n:
            raise BadInput(
                f"topology.rows = {self.rows}: {n} agents do not fill it; choose from: {', '.join(map(str, divisors))}"
            )
        if self.rows == "square" and rows == 1 and n > 3:
            raise BadInput(
                f"topology.agents = {n}: {n} is prime, and fills no grid of two rows or more: take {n - 1} or {n + 1}, "
                "or topology.rows=1, a ring"
            )

    @property
    def sides(self) -> tuple[int, int]:
        """Rows and columns."""
        n = self.agents
        rows = max(k for k in range(1, isqrt(n) + 1) if n % k == 0) if self.rows == "square" else self.rows
        return rows, n // rows

    @property
    def title(self) -> str:
        """With its sides."""
        return "torus, {} × {}".format(*self.sides)

    @cached_property
    def phases(self) -> tuple[Edges, ...]:
        """One."""
        rows, columns = self.sides
        at = [divmod(j, columns) for j in range(self.agents)]
        across = {(j, r * columns + (c + 1) % columns) for j, (r, c) in enumerate(at)}
        down = {(j, (r + 1) % rows * columns + c) for j, (r, c) in enumerate(at)}
        return (both_ways(frozenset((j, i) for j, i in across | down if j != i)),)


@dataclass(frozen=True)
class Hypercube(Periodic):
    """Agents whose numbers differ in one binary digit hear each other.

    Raises:
        BadInput: the agents are not a power of two.
    """

    agents: Agents

    def __post_init__(self) -> None:
        if self.agents.bit_count() != 1:
            below = 1 << self.agents.bit_length() - 1
            raise BadInput(
                f"topology.agents = {self.agents}: a hypercube has a power of two of them; "
                f"the nearest are {below} and {2 * below}"
            )

    @property
    def title(self) -> str:
        """With its dimension."""
        return f"hypercube of dimension {self.agents.bit_length() - 1}"

    @cached_property
    def phases(self) -> tuple[Edges, ...]:
        """One."""
        bits = range(self.agents.bit_length() - 1)
        return (frozenset((j, j ^ 1 << k) for j in range(self.agents) for k in bits),)


@dataclass(frozen=True)
class Exponential(Periodic):
    """Agent j sends to j + 1, j + 2, j + 4, ... mod n: everybody hears as many as it sends to (Ying et al. 2021)."""

    agents: Agents
    one_peer: Annotated[bool, Meta(description="only one of these in each round: in turn +1, +2, +4, ...")] = False

    @property
    def title(self) -> str:
        """Exponential graph, and whether it is taken in turn."""
        return "one-peer exponential graph" if self.one_peer else "exponential graph"

    @cached_property
    def phases(self) -> tuple[Edges, ...]:
        """One; one-peer: ⌈log₂ n⌉, or one for n = 1."""
        n = self.agents
        hops = [frozenset((j, (j + (1 << k)) % n) for j in range(n)) for k in range((n - 1).bit_length())]
        return tuple(hops or [frozenset()]) if self.one_peer else (frozenset().union(*hops),)
