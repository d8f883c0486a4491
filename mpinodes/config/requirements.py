"""Check that the parts of an experiment can be used together.

Each function whose name begins with `of_` yields an error message for each conflict that it finds. A part states its
needs by class attributes. To suggest other parts in a message, this module searches all installed parts of a kind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from math import inf, isinf
from numbers import Real
from typing import Any

import msgspec

from mpinodes.config import registry
from mpinodes.config.registry import Classes
from mpinodes.core.errors import BadInput, is_users, place_of
from mpinodes.core.experiment import Experiment
from mpinodes.core.parts import Algorithm, SampleLoss, Setup, Stream, Topology
from mpinodes.topology import facts

FURTHEST = 52  # largest diameter of the graph for an early end: a frame stores one bit per hop in the bits of a double
MOST_STEPS = 100_000  # step sizes of a user's schedule that are computed before round 1
LARGEST_SOLVE = 2000  # largest dimension of a local minimization, in which a d x d matrix takes 32 MB


def _choose(kind: registry.PartKind, suits: Callable[[Any], bool]) -> str:
    """Return a text that suggests other parts of a kind, such as "algorithm.name=dola (or dpsda-ps)".

    The text names at most seven parts. If no part is suitable, the text has `...` in place of a name.

    Args:
        kind: the kind of the parts.
        suits: returns whether the class of a part is suitable.
    """
    first, *others = [name for name in registry.names(kind) if suits(registry.find(kind, name))] or ["..."]
    return f"{kind.key}={first}" + (f" (or {', '.join(others[:6])}{', ...' * (len(others) > 6)})" if others else "")


def of_parts(e: Experiment, parts: Classes) -> Iterator[str]:
    """Yield an error message for each conflict between the settings and the chosen classes.

    Only conflicts that can be found without the data and the graph are reported.
    """
    algorithm, stream, loss = parts.algorithm, parts.stream, parts.loss
    partition, batch = e.data["partition"], e.shown

    def decomposable() -> str:
        return _choose(registry.ALGORITHMS, lambda a: a.decomposable)

    if not algorithm.decomposable and partition != "shared":
        yield (
            f"data.partition = {partition!r}: the agents of {e.name} share one loss, and each decides a block of "
            f"coordinates; set data.partition=shared, or {decomposable()}"
        )
    if algorithm.whole_data and not shows_all(stream):
        yield (
            f"{registry.named(registry.STREAMS, e.data)} has new samples in every round, but {e.name} needs "
            f"the same losses in every round; choose other data: {_choose(registry.STREAMS, shows_all)}"
        )
    elif algorithm.whole_data and batch != "all":
        yield (
            f"data.batch = {batch!r}: the losses of {e.name} are the same in every round, so each agent needs all its "
            "samples in every round; set data.batch=all"
        )
    if e.privacy.adjacency == "one-agent" and partition == "shared":
        yield (
            "privacy.adjacency = 'one-agent': with data.partition = 'shared' all agents have the same samples; set "
            f"{'' if algorithm.decomposable else f'{decomposable()} with '}data.partition=even, or "
            "privacy.adjacency=one-round"
        )
    weights = e.algorithm["mixing"]
    for key in ("loss", "churn", "delay", "stragglers"):
        value, is_lost = getattr(e.faults, key), key in ("loss", "churn")
        bears = algorithm.bears_loss if is_lost else algorithm.bears_delay
        if value and not (bears and registry.mixing_class(algorithm, weights).under_faults):
            yield (
                f"faults.{key} = {value!r}: {f'the {weights} weights of ' if bears else ''}{e.name} cannot handle "
                f"messages that {'do not arrive' if is_lost else 'come late'}; leave faults.{key} out, or set "
                f"{_choose(registry.ALGORITHMS, lambda a: a.bears_loss and a.bears_delay)}"
            )
    yield from _sampling(e, parts)
    yield from _feedback(e, algorithm)
    yield from _noise(e, parts)
    if algorithm.solves:
        if not isinf(e.clip) or e.clips_rounds or e.privacy.adjacency == "zero-out":
            agent = e.privacy.clipping == "agent"
            key, value = ("clipping", "agent") if agent else ("adjacency", e.privacy.adjacency)
            key, value = ("clip", e.privacy.clip) if not isinf(e.clip) else (key, value)
            yield (
                f"privacy.{key} = {value!r}: {e.name} minimizes whole losses without clipping, so its privacy depends "
                "on the loss and the norm of the features; set privacy.clip=inf, and privacy.adjacency=one-sample or "
                "one-agent"
            )
        if not loss.has_prox:
            yield (
                f"{registry.named(registry.LOSSES, e.problem)}: {e.name} minimizes by Newton's method, which needs "
                "a twice differentiable loss; set "
                f"{_choose(registry.LOSSES, lambda other: other.has_prox and other.per_class == loss.per_class)}"
            )
        if e.problem.gradient_noise:
            yield (
                f"problem.gradient_noise = {e.problem.gradient_noise!r}: {e.name} minimizes whole losses, "
                "without random gradients; leave problem.gradient_noise out"
            )
    if algorithm.decomposable and parts.feasible.of_blocks:
        setting = registry.named(registry.SETS, e.problem)
        yield (
            f"{setting}: in this set each agent decides a block of coordinates, but the agents of {e.name} decide all "
            "coordinates; choose another set"
        )


def shows_all(stream: type[Stream]) -> bool:
    """Return whether `data.batch` of a stream may be "all": the loss of a round then has all samples of an agent.

    With `data.sampling = poisson`, the agent draws its batch from these samples. A user's stream may accept "all", and
    yet give an agent fewer samples.
    """
    with suppress(msgspec.ValidationError, KeyError):
        return bool(msgspec.convert("all", registry.keys(registry.STREAMS, stream)["batch"].type))
    return False


def _sampling(e: Experiment, parts: Classes) -> Iterator[str]:
    """Yield an error message for each setting that cannot be used with secret batches (`data.sampling`).

    A secret batch is a batch that an agent draws by random numbers that only the agent knows. If `data.sampling` is
    "none", there are no secret batches, and setting `data.rate` is the only error.
    """
    scheme, adjacency, batch = f"data.sampling = {e.sampling!r}", e.privacy.adjacency, e.data.get("batch")
    algorithm, stream, loss = parts.algorithm, parts.stream, parts.loss
    if e.sampling == "none":
        if "rate" in e.data:
            yield f"data.rate = {e.data['rate']:g} has no effect: set data.sampling=poisson, or leave data.rate out"
        return
    if (e.sampling == "poisson") != ("rate" in e.data):
        is_missing = e.sampling == "poisson"
        problem = "is missing; set it to a probability" if is_missing else "has no effect; set data.batch instead"
        yield f"{scheme}: data.rate {problem}"
    if shows_all(stream) and (e.sampling == "poisson") != (batch == "all"):
        remedy = "leave data.batch out" if e.sampling == "poisson" else "set data.batch to a number of samples"
        yield f"{scheme}: data.batch = {batch!r} does not fit this sampling: {remedy}"
    source = registry.named(registry.STREAMS, e.data)
    if is_users(stream) or not shows_all(stream):
        yield (
            f"{scheme}: secret batches are drawn from all samples of an agent, but {source} may not give an agent all "
            f"samples in a round; set data.sampling=none, or choose other data: {_choose(registry.STREAMS, shows_all)}"
        )
    if loss.batch is not SampleLoss.batch:
        yield f"{scheme}: {registry.named(registry.LOSSES, e.problem)} defines batch itself; leave its method batch out"
    if adjacency in ("one-round", "one-agent"):
        yield (
            f"{scheme}: secret batches do not lower the epsilon for privacy.adjacency = {adjacency!r}; set "
            "privacy.adjacency to zero-out or one-sample"
        )
    elif adjacency == "one-sample" and e.sampling == "poisson" and e.clips_rounds:
        yield (
            f"{scheme}: with privacy.clipping = 'agent', epsilon is proven only for zero-out, not for one-sample; set "
            "privacy.adjacency=zero-out"
        )
    if algorithm.solves or algorithm.whole_data:
        uses = "minimizes whole losses" if algorithm.solves else "needs the same losses in every round"
        yield f"{scheme}: {e.name} {uses}; set data.sampling=none"
    elif len(algorithm.vectors) > 1:
        yield f"{scheme}: no epsilon is proven if {e.name} sends several vectors of one batch; set data.sampling=none"
    if e.feedback.points or e.feedback.delay:
        yield f"{scheme}: the feedback of {e.name} must be immediate gradients; leave the section feedback out"
    if e.audit.viewers:
        yield (
            f"{scheme}: secret batches do not lower the epsilon toward single nodes; set audit.view=links, or "
            "data.sampling=none"
        )
    if isinf(e.clip):
        yield f"{scheme}: nothing bounds how much one sample changes a gradient; set a finite privacy.clip"


def _feedback(e: Experiment, algorithm: type[Algorithm[Any]]) -> Iterator[str]:
    """Yield an error message if the algorithm or another setting does not allow bandit or delayed feedback."""
    points, delay = e.feedback.points, e.feedback.delay
    if not (points or delay):
        return
    if algorithm.whole_data or algorithm.solves or algorithm.noises_gradients or not algorithm.takes_steps:
        yield (
            f"feedback.{f'points = {points}' if points else f'delay = {delay}'}: {e.name} is not an online method with "
            f"one gradient per round; leave feedback.{'points' if points else 'delay'} out, or set "
            f"{_choose(registry.ALGORITHMS, lambda a: a.takes_steps and not (a.whole_data or a.noises_gradients))}"
        )
    elif points and e.problem.gradient_noise:
        yield (
            f"problem.gradient_noise = {e.problem.gradient_noise:g}: agents see no gradients with feedback.points = "
            f"{points}; leave problem.gradient_noise out"
        )
    elif points and e.private and isinf(e.clip):
        yield (
            "privacy.clip = inf: nothing bounds the estimates of gradients that agents make with feedback.points = "
            f"{points}; set a finite privacy.clip"
        )


def _noise(e: Experiment, parts: Classes) -> Iterator[str]:
    """Yield an error message for each noise setting that conflicts with the algorithm or the mechanism."""
    privacy, backend, only = e.privacy, e.noise.backend, parts.algorithm.mechanism
    law = parts.mechanism.takes_the_place_of if privacy.path else privacy.mechanism
    if privacy.path and only == "none":
        yield f"privacy.path = {privacy.path!r}: {e.name} adds no noise; leave privacy.path out"
    elif e.private and law != only:
        others = _choose(registry.ALGORITHMS, lambda a: a.mechanism == law)
        key, remedy = "privacy.mechanism", f"the noise of {e.name} is {only}; set privacy.mechanism={only}"
        if only == "none":
            remedy = f"{e.name} adds no noise; set privacy.mechanism=none, or {others}"
        elif privacy.path:
            key, remedy = place_of(parts.mechanism, "takes_the_place_of"), f"the noise of {e.name} is {only}"
        yield f"{key} = {law!r}: {remedy}"
    elif privacy.scale != "calibrated" and (
        parts.algorithm.solves or (e.private and registry.find(registry.MECHANISMS, only).scale_is)
    ):
        use = f"uses {parts.algorithm.scale_key} instead" if parts.algorithm.scale_key else "scales its noise itself"
        yield f"privacy.scale = {privacy.scale!r}: {e.name} {use}; leave privacy.scale out"
    if privacy.noise_multiplier is not None and not parts.algorithm.noises_gradients:
        others = _choose(registry.ALGORITHMS, lambda a: a.noises_gradients)
        yield f"privacy.noise_multiplier = {privacy.noise_multiplier:g}: {e.name} noises no gradients; set {others}"
    elif privacy.noise_multiplier is not None and isinf(e.clip):
        yield "privacy.clip = inf: privacy.noise_multiplier is a multiple of the clip; set a finite privacy.clip"
    if privacy.budget and privacy.budget.kept_by == "stopping" and parts.algorithm.noises_gradients:
        yield (
            f"privacy.budget.kept_by = 'stopping': {e.name} noises a gradient in every round and cannot stop; set "
            "privacy.budget.kept_by=noise"
        )
    if e.noise.key is not None and e.secret:
        other = "noise.entropy=seed" if e.noise.entropy == "os" else "another noise.backend than opendp"
        yield f"noise.key = {e.noise.key!r}: secret noise does not use noise.key; leave noise.key out, or set {other}"
    if e.private and backend != "numpy" and (parts.algorithm.solves or backend not in parts.mechanism.backends):
        yield (
            f"noise.backend = {backend!r}: the {privacy.mechanism} noise of {e.name} cannot be drawn by this backend; "
            "set noise.backend=numpy"
        )


def of_agents(e: Experiment, graph: Topology, algorithm: type[Algorithm[Any]], ranks: int | None) -> Iterator[str]:
    """Yield an error message for each setting that does not fit the number n of agents of the graph.

    There are three such mistakes:

    - The algorithm runs only with another number of agents.
    - MPI has started another number of ranks than n + 1.
    - The setting `audit.view` names an agent that does not exist, or names all agents.

    Args:
        e: the experiment.
        graph: the topology.
        algorithm: the class of the algorithm.
        ranks: the number of MPI processes, including the logger; None if one process runs all agents.
    """
    n, only = graph.agents, algorithm.only_agents
    if only is not None and n != only:
        yield (
            f"{e.name} runs on {only} agent, and {graph.source} has {n}: start the run with mpirun -n {only + 1}, and "
            "leave the topology out"
        )
    elif ranks is not None and ranks != n + 1:
        yield (
            f"{graph.source} has {n} agents, so with the logger the run needs {n + 1} ranks, but mpirun started "
            f"{ranks}: use mpirun -n {n + 1}, or another topology"
        )
    view, viewers = f"audit.view = {e.audit.view!r}", e.audit.viewers
    if missing := [viewer for viewer in viewers if viewer >= n]:
        yield f"{view}: there is no agent {missing[0]}; the run has the agents 0 to {n - 1}"
    elif len(viewers) == n:
        yield f"{view} names all agents; leave out at least one agent, whose data the others attack"


def of_data(e: Experiment, parts: Classes, stream: Stream) -> Iterator[str]:
    """Yield an error message if the data do not suit the loss or the baseline, or if the noise cannot be calibrated.

    The noise cannot be calibrated if nothing bounds how much the gradient changes between adjacent data sets. For the
    adjacencies one-round and zero-out, only `privacy.clip` bounds this change; for others, also the loss may.
    """
    loss, setting = parts.loss, registry.named(registry.LOSSES, e.problem)
    needs_sensitivity = e.private and e.privacy.scale == "calibrated" and not parts.algorithm.solves
    by_clip = e.privacy.adjacency in ("one-round", "zero-out")  # nothing but the clip bounds the change
    unbounded = isinf(loss.sample_sensitivity(stream.feature_norm)) or by_clip
    if loss.needs_labels and not stream.has_labels:
        wanted = (False, bool(stream.classes), True)
        others = _choose(registry.LOSSES, lambda kind: (kind.needs_labels, kind.per_class, kind.predicts) == wanted)
        yield (
            f"{setting} needs labels -1 and +1, and {registry.named(registry.STREAMS, e.data)} has "
            f"{'classes' if stream.classes else 'real targets'}; set {others}"
        )
    elif loss.per_class and not stream.classes:
        yield f"{setting} needs classes as targets: for a file of your own, set data.targets=classes"
    elif stream.classes and not loss.per_class:
        others = _choose(registry.LOSSES, lambda other: other.per_class)
        yield f"{setting} cannot handle classes (data.targets=classes): set {others}"
    elif needs_sensitivity and isinf(e.clip) and unbounded:
        stated = "" if isinf(loss.sample_sensitivity(1.0)) else "data.norm, "
        yield (
            "privacy.clip = inf: nothing bounds how much one sample changes a gradient, so the noise cannot be "
            f"calibrated; set {stated}a finite privacy.clip, or a fixed privacy.scale (then no epsilon is proven)"
        )
    if e.baseline == "curator" and "{agent}" in str(e.data.get("file")):
        yield "baseline = curator: data.file names one file for each agent; put all samples into one file"


def of_setup(setup: Setup, is_connected: bool) -> Iterator[str]:
    """Yield an error message for each conflict that is found only after all parts were built.

    Args:
        setup: the assembled set-up.
        is_connected: whether the graph is connected over the rounds of the run.
    """
    e, graph, algorithm, mixing = setup.experiment, setup.topology, setup.algorithm, setup.mixing
    where, weights, feasible = graph.source, e.algorithm["mixing"], setup.feasible
    if e.sampling != "none" and algorithm.hides:
        keys = [f"algorithm.{key}=public" for key, value in e.algorithm.items() if value == "hidden"]
        others = _choose(registry.ALGORITHMS, lambda a: not (a.hidden or a.solves or a.whole_data))
        yield (
            f"data.sampling = {e.sampling!r}: messages of {e.name} depend on hidden state, so secret batches would not "
            f"lower the epsilon; set data.sampling=none, or {', '.join(keys) or others}"
        )
    if e.sampling == "fixed" and (least := min(setup.samples)) < e.data["batch"]:
        yield f"data.batch = {e.data['batch']}: an agent has only {least} samples; lower data.batch"
    if algorithm.unconstrained and not isinf(feasible.inradius):
        setting = registry.named(registry.SETS, e.problem)
        yield f"{setting}: {e.name} never projects; set {_choose(registry.SETS, lambda other: not other.bounded)}"
    if e.feedback.points and e.feedback.radius >= feasible.inradius:
        yield (
            f"feedback.radius = {e.feedback.radius:g}: no larger ball fits into the set with problem.radius = "
            f"{e.problem.radius:g}; set a smaller feedback.radius"
        )
    if e.feedback.delay >= e.rounds:
        yield (
            f"feedback.delay = {e.feedback.delay}: nothing would be learnt in {e.rounds} rounds, because no loss would "
            f"arrive; set feedback.delay below {e.rounds}"
        )
    if mixing.fixed and graph.period != 1:
        yield (
            f"{where}: the graph changes from round to round, and {weights} weights need a fixed graph: set "
            f"{_choose(registry.TOPOLOGIES, lambda kind: _fits(kind, setup))}"
        )
    elif mixing.undirected and (edge := facts.one_way_edge(graph, e.rounds)):
        t, j, i = edge
        others = _choose(registry.TOPOLOGIES, lambda kind: _fits(kind, setup))
        yield (
            f"{where}: round {t}: agent {j} sends to agent {i}, but not {i} to {j}, and {weights} weights need an "
            f"undirected graph: set {'topology.undirected=true' if graph.from_file else others}"
        )
    steps: Any = setup.run.steps
    for t in range(1, min(e.rounds, MOST_STEPS) + 1) if steps and is_users(type(steps)) else ():
        if not (isinstance(size := steps(t), Real) and 0 < float(size) < inf):
            place = place_of(type(steps), "__call__")
            yield f"{place}: the step size of round t = {t} is {size!r}: it must be positive and finite"
            break
    try:
        replace(algorithm, run=setup.run).validate()
    except ValueError as error:
        yield f"{e.name}: {error}"
    except OverflowError:
        yield f"{e.name}: a number of the algorithm overflows; set fewer rounds, or smaller settings of the algorithm"
    if algorithm.solves and setup.dimension > LARGEST_SOLVE:
        yield f"d = {setup.dimension}: {e.name} needs d x d matrices; use data with d up to {LARGEST_SOLVE}"
    if algorithm.settled_below and (graph.period != 1 or setup.links):
        yield (
            f"{where}: {algorithm.settled_key} needs a fixed graph without faults, over which agents tell each other "
            f"to stop; set {algorithm.settled_key}=0, or choose another graph"
        )
    elif algorithm.settled_below and is_connected and (hops := facts.diameter(graph)) > FURTHEST:
        yield (
            f"{where}: agents are up to {hops} hops apart, but {algorithm.settled_key} works only up to {FURTHEST} "
            f"hops; set {algorithm.settled_key}=0, or choose another graph"
        )


def _fits(kind: type[Topology], setup: Setup) -> bool:
    """Return whether graphs of a class have the properties that the run's mixing (its rule for weights) needs.

    The answer is found for a graph of the class with 8 agents and default settings; false if there is no such graph.
    """
    try:
        graph = kind(agents=8)
    except (BadInput, TypeError):
        return False
    undirected = not setup.mixing.undirected or facts.one_way_edge(graph, 10) is None
    return undirected and (graph.period == 1 or not setup.mixing.fixed)
