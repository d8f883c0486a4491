"""The parts that an experiment names, built, and checked against each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import nan, sqrt
from typing import Any

from mpinodes import topology
from mpinodes.config import registry
from mpinodes.config.resolve import find_algorithm, make_stream, make_topology, schedule
from mpinodes.core import sets
from mpinodes.core.errors import BadInput
from mpinodes.core.experiment import Experiment
from mpinodes.core.protocol import Algorithm, Features, Loss, Mechanism, Mixing, Stream, Vector
from mpinodes.core.schedules import Step
from mpinodes.core.seeds import Purpose
from mpinodes.core.seeds import Draws
from mpinodes.losses.linear import LinearLoss, NoisyGradient
from mpinodes.mechanisms import backends as noise

FURTHEST = 52  # hops that a stop spreads over: one bit each of a frame's number
LARGEST_SOLVE = 2000  # dimensions of a local solve: 32 MB a matrix


@dataclass(frozen=True)
class Parts:
    """The parts of one experiment, alike on every rank."""

    experiment: Experiment
    topology: topology.Topology
    stream: Stream
    dimension: int
    blocks: tuple[slice, ...]
    feasible: sets.Set
    algorithm: Algorithm[Any]
    mixing: Mixing
    mechanism: Mechanism
    samples: tuple[int, ...]  # that an agent sees in a round, by agent

    def losses(self, agent: int) -> Callable[[int], Loss]:
        """The losses that an agent sees, with the stochastic error of its gradients."""
        variance = self.experiment.problem.gradient_noise
        clean = self.stream.of(agent)
        if variance == 0:
            return clean
        noise = Seeds(self.experiment.seed, Purpose.GRADIENT_NOISE, agent)
        return lambda t: NoisyGradient(clean(t), variance, t, noise)


def build(experiment: Experiment) -> Parts:
    """The parts that an experiment names.

    Raises:
        BadInput: a file is missing or malformed, or the parts do not fit together.
    """
    graph = make_topology(experiment.topology, experiment.seed)
    problem, privacy = experiment.problem, experiment.privacy
    loss = registry.find("losses", problem.loss, "problem.loss")
    algorithm = find_algorithm(experiment.algorithm)
    whole = privacy.adjacency == "one-round"

    def make_loss(features: Features, targets: Vector) -> LinearLoss:
        divisor = (len(targets) if problem.average else 1.0) / problem.weight
        made: LinearLoss = loss(features, targets, experiment.clip, whole, divisor, problem.regularizer)
        return made

    stream = make_stream(experiment.data, experiment.seed, graph.agents, make_loss)
    samples = _samples(experiment, stream, graph.agents)
    dimension = stream.dimension
    if getattr(algorithm, "unconstrained", False) and problem.set != "none":
        raise BadInput(f"problem.set = {problem.set!r}: {experiment.name} never projects; set problem.set=none")
    if algorithm.decomposable and problem.set == "product-of-balls":
        raise BadInput(
            f"problem.set = 'product-of-balls': the agents of {experiment.name} own no blocks of coordinates; "
            "choose box, ball or none"
        )
    blocks = _blocks(dimension, graph.agents, algorithm.decomposable)
    feasible = sets.make(problem.set, problem.radius, blocks)
    facts = {
        "agents": graph.agents,
        "dimension": dimension,
        "blocks": blocks,
        "step": _step(experiment.step),
        "feasible": feasible,
        "regularizer": problem.regularizer,
        "gdp": nan,
        "epsilon": experiment.epsilon,
        "delta": privacy.delta,
        "degrees": tuple(len(graph.round(1, i).out) for i in range(graph.agents)),
        **_sample_bounds(experiment, loss, stream, samples),
        **_gradient_bounds(experiment, loss, stream, samples, blocks, feasible),
    }
    if experiment.algorithm.get("calibration") == "exact":
        from mpinodes.privacy.curves import gdp_mu  # scipy, which other agents do without

        facts["gdp"] = gdp_mu(experiment.epsilon, privacy.delta)
    hyper = {k: v for k, v in experiment.algorithm.items() if k not in ("name", "path")}
    made = algorithm(**hyper, **{k: v for k, v in facts.items() if k in algorithm.__dataclass_fields__})
    return Parts(
        experiment, graph, stream, dimension, blocks, feasible, made,
        mixing=_mixing(made.mixing, graph, experiment.rounds),
        mechanism=_mechanism(experiment),
        samples=samples,
    )  # fmt: skip


def _samples(experiment: Experiment, stream: Any, agents: int) -> tuple[int, ...]:
    """How many samples an agent sees in a round."""
    batch = experiment.data.get("batch", 1)
    return tuple(map(len, stream.shares)) if batch == "all" else (batch,) * agents


def _sample_bounds(experiment: Experiment, loss: Any, stream: Stream, samples: Sequence[int]) -> dict[str, Any]:
    """What samples do to the losses of their agents, unclipped; from public constants.

    share: by agent, the factor on a sample's loss.
    steepness: half the most that replacing a sample changes its gradient by at one point.
    curvature: largest norm of a sample's Hessian.
    least_modulus, largest_smoothness: between which the curvatures of all agents' losses lie, regularizer and all.
    """
    problem, norm = experiment.problem, stream.feature_norm
    terms = [problem.weight * (1 if problem.average else k) for k in samples]
    return {
        "share": [term / k for term, k in zip(terms, samples, strict=True)],
        "steepness": min(loss.steepness() * norm, loss.sample_change(norm) / 2),
        "curvature": loss.sample_smoothness(norm, norm),
        "least_modulus": problem.regularizer + min(terms) * loss.sample_modulus,
        "largest_smoothness": problem.regularizer + max(terms) * loss.sample_smoothness(norm, norm),
    }


def _step(section: dict[str, Any]) -> Step | None:
    """The step schedule, of an algorithm that has one."""
    made: Step | None = schedule(section)(**{k: v for k, v in section.items() if k != "kind"}) if section else None
    return made


def _blocks(dimension: int, agents: int, decomposable: bool) -> tuple[slice, ...]:
    """The coordinates that each agent's gradients are taken of: all, or its own."""
    if decomposable:
        return (slice(0, dimension),) * agents
    try:
        return sets.blocks(dimension, agents)
    except ValueError as error:
        raise BadInput(f"{error}: fewer agents, or data of more dimensions") from error


