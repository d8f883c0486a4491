"""Who hears whom in round t: a pure function of t, alike on every rank.

Edge (j, i) means: j sends to i. A topology is a file of `topologies/` (or the user's own), or one of the
generated `KINDS`. Files are networkx node-link JSON: the graph attribute `period` says after how many rounds
the graph repeats, and an edge attribute `rounds` in which of them (1..period) the edge is there; without
it, in all.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import Meta, Struct, field

from mpinodes.errors import BadInput
from mpinodes.protocol import Round
from mpinodes.seeds import Purpose, Stream

Edges = frozenset[tuple[int, int]]
Neighbours = tuple[tuple[tuple[int, ...], ...], tuple[tuple[int, ...], ...]]  # inn, out, by agent

Agents = Annotated[int, Meta(ge=1, description="how many; under mpirun it must be the ranks less the logger")]


def _neighbours(agents: int, edges: Edges) -> Neighbours:
    inn: list[list[int]] = [[] for _ in range(agents)]
    out: list[list[int]] = [[] for _ in range(agents)]
    for j, i in sorted(edges):
        out[j].append(i)
        inn[i].append(j)
    return tuple(map(tuple, inn)), tuple(map(tuple, out))


def _both_ways(edges: Edges) -> Edges:
    return edges | {(i, j) for j, i in edges}


class Topology(ABC):
    """A possibly time-varying graph."""

    agents: int

    @property
    @abstractmethod
    def title(self) -> str:
        """What a person would call it."""

    @property
    @abstractmethod
    def period(self) -> int | None:
        """After how many rounds the graph repeats; None: never."""

    @abstractmethod
    def edges(self, t: int) -> Edges:
        """The edges of round t = 1, 2, ..."""

    @abstractmethod
    def _of(self, t: int) -> Neighbours:
        """Neighbours in round t, by agent."""

    def round(self, t: int, i: int) -> Round:
        """Agent i's place in round t."""
        inn, out = self._of(t)
        return Round(t, i, inn[i], out[i])


class Periodic(Topology):
    """One set of edges for each round of a period."""

    @property
    @abstractmethod
    def phases(self) -> tuple[Edges, ...]:
        """The edges by round of the period."""

    @property
    def period(self) -> int:
        """The number of phases."""
        return len(self.phases)

    def edges(self, t: int) -> Edges:
        """The edges of round t."""
        return self.phases[(t - 1) % len(self.phases)]

    @cached_property
    def _all(self) -> tuple[Neighbours, ...]:
        return tuple(_neighbours(self.agents, edges) for edges in self.phases)

    def _of(self, t: int) -> Neighbours:
        return self._all[(t - 1) % len(self._all)]


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
        return (onward if self.directed else _both_ways(onward),)


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


def _draw(agents: int, probability: float, rng: np.random.Generator) -> Edges:
    """An undirected Erdős–Rényi graph G(n, p)."""
    j, i = np.nonzero(np.triu(rng.random((agents, agents)) < probability, 1))
    return _both_ways(frozenset(zip(j.tolist(), i.tolist(), strict=True)))


@dataclass(frozen=True)
class ErdosRenyi(Periodic):
    """One connected G(n, p) for the whole run: drawn again from the seed until it is connected."""

    agents: Agents
    seed: int
    probability: Annotated[float, Meta(gt=0, le=1, description="of each edge")] = 0.5

    ATTEMPTS = 1000

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
        draws = Stream(self.seed, Purpose.TOPOLOGY)
        for attempt in range(self.ATTEMPTS):
            edges = _draw(self.agents, self.probability, draws.at(attempt))
            if unreached(self.agents, edges) is None:
                return (edges,)
        raise BadInput(
            f"topology.probability = {self.probability:g}: none of {self.ATTEMPTS} random graphs on "
            f"{self.agents} agents was connected; {np.log(self.agents) / self.agents:.2g} or more usually is"
        )


@dataclass(frozen=True)
class ErdosRenyiEachRound(Topology):
    """A new G(n, p) in every round, connected or not."""

    agents: Agents
    seed: int
    probability: Annotated[float, Meta(gt=0, le=1, description="of each edge in each round")] = 0.5

    @property
    def period(self) -> None:
        """It never repeats."""

    @property
    def title(self) -> str:
        """With its p."""
        return f"Erdős–Rényi graph drawn anew each round, p = {self.probability:g}"

    @cached_property
    def _draws(self) -> Stream:
        return Stream(self.seed, Purpose.TOPOLOGY)

    def edges(self, t: int) -> Edges:
        """The edges of round t."""
        return _draw(self.agents, self.probability, self._draws.at(t))

    def _of(self, t: int) -> Neighbours:
        return _neighbours(self.agents, self.edges(t))


KINDS: dict[str, type[Topology]] = {
    "ring": Ring,
    "complete": Complete,
    "erdos-renyi": ErdosRenyi,
    "erdos-renyi-each-round": ErdosRenyiEachRound,
}


@dataclass(frozen=True)
class FromFile(Periodic):
    """A graph read from a file, each phase as it stands there."""

    path: str
    agents: int
    name: str
    given: tuple[Edges, ...]
    undirected: bool = False

    @property
    def title(self) -> str:
        """The file's own name for it."""
        return f"{self.name}, both ways" if self.undirected else self.name

    @cached_property
    def phases(self) -> tuple[Edges, ...]:
        """As given, or both ways."""
        return tuple(map(_both_ways, self.given)) if self.undirected else self.given


def folder() -> Path:
    """Where the topologies that come with the package lie: inside it, or beside it in a checkout."""
    package = Path(__file__).parent
    inside = package / "topologies"
    return inside if inside.is_dir() else package.parent / "topologies"


