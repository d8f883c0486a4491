"""All keys of an experiment but `rounds`, from the user, the algorithm and the data."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from mpinodes.config import presets, registry
from mpinodes.config.registry import text
from mpinodes.config.requirements import require_all_at_once, require_partition, require_samples
from mpinodes.core.errors import BadInput
from mpinodes.core.experiment import (
    IDENTITY,
    SECTIONS,
    SEED,
    SOURCES,
    Experiment,
    Finite,
    Tree,
    is_file,
    merge,
    nested,
)
from mpinodes.core.parts import Algorithm, Stream
from mpinodes.topology import stored

LOCKSTEP_AGENTS = 7
STEPS = "inverse-sqrt"  # of an algorithm that names none
MOST_AGENTS = 1_000_000

# What runs where no algorithm is named: 142 rounds of seven agents, in which every sample is used once. Batches of 25
# learn what single samples do not at the same ε: noise falls with the batch, and rounds are fewer (test accuracy of the
# running mean over the seeds 0 to 4, at a proven ε of 1: 93.0 to 96.3 %; of single samples 76 %).
FIRST: Tree = {
    "algorithm": {"name": "dola"},
    "data": {"name": "unit-ball", "total": 25_000, "batch": 25},
    "problem": {"average": True},
    "privacy": {"delta": 1e-6},
}


def filled_in(asked: Tree, ranks: int | None) -> Tree:
    """All keys but `rounds`, from the user, the algorithm and the data."""
    if "study" in asked:
        raise BadInput("study: this is a study, of many runs: python -m mpinodes.sweep does them")
    asked, preset = presets.taken_out(asked)
    _known(asked, Experiment)
    _known(preset, Experiment)
    asked, preset = _absolute(asked), _absolute(preset)
    first = {} if {"name", "path"} & asked.get("algorithm", {}).keys() else FIRST
    algorithm_section = merge(first.get("algorithm", {}), asked.get("algorithm", {}))
    algorithm = registry.chosen(registry.ALGORITHMS, algorithm_section)
    algorithm_section = {"mixing": registry.mixing_name(algorithm.mixings[0])} | algorithm_section
    preset = presets.fitted(preset, algorithm)
    if _chosen(asked, preset, "step", "kind"):
        preset = {key: section for key, section in preset.items() if key != "step"}
    own = merge(algorithm.defaults, {key: first[key] for key in first if key != "algorithm"})
    own = presets.left_of(own) if preset else own
    data_section = _data_section(algorithm, own, merge(preset, asked))
    stream = registry.chosen(registry.STREAMS, data_section)
    require_all_at_once(algorithm, stream, data_section)
    others: tuple[str, ...] = ("name", "path", "seed", "identity")
    free = "partition" not in registry.settings(registry.STREAMS, stream)
    if free and asked.get("data", {}).get("partition", "shared") == "shared":
        # Who sees which samples is unknown: as if all agents saw all of them, which costs the most.
        data_section, others = data_section | {"partition": "shared"}, (*others, "partition")
    tree = merge(
        {"seed": 0, "repeats": 1},
        _of_data(stream, algorithm, bool(asked.get("feedback", {}).get("points"))),
        _without_other(own, asked),
        preset,
        asked,
        {"algorithm": algorithm_section, "data": data_section},
    )
    tree.setdefault("name", algorithm_section.get("name") or Path(algorithm_section["path"]).stem)
    for kind in (registry.LOSSES, registry.SETS):
        if kind.path in tree.get("problem", {}):
            tree["problem"].pop(kind.chooser, None)
    tree["algorithm"] = _filled(registry.ALGORITHMS, algorithm, tree["algorithm"], ("name", "path", "mixing"))
    registry.mixing_class(algorithm, text(tree["algorithm"], "mixing", "algorithm"))
    tree["step"] = _step_section(tree, algorithm)
    tree["data"] = _filled(registry.STREAMS, stream, tree["data"], others)
    tree["topology"] = _topology_section(tree.get("topology", {}), ranks)
    tree["problem"] = _problem_section(tree.get("problem", {}))
    require_partition(algorithm, tree["name"], tree["data"])
    require_samples(algorithm, tree["name"], tree["data"])
    registry.checked(tree["seed"], SEED, "seed")
    return tree


def _problem_section(problem: Tree) -> Tree:
    """Return the problem's keys, those that are fields of the loss or of the set below `settings`."""
    parts = {kind: registry.chosen(kind, problem) for kind in (registry.LOSSES, registry.SETS)}
    loss, feasible = (registry.settings(kind, part) for kind, part in parts.items())
    for key in loss.keys() & feasible.keys():
        raise BadInput(f"problem.{key} is a setting of the loss and of the set: rename it in one of them")
    rest = {k: v for k, v in problem.items() if k in registry.PROBLEM}
    given = (rest.pop("settings", None) or {}) | {k: v for k, v in problem.items() if k not in registry.PROBLEM}
    for key in given.keys() - loss.keys() - feasible.keys():
        near = registry.suggest(key, sorted([*loss, *feasible, *registry.PROBLEM]), "problem.")
        raise BadInput(f"unknown key problem.{key}; {near}")
    filled = [registry.fill(kind, part, registry.picked(kind, part, given), "problem") for kind, part in parts.items()]
    return rest | {"settings": merge(*filled) or None}


