"""From what a user asked for to a set-up that is ready to run: the one way that every command goes.

asked (nested dictionaries) -> the experiment with every choice made -> its parts, each built once -> `Setup`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import inf, isinf
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeAlias

import msgspec
from msgspec import Meta

from mpinodes import topology
from mpinodes.config import registry
from mpinodes.config.constants import constants_of, graph_facts, samples_of
from mpinodes.config.defaults import filled_in, mixing_class, schedule
from mpinodes.config.metrics import metrics_of
from mpinodes.config.requirements import (
    require_adjacency,
    require_fit,
    require_labels,
    require_mechanism,
    require_set,
    require_view,
)
from mpinodes.core.errors import BadInput
from mpinodes.core.experiment import SECTIONS, Experiment, Privacy, Problem, Tree
from mpinodes.core.messages import Features, Vector
from mpinodes.core.parts import Algorithm, Loss, Mechanism, SampleLoss, Setup, Stream, Topology
from mpinodes.core.seeds import Draws, Purpose
from mpinodes.losses.enforced import enforced
from mpinodes.losses.linear import NoisyGradient

LEAST_CLIP = 1e-100  # see `losses.clipping`

Losses: TypeAlias = Callable[[int], Callable[[int], Loss]]  # by agent, by round


class Classes(NamedTuple):
    """What the parts of an experiment are made from."""

    algorithm: type[Algorithm[Any]]
    stream: type[Stream]
    loss: type[SampleLoss]
    mechanism: type[Mechanism]

    @classmethod
    def of(cls, e: Experiment) -> Classes:
        """Those that an experiment names."""
        problem = {"path": e.problem.path} if e.problem.path else {"loss": e.problem.loss}
        noise = {"path": e.privacy.path} if e.privacy.path else {"mechanism": e.privacy.mechanism}
        return cls(
            registry.chosen(registry.ALGORITHMS, e.algorithm),
            registry.chosen(registry.STREAMS, e.data),
            registry.chosen(registry.LOSSES, problem),
            registry.chosen(registry.MECHANISMS, noise if e.private else {"mechanism": "none"}),
        )


def compose(asked: Tree, ranks: int | None) -> Setup:
    """The set-up of what the user asked for, every default filled in from its data and its algorithm.

    Args:
        asked: nested dictionaries, as `parse` gives them.
        ranks: MPI processes, the logger among them; None in lockstep.

    Raises:
        BadInput: anything wrong with it.
    """
    tree = filled_in(asked, ranks)
    problem, privacy = (_section(tree, *which) for which in (("problem", Problem), ("privacy", Privacy)))
    graph = _topology(tree["topology"], tree["seed"])
    loss = registry.chosen(registry.LOSSES, {k: v for k, v in tree["problem"].items() if k in ("path", "loss")})
    stream = _stream(tree["data"], tree["seed"], graph.agents, _make_loss(loss, problem, privacy))
    require_labels(loss, stream, tree)
    tree["rounds"] = _rounds(tree, stream)
    experiment = _typed(tree)
    require_view(experiment, graph.agents)
    classes = Classes.of(experiment)
    require_adjacency(experiment)
    require_mechanism(experiment, classes.algorithm, loss, classes.mechanism)
    setup = _assembled(experiment, classes, graph, stream)
    connected_over = require_fit(setup, ranks)
    for r in range(1, experiment.repeats):  # a graph drawn from another seed
        topology.connectivity(_topology(experiment.topology, experiment.seed + r), experiment.rounds)
    return replace(setup, connected_over=connected_over, metrics=metrics_of(experiment.record.metrics))


def build(experiment: Experiment) -> Setup:
    """The set-up of an experiment that has every choice made: on another rank, or for another seed.

    Raises:
        BadInput: a file is missing or malformed, or the parts do not fit together.
    """
    classes = Classes.of(experiment)
    graph = _topology(experiment.topology, experiment.seed)
    make_loss = _make_loss(classes.loss, experiment.problem, experiment.privacy)
    return _assembled(experiment, classes, graph, _stream(experiment.data, experiment.seed, graph.agents, make_loss))


def rebuilt(setup: Setup, experiment: Experiment) -> Setup:
    """The set-up of an experiment that differs in its noise, its budget or its algorithm alone: graph and data stay."""
    again = _assembled(experiment, Classes.of(experiment), setup.topology, setup.stream)
    return replace(again, connected_over=setup.connected_over, metrics=setup.metrics)


def _assembled(experiment: Experiment, classes: Classes, graph: Topology, stream: Stream) -> Setup:
    """All parts, from those that are there already."""
    require_set(classes.algorithm, experiment)
    steps = _step(experiment.step) if classes.algorithm.takes_steps else None
    run = constants_of(experiment, graph, stream, classes.loss, classes.algorithm.decomposable, steps)
    told = replace(run, rounds=sys.maxsize) if classes.algorithm.anytime else run
    mixing = mixing_class(classes.algorithm, experiment.algorithm["mixing"])
    hyper = {k: v for k, v in experiment.algorithm.items() if k not in ("name", "path", "mixing")}
    return Setup(
        experiment, graph, stream,
        algorithm=classes.algorithm(run=told, **hyper),
        mixing=mixing(graph_facts(graph, None if mixing.anytime else experiment.rounds)),
        mechanism=_mechanism(experiment, classes.mechanism),
        loss=classes.loss,
        run=run,
        samples=samples_of(experiment, stream, graph.agents),
        losses=seen_losses(experiment, stream.of, run.grad_sensitivity),
    )  # fmt: skip


def seen_losses(experiment: Experiment, of: Losses, sensitivity: Sequence[float]) -> Losses:
    """By agent, the losses that it sees, given its own: as clipped, and with the stochastic error of its gradients.

    Args:
        experiment: says how they are clipped, and the error.
        of: the losses, by agent.
        sensitivity: `Run.grad_sensitivity`.
    """
    variance, seed = experiment.problem.gradient_noise, experiment.seed
    clip, whole = experiment.clip, experiment.privacy.adjacency == "one-round"

    regularizer = experiment.problem.regularizer

    def seen(agent: int) -> Callable[[int], Loss]:
        own, most, noise = of(agent), sensitivity[agent] / 2, Draws(seed, Purpose.GRADIENT_NOISE, agent)

        def loss(t: int) -> Loss:
            kept = own(t) if isinf(clip) else enforced(own(t), clip, most, whole, regularizer)
            return NoisyGradient(kept, variance, t, noise) if variance else kept

        return loss

    return seen


def _make_loss(loss: type[SampleLoss], problem: Problem, privacy: Privacy) -> Callable[[Features, Vector], SampleLoss]:
    whole, clip = privacy.adjacency == "one-round", float(privacy.clip)
    average, weight, regularizer = problem.average, problem.weight, problem.regularizer

    def make_loss(features: Features, targets: Vector) -> SampleLoss:
        divisor = (len(targets) if average else 1.0) / weight
        return loss(features, targets, clip, whole, divisor, regularizer)

    return make_loss


def _mechanism(experiment: Experiment, part: type[Mechanism]) -> Mechanism:
    if not experiment.private:
        return part()
    constant = None if experiment.privacy.scale == "calibrated" else experiment.privacy.scale
    return part(experiment.epsilon, constant, experiment.noise.backend)


def _topology(section: Mapping[str, Any], seed: int) -> Topology:
    """The graph that a resolved `topology` section names.

    Raises:
        BadInput: its file is missing or malformed.
    """
    if "file" in section:
        return topology.read(Path(section["file"]), section["undirected"])
    if "name" in section and section["name"] in topology.stored():
        return topology.read(topology.folder() / f"{section['name']}.json", section["undirected"])
    graph: Topology = registry.chosen(registry.TOPOLOGIES, section)(
        seed=seed, **{k: v for k, v in section.items() if k not in ("name", "path")}
    )
    return graph


def _stream(section: Mapping[str, Any], seed: int, agents: int, make_loss: Callable[..., SampleLoss]) -> Stream:
    """The stream of losses that a resolved `data` section names.

    Raises:
        BadInput: files are missing or malformed.
    """
    given = {"seed": seed} | {k: v for k, v in section.items() if k not in ("name", "path", "identity")}
    stream: Stream = registry.chosen(registry.STREAMS, section)(**given, agents=agents, make_loss=make_loss)
    return stream


def _rounds(tree: Tree, stream: Stream) -> Any:
    """`rounds`, checked against the length of the data, or that length."""
    rounds, length = tree.get("rounds"), stream.rounds
    if length == 0:
        raise BadInput(
            f"data.batch = {tree['data']['batch']}: larger than "
            + ("the training set" if tree["data"]["partition"] == "shared" else "the smallest share of an agent")
            + "; lower data.batch"
        )
    if rounds is None:
        if length is None:
            raise BadInput(f"rounds is missing, and {_data_name(tree)} has no end; set rounds")
        return length
    registry.checked(rounds, Annotated[int, Meta(ge=1)], "rounds")
    if length is not None and rounds > length:
        epochs = -(-rounds * tree["data"]["epochs"] // length)
        raise BadInput(
            f"rounds = {rounds}: the data lasts {length} rounds (data.batch = {tree['data']['batch']}, "
            f"data.epochs = {tree['data']['epochs']}); set data.epochs={epochs}, or fewer rounds"
        )
    return rounds


def _data_name(tree: Tree) -> str:
    data = tree["data"]
    return f"data.path = {data['path']!r}" if "path" in data else f"data.name = {data['name']!r}"


def _section(tree: Tree, name: str, struct: Any) -> Any:
    """One section of the tree as its type, or an error that names the key."""
    try:
        return msgspec.convert(tree.get(name, {}), struct)
    except msgspec.ValidationError as error:
        message = str(error)
        path = message.partition(" - at `$")[2].strip(".`")
        wrapped = f"{message.partition(' - at ')[0]} - at `$.{name}{'.' + path if path else ''}`"
        raise BadInput(_located(wrapped, tree)) from error


def _typed(tree: Tree) -> Experiment:
    """The tree as an `Experiment`, or an error that names the key."""
    try:
        experiment = msgspec.convert(tree, Experiment)
    except msgspec.ValidationError as error:
        raise BadInput(_located(str(error), tree)) from error
    epsilon = tree.get("privacy", {}).get("epsilon", 1.0)
    if epsilon not in ("inf", inf) and not 1e-12 <= epsilon <= 1e12:
        raise BadInput(f"privacy.epsilon = {epsilon!r}: expected a number from 1e-12 to 1e12, or inf")
    if not (isinf(experiment.clip) or LEAST_CLIP <= experiment.clip <= 1 / LEAST_CLIP):
        raise BadInput(
            f"privacy.clip = {experiment.clip!r}: expected a number from {LEAST_CLIP:g} to {1 / LEAST_CLIP:g}, or inf"
        )
    return experiment


def _located(message: str, tree: Tree) -> str:
    """Msgspec's message with key and value in front."""
    path = [part for part in message.partition(" - at `$")[2].strip(".`").split(".") if part]
    if "missing required field" in message:
        return f"{'.'.join([*path, message.split('`')[1]])} is missing"
    value: Any = tree
    kind: Any = Experiment
    for depth, part in enumerate(path, 1):
        value = value[part]
        section = SECTIONS.get(".".join(path[:depth]))
        kind = section or next(f.type for f in msgspec.structs.fields(kind) if f.name == part)
    return f"{'.'.join(path)} = {value!r}: {registry.plain(message, kind)}"


def _step(section: Tree) -> Any:
    """The step schedule, with its parameters."""
    return schedule(section)(**{k: v for k, v in section.items() if k != "kind"})
