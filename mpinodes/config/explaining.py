"""Explain keys and parts to the user: the texts of `mpinodes run --explain` and `--list`.

The texts come from the code:

- a key of a fixed section: the docstring of this section's class in `core.experiment`,
- a setting of a part: the annotation of the field or, if the annotation has no text, the docstring of the class,
- a part: the docstring of its module.

Some texts are in this module, such as those about `problem.preset` and `topology.file`.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Mapping
from typing import Any, NamedTuple

import tomli_w
from msgspec import NODEFAULT

from mpinodes.config import presets, registry
from mpinodes.config.schema import Key, keys_of, options
from mpinodes.core.experiment import SECTIONS, DataKeys, Experiment, GraphFile, is_file
from mpinodes.core.parts import Algorithm, Stream
from mpinodes.topology import stored

FIXED = {"": Experiment, **SECTIONS, "data": DataKeys, "topology": GraphFile}


class Setting(NamedTuple):
    """Explain a key of an experiment.

    Attributes:
        meaning: what the key does.
        by_part: the type and the default of the key, by the name of the part that has the key. The name is "" for a key
            that every experiment has. The dictionary is empty for other keys, such as a key that chooses a part.
    """

    meaning: str
    by_part: dict[str, Key] = {}

    @property
    def default(self) -> str:
        """Return the default of the key; if parts have different defaults, or some have none, each default with parts.

        A default of None is left out, because None only means that the key is not set.
        """
        parts: dict[str, list[str]] = {}
        for part, key in self.by_part.items():
            if key.default is not NODEFAULT and key.default is not None:
                parts.setdefault(str(key.default), []).append(part)
        if len(parts) == 1 and sum(map(len, parts.values())) == len(self.by_part):
            return next(iter(parts))
        return "; ".join(f"{value} for {', '.join(names)}" for value, names in parts.items())

    @property
    def text(self) -> str:
        """Return a text with the meaning, the choices and the default of the key, as far as the key has them."""
        words = dict.fromkeys(word for key in self.by_part.values() for word in options(key.type))
        meaning, choices = self.meaning, " | ".join(words)
        parts = [part for part, key in self.by_part.items() if options(key.type)]
        if parts and len(parts) < len(self.by_part):
            choices += f" for {', '.join(parts)}"
        if meaning and choices:
            meaning = f"{meaning.removesuffix('.')}: "
        return f"{meaning}{choices}{f' (default: {self.default})' if self.default else ''}"

    @classmethod
    def of_parts(cls, name: str, by_part: dict[str, Key], classes: Mapping[str, type]) -> Setting:
        """Return the setting `name` of some parts; if the parts give different meanings, the meanings name parts.

        The meaning is in the annotation of the setting or, if the annotation has none, in the docstring of the part.
        """
        owners: dict[str, list[str]] = {}
        for part, key in by_part.items():
            metas = getattr(key.type, "__metadata__", ())
            annotated = next((meta.description for meta in metas if meta.description), "")
            owners.setdefault(annotated or _meanings(classes[part]).get(name, ""), []).append(part)
        texts = [f"{', '.join(parts)}: {text}" * (len(owners) > 1) or text for text, parts in owners.items()]
        return cls("; ".join(texts), by_part)


def _meanings(owner: type) -> dict[str, str]:
    """Return the texts about the attributes of a class, from the docstrings of the class and its base classes."""
    meanings = dict[str, str]()
    for kind in reversed(owner.__mro__):
        attributes = inspect.cleandoc(kind.__doc__ or "").partition("Attributes:\n")[2]
        entries = re.findall(r"^ {4}(\w+(?:, \w+)*): (.+(?:\n {8}.+)*)", attributes, re.M)
        meanings |= {name: " ".join(text.split()) for names, text in entries for name in names.split(", ")}
    return meanings


def documented_keys(asked: Mapping[str, Any] | None = None) -> dict[str, str]:
    """Return the texts that explain the keys of an experiment, by dotted key; see `settings`."""
    return {name: setting.text for name, setting in settings(asked).items()}


def settings(asked: Mapping[str, Any] | None = None) -> dict[str, Setting]:
    """Return the keys of an experiment with their meaning, by dotted key, sorted.

    Args:
        asked: the settings of an experiment. If they name Python files of the user, as `algorithm.path` does, the
            settings of the parts in these files are among the keys.

    Raises:
        BadInput: such a file does not exist, cannot be imported, or defines no valid part of the kind.
    """
    texts: dict[str, Setting] = {}
    for section, struct in FIXED.items():
        meanings = _meanings(struct)
        for name, key in keys_of(struct).items():
            dotted = f"{section}.{name}" if section else name
            if dotted not in SECTIONS:
                texts[dotted] = Setting(meanings[name], {"": key})
    for kind in registry.KINDS:
        if kind is registry.METRICS:
            continue
        parts = {name: registry.find(kind, name) for name in registry.names(kind)}
        names = sorted([*parts, *(stored.names() if kind is registry.TOPOLOGIES else ())])
        if kind in (registry.SETS, registry.SCHEDULES):  # their sections have other keys too: show the keys by part
            in_part = {name: ", ".join(registry.keys(kind, parts[name])) for name in names}
            names = [f"{name} ({keys})" if keys else name for name, keys in in_part.items()]
        note = "; an algorithm may allow only some of them" if kind is registry.MIXINGS else ""
        texts[kind.key] = Setting(f"{kind.about}: {', '.join(names)}{note}")
        texts.setdefault(kind.path_key, Setting(f"a Python file of your own with {kind.about}, instead of {kind.key}"))
        if kind in (registry.MIXINGS, registry.MECHANISMS):  # these kinds have no settings
            continue
        given = (asked or {}).get(kind.section)
        if isinstance(given, dict) and (path := given.get(kind.path)):
            parts[path] = registry.from_path(kind, path)
        by_setting: dict[str, dict[str, Key]] = {}
        for part_name, part in parts.items():
            for name, key in registry.keys(kind, part).items():
                by_setting.setdefault(name, {})[part_name] = key
        for name, by_part in by_setting.items():
            texts.setdefault(f"{kind.section}.{name}", Setting.of_parts(name, by_part, parts))
    texts[presets.KEY] = Setting(
        "one problem for all algorithms, instead of their defaults of data, problem, step, privacy.clip, .scale and "
        f".adjacency: {', '.join(presets.names())}; or a .toml file, or a table of such keys. experiment.toml contains "
        "these keys"
    )
    texts["topology.file"] = Setting(
        "your file with a graph, instead of topology.name: networkx node-link JSON, GraphML, or a list of edges (the "
        "line `0 1` means that 0 sends to 1). Weights in the file are ignored: algorithm.mixing computes the weights"
    )
    return dict(sorted(texts.items()))


def listed() -> str:
    """Return the text of `--list`: for each kind of part, the key that chooses it, and a line for each part."""
    lines = []
    for kind in registry.KINDS:
        lines.append(kind.key)
        for name in registry.names(kind):
            part = registry.find(kind, name)
            paper = f" [{part.paper}]" if issubclass(part, Algorithm) and part.paper else ""
            lines.append(f"  {name:27}{_module_doc(part).splitlines()[0]}{paper}")
        if kind is registry.TOPOLOGIES:
            lines += [f"  {name:27}a file of topologies/" for name in stored.names()]
    return "\n".join(lines)


def explained_part(name: str) -> str | None:
    """Return the text of `--explain` about a part.

    If parts of several kinds have the name, the text explains all of them.

    Args:
        name: the name of a part, or the path of a user's Python file.

    Returns:
        The text; None if `name` is no path and no installed part has this name.

    Raises:
        BadInput: the file does not exist, cannot be imported, or defines no valid part.
    """
    if not is_file(name) and not any(name in registry.names(kind) for kind in registry.KINDS):
        return None
    texts = []
    for kind, part in registry.parts_called(name):
        key_of_part = kind.path_key if is_file(name) else kind.key
        lines = [f"{key_of_part}={name}", "", _module_doc(part)]
        if issubclass(part, Algorithm):
            mixings = ", ".join(map(registry.mixing_name, part.mixings))
            faults = [*["loss", "churn"] * part.bears_loss, *["delay", "stragglers"] * part.bears_delay]
            lines += ["", f"paper: {part.paper or 'none'}", f"mixing: {mixings}", f"noise: {part.mechanism}"]
            lines += [f"faults: {', '.join(faults) or 'none'}"]
        settings = registry.keys(kind, part)
        lines += ["", "keys:" if settings else "keys: none"]
        lines += [
            f"  {kind.section}.{setting}: {Setting.of_parts(setting, {name: key}, {name: part}).text}"
            for setting, key in settings.items()
        ]
        if issubclass(part, (Algorithm, Stream)) and part.defaults:
            text = tomli_w.dumps(dict(part.defaults))
            lines += ["", "default settings:", *(f"  {line}" for line in text.strip().splitlines() if line)]
        texts.append("\n".join(lines))
    return "\n\n".join(texts)


def _module_doc(part: type) -> str:
    return (sys.modules[part.__module__].__doc__ or part.__doc__ or "").strip()
