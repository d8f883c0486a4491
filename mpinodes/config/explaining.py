"""Every key of an experiment, in words."""

from __future__ import annotations

import sys
from dataclasses import fields
from typing import Any

import msgspec
import tomli_w

from mpinodes.config import presets, registry
from mpinodes.core.experiment import SECTIONS, Experiment
from mpinodes.core.parts import Algorithm, Stream
from mpinodes.topology import stored


def documented_keys() -> dict[str, str]:
    """Every key with its meaning, for `--explain`."""
    keys: dict[str, str] = {}
    for prefix, struct in {"": Experiment, **SECTIONS}.items():
        for f in msgspec.structs.fields(struct):
            key = f"{prefix}.{f.name}" if prefix else f.name
            if key not in SECTIONS:
                keys[key] = _explained(f.type, f.default)
    keys |= {
        "algorithm.name": "the algorithm: " + ", ".join(registry.names(registry.ALGORITHMS)),
        "algorithm.path": "a Python file of your own with an algorithm, instead of algorithm.name",
        "algorithm.gradient_at": "where gradients are taken: hidden (as the paper prints it, at the agent's "
        "unreleased estimate; a sample then leaks in every later round) or public (at a point made of releases; in one "
        "round only)",
        "algorithm.noise_index": "which step the noise is calibrated to: paper (as it prints it, that of the round) or "
        "corrected (that which made the message) (default: paper)",
        "algorithm.regularizer_at": "where the regularizer's gradient is taken: hidden (as the paper prints it, at the "
        "agent's unreleased estimate) or public (at the mix of releases) (default: hidden)",
        "algorithm.mixing": "the weights: "
        + ", ".join(registry.names(registry.MIXINGS))
        + "; not every algorithm takes all",
        "data.name": "the stream of losses: " + ", ".join(registry.names(registry.STREAMS)),
        "data.path": "a Python file of your own with a stream of losses, instead of data.name",
        "data.seed": "of the data, their shares and their order, where it is to stay as seed changes (default: seed)",
        "data.identity": "a name of yours for the very samples, row by row, for python -m mpinodes.spent: runs of one "
        "name are on the same rows, and those of different names on data that have no sample in common. It stands in "
        "experiment.toml",
        "problem.loss": "the loss of a sample: " + ", ".join(registry.names(registry.LOSSES)),
        "problem.preset": "one problem for all algorithms, in the place of what each brings (data, problem, step, "
        f"privacy.clip, .scale): {', '.join(presets.names())}; or a .toml file, or a table of such keys. The resolved "
        "experiment has its keys",
        "problem.set": "the constraint set: " + _with_settings(registry.SETS),
        "step.kind": "the step schedule: " + _with_settings(registry.SCHEDULES),
        "step.path": "a Python file of your own with a step schedule, instead of step.kind",
        "topology.name": "the graph: " + ", ".join(sorted([*registry.names(registry.TOPOLOGIES), *stored.names()])),
        "topology.path": "a Python file of your own with a topology, instead of topology.name",
        "topology.file": "a graph of your own, instead of topology.name: networkx node-link JSON, GraphML, or a list "
        "of edges (a line `0 1`: 0 sends to 1); weights in it are not looked at: algorithm.mixing makes them",
        "topology.undirected": "let every edge of a graph from a file carry messages both ways (default: False)",
    }
    for prefix, kind, classes in _settable():
        settings = {name: registry.settings(kind, part) for name, part in classes.items()}
        for key in dict.fromkeys(key for known in settings.values() for key in known):
            kinds = {name: known[key] for name, known in settings.items() if key in known}
            defaults = {name: _default(classes[name], key) for name in kinds}
            keys.setdefault(f"{prefix}.{key}", _explained(next(iter(kinds.values())), _one_or_each(defaults)))
    return dict(sorted(keys.items()))


def listed() -> str:
    """Every part that can run, a line each, for `--list`."""
    lines = []
    for kind in registry.KINDS:
        lines.append(f"{kind.section}.{kind.chooser}")
        lines += [f"  {name:27}{_first_line(registry.find(kind, name))}" for name in registry.names(kind)]
        if kind is registry.TOPOLOGIES:
            lines += [f"  {name:27}a file of topologies/" for name in stored.names()]
    return "\n".join(lines)


def explained_part(name: str) -> str | None:
    """Return what there is to say of the parts of a name, for `--explain`: paper, keys; None: no part has it."""
    return "\n\n".join(_about(kind, name) for kind in registry.KINDS if name in registry.names(kind)) or None


def _about(kind: registry.PartKind, name: str) -> str:
    part = registry.find(kind, name)
    lines = [f"{kind.section}.{kind.chooser}={name}", "", _module_doc(part)]
    if issubclass(part, Algorithm):
        lines += ["", f"paper: {part.paper}" if part.paper else "paper: none"]
        mixings = ", ".join(mixing if isinstance(mixing, str) else mixing.__name__ for mixing in part.mixings)
        borne = "loss, churn" * part.bears_loss, "delay, stragglers" * part.bears_delay
        lines += [
            f"mixing: {mixings}",
            f"noise: {part.mechanism}",
            f"faults: {', '.join(filter(None, borne)) or 'none'}",
        ]
    settings = registry.settings(kind, part)
    lines += ["", "keys:" if settings else "keys: none"]
    lines += [f"  {kind.section}.{key}: {_explained(of, _default(part, key))}" for key, of in settings.items()]
    if issubclass(part, (Algorithm, Stream)) and part.defaults:
        text = tomli_w.dumps(dict(part.defaults))
        lines += ["", "alone it runs with:", *(f"  {line}" for line in text.strip().splitlines() if line)]
    return "\n".join(lines)


def _module_doc(part: type) -> str:
    return (sys.modules[part.__module__].__doc__ or part.__doc__ or "").strip()


def _first_line(part: type) -> str:
    """What a part is, and of an algorithm the paper."""
    line = _module_doc(part).partition("\n")[0]
    return f"{line} [{part.paper}]" if issubclass(part, Algorithm) and part.paper else line


def _default(part: type, key: str) -> Any:
    return next(field.default for field in fields(part) if field.name == key)


def _one_or_each(defaults: dict[str, Any]) -> Any:
    """A default that all parts share, or those of each."""
    if len(set(map(repr, defaults.values()))) == 1:
        return next(iter(defaults.values()))
    return ", ".join(f"{value} for {name}" for name, value in defaults.items() if not repr(value).startswith("<"))


def _with_settings(kind: registry.PartKind) -> str:
    """Return the names of all parts of a kind, each with its settings in brackets."""
    keys = {name: ", ".join(registry.settings(kind, registry.find(kind, name))) for name in registry.names(kind)}
    return ", ".join(f"{name} ({own})" if own else name for name, own in keys.items())


def _settable() -> list[tuple[str, registry.PartKind, dict[str, Any]]]:
    """Sections whose keys are the settings of the part they name, with all such parts by name."""
    kinds = (registry.ALGORITHMS, registry.STREAMS, registry.TOPOLOGIES, registry.SETS, registry.SCHEDULES)
    return [(k.section, k, {name: registry.find(k, name) for name in registry.names(k)}) for k in kinds]


def _explained(kind: Any, default: Any) -> str:
    """Description, type and default of a key."""
    text = next((meta.description for meta in getattr(kind, "__metadata__", ()) if meta.description), "")
    choices = " | ".join(registry.options(kind))
    shown = "" if default is msgspec.NODEFAULT or repr(default).startswith("<") else f" (default: {default})"
    return f"{text}{': ' if text and choices else ''}{choices}{shown}"
