"""Who hears whom in round t: a pure function of t, alike on every rank.

Edge (j, i) means: j sends to i. A topology is a file of `topologies/` (or the user's own), or one of the
generated `KINDS`.
"""

from __future__ import annotations

from mpinodes.topology.base import Edges, Matrix, Periodic, Topology
from mpinodes.topology.drawn import BarabasiAlbert, BConnected, ErdosRenyi, Geometric, RandomDigraph, SmallWorld
from mpinodes.topology.each_round import ErdosRenyiEachRound, Eulerian, Matchings, RandomDigraphEachRound
from mpinodes.topology.facts import connectivity, diameter, eulerian, laplacian_max, one_way_edge, out_edges, unreached
from mpinodes.topology.files import FromFile, folder, read
from mpinodes.topology.rules import Complete, Exponential, Hypercube, Ring, Torus

__all__ = [
    "KINDS",
    "BConnected",
    "BarabasiAlbert",
    "Complete",
    "Edges",
    "ErdosRenyi",
    "ErdosRenyiEachRound",
    "Eulerian",
    "Exponential",
    "FromFile",
    "Geometric",
    "Hypercube",
    "Matchings",
    "Matrix",
    "Periodic",
    "RandomDigraph",
    "RandomDigraphEachRound",
    "Ring",
    "SmallWorld",
    "Topology",
    "Torus",
    "connectivity",
    "diameter",
    "eulerian",
    "folder",
    "laplacian_max",
    "names",
    "one_way_edge",
    "out_edges",
    "read",
    "unreached",
]

KINDS: dict[str, type[Topology]] = {
    "ring": Ring,
    "complete": Complete,
    "torus": Torus,
    "hypercube": Hypercube,
    "exponential": Exponential,
    "erdos-renyi": ErdosRenyi,
    "geometric": Geometric,
    "small-world": SmallWorld,
    "barabasi-albert": BarabasiAlbert,
    "random-digraph": RandomDigraph,
    "b-connected": BConnected,
    "erdos-renyi-each-round": ErdosRenyiEachRound,
    "random-digraph-each-round": RandomDigraphEachRound,
    "eulerian": Eulerian,
    "matchings": Matchings,
}


def names() -> list[str]:
    """All values of `topology.name`."""
    return sorted([*KINDS, *(path.stem for path in folder().glob("*.json"))])
