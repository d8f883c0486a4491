"""Graphs: files and their errors, generated kinds, connectivity."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import textwrap
from collections import Counter
from math import ceil, log2

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mpinodes.config import registry
from mpinodes.config.compose import compose
from mpinodes.core.errors import BadInput
from mpinodes.topology import base, facts, stored
from mpinodes.topology import graph_files as files
from mpinodes.topology.b_connected import BConnected
from mpinodes.topology.barabasi_albert import BarabasiAlbert
from mpinodes.topology.complete import Complete
from mpinodes.topology.erdos_renyi import ErdosRenyi
from mpinodes.topology.erdos_renyi_each_round import ErdosRenyiEachRound
from mpinodes.topology.eulerian import Eulerian
from mpinodes.topology.exponential import Exponential
from mpinodes.topology.facts import LONGEST_CHECK
from mpinodes.topology.geometric import Geometric
from mpinodes.topology.grid import Grid
from mpinodes.topology.hypercube import Hypercube
from mpinodes.topology.matchings import Matchings
from mpinodes.topology.random_digraph import RandomDigraph
from mpinodes.topology.random_digraph_each_round import RandomDigraphEachRound
from mpinodes.topology.ring import Ring
from mpinodes.topology.small_world import SmallWorld
from mpinodes.topology.torus import Torus
from scripts import write_topology

KINDS = {name: registry.find(registry.TOPOLOGIES, name) for name in registry.names(registry.TOPOLOGIES)}
SEVEN = stored.folder() / "seven-agent-digraph.json"


def union(graph: base.Topology, rounds: range) -> nx.DiGraph:
    digraph = nx.DiGraph()
    digraph.add_nodes_from(range(graph.agents))
    for t in rounds:
        digraph.add_edges_from(graph.edges(t))
    return digraph


def test_the_seven_agent_digraph_is_connected_over_any_four_rounds_and_in_no_single_one():
    graph = files.read(SEVEN)
    assert (graph.agents, graph.period) == (7, 4)
    for start in range(1, 9):
        assert nx.is_strongly_connected(union(graph, range(start, start + 4)))
        assert not nx.is_strongly_connected(union(graph, range(start, start + 1)))
    assert facts.connectivity(graph, 100) == 4


def test_its_undirected_form_goes_both_ways():
    graph = files.read(SEVEN, undirected=True)
    for t in range(1, 5):
        assert graph.edges(t) == {e for j, i in files.read(SEVEN).edges(t) for e in ((j, i), (i, j))}
    assert facts.one_way_edge(graph, 100) is None
    assert facts.one_way_edge(files.read(SEVEN), 100) is not None


def test_networkx_reads_the_files():
    for path in stored.folder().glob("*.json"):
        graph = nx.node_link_graph(json.loads(path.read_text()), edges="edges")
        assert nx.is_strongly_connected(graph)
        assert graph.number_of_nodes() == files.read(path).agents


def test_neighbours_are_the_edges_seen_from_an_agent():
    graph = files.read(SEVEN)
    for t in range(1, 9):
        seen = {(j, i) for i in range(7) for j in graph.neighborhood(t, i).in_neighbors}
        said = {(j, i) for j in range(7) for i in graph.neighborhood(t, j).out_neighbors}
        assert seen == said == graph.edges(t)
        for i in range(7):
            place = graph.neighborhood(t, i)
            assert list(place.in_neighbors) == sorted(place.in_neighbors)
            assert i not in place.in_neighbors + place.out_neighbors
            assert place.senders == tuple(sorted((*place.in_neighbors, i)))


@pytest.mark.parametrize(
    ("kind", "edges"),
    [
        (Ring(5), 10),
        (Ring(5, directed=True), 5),
        (Ring(2), 2),
        (Complete(5), 20),
        (Complete(1), 0),
    ],
)
def test_generated_graphs(kind, edges):
    assert len(kind.edges(1)) == edges
    assert facts.connectivity(kind, 10) == 1


def test_a_random_graph_is_connected_and_comes_from_the_seed():
    one, same, other = (ErdosRenyi(12, 0.25, seed=seed) for seed in (1, 1, 2))
    assert one.edges(1) == same.edges(5)
    assert one.edges(1) != other.edges(1)
    assert facts.connectivity(one, 10) == 1
    assert facts.one_way_edge(one, 10) is None


def test_a_random_graph_that_is_never_connected_is_an_error():
    with pytest.raises(BadInput, match=r"topology.probability = 0.001: none of 20000 random graphs"):
        ErdosRenyi(30, 0.001, seed=1).edges(1)


def test_graphs_drawn_each_round_have_the_stated_density_and_are_random_access():
    graph = ErdosRenyiEachRound(10, 0.3, seed=3)
    counts = [len(graph.edges(t)) / 2 for t in range(1, 1001)]
    assert np.mean(counts) == pytest.approx(45 * 0.3, abs=4 * np.sqrt(45 * 0.3 * 0.7 / 1000))
    assert graph.edges(7) == ErdosRenyiEachRound(10, 0.3, seed=3).edges(7)
    assert facts.connectivity(graph, 1000) > 1


def written(tmp_path, **changes):
    graph = {
        "directed": True,
        "graph": {"period": 2},
        "nodes": [{"id": i} for i in range(3)],
        "edges": [{"source": i, "target": (i + 1) % 3, "rounds": [1 + i % 2]} for i in range(3)],
    } | changes
    path = tmp_path / "graph.json"
    path.write_text(json.dumps(graph))
    return path


def test_a_file_of_ones_own(tmp_path):
    graph = files.read(written(tmp_path))
    assert graph.edges(1) == {(0, 1), (2, 0)}
    assert graph.edges(2) == graph.edges(4) == {(1, 2)}
    assert facts.connectivity(graph, 10) == 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"edges": [{"source": 1, "target": 1, "rounds": [2]}]}, r"graph.json: round 2: agent 1 has an edge to itself"),
        ({"edges": [{"source": 0, "target": 3}]}, r"graph.json: edge 0 -> 3: 3 is none of the 3 nodes"),
        (
            {"edges": [{"source": True, "target": 2.0}]},
            r"Expected `int \| str \| array`, got `bool` - at `\$\[0\].source`",
        ),
        (
            {"edges": [{"source": 0, "target": 1, "rounds": [3]}]},
            r"rounds = \[3\]: expected numbers from 1 to 2, the period",
        ),
        ({"edges": [{"source": 0, "target": 1, "rounds": []}]}, r"edge 0 -> 1: rounds = \[\]: expected numbers from 1"),
        ({"edges": [{"source": 0}]}, r"not networkx node-link JSON"),
        ({"edges": 3}, r"not networkx node-link JSON"),
        ({"links": []}, r"expected either `edges` or `links`"),
        ({"edges": [{"source": 0, "target": 1, "round": [1]}]}, r"edge 0 -> 1: 'round': did you mean 'rounds'"),
        ({"graph": {"perod": 3}}, r"the graph: 'perod': did you mean 'period'"),
        ({"nodes": [{"id": 1}, {"id": 2}, {"id": 1}]}, r"two nodes are called 1"),
        ({"nodes": []}, r"the file has no nodes"),
        ({"graph": {"period": 0}}, r"period = 0: expected a number of rounds"),
        ({"graph": {"period": "x"}}, r"period = 'x': expected a number of rounds"),
    ],
)
def test_a_malformed_file_says_where(tmp_path, changes, message):
    with pytest.raises(BadInput, match=message):
        files.read(written(tmp_path, **changes))


RELABELLED = {k: name for k, name in enumerate(["ann", "bob", "cy", "di", "eve"])}


@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("names", [{}, {k: k + 1 for k in range(5)}, RELABELLED, {k: (0, k) for k in range(5)}])
@pytest.mark.parametrize("key", ["edges", "links"])
def test_what_networkx_writes_is_read_whatever_its_nodes_are_called(tmp_path, directed, names, key):
    ring = nx.cycle_graph(5, create_using=nx.DiGraph if directed else nx.Graph)
    nx.set_edge_attributes(ring, 0.5, "weight")
    nx.set_node_attributes(ring, "red", "color")
    ring.graph["note"] = "five"
    graph = nx.relabel_nodes(ring, names) if names else ring
    (tmp_path / "g.json").write_text(json.dumps(nx.node_link_data(graph, edges=key)))
    read = files.read(tmp_path / "g.json")
    assert read.edges(1) == set(ring.to_directed().edges)
    assert read.names == tuple(str(names[k]) for k in sorted(names))
    if not any(isinstance(name, tuple) for name in names.values()):
        nx.write_graphml(graph, tmp_path / "g.graphml")
        assert files.read(tmp_path / "g.graphml").edges(1) == set(ring.to_directed().edges)


@pytest.mark.parametrize(
    "text",
    [
        "0 1\n1 2\n2 0\n", "# a graph\n1 2 {}\n\n2 3 {'weight': 3}\n3 1\n", "ann,bob\nbob,cy d\ncy d,ann",
        "source,target,weight\r\n10,11,0.5\r\n11,12,0.5\r\n12,10,0.5\r\n", "% KONECT\n1\t2\n2\t3\n3\t1\n",
    ],
)  # fmt: skip
def test_a_list_of_edges_is_a_digraph(tmp_path, text):
    path = tmp_path / "graph.csv"
    path.write_text(text)
    assert files.read(path).edges(1) == {(0, 1), (1, 2), (2, 0)}
    assert files.read(path, undirected=True).edges(1) == Ring(3).edges(1)


def looped(*neighbours):
    return "".join(f"{k} {' '.join(map(str, row))}\n" for k, row in enumerate(neighbours))


@pytest.mark.parametrize("undirected", [False, True])
@pytest.mark.parametrize(
    ("text", "line", "word"),
    [
        (looped((1, 3), (2, 4), (3, 5), (4, 6), (5, 0), (6, 1), (0, 2)), 1, "3"),  # lists of neighbours
        (looped((1, 3), (2, 4), (3, 5), (4, 6), (5, 0), (6, 1), (0, 2)).replace(" ", ","), 1, "3"),
        (looped((1, 2), (0,), (0,)), 2, "0"), (looped((1,), (2, 0), (0,)), 2, "0"), ("0: 1 2\n1: 2 0\n", 1, "0:"),
        ("ann bob cy\nbob cy ann\ncy ann bob\n", 1, "cy"), ("0 1 2 3\n1\n2\n3\n", 2, "1"),
        ("1 2 3\n0 2 3\n0 1 3\n0 1 2\n", 4, "2"), ("0\t1 2\n1\t0 2\n", 1, "1 2"),
        ("#script\n# GMT\n# \n0 1 3\n1 2 0\n2 3 1\n3 0 2\n", 4, "3"),
        ("0 1 0 1\n1 0 1 0\n0 1 0 1\n1 0 1 0\n", 1, "0"), ("0,1,0,1\n1,0,1,0\n0,1,0,1\n1,0,1,0\n", 1, "0"),  # matrices
        ("0 2 3\n2 0 1\n3 1 0\n", 1, "3"), ("1 -1 0\n-1 2 -1\n0 -1 1\n", 1, "0"),
        ("0,1,2\n0.0,1.0,1.0\n1.0,0.0,1.0\n1.0,1.0,0.0\n", 1, "2"),
        ("1 to 0\n0 to 1\n", 1, "0"), ("a 1 2 2\na 2 1 1\n", 1, "2"),
        ("0.5 0.25 0.25\n0.25 0.5 0.25\n0.25 0.25 0.5\n", 1, "0.5"),
        ("0.0,1.0,1.0\n1.0,0.0,1.0\n1.0,1.0,0.0\n", 3, "0.0"), (",0,1,2\n0,0,1,1\n1,1,0,1\n2,1,1,0\n", 1, ""),
        ("0 - 1\n1 - 2\n2 - 0\n", 1, "-"), ("0 -- 1\n1 -- 2\n2 -- 0\n", 1, "--"), ("0 -> 1\n1 -> 0\n", 1, "->"),
        ("0 \u2192 1\n1 \u2192 2\n", 1, "\u2192"), ("0 : 1\n1 : 0\n", 1, ":"), ("0,-,1\n1,-,0\n", 1, "-"),  # signs
        ("0 1, 0.5\n1 2, 0.5\n2 0, 0.5\n", 1, "0 1"), ("0 1, 5\n1 2, 5\n2 0, 5\n", 1, "0 1"),  # weights
        ("ann bob, 2\nbob ann, 2\n", 1, "ann bob"), ("0; 1\n1; 2\n2; 0\n", 1, "0;"), ("0;1\n1;0\n", 1, "0;1"),
        ("0.5,0,1\n0.5,1,0\n", 1, "0.5"), ("0 1\n1 2 0.5\n2 0\n", 2, "0.5"), ("0 1 red\n1 0 red\n", 1, "red"),
        ("0,1\n1,nan\nnan,0\n", 2, "nan"), ("0,1\n1,\n", 2, "1,"), ("u,v\n0,1\n1,0\n", 1, "u"),
        ("target,x\n0,1\n1,0\n", 1, "target"), ("e 1 2\ne 2 3\ne 3 1\n", 1, "2"),
        ("*Vertices 2\n1 2\n", 1, "*Vertices"),
        ("(0, 1)\n(1, 2)\n(2, 0)\n", 1, "(0"), ("(0,1)\n(1,2)\n(2,0)\n", 1, "(0"), ("(0 1)\n(1 0)\n", 1, "(0"),  # marks
        ("0 :1\n1 :0\n", 1, ":1"), ("0= 1\n1= 0\n", 1, "0="), ("0 =1\n1 =0\n", 1, "=1"), ("0 ;1\n1 ;0\n", 1, ";1"),
        ("0 |1\n1 |0\n", 1, "|1"), ("Edge(0, 1)\nEdge(1, 0)\n", 1, "Edge(0"), ("x\t(0,\ny\t(1,\n", 1, "(0,"),
        ("(0, 0) 2\n(1, 0) 1\n", 1, "(0"), ("(a) (b)\n(b) (a)\n", 1, "(a)"), ("1 {0}\n{0} 1\n", 1, "1 {0}"),
        ('"a" (b\n(b "a"\n', 1, "(b"),
        ("1 2 0\n2 3 0\n3 1 0\n", 1, "0"), ("0 1 0.0\n1 2 3\n2 0 3\n", 1, "0.0"),  # a hub's list, or no weight
        ("graph G {\n0 -- 1;\n}\n", 1, "graph G {"), ("0 1 {'weight'}\n1 0 {}\n", 1, "0 1 {'weight'}"),
        ("Wei\u00dfer Turm Lorenz\nLorenz Pl\u00e4rrer\n", 2, "Pl\u00e4rrer"),
        ("Lorenz Pl\u00e4rrer\nWei\u00dfer Turm Lorenz\n", 2, "Lorenz"),
    ],
)  # fmt: skip
def test_what_is_no_list_of_edges_or_could_be_two_is_refused_with_line_and_word(tmp_path, text, line, word, undirected):
    (tmp_path / "g.txt").write_text(text)
    with pytest.raises(BadInput) as caught:
        files.read(tmp_path / "g.txt", undirected)
    said = str(caught.value)
    assert f"g.txt: line {line}: expected an edge, such as `0 1` or `0,1`, but found {word!r}" in said
    assert "\n" not in said


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ('"(0)","0:"\n"0:","[1]"\n"[1]","(0)"\n', 3), ("Lyon (FR),Ulm\nUlm,Lyon (FR)\n", 2),
        ("f(0) f(1)\nf(1) f(0)\n", 2), ("h:80 i:81\ni:81 h:80\n", 2), ("a=b c\nc a=b\n", 2), ('"a;" b\nb "a;"\n', 2),
    ],
)  # fmt: skip
def test_marks_within_a_name_or_in_quotes_are_part_of_the_name(tmp_path, text, names):
    (tmp_path / "g.txt").write_text(text)
    assert files.read(tmp_path / "g.txt").edges(1) == {(i, (i + 1) % names) for i in range(names)}


@pytest.mark.parametrize("undirected", [False, True])
@pytest.mark.parametrize(
    ("text", "counts"),
    [
        ("5 4\n0 1\n1 2\n2 3\n3 4\n", "5 4"), ("# mine\n5,5\n1,2\n2,3\n3,4\n4,5\n5,1\n", "5 5"),
        ("3 2\n0 1\n1 0\n1 2\n2 1\n", "3 2"), ("3 3\na b\nb c\nc a\n", "3 3"), ("3 2 1\n0 1 7\n1 2 7\n", "3 2"),
    ],
)  # fmt: skip
def test_a_first_line_that_could_be_the_numbers_of_nodes_and_edges_is_refused(tmp_path, text, counts, undirected):
    (tmp_path / "g.txt").write_text(text)
    message = rf"g.txt: line \d: .* found '{counts[0]}': this line may count nodes and edges: delete the line, or move "
    with pytest.raises(BadInput, match=message):
        files.read(tmp_path / "g.txt", undirected)


@pytest.mark.parametrize(
    ("text", "edges"),
    [
        ("1 0\n0 1\n", {(0, 1), (1, 0)}), ("2 1\n1 2\n", {(0, 1), (1, 0)}), ("0 1 1\n1 0 1\n", {(0, 1), (1, 0)}),
        ("0 1\n1 2\n2 0\n", Ring(3).edges(1) - {(1, 0), (2, 1), (0, 2)}), ("3 1\n1 2\n2 3\n", {(2, 0), (0, 1), (1, 2)}),
        ("5 4\n4 5\n5 6\n6 5\n", {(1, 0), (0, 1), (1, 2), (2, 1)}),
    ],
)  # fmt: skip
def test_a_list_of_edges_whose_first_line_counts_nothing_is_read(tmp_path, text, edges):
    (tmp_path / "g.txt").write_text(text)
    assert files.read(tmp_path / "g.txt").edges(1) == edges


@pytest.mark.parametrize(
    ("head", "word"), [
        ("source,target,target", "target"), ("source,from,to", "from"), ("src,weight,dst,TO", "TO"),
        ("source,target,rounds,Rounds", "Rounds"),
    ],
)  # fmt: skip
def test_a_line_of_names_that_names_a_column_twice_is_refused(tmp_path, head, word):
    width = head.count(",") + 1
    (tmp_path / "g.csv").write_text(f"{head}\n{','.join('0121'[:width])}\n{','.join('1012'[:width])}\n")
    with pytest.raises(BadInput, match=f"g.csv: line 1: column '{word}': another column has the same name or"):
        files.read(tmp_path / "g.csv")


ODD_GRAPHS = {
    "no nodes": nx.DiGraph(), "no nodes, both ways": nx.MultiGraph(), "no edges": nx.empty_graph(3),
    "one node": nx.empty_graph(1), "edges twice": nx.MultiDiGraph([(0, 1), (0, 1), (1, 0)]),
    "edges twice, both ways": nx.MultiGraph([(0, 1), (0, 1), (1, 2)]), "a loop": nx.Graph([(0, 0), (0, 1)]),
    "weights that are missing": nx.DiGraph([(0, 1, {"weight": float("nan")}), (1, 0)]), "grid": nx.grid_2d_graph(2, 2),
    "rounds that are missing": nx.Graph([(0, 1, {"rounds": float("nan")})]),
}  # fmt: skip
WRITERS = {
    "json": lambda graph: [json.dumps(nx.node_link_data(graph, edges="edges"))], "graphml": nx.generate_graphml,
    "gml": nx.generate_gml, "gexf": nx.generate_gexf, "edgelist": nx.generate_edgelist, "adjlist": nx.generate_adjlist,
    "multiline": nx.generate_multiline_adjlist,
}  # fmt: skip


@pytest.mark.parametrize("kind", WRITERS)
@pytest.mark.parametrize("name", ODD_GRAPHS)
def test_an_odd_graph_of_networkx_is_read_as_it_is_or_refused_in_a_line(tmp_path, name, kind):
    graph = ODD_GRAPHS[name]
    (tmp_path / "g.txt").write_text("\n".join(WRITERS[kind](graph)))
    try:
        found = files.read(tmp_path / "g.txt")
        facts.connectivity(found, 10)
    except BadInput as error:
        message = str(error)
    else:
        message = ""
    if message:
        assert "\n" not in message
        assert graph or kind not in ("json", "graphml") or message.endswith("g.txt: the file has no nodes")
        return
    number = {node: k for k, node in enumerate(graph)}
    edges = {(number[i], number[j]) for i, j in graph.to_directed().edges()}
    assert graph
    assert found.agents == len(graph)
    assert found.edges(1) in (edges, {(number[i], number[j]) for i, j in graph.edges()})


def test_rounds_that_a_list_of_edges_names_are_not_left_out(tmp_path):
    for text in ("0 1 {'rounds': [2]}\n1 0 {}\n", "source,target,rounds\n0,1,2\n1,0,1\n"):
        (tmp_path / "g.csv").write_text(text)
        with pytest.raises(BadInput, match=r"edge 0 -> 1: rounds = .*: expected numbers from 1 to 1, the period"):
            files.read(tmp_path / "g.csv")


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("kind", [nx.DiGraph, nx.Graph])
def test_what_networkx_writes_as_edges_it_reads_alike(tmp_path, seed, kind):
    graph = nx.gnp_random_graph(8, 0.5, seed, directed=kind is nx.DiGraph)
    nx.set_edge_attributes(graph, 3.5, "weight")
    for write, read in ((nx.write_edgelist, nx.read_edgelist), (nx.write_weighted_edgelist, nx.read_weighted_edgelist)):
        write(graph, tmp_path / "g.txt")
        wanted = nx.relabel_nodes(read(tmp_path / "g.txt", create_using=kind, nodetype=int).to_directed(), {})
        assert files.read(tmp_path / "g.txt", undirected=kind is nx.Graph).edges(1) == set(wanted.edges)


def test_graphml_says_in_which_rounds_an_edge_is_there(tmp_path):
    graph = nx.DiGraph(period=2, name="two by two")
    graph.add_edge(0, 1, rounds="1, 2")
    graph.add_edge(1, 2, rounds=2)
    nx.write_graphml(graph, tmp_path / "g.graphml")
    found = files.read(tmp_path / "g.graphml")
    assert found.phases == ({(0, 1)}, {(0, 1), (1, 2)})
    assert found.title == "two by two"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<graphml><graph>", "not GraphML"), ("<html></html>", "not GraphML"), ("", "the file has no edge"),
        ("# only this", "the file has no edge"), ("0 1\n2\n", "line 2: expected an edge"),
        ("0,\n", "line 1: expected an edge"), ("graph [ directed 0 ]\n", "line 1: expected an edge"),
        ("0 1\n1 1\n", "agent 1 has an edge to itself"),
    ],
)  # fmt: skip
def test_a_malformed_graph_of_another_kind_says_where(tmp_path, text, message):
    (tmp_path / "g").write_text(text)
    with pytest.raises(BadInput, match=message) as caught:
        files.read(tmp_path / "g")
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_json(tmp_path):
    path = tmp_path / "x.json"
    path.write_text("{")
    with pytest.raises(BadInput, match=r"x.json: not JSON"):
        files.read(path)
    path.write_text("[1, 2]")
    with pytest.raises(BadInput, match=r"x.json: not networkx node-link JSON"):
        files.read(path)
    with pytest.raises(BadInput, match=r"y.json: cannot be read"):
        files.read(tmp_path / "y.json")


def test_a_graph_that_is_not_connected_names_two_agents(tmp_path):
    edges = [{"source": 0, "target": 1}, {"source": 1, "target": 2}, {"source": 2, "target": 1}]
    graph = files.read(written(tmp_path, edges=edges))
    with pytest.raises(
        BadInput, match=r"graph.json: not connected: in the union of the graphs of rounds 1 to 2, .* agent 1 .* agent 0"
    ):
        facts.connectivity(graph, 10)
    one_way = files.read(written(tmp_path, edges=edges[:2]))
    with pytest.raises(BadInput, match=r"add edges, .*topology.undirected=true"):
        facts.connectivity(one_way, 10)


def test_a_graph_that_is_connected_only_after_the_run_is_refused():
    graph = files.read(SEVEN)
    assert facts.connectivity(graph, 4) == 4
    with pytest.raises(
        BadInput,
        match=r"not connected in a run of only 3 rounds: in the union of the graphs of rounds 1 to 3, .* set rounds=4",
    ):
        facts.connectivity(graph, 3)
    with pytest.raises(BadInput, match=r"spread over 9 rounds, .* run of only 2 rounds: .* set rounds=8 or more"):
        facts.connectivity(BConnected(8, 0.0, 9, seed=1), 2)
    with pytest.raises(
        BadInput, match=r"each round, p = 1e-05': not connected: .* rounds 1 to 9, .*; add edges or rounds"
    ):
        facts.connectivity(ErdosRenyiEachRound(9, 1e-5, seed=1), 9)
    with pytest.raises(BadInput, match=r"rounds 1 to 2000, .*; add edges$"):  # further rounds are not checked
        facts.connectivity(ErdosRenyiEachRound(9, 1e-9, seed=1), 5000)


@given(st.integers(1, 8), st.integers(1, 5), st.data())
def test_connectivity_is_what_networkx_finds_window_by_window(n, period, data):
    pairs = st.sampled_from([(j, i) for j in range(n) for i in range(n) if i != j] or [None])
    phases = [frozenset(data.draw(st.sets(pairs, max_size=2 * n))) - {None} for _ in range(period)]
    graph = files.FromFile(n, "f", "f", tuple(phases))

    def connected(start, b):
        return nx.is_strongly_connected(union(graph, range(start, start + b)))

    good = [b for b in range(1, period + 1) if all(connected(t, b) for t in range(1, period + 1))]
    if good:
        assert facts.connectivity(graph, 5) == good[0]
    else:
        with pytest.raises(BadInput, match="not connected: "):
            facts.connectivity(graph, 5)
        j, i = facts.unreached(np.any([graph.sends(t) for t in range(1, period + 1)], axis=0))
        assert i not in nx.descendants(union(graph, range(1, period + 1)), j)


def test_connectivity_of_a_graph_that_never_repeats_holds_for_every_window_of_the_run_and_no_shorter_one():
    graph = ErdosRenyiEachRound(8, 0.05, seed=3)
    b = facts.connectivity(graph, 300)
    connected = {
        length: [nx.is_strongly_connected(union(graph, range(t, t + length))) for t in range(1, 302 - length)]
        for length in (b - 1, b)
    }
    assert all(connected[b])
    assert not all(connected[b - 1])


def test_connectivity_counts_the_rounds_at_the_end_that_are_not_connected():
    class Late(ErdosRenyiEachRound):
        def sends(self, t):
            return ~np.eye(3, dtype=bool) if t == 1 else np.zeros((3, 3), dtype=bool)

    assert facts.connectivity(Late(3), 10) == 10


LEAST = {"small-world": 3, "barabasi-albert": 2, "barbell": 4, "expander": 5}
PLAIN = {
    "small-world": {"neighbours": 2, "probability": 0.5},
    "barabasi-albert": {"attachments": 1},
    "geometric": {"radius": 0.8},
    "expander": {"degree": 4},
}
RULES = ["ring", "complete", "star", "path", "barbell", "torus", "grid", "hypercube", "exponential"]
RANDOM = [name for name in KINDS if name not in RULES]
EACH_ROUND = ["erdos-renyi-each-round", "random-digraph-each-round", "eulerian", "matchings"]
DIRECTED = ["exponential", "random-digraph", "b-connected", "random-digraph-each-round", "eulerian"]


def generated(name: str, agents: int, seed: int = 1, **keys) -> base.Topology:
    """A graph of a kind, with keys that the least number of agents can do with."""
    if name in ("torus", "grid"):
        keys = {"rows": min(k for k in range(1, agents + 1) if agents % k == 0)} | keys
    return KINDS[name](agents, seed=seed, **PLAIN.get(name, {}) | keys)


def sizes(name: str) -> st.SearchStrategy[int]:
    return st.sampled_from([1, 2, 4, 8, 16, 32]) if name == "hypercube" else st.integers(LEAST.get(name, 1), 40)


def everywhere(sends: np.ndarray) -> bool:
    return nx.is_strongly_connected(nx.from_numpy_array(sends, create_using=nx.DiGraph))


@pytest.mark.parametrize("name", KINDS)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_every_kind_is_a_graph_of_its_agents_alike_for_the_same_seed(name, data):
    n, seed = data.draw(sizes(name)), data.draw(st.integers(0, 2**63 - 1))
    graph, again = generated(name, n, seed), generated(name, n, seed)
    for t in (5, 1, 2, 2, 7):
        edges, sends = graph.edges(t), graph.sends(t)
        assert edges == again.edges(t) == {(j, i) for j, i in np.argwhere(sends).tolist()}
        assert sends.shape == (n, n)
        assert sends.dtype == bool
        assert not sends.diagonal().any()
        for i in {0, n // 2, n - 1}:
            place = graph.neighborhood(t, i)
            inn, out = np.flatnonzero(sends[:, i]), np.flatnonzero(sends[i])
            assert place == (t, i, tuple(inn), tuple(out))
    assert (facts.one_way_edge(graph, 10) is None) or name in DIRECTED
    if name not in EACH_ROUND:
        assert facts.connectivity(graph, 40) <= graph.period
        assert graph.edges(1) == graph.edges(1 + graph.period)


@pytest.mark.parametrize("name", RANDOM)
def test_random_kinds_differ_from_seed_to_seed(name):
    graphs = {tuple(generated(name, 12, seed).edges(t) for t in (1, 2)) for seed in range(20)}
    assert len(graphs) == 20


@pytest.mark.parametrize("name", EACH_ROUND)
def test_kinds_drawn_each_round_differ_from_round_to_round_and_are_drawn_once_for_all_who_ask(name, monkeypatch):
    graph, kind = generated(name, 12), KINDS[name]
    assert graph.period is None
    assert len({graph.edges(t) for t in range(1, 51)}) == 50
    times, draw = Counter(), kind.draw
    monkeypatch.setattr(kind, "draw", lambda self, rng: times.update([name]) or draw(self, rng))
    for t in range(100, 110):
        for i in range(12):
            graph.neighborhood(t, i)
        graph.edges(t)
    assert times[name] == 10
    with pytest.raises(ValueError, match="read-only"):
        graph.sends(1)[0, 0] = True


@pytest.mark.parametrize("name", ["random-digraph-each-round", "eulerian"])
@given(n=st.integers(1, 40), t=st.integers(1, 10**9))
def test_digraphs_drawn_each_round_are_strongly_connected_in_every_one(name, n, t):
    assert everywhere(generated(name, n).sends(t))


@given(n=st.integers(1, 40), seed=st.integers(0, 99), cycles=st.integers(0, 6), t=st.integers(1, 10**9))
def test_eulerian_digraphs_have_in_degree_equal_to_out_degree(n, seed, cycles, t):
    sends = Eulerian(n, cycles, seed=seed).sends(t)
    np.testing.assert_array_equal(sends.sum(axis=0), sends.sum(axis=1))
    assert sends.sum(axis=1).max() <= 1 + cycles


def test_eulerian_digraphs_have_more_than_the_ring_and_degrees_that_differ():
    degrees = np.concatenate([Eulerian(16, seed=1).sends(t).sum(axis=1) for t in range(1, 201)])
    assert set(degrees.tolist()) == {1, 2, 3}
    assert (Eulerian(16, 0, seed=1).sends(1).sum(axis=1) == 1).all()
    assert facts.is_eulerian(Eulerian(16, seed=1), 100)


@given(n=st.integers(1, 40), t=st.integers(1, 10**9))
def test_matchings_join_all_agents_in_pairs_but_for_an_odd_one(n, t):
    sends = Matchings(n, seed=4).sends(t)
    np.testing.assert_array_equal(sends, sends.T)
    assert sorted(sends.sum(axis=0).tolist()) == [0] * (n % 2) + [1] * (n // 2 * 2)


def test_matchings_choose_every_pair_equally_often():
    graph = Matchings(6, seed=1)
    met = sum(graph.sends(t).astype(int) for t in range(1, 3001))
    off = met[~np.eye(6, dtype=bool)]
    assert abs(off - 600).max() < 5 * np.sqrt(3000 * 0.2 * 0.8)


@pytest.mark.parametrize(
    ("agents", "rows", "title", "degree"),
    [(12, "square", "torus, 3 × 4", 4), (25, "square", "torus, 5 × 5", 4), (12, 2, "torus, 2 × 6", 3),
     (4, "square", "torus, 2 × 2", 2), (7, 1, "torus, 1 × 7", 2), (2, "square", "torus, 1 × 2", 1),
     (1, "square", "torus, 1 × 1", 0), (12, 6, "torus, 6 × 2", 3)],
)  # fmt: skip
def test_a_torus_wraps_in_both_directions(agents, rows, title, degree):
    graph = Torus(agents, rows)
    assert graph.title == title
    assert (graph.sends(1).sum(axis=1) == degree).all()
    r, c = graph.sides
    grid = nx.convert_node_labels_to_integers(nx.grid_2d_graph(r, c, periodic=True), ordering="sorted")
    grid.remove_edges_from(list(nx.selfloop_edges(grid)))
    assert graph.edges(1) == {e for j, i in grid.edges for e in ((j, i), (i, j))}


@pytest.mark.parametrize(("agents", "rows"), [(25, "square"), (12, 2), (6, 6), (7, 1), (1, "square"), (2, "square")])
def test_a_grid_ends_where_it_ends(agents, rows):
    graph = Grid(agents, rows)
    grid = nx.convert_node_labels_to_integers(nx.grid_2d_graph(*graph.sides), ordering="sorted")
    assert graph.edges(1) == {e for j, i in grid.edges for e in ((j, i), (i, j))}
    with pytest.raises(BadInput, match=r"topology.rows=1, a path"):
        _ = Grid(11)


@pytest.mark.parametrize("k", range(6))
def test_a_hypercube_has_one_neighbour_for_each_binary_digit(k):
    graph = Hypercube(2**k)
    assert (graph.sends(1).sum(axis=1) == k).all()
    assert all((j ^ i).bit_count() == 1 for j, i in graph.edges(1))
    assert facts.connectivity(graph, 1) == 1


@given(st.integers(1, 40))
def test_an_exponential_graph_sends_to_all_powers_of_two_or_to_one_in_turn(n):
    static, turns = Exponential(n), Exponential(n, one_peer=True)
    hops = ceil(log2(n))
    assert static.edges(1) == {(j, (j + 2**k) % n) for j in range(n) for k in range(hops)}
    assert turns.period == max(1, hops)
    for t in range(1, 2 * hops + 1):
        assert turns.edges(t) == {(j, (j + 2 ** ((t - 1) % hops)) % n) for j in range(n)}
    assert facts.is_eulerian(static, 99)
    assert facts.is_eulerian(turns, 99)
    assert facts.connectivity(turns, 99) <= max(1, hops)


def test_an_expander_is_ramanujan():
    for n, degree in ((5, 4), (6, 3), (12, 3), (40, 4), (41, 6)):
        graph = KINDS["expander"](n, degree, seed=3)
        sizes = np.sort(np.abs(np.linalg.eigvalsh(graph.sends(1).astype(float))))
        assert (graph.sends(1).sum(axis=1) == degree).all()
        assert sizes[-2] <= 2 * np.sqrt(degree - 1) + 1e-9 < sizes[-1]
    for n, degree in ((4, 4), (5, 3)):
        with pytest.raises(BadInput, match=f"topology.degree = {degree}: must be less than"):
            KINDS["expander"](n, degree)


@pytest.mark.parametrize(("agents", "bridge", "edges"), [(6, "least", 14), (7, "least", 16), (7, 3, 12), (12, 4, 34)])
def test_a_barbell_is_two_complete_graphs_and_a_path(agents, bridge, edges):
    assert len(KINDS["barbell"](agents, bridge).edges(1)) == edges
    with pytest.raises(BadInput, match="two halves of at least two"):
        KINDS["barbell"](agents, agents - 3)


def test_a_star_and_a_path_have_one_edge_less_than_agents():
    assert KINDS["star"](5).edges(1) == {e for i in range(1, 5) for e in ((0, i), (i, 0))}
    assert KINDS["path"](5).edges(1) == Grid(5, 1).edges(1)


def test_a_geometric_graph_joins_whoever_is_near():
    """By its law: two points of the unit square are within r of each other with πr² − 8r³/3 + r⁴/2."""
    r = 0.7
    rng, pair = np.random.default_rng(1), Geometric(2, r)
    joined = [pair.draw(rng)[0, 1] for _ in range(2000)]
    p = np.pi * r**2 - 8 * r**3 / 3 + r**4 / 2
    assert np.mean(joined) == pytest.approx(p, abs=4 * np.sqrt(p * (1 - p) / 2000))


def test_a_small_world_keeps_the_number_of_edges_and_a_scale_free_graph_adds_some_for_each_agent():
    assert facts.out_edges(SmallWorld(20, 4, 0.3, seed=1), 9) == 20 * 4
    assert SmallWorld(20, 4, 0.0, seed=1).edges(1) != SmallWorld(20, 4, 0.3, seed=1).edges(1)
    assert facts.out_edges(BarabasiAlbert(20, 3, seed=1), 9) == 2 * (3 + 16 * 3)


def test_a_random_digraph_has_a_ring_and_the_stated_density_besides():
    counts = [len(RandomDigraph(10, 0.3, seed=seed).edges(1)) for seed in range(500)]
    assert np.mean(counts) == pytest.approx(10 + 80 * 0.3, abs=4 * np.sqrt(80 * 0.3 * 0.7 / 500))
    assert len(RandomDigraph(10, 0.0, seed=1).edges(1)) == 10
    assert len(RandomDigraph(10, 1.0, seed=1).edges(1)) == 90


def test_b_connected_edges_are_there_once_in_a_period_and_connect_over_every_one():
    graph = BConnected(10, 0.1, 5, seed=2)
    assert (graph.period, len(graph.phases)) == (5, 5)
    assert sum(map(len, graph.phases)) == len(frozenset().union(*graph.phases)) >= 10
    for start in range(1, 11):
        assert nx.is_strongly_connected(union(graph, range(start, start + 5)))
        assert not everywhere(graph.sends(start))
    assert 1 < facts.connectivity(graph, 100) <= 5


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Torus(12, 5), r"topology.rows = 5: 12 agents do not fill 5 rows; choose 1, 2, 3, 4, 6, 12"),
        (lambda: Torus(3, 4), r"topology.rows = 4: 3 agents"),
        (lambda: Torus(7), r"topology.rows = square: 7 .* prime .* set topology.agents to 6 or 8, or topology.rows=1"),
        (lambda: Hypercube(7), r"topology.agents = 7: .* the nearest powers are 4 and 8"),
        (lambda: SmallWorld(9, 3), r"topology.neighbours = 3: must be even"),
        (lambda: SmallWorld(2, 2), r"topology.neighbours = 2: .* less than the number of agents, 2"),
        (lambda: BarabasiAlbert(1, 1), r"topology.attachments = 1: must be below topology.agents = 1"),
        (
            lambda: Geometric(30, 0.01, seed=1).edges(1),
            r"topology.radius = 0.01: none of 20000 random graphs of 30 agents is connected; 0.19 or more",
        ),
    ],
)  # fmt: skip
def test_parameters_that_do_not_fit_the_agents_are_named(make, message):
    with pytest.raises(BadInput, match=message):
        make()


def test_a_small_world_that_is_never_connected_is_an_error(monkeypatch):
    monkeypatch.setattr(base, "ATTEMPTS", 1)  # of a thousand, one always is
    with pytest.raises(BadInput, match=r"topology.neighbours = 2: none of 1 random .* 60 agents .* more neighbours"):
        SmallWorld(60, 2, 1.0).edges(1)


def test_agents_draw_their_graphs_without_networkx():
    """Except for the kinds that are networkx's own."""
    code = """
import sys
from mpinodes.config import registry
from mpinodes.topology import facts
for name in registry.names(registry.TOPOLOGIES):
    if name not in ("small-world", "barabasi-albert", "barbell", "expander"):
        graph = registry.find(registry.TOPOLOGIES, name)(8, seed=1)
        graph.neighborhood(1, 0)
        for fact in ("connectivity", "one_way_edge", "out_edges", "laplacian_max", "is_eulerian"):
            getattr(facts, fact)(graph, 100)
print("networkx" in sys.modules or "scipy" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_eulerian_looks_at_every_round():
    assert not facts.is_eulerian(files.read(SEVEN), 100)
    assert facts.is_eulerian(files.read(SEVEN, undirected=True), 100)
    assert not facts.is_eulerian(RandomDigraphEachRound(6, seed=1), 100)
    late = files.FromFile(2, "f", "f", (frozenset({(0, 1), (1, 0)}), frozenset({(0, 1)})))
    assert [facts.is_eulerian(late, rounds) for rounds in (1, 2)] == [True, False]
    assert [facts.one_way_edge(late, rounds) for rounds in (1, 2)] == [None, (2, 0, 1)]


@pytest.mark.parametrize("name", KINDS)
def test_the_facts_of_a_run_are_those_of_its_rounds(name):
    graph, rounds = generated(name, 8), 60
    graphs = [union(graph, range(t, t + 1)) for t in range(1, rounds + 1)]
    assert facts.out_edges(graph, rounds) == max(g.number_of_edges() for g in graphs)
    assert facts.is_eulerian(graph, rounds) == all(g.in_degree(i) == g.out_degree(i) for g in graphs for i in g)
    eigenvalues = [nx.laplacian_spectrum(g.to_undirected())[-1] for g in graphs]
    if graph.period is None:
        assert facts.laplacian_max(graph, rounds) == 8 >= max(eigenvalues) - 1e-12
    else:
        assert facts.laplacian_max(graph, rounds) == pytest.approx(max(eigenvalues), rel=1e-12)


def test_a_graph_that_never_repeats_is_looked_at_for_so_many_rounds_only(monkeypatch):
    graph, asked = Matchings(4, seed=1), set()
    sends = graph.sends
    monkeypatch.setattr(Matchings, "sends", lambda self, t: asked.add(t) or sends(t))
    for fact in (facts.connectivity, facts.is_eulerian, facts.out_edges, facts.one_way_edge):
        asked.clear()
        fact(graph, 10**9)
        assert asked == set(range(1, LONGEST_CHECK + 1))


def test_one_agent_alone_is_connected_and_has_no_edges():
    for name in KINDS.keys() - LEAST.keys():
        graph = generated(name, 1)
        assert (graph.edges(1), facts.connectivity(graph, 9), facts.out_edges(graph, 9)) == (frozenset(), 1, 0)


@pytest.mark.parametrize("name", KINDS)
def test_a_generated_graph_written_to_a_file_reads_back_with_the_same_edges(name, tmp_path):
    keys = {"agents": 8, "seed": 3} | ({"rounds": 12} if name in EACH_ROUND else {})
    file = tmp_path / "graph.json"
    assert write_topology.main([name, *(f"{k}={v}" for k, v in keys.items()), str(file)]) == 0
    found, kind = files.read(file), KINDS[name]
    wanted = kind(8, seed=3)
    assert (found.title, found.agents, found.period) == (wanted.title, 8, wanted.period or 12)
    for t in range(1, found.period + 1):
        assert found.edges(t) == wanted.edges(t)
    assert nx.is_strongly_connected(nx.node_link_graph(json.loads(file.read_text()), edges="edges"))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("rign agents=3 FILE", "topology.name = 'rign': there is no such name; did you mean ring?"),
        ("ring agents=3 rounds=7 FILE", "rounds = 7: ring has period 1"),
        ("matchings agents=4 FILE", "matchings never repeats: add the number of rounds to write, as in rounds=100"),
        ("matchings agents=4 rounds=0 FILE", "rounds = 0: expected int >= 1"),
        ("ring FILE", "topology.agents is missing"),
        ("geometric agents=3 seed=-1 FILE", "seed = -1: expected int >= 0"),
        ("hypercube agents=3 FILE", "the nearest powers are 2 and 4"),
        ("ring agents=3", "'agents=3': the last word must be the file to write"),
        ("ring", "expected NAME key=value ... FILE"),
        ("ring agents=3 missing/graph.json", "missing/graph.json: cannot be written: No such file or directory"),
    ],
)
def test_writing_a_graph_that_cannot_be_says_why(words, message, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert write_topology.main(shlex.split(words)) == 2
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_topology_is_found_by_its_name_without_the_others():
    code = """
