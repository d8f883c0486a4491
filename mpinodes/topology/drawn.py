"""Random graphs, one for the whole run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from math import log, pi, sqrt
from typing import Annotated

import numpy as np
from msgspec import Meta

from mpinodes.core.errors import BadInput
from mpinodes.core.seeds import Purpose, Draws
from mpinodes.topology.base import Agents, Edges, Matrix, Periodic, as_edges, as_matrix, both_ways
from mpinodes.topology.facts import unreached

ATTEMPTS = 20_000


def erdos_renyi(agents: int, probability: float, rng: np.random.Generator) -> Matrix:
    """An undirected Erdős–Rényi graph G(n, p)."""
    upper = np.triu(rng.random((agents, agents)) < probability, 1)
    return upper | upper.T


def hamiltonian_cycle(agents: int, rng: np.random.Generator) -> Matrix:
    """A directed ring of all agents in random order."""
    order = rng.permutation(agents)
    sends = np.zeros((agents, agents), dtype=bool)
    sends[order[:-1], order[1:]] = True
    sends[order[-1], order[0]] = agents > 1
    return sends


def random_digraph(agents: int, probability: float, rng: np.random.Generator) -> Matrix:
    """A Hamiltonian cycle, and each other edge with a probability."""
    sends = hamiltonian_cycle(agents, rng) | (rng.random((agents, agents)) < probability)
    np.fill_diagonal(sends, False)
    return sends


def _first_connected(
    agents: int, seed: int, draw: Callable[[np.random.Generator], Matrix], key: str, hint: str
) -> Edges:
    draws = Stream(seed, Purpose.TOPOLOGY)
    for attempt in range(ATTEMPTS):
        sends = draw(draws.at(attempt))
        if unreached(sends) is None:
            return as_edges(sends)
    raise BadInput(f"topology.{key}: none of {ATTEMPTS} random graphs on {agents} agents was connected; {hint}")


@dataclass(frozen=True)
class ErdosRenyi(Periodic):
    """One connected G(n, p) for the whole run: drawn again from the seed until it is connected."""

    agents: Agents
    seed: int
    probability: Annotated[
        float,
        Meta(gt=0, le=1, description="of each edge (small-world: of moving one end of each, and by default 0.1)"),
    ] = 0.5

    @property
    def title(self) -> str:
        """With its p."""
        return f"Erdős–Rényi graph, p = {self.probability:g}"

    @cached_property
    def phases(self) -> tuple[Edges, ...]:
        """One.

        Raises:
            BadInput: none of 1000 draws was connected.
        """
        n, p = self.agents, self.probability
        hint = f"{log(n) / n:.2g} or more usually is"
        return (_first_connected(n, self.seed, lambda rng: erdos_renyi(n, p, rng), f"probability = {p:g}", hint),)


@dataclass(frozen=True)
class Geometric(Periodic):
    """Agents at random places in the unit square, undirected; drawn again from the seed until it is connected."""

    agents: Agents
    seed: int
    radius: Annotated[
        float, Meta(gt=0, description="in the unit square; agents nearer to each other than this hear each other")
    ] = 0.5

    @property
    def title(self) -> str:
        """With its radius."""
        return f"random geometric graph, radius {self.radius:g}"

    @cached_property
    def phases(self) -> tuple[Edges, ...]:
        """One.

        Raises:
            BadInput: none of 1000 draws was connected.
        """
        n, r = self.agents, self.radius
        hint = f"{sqrt(log(n) / (pi * n)):.2g} or more usually is"
        return (_first_connected(n, self.seed, self.draw, f"radius = {r:g}", hint),)

    def draw(self, rng: np.random.Generator) -> Matrix:
        """One, connected or not."""
        x, y = rng.random((2, self.agents))
        near: Matrix = np.hypot(x - x[:, None], y - y[:, None]) < self.radius
        np.fill_diagonal(near, False)
        return near


@dataclass(frozen=True)
class SmallWorld(Periodic):
    """Watts and Strogatz's ring with some edges moved, undirected; drawn again from the seed until it is connected.

    Raises:
        BadInput: neighbours is odd, or there are not so many.
    """

    agents: Agents
    seed: int
    neighbours: Annotated[
        int, Meta(ge=2, description="of each on the ring before edges move: even, half on each side")
    ] = 4
    probability: Annotated[float, Meta(ge=0, le=1, description="of moving one end of each edge")] = 0.1

    def __post_init__(self) -> None:
        if self.neighbours % 2 or self.neighbours >= self.agents:
            raise BadInput(
                f"topology.neighbours = {self.neighbours}: must be even and less than the number of agents, "
                f"{self.agents}"
            )

    @property
    def title(self) -> str:
        """With its neighbours, k, and p."""
        return f"small world, k = {self.neighbours}, p = {self.probability:g}"

    @cached_property
    def phases(self) -> tuple[Edges, ...]:
        """One.

        Raises:
            BadInput: none of 1000 draws was connected.
        """
        hint = "more neighbours, or a lower topology.probability, would do"
        return (_first_connected(self.agents, self.seed, self.draw, f"neighbours = {self.neighbours}", hint),)

    def draw(self, rng: np.random.Generator) -> Matrix:
        """One, connected or not."""
        import networkx as nx

        graph = nx.watts_strogatz_graph(self.agents, self.neighbours, self.probability, seed=rng)
        return as_matrix(self.agents, both_ways(frozenset(graph.edges)))


@dataclass(frozen=True)
class BarabasiAlbert(Periodic):
    """A star that grows: each new agent is joined to some older ones, the likelier the more edges they have.

    Raises:
        BadInput: fewer agents than a new one is to be joined to.
    """

    agents: Agents
    seed: int
    attachments: Annotated[int, Meta(ge=1, description="edges that a new agent comes with")] = 2

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

        rng = Stream(self.seed, Purpose.TOPOLOGY).at(0)
        return (both_ways(frozenset(nx.barabasi_albert_graph(self.agents, self.attachments, seed=rng).edges)),)


@dataclass(frozen=True)
class RandomDigraph(Periodic):
    """One digraph for the whole run: a random directed ring of all agents, and random edges besides."""

    agents: Agents
    seed: int
    probability: Annotated[float, Meta(ge=0, le=1, description="of each edge that is not in the ring")] = 0.5

    @property
    def title(self) -> str:
        """With its p."""
        return f"random digraph, p = {self.probability:g}"

    @cached_property
    def phases(self) -> tuple[Edges, ...]:
        """One."""
        rng = Stream(self.seed, Purpose.TOPOLOGY).at(0)
        return (as_edges(random_digraph(self.agents, self.probability, rng)),)


@dataclass(frozen=True)
class BConnected(Periodic):
    """A random digraph, each of its edges there in one random round of the period only.

    So the union of any `period` consecutive rounds is strongly connected, and a single round usually is not.
    """

    agents: Agents
    seed: int
    probability: Annotated[float, Meta(ge=0, le=1, description="of each edge that is not in the ring")] = 0.5
    period: Annotated[int, Meta(ge=1, le=100_000, description="rounds that the edges are spread over")] = 4

    @property
    def title(self) -> str:
        """With its parameters."""
        return f"random digraph spread over {self.period} rounds, p = {self.probability:g}"

    @cached_property
    def phases(self) -> tuple[Edges, ...]:
        """As many as the period has."""
        n, rng = self.agents, Stream(self.seed, Purpose.TOPOLOGY).at(0)
        sends = random_digraph(n, self.probability, rng)
        phase = rng.integers(self.period, size=(n, n))
        return tuple(as_edges(sends & (phase == k)) for k in range(self.period))
