"""Compute the public constants that an algorithm may know of its run: from experiment and graph, never from data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf, sqrt
from typing import Any

from mpinodes.config import registry
from mpinodes.core.errors import BadInput
from mpinodes.core.experiment import Experiment
from mpinodes.core.parts import GraphFacts, Run, SampleLoss, Schedule, Set, Stream, Topology


def constants_of(
    experiment: Experiment,
    graph: Topology,
    stream: Stream,
    loss: type[SampleLoss],
    algorithm: type[Any],
    set_class: type[Set],
    steps: Schedule | None,
) -> Run:
    """Return the public constants of a run.

    Constants of the loss's class hold only if the stream surely makes every loss of that class, and constants for
    minimizers only if the loss is convex. Otherwise the worst case is assumed.

    Raises:
        BadInput: an agent has no samples, or there are more agents than coordinates to distribute among them.
    """
    problem, n = experiment.problem, graph.agents
    d = stream.dimension * (stream.classes if loss.per_class else 1)
    blocks = (slice(0, d),) * n if algorithm.decomposable else shared_blocks(d, n)
    feasible = set_class(problem.radius, blocks, **registry.picked(registry.SETS, set_class, problem.settings))
    samples = samples_of(experiment, stream, n)
    terms = [problem.weight * (1 if problem.average else k) for k in samples]
    norm = stream.feature_norm
    replaced = samples if experiment.privacy.adjacency == "one-agent" else (1,) * n
    # the class that defines `update` must state where it takes gradients
    updating = next(kind for kind in algorithm.__mro__ if "update" in vars(kind))
    in_set = vars(updating).get("gradients_in_set", False)
    bounds = _gradient_bounds(experiment, loss, stream, samples, replaced, blocks, d, feasible, in_set)
    sensitivity, largest, lipschitz, rounding = bounds
    convex = stream.makes_all_losses and loss.convex

    def gdp(epsilon: float, delta: float) -> float:
        from mpinodes.privacy.curves import gdp_mu  # imports scipy, which most agents do not need

        return gdp_mu(epsilon, delta)

    return Run(
        agents=n,
        rounds=experiment.rounds,
        dimension=d,
        blocks=blocks,
        degrees=tuple(len(graph.neighborhood(1, i).out_neighbors) for i in range(n)),
        feasible=feasible,
        regularizer=problem.regularizer,
        private=experiment.private,
        epsilon=experiment.privacy.epsilon,
        delta=experiment.privacy.delta,
        grad_sensitivity=sensitivity,
        grad_range=largest,
        grad_lipschitz=lipschitz,
        sample_weight=tuple(term / k for term, k in zip(terms, samples, strict=True)),
        replaced=replaced,
        sample_sensitivity=min(loss.slope_bound() * norm, loss.sample_sensitivity(norm) / 2) if convex else inf,
        sample_curvature=loss.sample_smoothness(norm, norm) if convex else inf,
        sample_rank=loss.hessian_rank(d),
        least_modulus=problem.regularizer + min(terms) * loss.sample_modulus,
        largest_smoothness=problem.regularizer + max(terms) * loss.sample_smoothness(norm, norm),
        steps=steps,
        gdp=gdp,
        grad_rounding=rounding,
    )


def samples_of(experiment: Experiment, stream: Stream, agents: int) -> tuple[int, ...]:
    """Return the number of samples of each agent in a round.

    Raises:
        BadInput: an agent has no samples.
    """
    batch = experiment.data.get("batch", 1)
    samples = tuple(map(len, stream.shares or ())) if batch == "all" else (batch,) * agents
    if 0 in samples:
        raise BadInput(f"data: agent {samples.index(0)} has no training sample: fewer agents, or more data")
    return samples


def graph_facts(graph: Topology, rounds: int | None) -> GraphFacts:
    """Return facts of the graphs of a run of `rounds` rounds, for a mixing; None for mixings that are `anytime`."""

    def over(fact: str) -> Callable[[], Any]:
        def compute() -> Any:
            from mpinodes.topology import facts  # most agents do not need it

            if rounds is None:
                raise ValueError("this mixing states that it is anytime, but needs a fact of the graphs of all rounds")
            return getattr(facts, fact)(graph, rounds)

        return compute

    return GraphFacts(graph.agents, *map(over, ("is_eulerian", "out_edges", "laplacian_max")))


def shared_blocks(dimension: int, agents: int) -> tuple[slice, ...]:
    """Return the block of coordinates of each agent; the blocks are a partition, of sizes as equal as possible.

    Raises:
        BadInput: there are fewer coordinates than agents.
    """
    if dimension < agents:
        raise BadInput(
            f"{dimension} coordinates cannot be shared out among {agents} agents: set fewer agents, or use data with "
            "more features"
        )
    small, larger = divmod(dimension, agents)
    ends = [i * small + min(i, larger) for i in range(agents + 1)]
    return tuple(map(slice, ends, ends[1:]))


def _gradient_bounds(
    experiment: Experiment,
    loss: type[SampleLoss],
    stream: Stream,
    samples: Sequence[int],
    replaced: Sequence[int],
    blocks: tuple[slice, ...],
    dimension: int,
    feasible: Set,
    in_set: bool,
) -> tuple[tuple[float, ...], ...]:
    """Return bounds on how far each agent's clipped gradient [∇f]_B can move in L2.

    The regularizer's gradient is not included, because it is λ times the point for all data. For two-point estimates
    over k coordinates the first three bounds are k times as large, and only the clip of a sample is known
    (`losses.two_point`).

    Returns:
        Four tuples with a number for each agent.
        The sensitivity is the bound between adjacent data at one point. A replaced sample moves the sum of clipped
        gradients by 2·clip and their mean by 2·clip/batch. All samples of an agent move the sum by 2·clip·batch and the
        mean by 2·clip. If the gradient of a round is clipped as a whole, replacing the round moves it by 2·clip.
        The range is the bound between any two points on the same data; between points of 𝒳 if `in_set`.
        The Lipschitz constant bounds the change per L2 change of the point on the same data: Σ_k ℓ''‖[a_k]_B‖‖a_k‖, or
        with ‖[a_k]_B‖ for both norms if only the block of the point moves. Clipping and projecting do not increase it.
        The rounding is the bound on the rounding of a two-point estimate: `value_rounding` of four values, over 2r.
    """
    weight, average, clip = experiment.problem.weight, experiment.problem.average, experiment.clip
    whole, estimated = experiment.privacy.adjacency == "one-round", bool(experiment.feedback.points)
    known = stream.makes_all_losses
    of_one = 2 * clip if estimated or not known else min(2 * clip, loss.sample_sensitivity(stream.feature_norm))
    error = 0.0
    if estimated:
        farthest = sqrt(len(blocks)) * feasible.reach(dimension)
        error = loss.value_rounding(dimension, stream.feature_norm, farthest) if known else inf
        error *= 2 / (experiment.feedback.radius * experiment.rounds**-experiment.feedback.decay)
    sensitivity, largest, lipschitz, rounding = [], [], [], []
    for block, batch, changed in zip(blocks, samples, replaced, strict=True):
        size = block.stop - block.start
        scale = float(size) if estimated else 1.0
        terms = weight * (1.0 if average else batch)
        of_all = 2 * clip if whole else changed * of_one * weight / (batch if average else 1.0)
        sensitivity.append(scale * of_all)
        most = scale * 2 * clip * (1.0 if whole else terms)
        moving = size if feasible.by_blocks else dimension
        norms = [min(stream.feature_norm, stream.feature_bound * sqrt(k)) for k in (size, moving)]
        smooth = scale * terms * loss.sample_smoothness(*norms) if known else inf
        lipschitz.append(smooth)
        rounding.append(min(scale * terms * error, most))
        within = smooth * feasible.diameter(moving) + rounding[-1] if in_set or estimated else inf
        largest.append(min(most, within))
    return tuple(sensitivity), tuple(largest), tuple(lipschitz), tuple(rounding)
