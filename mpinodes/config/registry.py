"""Parts found by name: one file each, in this package, by entry point, or (algorithms) by path.

A file is a part if its `__all__` holds one name: the class.
"""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
import sys
from collections.abc import Sequence
from dataclasses import MISSING, fields, is_dataclass
from difflib import get_close_matches
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, get_args, get_origin, get_type_hints

import msgspec

from mpinodes.core.errors import BadInput


def suggest(word: str, choices: list[str], prefix: str = "") -> str:
    """A tail for an error message: what the user may have meant, or all there is."""
    close = get_close_matches(word, choices, n=1)
    return f"did you mean {prefix}{close[0]}?" if close else f"choose from: {', '.join(choices)}"


def _part(module: ModuleType) -> Any:
    public: Sequence[str] = getattr(module, "__all__", ())
    part = getattr(module, public[0], None) if len(public) == 1 else None
    return part if isinstance(part, type) and is_dataclass(part) else None


def names(kind: str) -> list[str]:
    """The names of all parts of a kind ("algorithms", "streams", ...)."""
    package = importlib.import_module(f"mpinodes.{kind}")
    found = [info.name for info in pkgutil.iter_modules(package.__path__)]
    ours = [name for name in found if _part(importlib.import_module(f"mpinodes.{kind}.{name}"))]
    return sorted([name.replace("_", "-") for name in ours] + [p.name for p in entry_points(group=f"mpinodes.{kind}")])


def find(kind: str, name: str, key: str, others: Sequence[str] = ()) -> Any:
    """The class of a part.

    Args:
        kind: "algorithms", "streams", ...
        name: of the part.
        key: that asked for it.
        others: names that are no parts of ours, and that the key takes too.

    Raises:
        BadInput: there is none of that name; names the key that asked for it.
    """
    file = Path(__file__).parent.parent / kind / f"{name.replace('-', '_')}.py"
    if name.replace("-", "").isalnum() and file.is_file():
        part = _part(importlib.import_module(f"mpinodes.{kind}.{file.stem}"))
        if part is not None:
            return part
    for point in entry_points(group=f"mpinodes.{kind}", name=name):
        return point.load()
    raise BadInput(f"{key} = {name!r}: there is no such name; {suggest(name, sorted([*names(kind), *others]))}")


def from_path(path: str, key: str) -> Any:
    """The class of a part in a user's own file.

    Raises:
        BadInput: no such file, it cannot be imported, or it names no single part in `__all__`.
    """
    spec = importlib.util.spec_from_file_location(f"mpinodes_user_{Path(path).stem}", path)
    if spec is None or spec.loader is None or not Path(path).is_file():
        raise BadInput(f"{key} = {path!r}: no such Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise BadInput(f"{key} = {path!r}: cannot be imported: {type(error).__name__}: {error}") from error
    if (part := _part(module)) is None:
        raise BadInput(
            f'{key} = {path!r}: the file must name its one class, a dataclass, in __all__, as in __all__ = ["MyClass"]'
        )
    return part


def settings(part: Any, facts: set[str] | frozenset[str]) -> dict[str, Any]:
    """The user's settings of a part: the fields of its dataclass that are not facts of the run, with types."""
    hints = get_type_hints(part, include_extras=True)
    return {field.name: hints[field.name] for field in fields(part) if field.name not in facts}


def fill(part: Any, given: dict[str, Any], facts: set[str] | frozenset[str], section: str) -> dict[str, Any]:
    """All settings of a part: the given ones checked against their types, the others at their defaults.

    Raises:
        BadInput: an unknown key, a wrong type, a value out of range, or one that is missing.
    """
    known = settings(part, facts)
    for key in given:
        if key not in known:
            choices = suggest(key, sorted(known), f"{section}.") if known else "it takes none"
            raise BadInput(f"unknown key {section}.{key}; {choices}")
    filled = {}
    for field in fields(part):
        if field.name not in known:
            continue
        if field.name in given:
            filled[field.name] = checked(given[field.name], known[field.name], f"{section}.{field.name}")
        elif field.default is MISSING:
            raise BadInput(f"{section}.{field.name} is missing")
        else:
            filled[field.name] = field.default
    return filled


def checked(value: Any, wanted: Any, key: str) -> Any:
    """The value converted to a type.

    Raises:
        BadInput: it does not fit; says the key, the value and what was wanted.
    """
    try:
        return msgspec.convert(value, wanted)
    except msgspec.ValidationError as error:
        raise BadInput(f"{key} = {value!r}: {plain(str(error), wanted)}") from error


def plain(message: str, wanted: Any) -> str:
    """Msgspec's message without its path and marks, and with the choices where there are some."""
    if choices := options(wanted):
        return f"choose from: {', '.join(choices)}"
    if "enum" in message:  # a number or one of some words
        words = [word for kind in get_args(getattr(wanted, "__origin__", None)) for word in options(kind)]
        return f"expected a number, or {' or '.join(words)}"
    return message.partition(" - at ")[0].replace("`", "").replace("Expected", "expected")


def options(wanted: Any) -> list[str]:
    """The strings of a type that is a choice among strings."""
    choices = get_args(wanted if get_origin(wanted) is Literal else getattr(wanted, "__origin__", None))
    return list(choices) if choices and all(isinstance(choice, str) for choice in choices) else []
