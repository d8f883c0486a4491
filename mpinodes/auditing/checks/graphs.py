"""Test topologies and mixings. A mixing computes the weights with which an agent averages received messages."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from mpinodes.auditing.checks.failures import Fault, Report, image
from mpinodes.auditing.small_experiments import OF_MIXINGS
from mpinodes.config import registry
from mpinodes.config.public_constants import graph_facts
from mpinodes.core import Diverged, Topology
from mpinodes.core.errors import BadInput
from mpinodes.core.parts import mixed
from mpinodes.topology.facts import one_way_edge

ROUNDS = 30
PURE_MIXING = "outgoing and weights must depend on their arguments alone, and return new values"


def check_mixing(mixing: Any, path: str, folder: Path, seed: int, report: Report) -> None:
    """Test a mixing on graphs of 5 agents, and report faults.

    The graphs are those of `OF_MIXINGS`, with some exceptions:

    - If the mixing is for fixed graphs only, graphs that change in time are left out.
    - If the mixing is for undirected graphs only, directed graphs are left out.
    - If the mixing defines no weights on a graph, this is noted in the report.
    """
    for name in OF_MIXINGS:
        graph = registry.find(registry.TOPOLOGIES, name)(agents=5, seed=seed)
        if (mixing.fixed and graph.period != 1) or (mixing.undirected and one_way_edge(graph, ROUNDS)):
            continue
        try:
            report.take("rounds of weights", mixing_of_all(mixing, graph, name), ROUNDS * graph.agents)
        except Diverged as error:
            report.notes.append(f"{name}: {error}")


def mixing_of_all(mixing: Any, graph: Topology, name: str) -> list[Fault]:
    """Run a mixing for all agents, and return a fault for the first wrong result; empty if all results are right.

    - `outgoing` must return as many scalars as the mixing states.
    - `weights` must return valid weights, and must not change its arguments.
    - A second instance, which handles the agents in reverse order, must give the same results.

    Args:
        mixing: the class of the mixing.
        graph: the graph.
        name: the name of the graph.
    """
    agents, own = range(graph.agents), mixing(graph_facts(graph, ROUNDS))
    reverse = mixed(mixing(graph_facts(graph, ROUNDS)), graph, agents[::-1])
    states, sent = {i: own.init(i) for i in agents}, dict[int, Any]()
    for t in range(1, ROUNDS + 1):
        neighbors = {i: graph.neighborhood(t, i) for i in agents}
        weights = np.zeros((len(agents), len(agents)))
        for i, here in neighbors.items():
            sent[i] = np.array(own.outgoing(states[i], here), dtype=float)
            if sent[i].shape != (own.width,) or not np.isfinite(sent[i]).all():
                where = f"{name}: agent {i}, round {t}: {sent[i]}"
                return [Fault("a wrong number of scalars", where, f"outgoing() must return {own.width} numbers")]
        for i, here in neighbors.items():
            where, given = f"{name}: agent {i}, round {t}", (states[i], here, [sent[j] for j in here.senders])
            before, again = image(given), copy.deepcopy(given)
            made = own.weights(*given)
            if image(given) != before:
                return [Fault("state mutated", f"{where}: weights() changed its arguments", PURE_MIXING)]
            states[i], of_senders, scale = made
            if len(of_senders) != len(here.senders) or not np.isfinite(of_senders).all() or not scale > 0:
                right = f"one finite weight for each of the {len(here.senders)} senders, and a scale above 0"
                return [Fault("invalid weights", f"{where}: {list(of_senders)}, scale {scale}", right)]
            if image(own.weights(*again)) != image(made):
                where += ": weights() differs when called again"
                return [Fault("two values for equal inputs", where, PURE_MIXING)]
            weights[i, list(here.senders)] = of_senders
        there = next(reverse)
        is_same = all(image((sent[i], states[i])) == image((there.said[i], there.states[i])) for i in agents)
        if not is_same or not np.array_equal(weights, there.weights):
            where = f"{name}: round {t}: outgoing() or weights() depends on the order of the agents"
            return [Fault("two values for equal inputs", where, PURE_MIXING)]
    return []


def check_topology(topology: Any, path: str, folder: Path, seed: int, report: Report) -> None:
    """Test a topology with several numbers of agents, and report faults.

    If the topology rejects a number of agents, this is noted in the report. If it rejects all numbers, this is a fault.
    """
    for agents in (1, 2, 3, 4, 6, 8, 9, 16):
        try:
            pair = [topology(agents=agents, seed=seed) for _ in range(2)]
            list(pair[0].edges(1))
        except BadInput as error:
            report.notes.append(f"{agents} agents: not tried: {error}")
            continue
        report.take("rounds of graphs", edges_of(*pair), ROUNDS)
    if not report.tested.get("rounds of graphs"):
        right = "1 to 4, 6, 8, 9 and 16 were tried"
        report.add(Fault("no number of agents fits the topology", topology.__name__, right))


def edges_of(graph: Topology, other: Topology) -> Iterator[Fault]:
    """Test the edges of a graph in the first `ROUNDS` rounds, and yield the first fault.

    An edge must join two different agents. The graph must have the period that it states. Its methods `sends` and
    `neighborhood` must agree with the edges, and a second instance must have the same edges.

    Args:
        graph: the graph.
        other: a second instance of the same graph.
    """
    n, title = graph.agents, f"{graph.title}, {graph.agents} agents"
    later = {t: other.edges(t) for t in range(ROUNDS, 0, -1)}
    for t in range(1, ROUNDS + 1):
        edges, where = graph.edges(t), f"{title}, round {t}"
        if edges != later[t] or edges != graph.edges(t):
            place = f"{where}: edges() differs if rounds are requested in another order, or from another instance"
            right = "a graph must be a pure function of t and seed"
            yield Fault("two values for equal inputs", place, right)
            return
        if any(j == i or not (0 <= j < n and 0 <= i < n) for j, i in edges):
            yield Fault("an invalid edge", f"{where}: {sorted(edges)[:5]}", "an edge must join two different agents")
            return
        sends = [[(j, i) in edges for i in range(n)] for j in range(n)]
        if not np.array_equal(graph.sends(t), sends):
            yield Fault("sends() contradicts edges()", where, "sends(t)[j, i] must say whether (j, i) is an edge")
            return
        for i in range(n):
            here = graph.neighborhood(t, i)
            inn, out = tuple(sorted(j for j, k in edges if k == i)), tuple(sorted(k for j, k in edges if j == i))
            if (here.t, here.agent, here.in_neighbors, here.out_neighbors) != (t, i, inn, out):
                right = f"neighborhood() must have t = {t}, agent = {i}, in_neighbors = {inn} and out_neighbors = {out}"
                yield Fault("neighborhood() contradicts edges()", f"{where}: agent {i}: {here}", right)
                return
        if graph.period is not None and t > graph.period and edges != graph.edges(t - graph.period):
            right = "the graph must repeat after period rounds"
            yield Fault("a graph without its stated period", f"{where}: period {graph.period}", right)
            return