import sys
from mpinodes.config import registry
registry.find(registry.TOPOLOGIES, "random-digraph")
print(*sorted(name.removeprefix("mpinodes.topology.") for name in sys.modules if name.startswith("mpinodes.topology.")))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["base", "facts", "random_digraph"]


def test_the_names_are_those_of_the_classes_and_of_the_files():
    assert sorted(registry.names(registry.TOPOLOGIES)) == sorted(KINDS)
    assert sorted(stored.names()) == ["five-agent-chord", "seven-agent-digraph"]
    assert len(KINDS) == 20
    with pytest.raises(BadInput, match=r"topology.name = 'base': there is no such name"):
        registry.find(registry.TOPOLOGIES, "base")


def test_a_misspelt_name_may_have_meant_a_file():
    with pytest.raises(BadInput, match=r"topology.name = 'seven-agent-digrap': .* did you mean seven-agent-digraph\?"):
        compose({"topology": {"name": "seven-agent-digrap"}}, None)


def test_a_topology_of_ones_own_is_as_small_as_the_documentation_says(tmp_path):
    text = base.__doc__
    file = tmp_path / "star.py"
    file.write_text(textwrap.dedent(text[text.index("    from dataclasses") :]))
    star = registry.from_path(registry.TOPOLOGIES, str(file))(5)
    assert (star.title, star.source, star.period, star.from_file) == ("star", "topology 'star'", 1, False)
    assert star.neighborhood(3, 0) == (3, 0, (1, 2, 3, 4), (1, 2, 3, 4))
    assert star.neighborhood(3, 2) == (3, 2, (0,), (0,))
    assert facts.connectivity(star, 9) == 1
    assert facts.one_way_edge(star, 9) is None
    assert facts.is_eulerian(star, 9)
    assert (facts.out_edges(star, 9), facts.diameter(star)) == (8, 2)
    assert facts.laplacian_max(star, 9) == pytest.approx(5)


@pytest.mark.parametrize("name", KINDS)
def test_every_kind_says_in_one_line_what_it_is(name):
    first, *rest = KINDS[name].__doc__.splitlines()
    assert first.endswith(".")
    assert not rest or not rest[0]
