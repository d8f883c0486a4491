"""Graphs: files and their errors, generated kinds, connectivity."""

from __future__ import annotations

import json

import networkx as nx
import numpy as np
import pytest

from mpinodes import topology
from mpinodes.errors import BadInput

SEVEN = topology.folder() / "seven-agent-digraph.json"


def union(graph: topology.Topology, rounds: range) -> nx.DiGraph:
    digraph = nx.DiGraph()
    digraph.add_nodes_from(range(graph.agents))
    for t in rounds:
        digraph.add_edges_from(graph.edges(t))
    return digraph


def test_the_seven_agent_digraph_is_connected_over_any_four_rounds_and_in_no_single_one():
    graph = topology.read(SEVEN)
    assert (graph.agents, graph.period) == (7, 4)
    for start in range(1, 9):
        assert nx.is_strongly_connected(union(graph, range(start, start + 4)))
        assert not nx.is_strongly_connected(union(graph, range(start, start + 1)))
    assert topology.connectivity(graph, 100) == 4


def test_its_undirected_form_goes_both_ways():
    graph = topology.read(SEVEN, undirected=True)
    for t in range(1, 5):
        assert graph.edges(t) == {e for j, i in topology.read(SEVEN).edges(t) for e in ((j, i), (i, j))}
    assert topology.one_way_edge(graph, 100) is None
    assert topology.one_way_edge(topology.read(SEVEN), 100) is not None


def test_networkx_reads_the_files():
    for path in topology.folder().glob("*.json"):
        graph = nx.node_link_graph(json.loads(path.read_text()), edges="edges")
        assert nx.is_strongly_connected(graph)
        assert graph.number_of_nodes() == topology.read(path).agents


def test_neighbours_are_the_edges_seen_from_an_agent():
    graph = topology.read(SEVEN)
    for t in range(1, 9):
        seen = {(j, i) for i in range(7) for j in graph.round(t, i).inn}
        said = {(j, i) for j in range(7) for i in graph.round(t, j).out}
        assert seen == said == graph.edges(t)
        for i in range(7):
            place = graph.round(t, i)
            assert list(place.inn) == sorted(place.inn)
            assert i not in place.inn + place.out
            assert place.senders == tuple(sorted((*place.inn, i)))


@pytest.mark.parametrize(
    ("kind", "edges"),
    [
        (topology.Ring(5), 10),
        (topology.Ring(5, directed=True), 5),
        (topology.Ring(2), 2),
        (topology.Complete(5), 20),
        (topology.Complete(1), 0),
    ],
)
def test_generated_graphs(kind, edges):
    assert len(kind.edges(1)) == edges
    assert topology.connectivity(kind, 10) == 1


def test_a_random_graph_is_connected_and_comes_from_the_seed():
    one, same, other = (topology.ErdosRenyi(12, seed, 0.25) for seed in (1, 1, 2))
    assert one.edges(1) == same.edges(5)
    assert one.edges(1) != other.edges(1)
    assert topology.connectivity(one, 10) == 1
    assert topology.one_way_edge(one, 10) is None


def test_a_random_graph_that_is_never_connected_is_an_error():
    with pytest.raises(BadInput, match=r"topology.probability = 0.001: none of 1000 random graphs"):
        topology.ErdosRenyi(30, 1, 0.001).edges(1)


def test_graphs_drawn_each_round_have_the_stated_density_and_are_random_access():
    graph = topology.ErdosRenyiEachRound(10, 3, 0.3)
    counts = [len(graph.edges(t)) / 2 for t in range(1, 1001)]
    assert np.mean(counts) == pytest.approx(45 * 0.3, abs=4 * np.sqrt(45 * 0.3 * 0.7 / 1000))
    assert graph.edges(7) == topology.ErdosRenyiEachRound(10, 3, 0.3).edges(7)
    assert topology.connectivity(graph, 1000) > 1


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
    graph = topology.read(written(tmp_path))
    assert graph.edges(1) == {(0, 1), (2, 0)}
    assert graph.edges(2) == graph.edges(4) == {(1, 2)}
    assert topology.connectivity(graph, 10) == 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"edges": [{"source": 1, "target": 1, "rounds": [2]}]}, r"graph.json: round 2: agent 1 has an edge to itself"),
        ({"edges": [{"source": 0, "target": 3}]}, r"graph.json: edge 0 -> 3: agents are numbered 0 to 2"),
        ({"edges": [{"source": True, "target": 2.0}]}, r"Expected `int`, got `bool` - at `\$.edges\[0\].source`"),
        (
            {"edges": [{"source": 0, "target": 1, "rounds": [3]}]},
            r"rounds must be numbers from 1 to the period, 2, not \[3\]",
        ),
        ({"edges": [{"source": 0, "target": 1, "rounds": []}]}, r"edge 0 -> 1: rounds must be numbers from 1"),
        ({"edges": [{"source": 0}]}, r"not networkx node-link JSON"),
        ({"edges": 3}, r"not networkx node-link JSON"),
        ({"nodes": [{"id": 1}, {"id": 2}]}, r"ids of the 2 nodes must be 0 to 1"),
        ({"nodes": []}, r"length >= 1 - at `\$.nodes`"),
        ({"graph": {"period": 0}}, r"Expected `int` >= 1 - at `\$.graph.period`"),
        ({"graph": {"period": "x"}}, r"Expected `int`, got `str` - at `\$.graph.period`"),
    ],
)
def test_a_malformed_file_says_where(tmp_path, changes, message):
    with pytest.raises(BadInput, match=message):
        topology.read(written(tmp_path, **changes))


def test_a_file_that_is_not_json(tmp_path):
    path = tmp_path / "x.json"
    path.write_text("{")
    with pytest.raises(BadInput, match=r"x.json: not JSON"):
        topology.read(path)
    path.write_text("[1, 2]")
    with pytest.raises(BadInput, match=r"x.json: not networkx node-link JSON"):
        topology.read(path)
    with pytest.raises(BadInput, match=r"y.json: cannot be read"):
        topology.read(tmp_path / "y.json")


def test_a_graph_that_is_not_connected_names_two_agents(tmp_path):
    edges = [{"source": 0, "target": 1}, {"source": 1, "target": 2}, {"source": 2, "target": 1}]
    graph = topology.read(written(tmp_path, edges=edges))
    with pytest.raises(
        BadInput, match=r"graph.json: not connected: in the union of rounds 1 to 2 .* agent 1 .* agent 0"
    ):
        topology.connectivity(graph, 10)
