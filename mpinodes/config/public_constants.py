"""Compute the public constants of a run (`core.parts.Run`), such as bounds on gradients.

The constants depend on the experiment, the graph, and public facts about the data, such as the number of samples. The
constants do not depend on the values of samples.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, sqrt
from typing import Any

from mpinodes.config import registry
from mpinodes.core.errors import BadInput
from mpinodes.core.experiment import Experiment
from mpinodes.core.parts import GraphFacts, Run, Stream, Topology


def constants_of(
    experiment: Experiment, graph: Topology, stream: Stream, classes: registry.Classes, samples: Sequence[int]
) -> Run:
    """Return the public constants of a run, such as the number of agents and bounds on gradients.

    A bound on gradients is inf if neither clipping nor the class of the loss proves a finite bound.

    Args:
        experiment: the complete experiment.
        graph: the topology.
        stream: the stream of losses.
        classes: the classes of the parts.
        samples: for each agent, the number of samples in the loss of a round (`samples_of`).

    Raises:
        BadInput: the agents decide blocks of coordinates, and there are more agents than coordinates.
    """
    problem, clip, loss, n = experiment.problem, experiment.clip, classes.loss, graph.agents
    d = stream.dimension * (stream.classes if loss.per_class else 1)
    blocks = (slice(0, d),) * n if classes.algorithm.decomposable else shared_blocks(d, n)
    settings = registry.picked(registry.SETS, classes.feasible, problem.settings)
    feasible, steps = classes.feasible(problem.radius, blocks, **settings), None
    if classes.steps:
        steps = classes.steps(**registry.picked(registry.SCHEDULES, classes.steps, experiment.step))
    terms = [problem.weight * (1 if problem.average else k) for k in samples]
    norm, known = stream.feature_norm, stream.makes_all_losses
    convex = known and loss.convex
    adjacency = experiment.privacy.adjacency
    replaced = samples if adjacency == "one-agent" else (1,) * n
    # the class that defines `update` must state `gradients_in_set` itself
    updating = next(kind for kind in classes.algorithm.__mro__ if "update" in vars(kind))
    in_set = vars(updating).get("gradients_in_set", False)

    # Bounds on the L2 norm of each agent's clipped gradient [∇f]_B. The bounds do not include the gradient of the
    # regularizer, which is λ times the point for all data. For a two-point estimate over k coordinates the bounds are
    # k times as large, and only the clip of a sample bounds the estimate (`losses.two_point`).
    whole, estimated = experiment.clips_rounds, bool(experiment.feedback.points)
    # A secret batch counts as a batch of its expected size: bounds are those of all samples over the rate.
    drawn = [experiment.data["batch"] / k for k in samples] if experiment.sampling == "fixed" else [0.0] * n
    rates = (float(experiment.data["rate"]),) * n if experiment.sampling == "poisson" else tuple(drawn)
    of_one = 2 * clip if estimated or not known else min(2 * clip, loss.sample_sensitivity(norm))
    if adjacency == "zero-out" and experiment.sampling != "fixed":  # one gradient, instead of the difference of two
        of_one = clip
    elif adjacency == "zero-out" or experiment.sampling == "poisson":
        # A batch of fixed size may hold another sample in the place of the zeroed one. A Poisson batch is priced as two
        # zeroed samples. What a loss knows about two samples' gradients does not bound the change to zero.
        of_one = 2 * clip
    error = 0.0
    if estimated:  # an estimate has the rounding errors of four loss values, divided by 2r
        error = loss.value_rounding(d, norm, sqrt(n) * feasible.reach(d)) if known else inf
        error *= 2 / (experiment.feedback.radius * experiment.rounds**-experiment.feedback.decay)
    sensitivity, largest, lipschitz, rounding = [], [], [], []
    for block, batch, changed, weight, rate in zip(
        blocks, samples, replaced, terms, [rate or 1.0 for rate in rates], strict=True
    ):
        size = block.stop - block.start
        scale = float(size) if estimated else 1.0
        # A replaced sample changes the sum of clipped gradients by up to 2·clip, and their mean by up to 2·clip/batch.
        # If the gradient of a round is clipped as a whole, replacing the round changes the gradient by up to 2·clip.
        of_all = 2 * clip if whole else changed * of_one * problem.weight / (batch if problem.average else 1.0) / rate
        sensitivity.append(scale * of_all)
        # The Lipschitz constant of the gradient is Σ_k ℓ''‖[a_k]_B‖‖a_k‖, or Σ_k ℓ''‖[a_k]_B‖² if only the block B of
        # the point changes. Clipping and projecting do not increase the constant.
        moving = size if feasible.by_blocks else d
        norms = [min(norm, stream.feature_bound * sqrt(k)) for k in (size, moving)]
        smooth = scale * weight * loss.sample_smoothness(*norms) / rate if known else inf
        lipschitz.append(smooth)
        most = scale * 2 * clip * (1.0 if whole else weight / rate)
        rounding.append(min(scale * weight * error, most))
        within = smooth * feasible.diameter(moving) + rounding[-1] if in_set or estimated else inf
        largest.append(min(most, within))

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
        grad_sensitivity=tuple(sensitivity),
        grad_range=tuple(largest),
        grad_lipschitz=tuple(lipschitz),
        sample_weight=tuple(term / k for term, k in zip(terms, samples, strict=True)),
        replaced=tuple(replaced),
        sample_sensitivity=min(loss.slope_bound() * norm, loss.sample_sensitivity(norm) / 2) if convex else inf,
        sample_curvature=loss.sample_smoothness(norm, norm) if convex else inf,
        sample_rank=loss.hessian_rank(d),
        least_modulus=problem.regularizer + min(terms) * loss.sample_modulus,
        largest_smoothness=problem.regularizer + max(terms) * loss.sample_smoothness(norm, norm),
        steps=steps,
        gdp=_gdp,
        grad_rounding=tuple(rounding),
        rates=rates,
    )


def _gdp(epsilon: float, delta: float) -> float:
    """Return the largest m for which m-Gaussian DP implies (ε, δ)-DP."""
    from mpinodes.privacy.curves import gdp_mu  # imported here because most agents do not need scipy

    return gdp_mu(epsilon, delta)


def samples_of(experiment: Experiment, stream: Stream, agents: int) -> tuple[int, ...]:
    """Return, for each agent, the number of samples in the agent's loss of one round.

    If batches are secret (`data.sampling`), this loss has all training samples of the agent; a batch is drawn from
    them.

    Raises:
        BadInput: an agent has no samples.
    """
    batch = experiment.shown
    samples = tuple(map(len, stream.shares or ())) if batch == "all" else (batch,) * agents
    if 0 in samples:
        raise BadInput(f"data: agent {samples.index(0)} has no training sample: use fewer agents, or more data")
    return samples


def graph_facts(graph: Topology, rounds: int | None) -> GraphFacts:
    """Return the facts about the graph from which a mixing (a rule for the weights of messages) computes its weights.

    Args:
        graph: the topology.
        rounds: the number of rounds of the run. With None, only the number of agents can be read, which is all that an
            `anytime` mixing needs; reading any other fact raises a ValueError.
    """

    def compute(fact: str) -> Any:
        from mpinodes.topology import facts  # imported here because most agents do not need it

        if rounds is None:
            raise ValueError(
                "a mixing that states `anytime = True` must not read a property of the graph that depends on the "
                "number of rounds: state `anytime = False`"
            )
        return getattr(facts, fact)(graph, rounds)

    return GraphFacts(graph.agents, compute)


def shared_blocks(dimension: int, agents: int) -> tuple[slice, ...]:
    """Partition the coordinates into consecutive blocks, one for each agent, with sizes that differ by at most 1.

    Raises:
        BadInput: there are fewer coordinates than agents.
    """
    if dimension < agents:
        raise BadInput(
            f"{dimension} coordinates cannot be divided among {agents} agents: set fewer agents, or use data with "
            "more features"
        )
    small, larger = divmod(dimension, agents)
    ends = [i * small + min(i, larger) for i in range(agents + 1)]
    return tuple(map(slice, ends, ends[1:]))
