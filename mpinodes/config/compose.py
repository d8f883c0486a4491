"""From what a user asked for to a set-up that is ready to run: the one way that every command goes.

asked (nested dictionaries) -> the experiment with every choice made -> its parts, each built once -> `Setup`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import inf, isinf
from threading import Lock
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from mpinodes.config import registry, requirements
from mpinodes.config.building import Classes, assembled, loss_of, make_loss_of, stream_of, topology_of
from mpinodes.config.defaults import filled_in
from mpinodes.config.metrics import metrics_of
from mpinodes.core.errors import BadInput
from mpinodes.core.experiment import SECTIONS, Experiment, Privacy, Problem, Tree
from mpinodes.core.parts import Setup, Stream
from mpinodes.topology import facts

LEAST_CLIP = 1e-100  # see `losses.clipping`
_COMPOSING = Lock()  # two threads that have msgspec look at a type for the first time at once end in SIGSEGV


def compose(asked: Tree, ranks: int | None) -> Setup:
    """The set-up of what the user asked for, every default filled in from its data and its algorithm.

    Args:
        asked: nested dictionaries, as `parse` gives them.
        ranks: MPI processes, the logger among them; None in lockstep.

    Raises:
        BadInput: anything wrong with it.
    """
    with _COMPOSING:
        return _composed(asked, ranks)


def _composed(asked: Tree, ranks: int | None) -> Setup:
    tree = filled_in(asked, ranks)
    problem, privacy = (_section(tree, *which) for which in (("problem", Problem), ("privacy", Privacy)))
    graph = topology_of(tree["topology"], tree["seed"])
    loss = loss_of(tree["problem"])
    stream = stream_of(tree["data"], tree["seed"], graph.agents, make_loss_of(loss, problem, privacy))
    requirements.require_labels(loss, stream, tree)
    tree["rounds"] = _rounds(tree, stream)
    experiment = _typed(tree)
    requirements.require_view(experiment, graph.agents)
    classes = Classes.of(experiment)._replace(loss=loss)  # a file that is read twice makes two classes
    requirements.require_adjacency(experiment)
    requirements.require_mechanism(experiment, classes.algorithm, loss, classes.mechanism, stream.feature_norm)
    requirements.require_faults(classes.algorithm, experiment)
    requirements.require_feedback(classes.algorithm, experiment)
    setup = assembled(experiment, classes, graph, stream)
    requirements.require_set(setup)
    connected_over = requirements.require_fit(setup, ranks)
    for r in range(1, experiment.repeats):  # a graph drawn from another seed
        facts.connectivity(topology_of(experiment.topology, experiment.seed + r), experiment.rounds)
    return replace(setup, connected_over=connected_over, metrics=metrics_of(experiment.record.metrics))


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


def _unsaid(tree: Tree) -> Iterator[str]:
    """The keys of values that cannot be told to other ranks."""
    for key, value in tree.items():
        if isinstance(value, dict):
            yield from (f"{key}.{inner}" for inner in _unsaid(value))
            continue
        try:
            msgspec.msgpack.encode(value)
        except (OverflowError, UnicodeEncodeError):
            yield key


def _typed(tree: Tree) -> Experiment:
    """The tree as an `Experiment`, or an error that names the key."""
    try:
        experiment = msgspec.convert(tree, Experiment)
    except msgspec.ValidationError as error:
        raise BadInput(_located(str(error), tree)) from error
    try:
        msgspec.msgpack.encode(experiment)  # as all ranks are told it
    except OverflowError as error:
        raise BadInput(f"{', '.join(_unsaid(tree))}: expected a whole number below 2^63") from error
    except UnicodeEncodeError as error:
        raise BadInput(f"{', '.join(_unsaid(tree))}: expected UTF-8, in names of directories, too") from error
    epsilon = tree.get("privacy", {}).get("epsilon", 1.0)
    if epsilon not in ("inf", inf) and not 1e-12 <= epsilon <= 1e12:
        raise BadInput(f"privacy.epsilon = {epsilon!r}: expected a number from 1e-12 to 1e12, or inf")
    if experiment.privacy.budget and experiment.privacy.budget.epsilon > 1e12:
        raise BadInput(f"privacy.budget.epsilon = {experiment.privacy.budget.epsilon!r}: expected at most 1e12")
    if not (isinf(experiment.clip) or LEAST_CLIP <= experiment.clip <= 1 / LEAST_CLIP):
        raise BadInput(
            f"privacy.clip = {experiment.clip!r}: expected a number from {LEAST_CLIP:g} to {1 / LEAST_CLIP:g}, or inf"
        )
    return experiment


def _located(message: str, tree: Tree) -> str:
    """Msgspec's message with key and value in front."""
    # Of a list or a table whose keys are free, the whole is shown: `$.privacy.budget.stops[0]`, `$.step[...]`.
    place = message.partition(" - at `$")[2].partition("[")[0]
    path = [part for part in place.strip(".`").split(".") if part]
    if "missing required field" in message:
        return f"{'.'.join([*path, message.split('`')[1]])} is missing"
    value: Any = tree
    kind: Any = Experiment
    for depth, part in enumerate(path, 1):
        value = value[part]
        section = SECTIONS.get(".".join(path[:depth]))
        kind = section or next(f.type for f in msgspec.structs.fields(kind) if f.name == part)
    key = ".".join(path)
    return f"{key} = {value!r}: {registry.plain(message, kind)}{registry.to_type(key, value, message)}"
