"""What is to be known of a topology before a run: how often it is connected, which way its edges go, how many."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from mpinodes.core.errors import BadInput
from mpinodes.core.parts import Matrix, Topology

LONGEST_CHECK = 2000  # rounds that are checked of a graph that never repeats


def unreached(sends: Matrix) -> tuple[int, int] | None:
    """Return agents (j, i) such that nothing said by j ever gets to i; None: strongly connected."""
    if (missing := _missing(sends, 0)).any():
        return 0, int(missing.argmax())
    if (stuck := _missing(sends.T, 0)).any():
        j = int(stuck.argmax())
        return j, int(_missing(sends, j).argmax())
    return None


def _missing(sends: Matrix, start: int) -> NDArray[np.bool_]:
    """Return which agents nothing said by `start` gets to: (n,)."""
    missing = np.arange(len(sends)) != start
    while (new := sends[~missing].any(axis=0) & missing).any():
        missing &= ~new
    return np.asarray(missing)


def connectivity(topology: Topology, rounds: int) -> int:
    """The least B such that the union of any B consecutive rounds is strongly connected.

    Where the graph never repeats: of any B of the first min(rounds, `LONGEST_CHECK`) rounds.

    Raises:
        BadInput: no B will do, or the run's rounds are too few; names the graph, the rounds and two agents.
    """
    period = topology.period
    last = min(rounds, LONGEST_CHECK) if period is None else period
    first = next(_waits(topology, last), None)
    if first is None or first > rounds:
        end = min(rounds, last)
        union = topology.sends(1)
        for t in range(2, end + 1):
            union = union | topology.sends(t)
        j, i = unreached(union) or (0, 0)
        defect, remedy = "not connected", "add edges or rounds" if period is None else "add edges"
        if first is not None:
            defect, remedy = f"{defect} in a run of only {end} rounds", f"set rounds={first} or more, or add edges"
        edges = topology.edges(1)
        if topology.from_file and not any((i, j) in edges for j, i in edges):
            remedy += ", or set topology.undirected=true if its edges go both ways"
        raise BadInput(
            f"{topology.source}: {defect}: in the union of rounds 1 to {end} no information of agent {j} ever reaches "
            f"agent {i}; {remedy}"
        )
    if period is not None:
        return max(islice(_waits(topology, 2 * period), period))
    waits = list(_waits(topology, last))
    return max(*waits, last - len(waits) + 1)


def _waits(topology: Topology, last: int) -> Iterator[int]:
    """For t = 1, 2, ...: how many rounds from t on have a strongly connected union; ends where `last` comes first."""
    window: deque[Matrix] = deque()
    count = np.zeros((topology.agents, topology.agents), dtype=np.int64)
    for t in range(1, last + 1):
        window.append(topology.sends(t))
        count += window[-1]
        while window and unreached(count > 0) is None:
            yield len(window)
            count -= window.popleft()


def _first_rounds(topology: Topology, rounds: int) -> range:
    """The different rounds of a run, or the first of them where the graph never repeats."""
    return range(1, min(rounds, topology.period or LONGEST_CHECK) + 1)


def one_way_edge(topology: Topology, rounds: int) -> tuple[int, int, int] | None:
    """(t, j, i) such that j sends to i in round t but not i to j; None: undirected in every round.

    Where the graph never repeats: in each of the first `LONGEST_CHECK`.
    """
    for t in _first_rounds(topology, rounds):
        sends = topology.sends(t)
        one_way = sends & ~sends.T
        if one_way.any():
            j, i = np.argwhere(one_way)[0].tolist()
            return t, j, i
    return None


def is_eulerian(topology: Topology, rounds: int) -> bool:
    """Whether each agent hears as many as it sends to, in every round of a run.

    Where the graph never repeats: in each of the first `LONGEST_CHECK`.
    """
    graphs = map(topology.sends, _first_rounds(topology, rounds))
    return all(np.array_equal(sends.sum(axis=0), sends.sum(axis=1)) for sends in graphs)


def out_edges(topology: Topology, rounds: int) -> int:
    """The largest number of edges of any round of a run, one for each way.

    Where the graph never repeats: of any of the first `LONGEST_CHECK`.
    """
    return max(int(topology.sends(t).sum()) for t in _first_rounds(topology, rounds))


def laplacian_max(topology: Topology, rounds: int) -> float:
    """The largest eigenvalue of the Laplacian of any round of a run, all edges taken both ways.

    Where the graph never repeats: n, which none exceeds.
    """
    if topology.period is None:
        return float(topology.agents)
    eigenvalues = []
    for t in _first_rounds(topology, rounds):
        adjacent = (topology.sends(t) | topology.sends(t).T).astype(float)
        eigenvalues.append(float(np.linalg.eigvalsh(np.diag(adjacent.sum(axis=0)) - adjacent)[-1]))
    return max(eigenvalues)


def diameter(topology: Topology) -> int:
    """Hops from one agent to another at most, in a graph that stays as it is in round 1 and is connected."""
    sends = topology.sends(1)
    within, hops = np.eye(topology.agents, dtype=bool), 0
    while not within.all():
        within, hops = within | within @ sends, hops + 1
    return hops
