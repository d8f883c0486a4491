"""Find the class of a part by its name, or by the path of a user's Python file.

A part is a replaceable component of an experiment, such as an algorithm. A part is a class. A file with a part names
only this class in `__all__`. Other installed packages provide parts by entry points. `KINDS` lists the kinds of parts,
and the settings that choose a part of each kind.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, fields, is_dataclass, make_dataclass
from functools import lru_cache
from pathlib import Path
from traceback import extract_tb
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, get_args, get_origin, get_type_hints

from msgspec import NODEFAULT, to_builtins
from msgspec.structs import asdict

from mpinodes.config.schema import Key, Problems, decode, keys_of, suggest, to_type
from mpinodes.core import parts
from mpinodes.core.errors import BadInput, users_parts
from mpinodes.core.experiment import Experiment, Problem, is_file

if TYPE_CHECKING:
    from importlib.metadata import EntryPoints


class PartKind(NamedTuple):
    """Describe a kind of part. The texts in quotes below are the values for the kind "algorithms".

    Attributes:
        package: the subpackage that contains the parts: "algorithms". The group of entry points is
            "mpinodes.algorithms".
        section: the section of the experiment that chooses a part: "algorithm".
        chooser: the key of this section whose value is the name of a part: "name". For metrics, the value is a list of
            names and paths.
        base: the base class of the parts. mpinodes fills in the fields of the base class. All other fields of a part
            are settings, except for mechanisms, mixings and metrics.
        about: the kind in words, for `--explain`.
        path: the key of this section whose value is the path of a user's file.
        settable: the fields of the base class that mpinodes does not fill in, because they are settings too.
    """

    package: str
    section: str
    chooser: str
    base: Any
    about: str
    path: str = "path"
    settable: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """Return the setting whose value is the name of a part, such as "algorithm.name"."""
        return f"{self.section}.{self.chooser}"

    @property
    def path_key(self) -> str:
        """Return the setting whose value is the path of a user's file, such as "algorithm.path"."""
        return f"{self.section}.{self.path}"


ALGORITHMS = PartKind("algorithms", "algorithm", "name", parts.Algorithm, "the algorithm")
STREAMS = PartKind("streams", "data", "name", parts.Stream, "the stream of losses")
TOPOLOGIES = PartKind("topology", "topology", "name", parts.Topology, "the graph", settable=("agents",))
LOSSES = PartKind("losses", "problem", "loss", parts.SampleLoss, "the loss of a sample")
MECHANISMS = PartKind("mechanisms", "privacy", "mechanism", parts.Mechanism, "the noise on every release")
MIXINGS = PartKind("mixing", "algorithm", "mixing", parts.Mixing, "the weights")
METRICS = PartKind("metrics", "record", "metrics", parts.Metric, "a metric", "metrics")
SETS = PartKind("sets", "problem", "set", parts.Set, "the constraint set", "set_path")
SCHEDULES = PartKind("schedules", "step", "kind", parts.Schedule, "the step schedule")
# For each kind, class attributes that a part must set
REQUIRED = {"algorithms": ("decomposable", "mixings"), "metrics": ("name", "dims")}
# For each kind, class attributes that name parts of another kind
NAMING = {"algorithms": {"mixings": MIXINGS, "mechanism": MECHANISMS}, "mechanisms": {"takes_the_place_of": MECHANISMS}}
# What a class attribute must be, by its type
EXPECTED = {bool: "True or False", str: "a text", tuple: "a tuple, as in ('x',)", Mapping: "a dictionary"}
KINDS = (ALGORITHMS, STREAMS, LOSSES, MECHANISMS, MIXINGS, TOPOLOGIES, METRICS, SETS, SCHEDULES)


def _public(module: ModuleType) -> Any:
    """Return the class that a module names in `__all__`.

    Return None if `__all__` is missing, does not have exactly one name, or if this name is not that of a class.
    """
    public: Sequence[str] = vars(module).get("__all__", ())
    part = vars(module).get(public[0]) if len(public) == 1 else None
    return part if isinstance(part, type) else None


def _built_in(kind: PartKind, module: str) -> Any:
    """Return the class of the part in a module of mpinodes.

    Return None if `__all__` of the module does not name exactly one class, or if this class is not a dataclass that
    extends the base class of this kind.
    """
    part = _public(importlib.import_module(f"mpinodes.{kind.package}.{module}"))
    return part if part and issubclass(part, kind.base) and is_dataclass(part) else None


