"""Compute facts about a topology, for example its diameter and its number of edges.

If the graph never repeats, at most its first `LONGEST_CHECK` rounds are checked.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from mpinodes.core.errors import BadInput
from mpinodes.core.parts import Matrix, Topology

LONGEST_CHECK = 2000  # the number of checked rounds if a graph never repeats


def unreached(sends: Matrix) -> tuple[int, int] | None:
    """Return two agents (j, i) without a path of edges from j to i; None if the graph is strongly connected.

    Args:
        sends: (n, n) the graph; entry [j, i] says whether agent j sends to agent i.
    """
    if (missing := _missing(sends, 0)).any():
        return 0, int(missing.argmax())
    if (stuck := _missing(sends.T, 0)).any():
        j = int(stuck.argmax())
        return j, int(_missing(sends, j).argmax())
    return None


def _missing(sends: Matrix, start: int) -> NDArray[np.bool_]:
    """Return for each agent whether there is no path of edges from agent `start` to this agent, as an array (n,)."""
    missing = np.arange(len(sends)) != start
    while (new := sends[~missing].any(axis=0) & missing).any():
        missing &= ~new
    return np.asarray(missing)


def connectivity(topology: Topology, rounds: int) -> int:
    """Return the least B such that the union of the graphs of any B consecutive rounds is strongly connected.

    If the graph never repeats, B is for the first min(rounds, `LONGEST_CHECK`) rounds only. Otherwise B is for all
    rounds, even if the period is longer than the run.

    Args:
        topology: the graph.
        rounds: the number of rounds of the run.

    Raises:
        BadInput: no B has this property, or the run is too short; the message names the graph, the rounds and two
            agents without a path between them.
    """
    period = topology.period
    last = min(rounds, LONGEST_CHECK) if period is None else period
    first = next(_waits(topology, last), None)
    if first is None or first > rounds:
        end = min(rounds, last)
        union = np.logical_or.reduce([topology.sends(t) for t in range(1, end + 1)])
        j, i = unreached(union) or (0, 0)
        may_last = period is None and rounds < LONGEST_CHECK  # further rounds would be checked too
        defect, remedy = "not connected", "add edges or rounds" if may_last else "add edges"
        if first is not None:
            defect, remedy = f"{defect} in a run of only {end} rounds", f"set rounds={first} or more, or add edges"
        edges = topology.edges(1)
        if topology.from_file and not any((i, j) in edges for j, i in edges):
            remedy += ", or set topology.undirected=true if the edges go both ways"
        unreachable = f"in the union of the graphs of rounds 1 to {end}, no path leads from agent {j} to agent {i}"
        raise BadInput(f"{topology.source}: {defect}: {unreachable}; {remedy}")
    if period is not None:
        return max(islice(_waits(topology, 2 * period), period))
    waits = list(_waits(topology, last))
    return max(*waits, last - len(waits) + 1)


def _waits(topology: Topology, last: int) -> Iterator[int]:
    """Yield for t = 1, 2, ... the least k such that the union of the graphs of k rounds is strongly connected.

    The k rounds are the rounds t, t + 1, ..., t + k − 1. The generator ends at the first t for which the union of the
    graphs of rounds t to `last` is not strongly connected.
    """
    window: deque[Matrix] = deque()
    count = np.zeros((topology.agents, topology.agents), dtype=np.int64)
    for t in range(1, last + 1):
        window.append(topology.sends(t))
        count += window[-1]
        while window and unreached(count > 0) is None:
            yield len(window)
            count -= window.popleft()


def _first_rounds(topology: Topology, rounds: int) -> range:
    """Return the rounds of a run that are checked, from round 1 on.

    These are the rounds of one period, or the first `LONGEST_CHECK` rounds if the graph never repeats. If the run has
    fewer rounds, all rounds of the run are checked.
    """
    return range(1, min(rounds, topology.period or LONGEST_CHECK) + 1)


def one_way_edge(topology: Topology, rounds: int) -> tuple[int, int, int] | None:
    """Return (t, j, i) such that in round t agent j sends to agent i, but i does not send to j.

    Return None if the graph is undirected in every round that is checked: the rounds of a run, until the graph repeats
    or up to round `LONGEST_CHECK`.
    """
    for t in _first_rounds(topology, rounds):
        sends = topology.sends(t)
        one_way = sends & ~sends.T
        if one_way.any():
            j, i = np.argwhere(one_way)[0].tolist()
            return t, j, i
    return None


def is_eulerian(topology: Topology, rounds: int) -> bool:
    """Return whether, in every round that is checked, the in-degree of each agent equals its out-degree.

    The rounds of a run are checked until the graph repeats, or up to round `LONGEST_CHECK`.
    """
    graphs = map(topology.sends, _first_rounds(topology, rounds))
    return all(np.array_equal(sends.sum(axis=0), sends.sum(axis=1)) for sends in graphs)


def out_edges(topology: Topology, rounds: int) -> int:
    """Return the largest number of directed edges that the graph has in one round.

    The rounds of a run are considered until the graph repeats, or up to round `LONGEST_CHECK`.
    """
    return max(int(topology.sends(t).sum()) for t in _first_rounds(topology, rounds))


def laplacian_max(topology: Topology, rounds: int) -> float:
    """Return the largest eigenvalue that the Laplacian of the graph has in any round of a run of `rounds` rounds.

    Every directed edge is replaced by an undirected edge. If the graph never repeats, return the number of agents,
    which is an upper bound on this eigenvalue.
    """
    if topology.period is None:
        return float(topology.agents)
    eigenvalues = []
    for t in _first_rounds(topology, rounds):
        adjacent = (topology.sends(t) | topology.sends(t).T).astype(float)
        eigenvalues.append(float(np.linalg.eigvalsh(np.diag(adjacent.sum(axis=0)) - adjacent)[-1]))
    return max(eigenvalues)


def diameter(topology: Topology) -> int:
    """Return the diameter, in edges, of a strongly connected graph that is the same in all rounds.

    For one agent the diameter is 0.
    """
    sends = topology.sends(1)
    within, hops = np.eye(topology.agents, dtype=bool), 0
    while not within.all():
        within, hops = within | within @ sends, hops + 1
    return hops