def names() -> list[str]:
    """All values of `topology.name`."""
    return sorted([*KINDS, *(path.stem for path in folder().glob("*.json"))])


class _Node(Struct):
    id: int


class _Edge(Struct, forbid_unknown_fields=True):
    source: int
    target: int
    rounds: list[int] | None = None


class _Graph(Struct, forbid_unknown_fields=True):
    period: Annotated[int, Meta(ge=1, le=100_000)] = 1
    name: str | None = None
    description: str | None = None


class _File(Struct, forbid_unknown_fields=True):
    nodes: Annotated[list[_Node], Meta(min_length=1)]
    edges: list[_Edge]
    directed: bool = False
    multigraph: bool = False
    graph: _Graph = field(default_factory=_Graph)


def read(path: Path, undirected: bool = False) -> FromFile:
    """The topology in a node-link JSON file.

    Raises:
        BadInput: the file is missing or malformed; names file, and edge, agent and round where there is one.
    """
    try:
        file = msgspec.json.decode(path.read_bytes(), type=_File)
    except OSError as error:
        raise BadInput(f"{path}: cannot be read: {error.strerror}") from error
    except msgspec.ValidationError as error:
        raise BadInput(
            f"{path}: not networkx node-link JSON: {error}; wanted: "
            '{"directed": true, "graph": {"period": 1}, "nodes": [{"id": 0}, ...], '
            '"edges": [{"source": 0, "target": 1, "rounds": [1]}, ...]}'
        ) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadInput(f"{path}: not JSON: {error}") from error
    agents, period = len(file.nodes), file.graph.period
    if sorted(node.id for node in file.nodes) != list(range(agents)):
        raise BadInput(f"{path}: the ids of the {agents} nodes must be 0 to {agents - 1}")
    phases: list[set[tuple[int, int]]] = [set() for _ in range(period)]
    for edge in file.edges:
        for t in _rounds(path, edge, agents, period):
            phases[t - 1].add((edge.source, edge.target))
    given = tuple(map(frozenset, phases))
    if not file.directed:
        given = tuple(map(_both_ways, given))
    return FromFile(str(path), agents, file.graph.name or path.stem, given, undirected)


def _rounds(path: Path, edge: _Edge, agents: int, period: int) -> list[int]:
    """The rounds of the period in which a file's edge is there, once it is checked."""
    j, i = edge.source, edge.target
    rounds = list(range(1, period + 1)) if edge.rounds is None else edge.rounds
    if not {j, i} <= set(range(agents)):
        raise BadInput(f"{path}: edge {j} -> {i}: agents are numbered 0 to {agents - 1}")
    if not rounds or not set(rounds) <= set(range(1, period + 1)):
        raise BadInput(f"{path}: edge {j} -> {i}: rounds must be numbers from 1 to the period, {period}, not {rounds}")
    if j == i:
        raise BadInput(
            f"{path}: round {rounds[0]}: agent {i} has an edge to itself; leave it out, every agent always hears itself"
        )
    return rounds


def unreached(agents: int, edges: Edges) -> tuple[int, int] | None:
    """Agents (j, i) such that nothing said by j ever gets to i; None: strongly connected."""
    import networkx as nx

    graph: nx.DiGraph[Any] = nx.DiGraph()
    graph.add_nodes_from(range(agents))
    graph.add_edges_from(edges)
    for j in range(agents):
        if missing := set(range(agents)) - nx.descendants(graph, j) - {j}:
            return j, min(missing)
    return None


def connectivity(topology: Topology, rounds: int) -> int:
    """The least B such that the union of any B consecutive rounds is strongly connected.

    Where the graph never repeats: rounds 1..B, B + 1.., ... of its first rounds, each union strongly connected.

    Raises:
        BadInput: no B will do; names the graph, the rounds and two agents.
    """
    if topology.period is None:
        return _longest_wait(topology, min(rounds, LONGEST_CHECK))
    for b in range(1, topology.period + 1):
        starts = range(1, topology.period + 1)
        windows = (frozenset().union(*(topology.edges(s) for s in range(t, t + b))) for t in starts)
        if all(unreached(topology.agents, window) is None for window in windows):
            return b
    raise _unconnected(topology, topology.period)


LONGEST_CHECK = 2000  # rounds of a graph that never repeats


def _unconnected(topology: Topology, last: int) -> BadInput:
    edges: Edges = frozenset().union(*(topology.edges(t) for t in range(1, last + 1)))
    j, i = unreached(topology.agents, edges) or (0, 0)
    where = getattr(topology, "path", topology.title)
    return BadInput(
        f"{where}: not connected: in the union of rounds 1 to {last} nothing that agent {j} says "
        f"ever reaches agent {i}; add edges"
    )


def _longest_wait(topology: Topology, rounds: int) -> int:
    """Length of the longest run of rounds whose union, cut off as soon as it is connected, is connected."""
    longest, length, union = 0, 0, frozenset[tuple[int, int]]()
    for t in range(1, rounds + 1):
        union, length = union | topology.edges(t), length + 1
        if unreached(topology.agents, union) is None:
            longest, length, union = max(longest, length), 0, frozenset()
    if not longest:
        raise _unconnected(topology, rounds)
    return longest


def one_way_edge(topology: Topology, rounds: int) -> tuple[int, int, int] | None:
    """(t, j, i) such that j sends to i in round t but not i to j; None: undirected in every round."""
    for t in range(1, (topology.period or rounds) + 1):
        edges = topology.edges(t)
        for j, i in sorted(edges):
            if (i, j) not in edges:
                return t, j, i
    return None
