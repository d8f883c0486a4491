"""Read topologies from files: networkx node-link JSON, GraphML, or a list of edges; the text itself shows which.

The graph attribute `period` is the number of rounds after which the graph repeats. The edge attribute `rounds` lists
the rounds of the period, from 1, in which the edge exists; by default these are all rounds. Other attributes, such as
weights, are ignored.

A list of edges has a line `source target` for each edge: source sends to target. A first line of names says which
columns are source and target, in any order. Without such a line, names are letters, digits, `_` and `-`, and a third
word must be a weight with a decimal point. Anything that could be a list of neighbors or a matrix is rejected.

networkx reads GraphML only. It takes the first two words of any line for an edge, makes nodes of unknown ends, and
reports no line numbers. Every agent of a graph from a file would also wait 0.3 s for its import.

Nodes can have any names. If all names are whole numbers, agents are numbered in that order, else in the file's order.
"""

from __future__ import annotations

import ast
import csv
import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import msgspec
from msgspec import Struct, field

from mpinodes.core.asked import utf8
from mpinodes.core.errors import BadInput
from mpinodes.core.parts import Edges
from mpinodes.topology.base import Periodic, both_ways

MOST_ROUNDS = 100_000  # the longest period
HEADS = {"source": 0, "from": 0, "src": 0, "target": 1, "to": 1, "dst": 1}  # names of columns in lists of edges
_is_plain = re.compile(r"[^\W_][\w-]*").fullmatch
_is_number = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?|nan|[+-]?inf", re.IGNORECASE).fullmatch
WANTED = (
    '{"directed": true, "graph": {"period": 1}, "nodes": [{"id": 0}, ...], '
    '"edges": [{"source": 0, "target": 1, "rounds": [1]}, ...]}'
)


@dataclass(frozen=True)
class FromFile(Periodic):
    """Define a graph that was read from a file.

    Attributes:
        path: the path of the file.
        name: the name of the graph.
        given: the edges of each round of the period.
        undirected: whether to add the reverse of every edge.
    """

    from_file: ClassVar[bool] = True

    path: str
    name: str
    given: tuple[Edges, ...]
    undirected: bool = False

    @property
    def title(self) -> str:
        """Return the name that the file gives to the graph."""
        return f"{self.name}, both ways" if self.undirected else self.name

    @property
    def source(self) -> str:
        """Return the path of the file."""
        return self.path

    @cached_property
    def phases(self) -> tuple[Edges, ...]:
        """Return the edges of each round of the period."""
        return tuple(map(both_ways, self.given)) if self.undirected else self.given


class _Edge(NamedTuple):
    """Hold an edge of a file: the names of its ends, and its attributes."""

    source: Hashable
    target: Hashable
    attributes: Mapping[str, Any] = {}


class _Read(NamedTuple):
    """Hold what a reader finds in a file."""

    nodes: Sequence[Hashable]
    edges: Sequence[_Edge]
    directed: bool
    attributes: Mapping[str, Any] = {}


def read(path: Path, undirected: bool = False) -> FromFile:
    """Return the topology in a file.

    Args:
        path: the file.
        undirected: whether to add the reverse of every edge.

    Raises:
        BadInput: the file is missing or malformed; the message names the file and, if possible, edge, agent and round.
    """
    try:
        data = utf8(path.read_bytes())
    except OSError as error:
        raise BadInput(f"{path}: cannot be read: {error.strerror}") from error
    first = data.lstrip()[:1]
    is_json = path.suffix == ".json" or first in (b"{", b"[")
    reader = _json if is_json else _graphml if first == b"<" else _lines
    nodes, edges, directed, attributes = reader(path, data)
    if not nodes:
        raise BadInput(f"{path}: no nodes in it")
    numbers = _numbered(path, nodes)
    _require_spelling(path, "the graph", attributes, "period")
    period = attributes.get("period", 1)
    if isinstance(period, bool) or not isinstance(period, int) or not 1 <= period <= MOST_ROUNDS:
        raise BadInput(f"{path}: period = {period!r}: expected a number of rounds, from 1 to {MOST_ROUNDS}")
    phases: list[set[tuple[int, int]]] = [set() for _ in range(period)]
    for edge in edges:
        for t in _rounds(path, edge, numbers, period):
            phases[t - 1].add((numbers[edge.source], numbers[edge.target]))
    given = tuple(map(frozenset, phases))
    if not directed:
        given = tuple(map(both_ways, given))
    name = attributes.get("name")
    return FromFile(len(numbers), str(path), name if isinstance(name, str) and name else path.stem, given, undirected)


