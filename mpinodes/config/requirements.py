"""What an experiment's parts ask of each other, checked before anything is run; errors say what would be right."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import isinf
from typing import Any

import msgspec

from mpinodes.config import registry
from mpinodes.core.errors import BadInput
from mpinodes.core.experiment import Experiment
from mpinodes.core.parts import Algorithm, Mechanism, SampleLoss, Setup, Stream
from mpinodes.topology import facts

FURTHEST = 52  # hops that a stop spreads over: one bit each of a frame's number
LARGEST_SOLVE = 2000  # dimensions of a local solve: 32 MB a matrix

AlgorithmClass = type[Algorithm[Any]]


def require_partition(algorithm: AlgorithmClass, name: str, data: Mapping[str, Any]) -> None:
    """Refuse data of its own for each agent where all agents share one loss."""
    partition = data["partition"]
    if not algorithm.decomposable and partition != "shared":
        raise BadInput(
            f"data.partition = {partition!r}: the agents of {name} share one loss and decide a block of "
            "coordinates each; set data.partition=shared, or algorithm.name=dola"
        )


def require_samples(algorithm: AlgorithmClass, name: str, data: Mapping[str, Any]) -> None:
    """Refuse a part of the data in each round where an algorithm minimizes the same losses in all of them."""
    if algorithm.whole_data and data.get("batch") != "all":
        raise BadInput(
            f"data.batch = {data.get('batch', 1)!r}: the losses of {name} are the same in every round; "
            "set data.batch=all, with data that can (data.name=unit-ball, adult, ...)"
        )


def require_all_at_once(algorithm: AlgorithmClass, stream: type[Stream], data: Mapping[str, Any]) -> None:
    """Refuse data that cannot show an agent all its samples in every round, where the algorithm asks for it."""
    if not algorithm.whole_data:
        return
    try:
        msgspec.convert("all", registry.settings(registry.STREAMS, stream).get("batch"))
    except msgspec.ValidationError:
        raise BadInput(
            f"data.name = {data.get('name', data.get('path'))!r} shows new samples round by round; this algorithm "
            "needs losses that stay the same; choose data that can, as data.name=unit-ball, mean or adult"
        ) from None


def require_labels(loss: type[SampleLoss], stream: Stream, experiment: Mapping[str, Any]) -> None:
    """Refuse a loss for labels ±1 on data without labels."""
    if loss.needs_labels and not stream.has_labels:
        data, problem = experiment["data"], experiment["problem"]
        raise BadInput(
            f"problem.loss = {problem.get('loss', problem.get('path'))!r} needs labels -1 and +1, and data.name = "
            f"{data.get('name', data.get('path'))!r} has {'classes' if stream.classes else 'real targets'}; set "
            f"problem.loss={'softmax' if stream.classes else 'least-squares, or absolute'}"
        )
    if loss.per_class != bool(stream.classes):
        name = experiment["problem"].get("loss", experiment["problem"].get("path"))
        raise BadInput(
            f"problem.loss = {name!r} needs classes: set data.targets=classes, of a file of yours"
            if loss.per_class
            else f"problem.loss = {name!r} cannot do with classes (data.targets=classes): set problem.loss=softmax"
        )


def require_set(setup: Setup) -> None:
    """Refuse a constraint set that the algorithm cannot use, or that has no room for the points of bandit feedback."""
    e, feasible = setup.experiment, setup.feasible
    chosen = f"problem.set = {e.problem.set!r}" if e.problem.set else f"problem.set_path = {e.problem.set_path!r}"
    if setup.algorithm.unconstrained and not isinf(feasible.inradius):
        raise BadInput(f"{chosen}: {e.name} never projects; set problem.set=none")
    if setup.algorithm.decomposable and feasible.of_blocks:
        raise BadInput(f"{chosen}: the agents of {e.name} own no blocks of coordinates; choose another set")
    if e.feedback.points and e.feedback.radius >= feasible.inradius:
        raise BadInput(
            f"feedback.radius = {e.feedback.radius:g}: no point of the set has so much room, for problem.radius = "
            f"{e.problem.radius:g}; set feedback.radius below it"
        )


def require_faults(algorithm: AlgorithmClass, experiment: Experiment) -> None:
    """Refuse faults that an algorithm, or its weights, are not said to bear."""
    faults, weights = experiment.faults, experiment.algorithm["mixing"]
    asked = {"loss": faults.loss, "churn": faults.churn, "delay": faults.delay, "stragglers": faults.stragglers}
    for key, value in asked.items():
        taken = key in ("loss", "churn")
        borne = algorithm.bears_loss if taken else algorithm.bears_delay
        if not value or (borne and registry.mixing_class(algorithm, weights).under_faults):
            continue
        what = "messages that do not arrive" if taken else "messages that come late"
        said = f"its {weights} weights are not defined" if borne else "it is not said to be defined"
        able = [name for name, part in _classes(registry.ALGORITHMS) if part.bears_loss and part.bears_delay]
        raise BadInput(
            f"faults.{key} = {value!r}: {experiment.name} is not for {what}: {said} there; leave faults.{key} out, or "
            f"choose one of {', '.join(able)}"
        )


def require_feedback(algorithm: AlgorithmClass, experiment: Experiment) -> None:
    """Refuse other feedback than gradients at once where none are asked for round by round, or it cannot be."""
    feedback, problem = experiment.feedback, experiment.problem
    if not (feedback.points or feedback.delay):
        return
    if algorithm.whole_data or algorithm.solves or not algorithm.takes_steps:
        able = [name for name, part in _classes(registry.ALGORITHMS) if part.takes_steps and not part.whole_data]
        asked = f"points = {feedback.points}" if feedback.points else f"delay = {feedback.delay}"
        raise BadInput(
            f"feedback.{asked}: {experiment.name} is no online method that asks for one gradient in "
            f"a round; leave it out, or choose one of {', '.join(able)}"
        )
    if feedback.delay >= experiment.rounds:
        raise BadInput(
            f"feedback.delay = {feedback.delay}: nothing would be learnt in {experiment.rounds} rounds; set it below"
        )
    if not feedback.points:
        return
    if problem.gradient_noise:
        raise BadInput(
            f"problem.gradient_noise = {problem.gradient_noise:g}: with feedback.points = {feedback.points} there are "
            "no gradients to be in error: leave it out, or 0"
        )
    if experiment.private and isinf(experiment.clip):
        raise BadInput(
            "privacy.clip = inf: nothing bounds the estimates of feedback.points = 2; set a finite privacy.clip, which "
            "bounds a sample's slope"
        )


def _classes(kind: registry.PartKind) -> list[tuple[str, Any]]:
    return [(name, registry.find(kind, name)) for name in registry.names(kind)]


def require_adjacency(experiment: Experiment) -> None:
    """Refuse samples of an agent's own to be what differs where there are none."""
    if experiment.privacy.adjacency == "one-agent" and experiment.data["partition"] == "shared":
        raise BadInput(
            "privacy.adjacency = 'one-agent': data.partition = 'shared' shows all agents the same samples, and none "
            "are one agent's own; take an algorithm whose agents have their own (algorithm.name=dola "
            "data.partition=even), or privacy.adjacency=one-round"
        )