def _absolute(asked: Tree) -> Tree:
    """With absolute paths: the experiment runs again from any directory."""
    named = {key: asked.get(key.partition(".")[0], {}).get(key.partition(".")[2]) for key in SOURCES}
    changed = nested({key: _path(word) for key, word in named.items() if isinstance(word, str)})
    if isinstance(metrics := asked.get("record", {}).get("metrics"), list):
        files = [_path(word) if isinstance(word, str) and is_file(word) else word for word in metrics]
        changed["record"] = {"metrics": files}
    if isinstance(directory := asked.get("output", {}).get("dir"), str):
        changed["output"] = {"dir": os.path.expanduser(directory)}
    return merge(asked, changed)


def _path(word: str) -> str:
    """Return a path that names the same file from any directory."""
    return str(Path(os.path.expanduser(word)).absolute())


def _of_data(stream: type[Stream], algorithm: type[Algorithm[Any]], plays: bool) -> Tree:
    """The data's defaults; a fixed noise scale that goes with them is for agents that share one loss."""
    defaults: Tree = dict(stream.defaults)
    if (algorithm.solves or plays) and "problem" in defaults:  # which sample no gradients
        kept = {k: v for k, v in defaults["problem"].items() if k != "gradient_noise"}
        defaults = defaults | {"problem": kept}
    if not algorithm.decomposable or "privacy" not in defaults:
        return defaults
    return defaults | {"privacy": {k: v for k, v in defaults["privacy"].items() if k != "scale"}}


def _data_section(algorithm: Any, defaults: Mapping[str, Any], asked: Tree) -> Tree:
    """The data's keys, from the algorithm's defaults and the user, with absolute paths."""
    given = asked.get("data", {})
    default = defaults.get("data", {})
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
            section[key] = _path(text(section, key, "data"))
    if "seed" in section:
        registry.checked(section["seed"], SEED, "data.seed")
    if "identity" in section:
        registry.checked(section["identity"], IDENTITY, "data.identity")
    return section


def _step_section(tree: Tree, algorithm: Any) -> Tree:
    """Return the step's keys; a modulus that is not given comes from the losses' own strong convexity."""
    if not algorithm.takes_steps:
        if tree.get("step"):
            raise BadInput(f"unknown key step.{min(tree['step'])}; {tree['name']} takes no steps along a gradient")
        return {}
    section = tree.get("step", {})
    chooser = "path" if "path" in section else "kind"
    section = {"kind": STEPS} | section if chooser == "kind" else {k: v for k, v in section.items() if k != "kind"}
    schedule, modulus = registry.chosen(registry.SCHEDULES, section), tree.get("problem", {}).get("regularizer", 0.0)
    if (key := schedule.from_losses) and key not in section:
        if not modulus:
            raise BadInput(
                f"step.{chooser} = {section[chooser]!r} needs strongly convex losses or a step.{key}: set "
                f"problem.regularizer or step.{key} above 0, or step.kind={STEPS}"
            )
        registry.checked(modulus, Finite, "problem.regularizer")
        section[key] = algorithm.modulus_share * modulus
    return _filled(registry.SCHEDULES, schedule, section, (chooser,))


