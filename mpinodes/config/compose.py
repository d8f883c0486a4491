"""From what a user asked for to a set-up that is ready to run: the one way that every command goes.

asked (nested dictionaries) -> the experiment with every choice made -> its parts, each built once -> `Setup`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta

from mpinodes import topology
from mpinodes.config import registry
from mpinodes.config.constants import constants_of, graph_facts, samples_of
from mpinodes.config.metrics import metrics_of
from mpinodes.config.registry import text
from mpinodes.config.requirements import (
    require_all_at_once,
    require_fit,
    require_labels,
    require_mechanism,
    require_partition,
    require_samples,
    require_set,
)
from mpinodes.core import schedules
from mpinodes.core.errors import BadInput
from mpinodes.core.experiment import SECTIONS, SEED, Experiment, Finite, Privacy, Problem, Tree, merge
from mpinodes.core.messages import Features, Vector
from mpinodes.core.parts import Algorithm, Loss, Mechanism, Mixing, SampleLoss, Setup, Stream, Topology
from mpinodes.core.seeds import Draws, Purpose
from mpinodes.losses.linear import NoisyGradient

LOCKSTEP_AGENTS = 7
SOURCES = ("algorithm", "problem", "data", "privacy", "topology")  # sections with a `path`: files of the user's


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
    tree = _filled_in(asked, ranks)
    problem, privacy = (_section(tree, *which) for which in (("problem", Problem), ("privacy", Privacy)))
    graph = _topology(tree["topology"], tree["seed"])
    loss = registry.chosen(registry.LOSSES, {k: v for k, v in tree["problem"].items() if k in ("path", "loss")})
    stream = _stream(tree["data"], tree["seed"], graph.agents, _make_loss(loss, problem, privacy))
    require_labels(loss, stream, tree)
    tree["rounds"] = _rounds(tree, stream)
    experiment = _typed(tree)
    classes = Classes.of(experiment)
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
    hyper = {k: v for k, v in experiment.algorithm.items() if k not in ("name", "path", "mixing")}
    return Setup(
        experiment, graph, stream,
        algorithm=classes.algorithm(run=run, **hyper),
        mixing=_mixing(classes.algorithm, experiment.algorithm["mixing"])(graph_facts(graph, experiment.rounds)),
        mechanism=_mechanism(experiment, classes.mechanism),
        loss=classes.loss,
        run=run,
        samples=samples_of(experiment, stream, graph.agents),
        losses=_losses(experiment, stream),
    )  # fmt: skip


def _losses(experiment: Experiment, stream: Stream) -> Callable[[int], Callable[[int], Loss]]:
    """By agent, the losses that it sees, with the stochastic error of its gradients."""
    variance, seed = experiment.problem.gradient_noise, experiment.seed

    def of(agent: int) -> Callable[[int], Loss]:
        clean = stream.of(agent)
        if variance == 0:
            return clean
        noise = Draws(seed, Purpose.GRADIENT_NOISE, agent)
        return lambda t: NoisyGradient(clean(t), variance, t, noise)

    return of


def _make_loss(loss: type[SampleLoss], problem: Problem, privacy: Privacy) -> Callable[[Features, Vector], SampleLoss]:
    whole, clip = privacy.adjacency == "one-round", float(privacy.clip)

    def make_loss(features: Features, targets: Vector) -> SampleLoss:
        divisor = (len(targets) if problem.average else 1.0) / problem.weight
        return loss(features, targets, clip, whole, divisor, problem.regularizer)

    return make_loss


def _mechanism(experiment: Experiment, part: type[Mechanism]) -> Mechanism:
    if not experiment.private:
        return part()
    constant = None if experiment.privacy.scale == "calibrated" else experiment.privacy.scale
    return part(experiment.epsilon, constant, experiment.noise.backend)


def _mixing(algorithm: type[Algorithm[Any]], name: str) -> type[Mixing]:
    """The class of the weights called so: a part, or a class that the algorithm brings."""
    for mixing in algorithm.mixings:
        if name == _mixing_name(mixing):
            part: type[Mixing] = registry.find(registry.MIXINGS, mixing) if isinstance(mixing, str) else mixing
            return part
    choices = ", ".join(map(_mixing_name, algorithm.mixings))
    raise BadInput(f"algorithm.mixing = {name!r}: choose from: {choices}")


def _mixing_name(mixing: str | type[Mixing]) -> str:
    return mixing if isinstance(mixing, str) else mixing.__name__


# ------------------------------------------------------------------------------------------------------------ defaults


def _filled_in(asked: Tree, ranks: int | None) -> Tree:
    """All keys but `rounds`, from the user, the algorithm and the data."""
    _known(asked, Experiment)
    asked = _absolute(asked)
    algorithm_section = merge(
        {} if "path" in asked.get("algorithm", {}) else {"name": "dpsda-ps"}, asked.get("algorithm", {})
    )
    algorithm = registry.chosen(registry.ALGORITHMS, algorithm_section)
    algorithm_section = {"mixing": _mixing_name(algorithm.mixings[0])} | algorithm_section
    data_section = _data_section(algorithm, asked)
    stream = registry.chosen(registry.STREAMS, data_section)
    require_all_at_once(algorithm, stream, data_section)
    tree = merge(
        {"seed": 0, "repeats": 1},
        _of_data(stream, algorithm),
        _without_other(algorithm.defaults, asked),
        asked,
        {"algorithm": algorithm_section, "data": data_section},
    )
    tree.setdefault("name", algorithm_section.get("name") or Path(algorithm_section["path"]).stem)
    if "path" in tree.get("problem", {}):
        tree["problem"].pop("loss", None)
    tree["algorithm"] = _filled(registry.ALGORITHMS, algorithm, tree["algorithm"], ("name", "path", "mixing"))
    _mixing(algorithm, text(tree["algorithm"], "mixing", "algorithm"))
    tree["step"] = _step_section(tree, algorithm)
    tree["data"] = _filled(registry.STREAMS, stream, tree["data"], ("name", "path", "seed"))
    tree["topology"] = _topology_section(tree.get("topology", {}), ranks)
    require_partition(algorithm, tree["name"], tree["data"])
    require_samples(algorithm, tree["name"], tree["data"])
    registry.checked(tree["seed"], SEED, "seed")
    return tree


def _absolute(asked: Tree) -> Tree:
    """With absolute paths: the experiment runs again from any directory."""
    changed = {
        section: {"path": str(Path(asked[section]["path"]).absolute())}
        for section in SOURCES
        if isinstance(asked.get(section, {}).get("path"), str)
    }
    return merge(asked, changed)


def _of_data(stream: type[Stream], algorithm: type[Algorithm[Any]]) -> Tree:
    """The data's defaults; a fixed noise scale that goes with them is for agents that share one loss."""
    defaults: Tree = dict(stream.defaults)
    if algorithm.solves and "problem" in defaults:  # which samples no gradients
        kept = {k: v for k, v in defaults["problem"].items() if k != "gradient_noise"}
        defaults = defaults | {"problem": kept}
    if not algorithm.decomposable or "privacy" not in defaults:
        return defaults
    return defaults | {"privacy": {k: v for k, v in defaults["privacy"].items() if k != "scale"}}


