"""Turn the settings of a user into a checked `Setup`. The commands that start runs call `compose` to do this.

`defaults.resolve` adds the defaults of the keys that the user does not set. `building` then builds the parts
(algorithm, loss, graph, ...) and assembles them into a `Setup`. Mistakes are searched for in four stages:

1. in the keys,
2. in the algorithm, the other parts and the graph,
3. in the data,
4. in the assembled set-up.

At the end of each stage, the mistakes that were collected in the stage are raised in one error.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from threading import Lock

import msgspec

from mpinodes.config import registry, requirements
from mpinodes.config.building import assembled, stream_of, topology_of
from mpinodes.config.defaults import resolve
from mpinodes.config.metrics import metrics_of
from mpinodes.config.registry import Classes
from mpinodes.config.schema import Problems
from mpinodes.core.asked import Request, Tree, flat
from mpinodes.core.errors import BadInput
from mpinodes.core.experiment import Experiment
from mpinodes.core.parts import Setup, Stream
from mpinodes.topology import facts

UNKNOWN_LENGTH = 2**53  # the value of `rounds` until the data determine the number of rounds
_COMPOSING = Lock()  # msgspec crashes if two threads use a type for the first time at the same time


def compose(asked: Tree, ranks: int | None) -> Setup:
    """Return the set-up of the experiment that the user asks for, with all defaults filled in and all parts checked.

    Args:
        asked: the settings as nested dictionaries, as `core.asked.parse` returns them.
        ranks: the number of MPI processes, including the logger; None if one process runs all agents.

    Raises:
        BadInput: the settings have mistakes; the message has a line for each mistake that was found.
    """
    with _COMPOSING, _located(asked):
        problems = Problems()
        tree, _ = resolve(asked, ranks, problems)
        problems.settle()
        experiment = msgspec.convert({"rounds": UNKNOWN_LENGTH} | tree, Experiment)
        classes = Classes.of(experiment)
        problems += requirements.of_parts(experiment, classes)
        with problems.caught():
            metrics = metrics_of(experiment.record.metrics)
        with problems.caught():
            graph = topology_of(experiment.topology, experiment.seed)
            problems += requirements.of_agents(experiment, graph, classes.algorithm, ranks)
        problems.settle()
        stream = stream_of(experiment, classes, graph.agents)
        problems += requirements.of_data(experiment, classes, stream)
        problems.settle()
        experiment = msgspec.structs.replace(experiment, rounds=_rounds(tree, stream))
        setup, connected_over = assembled(experiment, classes, graph, stream), 0
        with problems.caught():
            connected_over = facts.connectivity(graph, experiment.rounds)
            for r in range(1, experiment.repeats):  # the graph of each repeat is drawn from another seed
                facts.connectivity(topology_of(experiment.topology, experiment.seed + r), experiment.rounds)
        problems += requirements.of_setup(setup, bool(connected_over))
        problems.settle()
        connected_over = 0 if experiment.is_isolated else connected_over
        return replace(setup, connected_over=connected_over, metrics=metrics, asked=tuple(dict(flat(asked))))


def origin(key: str, asked: Tree, ranks: int | None) -> str:
    """Return a line with the value of a key, and with the place where the value is set; empty if the key has no value.

    The place is a line of the user's file, the command line, or the source of the default. The result begins with a
    line break. If the data determine `rounds`, the result says so instead.

    Args:
        key: the dotted key.
        asked: the settings that the user asks for.
        ranks: the number of MPI processes, including the logger; None if one process runs all agents.

    Raises:
        BadInput: the settings have mistakes in their keys.
    """
    problems = Problems()
    with _located(asked):
        tree, layers = resolve(asked, ranks, problems)
        problems.settle()
    values = dict(flat(msgspec.to_builtins(msgspec.convert({"rounds": UNKNOWN_LENGTH} | tree, Experiment))))
    values |= {f"problem.{name}": value for name, value in (tree["problem"]["settings"] or {}).items()}
    if (value := values.get(key)) is None:
        return ""
    if key == "rounds" and value == UNKNOWN_LENGTH:
        return "\nrounds: as many as the data give"
    setting = [name for name, keys in layers.items() if key in dict(flat(keys))]
    layer = setting[-1] if setting else "the default of the key"
    if layer == "you":
        layer = getattr(asked, "places", {}).get(key) or "the command line"
    return f"\n{key} = {value if isinstance(value, str) else json.dumps(value)}   from {layer}"


@contextmanager
def _located(asked: Tree) -> Iterator[None]:
    """Add, to each mistake of a `BadInput` in the `with` block, the file and the line that set the wrong key.

    A mistake in a key that no file sets is left unchanged.

    Raises:
        BadInput: the same mistakes, with file and line.
    """
    try:
        yield
    except BadInput as error:
        if not isinstance(asked, Request):
            raise
        raise BadInput("\n".join(map(asked.located, str(error).split("\n")))) from error


def _rounds(tree: Tree, stream: Stream) -> int:
    """Return the number of rounds of the run: the setting `rounds` or, by default, the number of rounds that have data.

    Args:
        tree: the settings, perhaps with `rounds`.
        stream: the data.

    Raises:
        BadInput: a batch is larger than the share of an agent, the data are too short for `rounds`, or `rounds` is
            missing and the data never end.
    """
    rounds, length, data = tree.get("rounds"), stream.rounds, tree["data"]
    if length == 0:
        samples = "the training set has" if data["partition"] == "shared" else "some agent has"
        raise BadInput(f"data.batch = {data['batch']}: {samples} fewer samples; lower data.batch, or use more data")
    if rounds is None and length is None:
        named = registry.named(registry.STREAMS, data)
        raise BadInput(f"the key rounds is missing, and the samples of {named} never end; set rounds")
    if rounds is not None and length is not None and rounds > length:
        settings = ", ".join(f"data.{key} = {data[key]}" for key in ("batch", *stream.lengthens) if key in data)
        more_data = "".join(f"data.{key}={-(-rounds * data[key] // length)}, or " for key in stream.lengthens)
        raise BadInput(f"rounds = {rounds}: the data last {length} rounds ({settings}); set {more_data}fewer rounds")
    return int(rounds or length or 0)
