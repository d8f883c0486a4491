"""Every key of an experiment, in words."""

from __future__ import annotations

from typing import Any

import msgspec

from mpinodes import topology
from mpinodes.config import registry
from mpinodes.config.resolve import ALGORITHM_FACTS, STREAM_FACTS, TOPOLOGY_FACTS
from mpinodes.core import schedules
from mpinodes.core.experiment import SECTIONS, Experiment


def documented_keys() -> dict[str, str]:
    """Every key with its meaning, for `--explain`."""
    keys: dict[str, str] = {}
    for prefix, struct in {"": Experiment, **SECTIONS}.items():
        for f in msgspec.structs.fields(struct):
            key = f"{prefix}.{f.name}" if prefix else f.name
            if key not in SECTIONS:
                keys[key] = _explained(f.type, f.default)
    keys["algorithm.name"] = "the algorithm: " + ", ".join(registry.names("algorithms"))
    keys["algorithm.path"] = "a Python file of your own with an algorithm, instead of algorithm.name"
    keys["algorithm.gradient_at"] = (
        "where gradients are taken: hidden (as the paper prints it, at the agent's unreleased estimate; a sample then "
        "leaks in every later round) or public (at a point made of releases; in one round only)"
    )
    keys["algorithm.noise_index"] = (
        "which step the noise is calibrated to: paper (as it prints it, that of the round) or corrected (that which "
        "made the message) (default: paper)"
    )
    keys["algorithm.regularizer_at"] = (
        "where the regularizer's gradient is taken: hidden (as the paper prints it, at the agent's unreleased "
        "estimate) or public (at the mix of releases) (default: hidden)"
    )
    keys["data.seed"] = "of the data, their shares and their order, where it is to stay as seed changes (default: seed)"
    keys["algorithm.mixing"] = "the weights: " + ", ".join(registry.names("mixing")) + "; not every algorithm takes all"
    keys["step.kind"] = "the step schedule: " + ", ".join(sorted(schedules.KINDS))
    keys["topology.name"] = "the graph: " + ", ".join(topology.names())
    keys["topology.file"] = "a graph of your own (networkx node-link JSON), instead of topology.name"
    keys["topology.undirected"] = "let every edge of a graph from a file carry messages both ways (default: False)"
    keys["data.name"] = "the stream of losses: " + ", ".join(registry.names("streams"))
    keys["problem.loss"] = "the loss of a sample: " + ", ".join(registry.names("losses"))
    for prefix, parts, facts in _kinds():
        settings = {name: registry.settings(part, facts) for name, part in parts.items()}
        for key in dict.fromkeys(key for known in settings.values() for key in known):
            kinds = {name: known[key] for name, known in settings.items() if key in known}
            defaults = {name: parts[name].__dataclass_fields__[key].default for name in kinds}
            keys.setdefault(f"{prefix}.{key}", _explained(next(iter(kinds.values())), _one_or_each(defaults)))
    return dict(sorted(keys.items()))


def _one_or_each(defaults: dict[str, Any]) -> Any:
    """A default that all parts share, or those of each."""
    if len(set(map(repr, defaults.values()))) == 1:
        return next(iter(defaults.values()))
    return ", ".join(f"{value} for {name}" for name, value in defaults.items() if not repr(value).startswith("<"))


def _kinds() -> list[tuple[str, dict[str, Any], frozenset[str]]]:
    """Sections whose keys are the settings of the part they name, with all such parts by name."""
    algorithms, streams, topologies = (
        {name: registry.find(kind, name, "") for name in registry.names(kind)}
        for kind in ("algorithms", "streams", "topology")
    )
    return [
        ("algorithm", algorithms, ALGORITHM_FACTS),
        ("data", streams, STREAM_FACTS),
        ("step", dict(schedules.KINDS), frozenset()),
        ("topology", topologies, TOPOLOGY_FACTS),
    ]


def _explained(kind: Any, default: Any) -> str:
    """Description, type and default of a key."""
    text = next((meta.description for meta in getattr(kind, "__metadata__", ()) if meta.description), "")
    choices = " | ".join(registry.options(kind))
    shown = "" if default is msgspec.NODEFAULT or repr(default).startswith("<") else f" (default: {default})"
    return f"{text}{': ' if text and choices else ''}{choices}{shown}"
