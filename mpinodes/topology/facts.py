"""Compute facts about a topology, such as its diameter and its number of edges.

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
    """Return two agents (j, i) such that no path leads from j to i; None if the graph is strongly connected.

    Args:
        sends: (n, n) the adjacency matrix; entry [j, i] says whether agent j sends to agent i.
    """
    if (missing := _missing(sends, 0)).any():
        return 0, int(missing.argmax())
    if (stuck := _missing(sends.T, 0)).any():
        j = int(stuck.argmax())
        return j, int(_missing(sends, j).argmax())
    return None


def _missing(sends: Matrix, start: int) -> NDArray[np.bool_]:
    """Return an array (n,) that says for each agent whether no path leads from agent `start` to this agent."""
    missing = np.arange(len(sends)) != start
    while (new := sends[~missing].any(axis=0) & missing).any():
        missing &= ~new
    return np.asarray(missing)


def connectivity(topology: Topology, rounds: int) -> int:
    """Return the least B such that the union of the graphs of any B consecutive rounds is strongly connected.

    If the graph never repeats, only the first `LONGEST_CHECK` rounds of the run are checked.

    Args:
        topology: the graph.
        rounds: the number of rounds of the run.

    Raises:
        BadInput: there is no such B, or the run is too short. The message names the graph, the rounds, and two agents
            without a path between them.
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
    """Yield for t = 1, 2, ... how many rounds from t on have a strongly connected union of graphs.

    The yielded number is the least k such that the union of the graphs of rounds t to t + k − 1 is strongly connected.
    The generator ends at the first t for which there is no such k with t + k − 1 ≤ `last`.
    """
    window: deque[Matrix] = deque()
    count = np.zeros((topology.agents, topology.agents), dtype=np.int64)
    for t in range(1, last + 1):
        window.append(topology.sends(t))
        count += window[-1]
        while window and unreached(count > 0) is None:
            yield len(window)
            count -= window.popleft()


def _graphs(topology: Topology, rounds: int) -> Iterator[Matrix]:
    """Return the adjacency matrices of the rounds of one period of the graph, without rounds after the end of the run.

    If the graph never repeats, return the matrices of the first `LONGEST_CHECK` rounds instead.

    Args:
        topology: the graph.
        rounds: the number of rounds of the run.
    """
    return map(topology.sends, range(1, min(rounds, topology.period or LONGEST_CHECK) + 1))


def one_way_edge(topology: Topology, rounds: int) -> tuple[int, int, int] | None:
    """Find an edge in one direction only: return (t, j, i) if agent j sends to agent i in round t, but i not to j.

    Return None if the graph is undirected in all rounds of the run. If the graph never repeats, only the rounds up to
    `LONGEST_CHECK` are checked.
    """
    for t, sends in enumerate(_graphs(topology, rounds), 1):
        one_way = sends & ~sends.T
        if one_way.any():
            j, i = np.argwhere(one_way)[0].tolist()
            return t, j, i
    return None


def is_eulerian(topology: Topology, rounds: int) -> bool:
    """Return whether each agent has as many in-neighbors as out-neighbors in every round of a run.

    If the graph never repeats, only the rounds up to `LONGEST_CHECK` are checked.
    """
    return all(np.array_equal(sends.sum(axis=0), sends.sum(axis=1)) for sends in _graphs(topology, rounds))


def out_edges(topology: Topology, rounds: int) -> int:
    """Return the number of directed edges in the round of a run in which the graph has the most edges.

    If the graph never repeats, only the rounds up to `LONGEST_CHECK` are considered.
    """
    return max(int(sends.sum()) for sends in _graphs(topology, rounds))


def laplacian_max(topology: Topology, rounds: int) -> float:
    """Return the largest eigenvalue of the graph's Laplacian, over all rounds of a run.

    Directed edges are replaced by undirected edges. If the graph never repeats, return the number of agents, which is
    an upper bound on this eigenvalue.
    """
    if topology.period is None:
        return float(topology.agents)
    eigenvalues = []
    for sends in _graphs(topology, rounds):
        adjacent = (sends | sends.T).astype(float)
        eigenvalues.append(float(np.linalg.eigvalsh(np.diag(adjacent.sum(axis=0)) - adjacent)[-1]))
    return max(eigenvalues)


def diameter(topology: Topology) -> int:
    """Return the diameter of a strongly connected graph that is the same in all rounds.

    The diameter is the largest number of edges on a shortest path between two agents; for one agent it is 0.
    """
    from scipy.sparse.csgraph import shortest_path  # imported here because most runs do not need it

    return int(shortest_path(topology.sends(1), unweighted=True).max())