def _without_other(defaults: Mapping[str, Any], asked: Tree) -> Tree:
    """An algorithm's defaults, less those of a topology, step or data that the user has put another in the place of."""
    other = {key for key, chooser in (("topology", "name"), ("step", "kind")) if _chosen(asked, defaults, key, chooser)}
    kept = {k: v for k, v in defaults.items() if k != "data" and k not in other}
    if "problem" in kept and _other_data(asked, defaults):
        kept["problem"] = {k: v for k, v in kept["problem"].items() if k != "loss"}  # the data has one that fits it
    return kept


def _other_data(asked: Tree, defaults: Mapping[str, Any]) -> bool:
    """Whether the user chose other data than the algorithm's own."""
    return _chosen(asked, defaults, "data", "name")


def _chosen(asked: Tree, defaults: Mapping[str, Any], key: str, chooser: str) -> bool:
    """Whether the user chose another part than the default one."""
    section = asked.get(key, {})
    other = chooser in section and section[chooser] != defaults.get(key, {}).get(chooser)
    return other or bool({"file", "path"} & section.keys())


def _filled(kind: registry.PartKind, part: Any, section: Tree, choosers: tuple[str, ...]) -> Tree:
    given = {k: v for k, v in section.items() if k not in choosers}
    return {k: section[k] for k in choosers if k in section} | registry.fill(kind, part, given, kind.section)


def _topology_section(section: Tree, ranks: int | None) -> Tree:
    """The topology's keys, with the number of agents settled where the graph is generated."""
    if not {"name", "file", "path"} & section.keys():
        section = {"name": "complete"} | section
    if "file" in section:
        if "name" in section:
            raise BadInput("topology.name and topology.file are both given; leave one out")
        section = section | {"file": _path(text(section, "file", "topology"))}
    elif "path" in section or text(section, "name", "topology") not in (files := stored.names()):
        kind = registry.chosen(registry.TOPOLOGIES, section, () if "path" in section else files)
        agents = LOCKSTEP_AGENTS if ranks is None else ranks - 1
        section = {"agents": agents} | section
        if isinstance(section["agents"], int) and section["agents"] > MOST_AGENTS:
            raise BadInput(f"topology.agents = {section['agents']}: expected at most {MOST_AGENTS}")
        return _filled(registry.TOPOLOGIES, kind, section, ("name", "path"))
    given = {k: v for k, v in section.items() if k not in ("name", "file")}
    if unknown := given.keys() - {"undirected"}:
        whose = section.get("file", section.get("name"))
        raise BadInput(
            f"unknown key topology.{min(unknown)}: {whose} is a graph from a file, which takes only "
            "topology.undirected; for another, set topology.name, for instance to ring"
        )
    undirected = registry.checked(given.get("undirected", False), bool, "topology.undirected")
    return {k: section[k] for k in ("name", "file") if k in section} | {"undirected": undirected}


def _known(tree: Mapping[str, Any], struct: Any, prefix: str = "") -> None:
    """Refuse keys that no section has."""
    known = {f.name: f.type for f in msgspec.structs.fields(struct)}
    for key, value in tree.items():
        if key not in known and prefix == "problem.":  # which the loss may have
            continue
        if key not in known:
            raise BadInput(f"unknown key {prefix}{key}; {registry.suggest(str(key), sorted(known), prefix)}")
        inner = SECTIONS.get(f"{prefix}{key}")
        is_section = inner is not None or (not prefix and key in ("algorithm", "step", "topology", "data"))
        if is_section and not isinstance(value, dict):
            name = f"{prefix}{key}"
            typed = registry.to_type(name, value) if str(value).startswith("{") else ""
            raise BadInput(f"{name} = {value!r}: {name} is a section; write {name}.<key>=... or [{name}]{typed}")
        if inner is not None:
            _known(value, inner, f"{prefix}{key}.")
