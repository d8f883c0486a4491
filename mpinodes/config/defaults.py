"""Find a value for each key of an experiment, from the user's settings and from several layers of defaults.

A layer is a dictionary of keys and values. The layers are, from the lowest to the highest:

1. the base: defaults for every experiment, and more defaults if the user names no algorithm,
2. the defaults of the data,
3. the preset,
4. the defaults of the algorithm,
5. the user's settings.

If two layers have the same key, the higher layer overrides the lower layer. If a higher layer chooses another part
(data, topology or step schedule), the settings of lower layers for this part are dropped. If there is a preset, the
algorithm's defaults for keys that presets may set are dropped. The merged keys are then converted to the types of their
sections, and all mistakes are collected.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from mpinodes.config import presets, registry
from mpinodes.config.classes import as_words
from mpinodes.config.requirements import shows_all
from mpinodes.config.schema import Problems, checked, decode, is_section, keys_of
from mpinodes.core.asked import Request, Tree, flat, merge, nested
from mpinodes.core.errors import BadInput, is_users, place_of
from mpinodes.core.experiment import RETIRED, SECTIONS, DataKeys, Experiment, GraphFile, Problem, current, is_file
from mpinodes.core.parts import Algorithm, Stream
from mpinodes.topology import stored

LOCKSTEP_AGENTS = 7
STEPS = "inverse-sqrt"  # the step schedule of algorithms whose defaults name no schedule
BASE = nested({"seed": 0, "repeats": 1, "data.name": "digits", "step.kind": STEPS, "topology.name": "complete"})
# The defaults if the user names no algorithm: 142 rounds of seven agents, in which each sample is used once. At equal
# ε, batches of 25 samples give better accuracy than single samples, because the noise decreases with the batch size and
# there are fewer rounds (test accuracy of the running mean over the seeds 0 to 4, at a proven ε of 1: 93.0 to 96.3 %;
# with single samples 76 %).
FIRST = nested(
    {"algorithm.name": "dola", "data.name": "unit-ball", "data.total": 25_000, "data.batch": 25}
    | {"problem.average": True, "privacy.delta": 1e-6}
)
CHOICES = {"data": ("name", "path"), "topology": ("name", "file", "path"), "step": ("kind", "path")}  # keys that choose


def resolve(asked: Tree, ranks: int | None, problems: Problems) -> tuple[Tree, dict[str, Tree]]:
    """Find the values of all keys of an experiment from the user's settings and several layers of defaults.

    Two baselines change the user's settings:

    - If the baseline is no-noise: the mechanism is none, and of the section `privacy` only the keys clip, clipping and
      adjacency are used.
    - If the baseline is curator: the graph has one agent.

    Args:
        asked: the settings that the user asks for.
        ranks: the number of MPI processes, including the logger; None if one process runs all agents.
        problems: the list to which a line for each mistake is added.

    Returns:
        Two values: the values of all keys, as nested dictionaries, and a dictionary from the name of each layer to its
        keys, the lowest layer first. The default of `rounds` is not added, because it depends on the data.

    Raises:
        BadInput: the algorithm cannot be loaded, so that the other parts cannot be checked; or the settings have the
            section study, which defines many runs. All other mistakes are added to `problems`.
    """
    asked, retired = current(as_words(asked))
    for key, value in retired.items():
        default, remedy = RETIRED[key]
        if value == default:
            _warn_ignored(key)
        else:
            problems.append(f"{key} = {value!r}: this key no longer exists; {remedy}")
    if "study" in asked:
        raise BadInput("study: the section study describes many runs: start these runs with mpinodes sweep")
    asked, preset, preset_name = presets.taken_out(asked, problems)
    typed = dict(flat(asked))
    in_preset = {key: place for key, place in getattr(preset, "places", {}).items() if key not in typed}
    if {"privacy.epsilon", "privacy.noise_multiplier"} <= typed.keys():
        problems.append("privacy.noise_multiplier and privacy.epsilon: each sets the noise; leave one of them out")
    sections = ("algorithm", *CHOICES, *SECTIONS)
    if asked.get("baseline") == "no-noise":
        privacy, remaining = asked.get("privacy") or {}, ("clip", "clipping", "adjacency")
        clean = {key: value for key, value in privacy.items() if key in remaining} | {"mechanism": "none"}
        asked = asked | {"privacy": clean}
    elif asked.get("baseline") == "curator":
        asked = asked | {"topology": {"name": "complete", "agents": 1}}
    asked, preset = (
        _absolute({k: v for k, v in layer.items() if k not in sections or is_section(k, v, problems)})
        for layer in (asked, preset)
    )
    for layer in (asked, preset):
        _require_one_part(layer, problems)
    data = merge(preset, asked).get("data", {})
    if "file" in data and not {"name", "path"} & data.keys():
        asked = merge(asked, {"data": {"name": "file"}})
    of_names = _chosen(registry.STREAMS, asked["data"], Problems()) if "name" in asked.get("data", {}) else None
    is_named = bool({"name", "path"} & asked.get("algorithm", {}).keys())
    method = {} if is_named else getattr(of_names, "method", {})
    first = {} if is_named or method else FIRST
    named = merge(first.get("algorithm", {}), method.get("algorithm", {}), asked.get("algorithm", {}))
    algorithm = _chosen(registry.ALGORITHMS, named, problems)
    if algorithm is None:
        _decode_fixed(asked, problems)
        problems.settle()
    name = named.get("name") or Path(named["path"]).stem
    preset = presets.fitted(preset, algorithm)
    mixing = registry.mixing_name(algorithm.mixings[0])
    own = merge(algorithm.defaults, {"algorithm": {"mixing": mixing}, "name": name})
    own = merge({key: value for key, value in own.items() if key not in ("data", "step") or not method}, method)
    if (other := _choice(asked, "data")) and other != _choice(merge(own, first), "data"):
        own = _without(own, "problem", "loss")  # the default loss of the algorithm may not fit the user's data
    if preset:
        first, own = presets.left_of(first), presets.left_of(own)
    layers = _without_other_parts([merge(BASE, first), preset, own, asked])
    if not algorithm.takes_steps:
        if step := asked.get("step"):
            problems.append(f"unknown key step.{min(step)}; the algorithm {name} uses no step schedule")
        layers = [layer | {"step": {}} for layer in layers]
    section = merge(*layers).get("data", {})
    stream = _chosen(registry.STREAMS, section, problems)
    of_data = _of_data(stream, algorithm, asked, section, bool(method)) if stream else {}
    if stream and section.get("sampling") == "poisson" and "batch" not in asked.get("data", {}) and shows_all(stream):
        layers[-1] = merge(layers[-1], {"data": {"batch": "all"}})  # a Poisson batch has no size of its own
    noise = merge(*layers).get("privacy", {})
    if algorithm.noises_gradients and section.get("sampling", "none") != "none" and noise.get("mechanism") != "none":
        if "privacy.epsilon" in typed:
            problems.append(
                "privacy.epsilon: this key cannot set the noise of gradients of secret batches (data.sampling); set "
                "privacy.noise_multiplier or privacy.budget.epsilon instead"
            )
        elif not {"noise_multiplier", "budget"} & noise.keys():
            layers[0] = merge(layers[0], {"privacy": {"noise_multiplier": 1.0}})
    if stream and "data" in preset and "data" not in layers[1]:  # keep those keys of the preset that the data have
        known = registry.keys(registry.STREAMS, stream)
        layers[1] = layers[1] | {"data": {key: value for key, value in preset["data"].items() if key in known}}
    data_name = f"the data {section.get('name', section.get('path'))}"
    titles = ("the base", data_name, preset_name, f"the algorithm {name}" + f" for {data_name}" * bool(method))
    by_name = dict(zip((*titles, "you"), [layers[0], of_data, *layers[1:]], strict=True))
    decoded = _decoded(merge(*by_name.values()), algorithm, stream, ranks, problems)
    for part, defaults in ((algorithm, algorithm.defaults), (stream, getattr(stream, "defaults", {}))):
        if part and is_users(part):
            in_preset |= {key: place_of(part, "defaults") for key, _ in flat(defaults) if key not in typed}
    problems[:] = map(Request({}, in_preset).located, problems)
    return decoded, by_name


def unlike_first(asked: Tree) -> str:
    """Return a line for users who name the default algorithm, and thereby change other settings; otherwise ""."""
    if asked.get("algorithm", {}).get("name") != "dola" or {"data", "problem", "privacy"} & asked.keys():
        return ""
    first = " ".join(f"{key}={json.dumps(value)}" for key, value in flat(FIRST) if key != "algorithm.name")
    return f"dola runs with the defaults of its paper; without algorithm.name: {first}"


@cache
def _warn_ignored(key: str) -> None:
    """Warn that a key no longer exists, but can be ignored, because its value is the old default; once per process."""
    reason = "this key no longer exists; the key is ignored, because its value is the old default"
    print(f"mpinodes: {key}: {reason}", file=sys.stderr)


def _chosen(kind: registry.PartKind, section: Tree, problems: Problems, others: Sequence[str] = ()) -> Any:
    """Return the class of the part (an algorithm, a data set, ...) that a section of the settings names.

    If there is no such part, add a line to `problems` and return None.

    Args:
        kind: the kind of the part.
        section: the section.
        problems: the list to which a line for each mistake is added.
        others: further names that the section may have, for the suggestions in the error message.
    """
    with problems.caught():
        return registry.chosen(kind, section, others)
    return None


def _require_one_part(layer: Tree, problems: Problems) -> None:
    """Add a mistake for each part that a layer of settings chooses twice, such as by name and by path.

    There is one exception: `privacy.mechanism` may be set beside `privacy.path`, if it names the mechanism that the
    user's file replaces. Every experiment.toml has this key.
    """
    for kind in registry.KINDS:
        section = layer.get(kind.section, {})
        choosers = (kind.chooser, *(("file",) if kind is registry.TOPOLOGIES else ()), kind.path)
        given = [key for key in choosers if key in section]
        if len(given) < 2 or kind in (registry.METRICS, registry.MIXINGS):
            continue
        part = _chosen(kind, section, problems) if kind is registry.MECHANISMS else None
        if not part or part.takes_the_place_of != section[kind.chooser]:
            keys = " and ".join(f"{kind.section}.{key}" for key in given)
            problems.append(f"{keys} are both given; leave one out")


def _absolute(asked: Tree) -> Tree:
    """Return the settings with absolute paths, which are valid in any working directory.

    The paths of parts, data, graphs and metrics become absolute. In `output.dir`, only a leading `~` is replaced by the
    home directory.
    """
    keys = {kind.path_key for kind in registry.KINDS if kind is not registry.METRICS}
    keys |= {"data.file", "data.dir", "topology.file"}
    named = {key: value for key, value in flat(asked) if key in keys and isinstance(value, str) and value}
    changed = nested({key: _path(word) for key, word in named.items()})
    if isinstance(metrics := asked.get("record", {}).get("metrics"), list):
        files = [_path(word) if isinstance(word, str) and is_file(word) else word for word in metrics]
        changed["record"] = {"metrics": files}
    if isinstance(directory := asked.get("output", {}).get("dir"), str):
        changed["output"] = {"dir": os.path.expanduser(directory)}
    return merge(asked, changed)


def _path(word: str) -> str:
    return str(Path(os.path.expanduser(word)).absolute())


def _choice(layer: Tree, section: str) -> Tree:
    """Return the keys of a section that choose a part, such as `name`, `file` or `path`, as one layer sets them.

    The result is empty if the layer sets no such key.
    """
    keys = layer.get(section, {})
    return {key: keys[key] for key in CHOICES[section] if key in keys}


def _without(layer: Tree, section: str, key: str) -> Tree:
    return layer | {section: {k: v for k, v in layer.get(section, {}).items() if k != key}}


def _without_other_parts(layers: list[Tree]) -> list[Tree]:
    """Return the layers of settings without the settings of parts that are not used.

    The highest layer that chooses the part of a section (data, topology or step) decides which part is used. If a lower
    layer chooses another part, its whole section is dropped. If a layer chooses no part, its section is kept.

    Args:
        layers: the layers of settings, the lowest first.
    """
    for section in CHOICES:
        choices = [_choice(layer, section) for layer in layers]
        last = next(choice for choice in reversed(choices) if choice)
        layers = [
            layer if choice in ({}, last) else {k: v for k, v in layer.items() if k != section}
            for layer, choice in zip(layers, choices, strict=True)
        ]
    return layers


def _of_data(stream: type[Stream], algorithm: type[Algorithm[Any]], asked: Tree, section: Tree, is_alone: bool) -> Tree:
    """Return the defaults of the data, adapted to the kind of algorithm.

    - `privacy.scale`: dropped if each agent has its own loss function.
    - `problem.gradient_noise`: dropped if the algorithm minimizes losses, or under bandit feedback.
    - `data.partition`: "shared" (all agents use the same samples) if all agents share one loss function, or if the data
      have no setting `partition`; otherwise "even".
    - `data.batch`: "all" if the algorithm needs all samples in each round, and the data allow it.
    """
    settings = registry.keys(registry.STREAMS, stream)
    defaults = merge(stream.defaults, stream.inferred(section, is_alone))
    if algorithm.solves or asked.get("feedback", {}).get("points"):
        defaults = _without(defaults, "problem", "gradient_noise")
    if algorithm.decomposable:
        defaults = _without(defaults, "privacy", "scale")
    is_dealt = algorithm.decomposable and "partition" in settings
    usual: Tree = {"partition": "even" if is_dealt else "shared"}
    if algorithm.whole_data and shows_all(stream):
        usual["batch"] = "all"
    return merge(defaults, {"data": usual})


def _decoded(tree: Tree, algorithm: type[Algorithm[Any]], stream: Any, ranks: int | None, problems: Problems) -> Tree:
    """Return the merged settings `tree` with the defaults of all parts (the algorithm, the data, ...).

    All values are converted to the types of their keys.
    """
    for kind in (registry.LOSSES, registry.SETS, registry.SCHEDULES):
        if kind.path in tree.get(kind.section, {}):  # the user's file replaces the part that a lower layer names
            tree = _without(tree, kind.section, kind.chooser)
    parts: Tree = {"step": {}, "problem": {}, "topology": _topology(tree["topology"], ranks, problems)}
    parts["algorithm"] = _part(registry.ALGORITHMS, algorithm, tree["algorithm"], problems, ("mixing",))
    with problems.caught():
        registry.mixing_class(algorithm, tree["algorithm"]["mixing"])
    if algorithm.takes_steps:
        parts["step"] = _steps(tree, algorithm, problems)
    if stream:  # the data determine the loss
        parts["problem"] = _problem(tree.get("problem", {}), problems)
        is_free = "partition" not in registry.keys(registry.STREAMS, stream) and tree["data"]["partition"] == "shared"
        data = _part(registry.STREAMS, stream, tree["data"], problems, ("partition",) * is_free)
        # A run that asks for sampling = "none", the default, has the same noise as a run that does not.
        kept = {key: value for key, value in data.items() if value is not None}
        parts["data"] = {key: value for key, value in kept.items() if key != "sampling" or value != "none"}
    return _decode_fixed(tree, problems) | parts


def _decode_fixed(tree: Tree, problems: Problems) -> Tree:
    """Return the keys and sections that every experiment has, such as `seed`, converted to their types."""
    others = {"algorithm", "problem", *CHOICES, *(() if "rounds" in tree else ("rounds",))}
    needed = {"seed": 0, "repeats": 1, "name": "run"}  # if no algorithm is known
    decoded = decode(needed | tree, keys_of(Experiment), "", problems, others)
    return {key: value for key, value in decoded.items() if key in tree}


def _part(kind: registry.PartKind, part: Any, section: Tree, problems: Problems, others: Sequence[str] = ()) -> Tree:
    """Return the keys of a section that choose a part, and the settings of this part, converted to their types.

    The fields of the part's dataclass are its settings. A setting without a value gets its default. The section `data`
    also has the keys of `DataKeys`, which are converted like settings.

    Args:
        kind: the kind of the part.
        part: the class of the part.
        section: the section that chooses the part and has its settings.
        problems: the list to which a line for each mistake is added.
        others: further keys of the section, which are returned as they are.
    """
    choosers = (kind.chooser, kind.path, *others)
    keys = registry.keys(kind, part) | (keys_of(DataKeys) if kind is registry.STREAMS else {})
    named = {key: section[key] for key in choosers if key in section}
    return named | decode(section, keys, f"{kind.section}.", problems, choosers)


def _problem(problem: Tree, problems: Problems) -> Tree:
    """Return the section `problem`, with all values converted to their types.

    The settings of the loss and of the feasible set are moved to the key `settings`.
    """
    own = {key: field for key, field in keys_of(Problem).items() if key != "settings"}  # users do not set "settings"
    parts = {kind: _chosen(kind, problem, problems) for kind in (registry.LOSSES, registry.SETS)}
    of_loss, of_set = (registry.keys(kind, part) if part else {} for kind, part in parts.items())
    for key in of_loss.keys() & of_set.keys():
        problems.append(f"problem.{key} is a setting of the loss and of the set: rename the setting in your file")
    known = own | of_loss | of_set
    given = {key: value for key, value in problem.items() if key in known or all(parts.values())}
    decoded = decode(given, known, "problem.", problems)
    settings = {key: decoded[key] for key in (*of_loss, *of_set) if key in decoded}
    return {key: decoded[key] for key in own if key in problem.keys() & decoded.keys()} | {"settings": settings or None}


def _steps(tree: Tree, algorithm: type[Algorithm[Any]], problems: Problems) -> Tree:
    """Return the section `step`, converted to its types; empty if the schedule cannot be loaded.

    Some schedules have a setting for the modulus of strong convexity (`Schedule.from_losses`). The default of this
    setting is `problem.regularizer` times `Algorithm.modulus_share`. If this default is needed and the regularizer is
    0, a line is added to `problems`. The setting `Schedule.from_rounds` of a schedule has the default `rounds`.
    """
    section, modulus = tree["step"], tree.get("problem", {}).get("regularizer", 0.0)
    if (schedule := _chosen(registry.SCHEDULES, section, problems)) is None:
        return {}
    if (key := schedule.from_losses) and key not in section:
        section, size = {key: 1.0} | section, keys_of(Problem)["regularizer"].type
        with problems.caught():
            if not modulus:
                raise BadInput(
                    f"{registry.named(registry.SCHEDULES, section)} needs strongly convex losses or a step.{key}: set "
                    f"problem.regularizer or step.{key} above 0, or step.kind={STEPS}"
                )
            section[key] = algorithm.modulus_share * checked(modulus, size, "problem.regularizer")
    if (key := schedule.from_rounds) and "rounds" in tree:
        section = {key: tree["rounds"]} | section
    return _part(registry.SCHEDULES, schedule, section, problems)


def _topology(section: Tree, ranks: int | None, problems: Problems) -> Tree:
    """Return the section `topology`, converted to its types; unchanged if no graph has the name in the section.

    If the graph is not read from a file, the number of agents has a default:

    - Under mpirun: the number of ranks minus 1 (the logger).
    - In one process: `LOCKSTEP_AGENTS`.
    """
    files, name = stored.names(), section.get("name")
    if "file" in section or name in files:
        named = {key: section[key] for key in ("name", "file") if key in section}
        return named | decode(section, keys_of(GraphFile), "topology.", problems, named)
    if (kind := _chosen(registry.TOPOLOGIES, section, problems, files)) is None:
        return section
    section = {"agents": LOCKSTEP_AGENTS if ranks is None else ranks - 1} | section
    return _part(registry.TOPOLOGIES, kind, section, problems)
