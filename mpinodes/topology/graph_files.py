"""Read topologies from files: networkx node-link JSON, GraphML, or a list of edges.

The format depends on the name and the first character of the file:

- JSON: the file's name ends with .json, or its first character is { or [.
- GraphML: the first character is <.
- List of edges: all other files.

JSON and GraphML state whether the graph is directed; without a statement, a JSON graph is undirected. These attributes
have a meaning, and all other attributes are ignored:

- `name`, of the graph: the title of the graph.
- `period`, of the graph: the number of rounds after which the graph repeats; the default is 1.
- `rounds`, of an edge: the rounds of the period (1..period) in which the edge exists; the default is every round.

If `period` or `rounds` is missing, an attribute with a similar name is rejected, because it may be misspelled.

A list of edges has a line `source target` for each edge: the source sends to the target, so the graph is directed.
After the two nodes, a line may have weights, which are nonzero numbers, or attributes as networkx writes them. A
comment begins with # at the start of a line or after a blank, or with % at the start of a line. A first line of column
names may say which columns are the source and the target. Without this line, a file is rejected if it could also be a
list of neighbors, or a matrix.

Names of nodes are whole numbers, texts or, in JSON, lists of these. If all names are whole numbers, agents are numbered
in the order of these numbers; otherwise in the order in which the file names the nodes.
"""

from __future__ import annotations

import ast
import csv
import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
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
_has_marks = re.compile(r"[*(=:;,|].*|.*[=:;,|]|.*[][{}<>].*").fullmatch  # words of other formats, as in `0 :1` or GML
# Column names in lists of edges: 0 for the source, 1 for the target.
HEADS = {"source": 0, "from": 0, "src": 0, "target": 1, "to": 1, "dst": 1}
_is_number = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?|nan|[+-]?inf", re.IGNORECASE).fullmatch
WANTED = (
    '{"directed": true, "graph": {"period": 1}, "nodes": [{"id": 0}, ...], '
    '"edges": [{"source": 0, "target": 1, "rounds": [1]}, ...]}'
)


@dataclass(frozen=True)
class FromFile(Periodic):
    """Hold a graph that was read from a file.

    Attributes:
        source: the path of the file.
        title: the name of the graph as the file states it, otherwise the name of the file without its ending. If the
            user asks for reverse edges, ", both ways" follows.
        phases: the edges of each round of the period.
        names: the name of each agent in the file; empty if the names are 0, 1, ...
    """

    from_file: ClassVar[bool] = True

    source: str = ""
    title: str = ""
    phases: tuple[Edges, ...] = ()
    names: tuple[str, ...] = ()


class _Edge(NamedTuple):
    source: Hashable
    target: Hashable
    attributes: Mapping[str, Any] = {}


class _Read(NamedTuple):
    """Hold what was read from a graph file of any format: nodes, edges, attributes, and whether edges are directed."""

    nodes: Sequence[Hashable]
    edges: Sequence[_Edge]
    directed: bool
    attributes: Mapping[str, Any] = {}


