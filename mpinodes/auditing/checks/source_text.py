"""What a part's file imports and how it is made, read without running it."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mpinodes.auditing.checks.failures import Fault

ALLOWED = {
    "mpinodes.core", "numpy", "scipy", "math", "cmath", "dataclasses", "typing", "typing_extensions", "abc",
    "collections", "functools", "itertools", "operator", "__future__", "enum", "numbers", "fractions", "msgspec",
    "warnings", "bisect", "heapq", "string", "re", "types", "copy", "mpinodes.bounds", "statistics",
}  # fmt: skip
REACHING = {"open", "exec", "eval", "compile", "__import__", "input", "globals", "__builtins__"}
OPENING = ("streams", "topology")  # kinds of parts that read files
REFUSED = {"numpy.random", "numpy.ctypeslib", "scipy.io", "numpy.memmap"}
# Of each kind, rooms of ours that hold what its files are made from.
ROOMS = {
    "algorithms": {"mpinodes.algorithms"},
    "streams": {
        "mpinodes.streams", "mpinodes.data", "pathlib", "os", "hashlib", "gzip", "bz2", "lzma", "zlib", "zipfile",
        "csv", "json", "array", "struct", "importlib.util", "pandas", "h5py",
    },
    "losses": {"mpinodes.losses"},
    "mechanisms": {"mpinodes.mechanisms"},
    "mixing": {"mpinodes.mixing"},
    "topology": {"mpinodes.topology", "networkx"},
    "metrics": {"mpinodes.metrics"},
    "sets": {"mpinodes.sets"},
    "schedules": {"mpinodes.schedules"},
}  # fmt: skip


def read(path: Path, package: str) -> Iterator[Fault]:
    """The imports of a file of a kind of parts."""
    tree = ast.parse(path.read_bytes())
    allowed = ALLOWED | ROOMS[package]
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in REACHING and package not in OPENING:
            yield Fault(
                "the world outside is touched",
                f"{path.name}, line {node.lineno}: {node.id}",
                "files, environment, threads and the interpreter's own books are not an agent's",
            )
        for name in _imported(node):
            fine = any(name == a or name.startswith(f"{a}.") for a in allowed)
            if not fine or any(name == r or name.startswith(f"{r}.") for r in REFUSED):
                yield Fault(
                    "an import that is not a part's",
                    f"{path.name}, line {getattr(node, 'lineno', 0)}: {name}",
                    "a part needs mpinodes.core, numpy, scipy and what is pure of the standard library: no randomness, "
                    "clock, file, thread or network, and no other rooms of mpinodes",
                )


def _imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        if node.level or node.module is None:
            return ["." * node.level + (node.module or "")]
        # `from numpy import random` is an import of numpy.random.
        inner = [f"{node.module}.{alias.name}" for alias in node.names]
        return [name for name in inner if name in REFUSED] or [node.module]
    return []


def frozen(part: Any) -> Iterator[Fault]:
    """Whether the class of a part is a frozen dataclass."""
    parameters = getattr(part, "__dataclass_params__", None)
    if not dataclasses.is_dataclass(part) or parameters is None or not parameters.frozen:
        yield Fault(
            "a part that can be changed", f"{part.__name__} is not frozen", "put @dataclass(frozen=True) before it"
        )
