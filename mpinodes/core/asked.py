"""Read the settings that a user asks for: TOML files, key=value pairs and dictionaries become one nested dictionary.

If two files, pairs or dictionaries set the same key, the later setting counts. A nested dictionary of settings is
called a tree. A `Request` is a tree that remembers which line of which file set each key.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping
from functools import reduce
from pathlib import Path
from typing import Any

from mpinodes.core.errors import BadInput

Tree = dict[str, Any]
UTF_16 = (b"\xff\xfe", b"\xfe\xff")  # byte-order marks
LINE = re.compile(r"""\s*(?:\[+\s*([\w."' -]+?)\s*\]|([\w."'-]+(?:\s*\.\s*[\w."'-]+)*)\s*=)""")
# Sections, each followed by keys that choose the same part
CHOICES = "algorithm name path, data name path, topology name file path, step kind path, problem loss path"
CHOICES += ", problem set set_path"
NAMED = ("algorithm", "data", "topology")  # sections whose part is chosen by the key `name`
COMMANDS = "run|init|tune|report|sweep|compare|check|audit|replay|spent|watch|doctor"


def as_typed(text: str) -> str:
    """Return a text in which all commands of mpinodes begin like the command that the user typed.

    A command begins with `mpinodes `, `python -m mpinodes.` or `python -m mpinodes `.
    """
    words = sys.orig_argv
    module = words[words.index("-m") + 1] if "-m" in words[:-1] else ""
    by_module = "python -m mpinodes" + ("." if "." in module else " ")
    typed = by_module if module.partition(".")[0] == "mpinodes" else "mpinodes "
    return re.sub(rf"(?:python -m mpinodes[. ]|\bmpinodes )({COMMANDS})\b", rf"{typed}\1", text)


class Request(Tree):
    """Hold settings as nested dictionaries, and remember which line of which file set a key.

    Attributes:
        places: maps a key, such as "privacy.epsilon", to a text with the file and the line that set the key. The text
            is empty if a key=value pair or a dictionary set the key last.
    """

    places: dict[str, str]

    def __init__(self, tree: Mapping[str, Any], places: Mapping[str, str]) -> None:
        super().__init__(tree)
        self.places = dict(places)

    def located(self, problem: str) -> str:
        """Return an error message with the place of the mistake, a file and a line, added at its beginning.

        The place is the line that sets the key at the beginning of the message, or else the line that begins the
        section of this key. The message is returned unchanged if no file sets the key or its section, or if a key=value
        pair or a dictionary overrides the key.

        Args:
            problem: the error message.
        """
        match = re.match(r"(?:unknown key )?([\w.-]+)(?: = |: |; | is missing| are missing|, \D)", problem)
        key = match[1] if match else ""
        while key and key not in self.places:
            key = key.rpartition(".")[0]
        place = self.places.get(key)
        return f"{place}: {problem}" if place else problem


def merge(*trees: Mapping[str, Any]) -> Tree:
    """Return a new `Request` with the keys of all given trees. If several trees set a key, the last value counts.

    Two dictionaries under the same key are merged in the same way.
    """
    merged, places = Request({}, {}), dict[str, str]()
    for tree in trees:
        for key, value in tree.items():
            below = merged.get(key)
            merged[key] = dict(merge(below, value)) if isinstance(value, dict) and isinstance(below, dict) else value
        places |= getattr(tree, "places", dict.fromkeys(dict(flat(tree)), ""))
    merged.places = places
    return merged


def overridden(tree: Tree, later: Tree) -> Tree:
    """Return the settings of `tree` and `later`. Where `later` chooses a part, `tree` no longer chooses this part.

    For example, `algorithm.path` of the command line replaces `algorithm.name` of the file.
    """
    kept = merge(tree)
    for section, *choosers in map(str.split, CHOICES.split(", ")):
        below, above = kept.get(section), later.get(section)
        if isinstance(below, dict) and isinstance(above, dict) and {*choosers} & above.keys():
            kept[section] = {key: value for key, value in below.items() if key not in choosers}
    return merge(kept, later)


def flat(tree: Mapping[str, Any], prefix: str = "", whole: str = "") -> Iterator[tuple[str, Any]]:
    """Yield all values of nested dictionaries, as pairs (dotted key, value), such as ("privacy.epsilon", 0.5).

    Args:
        tree: the nested dictionaries.
        prefix: the text in front of every yielded key.
        whole: the dotted key of an inner dictionary that is yielded as it is, as one value.
    """
    for name, value in tree.items():
        if isinstance(value, dict) and f"{prefix}{name}" != whole:
            yield from flat(value, f"{prefix}{name}.", whole)
        else:
            yield f"{prefix}{name}", value


def nested(settings: Mapping[str, Any]) -> Tree:
    """Return nested dictionaries for a dictionary with dotted keys, such as "privacy.epsilon"."""
    trees = []
    for key, value in settings.items():
        for part in reversed(key.split(".")):
            value = {part: value}
        trees.append(value)
    return merge(*trees)


def utf8(data: bytes) -> bytes:
    """Remove the byte-order mark of a UTF-8 text, and convert UTF-16 with such a mark (from PowerShell) to UTF-8."""
    is_utf16 = data[:2] in UTF_16 and len(data) > 2
    return data.decode("utf-16", "replace").encode() if is_utf16 else data.removeprefix(b"\xef\xbb\xbf")


def parse(path: str | None, overrides: list[str]) -> Tree:
    """Return the settings of a TOML file, overridden by key=value pairs, as nested dictionaries.

    Args:
        path: the TOML file; None: there is no file.
        overrides: texts key=value, such as "privacy.epsilon=0.5"; a value that is not TOML is taken as text.

    Raises:
        BadInput: the file is missing or malformed, a word is not a key=value pair, or a word is a Python file.
    """
    import tomllib

    asked: Tree = {}
    words: Tree = {}
    if file := next((word for word in (path, *overrides) if word and word.endswith(".py") and "=" not in word), ""):
        raise BadInput(f"{file}: a Python file is the value of a key; for an algorithm, type algorithm.path={file}")
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
            if pair.endswith(".toml"):
                problem = "a file must precede all key=value pairs" if Path(pair).is_file() else "there is no such file"
                raise BadInput(f"{pair}: {problem}")
            raise BadInput(f"{pair!r}: expected key=value, as in privacy.epsilon=0.5{hint}")
        try:
            value = tomllib.loads(f"value = {text}")["value"]
        except ValueError:
            value = text
        words = merge(words, nested({key: value}))
    return overridden(asked, words)


def _places(path: str, text: str) -> dict[str, str]:
    """Return where a TOML text sets each key: a dictionary from dotted keys to texts "<path>, line <number>".

    Only sections and keys at the beginning of a line are found; the first such line counts. Keys of inline tables are
    missing.
    """
    places, section = dict[str, str](), ""
    for number, line in enumerate(text.splitlines(), 1):
        if match := LINE.match(line):
            name = re.sub(r"""["'\s]""", "", match[1] or match[2])
            section, key = (f"{name}.", name) if match[1] else (section, f"{section}{name}")
            places.setdefault(key, f"{path}, line {number}")
    return places


