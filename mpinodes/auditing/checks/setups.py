"""Small experiments that an algorithm has little to hide behind: on which its statements are nearly reached."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

from mpinodes.auditing.small_experiments import solved, streamed, whole_data
from mpinodes.config import registry
from mpinodes.core.experiment import Tree, merge

FEW = 5


def experiments(algorithm: Any, path: str, folder: Path, seed: int) -> Iterator[tuple[str, Tree]]:
    """What to run an algorithm of a file on, each with a name for people; not all of them will fit it."""
    always: Tree = {
        "report": False, "record": {"transcript": True}, "seed": seed, "repeats": 1, "name": "check",
        "algorithm": {"path": path}, "privacy": {"mechanism": algorithm.mechanism, "delta": 1e-3},
        "noise": {"key": "check"},  # whatever the folder that files are in
    }  # fmt: skip
    always = merge(always, {"algorithm": brief(algorithm)})
    if algorithm.solves:
        bases = list(solved(folder, seed))
    elif algorithm.whole_data:
        bases = list(whole_data(algorithm, folder, seed))
    else:
        bases = list(streamed(algorithm, folder, seed))
    for what, tree in bases:
        yield what, merge(always, tree)
    first = merge(always, bases[0][1])
    again = merge(always, bases[min(3, len(bases) - 1)][1])
    for key, value in variants(algorithm):
        yield f"{key}={value}", merge(first, {"algorithm": {key: value}})
        if isinstance(value, (str, bool)):
            yield f"{key}={value}, {bases[min(3, len(bases) - 1)][0]}", merge(again, {"algorithm": {key: value}})
    for mixing in algorithm.mixings[1:]:
        name = mixing if isinstance(mixing, str) else mixing.__name__
        yield f"mixing={name}", merge(first, {"algorithm": {"mixing": name}})
    if algorithm.bears_loss:
        yield "messages lost", merge(first, {"faults": {"loss": 0.3, "churn": 0.2, "absence": 2}})
    if algorithm.bears_delay:
        yield "messages late", merge(first, {"faults": {"delay": 2, "stragglers": 0.3, "lag": 2}})


def brief(algorithm: Any) -> Tree:
    """Hyper-parameters that count, of rounds as a rule, small enough for short runs."""
    known = registry.settings(registry.ALGORITHMS, algorithm)
    counts = {f.name: f.default for f in fields(algorithm) if f.name in known and type(f.default) is int}
    return {name: FEW for name, default in counts.items() if default > 2 * FEW}


def variants(algorithm: Any) -> Iterator[tuple[str, Any]]:
    """Other values of hyper-parameters, one at a time."""
    defaults = {f.name: f.default for f in fields(algorithm)} | brief(algorithm)
    for key, kind in registry.settings(registry.ALGORITHMS, algorithm).items():
        while get_origin(kind) is Annotated:
            kind = get_args(kind)[0]
        default = defaults[key]
        choices: list[Any] = []
        if get_origin(kind) is Literal:
            choices = [choice for choice in get_args(kind) if choice != default]
        elif kind is bool:
            choices = [not default]
        elif isinstance(default, (int, float)) and not isinstance(default, bool):
            choices = [default + 1, default // 2] if isinstance(default, int) else [default * 2, default / 2]
            choices = choices if default else [1, 3] if isinstance(default, int) else [0.1, 1.0]
        yield from ((key, choice) for choice in choices)