def _mixing(name: str, graph: topology.Topology, rounds: int) -> Mixing:
    """The mixing, with the public facts of the graph that it asks for."""
    part = registry.find("mixing", name, "algorithm.mixing")
    facts: dict[str, Callable[[], float]] = {
        "agents": lambda: graph.agents,
        "start": lambda: (
            1 / (graph.agents if topology.is_eulerian(graph, rounds) else topology.out_edges(graph, rounds))
        ),
        "laplacian_max": lambda: topology.laplacian_max(graph, rounds),
    }
    made: Mixing = part(**{key: fact() for key, fact in facts.items() if key in part.__dataclass_fields__})
    return made


def _gradient_bounds(
    experiment: Experiment,
    loss: Any,
    stream: Stream,
    samples: Sequence[int],
    blocks: tuple[slice, ...],
    feasible: sets.Set,
) -> dict[str, Any]:
    """How far an agent's gradient [∇f]_B, as clipped, can move in L2, by agent; all from public constants.

    change: between adjacent data, at one point. A replaced sample moves the sum of clipped gradients by 2·clip,
        their mean by 2·clip/batch; where the round's whole gradient is clipped, replacing it moves it by 2·clip.
    smoothness: per L2 change of the point, on the same data: Σ_k ℓ''‖[a_k]_B‖‖a_k‖, where only the block of the
        point moves with ‖[a_k]_B‖ for both norms. Clipping a vector of fixed direction, or projecting, adds nothing.
    spread: between any two points of 𝒳, on the same data.

    The regularizer's gradient is no part of it: λ times the point, whatever the data.
    """
    weight, average, clip = experiment.problem.weight, experiment.problem.average, experiment.clip
    whole = experiment.privacy.adjacency == "one-round"
    of_one = min(2 * clip, loss.sample_change(stream.feature_norm))
    change, spread, smoothness = [], [], []
    for block, batch in zip(blocks, samples, strict=True):
        terms = weight * (1.0 if average else batch)
        change.append(2 * clip if whole else of_one * weight / (batch if average else 1.0))
        largest = 2 * clip * (1.0 if whole else terms)
        size = block.stop - block.start
        moving = size if feasible.by_blocks else stream.dimension
        norms = [min(stream.feature_norm, stream.feature_bound * sqrt(k)) for k in (size, moving)]
        smooth = terms * loss.sample_smoothness(*norms)
        smoothness.append(smooth)
        spread.append(min(largest, smooth * feasible.diameter(moving)))
    return {"change": change, "spread": spread, "smoothness": smoothness}