def _entry_points(kind: PartKind) -> EntryPoints:
    """Return the entry points by which other installed packages provide parts of a kind."""
    from importlib.metadata import entry_points

    return entry_points(group=f"mpinodes.{kind.package}")


@lru_cache
def names(kind: PartKind) -> tuple[str, ...]:
    """Return the names of all installed parts of a kind, sorted."""
    import pkgutil

    modules = [info.name for info in pkgutil.iter_modules([str(Path(__file__).parents[1] / kind.package)])]
    ours = [module.replace("_", "-") for module in modules if _built_in(kind, module)]
    return tuple(sorted([*ours, *(point.name for point in _entry_points(kind))]))


def find(kind: PartKind, name: str, others: Sequence[str] = (), place: str = "") -> Any:
    """Return the class of a part by its name.

    Args:
        kind: the kind of the part.
        name: the name of the part.
        others: further names that the key accepts, for the suggestions in the error message.
        place: what the error message names as the source of `name`; by default the setting, such as "algorithm.name".

    Raises:
        BadInput: no part has that name, or the part of another installed package does not implement the base class of
            its kind correctly.
    """
    module = name.replace("-", "_")
    is_module = name.replace("-", "").isalnum() and importlib.util.find_spec(f"mpinodes.{kind.package}.{module}")
    if is_module and (part := _built_in(kind, module)):
        return part
    for point in _entry_points(kind):
        if point.name == name:
            return _required(kind, point.load(), f"{kind.key} = {name!r}")
    suggestion = to_type(kind.key, name, "str") or f"; {suggest(name, sorted([*names(kind), *others]))}"
    if is_file(name):
        suggestion = f"; for a Python file type {kind.path_key}={name}"
    raise BadInput(f"{place or kind.key} = {name!r}: there is no such name{suggestion}")


def parts_called(word: str) -> list[tuple[PartKind, Any]]:
    """Return the parts with the name `word`, or the part in the user's Python file `word`, as pairs (kind, class).

    Parts of several kinds may have the same name. A Python file has one part.

    Raises:
        BadInput: there is no part with this name, or the part has mistakes.
    """
    if is_file(word):
        part, where = _loaded(str(Path(word).absolute()), word)
        kind = next((kind for kind in KINDS if issubclass(part, kind.base)), ALGORITHMS)
        return [(kind, _required(kind, part, where))]
    called = [(kind, find(kind, word)) for kind in KINDS if word in names(kind)]
    if not called:
        every = sorted({name for kind in KINDS for name in names(kind)})
        raise BadInput(f"{word!r}: there is no such part; {suggest(word, every)}, or name a Python file")
    return called


def from_path(kind: PartKind, path: str) -> Any:
    """Return the class of a part that a user's file defines.

    If the class is a loss, return a subclass whose class attributes are the defaults of its settings (`bound`).

    Raises:
        BadInput: the file does not exist, cannot be imported, or does not name exactly one class in `__all__`; or this
            class does not implement the base class of this kind correctly.
    """
    return _required(kind, *_loaded(path, f"{kind.path_key} = {path!r}"))


