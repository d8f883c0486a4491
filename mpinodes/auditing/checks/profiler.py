"""What a method calls while it runs: randomness, clocks, files and the like, seen by the interpreter's own profiler."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import CellType, FrameType, FunctionType, ModuleType
from typing import Any

import numpy as np

from mpinodes.auditing.checks.failures import Fault
from mpinodes.auditing.checks.walks import Call, TriedRun, Walk
from mpinodes.core import Setup

HOUSE = str(Path(__file__).parents[2])
RANDOM = ("random", "numpy.random", "secrets", "uuid", "_random")
CLOCK = ("time", "datetime", "_datetime")
OUTSIDE = (
    "os", "posix", "nt", "io", "_io", "pathlib", "shutil", "tempfile", "socket", "_socket", "subprocess", "threading",
    "_thread", "multiprocessing", "mmap", "shelve", "dbm", "sqlite3", "pickle", "_pickle", "gc", "inspect", "ctypes",
    "_ctypes", "sys", "signal", "asyncio", "queue", "contextvars", "logging", "mpi4py",
)  # fmt: skip
BY_NAME = {"os.urandom": "own random draw", "builtins.id": "own random draw"}
BUILTINS = {"open", "id", "exec", "eval", "compile", "__import__", "globals", "input", "print"}
HARMLESS = {"sys.intern", "sys.getsizeof", "os.fspath"}
WORDS = {
    "own random draw": "the mechanism is the only randomness there is: leave noise to it, and state a sensitivity",
    "a clock is read": "rounds are the only time there is: here.t",
    "the world outside is touched": "files, environment, threads and the interpreter's own books are not an agent's",
}


def watch(run: TriedRun) -> Iterator[Fault]:
    """The calls of all methods of an algorithm and its mixing, in every round of every agent."""
    setup = run.fresh()
    yield from holds_chance(setup)
    for i in run.agents:
        walk = Walk(setup, run.frames, i)
        calls = list(walk.calls(len(run.frames)))
        for call in calls:
            seen = _seen(setup, walk, call)
            for name, what, method in seen:
                yield Fault(name, f"{run.what}: agent {i}, round {call.here.t}: {method}() calls {what}", WORDS[name])
            if seen:
                return


def _seen(setup: Setup, walk: Walk, call: Call) -> list[tuple[str, str, str]]:
    state, inbox, loss = copy.deepcopy((call.state, call.inbox, call.loss))
    algorithm, mixing = setup.algorithm, setup.mixing
    s = mixing.init(call.here.agent)
    incoming = walk.arrivals(call.here).scalars
    methods: list[tuple[str, Callable[[], Any]]] = [
        ("decision", lambda: algorithm.decision(state)),
        ("message", lambda: algorithm.message(state, call.here)),
        ("update", lambda: algorithm.update(state, call.here, inbox, loss)),
        ("outgoing", lambda: mixing.outgoing(s, call.here)),
        ("weights", lambda: mixing.weights(s, call.here, incoming)),
    ]
    return [(name, what, method) for method, work in methods for name, what in sorted(set(_calls(work)))]


def _calls(work: Callable[[], Any]) -> list[tuple[str, str]]:
    """(fault, what was called) of a piece of work."""
    found: list[tuple[str, str]] = []

    def profile(frame: FrameType, event: str, argument: Any) -> None:
        if event == "c_call":
            caller, name = frame, _name(argument)
        elif event == "call" and frame.f_back is not None:
            caller, name = frame.f_back, f"{frame.f_globals.get('__name__', '')}.{frame.f_code.co_name}"
        else:
            return
        if caller.f_code.co_filename.startswith(HOUSE) and not _is_part(caller):
            return
        fault = _judged(name, caller)
        if fault:
            found.append((fault, name))

    before, chance = sys.getprofile(), np.random
    np.random = Chance(chance, found)  # type: ignore[assignment]
    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(before)
        np.random = chance
    return found


class Chance:
    """`numpy.random`, whose functions the profiler does not see; says who asks for them."""

    def __init__(self, module: Any, found: list[tuple[str, str]]) -> None:
        self.__module, self.__found = module, found

    def __getattr__(self, name: str) -> Any:
        """What the module has."""
        if _is_part(sys._getframe(1)):
            self.__found.append(("own random draw", f"numpy.random.{name}"))
        return getattr(self.__module, name)


def holds_chance(setup: Setup) -> Iterator[Fault]:
    """Generators and functions of chance that a file holds under a name of its own."""
    for part in (setup.algorithm, setup.mixing):
        module = sys.modules.get(type(part).__module__)
        if module is None or not module.__name__.startswith("mpinodes_user_"):
            continue
        held = {**vars(module), **{k: v for kind in type(part).__mro__ for k, v in vars(kind).items()}}
        for name, value in held.items():
            if not name.startswith("__") and _of_chance(value, 3):
                yield Fault(
                    "own random draw", f"{Path(str(module.__file__)).name}: {name} is of {_home(value) or 'chance'}",
                    WORDS["own random draw"],
                )  # fmt: skip


def _of_chance(value: Any, depth: int) -> bool:
    if _within(_home(value), RANDOM):
        return True
    if depth == 0:
        return False
    inner: list[Any] = []
    if isinstance(value, FunctionType):
        cells = [cell.cell_contents for cell in value.__closure__ or () if cell != CellType()]
        inner = [*cells, *(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()]
    elif isinstance(value, (list, tuple, set, frozenset)):
        inner = list(value)
    elif isinstance(value, dict):
        inner = list(value.values())
    elif isinstance(value, partial):
        inner = [value.func, *value.args]
    return any(_of_chance(each, depth - 1) for each in inner)


def _home(value: Any) -> str:
    """The module that a value is of."""
    if isinstance(value, ModuleType):
        return value.__name__
    owner = getattr(value, "__self__", None)
    if owner is not None and not isinstance(owner, ModuleType):
        return _home(owner)
    home = getattr(value, "__module__", None)
    return str(home if isinstance(home, str) and home else type(value).__module__)


def _is_part(frame: FrameType) -> bool:
    """Whether a frame of ours is of the part that is checked, which was loaded from its path."""
    return str(frame.f_globals.get("__name__", "")).startswith("mpinodes_user_")


def _name(called: Any) -> str:
    owner = getattr(called, "__self__", None)
    module = getattr(called, "__module__", None)
    if owner is not None and not isinstance(owner, type) and type(owner).__module__ != "builtins":
        module = type(owner).__module__
    if isinstance(owner, type):
        module = owner.__module__
    return f"{module or 'builtins'}.{getattr(called, '__name__', called)}"


def _judged(name: str, caller: FrameType) -> str:
    """The fault that a call is; empty: none."""
    module = name.rpartition(".")[0]
    if name in BY_NAME and (name != "builtins.id" or _is_part(caller)):
        return BY_NAME[name]
    if _within(module, RANDOM) or name.endswith(".rvs"):
        return "own random draw"
    if not _is_part(caller) and not _within(str(caller.f_globals.get("__name__")), OUTSIDE + CLOCK):
        return ""
    if _within(module, CLOCK):
        return "a clock is read"
    if name in HARMLESS:
        return ""
    if _within(module, OUTSIDE) or (module == "builtins" and name.rpartition(".")[2] in BUILTINS):
        return "the world outside is touched"
    return ""


def _within(module: str, modules: tuple[str, ...]) -> bool:
    return any(module == m or module.startswith(f"{m}.") for m in modules)
