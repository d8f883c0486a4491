"""Setup found by name, entry point or a path of the user's: one file each, which names its class in `__all__`."""

from __future__ import annotations

import importlib
import importlib.util
import json
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass, make_dataclass
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, get_args, get_origin, get_type_hints

import msgspec

from mpinodes.core import parts
from mpinodes.core.errors import BadInput
from mpinodes.core.experiment import Problem

if TYPE_CHECKING:
    from importlib.metadata import EntryPoints


class PartKind(NamedTuple):
    """A kind of part.

    Attributes:
        package: the package of ours that holds them, and the group of entry points: "algorithms".
        section: of the experiment: "algorithm".
        chooser: the key of that section that takes a name: "name".
        base: what they extend.
        given: fields that the run fills in; all others are settings.
        path: the key of that section that takes a path.
    """

    package: str
    section: str
    chooser: str
    base: type
    given: frozenset[str]
    path: str = "path"

    @property
    def key(self) -> str:
        """That takes a name."""
        return f"{self.section}.{self.chooser}"

    @property
    def path_key(self) -> str:
        """That takes a path."""
        return f"{self.section}.{self.path}"


ALGORITHMS = PartKind("algorithms", "algorithm", "name", parts.Algorithm, frozenset({"run"}))
STREAMS = PartKind("streams", "data", "name", parts.Stream, frozenset({"seed", "agents", "make_loss"}))
TOPOLOGIES = PartKind("topology", "topology", "name", parts.Topology, frozenset({"seed"}))
LOSSES = PartKind("losses", "problem", "loss", parts.SampleLoss, frozenset(f.name for f in fields(parts.SampleLoss)))
MECHANISMS = PartKind(
    "mechanisms", "privacy", "mechanism", parts.Mechanism, frozenset({"epsilon", "constant", "backend"})
)
MIXINGS = PartKind("mixing", "algorithm", "mixing", parts.Mixing, frozenset({"graph"}))
METRICS = PartKind("metrics", "record", "metrics", parts.Metric, frozenset(), "metrics")
SETS = PartKind("sets", "problem", "set", parts.Set, frozenset({"radius", "blocks"}), "set_path")
SCHEDULES = PartKind("schedules", "step", "kind", parts.Schedule, frozenset())
# Class attributes without a default, by kind.
REQUIRED = {"algorithms": ("decomposable", "mixings"), "metrics": ("name", "dims")}
PROBLEM = tuple(field.name for field in msgspec.structs.fields(Problem))
KINDS = (ALGORITHMS, STREAMS, LOSSES, MECHANISMS, MIXINGS, TOPOLOGIES, METRICS, SETS, SCHEDULES)


def suggest(word: str, choices: Sequence[str], prefix: str = "") -> str:
    """A tail for an error message: what the user may have meant, or all there is."""
    from difflib import get_close_matches  # which a run that begins does without

    close = get_close_matches(word, choices, n=1)
    return f"did you mean {prefix}{close[0]}?" if close else f"choose from: {', '.join(choices)}"


def _public(module: ModuleType) -> Any:
    """The one class that a module names in `__all__`; None: there is no such."""
    public: Sequence[str] = vars(module).get("__all__", ())
    part = vars(module).get(public[0]) if len(public) == 1 else None
    return part if isinstance(part, type) else None


def _fits(kind: PartKind, part: Any) -> bool:
    return isinstance(part, type) and issubclass(part, kind.base) and is_dataclass(part)


def _entry_points(kind: PartKind) -> EntryPoints:
    """The parts of a kind that installed packages bring."""
    from importlib.metadata import entry_points

    return entry_points(group=f"mpinodes.{kind.package}")


@lru_cache
def names(kind: PartKind) -> tuple[str, ...]:
    """The names of all parts of a kind that can be had."""
    import pkgutil

    package = importlib.import_module(f"mpinodes.{kind.package}")
    modules = [info.name for info in pkgutil.iter_modules(package.__path__)]
    ours = [m for m in modules if _fits(kind, _public(importlib.import_module(f"mpinodes.{kind.package}.{m}")))]
    points = [point.name for point in _entry_points(kind)]
    return tuple(sorted([name.replace("_", "-") for name in ours] + points))


def find(kind: PartKind, name: str, others: Sequence[str] = ()) -> Any:
    """The class of a part.

    Args:
        kind: of part.
        name: of the part.
        others: names that are no parts of ours, and that the key takes too.

    Raises:
        BadInput: there is none of that name, or it is no part of its kind; names the key that asked for it.
    """
    if (part := _ours(kind, name)) is not None:
        return part
    for point in _entry_points(kind):
        if point.name == name:
            return _required(kind, point.load(), f"{kind.key} = {name!r}")
    raise BadInput(f"{kind.key} = {name!r}: there is no such name; {suggest(name, sorted([*names(kind), *others]))}")


LONGEST_NAME = 100  # a file system has names of 255 bytes, and an error for longer ones


