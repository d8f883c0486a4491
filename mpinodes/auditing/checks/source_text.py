"""Tests of the text of a part's file, without running it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from mpinodes.auditing.checks.failures import Fault

CHANCE = {"random", "secrets", "uuid"}
OUTSIDE = {
    "asyncio", "ctypes", "datetime", "gc", "inspect", "io", "logging", "mmap", "mpi4py", "multiprocessing", "os",
    "pathlib", "pickle", "queue", "shelve", "shutil", "signal", "socket", "sqlite3", "subprocess", "sys", "tempfile",
    "threading", "time",
}  # fmt: skip
BUILTINS = {f"builtins.{name}" for name in ("open", "exec", "eval", "compile", "__import__", "input", "globals")}
OPENING = ("streams", "topology")  # these kinds may read files and draw from a seed
COMMANDS = ("running", "studies", "auditing", "launch", "presentation", "runlog", "evaluation", "finished", "summary")


def read(path: Path, package: str) -> Iterator[Fault]:
    """Find names in a part's own file that a part must not use: randomness, clocks, files and other rooms of mpinodes.

    Files that it imports are not read. Their effects are found where two calls, processes or agents differ.
    """
    for node in ast.walk(ast.parse(path.read_bytes())):
        for word in _names(node):
            where, first = f"{path.name}, line {getattr(node, 'lineno', 0)}: {word}", word.split(".")[0]
            if word.startswith("mpinodes.") and word.split(".")[1] in COMMANDS:
                yield Fault("an import that is not a part's", where, "a part may import mpinodes.core and our parts")
            if package in OPENING:
                continue
            is_drawn = word.startswith("numpy.random") and word.rpartition(".")[2].islower()  # a type is capitalized
            if first in CHANCE or is_drawn or word == "builtins.id":
                right = "only the mechanism may be random: leave noise to it, and state a sensitivity"
                yield Fault("own random draw", where, right)
            elif first in OUTSIDE or word in BUILTINS:
                right = "an agent must not use files, clocks, the environment, threads or the interpreter's state"
                yield Fault("the world outside is touched", where, right)


def _names(node: ast.AST) -> list[str]:
    """Return the dotted names that a node imports, calls as a built-in function or takes from numpy.random."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        return [f"{node.module}.{alias.name}" for alias in node.names]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return [f"builtins.{node.func.id}"]
    named = isinstance(node, ast.Attribute) and ast.unparse(node.value) in ("np.random", "numpy.random")
    return [f"numpy.random.{node.attr}"] if isinstance(node, ast.Attribute) and named else []
