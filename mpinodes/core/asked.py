"""What a user asks for: TOML files, words key=value and dictionaries, as nested dictionaries, the last on top."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mpinodes.core.errors import BadInput

Tree = dict[str, Any]
UTF_16 = (b"\xff\xfe", b"\xfe\xff")  # byte-order marks
LINE = re.compile(r"""\s*(?:\[+\s*([\w."' -]+?)\s*\]|([\w."'-]+(?:\s*\.\s*[\w."'-]+)*)\s*=)""")
COMMANDS = "run|report|sweep|compare|check|audit|replay|spent|watch|doctor"


def as_typed(text: str) -> str:
    """Return a text in which the commands of mpinodes are named in the way that the user typed this one."""
    words = sys.orig_argv
    module = words[words.index("-m") + 1] if "-m" in words[:-1] else ""
    by_module = "python -m mpinodes" + ("." if "." in module else " ")
    typed = by_module if module.partition(".")[0] == "mpinodes" else "mpinodes "
    return re.sub(rf"(?:python -m mpinodes\.|\bmpinodes )({COMMANDS})\b", rf"{typed}\1", text)


class Request(Tree):
    """Nested dictionaries that know where a file sets a key.

    Attributes:
        places: by dotted key, the file and the line, for messages; empty: the key was set otherwise since.
    """

    places: dict[str, str]

    def __init__(self, tree: Mapping[str, Any], places: Mapping[str, str]) -> None:
        super().__init__(tree)
        self.places = dict(places)

    def located(self, problem: str) -> str:
        """Return a message about a key with the place of the key in front, if the key stands in a file."""
        match = re.match(r"(?:unknown key )?([\w.-]+)(?: = |: |; | is missing| are missing|, \D)", problem)
        key = match[1] if match else ""
        while key and key not in self.places:
            key = key.rpartition(".")[0]
        place = self.places.get(key)
        return f"{place}: {problem}" if place else problem


def merge(*trees: Mapping[str, Any]) -> Tree:
    """Return nested dictionaries laid over each other, the last on top."""
    merged, places = Request({}, {}), dict[str, str]()
    for tree in trees:
        for key, value in tree.items():
            below = merged.get(key)
            merged[key] = dict(merge(below, value)) if isinstance(value, dict) and isinstance(below, dict) else value
        places |= getattr(tree, "places", dict.fromkeys(dict(flat(tree)), ""))
    merged.places = places
    return merged


def flat(tree: Mapping[str, Any], prefix: str = "", whole: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every key of nested dictionaries, dotted, with its value; the value of the key `whole` stays as it is."""
    for name, value in tree.items():
        if isinstance(value, dict) and f"{prefix}{name}" != whole:
            yield from flat(value, f"{prefix}{name}.", whole)
        else:
            yield f"{prefix}{name}", value


def nested(settings: Mapping[str, Any]) -> Tree:
    """Return dotted keys as dictionaries within each other."""
    trees = []
    for key, value in settings.items():
        for part in reversed(key.split(".")):
            value = {part: value}
        trees.append(value)
    return merge(*trees)


def utf8(data: bytes) -> bytes:
    """Return a text as UTF-8 without its byte-order mark; by that mark UTF-16 is known, as PowerShell's `>` writes."""
    is_utf16 = data[:2] in UTF_16 and len(data) > 2
    return data.decode("utf-16", "replace").encode() if is_utf16 else data.removeprefix(b"\xef\xbb\xbf")


def parse(path: str | None, overrides: list[str]) -> Tree:
    """Return what the user asks for: a TOML file with key=value pairs on top.

    Raises:
        BadInput: the file is missing or malformed, or a pair is not one.
    """
    import tomllib

    asked: Tree = {}
    if path is not None:
        try:
            text = utf8(Path(os.path.expanduser(path)).read_bytes()).decode()
            asked = Request(tomllib.loads(text), _places(path, text))
        except OSError as error:
            raise BadInput(f"{path}: cannot be read: {error.strerror}") from error
        except ValueError as error:  # also for text that is not UTF-8, and for a number of thousands of digits
            raise BadInput(f"{path}: not TOML: {error}") from error
    for pair in overrides:
        key, equals, text = (word.strip() for word in pair.partition("="))
        if not equals or not all(key.split(".")):
            is_torn = any(word.count("[") + word.count("{") > word.count("]") + word.count("}") for word in overrides)
            hint = "; put a list with blanks in quotes: 'key=[1, 2]'" if is_torn else ""
            raise BadInput(f"{pair!r}: expected key=value, as in privacy.epsilon=0.5{hint}")
        try:
            value = tomllib.loads(f"value = {text}")["value"]
        except ValueError:
            value = text
        asked = merge(asked, nested({key: value}))
    return asked


def _places(path: str, text: str) -> dict[str, str]:
    """Return by dotted key the file and the line that a TOML text sets the key in."""
    places, section = dict[str, str](), ""
    for number, line in enumerate(text.splitlines(), 1):
        if match := LINE.match(line):
            name = re.sub(r"""["'\s]""", "", match[1] or match[2])
            section, key = (f"{name}.", name) if match[1] else (section, f"{section}{name}")
            places.setdefault(key, f"{path}, line {number}")
    return places


def asked_for(words: list[str]) -> Tree:
    """Return what the words of a command ask for: a file, if the first is no key=value, then overrides.

    Raises:
        BadInput: the file is missing or malformed, or a word is no pair.
    """
    file = words[0] if words and "=" not in words[0] else None
    return parse(file, words[1:] if file else words)


def gathered(*asked: str | Path | Mapping[str, Any]) -> Tree:
    """Return what files, words key=value, and dictionaries, nested or with dotted keys, ask for, the last on top.

    Raises:
        BadInput: a file is missing or malformed, or something is none of these.
    """
    trees: list[Tree] = []
    for source in asked:
        if isinstance(source, Mapping):
            trees.append(_tree(source))
        elif isinstance(source, str) and "=" in source:
            trees.append(parse(None, [source]))
        elif isinstance(source, (str, Path)):
            trees.append(parse(str(source), []))
        else:
            raise BadInput(f"{source!r}: expected a file, a word key=value, or a dictionary")
    return merge(*trees)


def _tree(asked: Mapping[str, Any]) -> Tree:
    """Return a dictionary for every dot of a key, and values as TOML has them."""
    for key in asked:
        if not isinstance(key, str) or not all(key.split(".")):
            raise BadInput(f"{key!r}: expected the name of a key, as in 'privacy.epsilon'")
    return nested({key: _tree(value) if isinstance(value, Mapping) else _plain(value) for key, value in asked.items()})


def _plain(value: Any) -> Any:
    """Return a number of numpy as Python's, an array (of numpy or pandas) or tuple as a list, a path as its name."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    return str(value) if isinstance(value, Path) else value