@lru_cache
def _ours(kind: PartKind, name: str) -> Any:
    """The class of one of our own parts; None: there is none of that name."""
    file = Path(__file__).parent.parent / kind.package / f"{name.replace('-', '_')}.py"
    if not (name.replace("-", "").isalnum() and len(name) <= LONGEST_NAME and file.is_file()):
        return None
    part = _public(importlib.import_module(f"mpinodes.{kind.package}.{file.stem}"))
    return part if _fits(kind, part) else None


def from_path(kind: PartKind, path: str) -> Any:
    """The class of a part in a user's own file.

    Raises:
        BadInput: no such file, it cannot be imported, or it names no single part of this kind in `__all__`.
    """
    where = f"{kind.path_key} = {path!r}"
    spec = importlib.util.spec_from_file_location(f"mpinodes_user_{Path(path).stem}", path)
    if spec is None or spec.loader is None or not Path(path).is_file():
        raise BadInput(f"{where}: no such Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise BadInput(f"{where}: cannot be imported: {type(error).__name__}: {error}{_moved(error)}") from error
    if (part := _public(module)) is None:
        raise BadInput(f'{where}: the file must name its one class in __all__, as in __all__ = ["MyClass"]')
    return _required(kind, part, where)


def _moved(error: BaseException) -> str:
    """A hint for files that import what mpinodes once had elsewhere."""
    if isinstance(error, ModuleNotFoundError) and (error.name or "").startswith("mpinodes."):
        return ": written for an older mpinodes; import from mpinodes.core; what a part must say: docs/own/algorithm.md"
    return ""


def _required(kind: PartKind, part: Any, where: str) -> Any:
    """The part, if it is one of its kind.

    Raises:
        BadInput: it is not; one line says what to change.
    """
    base = kind.base.__name__
    if not (isinstance(part, type) and issubclass(part, kind.base)):
        raise BadInput(
            f"{where}: {part.__name__} does not extend mpinodes.core.{base}: derive it from {base}, take facts of the "
            "run from self.run instead of fields, and say what every message leaks (leaks=...)"
            if kind is ALGORITHMS
            else f"{where}: {part.__name__} does not extend mpinodes.core.{base}"
        )
    if kind is STREAMS and isinstance(vars(part).get("labels"), bool | property):
        raise BadInput(f"{where}: what {part.__name__} says of its labels is called has_labels now: rename it")
    if kind is not METRICS and "__dataclass_fields__" not in vars(part):
        raise BadInput(f"{where}: {part.__name__} must be a dataclass: put @dataclass(frozen=True) before it")
    missing = sorted(abstract_methods(part))
    missing += [name for name in REQUIRED.get(kind.package, ()) if not any(name in vars(c) for c in part.__mro__)]
    if missing:
        raise BadInput(f"{where}: {part.__name__} must have {', '.join(missing)}: see mpinodes.core.{base}")
    stated = [name for name, hint in get_type_hints(kind.base).items() if hint == ClassVar[bool]]
    for name in (*stated, *(("has_labels", "makes_all_losses") if kind is STREAMS else ())):
        if not isinstance(value := getattr(part, name), bool if kind is LOSSES else (bool, property)):
            raise BadInput(f"{where}: {part.__name__}.{name} is {value!r}: expected True or False")
    keys = {*PROBLEM} if kind in (LOSSES, SETS) else {"identity"} if kind is STREAMS else set[str]()
    for taken in sorted(keys & settings(kind, part).keys()):
        raise BadInput(f"{where}: {part.__name__}.{taken} has the name of the key {kind.section}.{taken}: rename it")
    return bound(part, {}) if kind is LOSSES else part


def bound(loss: Any, values: Mapping[str, Any]) -> Any:
    """Return a class of losses whose settings have these values, else their defaults, as attributes of the class too.

    So its class methods know them, which state constants before there is any loss.
    """
    given = {**{field.name: field.default for field in fields(loss)}, **values}
    own = [(name, of, given[name]) for name, of in settings(LOSSES, loss).items() if given[name] is not MISSING]
    if not own:
        return loss
    part = make_dataclass(loss.__name__, own, bases=(loss,), frozen=True, repr=False, eq=False)
    part.__module__ = loss.__module__
    return part


def abstract_methods(part: type) -> frozenset[str]:
    """What a class has not said yet."""
    names: frozenset[str] = vars(part).get("__abstractmethods__", frozenset())
    return names


def chosen(kind: PartKind, section: Mapping[str, Any], others: Sequence[str] = ()) -> Any:
    """The class that a section of the experiment names, by its name or its path.

    Raises:
        BadInput: as `find` and `from_path`; or both are given.
    """
    if section.get(kind.path) is None:
        if section.get(kind.chooser) is None:
            raise BadInput(f"{kind.section}.{kind.chooser} is missing")
        return find(kind, text(section, kind.chooser, kind.section), others)
    if kind.chooser in section and kind.chooser == "name":
        raise BadInput(f"{kind.section}.name and {kind.section}.path are both given; leave one out")
    return from_path(kind, text(section, kind.path, kind.section))


def text(section: Mapping[str, Any], key: str, prefix: str) -> str:
    """A value that must be text.

    Raises:
        BadInput: it is not.
    """
    value = section[key]
    if not isinstance(value, str):
        raise BadInput(f"{prefix}.{key} = {value!r}: expected a name")
    return value


def mixing_class(algorithm: type[parts.Algorithm[Any]], name: str) -> type[parts.Mixing]:
    """The class of the weights called so: a part, or a class that the algorithm brings."""
    for mixing in algorithm.mixings:
        if name == mixing_name(mixing):
            part: type[parts.Mixing] = find(MIXINGS, mixing) if isinstance(mixing, str) else mixing
            return part
    choices = ", ".join(map(mixing_name, algorithm.mixings))
    raise BadInput(f"algorithm.mixing = {name!r}: choose from: {choices}")


def mixing_name(mixing: str | type[parts.Mixing]) -> str:
    """Of weights, or of a class of them."""
    return mixing if isinstance(mixing, str) else mixing.__name__


def settings(kind: PartKind, part: Any) -> dict[str, Any]:
    """The user's settings of a part: the fields of its dataclass that the run does not fill in, with types."""
    hints = get_type_hints(part, include_extras=True)
    return {field.name: hints[field.name] for field in fields(part) if field.name not in kind.given}


def picked(kind: PartKind, part: Any, given: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return those of some values that are settings of a part."""
    return {key: (given or {})[key] for key in settings(kind, part) if key in (given or {})}


def fill(kind: PartKind, part: Any, given: Mapping[str, Any], section: str) -> dict[str, Any]:
    """All settings of a part: the given ones checked against their types, the others at their defaults.

    Raises:
        BadInput: an unknown key, a wrong type, a value out of range, or one that is missing.
    """
    known = settings(kind, part)
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


def checked(value: Any, expected: Any, key: str) -> Any:
    """The value converted to a type.

    Raises:
        BadInput: it does not fit; says the key, the value and what was wanted.
    """
    try:
        return msgspec.convert(value, expected)
    except msgspec.ValidationError as error:
        raise BadInput(f"{key} = {value!r}: {plain(str(error), expected)}{to_type(key, value, str(error))}") from error


def to_type(key: str, value: Any, message: str = "") -> str:
    """Return a tail for an error message: what to type in a shell, which takes quotes away; empty: no idea.

    Args:
        key: of the value.
        value: as it arrived.
        message: of msgspec; empty: a table was expected.
    """
    wants = message.partition("`")[2].partition("`")[0]
    if isinstance(value, list) and value and "got `array`" in message:
        return f"; for a run with each of them: mpinodes sweep {key}={','.join(map(str, value))}"
    if not isinstance(value, str):
        return ""
    text, is_table = value.strip(), not message or "object" in wants
    if "array" in wants or is_table:
        ends = "{}" if is_table else "[]"
        items = [item.strip() for item in text.strip("[](){} ").split("," if "," in text else None)]
        pairs = [item.partition("=") if is_table else ("", "", item) for item in items]
        if not all(item for _, _, item in pairs):
            return ""
        inner = ", ".join(f"{name}{equals}{_as_toml(item.strip())}" for name, equals, item in pairs)
        return f"; in a shell type {shlex.quote(f'{key}={ends[0]}{inner}{ends[1]}')}, quotes and all"
    if "," in text.strip(","):
        return f"; a number has no comma in it; for a run with each value: mpinodes sweep {key}={''.join(text.split())}"
    return "; write true or false" if wants == "bool" else ""


def _as_toml(word: str) -> str:
    """Return a word as it is where TOML has such a value, else in quotes."""
    import tomllib  # which agents do without

    try:
        tomllib.loads(f"value = {word}")
    except ValueError:
        return json.dumps(word.strip("\"'“”„‘’‚«»"), ensure_ascii=False)
    return word


def plain(message: str, expected: Any) -> str:
    """Msgspec's message without its path and marks, and with the choices where there are some."""
    if "matching regex" in message:
        return f"expected {asked_for(expected)}"
    if choices := options(expected):
        return f"choose from: {', '.join(choices)}"
    if "enum" in message:  # a number, or true or false, or one of some words; or one of some numbers
        kinds = get_args(_plain_type(expected))
        if get_origin(_plain_type(expected)) is Literal:
            return f"choose from: {', '.join(map(str, kinds))}"
        words = [word for kind in kinds for word in options(kind)]
        return f"expected {'true or false' if bool in kinds else 'a number'}, or {' or '.join(words)}"
    return message.partition(" - at ")[0].replace("`", "").replace("Expected", "expected")


def asked_for(expected: Any) -> str:
    """What a pattern asks for, in words."""
    return next(str(meta.extra["expected"]) for meta in expected.__metadata__ if meta.extra)


def options(expected: Any) -> list[str]:
    """The strings of a type that is a choice among strings."""
    kind = _plain_type(expected)
    choices = get_args(kind) if get_origin(kind) is Literal else ()
    return list(choices) if choices and all(isinstance(choice, str) for choice in choices) else []


def _plain_type(expected: Any) -> Any:
    """A type without its annotations."""
    return expected.__origin__ if "__metadata__" in dir(expected) else expected