def _data_section(algorithm: Any, asked: Tree) -> Tree:
    """The data's keys, from the algorithm's defaults and the user, with absolute paths."""
    given = asked.get("data", {})
    default = algorithm.defaults.get("data", {})
    if "file" in given and not {"name", "path"} & given.keys():
        given = {"name": "file"} | given
    usual = {"partition": "even" if algorithm.decomposable else "shared"}
    if algorithm.whole_data:
        usual["batch"] = "all"
    section = merge(usual, {} if _other_data(asked, {"data": default}) else default, given)
    if "path" not in section:
        section = {"name": "digits"} | section
    for key in ("dir", "file"):
        if section.get(key):
            section[key] = str(Path(text(section, key, "data")).expanduser().absolute())
    if "seed" in section:
        registry.checked(section["seed"], SEED, "data.seed")
    return section


def _step_section(tree: Tree, algorithm: Any) -> Tree:
    """The step's keys; a modulus not given comes from the losses' own strong convexity."""
    if not algorithm.takes_steps:
        if tree.get("step"):
            raise BadInput(f"unknown key step.{min(tree['step'])}; {tree['name']} takes no steps along a gradient")
        return {}
    section = {"kind": "inverse-sqrt"} | tree.get("step", {})
    kind = _schedule(section)
    regularizer = tree.get("problem", {}).get("regularizer", 0.0)
    if "modulus" in registry.settings(None, kind) and "modulus" not in section:
        if not regularizer:
            raise BadInput(
                f"step.kind = {section['kind']!r} needs strongly convex losses or a step.modulus: set "
                "problem.regularizer or step.modulus above 0, or step.kind=inverse-sqrt"
            )
        registry.checked(regularizer, Finite, "problem.regularizer")
        section["modulus"] = algorithm.modulus_share * regularizer
    given = {k: v for k, v in section.items() if k != "kind"}
    return {"kind": section["kind"]} | registry.fill(None, kind, given, "step")


def _without_other(defaults: Mapping[str, Any], asked: Tree) -> Tree:
    """An algorithm's defaults, less those of a topology, step or data that the user has put another in the place of."""
    other = {key for key, chooser in (("topology", "name"), ("step", "kind")) if _chosen(asked, defaults, key, chooser)}
    if {"file", "path"} & asked.get("topology", {}).keys():
        other.add("topology")
    kept = {k: v for k, v in defaults.items() if k != "data" and k not in other}
    if "problem" in kept and _other_data(asked, defaults):
        kept["problem"] = {k: v for k, v in kept["problem"].items() if k != "loss"}  # the data has one that fits it
    return kept


