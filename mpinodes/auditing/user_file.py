"""Test one part of any kind (an algorithm, a stream, a loss, ...): choose and run the tests for this kind."""

from __future__ import annotations

import ast
import inspect
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from mpinodes.auditing.checks import algorithms, data, graphs, mechanisms, sets_and_steps
from mpinodes.auditing.checks.failures import Fault, Report
from mpinodes.config import registry

CHANCE = {"random", "secrets", "uuid"}
OUTSIDE = {
    "asyncio", "ctypes", "datetime", "gc", "inspect", "io", "logging", "mmap", "mpi4py", "multiprocessing", "os",
    "pathlib", "pickle", "queue", "shelve", "shutil", "signal", "socket", "sqlite3", "subprocess", "sys", "tempfile",
    "threading", "time",
}  # fmt: skip
BUILTINS = {f"builtins.{name}" for name in ("open", "exec", "eval", "compile", "__import__", "input", "globals")}
OPENING = ("streams", "topology")  # parts of these kinds may read files and draw random numbers from a seed

TESTS: dict[str, Callable[[Any, str, Path, int, Report], None]] = {
    "algorithms": algorithms.check_algorithm,
    "streams": data.check_stream,
    "losses": data.check_loss,
    "mechanisms": mechanisms.check_mechanism,
    "mixing": graphs.check_mixing,
    "topology": graphs.check_topology,
    "metrics": mechanisms.check_metric,
    "sets": sets_and_steps.check_set,
    "schedules": sets_and_steps.check_schedule,
}


def check(kind: registry.PartKind, part: Any, seed: int) -> Report:
    """Run all tests of a part (an algorithm, a loss function, ...), and return a report.

    Args:
        kind: the kind of the part.
        part: the class of the part.
        seed: the seed of the test data.

    Raises:
        BadInput: the part cannot be checked, for example because no experiment with a stream can be run.
    """
    path = inspect.getsourcefile(part) or ""
    report = Report(f"{kind.section}: {part.__name__} of {Path(path).name}")
    with tempfile.TemporaryDirectory() as folder, threadpool_limits(1), np.errstate(all="ignore"):
        report.take("imports", forbidden_names(Path(path), kind.package))
        parameters = getattr(part, "__dataclass_params__", None)
        if kind is not registry.METRICS and not (parameters and parameters.frozen):
            where, right = f"{part.__name__} is not frozen", "put @dataclass(frozen=True) before it"
            report.add(Fault("a part whose attributes can be changed", where, right))
        with report.exceptions(path):
            TESTS[kind.package](part, path, Path(folder), seed, report)
    return report


def forbidden_names(path: Path, package: str) -> Iterator[Fault]:
    """Yield a fault for each name in a part's file that a part must not use: randomness, clocks, files and the like.

    Streams and topologies may use all names. Only the part's file is read, not the files that it imports. Other tests,
    which compare two calls, processes or agents, may find the effects of forbidden names in imported files.

    Args:
        path: the file.
        package: the package of the part's kind, such as "algorithms" for an algorithm.
    """
    for node in ast.walk(ast.parse(path.read_bytes())) if package not in OPENING else ():
        for word in _names(node):
            where, first = f"{path.name}, line {getattr(node, 'lineno', 0)}: {word}", word.split(".")[0]
            is_drawn = word.startswith("numpy.random") and word.rpartition(".")[2].islower()  # a type is capitalized
            if first in CHANCE or is_drawn or word == "builtins.id":
                right = "only a mechanism may be random, by its argument `noise`; in other parts, leave noise to it"
                yield Fault("own random draw", where, right)
            elif first in OUTSIDE or word in BUILTINS:
                right = "an agent must not use files, clocks, the environment, threads or the interpreter's state"
                yield Fault("a forbidden name", where, right)


def _names(node: ast.AST) -> list[str]:
    """Return the dotted names that a node of the syntax tree imports, calls or takes from numpy.random.

    A name that is called without a dot gets the prefix "builtins.", even if it is not a built-in function.
    """
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        return [f"{node.module}.{alias.name}" for alias in node.names]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return [f"builtins.{node.func.id}"]
    named = isinstance(node, ast.Attribute) and ast.unparse(node.value) in ("np.random", "numpy.random")
    return [f"numpy.random.{node.attr}"] if isinstance(node, ast.Attribute) and named else []