_Name = int | str | list[int | str]  # networkx writes a tuple as a list


class _Node(Struct):
    id: _Name


class _File(Struct):
    nodes: list[_Node]
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
    except Exception as error:  # its reader raises many types of errors about the file
        raise BadInput(f"{path}: not GraphML: {type(error).__name__}: {error}") from error
    names = _whole_numbers(graph)
    edges = [_Edge(names[j], names[i], attributes) for j, i, attributes in graph.edges(data=True)]
    return _Read(list(names.values()), edges, graph.is_directed(), graph.graph)


class _Line(NamedTuple):
    """Hold a line of a list of edges: where it is, its words, and the attributes that networkx writes in braces."""

    place: str
    words: list[str]
    attributes: Mapping[str, Any]

    def is_not(self, word: str, why: str = "") -> BadInput:
        """Return the error about a word that does not belong to an edge."""
        return BadInput(f"{self.place}: expected an edge, as `0 1` or `0,1`, and not {word[:40]!r}{why}")


def _lines(path: Path, data: bytes) -> _Read:
    """Read a list of edges.

    Raises:
        BadInput: a line is not an edge; the message names the line and the word.
    """
    try:
        texts = data.decode("utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise BadInput(f"{path}: neither node-link JSON, nor GraphML, nor a list of edges: not text") from error
    lines = [line for number, text in enumerate(texts, 1) if (line := _line(f"{path}: line {number}", text))]
    head = _head(lines) if lines else None
    edges = lines[1:] if head else lines
    if not edges:
        raise BadInput(f"{path}: empty: no edge in it")
    names, (j, i) = lines[0].words, head or (0, 1)
    for line in edges:
        if len(line.words) != len(names):
            word = [*line.words[len(names) :], line.words[-1]][0]
            raise line.is_not(word, f": {len(line.words)} words, but {len(names)} in the first line")
        for word in (line.words[j], line.words[i]):
            is_name = float(word).is_integer() if _is_number(word) else bool(word if head else _is_plain(word))
            if not is_name:
                raise line.is_not(word)
    if not head:
        _require_pairs(edges)
    node = _whole_numbers(line.words[end] for line in edges for end in (j, i))
    columns = [dict(zip(names, line.words, strict=True)) if head else {} for line in edges]
    pairs = [(node[line.words[j]], node[line.words[i]]) for line in edges]
    read = [_Edge(*pair, {**line.attributes, **c}) for pair, line, c in zip(pairs, edges, columns, strict=True)]
    return _Read(list(dict.fromkeys(node.values())), read, directed=True)


def _line(place: str, text: str) -> _Line | None:
    """Return the words of a line, between commas, else tabs, else blanks; None for an empty line.

    Raises:
        BadInput: the line has a single word, or cannot be read.
    """
    text, brace, rest = text.partition("{")
    if comment := re.search(r"^\s*%|(^|\s)#", text):
        text, brace = text[: comment.start()], ""
    if not (text.strip() or brace):
        return None
    text, words = text.strip().removesuffix("," if brace else ""), [text + brace + rest]
    with suppress(Exception):  # these readers raise many types of errors about text
        attributes = dict(ast.literal_eval(f"{{{rest}")) if brace else {}
        for delimiter in (",", "\t", " "):
            read = [word.strip() for word in next(csv.reader([text], delimiter=delimiter, skipinitialspace=True))]
            if sum(map(bool, read)) > 1:
                return _Line(place, [word for word in read if word or delimiter == ","], attributes)
    raise _Line(place, words, {}).is_not(words[0])


def _head(lines: Sequence[_Line]) -> tuple[int, int] | None:
    """Return the columns of source and target if the first line has names of columns; else None.

    Raises:
        BadInput: two columns have the same name, or the line names columns but not source and target.
    """
    line, *edges = lines
    places = {HEADS[word.lower()]: place for place, word in enumerate(line.words) if word.lower() in HEADS}
    if len(places) == 2:
        columns = [HEADS.get(word.lower(), word.lower()) for word in line.words]
        if again := [word for k, word in enumerate(line.words) if word and columns[k] in columns[:k]]:
            raise BadInput(f"{line.place}: {again[0]!r}: an earlier column has that name, or means that end of an edge")
        return places[0], places[1]
    numbers = [_is_number(word) for edge in edges for word in edge.words[:2]]
    if numbers and all(numbers) and not any(map(_is_number, line.words)):
        raise line.is_not(line.words[0], ": a line of names has `source` and `target` in it")
    return None


def _require_pairs(lines: Sequence[_Line]) -> None:
    """Require that lines without names of columns are edges, and not counts, neighbors or a row of a matrix.

    A third word must be a weight with a decimal point, as networkx writes it: a whole number could be a neighbor.

    Raises:
        BadInput: the message names the first word that could be something else.
    """
    for line in lines:
        ends, others = line.words[:2], line.words[2:]
        is_weight = len(others) == 1 and _is_number(others[0]) and "." in others[0] and float(others[0]) != 0
        if others and not (is_weight and "." not in "".join(ends)):
            raise line.is_not(others[0], " too: a first line, as `source target weight`, says what a third word is")
    first, *rest = (line.words[:2] for line in lines)
    nodes, pairs = {word for edge in rest for word in edge}, {frozenset(edge) for edge in rest}
    if len(rest) > 1 and first in [[str(len(nodes)), str(count)] for count in (len(rest), len(pairs))]:
        raise lines[0].is_not(first[0], ": the line may count nodes and edges below it: delete it, or move it down")


def _whole_numbers(names: Iterable[str]) -> dict[str, Hashable]:
    """Return each name's number, if all names are whole numbers in a format of numpy or pandas; else the names."""
    distinct = dict.fromkeys(names)
    if all(re.fullmatch(r"\d{1,18}(\.0*)?|\d\.\d*e\+\d\d", name) for name in distinct):
        return {name: int(name) if name.isdecimal() else int(float(name)) for name in distinct}
    return {name: name for name in distinct}


def _numbered(path: Path, nodes: Sequence[Hashable]) -> dict[Hashable, int]:
    """Return the number of the agent that each node stands for.

    Raises:
        BadInput: two nodes have the same name.
    """
    whole = [node for node in nodes if isinstance(node, int)]
    in_order = sorted(whole) if len(whole) == len(nodes) else nodes
    numbers = {node: k for k, node in enumerate(in_order)}
    if len(numbers) < len(nodes):
        twice = next(node for node in nodes if nodes.count(node) > 1)
        raise BadInput(f"{path}: two nodes are called {twice!r}")
    return numbers


def _rounds(path: Path, edge: _Edge, numbers: Mapping[Hashable, int], period: int) -> Sequence[int]:
    """Return the rounds of the period in which an edge exists.

    GraphML has no lists; its rounds are text, as in "1, 3".

    Raises:
        BadInput: an end of the edge is not a node, or is the other end, or the rounds are not in the period.
    """
    where = f"edge {edge.source} -> {edge.target}"
    if missing := [end for end in edge[:2] if end not in numbers]:
        raise BadInput(f"{path}: {where}: {missing[0]!r} is none of the {len(numbers)} nodes")
    _require_spelling(path, where, edge.attributes, "rounds")
    rounds: Sequence[int] = range(1, period + 1)
    stated = edge.attributes.get("rounds")
    if stated is not None:
        words = stated if isinstance(stated, list) else re.split(r"[\s,;]+", str(stated).strip("[] "))
        rounds = [int(str(word)) if str(word).isdecimal() else 0 for word in words]
        if not rounds or not all(1 <= t <= period for t in rounds):
            raise BadInput(f"{path}: {where}: rounds must be numbers from 1 to the period, {period}, not {stated}")
    if edge.source == edge.target:
        raise BadInput(
            f"{path}: round {rounds[0]}: agent {numbers[edge.source]} has an edge to itself; leave it out, every agent "
            "always hears itself"
        )
    return rounds


def _require_spelling(path: Path, where: str, attributes: Mapping[str, Any], wanted: str) -> None:
    """Reject an attribute whose name is nearly `wanted`, because other attributes are ignored.

    Raises:
        BadInput: the message has both names.
    """
    if wanted not in attributes and (near := get_close_matches(wanted, [*map(str, attributes)], 1, 0.8)):
        raise BadInput(f"{path}: {where}: {near[0]!r}: did you mean {wanted!r}?")
