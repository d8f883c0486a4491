"""From what a user asked for to an experiment with every choice made: the only place that turns names into parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf, isinf
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from mpinodes import topology
from mpinodes.config import registry
from mpinodes.core import schedules
from mpinodes.core.errors import BadInput
from mpinodes.core.experiment import SECTIONS, SEED, Experiment, Finite, Tree, merge
from mpinodes.losses.linear import SmoothLoss

ALGORITHM_FACTS = frozenset(
    {
        "agents", "dimension", "blocks", "degrees", "step", "feasible", "regularizer",
        "change", "spread", "smoothness", "share", "steepness", "curvature", "least_modulus", "largest_smoothness",
        "epsilon", "delta", "gdp",
    }
)  # fmt: skip
STREAM_FACTS = frozenset({"seed", "agents", "make_loss"})
TOPOLOGY_FACTS = frozenset({"seed"})
LOCKSTEP_AGENTS = 7


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


def _text(section: Mapping[str, Any], key: str, prefix: str) -> str:
    value = section[key]
    if not isinstance(value, str):
        raise BadInput(f"{prefix}.{key} = {value!r}: expected a name")
    return value


def find_algorithm(section: Mapping[str, Any]) -> Any:
    """The class that the keys `algorithm.name` or `algorithm.path` name."""
    if "path" in section and "name" in section:
        raise BadInput("algorithm.name and algorithm.path are both given; leave one out")
    if "path" in section:
        return registry.from_path(_text(section, "path", "algorithm"), "algorithm.path")
    return registry.find("algorithms", _text(section, "name", "algorithm"), "algorithm.name")


def resolve(asked: Tree, ranks: int | None) -> Experiment:
    """The experiment that the user asked for, every default filled in from its data and its algorithm.

    Args:
        asked: nested dictionaries, as `parse` gives them.
        ranks: MPI processes, the logger among them; None in lockstep.

    Raises:
        BadInput: anything wrong with it.
    """
    _known(asked, Experiment)
    algorithm_section = merge(
        {} if "path" in asked.get("algorithm", {}) else {"name": "dpsda-ps"}, asked.get("algorithm", {})
    )
    if isinstance(algorithm_section.get("path"), str):  # the experiment runs again from any directory
        algorithm_section["path"] = str(Path(algorithm_section["path"]).absolute())
    algorithm = find_algorithm(algorithm_section)
    data_section = _data_section(algorithm, asked)
    stream = registry.find("streams", _text(data_section, "name", "data"), "data.name")
    if getattr(algorithm, "whole_data", False) and not _shows_all(stream):
        raise BadInput(
            f"data.name = {data_section['name']!r} shows new samples round by round; this algorithm needs losses that "
            "stay the same; choose data that can, as data.name=unit-ball, mean or adult"
        )
    tree = merge(
        {"seed": 0, "repeats": 1},
        _of_data(stream, algorithm),
        _without_other(getattr(algorithm, "defaults", {}), asked),
        asked,
        {"algorithm": algorithm_section, "data": data_section},
    )
    tree.setdefault("name", algorithm_section.get("name") or Path(algorithm_section["path"]).stem)
    tree["algorithm"] = _filled(algorithm, tree["algorithm"], ALGORITHM_FACTS, "algorithm", ("name", "path"))
    tree["step"] = _step_section(tree, algorithm)
    tree["data"] = _filled(stream, tree["data"], STREAM_FACTS, "data", ("name", "seed"))
    tree["topology"] = _topology_section(tree.get("topology", {}), ranks)
    _require_partition(tree, algorithm)
    _require_samples(tree, algorithm)
    registry.checked(tree["seed"], SEED, "seed")
    graph = make_topology(tree["topology"], tree["seed"])
    made = make_stream(tree["data"], tree["seed"], graph.agents, lambda features, targets: None)
    _require_labels(tree, made)
    tree["rounds"] = _rounds(tree, made)
    experiment = _typed(tree)
    _require_mechanism(experiment, algorithm)
    _require_backend(experiment, algorithm)
    return experiment


def _of_data(stream: Any, algorithm: Any) -> Tree:
    """The data's defaults; a fixed noise scale that goes with them is for agents that share one loss."""
    defaults: Tree = getattr(stream, "defaults", {})
    if getattr(algorithm, "solves", False) and "problem" in defaults:  # which samples no gradients
        kept = {k: v for k, v in defaults["problem"].items() if k != "gradient_noise"}
        defaults = defaults | {"problem": kept}
    if not algorithm.decomposable or "privacy" not in defaults:
        return defaults
    return defaults | {"privacy": {k: v for k, v in defaults["privacy"].items() if k != "scale"}}