def require_view(experiment: Experiment, agents: int) -> None:
    """Refuse an adversary that is not among the agents, or is all of them."""
    viewers = experiment.audit.viewers
    if missing := [viewer for viewer in viewers if viewer >= agents]:
        raise BadInput(
            f"audit.view = {experiment.audit.view!r}: there is no agent {missing[0]}; the run has {agents}, from 0"
        )
    if len(viewers) == agents:
        raise BadInput(f"audit.view = {experiment.audit.view!r}: these are all agents; leave one to be attacked")


def require_mechanism(
    experiment: Experiment, algorithm: AlgorithmClass, loss: type[SampleLoss], mechanism: type[Mechanism], norm: float
) -> None:
    """Refuse noise or clipping that an algorithm is not for; `norm` bounds the features of a sample."""
    privacy, only = experiment.privacy, algorithm.mechanism
    law = mechanism.takes_the_place_of if privacy.path else privacy.mechanism
    if experiment.private and law != only:
        raise BadInput(
            f"privacy.mechanism = {law!r}: "
            + (f"{experiment.name} carries no noise" if only == "none" else f"the noise of {experiment.name} is {only}")
            + ("; algorithm.name=dvp-admm and pp-admm do" if only == "none" else f"; set privacy.mechanism={only}")
        )
    if only == "gaussian" and experiment.private and privacy.scale != "calibrated":
        raise BadInput(f"privacy.scale = {privacy.scale!r}: {experiment.name} has algorithm.noise_scale instead")
    if algorithm.solves:
        _require_solvable(experiment, loss)
    else:
        _require_clip(experiment, loss, norm)
    _require_backend(experiment, algorithm, mechanism)


def _require_clip(experiment: Experiment, loss: type[SampleLoss], norm: float) -> None:
    privacy = experiment.privacy
    unbounded = isinf(experiment.clip) and privacy.scale == "calibrated"
    clipped_only = isinf(loss.sample_sensitivity(norm)) or privacy.adjacency == "one-round"
    if experiment.private and unbounded and clipped_only:
        stated = "" if isinf(loss.sample_sensitivity(1.0)) else "data.norm, "
        raise BadInput(
            f"privacy.clip = inf leaves no sensitivity to calibrate noise to; set {stated}a finite privacy.clip, "
            "or a fixed privacy.scale (the privacy is then reported as unproven)"
        )


