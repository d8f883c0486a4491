"""Topologies in files: networkx node-link JSON.

The graph attribute `period` says after how many rounds the graph repeats, and an edge attribute `rounds` in which of
them (1..period) the edge is there; without it, in all.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, ClassVar

import msgspec
from msgspec import Meta, Struct, field

from mpinodes.core.errors import BadInput
from mpinodes.core.parts import Edges
from mpinodes.topology.base import Periodic, both_ways


@dataclass(frozen=True)
class FromFile(Periodic):
    """A graph read from a file, each phase as it stands there."""

    from_file: ClassVar[bool] = True

    path: str
    name: str
    given: tuple[Edges, ...]
    undirected: bool = False

    @property
    def title(self) -> str:
        """The file's own name for it."""
        return f"{self.name}, both ways" if self.undirected else self.name

    @property
    def source(self) -> str:
        """The file's path."""
        return self.path

    @cached_property
    def phases(self) -> tuple[Edges, ...]:
        """As given, or both ways."""
        return tuple(map(both_ways, self.given)) if self.undirected else self.given


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
        given = tuple(map(both_ways, given))
    return FromFile(agents, str(path), file.graph.name or path.stem, given, undirected)


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