def _data_section(algorithm: Any, asked: Tree) -> Tree:
    """The data's keys, from the algorithm's defaults and the user, with absolute paths."""
    given = asked.get("data", {})
    default = getattr(algorithm, "defaults", {}).get("data", {})
    if "file" in given and "name" not in given:
        given = {"name": "file"} | given
    usual = {"name": "digits", "partition": "even" if algorithm.decomposable else "shared"}
    if getattr(algorithm, "whole_data", False):
        usual["batch"] = "all"
    section = merge(usual, {} if _other_data(asked, {"data": default}) else default, given)
    for key in ("dir", "file"):
        if section.get(key):
            section[key] = str(Path(_text(section, key, "data")).expanduser().absolute())
    if "seed" in section:
        registry.checked(section["seed"], SEED, "data.seed")
    return section


def _step_section(tree: Tree, algorithm: Any) -> Tree:
    """The step's keys; a modulus not given comes from the losses' own strong convexity."""
    if "step" not in algorithm.__dataclass_fields__:
        if tree.get("step"):
            raise BadInput(f"unknown key step.{min(tree['step'])}; {tree['name']} takes no steps along a gradient")
        return {}
    section = {"kind": "inverse-sqrt"} | tree.get("step", {})
    kind = schedule(section)
    regularizer = tree.get("problem", {}).get("regularizer", 0.0)
    if "modulus" in kind.__dataclass_fields__ and "modulus" not in section:
        if not regularizer:
            raise BadInput(
                f"step.kind = {section['kind']!r} needs strongly convex losses or a step.modulus: set "
                "problem.regularizer or step.modulus above 0, or step.kind=inverse-sqrt"
            )
        registry.checked(regularizer, Finite, "problem.regularizer")
        section["modulus"] = getattr(algorithm, "modulus_share", 1.0) * regularizer
    return _filled(kind, section, frozenset(), "step", ("kind",))


def _require_partition(tree: Tree, algorithm: Any) -> None:
    """Refuse data of its own for each agent where all agents share one loss."""
    partition = tree["data"]["partition"]
    if not algorithm.decomposable and partition != "shared":
        raise BadInput(
            f"data.partition = {partition!r}: the agents of {tree['name']} share one loss and decide a block of "
            "coordinates each; set data.partition=shared, or algorithm.name=dola"
        )


def _require_samples(tree: Tree, algorithm: Any) -> None:
    """Refuse a part of the data in each round where an algorithm minimizes the same losses in all of them."""
    if getattr(algorithm, "whole_data", False) and tree["data"].get("batch") != "all":
        raise BadInput(
            f"data.batch = {tree['data'].get('batch', 1)!r}: the losses of {tree['name']} are the same in every round; "
            "set data.batch=all, with data that can (data.name=unit-ball, adult, ...)"
        )