def read(path: Path, undirected: bool = False) -> FromFile:
    """Return the topology in a graph file.

    Args:
        path: the file.
        undirected: whether to add the reverse of every edge.

    Raises:
        BadInput: the file is missing or malformed; the message names the file and, if possible, the edge and round.
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
        raise BadInput(f"{path}: the file has no nodes")
    whole = [node for node in nodes if isinstance(node, int)]
    numbers = {node: k for k, node in enumerate(sorted(whole) if len(whole) == len(nodes) else nodes)}
    if len(numbers) < len(nodes):
        twice = next(node for node in nodes if nodes.count(node) > 1)
        raise BadInput(f"{path}: two nodes are called {twice!r}: give all nodes different names")
    _require_spelling(path, "the graph", attributes, "period")
    period = attributes.get("period", 1)
    if isinstance(period, bool) or not isinstance(period, int) or not 1 <= period <= MOST_ROUNDS:
        raise BadInput(f"{path}: period = {period!r}: expected a number of rounds, from 1 to {MOST_ROUNDS}")
    phases: list[set[tuple[int, int]]] = [set() for _ in range(period)]
    for edge in edges:
        for t in _rounds(path, edge, numbers, period):
            phases[t - 1].add((numbers[edge.source], numbers[edge.target]))
    title = str(attributes.get("name") or path.stem) + ", both ways" * undirected
    given = [frozenset(edges) if directed and not undirected else both_ways(frozenset(edges)) for edges in phases]
    names = () if all(name == k for name, k in numbers.items()) else tuple(map(str, numbers))
    return FromFile(len(numbers), str(path), title, tuple(given), names)


# -------------------------------------------------------------------------------------------------------- the formats
_Name = int | str | tuple[int | str, ...]  # networkx writes a tuple as a list


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
        raise BadInput(f"{path}: not networkx node-link JSON: {error}; expected: {WANTED}") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadInput(f"{path}: not JSON: {error}") from error
    named = [_Edge(e.source, e.target, all_) for e, all_ in zip(ends, edges, strict=True)]
    return _Read([node.id for node in file.nodes], named, file.directed, file.graph)


def _graphml(path: Path, data: bytes) -> _Read:
    import networkx as nx

    try:
        graph = nx.read_graphml(BytesIO(data))
    except Exception as error:  # any error of networkx means that the file is malformed
        raise BadInput(f"{path}: not GraphML: {type(error).__name__}: {error}") from error
    names = _whole_numbers(graph)
    edges = [_Edge(names[j], names[i], attributes) for j, i, attributes in graph.edges(data=True)]
    return _Read(list(names.values()), edges, graph.is_directed(), graph.graph)


class _Line(NamedTuple):
    """Hold one line of a list of edges.

    Attributes:
        place: the file and the line number, for error messages.
        words: the words of the line.
        attributes: the attributes that networkx writes in braces.
        quoted: the words that are in quotes in the file.
    """

    place: str
    words: list[str]
    attributes: Mapping[str, Any]
    quoted: Sequence[str] = ()

    def is_not(self, word: str, reason: str = "") -> BadInput:
        """Return an error which says that this line is not an edge, and names the word that is wrong.

        Args:
            word: the word.
            reason: text that is appended to the message.
        """
        return BadInput(f"{self.place}: expected an edge, such as `0 1` or `0,1`, but found {word[:40]!r}{reason}")


def _lines(path: Path, data: bytes) -> _Read:
    """Return the nodes and edges of a file that is a list of edges.

    Raises:
        BadInput: the file is not text, has no edge, or may be in another format, for example METIS; or a line is no
            edge. If a line is wrong, the message names the line and the word.
    """
    try:
        texts = data.decode("utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise BadInput(f"{path}: not a text file, and so no JSON, no GraphML and no list of edges") from error
    lines = [line for number, text in enumerate(texts, 1) if (line := _line(f"{path}: line {number}", text))]
    head = _head(lines) if lines else None
    edges = lines[1:] if head else lines
    if not edges:
        raise BadInput(f"{path}: the file has no edge")
    names, (j, i) = lines[0].words, head or (0, 1)
    for line in edges:
        if len(line.words) != len(names):
            word = [*line.words[len(names) :], line.words[-1]][0]
            raise line.is_not(word, f": this line has {len(line.words)} words, but the first line has {len(names)}")
        ends = line.words[j], line.words[i]
        for name in ends:
            # Punctuation at the ends of a name without quotes belongs to another format. `Lyon (FR)` is a name.
            has_marks = name not in line.quoted and (bool(_has_marks(name)) or name.count("(") != name.count(")"))
            is_fraction = _is_number(name) and not float(name).is_integer()
            is_several = " " in name and (any(map(_is_number, ends)) or all(map(_is_number, name.split())))
            if has_marks or is_fraction or not any(map(str.isalnum, name)) or (is_several and not head):
                raise line.is_not(name)
    if not head:
        # A METIS file begins with the numbers of nodes and edges. But the two lines `2 1` and `1 2` are two edges.
        first, *rest = (line.words[:2] for line in edges)
        nodes, pairs = {word for edge in rest for word in edge}, {frozenset(edge) for edge in rest}
        if len(rest) > 1 and first in [[str(len(nodes)), str(count)] for count in (len(rest), len(pairs))]:
            raise edges[0].is_not(first[0], ": this line may count nodes and edges: delete the line, or move it down")
        _require_weights(edges)
    node = _whole_numbers(line.words[end] for line in edges for end in (j, i))
    read = [
        _Edge(node[words[j]], node[words[i]], {**attributes, **(dict(zip(names, words, strict=True)) if head else {})})
        for _, words, attributes, _ in edges
    ]
    return _Read(list(dict.fromkeys(node.values())), read, directed=True)


def _line(place: str, text: str) -> _Line | None:
    """Return the words of a line in a list of edges, without comments; None if the line has no words.

    The line is split at commas, at tabs or at blanks.

    Raises:
        BadInput: the line has a single word, or malformed attributes.
    """
    text, brace, rest = text.partition("{")
    if comment := re.search(r"^\s*%|(^|\s)#", text):
        text, brace = text[: comment.start()], ""
    if not (text.strip() or brace):
        return None
    text, words = text.strip().removesuffix("," if brace else ""), [text + brace + rest]
    with suppress(Exception):  # any error of these readers means that the line is malformed
        attributes = dict(ast.literal_eval(f"{{{rest}")) if brace else {}
        for delimiter in (",", "\t", " "):
            read = [word.strip() for word in next(csv.reader([text], delimiter=delimiter, skipinitialspace=True))]
            if sum(map(bool, read)) > 1:
                words = [word for word in read if word or delimiter == ","]
                return _Line(place, words, attributes, re.findall(r'"([^"]*)"', text))
    raise _Line(place, words, {}).is_not(words[0])


def _head(lines: Sequence[_Line]) -> tuple[int, int] | None:
    """Return the indices of the columns source and target, if the first line has column names; otherwise None.

    Raises:
        BadInput: two columns have the same name; or the first line seems to have column names, but the column of the
            source or the column of the target is missing (`HEADS` lists the possible names).
    """
    line, *edges = lines
    places = {HEADS[word.lower()]: place for place, word in enumerate(line.words) if word.lower() in HEADS}
    if len(places) == 2:
        columns = [HEADS.get(word.lower(), word.lower()) for word in line.words]
        if again := [word for k, word in enumerate(line.words) if word and columns[k] in columns[:k]]:
            raise BadInput(f"{line.place}: column {again[0]!r}: another column has the same name or the same meaning")
        return places[0], places[1]
    numbers = [_is_number(word) for edge in edges for word in edge.words[:2]]
    if numbers and all(numbers) and not any(map(_is_number, line.words)):
        raise line.is_not(line.words[0], ": a line of column names must contain `source` and `target`")
    return None


def _require_weights(lines: Sequence[_Line]) -> None:
    """Reject a list of edges if a word after the first two words of a line may not be the weight of an edge.

    A word is rejected in these cases:

    - The word is not a number other than 0: a 0 in a matrix means that there is no edge.
    - The word is a whole number, and only some nodes have numbers as names, as in the line `e 1 2`.
    - The word is the name of a node, and the file may be a list of neighbors: each line has a node and its neighbors.

    Raises:
        BadInput: a word is rejected; the message names the first such word.
    """
    names, words = {word for line in lines for word in line.words[:2]}, {word for line in lines for word in line.words}
    # Some nodes are numbers and some are not, as in the DIMACS line `e 1 2`.
    mixed = 0 < sum(map(str.isdecimal, names)) < len(names)
    # A list of neighbors names no neighbor of a line twice, and has a line for each node.
    neighbours = all(len({*line.words[1:]}) == len(line.words) - 1 for line in lines)
    neighbours = neighbours and len(lines) in (len({line.words[0] for line in lines}), len(words))
    for line in lines:
        for word in line.words[2:]:
            node = (mixed and word.isdecimal()) or (neighbours and word in names)
            if node or (word and not (_is_number(word) and float(word))):
                raise line.is_not(word, " after an edge: name the columns in a first line: `source target weight`")


def _whole_numbers(names: Iterable[str]) -> dict[str, Hashable]:
    """Map each name to its node: a whole number if all names are whole numbers, otherwise the name itself.

    Whole numbers may be written as numpy or pandas write floats: 1.0 or 1e+00.
    """
    distinct = dict.fromkeys(names)
    if all(re.fullmatch(r"\d{1,18}(\.0*)?|\d\.\d*e\+\d\d", name) for name in distinct):
        return {name: int(name) if name.isdecimal() else int(float(name)) for name in distinct}
    return {name: name for name in distinct}


# --------------------------------------------------------------------------------------------------- edges by round
def _rounds(path: Path, edge: _Edge, numbers: Mapping[Hashable, int], period: int) -> Sequence[int]:
    """Return the rounds of one period in which an edge of the file exists.

    If the file states no rounds for the edge, the edge exists in all rounds. A JSON file states rounds as a list, a
    GraphML file as a text such as "1, 3".

    Raises:
        BadInput: a node of the edge is unknown; both ends are the same agent; the rounds are not in 1..`period`; or the
            name of the attribute `rounds` is misspelled.
    """
    where = f"edge {edge.source} -> {edge.target}"
    if missing := [end for end in edge[:2] if end not in numbers]:
        raise BadInput(f"{path}: {where}: {missing[0]!r} is none of the {len(numbers)} nodes of the file")
    _require_spelling(path, where, edge.attributes, "rounds")
    every: Sequence[int] = range(1, period + 1)
    rounds, stated = every, edge.attributes.get("rounds")
    if stated is not None:
        words = stated if isinstance(stated, list) else re.split(r"[\s,;]+", str(stated).strip("[] "))
        rounds = [int(str(word)) if str(word).isdecimal() else 0 for word in words]
        if not rounds or not set(rounds) <= set(every):
            raise BadInput(f"{path}: {where}: rounds = {stated}: expected numbers from 1 to {period}, the period")
    if edge.source == edge.target:
        loop = f"agent {numbers[edge.source]} has an edge to itself"
        raise BadInput(f"{path}: round {rounds[0]}: {loop}; remove this edge: every agent always mixes its own release")
    return rounds


def _require_spelling(path: Path, where: str, attributes: Mapping[str, Any], wanted: str) -> None:
    """Reject an attribute whose name is a misspelling of `wanted`, because unknown attributes are ignored.

    Args:
        path: the file, for the error message.
        where: the graph or the edge, for the error message.
        attributes: the attributes in the file.
        wanted: the name of the attribute that has a meaning.

    Raises:
        BadInput: the attribute `wanted` is missing, and another attribute has a similar name.
    """
    if wanted not in attributes and (near := get_close_matches(wanted, [*map(str, attributes)], 1, 0.8)):
        raise BadInput(f"{path}: {where}: {near[0]!r}: did you mean {wanted!r}?")