def asked_for(words: list[str]) -> Tree:
    """Return the settings that the words of a command ask for, as nested dictionaries.

    Args:
        words: the path of a TOML file, which may be left out, then key=value pairs that override the file.

    Raises:
        BadInput: the file is missing or malformed, or a word is not a key=value pair.
    """
    file = words[0] if words and "=" not in words[0] else None
    return parse(file, words[1:] if file else words)


def gathered(*asked: str | Path | Mapping[str, Any]) -> Tree:
    """Merge the settings of files, key=value pairs and dictionaries; later arguments override earlier arguments.

    Raises:
        BadInput: a file is missing or malformed; an argument is no path, no key=value pair and no dictionary; or a key
            of a dictionary is not a dotted name.
    """
    trees: list[Tree] = []
    for source in asked:
        if isinstance(source, Mapping):
            trees.append(_plain(source))
        elif isinstance(source, str) and "=" in source:
            trees.append(parse(None, [source]))
        elif isinstance(source, (str, Path)):
            trees.append(parse(str(source), []))
        else:
            raise BadInput(f"{source!r}: expected the path of a file, a text key=value, or a dictionary")
    return reduce(overridden, trees, merge())


def _plain(value: Any) -> Any:
    """Convert a Python value to types of TOML: NumPy numbers to numbers, arrays and tuples to lists, paths to text.

    A mapping with nested or dotted keys becomes nested dictionaries. A class as the value of a section counts as the
    value of `name` in this section. Other values are returned unchanged.

    Raises:
        BadInput: a key of a mapping is not a dotted name.
    """
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str) or not all(key.split(".")):
                raise BadInput(f"{key!r}: expected the name of a key, as in 'privacy.epsilon'")
        return nested({f"{k}.name" if isinstance(v, type) and k in NAMED else k: _plain(v) for k, v in value.items()})
    if isinstance(value, type):
        return value
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    return str(value) if isinstance(value, Path) else value
