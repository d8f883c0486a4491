"""Topologies in files: networkx node-link JSON, GraphML, or a list of edges, told apart by how they begin.

A graph attribute `period` says after how many rounds the graph repeats, and an edge attribute `rounds` in which of
them (1..period) the edge is there; without it, in all. A list of edges has a line for each, `source target`, and knows
no attributes: j sends to i, in all rounds. Other attributes, weights among them, are not looked at.

Nodes have any names. Where all are whole numbers, agents are numbered in their order, else as they come in the file.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple

import msgspec
from msgspec import Meta, Struct, field

from mpinodes.core.errors import BadInput
from mpinodes.core.parts import Edges
from mpinodes.topology.base import Periodic, both_ways

MOST_ROUNDS = 100_000  # of a period
BRACKETS = {*"[]{}<>"}  # of other formats, GML's among them
HEADS = {("source", "target"), ("from", "to")}  # of lists of edges
WANTED = (
    '{"directed": true, "graph": {"period": 1}, "nodes": [{"id": 0}, ...], '
    '"edges": [{"source": 0, "target": 1, "rounds": [1]}, ...]}'
)


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


class _Edge(NamedTuple):
    source: Hashable
    target: Hashable
    attributes: Mapping[str, Any] = {}


class _Read(NamedTuple):
    """What a file of any kind holds."""

    nodes: Sequence[Hashable]
    edges: Sequence[_Edge]
    directed: bool
    attributes: Mapping[str, Any] = {}


def read(path: Path, undirected: bool = False) -> FromFile:
    """The topology in a file.

    Raises:
        BadInput: the file is missing or malformed; names file, and edge, agent and round where there is one.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise BadInput(f"{path}: cannot be read: {error.strerror}") from error
    first = data.lstrip()[:1]
    if path.suffix == ".json" or first in (b"{", b"["):
        found = _json(path, data)
    else:
        found = _graphml(path, data) if first == b"<" else _lines(path, data)
    numbers = _numbered(path, found.nodes)
    period = _period(path, found.attributes)
    phases: list[set[tuple[int, int]]] = [set() for _ in range(period)]
    for edge in found.edges:
        for t in _rounds(path, edge, numbers, period):
            phases[t - 1].add((numbers[edge.source], numbers[edge.target]))
    given = tuple(map(frozenset, phases))
    if not found.directed:
        given = tuple(map(both_ways, given))
    name = found.attributes.get("name")
    return FromFile(len(numbers), str(path), name if isinstance(name, str) and name else path.stem, given, undirected)


# ---------------------------------------------------------------------------------------------------------- the kinds
_Name = int | str | list[int | str]  # networkx writes a tuple as a list


class _Node(Struct):
    id: _Name


class _File(Struct):
    nodes: Annotated[list[_Node], Meta(min_length=1)]
    edges: list[dict[str, Any]] | None = None
    links: list[dict[str, Any]] | None = None
    directed: bool = False
    graph: dict[str, Any] = field(default_factory=dict)


class _Ends(Struct):
    source: _Name
    target: _Name


def _json(path: Path, data: bytes) -> _Read:
    try:
        file = msgspec.json.decode(data, type=_File)
        edges = file.edges if file.links is None else file.links
        if edges is None or (file.edges is not None and file.links is not None):
            raise msgspec.ValidationError("expected either `edges` or `links`")
        ends = msgspec.convert(edges, list[_Ends])
    except msgspec.ValidationError as error:
        raise BadInput(f"{path}: not networkx node-link JSON: {error}; wanted: {WANTED}") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadInput(f"{path}: not JSON: {error}") from error
    named = [_Edge(_hashable(e.source), _hashable(e.target), all_) for e, all_ in zip(ends, edges, strict=True)]
    return _Read([_hashable(node.id) for node in file.nodes], named, file.directed, file.graph)


def _hashable(name: Any) -> Hashable:
    return tuple(name) if isinstance(name, list) else name


def _graphml(path: Path, data: bytes) -> _Read:
    import networkx as nx

    try:
        graph = nx.read_graphml(BytesIO(data))
    except Exception as error:  # whatever its reader meets, it is the file
        raise BadInput(f"{path}: not GraphML: {type(error).__name__}: {error}") from error
    names = dict(zip(graph, _whole_numbers(map(str, graph)), strict=True))
    edges = [_Edge(names[j], names[i], attributes) for j, i, attributes in graph.edges(data=True)]
    return _Read(list(names.values()), edges, graph.is_directed(), graph.graph)


