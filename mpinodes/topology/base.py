"""Provide base classes for topologies: graphs that repeat after a period, and graphs that are drawn at random.

- `Periodic`: a graph that repeats after a period of rounds.
- `Fixed`: a graph that is the same in every round, by the method `graph()`.
- `EachRound`: a graph that is drawn anew in every round, by the method `draw(rng)`.
- `Connected`: a fixed random graph, by the method `draw(rng)`. Graphs are drawn until a drawn graph is connected.

The fields of a topology class, except `seed`, are the keys `topology.<field>` of an experiment. To define a new
topology, write a module like this example, which defines a star graph::

    from dataclasses import dataclass

    from mpinodes.topology.base import Fixed, both_ways

    __all__ = ["Star"]

    @dataclass(frozen=True)
    class Star(Fixed):
        title = "star"

        def graph(self):
            return both_ways(frozenset((0, i) for i in range(1, self.agents)))
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from functools import cache, cached_property, lru_cache
from typing import Annotated, Any

import numpy as np
from msgspec import Meta

from mpinodes.core.errors import BadInput
from mpinodes.core.messages import Neighborhood
from mpinodes.core.parts import Edges, Matrix, Topology
from mpinodes.topology.facts import unreached

Neighbors = tuple[tuple[tuple[int, ...], ...], tuple[tuple[int, ...], ...]]  # in- and out-neighbors, by agent
ATTEMPTS = 20_000
PROBABILITY = "probability of each edge outside the ring, if there is a ring; small-world: of moving an end of an edge"
Probability = Annotated[float, Meta(ge=0, le=1, description=PROBABILITY)]
PositiveProbability = Annotated[float, Meta(gt=0, le=1, description=PROBABILITY)]


def as_edges(sends: Matrix) -> Edges:
    """Return the edges (j, i) of a graph with the adjacency matrix `sends`: all pairs whose entry [j, i] is true."""
    j, i = np.nonzero(sends)
    return frozenset(zip(j.tolist(), i.tolist(), strict=True))


def both_ways(edges: Edges) -> Edges:
    """Return the edges (j, i) together with the reverse edges (i, j)."""
    return edges | {(i, j) for j, i in edges}


def titled(template: str) -> Any:
    """Return a property for the attribute `title` of a topology class: a text with values of other attributes.

    Args:
        template: the text, in which {0.<attribute>} is replaced by the value of the attribute.
    """
    return property(lambda topology: template.format(topology))


class Periodic(Topology):
    """Define a graph that repeats after a period of rounds.

    Subclasses define `phases`: the edges of each round of the period.
    """

    @property
    @abstractmethod
    def phases(self) -> tuple[Edges, ...]:
        """Return the edges of each round of the period."""

    @property
    def period(self) -> int:
        """Return the number of rounds after which the graph repeats."""
        return len(self.phases)

    def edges(self, t: int) -> Edges:
        """Return the edges of round t."""
        return self.phases[(t - 1) % len(self.phases)]

    @cached_property
    def _neighbors(self) -> tuple[Neighbors, ...]:
        phases = []
        for edges in self.phases:
            inn: list[list[int]] = [[] for _ in range(self.agents)]
            out: list[list[int]] = [[] for _ in range(self.agents)]
            for j, i in sorted(edges):
                out[j].append(i)
                inn[i].append(j)
            phases.append((tuple(map(tuple, inn)), tuple(map(tuple, out))))
        return tuple(phases)

    def neighborhood(self, t: int, agent: int) -> Neighborhood:
        """Return the in-neighbors and out-neighbors of an agent in round t."""
        phases = self._neighbors
        inn, out = phases[(t - 1) % len(phases)]
        return Neighborhood(t, agent, inn[agent], out[agent])


class Fixed(Periodic):
    """Define a graph that is the same in every round. Subclasses define its edges by the method `graph`."""

    @abstractmethod
    def graph(self) -> Edges:
        """Return the edges of every round."""

    @cached_property
    def phases(self) -> tuple[Edges, ...]:
        """Return a tuple with one set of edges, because the period has one round."""
        return (self.graph(),)


class Connected(Fixed):
    """Define a random graph that stays the same in all rounds.

    Graphs are drawn from the seed until a strongly connected graph is drawn, at most `ATTEMPTS` graphs.
    """

    @abstractmethod
    def draw(self, rng: np.random.Generator) -> Matrix:
        """Draw one graph, which need not be connected, and return its adjacency matrix (n, n)."""

    @property
    @abstractmethod
    def too_sparse(self) -> tuple[str, str]:
        """Return two texts for the error message that is shown if no drawn graph is connected.

        The first text is the setting that makes graphs too sparse, such as "probability = 0.1". The second text says
        what the user can change.
        """

    def graph(self) -> Edges:
        """Return the edges of every round.

        Raises:
            BadInput: `ATTEMPTS` graphs were drawn, and none of them is strongly connected.
        """
        for attempt in range(ATTEMPTS):
            sends = self.draw(self.random_numbers.at(attempt))
            if unreached(sends) is None:
                return as_edges(sends)
        key, hint = self.too_sparse
        raise BadInput(f"topology.{key}: none of {ATTEMPTS} random graphs of {self.agents} agents is connected; {hint}")


class EachRound(Topology):
    """Define a random graph that is drawn anew in every round t, from the settings, the seed and t alone."""

    @abstractmethod
    def draw(self, rng: np.random.Generator) -> Matrix:
        """Draw the graph of one round, and return its adjacency matrix (n, n)."""

    @property
    def period(self) -> None:
        """Return None, because the graph does not repeat."""

    @cached_property
    def _latest(self) -> Callable[[int], Matrix]:
        # One round is cached, because all agents of a process ask for the same round one after another.
        @lru_cache(maxsize=1)
        def drawn(t: int) -> Matrix:
            sends = self.draw(self.random_numbers.at(t))
            sends.setflags(write=False)
            return sends

        return drawn

    def edges(self, t: int) -> Edges:
        """Return the edges of round t."""
        return as_edges(self.sends(t))

    def sends(self, t: int) -> Matrix:
        """Return the adjacency matrix (n, n) of round t: entry [j, i] says whether agent j sends to agent i."""
        return self._latest(t)

    def neighborhood(self, t: int, agent: int) -> Neighborhood:
        """Return the in-neighbors and out-neighbors of an agent in round t."""
        sends = self.sends(t)
        inn, out = sends[:, agent].nonzero()[0], sends[agent].nonzero()[0]
        return Neighborhood(t, agent, tuple(inn.tolist()), tuple(out.tolist()))


def erdos_renyi(agents: int, probability: float, rng: np.random.Generator) -> Matrix:
    """Draw an undirected Erdős–Rényi graph G(n, p), and return its adjacency matrix (n, n).

    Args:
        agents: n, the number of agents.
        probability: p, the probability of each edge.
        rng: draws the edges.
    """
    upper = (rng.random((agents, agents)) < probability) & _above_diagonal(agents)
    return upper | upper.T


@cache
def _above_diagonal(agents: int) -> Matrix:
    return np.triu(np.ones((agents, agents), dtype=bool), 1)  # cached, because np.triu takes most of the time of a draw


def hamiltonian_cycle(agents: int, rng: np.random.Generator) -> Matrix:
    """Draw a directed ring of all agents in random order, and return its adjacency matrix (n, n).

    If there is only one agent, the graph has no edge.
    """
    order = rng.permutation(agents)
    sends = np.zeros((agents, agents), dtype=bool)
    sends[order[:-1], order[1:]] = True
    sends[order[-1], order[0]] = agents > 1
    return sends


def random_digraph(agents: int, probability: float, rng: np.random.Generator) -> Matrix:
    """Draw a random digraph, and return its adjacency matrix (n, n).

    The graph has a directed ring of all agents in random order, so it is strongly connected. Every other edge (j, i), j
    ≠ i, is in the graph with the probability `probability`.
    """
    sends = hamiltonian_cycle(agents, rng) | (rng.random((agents, agents)) < probability)
    np.fill_diagonal(sends, False)
    return sends
