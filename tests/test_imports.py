"""Who may import what: the walls of the house, room by room."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from mpinodes.config.compose import compose

PACKAGE = Path(__file__).parent.parent / "mpinodes"
COMMANDS = {"run", "replay", "audit", "check", "report", "spent", "sweep", "compare", "doctor", "watch"}


class Wall(NamedTuple):
    """What a room may import of mpinodes at the top of its modules, and what only where it is needed."""

    below: set[str]
    lazily: set[str] = set()


WALLS = {
    "core": Wall(set()),
    "algorithms": Wall({"core"}, {"bounds"}),
    "mixing": Wall({"core"}),
    "mechanisms": Wall({"core"}),
    "losses": Wall({"core"}),
    "formats": Wall({"core"}),
    "streams": Wall({"core", "formats", "losses"}),
    "topology": Wall({"core"}),
    "metrics": Wall({"core"}),
    "bounds": Wall({"core", "losses", "streams", "topology"}),
    "privacy": Wall({"core", "losses"}),
    "config": Wall({"core", "losses", "metrics", "topology"}, {"privacy"}),
    "simulation": Wall({"core", "topology", "config", "privacy", "bounds", "results"}, {"formats"}),
    "results": Wall({"core", "formats", "losses", "metrics", "config", "privacy", "bounds", ""}),
    "studies": Wall({"core", "config", "results", "simulation"}),
    "auditing": Wall(
        {"", "core", "algorithms", "losses", "config", "privacy", "simulation", "results", "topology"}, {"metrics"}
    ),
}


class Import(NamedTuple):
    """One import of a module: at its top, or where it is needed; `name` is dotted."""

    name: str
    top: bool


def imports(node: ast.AST, top: bool = True) -> Iterator[Import]:
    """All imports but those for the type checker alone."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            continue
        if isinstance(child, ast.Import):
            yield from (Import(alias.name, top) for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            module = child.module or ""
            found = [f"{module}.{alias.name}" for alias in child.names] if module == "mpinodes" else [module]
            yield from (Import(name, top) for name in found)
        else:
            yield from imports(child, top and not isinstance(child, ast.FunctionDef))


def modules(room: str) -> list[Path]:
    return sorted((PACKAGE / room).rglob("*.py"))


def room_of(name: str) -> str | None:
    """The room of mpinodes that a dotted name lies in; "": its top, None: it is not ours."""
    first, *rest = name.split(".")
    if first != "mpinodes":
        return None
    return rest[0] if rest and (rest[0] in WALLS or rest[0] in COMMANDS) else ""


def outside(room: str, *, top_only: bool = False) -> set[tuple[str, bool]]:
    """The other rooms that a room's modules import, and whether at the top."""
    found = {(room_of(i.name), i.top) for path in modules(room) for i in imports(ast.parse(path.read_text()))}
    return {(other, top) for other, top in found if other not in (None, room) and (top or not top_only)}


def test_every_room_has_walls():
    rooms = {p.name for p in PACKAGE.iterdir() if p.is_dir() and (p / "__init__.py").exists()}
    assert rooms == set(WALLS)


def test_only_the_commands_stand_at_the_top():
    assert {p.stem for p in PACKAGE.glob("*.py")} == COMMANDS | {"__init__", "__main__"}


@pytest.mark.parametrize("room", WALLS)
def test_a_room_imports_only_what_its_walls_let_through(room):
    below, lazily = WALLS[room]
    for other, top in outside(room):
        assert other in below or (not top and other in lazily), f"{room} imports {other or 'mpinodes'}"


@pytest.mark.parametrize("room", WALLS)
def test_nothing_but_commands_imports_commands(room):
    assert not COMMANDS & {other for other, _ in outside(room)}


def test_rooms_are_in_no_circle():
    """Of what they import at the top: each can be put above all that it rests on."""
    rests = {room: {other for other, _ in outside(room, top_only=True) if other} for room in WALLS}
    while rests:
        free = {room for room, below in rests.items() if not below & rests.keys()}
        assert free, f"a circle among {sorted(rests)}"
        rests = {room: below for room, below in rests.items() if room not in free}


FOREIGN = {
    "algorithms": {"numpy", "msgspec"},  # what a key means
    "mixing": {"numpy"},
}


@pytest.mark.parametrize("path", [p for room in FOREIGN for p in modules(room)], ids=lambda p: p.stem)
def test_algorithms_and_mixings_have_no_handle_to_anything_else(path):
    """Nor to files, processes or the network: of Python's own library what is for numbers and types alone."""
    plain = {"__future__", "abc", "collections", "dataclasses", "functools", "itertools", "math", "typing"}
    for name, _ in imports(ast.parse(path.read_text())):
        first = name.split(".")[0]
        assert first == "mpinodes" or first in FOREIGN[path.parent.name] | plain, f"{path.name} imports {name}"


def test_an_agent_starts_without_what_only_the_logger_needs():
    """What an agent of the main job imports, with all its parts built."""
    told = msgspec.msgpack.encode(compose({}, ranks=8).experiment)
    code = f"""
import sys
import msgspec
import mpinodes.rounds.network, mpinodes.running.job, mpinodes.run
from mpinodes.config.building import build
from mpinodes.core.experiment import Experiment
from mpinodes.rounds.step import Step
Step(build(msgspec.msgpack.decode({told!r}, type=Experiment)), 0)
heavy = {{"scipy", "networkx", "matplotlib", "h5py", "xarray", "pandas", "sklearn", "tqdm"}}
slow = {{"argparse", "tomllib", "tomli_w", "difflib", "ast", "importlib.metadata", "inspect"}} - before
print(sorted(heavy & {{name.split(".")[0] for name in sys.modules}} | slow & sys.modules.keys()))
rooms = ("config.compose", "config.defaults", "config.requirements", "metrics", "results", "privacy", "bounds")
print(sorted(name for name in sys.modules if name.startswith(tuple(f"mpinodes.{{room}}" for room in rooms))))
"""
    code = "import sys, numpy, mpi4py.MPI\nbefore = set(sys.modules)" + code  # what any of them imports
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=PACKAGE.parent)
    assert done.stdout.split() == ["[]", "[]"]


def test_what_runs_in_one_process_starts_without_what_draws():
    code = "import sys, mpinodes.running.alone; print({'matplotlib', 'jinja2', 'xarray'} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=PACKAGE.parent)
    assert done.stdout == "set()\n"