def _require_mechanism(experiment: Experiment, algorithm: Any) -> None:
    """Refuse noise or clipping that an algorithm is not for."""
    privacy, only = experiment.privacy, getattr(algorithm, "mechanism", "laplace")
    if experiment.private and privacy.mechanism != only:
        raise BadInput(
            f"privacy.mechanism = {privacy.mechanism!r}: "
            + (f"{experiment.name} carries no noise" if only == "none" else f"the noise of {experiment.name} is {only}")
            + ("; algorithm.name=dvp-admm and pp-admm do" if only == "none" else f"; set privacy.mechanism={only}")
        )
    if only == "gaussian" and experiment.private and privacy.scale != "calibrated":
        raise BadInput(f"privacy.scale = {privacy.scale!r}: {experiment.name} has algorithm.noise_scale instead")
    if not getattr(algorithm, "solves", False):
        unbounded = isinf(experiment.clip) and privacy.scale == "calibrated"
        loss = registry.find("losses", experiment.problem.loss, "problem.loss")
        clipped_only = isinf(loss.sample_change(1.0)) or privacy.adjacency == "one-round"
        if experiment.private and unbounded and clipped_only:
            raise BadInput(
                "privacy.clip = inf leaves no sensitivity to calibrate noise to; set a finite privacy.clip, "
                "or a fixed privacy.scale (the privacy is then reported as unproven)"
            )
        return
    problem = experiment.problem
    if not isinf(experiment.clip) or privacy.adjacency == "one-round":
        key, value = ("clip", privacy.clip) if not isinf(experiment.clip) else ("adjacency", privacy.adjacency)
        raise BadInput(
            f"privacy.{key} = {value!r}: {experiment.name} minimizes whole losses, which clipped gradients are not of; "
            "what it costs follows from the loss and the norm of the features: leave privacy.clip=inf and one sample"
        )
    if privacy.scale != "calibrated":
        raise BadInput(f"privacy.scale = {privacy.scale!r}: {experiment.name} has algorithm.noise_rate instead")
    if not issubclass(registry.find("losses", problem.loss, "problem.loss"), SmoothLoss):
        raise BadInput(
            f"problem.loss = {problem.loss!r} has kinks, and {experiment.name} minimizes it by Newton's method; set "
            "problem.loss=logistic, or least-squares"
        )
    if problem.gradient_noise:
        raise BadInput(f"problem.gradient_noise = {problem.gradient_noise!r}: {experiment.name} samples no gradients")


def _require_backend(experiment: Experiment, algorithm: Any) -> None:
    """Refuse arithmetic that a mechanism's noise does not come in."""
    backend, mechanism = experiment.noise.backend, experiment.privacy.mechanism
    added = mechanism in ("laplace", "gaussian") and not getattr(algorithm, "solves", False)
    if experiment.private and backend != "numpy" and not added:
        raise BadInput(
            f"noise.backend = {backend!r}: only laplace and gaussian noise added to messages comes in another "
            f"arithmetic, and that of {experiment.name} is {mechanism}; set noise.backend=numpy"
        )


def _shows_all(stream: Any) -> bool:
    """Whether the data can show an agent all its samples in every round."""
    try:
        msgspec.convert("all", registry.settings(stream, STREAM_FACTS).get("batch"))
    except msgspec.ValidationError:
        return False
    return True


def _without_other(defaults: Tree, asked: Tree) -> Tree:
    """An algorithm's defaults, less those of a topology, step or data that the user has put another in the place of."""
    other = {key for key, chooser in (("topology", "name"), ("step", "kind")) if _chosen(asked, defaults, key, chooser)}
    if "file" in asked.get("topology", {}):
        other.add("topology")
    kept = {k: v for k, v in defaults.items() if k != "data" and k not in other}
    if "problem" in kept and _other_data(asked, defaults):
        kept["problem"] = {k: v for k, v in kept["problem"].items() if k != "loss"}  # the data has one that fits it
    return kept


def _other_data(asked: Tree, defaults: Tree) -> bool:
    """Whether the user chose other data than the algorithm's own."""
    return "file" in asked.get("data", {}) or _chosen(asked, defaults, "data", "name")


def _chosen(asked: Tree, defaults: Tree, key: str, chooser: str) -> bool:
    """Whether the user chose another part than the default one."""
    return chooser in asked.get(key, {}) and asked[key][chooser] != defaults.get(key, {}).get(chooser)


