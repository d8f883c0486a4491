"""Tests of mixings and of topologies."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from mpinodes.auditing.checks.failures import Fault, Report, image
from mpinodes.config import registry
from mpinodes.config.public_constants import graph_facts
from mpinodes.core import Diverged, Topology
from mpinodes.core.errors import BadInput
from mpinodes.topology.facts import one_way_edge

ROUNDS = 30
GRAPHS = ("complete", "ring", "random-digraph", "random-digraph-each-round", "erdos-renyi-each-round", "eulerian")
PURE_MIXING = "outgoing and weights are functions of their arguments alone, and return new values"


def check_mixing(mixing: Any, path: str, folder: Path, seed: int, report: Report) -> None:
    """Weights, on graphs that they fit."""
    for name in GRAPHS:
        graph = registry.find(registry.TOPOLOGIES, name)(agents=5, seed=seed)
        if (mixing.fixed and graph.period != 1) or (mixing.undirected and one_way_edge(graph, ROUNDS)):
            continue
        try:
            report.take("rounds of weights", list(_mixed(mixing, graph, name)), ROUNDS * graph.agents)
        except Diverged as error:
            report.notes.append(f"{name}: {error}")


def _mixed(mixing: Any, graph: Topology, name: str) -> Iterator[Fault]:
    one, other = (mixing(graph_facts(graph, ROUNDS)) for _ in range(2))
    n = graph.agents
    states, again = [one.init(i) for i in range(n)], [other.init(i) for i in range(n)]
    for t in range(1, ROUNDS + 1):
        places = [graph.neighborhood(t, i) for i in range(n)]
        said = [np.asarray(one.outgoing(s, here), dtype=float) for s, here in zip(states, places, strict=True)]
        for i, here in enumerate(places):
            where = f"{name}: agent {i}, round {t}"
            if said[i].shape != (one.width,) or not np.isfinite(said[i]).all():
                yield Fault("scalars of another width", f"{where}: {said[i]}", f"outgoing() gives {one.width} numbers")
                return
            incoming = [said[j].copy() for j in here.senders]
            before = image((states[i], incoming))
            kept = copy.deepcopy(states[i])
            states[i], weights, scale = _pure(one, states[i], here, incoming)
            if image((kept, incoming)) != before or np.asarray(one.outgoing(kept, here)).tobytes() != said[i].tobytes():
                yield Fault("state mutated", f"{where}: weights() changed what it was given", PURE_MIXING)
                return
            if len(weights) != len(here.senders) or not np.isfinite(weights).all() or not scale > 0:
                yield Fault(
                    "weights that do not fit",
                    f"{where}: {list(weights)}, scale {scale}",
                    f"one finite weight for each of the {len(here.senders)} senders, and a scale above 0",
                )
                return
        for i in reversed(range(n)):
            incoming = [np.asarray(other.outgoing(again[j], places[j]), dtype=float) for j in places[i].senders]
            if image(incoming) != image([said[j] for j in places[i].senders]):
                yield Fault("two values for equal inputs", f"{name}: outgoing(), round {t}", PURE_MIXING)
                return
        again = [
            other.weights(again[i], places[i], [said[j].copy() for j in places[i].senders])[0]
            for i in reversed(range(n))
        ][::-1]
        if image(again) != image(states):
            yield Fault(
                "two values for equal inputs",
                f"{name}: weights(), round {t}: agents in another order have other states",
                PURE_MIXING,
            )
            return


def _pure(mixing: Any, s: Any, here: Any, incoming: Any) -> Any:
    mixing.weights(copy.deepcopy(s), here, copy.deepcopy(incoming))
    return mixing.weights(s, here, incoming)


def check_topology(topology: Any, path: str, folder: Path, seed: int, report: Report) -> None:
    """A graph, of several sizes."""
    tried = 0
    for agents in (1, 2, 3, 4, 6, 8, 9, 16):
        try:
            pair = [topology(agents=agents, seed=seed) for _ in range(2)]
            list(pair[0].edges(1))
        except BadInput as error:
            report.notes.append(f"{agents} agents: not tried: {error}")
            continue
        tried += 1
        report.take("rounds of graphs", list(_graph(*pair)), ROUNDS)
    if not tried:
        report.take("", [Fault("no number of agents fits it", topology.__name__, "agents=2 to 16 were tried")], 0)


def _graph(one: Topology, other: Topology) -> Iterator[Fault]:
    n, title = one.agents, f"{one.title}, {one.agents} agents"
    later = {t: other.edges(t) for t in range(ROUNDS, 0, -1)}
    for t in range(1, ROUNDS + 1):
        edges, where = one.edges(t), f"{title}, round {t}"
        if edges != later[t] or edges != one.edges(t):
            yield Fault(
                "two values for equal inputs",
                f"{where}: edges() differs when rounds are asked for in another order, or of another instance",
                "a graph is a pure function of t and seed",
            )
            return
        if any(j == i or not (0 <= j < n and 0 <= i < n) for j, i in edges):
            yield Fault("an edge that cannot be", f"{where}: {sorted(edges)[:5]}", "no agent sends to itself or beyond")
            return
        if not np.array_equal(one.sends(t), _matrix(n, edges)):
            yield Fault("sends() is not edges()", where, "sends(t)[j, i] is whether (j, i) is an edge")
            return
        for i in range(n):
            here = one.neighborhood(t, i)
            inn, out = tuple(sorted(j for j, k in edges if k == i)), tuple(sorted(k for j, k in edges if j == i))
            if (here.t, here.agent, here.in_neighbors, here.out_neighbors) != (t, i, inn, out):
                yield Fault("neighborhood() is not edges()", f"{where}: agent {i}: {here}", f"in {inn}, out {out}")
                return
        if one.period is not None and t > one.period and edges != one.edges(t - one.period):
            yield Fault("a period that is none", f"{where}: period {one.period}", "after a period the graph repeats")
            return


def _matrix(n: int, edges: Any) -> Any:
    sends = np.zeros((n, n), dtype=bool)
    for j, i in edges:
        sends[j, i] = True
    return sends