def _loaded(path: str, where: str) -> tuple[Any, str]:
    """Import a user's file, and return the class that the file names in `__all__`.

    The class is added to `users_parts`.

    Args:
        path: the path of the file.
        where: a text with the name of the file, for error messages.

    Returns:
        The class; and `where` with the line of the class added, for the error messages of the caller. The line is left
        out if it is not known.

    Raises:
        BadInput: the file does not exist, cannot be imported, or does not name exactly one class in `__all__`.
    """
    spec = importlib.util.spec_from_file_location(f"mpinodes_user_{Path(path).stem}", path)
    if spec is None or spec.loader is None or not Path(path).is_file():
        suggestion = f"; did you mean {path}.py?" if Path(f"{path}.py").is_file() else ""
        raise BadInput(f"{where}: no such Python file{suggestion}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses search for their module here
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        line = error.lineno if isinstance(error, SyntaxError) and error.filename == spec.origin else None
        lines = [line or f.lineno for f in extract_tb(error.__traceback__) if line or f.filename == spec.origin]
        where += f", line {lines[-1]}" if lines else ""
        is_old = isinstance(error, ModuleNotFoundError) and (error.name or "").startswith("mpinodes.")
        hint = ": written for an older mpinodes; import from mpinodes.core, see docs/own/algorithm.md" if is_old else ""
        raise BadInput(f"{where}: cannot be imported: {type(error).__name__}: {error}{hint}") from error
    if (part := _public(module)) is None:
        raise BadInput(f'{where}: the file must name its one class in __all__, as in __all__ = ["MyClass"]')
    users_parts.insert(0, part)
    with suppress(OSError, TypeError):
        where += f", line {inspect.findsource(part)[1] + 1}"  # `getsourcelines` would tokenize the class
    return part, where


def _required(kind: PartKind, part: Any, where: str) -> Any:
    """Check that a class from outside mpinodes implements the base class of its kind correctly, and return the class.

    If the class is a loss, return a subclass whose class attributes are the defaults of its settings (`bound`).

    Args:
        kind: the kind of the part.
        part: the class.
        where: the place of the class, for error messages.

    Raises:
        BadInput: the class does not implement the base class correctly; the message says in one line what to change.
    """
    base = kind.base.__name__
    if not (isinstance(part, type) and issubclass(part, kind.base)):
        remedy = "read constants of the run from self.run, and state the leakage of every message (leaks=...)"
        raise BadInput(
            f"{where}: {part.__name__} does not extend mpinodes.core.{base}"
            + (f": derive it from {base}, {remedy}" if kind is ALGORITHMS else "")
        )
    if kind is not METRICS and "__dataclass_fields__" not in vars(part):
        raise BadInput(f"{where}: {part.__name__} must be a dataclass: put @dataclass(frozen=True) before it")
    missing = sorted(getattr(part, "__abstractmethods__", ()))
    missing += [name for name in REQUIRED.get(kind.package, ()) if not any(name in vars(c) for c in part.__mro__)]
    if kind is METRICS and not any({"take", "judge"} & vars(c).keys() for c in part.__mro__ if c is not kind.base):
        missing.append("take or judge")
    if missing:
        raise BadInput(f"{where}: {part.__name__} must have {', '.join(missing)}: see mpinodes.core.{base}")
    hints = get_type_hints(kind.base).items()
    stated: dict[str, Any] = {name: get_args(hint)[0] for name, hint in hints if get_origin(hint) is ClassVar}
    for name, hint in (stated | ({"has_labels": bool, "makes_all_losses": bool} if kind is STREAMS else {})).items():
        value, plain = getattr(part, name), get_origin(hint) or hint
        if plain in EXPECTED and not isinstance(value, plain if kind is LOSSES else (plain, property)):
            raise BadInput(f"{where}: {part.__name__}.{name} is {value!r}: expected {EXPECTED[plain]}")
    for name, other in NAMING.get(kind.package, {}).items():
        words = getattr(part, name)
        for word in (words or ("",)) if isinstance(words, tuple) else (words,):
            if not isinstance(word, type):
                find(other, str(word), place=f"{where}: {part.__name__}.{name}")
    reserved = keys_of(Problem) if kind in (LOSSES, SETS) else {"identity"} if kind is STREAMS else {}
    for taken in sorted(reserved & keys(kind, part).keys()):
        raise BadInput(f"{where}: {part.__name__}.{taken} has the name of the key {kind.section}.{taken}: rename it")
    return bound(part, {}) if kind is LOSSES else part


def bound(loss: Any, values: Mapping[str, Any]) -> Any:
    """Return a subclass of a loss in which the settings of the loss are class attributes.

    Class methods of a loss can then read the settings before a loss object exists. A setting that is not in `values`
    has its default. A setting without value and default does not become a class attribute. If no setting becomes a
    class attribute, the loss itself is returned.

    Args:
        loss: the class of the loss.
        values: the values of settings, by name.
    """
    own = [(name, key.type, values.get(name, key.default)) for name, key in keys(LOSSES, loss).items()]
    own = [field for field in own if field[2] is not NODEFAULT]
    if not own:
        return loss
    part = make_dataclass(loss.__name__, own, bases=(loss,), frozen=True, repr=False, eq=False)
    part.__module__ = loss.__module__
    return part


def named(kind: PartKind, section: Any) -> str:
    """Return a text that says which part a section chooses, such as "data.name = 'digits'".

    The section is a dictionary or a struct.
    """
    keys = section if isinstance(section, dict) else asdict(section)
    key = kind.chooser if keys.get(kind.path) is None else kind.path
    return f"{kind.section}.{key} = {keys.get(key)!r}"


def chosen(kind: PartKind, section: Mapping[str, Any], others: Sequence[str] = ()) -> Any:
    """Return the class of the part that a section of the experiment chooses, by name or by path.

    Args:
        kind: the kind of the part.
        section: the section.
        others: further names that the key accepts, for the suggestions in the error message.

    Raises:
        BadInput: there is no such part, or the part has mistakes; or the section sets neither name nor path, or sets
            them to a value that is no text.
    """
    key = kind.chooser if section.get(kind.path) is None else kind.path
    if (value := section.get(key)) is None:
        raise BadInput(f"{kind.key} is missing")
    if not isinstance(value, str):
        raise BadInput(f"{named(kind, section)}: expected a text")
    if key == kind.chooser:
        return find(kind, value, others)
    return from_path(kind, value)


def mixing_class(algorithm: type[parts.Algorithm[Any]], name: Any) -> type[parts.Mixing]:
    """Return the class of a mixing (a rule for the weights of received messages) by its name.

    The mixing is an installed part, or a class that the algorithm defines.

    Raises:
        BadInput: the algorithm does not allow a mixing with this name (`Algorithm.mixings`).
    """
    by_name = {mixing_name(mixing): mixing for mixing in algorithm.mixings}
    if name not in [*by_name]:
        raise BadInput(f"algorithm.mixing = {name!r}: choose from: {', '.join(by_name)}")
    mixing = by_name[name]
    part: type[parts.Mixing] = find(MIXINGS, mixing) if isinstance(mixing, str) else mixing
    return part


def mixing_name(mixing: str | type[parts.Mixing]) -> str:
    """Return the name by which `algorithm.mixing` chooses a mixing (a rule for the weights of messages).

    Args:
        mixing: the name of an installed mixing, which is returned unchanged; or a class, whose class name is returned.
    """
    return mixing if isinstance(mixing, str) else mixing.__name__


@lru_cache(maxsize=256)  # evaluating the annotations takes long
def keys(kind: PartKind, part: Any) -> dict[str, Key]:
    """Return the type and the default of each setting of a part, by the name of the setting.

    The settings are the fields of the part's dataclass, without the fields that mpinodes fills in. The dictionary is
    cached, so callers must not change it.
    """
    hints = get_type_hints(part, include_extras=True)
    given = {field.name for field in fields(kind.base)} - {*kind.settable}
    own = [field for field in fields(part) if field.name not in given]
    return {f.name: Key(hints[f.name], NODEFAULT if f.default is MISSING else f.default) for f in own}


def picked(kind: PartKind, part: Any, given: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the entries of `given` whose key is the name of a setting of the part."""
    return {key: (given or {})[key] for key in keys(kind, part) if key in (given or {})}


def fill(kind: PartKind, part: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of all settings of a part, converted to their types.

    A setting that is not in `given` has its default.

    Raises:
        BadInput: a key is unknown or missing, or a value has the wrong type or is out of range.
    """
    problems = Problems()
    filled = decode(dict(given), keys(kind, part), f"{kind.section}.", problems)
    problems.settle()
    return filled


class Classes(NamedTuple):
    """Hold the classes of the parts of an experiment, without topology, mixing and metrics.

    Attributes:
        algorithm: the class of the algorithm.
        stream: the class of the stream of losses.
        loss: the class of the loss of a sample, with the values of its settings as class attributes (`bound`).
        mechanism: the class of the mechanism; the class of the mechanism "none" if the run adds no noise.
        feasible: the class of the constraint set.
        steps: the class of the step schedule; None if the algorithm takes no gradient steps.
    """

    algorithm: type[parts.Algorithm[Any]]
    stream: type[parts.Stream]
    loss: type[parts.SampleLoss]
    mechanism: type[parts.Mechanism]
    feasible: type[parts.Set]
    steps: type[parts.Schedule] | None

    @classmethod
    def of(cls, e: Experiment) -> Classes:
        """Return the classes of the parts that an experiment chooses.

        Raises:
            BadInput: a part does not exist or has mistakes.
        """
        problem, privacy = to_builtins((e.problem, e.privacy))
        loss = chosen(LOSSES, problem)
        return cls(
            chosen(ALGORITHMS, e.algorithm),
            chosen(STREAMS, e.data),
            bound(loss, picked(LOSSES, loss, e.problem.settings)),
            chosen(MECHANISMS, privacy if e.private else {"mechanism": "none"}),
            chosen(SETS, problem),
            chosen(SCHEDULES, e.step) if e.step else None,
        )