def _other_data(asked: Tree, defaults: Mapping[str, Any]) -> bool:
    """Whether the user chose other data than the algorithm's own."""
    return bool({"file", "path"} & asked.get("data", {}).keys()) or _chosen(asked, defaults, "data", "name")


def _chosen(asked: Tree, defaults: Mapping[str, Any], key: str, chooser: str) -> bool:
    """Whether the user chose another part than the default one."""
    return chooser in asked.get(key, {}) and asked[key][chooser] != defaults.get(key, {}).get(chooser)


def _filled(kind: registry.Kind, part: Any, section: Tree, choosers: tuple[str, ...]) -> Tree:
    given = {k: v for k, v in section.items() if k not in choosers}
    return {k: section[k] for k in choosers if k in section} | registry.fill(kind, part, given, kind.section)


def _schedule(section: Tree) -> Any:
    """The class that `step.kind` names."""
    kind = text(section, "kind", "step")
    if kind not in schedules.KINDS:
        raise BadInput(
            f"step.kind = {kind!r}: there is no such kind; {registry.suggest(kind, sorted(schedules.KINDS))}"
        )
    return schedules.KINDS[kind]


def _step(section: Tree) -> Any:
    """The step schedule, with its parameters."""
    return _schedule(section)(**{k: v for k, v in section.items() if k != "kind"})


def _topology_section(section: Tree, ranks: int | None) -> Tree:
    """The topology's keys, with the number of agents settled where the graph is generated."""
    if not {"name", "file", "path"} & section.keys():
        section = {"name": "complete"} | section
    if "file" in section:
        if "name" in section:
            raise BadInput("topology.name and topology.file are both given; leave one out")
        section = section | {"file": str(Path(text(section, "file", "topology")).absolute())}
    elif "path" in section or text(section, "name", "topology") not in (stored := topology.stored()):
        kind = registry.chosen(registry.TOPOLOGIES, section, () if "path" in section else stored)
        agents = LOCKSTEP_AGENTS if ranks is None else ranks - 1
        return _filled(registry.TOPOLOGIES, kind, {"agents": agents} | section, ("name", "path"))
    given = {k: v for k, v in section.items() if k not in ("name", "file")}
    if unknown := given.keys() - {"undirected"}:
        raise BadInput(f"unknown key topology.{min(unknown)}; a graph from a file takes only topology.undirected")
    undirected = registry.checked(given.get("undirected", False), bool, "topology.undirected")
    return {k: section[k] for k in ("name", "file") if k in section} | {"undirected": undirected}


def _topology(section: Mapping[str, Any], seed: int) -> Topology:
    """The graph that a resolved `topology` section names.

    Raises:
        BadInput: its file is missing or malformed.
    """
    if "file" in section:
        return topology.read(Path(section["file"]), section["undirected"])
    if "name" in section and section["name"] in topology.stored():
        return topology.read(topology.folder() / f"{section['name']}.json", section["undirected"])
    made: Topology = registry.chosen(registry.TOPOLOGIES, section)(
        seed=seed, **{k: v for k, v in section.items() if k not in ("name", "path")}
    )
    return made


def _stream(section: Mapping[str, Any], seed: int, agents: int, make_loss: Callable[..., SampleLoss]) -> Stream:
    """The stream of losses that a resolved `data` section names.

    Raises:
        BadInput: files are missing or malformed.
    """
    given = {"seed": seed} | {k: v for k, v in section.items() if k not in ("name", "path")}
    made: Stream = registry.chosen(registry.STREAMS, section)(**given, agents=agents, make_loss=make_loss)
    return made


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


# --------------------------------------------------------------------------------------------------------------- types


def _known(tree: Mapping[str, Any], struct: Any, prefix: str = "") -> None:
    """Refuse keys that no section has."""
    known = {f.name: f.type for f in msgspec.structs.fields(struct)}
    for key, value in tree.items():
        if key not in known:
            raise BadInput(f"unknown key {prefix}{key}; {registry.suggest(str(key), sorted(known), prefix)}")
        inner = SECTIONS.get(f"{prefix}{key}")
        is_section = inner is not None or (not prefix and key in ("algorithm", "step", "topology", "data"))
        if is_section and not isinstance(value, dict):
            name = f"{prefix}{key}"
            raise BadInput(f"{name} = {value!r}: {name} is a section; write {name}.<key>=... or [{name}]")
        if inner is not None:
            _known(value, inner, f"{prefix}{key}.")


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
