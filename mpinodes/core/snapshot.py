"""State as plain data: written to a file and taken up again, bit for bit, and without pickle.

Written are None, booleans, numbers, words, arrays, and tuples, lists, dictionaries, dataclasses and named tuples of
these. A file is an .npz: its arrays, and the tree that they stand in as JSON; zip's own checksums tell a damaged one.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Arrays = list[NDArray[Any]]
TREE = "tree"


class Damaged(ValueError):
    """A file is not as `save` left it."""


def save(path: Path, content: Mapping[str, Any]) -> None:
    """Write a file, whole or not at all.

    Raises:
        TypeError: something in it is no plain data; names it.
        OSError: it cannot be written.
    """
    arrays: Arrays = []
    tree = json.dumps({name: _packed(value, arrays, name) for name, value in content.items()})
    draft = path.with_name(path.name + ".part")
    with draft.open("wb") as file:
        np.savez(
            file,
            **{TREE: np.frombuffer(tree.encode(), np.uint8)},
            **{str(k): array for k, array in enumerate(arrays)},
            allow_pickle=False,
        )
        file.flush()
        os.fsync(file.fileno())
    os.replace(draft, path)


def load(path: Path) -> dict[str, Any]:
    """What was saved.

    Raises:
        Damaged: it was not, or not this.
        OSError: it cannot be read.
    """
    with path.open("rb") as opened:
        try:
            with np.load(opened, allow_pickle=False) as file:
                tree = json.loads(file[TREE].tobytes().decode())
                arrays = [file[str(k)] for k in range(len(file.files) - 1)]
            return {name: _opened(value, arrays) for name, value in tree.items()}
        except Exception as error:  # a flipped bit makes zip, NumPy and JSON fail in a dozen ways
            raise Damaged(f"{path}: damaged: {type(error).__name__}: {error}") from error


def _packed(value: Any, arrays: Arrays, where: str) -> Any:
    """As JSON, with arrays by their number."""
    kind = type(value)
    if value is None or kind in (bool, int, float, str):
        return value
    if isinstance(value, np.ndarray | np.generic) and not value.dtype.hasobject:
        arrays.append(np.asarray(value))
        return {"array" if isinstance(value, np.ndarray) else "scalar": len(arrays) - 1}
    if kind in (tuple, list):
        return {kind.__name__: [_packed(inner, arrays, f"{where}[{k}]") for k, inner in enumerate(value)]}
    if kind is dict:
        pairs = [
            [_packed(key, arrays, where), _packed(inner, arrays, f"{where}[{key!r}]")] for key, inner in value.items()
        ]
        return {"dict": pairs}
    if names := _names(kind):
        parts = {name: _packed(getattr(value, name), arrays, f"{where}.{name}") for name in names}
        return {"of": [kind.__module__, kind.__qualname__], "parts": parts}
    raise TypeError(
        f"{where} is a {kind.__name__}, which cannot be written down: keep state in arrays, numbers, words, tuples, "
        "lists, dictionaries, dataclasses and named tuples"
    )


def _names(kind: type) -> tuple[str, ...]:
    """Of the parts of a dataclass or named tuple; none: it is neither."""
    if is_dataclass(kind):
        return tuple(field.name for field in fields(kind))
    return tuple(getattr(kind, "_fields", ())) if issubclass(kind, tuple) else ()


def _opened(packed: Any, arrays: Arrays) -> Any:
    if not isinstance(packed, dict):
        return packed
    if "of" in packed:
        module, name = packed["of"]
        return _made(module, name, {part: _opened(inner, arrays) for part, inner in packed["parts"].items()})
    ((how, what),) = packed.items()
    return _OPENERS[how](what, arrays)


_OPENERS: dict[str, Callable[[Any, Arrays], Any]] = {
    "array": lambda number, arrays: arrays[number],
    "scalar": lambda number, arrays: arrays[number][()],
    "tuple": lambda inner, arrays: tuple(_opened(each, arrays) for each in inner),
    "list": lambda inner, arrays: [_opened(each, arrays) for each in inner],
    "dict": lambda pairs, arrays: {_opened(key, arrays): _opened(each, arrays) for key, each in pairs},
}


def _made(module: str, name: str, parts: dict[str, Any]) -> Any:
    """An object of a class that this run has loaded; none of its code is run."""
    kind: Any = sys.modules[module]
    for each in name.split("."):
        kind = vars(kind)[each]
    if set(_names(kind)) != set(parts):
        raise ValueError(f"{name} has other parts than {', '.join(parts)}")
    if issubclass(kind, tuple):
        return tuple.__new__(kind, [parts[each] for each in _names(kind)])
    made = object.__new__(kind)
    for each, part in parts.items():
        object.__setattr__(made, each, part)
    return made