def _lines(path: Path, data: bytes) -> _Read:
    try:
        lines = data.decode("utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise BadInput(f"{path}: neither node-link JSON, nor GraphML, nor a list of edges: not text") from error
    pairs: list[tuple[str, str]] = []
    for number, line in enumerate(lines, 1):
        words = [word.strip() for word in line.split(",")] if "," in line else line.split()
        if not words or line.lstrip()[0] in "#%":
            continue
        if len(words) < 2 or not all(words[:2]) or BRACKETS & {*words[0], *words[1]}:
            raise BadInput(f"{path}: line {number}: expected an edge, as `0 1` or `0,1`, and not {line.strip()[:40]!r}")
        if pairs or (words[0].lower(), words[1].lower()) not in HEADS:
            pairs.append((words[0], words[1]))
    names = dict.fromkeys(word for pair in pairs for word in pair)
    if not names:
        raise BadInput(f"{path}: empty: no edge in it")
    number_of = dict(zip(names, _whole_numbers(names), strict=True))
    return _Read(list(number_of.values()), [_Edge(number_of[j], number_of[i]) for j, i in pairs], directed=True)


def _whole_numbers(names: Iterable[str]) -> list[Hashable]:
    """Names that all are numbers, as numbers; else as they are."""
    kept = list(names)
    return [int(name) for name in kept] if all(re.fullmatch(r"\d{1,18}", name) for name in kept) else [*kept]


# ------------------------------------------------------------------------------------------------------- what they say
def _numbered(path: Path, nodes: Sequence[Hashable]) -> dict[Hashable, int]:
    """The agent that each node is."""
    whole = [node for node in nodes if isinstance(node, int)]
    in_order = sorted(whole) if len(whole) == len(nodes) else nodes
    numbers = {node: k for k, node in enumerate(in_order)}
    if len(numbers) < len(nodes):
        twice = next(node for node in nodes if nodes.count(node) > 1)
        raise BadInput(f"{path}: two nodes are called {twice!r}")
    return numbers


def _period(path: Path, attributes: Mapping[str, Any]) -> int:
    _spelt(path, "the graph", attributes, "period")
    period = attributes.get("period", 1)
    if isinstance(period, bool) or not isinstance(period, int) or not 1 <= period <= MOST_ROUNDS:
        raise BadInput(f"{path}: period = {period!r}: expected a number of rounds, from 1 to {MOST_ROUNDS}")
    return period


def _rounds(path: Path, edge: _Edge, numbers: Mapping[Hashable, int], period: int) -> Iterable[int]:
    """The rounds of the period in which a file's edge is there, once it is checked."""
    where = f"edge {edge.source} -> {edge.target}"
    if missing := [end for end in edge[:2] if end not in numbers]:
        raise BadInput(f"{path}: {where}: {missing[0]!r} is none of the {len(numbers)} nodes")
    _spelt(path, where, edge.attributes, "rounds")
    rounds = list(range(1, period + 1))
    if (said := edge.attributes.get("rounds")) is not None:
        rounds = list(_listed(said))
        if not rounds or not set(rounds) <= set(range(1, period + 1)):
            raise BadInput(f"{path}: {where}: rounds must be numbers from 1 to the period, {period}, not {said}")
    if edge.source == edge.target:
        raise BadInput(
            f"{path}: round {rounds[0]}: agent {numbers[edge.source]} has an edge to itself; leave it out, every agent "
            "always hears itself"
        )
    return rounds


def _listed(said: Any) -> Iterator[int]:
    """Rounds, as a list, or as in GraphML, which has none, by words: "1, 3"; 0 in the place of what is no number."""
    for one in said if isinstance(said, list) else re.split(r"[\s,;]+", str(said).strip("[] ")):
        yield one if isinstance(one, int) and not isinstance(one, bool) else int(one) if str(one).isdecimal() else 0


def _spelt(path: Path, where: str, attributes: Mapping[str, Any], wanted: str) -> None:
    """Refuse an attribute that is `wanted` but for a letter: the others are not looked at."""
    if wanted not in attributes and (near := get_close_matches(wanted, [*map(str, attributes)], 1, 0.8)):
        raise BadInput(f"{path}: {where}: {near[0]!r}: did you mean {wanted!r}?")