def _no_check(rounds: int, private: bool) -> None:
    """An algorithm with no conditions of its own."""


def _mechanism(experiment: Experiment) -> Mechanism:
    privacy = experiment.privacy
    name = privacy.mechanism if experiment.private else "none"
    part: Any = registry.find("mechanisms", name, "privacy.mechanism")
    settings: list[Any] = []
    if experiment.private:
        settings = [experiment.epsilon, None if privacy.scale == "calibrated" else privacy.scale]
        if experiment.noise.backend != "numpy":  # which every mechanism has
            settings.append(noise.backend(experiment.noise.backend))
    made: Mechanism = part(*settings)
    return made


def check(parts: Parts, ranks: int | None) -> int:
    """What can only be known with all parts at hand; returns the B of the topology's B-connectivity.

    Raises:
        BadInput: the agents do not fit the ranks, or the graph the algorithm.
    """
    graph, rounds = parts.topology, parts.experiment.rounds
    where = graph.source
    only = getattr(parts.algorithm, "only_agents", None)
    if only is not None and graph.agents != only:
        raise BadInput(
            f"{parts.experiment.name} runs on {only} agent, and {where} has {graph.agents}: "
            f"start it with mpirun -n {only + 1} and leave the topology out"
        )
    if ranks is not None and ranks != graph.agents + 1:
        raise BadInput(
            f"{where} has {graph.agents} agents, so with the logger it needs {graph.agents + 1} ranks, "
            f"and mpirun started {ranks}: use mpirun -n {graph.agents + 1}, or another topology"
        )
    if getattr(parts.mixing, "fixed", False) and graph.period != 1:
        raise BadInput(
            f"{where}: it changes from round to round, and {parts.algorithm.mixing} weights need a fixed graph: set "
            f"topology.name={'ring' if getattr(parts.mixing, 'undirected', False) else 'random-digraph'}, or another "
            "that stays"
        )
    if getattr(parts.mixing, "undirected", False) and (edge := topology.one_way_edge(graph, rounds)):
        t, j, i = edge
        remedy = "set topology.undirected=true" if graph.from_file else "take topology.name=ring or erdos-renyi"
        raise BadInput(
            f"{where}: round {t}: agent {j} sends to agent {i}, but not {i} to {j}, and {parts.algorithm.mixing} "
            f"weights need an undirected graph: {remedy}"
        )
    try:
        getattr(parts.algorithm, "check", _no_check)(rounds, parts.experiment.private)
    except ValueError as error:
        raise BadInput(f"{parts.experiment.name}: {error}") from error
    if getattr(parts.algorithm, "solves", False) and parts.dimension > LARGEST_SOLVE:
        raise BadInput(
            f"d = {parts.dimension}: {parts.experiment.name} solves with d x d matrices, and d may be at most "
            f"{LARGEST_SOLVE}"
        )
    if getattr(parts.algorithm, "stop", 0.0) and graph.period != 1:
        raise BadInput(f"{where}: algorithm.stop needs a fixed graph, over which the stop spreads")
    if getattr(parts.algorithm, "stop", 0.0) and (hops := topology.diameter(graph)) > FURTHEST:
        raise BadInput(
            f"{where}: agents are up to {hops} hops apart, and algorithm.stop spreads over {FURTHEST}: set it to 0, or "
            "take another graph"
        )
    for r in range(1, parts.experiment.repeats):  # a graph drawn from another seed
        topology.connectivity(make_topology(parts.experiment.topology, parts.experiment.seed + r), rounds)
    return topology.connectivity(graph, rounds)
