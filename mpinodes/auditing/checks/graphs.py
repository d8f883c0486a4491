"""The tests of mixings and of topologies."""

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
    """Test a mixing on all graphs that its weights fit."""
    for name in OF_MIXINGS:
        graph = registry.find(registry.TOPOLOGIES, name)(agents=5, seed=seed)
        if (mixing.fixed and graph.period != 1) or (mixing.undirected and one_way_edge(graph, ROUNDS)):
            continue
        try:
            report.take("rounds of weights", list(_mixed(mixing, graph, name)), ROUNDS * graph.agents)
        except Diverged as error:
            report.notes.append(f"{name}: {error}")


class Misfit(Exception):
    """A wrong call of a mixing; the argument is the fault."""


class Strict:
    """A mixing that verifies each call: scalars and weights have the right shape, and no argument is changed."""

    def __init__(self, mixing: Any) -> None:
        self._mixing, self.init = mixing, mixing.init

    def outgoing(self, s: Any, here: Any) -> Any:
        """Return the mixing's scalars, after verifying them."""
        scalars = np.asarray(self._mixing.outgoing(s, here), dtype=float)
        if scalars.shape != (self._mixing.width,) or not np.isfinite(scalars).all():
            where, right = (
                f"agent {here.agent}, round {here.t}: {scalars}",
                f"outgoing() must return {self._mixing.width} numbers",
            )
            raise Misfit(Fault("scalars of another width", where, right))
        return scalars

    def weights(self, s: Any, here: Any, incoming: Any) -> Any:
        """Return the mixing's weights, after verifying them and that a second call gives the same."""
        where, given = f"agent {here.agent}, round {here.t}", copy.deepcopy((s, incoming))
        before = image(given)
        made = self._mixing.weights(given[0], here, given[1])
        if image(given) != before:
            raise Misfit(Fault("state mutated", f"{where}: weights() changed what it was given", PURE_MIXING))
        if len(made[1]) != len(here.senders) or not np.isfinite(made[1]).all() or not made[2] > 0:
            right = f"one finite weight for each of the {len(here.senders)} senders, and a scale above 0"
            raise Misfit(Fault("weights that do not fit", f"{where}: {list(made[1])}, scale {made[2]}", right))
        if image(self._mixing.weights(*copy.deepcopy((s, here, incoming)))) != image(made):
            raise Misfit(Fault("two values for equal inputs", f"{where}: weights() called again", PURE_MIXING))
        return made


def _mixed(mixing: Any, graph: Topology, name: str) -> Iterator[Fault]:
    """Mix twice, the second time with the agents in reverse order: both must send and make the same."""
    agents = range(graph.agents)
    strict: Any = Strict(mixing(graph_facts(graph, ROUNDS)))
    other = mixed(mixing(graph_facts(graph, ROUNDS)), graph, agents[::-1])
    try:
        for t, here in zip(range(1, ROUNDS + 1), mixed(strict, graph, agents), strict=False):
            there = next(other)
            if image([(here.said[i], here.states[i]) for i in agents]) != image(
                [(there.said[i], there.states[i]) for i in agents]
            ) or not np.array_equal(here.weights, there.weights):
                where = f"round {t}: outgoing() or weights() depends on the order of the agents"
                raise Misfit(Fault("two values for equal inputs", where, PURE_MIXING))
    except Misfit as error:
        yield error.args[0]._replace(where=f"{name}: {error.args[0].where}")


def check_topology(topology: Any, path: str, folder: Path, seed: int, report: Report) -> None:
    """Test a graph with several numbers of agents."""
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


def _graph(graph: Topology, other: Topology) -> Iterator[Fault]:
    """Test the edges of a graph against its other methods and an equal second instance."""
    n, title = graph.agents, f"{graph.title}, {graph.agents} agents"
    later = {t: other.edges(t) for t in range(ROUNDS, 0, -1)}
    for t in range(1, ROUNDS + 1):
        edges, where = graph.edges(t), f"{title}, round {t}"
        if edges != later[t] or edges != graph.edges(t):
            yield Fault(
                "two values for equal inputs",
                f"{where}: edges() differs if rounds are requested in another order, or from another instance",
                "a graph must be a pure function of t and seed",
            )
            return
        if any(j == i or not (0 <= j < n and 0 <= i < n) for j, i in edges):
            yield Fault("an edge that cannot be", f"{where}: {sorted(edges)[:5]}", "edges join two agents")
            return
        sends = [[(j, i) in edges for i in range(n)] for j in range(n)]
        if not np.array_equal(graph.sends(t), sends):
            yield Fault("sends() is not edges()", where, "sends(t)[j, i] says whether (j, i) is an edge")
            return
        for i in range(n):
            here = graph.neighborhood(t, i)
            inn, out = tuple(sorted(j for j, k in edges if k == i)), tuple(sorted(k for j, k in edges if j == i))
            if (here.t, here.agent, here.in_neighbors, here.out_neighbors) != (t, i, inn, out):
                yield Fault("neighborhood() is not edges()", f"{where}: agent {i}: {here}", f"in {inn}, out {out}")
                return
        if graph.period is not None and t > graph.period and edges != graph.edges(t - graph.period):
            yield Fault("a period that is none", f"{where}: period {graph.period}", "the graph repeats after a period")
            return
