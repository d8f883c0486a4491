"""Provide the base classes of topologies: graphs that repeat after a period, and randomly drawn graphs.

The fields of a generated topology, except `seed`, are the keys `topology.<field>` of an experiment. To define a new
topology, write a module like this example, which defines a star graph::

    from dataclasses import dataclass
    from functools import cached_property

    from mpinodes.topology.base import Periodic, both_ways

    __all__ = ["Star"]

    @dataclass(frozen=True)
    class Star(Periodic):
        title = "star"

        @cached_property
        def phases(self):
            return (both_ways(frozenset((0, i) for i in range(1, self.agents))),)

A graph that is drawn anew in every round extends `EachRound` and defines `draw(rng)` instead of `phases`. `Connected`
is for a random graph that stays the same for the whole run and may be drawn disconnected: `Connected` draws graphs
until a drawn graph is connected.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from functools import cache, cached_property, lru_cache
from typing import Any

import numpy as np

from mpinodes.core.errors import BadInput
from mpinodes.core.messages import Neighborhood
from mpinodes.core.parts import Edges, Matrix, Topology
from mpinodes.core.seeds import Draws, Purpose
from mpinodes.topology.facts import unreached

Neighbors = tuple[tuple[tuple[int, ...], ...], tuple[tuple[int, ...], ...]]  # in- and out-neighbors, by agent
ATTEMPTS = 20_000
PROBABILITY = "probability of each edge outside the ring, if there is a ring; small-world: of moving an end of an edge"


def as_matrix(agents: int, edges: Edges) -> Matrix:
    """Return edges as an (n, n) matrix, in which entry [j, i] says whether agent j sends to agent i."""
    sends = np.zeros((agents, agents), dtype=bool)
    if edges:
        sends[tuple(np.array(list(edges)).T)] = True
    return sends


def as_edges(sends: Matrix) -> Edges:
    """Return the edges (j, i) for which entry [j, i] of an (n, n) matrix is true."""
    j, i = np.nonzero(sends)
    return frozenset(zip(j.tolist(), i.tolist(), strict=True))


def both_ways(edges: Edges) -> Edges:
    """Return edges (j, i) together with the reverse edges (i, j)."""
    return edges | {(i, j) for j, i in edges}


def titled(template: str) -> Any:
    """Return a property for the attribute `title` of a topology: the template, filled with the topology's attributes.

    In the template, {0.<attribute>} is replaced by the value of the attribute.
    """
    return property(lambda topology: template.format(topology))


class Periodic(Topology):
    """Define a graph that repeats after a period of rounds. `phases` has the edges of each round of the period."""

    @property
    @abstractmethod
    def phases(self) -> tuple[Edges, ...]:
        """Return the edges of each round of the period."""

    @property
    def period(self) -> int:
        """Return the period, the number of rounds after which the graph repeats."""
        return len(self.phases)

    def edges(self, t: int) -> Edges:
        """Return the edges of round t."""
        return self.phases[(t - 1) % len(self.phases)]

    def sends(self, t: int) -> Matrix:
        """Return the edges of round t as an (n, n) matrix."""
        return as_matrix(self.agents, self.edges(t))

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


class Connected(Periodic):
    """Define a random graph that is the same in all rounds.

    At most `ATTEMPTS` graphs are drawn from the seed. The first strongly connected graph is used.
    """

    @abstractmethod
    def draw(self, rng: np.random.Generator) -> Matrix:
        """Draw one graph, connected or not, and return its adjacency matrix (n, n)."""

    @property
    @abstractmethod
    def too_sparse(self) -> tuple[str, str]:
        """Return two texts for the error message that is shown if no drawn graph is connected.

        The first text is "key = value" for the setting that makes graphs too sparse; the key has no prefix "topology.".
        The second text is a remedy.
        """

    @cached_property
    def phases(self) -> tuple[Edges, ...]:
        """Return a tuple with one set of edges, because the graph is the same in every round.

        Raises:
            BadInput: none of `ATTEMPTS` drawn graphs is strongly connected.
        """
        draws = Draws(self.seed, Purpose.TOPOLOGY)
        for attempt in range(ATTEMPTS):
            sends = self.draw(draws.at(attempt))
            if unreached(sends) is None:
                return (as_edges(sends),)
        key, hint = self.too_sparse
        raise BadInput(f"topology.{key}: none of {ATTEMPTS} random graphs of {self.agents} agents is connected; {hint}")


class EachRound(Topology):
    """Define a random graph that is drawn anew in every round t, as a pure function of the seed and t."""

    @abstractmethod
    def draw(self, rng: np.random.Generator) -> Matrix:
        """Draw the graph of one round, and return its adjacency matrix (n, n)."""

    @property
    def period(self) -> None:
        """Return None, because the graph has no period."""

    @cached_property
    def _latest(self) -> Callable[[int], Matrix]:
        draws = Draws(self.seed, Purpose.TOPOLOGY)

        # One round is cached, because all agents of a process ask for the same round one after another.
        @lru_cache(maxsize=1)
        def drawn(t: int) -> Matrix:
            sends = self.draw(draws.at(t))
            sends.setflags(write=False)
            return sends

        return drawn

    def edges(self, t: int) -> Edges:
        """Return the edges of round t."""
        return as_edges(self.sends(t))

    def sends(self, t: int) -> Matrix:
        """Return the edges of round t as an (n, n) matrix."""
        return self._latest(t)

    def neighborhood(self, t: int, agent: int) -> Neighborhood:
        """Return the in-neighbors and out-neighbors of an agent in round t."""
        sends = self.sends(t)
        inn, out = sends[:, agent].nonzero()[0], sends[agent].nonzero()[0]
        return Neighborhood(t, agent, tuple(inn.tolist()), tuple(out.tolist()))


def erdos_renyi(agents: int, probability: float, rng: np.random.Generator) -> Matrix:
    """Draw an undirected Erdős–Rényi graph G(n, p), and return its adjacency matrix (n, n)."""
    upper = (rng.random((agents, agents)) < probability) & _above_diagonal(agents)
    return upper | upper.T


@cache
def _above_diagonal(agents: int) -> Matrix:
    return np.triu(np.ones((agents, agents), dtype=bool), 1)  # cached, because np.triu takes most of the time of a draw


def hamiltonian_cycle(agents: int, rng: np.random.Generator) -> Matrix:
    """Draw a directed ring of all agents in random order, and return its adjacency matrix (n, n).

    A single agent has no edge.
    """
    order = rng.permutation(agents)
    sends = np.zeros((agents, agents), dtype=bool)
    sends[order[:-1], order[1:]] = True
    sends[order[-1], order[0]] = agents > 1
    return sends


def random_digraph(agents: int, probability: float, rng: np.random.Generator) -> Matrix:
    """Draw a random directed ring of all agents, and each other edge (j, i), j ≠ i, with `probability`.

    Return the adjacency matrix (n, n).
    """
    sends = hamiltonian_cycle(agents, rng) | (rng.random((agents, agents)) < probability)
    np.fill_diagonal(sends, False)
    return sends