def _require_solvable(experiment: Experiment, loss: type[SampleLoss]) -> None:
    """What an algorithm that minimizes its losses can do without, and what not."""
    privacy, problem = experiment.privacy, experiment.problem
    if not isinf(experiment.clip) or privacy.adjacency == "one-round":
        key, value = ("clip", privacy.clip) if not isinf(experiment.clip) else ("adjacency", privacy.adjacency)
        raise BadInput(
            f"privacy.{key} = {value!r}: {experiment.name} minimizes whole losses, which clipped gradients are not of; "
            "what it costs follows from the loss and the norm of the features: leave privacy.clip=inf, and "
            "privacy.adjacency=one-sample or one-agent"
        )
    if privacy.scale != "calibrated":
        raise BadInput(f"privacy.scale = {privacy.scale!r}: {experiment.name} has algorithm.noise_rate instead")
    if not loss.has_prox:
        raise BadInput(
            f"problem.loss = {problem.loss or problem.path!r}: {experiment.name} minimizes it by Newton's method, "
            "which it has no step for, as losses with kinks have none; set problem.loss=logistic, or least-squares"
        )
    if problem.gradient_noise:
        raise BadInput(f"problem.gradient_noise = {problem.gradient_noise!r}: {experiment.name} samples no gradients")


def _require_backend(experiment: Experiment, algorithm: AlgorithmClass, mechanism: type[Mechanism]) -> None:
    """Refuse arithmetic that a mechanism's noise does not come in, and a key that it would not be drawn from."""
    backend, key = experiment.noise.backend, experiment.noise.key
    if key is not None and experiment.secret:
        other = "noise.entropy=seed" if experiment.noise.entropy == "os" else "another noise.backend than opendp"
        raise BadInput(
            f"noise.key = {key!r}: this noise is drawn from no key that is told; leave it out, or set {other}"
        )
    if experiment.private and (algorithm.solves or backend not in mechanism.backends) and backend != "numpy":
        raise BadInput(
            f"noise.backend = {backend!r}: only laplace and gaussian noise added to messages comes in another "
            f"arithmetic, and that of {experiment.name} is {experiment.privacy.mechanism}; set noise.backend=numpy"
        )


def require_fit(setup: Setup, ranks: int | None) -> int:
    """What can only be known with all parts at hand; returns the B of the topology's B-connectivity.

    Raises:
        BadInput: the agents do not fit the ranks, or the graph the algorithm.
    """
    graph, rounds, name = setup.topology, setup.experiment.rounds, setup.experiment.name
    where, only = graph.source, setup.algorithm.only_agents
    if only is not None and graph.agents != only:
        raise BadInput(
            f"{name} runs on {only} agent, and {where} has {graph.agents}: "
            f"start it with mpirun -n {only + 1} and leave the topology out"
        )
    if ranks is not None and ranks != graph.agents + 1:
        raise BadInput(
            f"{where} has {graph.agents} agents, so with the logger it needs {graph.agents + 1} ranks, "
            f"and mpirun started {ranks}: use mpirun -n {graph.agents + 1}, or another topology"
        )
    _require_graph(setup)
    try:
        replace(setup.algorithm, run=setup.run).validate()
    except ValueError as error:
        raise BadInput(f"{name}: {error}") from error
    except OverflowError as error:
        raise BadInput(f"{name}: rounds, or a setting of it, is too large to compute its steps with") from error
    if setup.algorithm.solves and setup.dimension > LARGEST_SOLVE:
        raise BadInput(
            f"d = {setup.dimension}: {name} solves with d x d matrices, and d may be at most {LARGEST_SOLVE}"
        )
    connected_over = facts.connectivity(graph, rounds)
    _require_stop(setup)
    return connected_over


def _require_graph(setup: Setup) -> None:
    """Refuse a graph that the mixing cannot be run on."""
    graph, mixing, where = setup.topology, setup.mixing, setup.topology.source
    weights = setup.experiment.algorithm["mixing"]
    if mixing.fixed and graph.period != 1:
        raise BadInput(
            f"{where}: it changes from round to round, and {weights} weights need a fixed graph: set "
            f"topology.name={'ring' if mixing.undirected else 'random-digraph'}, or another that stays"
        )
    if mixing.undirected and (edge := facts.one_way_edge(graph, setup.experiment.rounds)):
        t, j, i = edge
        remedy = "set topology.undirected=true" if graph.from_file else "take topology.name=ring or erdos-renyi"
        raise BadInput(
            f"{where}: round {t}: agent {j} sends to agent {i}, but not {i} to {j}, and {weights} "
            f"weights need an undirected graph: {remedy}"
        )


def _require_stop(setup: Setup) -> None:
    """Refuse a stop that cannot spread to all agents."""
    graph, where = setup.topology, setup.topology.source
    if not setup.algorithm.settled_below:
        return
    if graph.period != 1 or setup.links:
        raise BadInput(f"{where}: algorithm.stop needs a fixed graph without faults, over which the stop spreads")
    if (hops := facts.diameter(graph)) > FURTHEST:
        raise BadInput(
            f"{where}: agents are up to {hops} hops apart, and algorithm.stop spreads over {FURTHEST}: set it to 0, or "
            "take another graph"
        )
