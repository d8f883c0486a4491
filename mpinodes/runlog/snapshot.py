"""Write plain data to a file and read them again, bit for bit, without pickle.

Plain data are numbers, texts, bytes, None, and NumPy arrays of numbers or booleans. Tuples, lists, dictionaries,
dataclasses and named tuples of plain data are plain data, too. A file is a checksum, followed by MessagePack.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

SUM = 16  # bytes of the checksum
LONGEST = 63  # integers with more bits are stored as text, because MessagePack cannot store them

_encoder = msgspec.msgpack.Encoder()


class Damaged(ValueError):
    """Report that a file is damaged, or is not the file that the caller expects."""


def save(path: str, content: Mapping[str, Any], draft: str, lasting: bool = False) -> None:
    """Write plain data to a file. If an error occurs, the old file stays unchanged.

    Args:
        path: the path of the file.
        content: plain data, by name.
        draft: the path where the file is written first. If a file exists there, it is overwritten, which is faster than
            creating a file.
        lasting: whether to flush the file to disk, so that it survives a loss of power.

    Raises:
        TypeError: a value is not plain data; the message names the value.
        OSError: the file cannot be written.
    """
    packed = packed_up(content)
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT, 0o600), "wb") as file:
        file.write(_sum(packed) + packed)
        file.truncate()
        if lasting:
            file.flush()
            os.fsync(file.fileno())
    os.replace(draft, path)


def load(path: Path) -> dict[str, Any]:
    """Return the content of a file that `save` wrote.

    Raises:
        Damaged: the file no longer has the content that `save` wrote.
        OSError: the file cannot be read.
    """
    whole = path.read_bytes()
    packed = memoryview(whole)[SUM:]
    if whole[:SUM] != _sum(packed):
        raise Damaged(f"{path}: damaged: the checksum is wrong")
    try:
        return {name: _opened(value) for name, value in msgspec.msgpack.decode(packed).items()}
    except Exception as error:  # possible if somebody changed the content and its checksum
        raise Damaged(f"{path}: damaged: {type(error).__name__}: {error}") from error


def packed_up(content: Mapping[str, Any]) -> bytes:
    """Return plain data (numbers, texts, arrays, and collections of these) as bytes in MessagePack format.

    Raises:
        TypeError: a value is not plain data; the message names the value.
    """
    return _encoder.encode({name: _packed(value, name) for name, value in content.items()})


def _sum(packed: bytes | memoryview) -> bytes:
    return blake2b(packed, digest_size=SUM).digest()


def _packed(value: Any, where: str) -> Any:
    kind: Any = type(value)
    if value is None or kind in (bool, float, str):
        return value
    if kind is bytes:
        return {"bytes": value}
    if kind is int:
        return value if value.bit_length() <= LONGEST else {"int": hex(value)}
    if isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind in "biufc":
        # Keep the memory order of the array, because the last bits of a matrix product may depend on it.
        by_columns = value.flags.f_contiguous and not value.flags.c_contiguous
        order = "scalar" if isinstance(value, np.generic) else "columns" if by_columns else "rows"
        return {order: [value.dtype.str, list(value.shape), value.tobytes("F" if by_columns else "C")]}
    if kind in (tuple, list):
        return {kind.__name__: [_packed(inner, f"{where}[{k}]") for k, inner in enumerate(value)]}
    if kind is dict:
        return {"dict": [[_packed(key, where), _packed(inner, f"{where}[{key!r}]")] for key, inner in value.items()]}
    if names := _names(kind):
        parts = {name: _packed(getattr(value, name), f"{where}.{name}") for name in names}
        return {"of": [kind.__module__, kind.__qualname__], "parts": parts}
    plain = "arrays of numbers, numbers, texts, tuples, lists, dictionaries, dataclasses and named tuples"
    raise TypeError(f"{where} is a {kind.__name__}, which cannot be stored in a file: keep the state in {plain}")


@cache
def _names(kind: Any) -> tuple[str, ...]:
    """Return the names of the fields of a dataclass or a named tuple; an empty tuple for any other class."""
    if is_dataclass(kind):
        return tuple(field.name for field in fields(kind))
    return tuple(getattr(kind, "_fields", ())) if issubclass(kind, tuple) else ()


def _opened(packed: Any) -> Any:
    if not isinstance(packed, dict):
        return packed
    if "of" in packed:
        module, name = packed["of"]
        return _made(module, name, {part: _opened(inner) for part, inner in packed["parts"].items()})
    ((kind, content),) = packed.items()
    return _OPENERS[kind](content)


def _array(packed: Any, order: Any) -> Any:
    dtype, shape, stored = packed
    return np.frombuffer(stored, dtype).reshape(shape, order=order).copy(order)


_OPENERS: dict[str, Callable[[Any], Any]] = {
    "bytes": bytes,
    "int": lambda digits: int(digits, 16),
    "rows": lambda packed: _array(packed, "C"),
    "columns": lambda packed: _array(packed, "F"),
    "scalar": lambda packed: _array(packed, "C")[()],
    "tuple": lambda inner: tuple(map(_opened, inner)),
    "list": lambda inner: list(map(_opened, inner)),
    "dict": lambda pairs: {_opened(key): _opened(value) for key, value in pairs},
}


def _made(module: str, name: str, parts: dict[str, Any]) -> Any:
    """Return a new object of a class, with the field values `parts`, without running the code of the class.

    Args:
        module: the module of the class, which must be imported already.
        name: the qualified name of the class.
        parts: the values of the fields, by name.
    """
    kind: Any = sys.modules[module]
    for step in name.split("."):
        kind = vars(kind)[step]
    if set(_names(kind)) != set(parts):
        raise ValueError(f"{name} has the fields {', '.join(_names(kind))}, but the file has {', '.join(parts)}")
    if issubclass(kind, tuple):
        return tuple.__new__(kind, [parts[part] for part in _names(kind)])
    made = object.__new__(kind)
    for part, value in parts.items():
        object.__setattr__(made, part, value)
    return made
