"""Compose what a user asks for into a set-up that is ready to run. Every command uses this one way.

The keys that the user asks for become an experiment with every choice made (`defaults.resolve`). Its parts are built
once each (`building`) and assembled into a `Setup`. Mistakes are collected at three stages, and raised together at the
end of each: in the keys, before anything is read; in the parts and the graph; with the data at hand.
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

UNKNOWN_LENGTH = 2**53  # rounds, until the data determine their number
_COMPOSING = Lock()  # msgspec crashes if two threads use a type for the first time at once


def compose(asked: Tree, ranks: int | None) -> Setup:
    """Return the set-up of what the user asks for, with every default filled in from the data and the algorithm.

    Args:
        asked: nested dictionaries, as `core.asked.parse` returns them.
        ranks: the number of MPI processes, including the logger; None in lockstep.

    Raises:
        BadInput: the message has a line for every mistake.
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
            for r in range(1, experiment.repeats):  # each repeat draws its graph from another seed
                facts.connectivity(topology_of(experiment.topology, experiment.seed + r), experiment.rounds)
        problems += requirements.of_setup(setup, bool(connected_over))
        problems.settle()
        return replace(setup, connected_over=connected_over, metrics=metrics)


def origin(key: str, asked: Tree, ranks: int | None) -> str:
    """Return a line with the value of a key in an experiment, and the layer that sets it; empty if there is no value.

    Raises:
        BadInput: as `compose`, for mistakes in the keys alone.
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
    """Put the file and the line of a key in front of each mistake.

    Raises:
        BadInput: the mistakes that were raised within.
    """
    try:
        yield
    except BadInput as error:
        if not isinstance(asked, Request):
            raise
        raise BadInput("\n".join(map(asked.located, str(error).split("\n")))) from error


def _rounds(tree: Tree, stream: Stream) -> int:
    """Return `rounds`, checked against the length of the data; by default that length.

    Raises:
        BadInput: the data are too short, or have no end and `rounds` is missing.
    """
    rounds, length, data = tree.get("rounds"), stream.rounds, tree["data"]
    if length == 0:
        share = "the training set" if data["partition"] == "shared" else "the smallest share of an agent"
        raise BadInput(f"data.batch = {data['batch']}: larger than {share}; lower data.batch")
    if rounds is None and length is None:
        raise BadInput(f"rounds is missing, and {registry.named(registry.STREAMS, data)} has no end; set rounds")
    if rounds is not None and length is not None and rounds > length:
        shown = ", ".join(f"data.{key} = {data[key]}" for key in ("batch", *stream.lengthens) if key in data)
        longer = "".join(f"data.{key}={-(-rounds * data[key] // length)}, or " for key in stream.lengthens)
        raise BadInput(f"rounds = {rounds}: the data lasts {length} rounds ({shown}); set {longer}fewer rounds")
    return int(rounds or length or 0)
