"""Convert the values in the sections of an experiment to their types, and report mistakes in keys and values.

A struct of `core.experiment`, or the dataclass of a part, defines the keys of a section. `decode` converts a section
and collects all mistakes. Each mistake is a line of text.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from itertools import product
from typing import Any, Literal, NamedTuple, get_args, get_origin

import msgspec
from msgspec import NODEFAULT

from mpinodes.core.asked import Tree
from mpinodes.core.errors import BadInput
from mpinodes.core.experiment import SECTIONS


class Key(NamedTuple):
    """Hold the type and the default of a key. The default of a required key is NODEFAULT."""

    type: Any
    default: Any = NODEFAULT


class Problems(list[str]):
    """Collect the mistakes in an experiment: a list with one line of text for each mistake."""

    @contextmanager
    def caught(self) -> Iterator[None]:
        """Suppress a `BadInput` raised in the `with` block, and add the lines of its error message to the list."""
        try:
            yield
        except BadInput as error:
            self.extend(str(error).split("\n"))

    def settle(self) -> None:
        """Raise an error that lists all mistakes; do nothing if there are no mistakes.

        Raises:
            BadInput: the list is not empty.
        """
        if self:
            raise BadInput("\n".join(dict.fromkeys(self)))


@cache
def keys_of(struct: Any) -> dict[str, Key]:
    """Return the type and the default of each key of a section, by the name of the key.

    If a function makes the default of a key, the default in the result is None.

    Args:
        struct: the class (of `core.experiment`) that defines the section.
    """
    fields = msgspec.structs.fields(struct)
    defaults = [NODEFAULT if f.required else None if f.default is NODEFAULT else f.default for f in fields]
    return {f.name: Key(f.type, default) for f, default in zip(fields, defaults, strict=True)}


def decode(
    section: Tree, keys: Mapping[str, Key], prefix: str, problems: Problems, others: Collection[str] = ()
) -> Tree:
    """Return the values of all keys of a section, converted to their types.

    A key that the section does not set has its default. In a section inside this section, such as `privacy.budget`,
    keys that are not set stay missing.

    Args:
        section: the values that the user and the defaults of parts set.
        keys: the keys of the section.
        prefix: the name of the section with a dot, as in "privacy."; empty for keys outside of sections.
        problems: the list to which a line for each mistake is added. A key with a mistake is not in the result.
        others: keys of the section that are allowed, but not converted here.
    """
    problems += [unknown(name, keys, prefix, section) for name in section if name not in keys and name not in others]
    decoded, missing = Tree(), list[str]()
    for name, key in keys.items():
        dotted = f"{prefix}{name}"
        if name in others:
            continue
        if dotted in SECTIONS and section.get(name) is not None:
            if is_section(dotted, inner := section[name], problems):
                values = decode(inner, keys_of(SECTIONS[dotted]), f"{dotted}.", problems)
                decoded[name] = {key: value for key, value in values.items() if key in inner}
        elif name in section:
            with problems.caught():
                decoded[name] = checked(section[name], key.type, dotted)
        elif key.default is not NODEFAULT:
            decoded[name] = key.default
        else:
            missing.append(dotted)
    if missing:
        problems.append(f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing")
    return decoded


def is_section(name: str, value: Any, problems: Problems) -> bool:
    """Return whether the value of a section is a dictionary; if not, add a line to `problems` that shows the syntax."""
    if not isinstance(value, dict):
        typed = to_type(name, value) if str(value).startswith("{") else ""
        problems.append(f"{name} = {value!r}: {name} is a section of keys; write {name}.<key>=... or [{name}]{typed}")
    return isinstance(value, dict)


def checked(value: Any, expected: Any, key: str) -> Any:
    """Return the value of a key, converted to its type.

    Raises:
        BadInput: the value has the wrong type or is out of range, or is text that is not UTF-8; the message names the
            key and says which values are allowed.
    """
    try:
        converted = msgspec.convert(value, expected)
        msgspec.msgpack.encode(converted)  # check that the value can be sent to other ranks
    except msgspec.ValidationError as error:
        raise BadInput(f"{key} = {value!r}: {_plain(str(error), expected)}{to_type(key, value, str(error))}") from error
    except TypeError as error:  # such as a class in study.grid
        raise BadInput(f"{key}: {error}; put a class of a study into study.cases") from error
    except OverflowError as error:
        raise BadInput(f"{key}: expected a whole number from -2^63 to 2^64 - 1") from error
    except UnicodeEncodeError as error:
        raise BadInput(f"{key}: expected UTF-8 text, also in names of directories") from error
    least, most = _meta(expected, "range") or (0.0, 0.0)
    if most and not (least <= float(converted) <= most or converted in ("inf", float("inf"))):
        raise BadInput(f"{key} = {value!r}: expected a number from {least:g} to {most:g}, or inf")
    return converted


def _meta(expected: Any, name: str) -> Any:
    """Return what a type's annotation says about the allowed values; None if the annotation says nothing.

    Args:
        expected: the annotated type.
        name: "range" for the least and the largest allowed number, or "expected" for a description in words.
    """
    metas = getattr(expected, "__metadata__", ())
    return next((meta.extra[name] for meta in metas if meta.extra and name in meta.extra), None)


def near(word: str, choices: Sequence[str], cutoff: float = 0.6) -> str:
    """Return the choice whose spelling is most similar to a word; empty if no choice is similar.

    The comparison ignores case, and the difference between _ and -.

    Args:
        word: the word.
        choices: the choices.
        cutoff: the least similarity, from 0 to 1; with 1 only equal spellings are accepted.
    """
    from difflib import get_close_matches  # imported here, so that agents start faster

    folded = {choice.casefold().replace("_", "-"): choice for choice in choices}
    matches = get_close_matches(word.casefold().replace("_", "-"), folded, 1, cutoff)
    return next((folded[match] for match in matches), "")


def suggest(word: str, choices: Sequence[str], prefix: str = "") -> str:
    """Return the end of an error message about a wrong word: "did you mean ...?", or the list of all choices."""
    close = near(word, choices)
    return f"did you mean {prefix}{close}?" if close else f"choose from: {', '.join(choices)}"


def unknown(name: str, keys: Collection[str], prefix: str, section: Tree) -> str:
    """Return the error message about an unknown key. The message suggests similar keys, or lists the section's keys.

    Args:
        name: the unknown key, without the section.
        keys: the allowed keys of the section.
        prefix: the name of the section with a dot; empty for keys outside of sections.
        section: the values that the user set in the section, or in the whole experiment if `prefix` is empty.
    """
    from mpinodes.config.explaining import documented_keys  # imports every part

    documented, own = documented_keys(), [f"{prefix}{key}" for key in sorted(keys)]
    with suppress(BadInput):  # a user's file with a mistake is reported elsewhere
        documented = documented_keys(section)
    choices = f"choose from: {', '.join(own)}" if keys else f"{prefix.rstrip('.')} has no keys"
    if f"{prefix}{name}" in documented:
        return f"unknown key {prefix}{name}: the chosen {prefix.rstrip('.')} does not have this key; {choices}"
    last = {key: key.rpartition(".")[2] for key in (*own, *documented)}
    groups = own, [key for key in documented if not key.startswith(prefix or "-")]
    for cutoff, group in product((1.0, 0.6), groups):  # first search for the same word in other sections
        if match := near(name, [last[key] for key in group], cutoff):
            same = [key for key in group if last[key] == match]
            fewest = min(key.count(".") for key in same)
            meant = [key for key in same if key.count(".") == fewest]
            return f"unknown key {prefix}{name}; did you mean {' or '.join(meant[:3])}?"
    return f"unknown key {prefix}{name}; {choices}"


def to_type(key: str, value: Any, message: str = "") -> str:
    """Return what the user should type in place of a wrong value, as the end of an error message; empty without advice.

    Args:
        key: the setting, such as "data.batch".
        value: the wrong value.
        message: the error message of msgspec, which names the expected type. An empty text means that a TOML table was
            expected. A text without the name of a type means that a single value was expected.
    """
    wants = message.partition("`")[2].partition("`")[0]
    if isinstance(value, list) and value and "got `array`" in message:
        return f"; for a run with each value: mpinodes sweep {key}={','.join(map(str, value))}"
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
        return f"; in a shell type {shlex.quote(f'{key}={ends[0]}{inner}{ends[1]}')}, with the quotes"
    if "," in text.strip(","):
        return f"; one value is expected; for a run with each value: mpinodes sweep {key}={''.join(text.split())}"
    return "; write true or false" if wants == "bool" else ""


def _as_toml(word: str) -> str:
    """Return a word as a TOML value: unchanged if the word already is one, else in quotes."""
    import tomllib  # imported here, so that agents start faster

    try:
        tomllib.loads(f"value = {word}")
    except ValueError:
        return json.dumps(word.strip("\"'“”„‘’‚«»"), ensure_ascii=False)
    return word


def _plain(message: str, expected: Any) -> str:
    """Return what is wrong with a value: the allowed words, or the message of msgspec in plain words.

    Args:
        message: the error message of msgspec.
        expected: the type of the key.
    """
    if "matching regex" in message:
        return f"expected {_meta(expected, 'expected')}"
    if choices := options(expected):
        return f"choose from: {', '.join(choices)}"
    if "enum" in message:  # the type is a list of allowed numbers, or a number or bool or one of several words
        kinds = get_args(_plain_type(expected))
        if get_origin(_plain_type(expected)) is Literal:
            return f"choose from: {', '.join(map(str, kinds))}"
        words = [word for kind in kinds for word in options(kind)]
        return f"expected {'true or false' if bool in kinds else 'a number'}, or {' or '.join(words)}"
    plain = message.partition(" - at ")[0].replace("`", "").replace("Expected", "expected")
    return plain.replace("array", "list").replace("object", "table")


def options(expected: Any) -> list[str]:
    """Return the allowed words of a type `Literal` that allows only words; empty for other types."""
    kind = _plain_type(expected)
    choices = get_args(kind) if get_origin(kind) is Literal else ()
    return list(choices) if choices and all(isinstance(choice, str) for choice in choices) else []


def _plain_type(expected: Any) -> Any:
    """Return a type without its annotations."""
    return expected.__origin__ if "__metadata__" in dir(expected) else expected
