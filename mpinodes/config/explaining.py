"""Every key of an experiment, in words."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import msgspec
import tomli_w

from mpinodes.config import presets, registry
from mpinodes.config.schema import Key, keys_of, options
from mpinodes.core.experiment import SECTIONS, DataKeys, Experiment, GraphFile
from mpinodes.core.parts import Algorithm, Stream
from mpinodes.topology import stored

SETTABLE = (registry.ALGORITHMS, registry.STREAMS, registry.TOPOLOGIES, registry.SETS, registry.SCHEDULES)
FIXED = {"": Experiment, **SECTIONS, "data": DataKeys, "topology": GraphFile}


def documented_keys() -> dict[str, str]:
    """Return every key with its meaning, for `--explain`."""
    keys = dict(_of_sections())
    for kind in registry.KINDS:
        if kind is registry.METRICS:
            continue
        keys[kind.key] = f"{kind.about}: {_choices(kind)}"
        if kind.path_key not in keys:
            keys[kind.path_key] = f"a Python file of your own with {kind.about}, instead of {kind.key}"
    keys[presets.KEY] = (
        "one problem for all algorithms, in the place of what each brings (data, problem, step, privacy.clip, .scale): "
        f"{', '.join(presets.names())}; or a .toml file, or a table of such keys. The resolved experiment has its keys"
    )
    keys["topology.file"] = (
        "a graph of your own, instead of topology.name: networkx node-link JSON, GraphML, or a list of edges (a line "
        "`0 1`: 0 sends to 1); weights in it are not looked at: algorithm.mixing makes them"
    )
    for kind in SETTABLE:
        for name, by_part in _settings(kind).items():
            keys.setdefault(f"{kind.section}.{name}", _explained(by_part))
    return dict(sorted(keys.items()))


def _of_sections() -> Iterator[tuple[str, str]]:
    """Yield every key of the sections that are fixed, with its meaning."""
    for prefix, struct in FIXED.items():
        for name, key in keys_of(struct).items():
            dotted = f"{prefix}.{name}" if prefix else name
            if dotted not in SECTIONS:
                yield dotted, _explained({"": key})


def _choices(kind: registry.PartKind) -> str:
    """Return the names of all parts of a kind, each with its settings in brackets if the kind has no section alone."""
    names = registry.names(kind)
    if kind is registry.TOPOLOGIES:
        names = tuple(sorted([*names, *stored.names()]))
    if kind not in (registry.SETS, registry.SCHEDULES):
        return ", ".join(names) + ("; not every algorithm takes all" if kind is registry.MIXINGS else "")
    own = {name: ", ".join(registry.keys(kind, registry.find(kind, name))) for name in names}
    return ", ".join(f"{name} ({keys})" if keys else name for name, keys in own.items())


def _settings(kind: registry.PartKind) -> dict[str, dict[str, Key]]:
    """Return the settings of all parts of a kind, each by the parts that have it."""
    by_name: dict[str, dict[str, Key]] = {}
    for part in registry.names(kind):
        for name, key in registry.keys(kind, registry.find(kind, part)).items():
            by_name.setdefault(name, {})[part] = key
    return by_name


def listed() -> str:
    """Return every part that can run, a line each, for `--list`."""
    lines = []
    for kind in registry.KINDS:
        lines.append(kind.key)
        lines += [f"  {name:27}{_first_line(registry.find(kind, name))}" for name in registry.names(kind)]
        if kind is registry.TOPOLOGIES:
            lines += [f"  {name:27}a file of topologies/" for name in stored.names()]
    return "\n".join(lines)


def explained_part(name: str) -> str | None:
    """Return what there is to say of the parts of a name, for `--explain`: paper, keys; None: no part has it."""
    return "\n\n".join(_about(kind, name) for kind in registry.KINDS if name in registry.names(kind)) or None


def _about(kind: registry.PartKind, name: str) -> str:
    part = registry.find(kind, name)
    lines = [f"{kind.key}={name}", "", _module_doc(part)]
    if issubclass(part, Algorithm):
        mixings = ", ".join(mixing if isinstance(mixing, str) else mixing.__name__ for mixing in part.mixings)
        borne = "loss, churn" * part.bears_loss, "delay, stragglers" * part.bears_delay
        lines += ["", f"paper: {part.paper or 'none'}", f"mixing: {mixings}", f"noise: {part.mechanism}"]
        lines += [f"faults: {', '.join(filter(None, borne)) or 'none'}"]
    settings = registry.keys(kind, part)
    lines += ["", "keys:" if settings else "keys: none"]
    lines += [f"  {kind.section}.{key}: {_explained({name: of})}" for key, of in settings.items()]
    if issubclass(part, (Algorithm, Stream)) and part.defaults:
        text = tomli_w.dumps(dict(part.defaults))
        lines += ["", "alone it runs with:", *(f"  {line}" for line in text.strip().splitlines() if line)]
    return "\n".join(lines)


def _module_doc(part: type) -> str:
    return (sys.modules[part.__module__].__doc__ or part.__doc__ or "").strip()


def _first_line(part: type) -> str:
    """Return what a part is, and of an algorithm the paper."""
    line = _module_doc(part).partition("\n")[0]
    return f"{line} [{part.paper}]" if issubclass(part, Algorithm) and part.paper else line


def _explained(by_part: dict[str, Key]) -> str:
    """Return description, type and default of a key; the default of each part where they differ."""
    kind = next(iter(by_part.values())).type
    defaults = {part: key.default for part, key in by_part.items()}
    text = next((meta.description for meta in getattr(kind, "__metadata__", ()) if meta.description), "")
    choices = " | ".join(options(kind))
    if len(set(map(repr, defaults.values()))) == 1:
        default: Any = next(iter(defaults.values()))
    else:
        default = ", ".join(f"{value} for {part}" for part, value in defaults.items() if value is not msgspec.NODEFAULT)
    shown = "" if default is msgspec.NODEFAULT else f" (default: {default})"
    return f"{text}{': ' if text and choices else ''}{choices}{shown}"