def _filled(part: Any, section: Tree, facts: frozenset[str], prefix: str, choosers: tuple[str, ...]) -> Tree:
    given = {k: v for k, v in section.items() if k not in choosers}
    return {k: section[k] for k in choosers if k in section} | registry.fill(part, given, facts, prefix)


def schedule(section: Tree) -> Any:
    """The class that `step.kind` names."""
    kind = _text(section, "kind", "step")
    if kind not in schedules.KINDS:
        raise BadInput(
            f"step.kind = {kind!r}: there is no such kind; {registry.suggest(kind, sorted(schedules.KINDS))}"
        )
    return schedules.KINDS[kind]


def _topology_section(section: Tree, ranks: int | None) -> Tree:
    """The topology's keys, with the number of agents settled where the graph is generated."""
    if not {"name", "file"} & section.keys():
        section = {"name": "complete"} | section
    if "file" in section:
        if "name" in section:
            raise BadInput("topology.name and topology.file are both given; leave one out")
        section = section | {"file": str(Path(_text(section, "file", "topology")).absolute())}
    elif (name := _text(section, "name", "topology")) not in (stored := topology.stored()):
        kind = registry.find("topology", name, "topology.name", stored)
        agents = LOCKSTEP_AGENTS if ranks is None else ranks - 1
        section = {"agents": agents} | section
        return _filled(kind, section, TOPOLOGY_FACTS, "topology", ("name",))
    given = {k: v for k, v in section.items() if k not in ("name", "file")}
    if unknown := given.keys() - {"undirected"}:
        raise BadInput(f"unknown key topology.{min(unknown)}; a graph from a file takes only topology.undirected")
    undirected = registry.checked(given.get("undirected", False), bool, "topology.undirected")
    return {k: section[k] for k in ("name", "file") if k in section} | {"undirected": undirected}


def make_topology(section: Mapping[str, Any], seed: int) -> topology.Topology:
    """The graph that a resolved `topology` section names.

    Raises:
        BadInput: its file is missing or malformed.
    """
    rest = dict(section)
    if "file" in rest:
        return topology.read(Path(rest["file"]), rest["undirected"])
    name = rest.pop("name")
    if name in topology.stored():
        return topology.read(topology.folder() / f"{name}.json", rest["undirected"])
    kind: Any = registry.find("topology", name, "topology.name")
    made: topology.Topology = kind(**rest, seed=seed)
    return made


def _require_labels(tree: Tree, stream: Any) -> None:
    """Refuse a loss for labels ±1 on data without labels."""
    problem = tree.get("problem", {})
    if not isinstance(problem.get("loss"), str):
        return
    loss = registry.find("losses", problem["loss"], "problem.loss")
    if loss.needs_labels and not stream.labels:
        raise BadInput(
            f"problem.loss = {problem['loss']!r} needs labels -1 and +1, and data.name = {tree['data']['name']!r} "
            "has real targets; set problem.loss=least-squares, or absolute"
        )


def _rounds(tree: Tree, stream: Any) -> Any:
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
            raise BadInput(f"rounds is missing, and data.name = {tree['data']['name']!r} has no end; set rounds")
        return length
    registry.checked(rounds, Annotated[int, Meta(ge=1)], "rounds")
    if length is not None and rounds > length:
        epochs = -(-rounds * tree["data"]["epochs"] // length)
        raise BadInput(
            f"rounds = {rounds}: the data lasts {length} rounds (data.batch = {tree['data']['batch']}, "
            f"data.epochs = {tree['data']['epochs']}); set data.epochs={epochs}, or fewer rounds"
        )
    return rounds


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


def make_stream(section: Mapping[str, Any], seed: int, agents: int, make_loss: Callable[..., Any]) -> Any:
    """The stream of losses that a resolved `data` section names.

    Raises:
        BadInput: files are missing or malformed.
    """
    part = registry.find("streams", section["name"], "data.name")
    given = {"seed": seed} | {k: v for k, v in section.items() if k != "name"}
    return part(**given, agents=agents, make_loss=make_loss)
