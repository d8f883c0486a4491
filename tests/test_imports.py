"""Who may import what: the walls of the house, room by room."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, get_type_hints

import msgspec
import pytest

from mpinodes.config import registry
from mpinodes.config.compose import compose

PACKAGE = Path(__file__).parent.parent / "mpinodes"
COMMANDS = {"run", "replay", "audit", "check", "report", "spent", "sweep", "compare", "doctor", "watch", "init", "tune"}


class Wall(NamedTuple):
    """What a room may import of mpinodes at the top of its modules, and what only where it is needed."""

    below: set[str]
    lazily: set[str] = set()


PARTS = {"algorithms", "mixing", "mechanisms", "losses", "streams", "topology", "metrics", "sets", "schedules"}

# Each room after all that it may import: the order of the floors.
WALLS = {
    "core": Wall(set()),
    "algorithms": Wall({"core"}, {"bounds"}),  # which holds the theorems of an algorithm's paper
    "mixing": Wall({"core"}),
    "mechanisms": Wall({"core"}),
    "losses": Wall({"core"}),
    "data": Wall({"core"}),
    "streams": Wall({"core", "data", "losses"}),
    "topology": Wall({"core"}),
    "metrics": Wall({"core"}),
    "sets": Wall({"core"}),
    "schedules": Wall({"core"}),
    "config": Wall({"core", "losses", "metrics", "topology"}, {"privacy"}),
    "launch": Wall({"core"}),
    "runlog": Wall({"core"}),
    "rounds": Wall({"core", "launch", "runlog"}, {"topology"}),
    "privacy": Wall({"core", "losses"}),
    "bounds": Wall({"core", "losses", "streams", "topology"}),
    "summary": Wall({"core", "metrics", "runlog"}),
    "evaluation": Wall({"core", "config", "data", "losses", "metrics", "privacy", "runlog", "summary"}),
    "presentation": Wall({"core", "config", "evaluation", "metrics", "runlog", "summary"}),
    "finished": Wall({"core", "config", "evaluation", "metrics", "presentation", "privacy", "runlog", "summary"}),
    "running": Wall(
        {
            "core",
            "bounds",
            "config",
            "data",
            "evaluation",
            "finished",
            "launch",
            "losses",
            "presentation",
            "privacy",
            "rounds",
            "runlog",
            "summary",
        },
    ),
    "studies": Wall(
        {
            "core",
            "config",
            "data",
            "evaluation",
            "finished",
            "launch",
            "metrics",
            "presentation",
            "privacy",
            "rounds",
            "runlog",
            "running",
            "summary",
        }
    ),
    "auditing": Wall(
        {
            "core",
            "config",
            "launch",
            "losses",
            "metrics",
            "presentation",
            "privacy",
            "rounds",
            "runlog",
            "running",
            "summary",
            "topology",
        },
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
    """At the top of their modules, rooms import only rooms on lower floors."""
    floors = list(WALLS)
    for room, (below, _) in WALLS.items():
        assert all(floors.index(other) < floors.index(room) for other in below), room


def test_modules_are_in_no_circle():
    """Of what modules import at their top: each can be put above all that it rests on."""
    paths = {path: ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts) for path in PACKAGE.rglob("*.py")}
    names = {name.removesuffix(".__init__"): path for path, name in paths.items()}
    rests: dict[str, set[str]] = {}
    for name, path in names.items():
        tree = ast.parse(path.read_text())
        imported = {i.name for i in imports(tree) if i.top}
        for node in tree.body:
            if isinstance(node, ast.ImportFrom):
                imported |= {f"{node.module}.{alias.name}" for alias in node.names}
        rests[name] = imported & names.keys() - {name}
    while rests:
        free = {name for name, below in rests.items() if not below & rests.keys()}
        assert free, f"a circle among {sorted(rests)}"
        rests = {name: below for name, below in rests.items() if name not in free}


def test_a_file_name_means_one_thing():
    """But for a part's: what a paper proves of an algorithm, or reads for a stream, goes by the part's name."""
    parts = {path.stem for room in PARTS for path in modules(room)}
    commands = {path.stem for path in PACKAGE.glob("*.py")}
    names = [path.stem for room in WALLS for path in modules(room) if path.stem not in parts]
    assert sorted({name for name in names if names.count(name) > 1 or name in commands} - {"__init__"}) == []


@pytest.mark.parametrize("room", sorted(set(WALLS) - PARTS))
def test_a_room_holds_at_most_twenty_files(room):
    folders = {path.parent for path in modules(room)}
    assert all(len(list(folder.glob("*.py"))) <= 20 for folder in folders)


# Names and settings of parts that mean something else too: a key, a statistic, a field of a message
COMMON = {
    *(
        "bound",
        "calibration",
        "columns",
        "dir",
        "facts",
        "file",
        "grid",
        "header",
        "initial",
        "labels",
        "mean",
        "modulus",
    ),
    *("none", "norm", "offset", "partition", "path", "penalty", "points", "rows", "sizes", "stop", "target"),
    *("facts", "tolerance", "total", "train", "validation"),
}
# Files that may name parts, and which words; None: any. No other file may, and no word may be added without a reason.
NAMED: dict[str, set[str] | None] = {
    "auditing/small_experiments.py": None,  # the experiments of audits and checks
    "config/presets.py": None,  # the experiments of papers
    "config/defaults.py": {"complete", "digits", "dola", "inverse-sqrt", "unit-ball"},  # the default experiment
    "core/experiment.py": {"laplace"},  # the default of privacy.mechanism
    "core/parts/algorithm.py": {"laplace", "uniform"},  # the mechanism unless stated; how decisions are averaged
    "core/parts/mechanism.py": {"laplace"},  # the one whose place is taken unless stated
    "core/seeds.py": {"laplace"},  # a distribution of NumPy's
    "data/fetch.py": {"mushrooms"},  # a file
    "data/libsvm.py": {"mushrooms"},  # a file
    "runlog/export.py": {"shuffle"},  # a filter of HDF5
}


def named_in_its_file(path: Path) -> bool:
    """Return whether a file is a part's own: of a room of parts, a paper's bounds, or what reads a data set."""
    stems = {part.stem for room in PARTS for part in modules(room)}
    return path.parent.name in PARTS or (path.parent.name in ("bounds", "data") and path.stem in stems)


def names_and_settings() -> tuple[set[str], set[str]]:
    """Return the names of all parts, and their settings that no contract has."""
    contracts = {name for kind in registry.KINDS for name in (*dir(kind.base), *get_type_hints(kind.base))}
    names = {name for kind in registry.KINDS for name in registry.names(kind)}
    parts = [(kind, registry.find(kind, name)) for kind in registry.KINDS for name in registry.names(kind)]
    settings = {key for kind, part in parts for key in registry.keys(kind, part)}
    return names - COMMON - contracts, settings - COMMON - contracts


def words_of(path: Path) -> Iterator[tuple[str, bool]]:
    """Yield every string but docstrings, every part that is imported, and every attribute; and whether it is a text."""
    tree = ast.parse(path.read_text())
    documented = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documented:
            yield node.value, True
        elif isinstance(node, ast.Attribute):
            yield node.attr, False
        elif isinstance(node, ast.ImportFrom) and room_of(node.module or "") in PARTS:
            yield (node.module or "").rpartition(".")[2].replace("_", "-"), True


def test_a_part_is_one_file():
    """No file but a part's own names a part or a setting of a part: what it must know, it asks by the contract."""
    names, settings = names_and_settings()
    found: dict[str, set[str]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        place = str(path.relative_to(PACKAGE))
        allowed = NAMED.get(place, set())
        if allowed is not None and not named_in_its_file(path):
            words = {word for word, is_text in words_of(path) if word in settings or (is_text and word in names)}
            if words - allowed:
                found[place] = words - allowed
    assert found == {}


FOREIGN = {
    "algorithms": {"numpy", "msgspec"},  # what a key means
    "mixing": {"numpy"},
    "sets": {"numpy", "scipy"},  # sparse rows, for the comparator alone
    "schedules": {"msgspec"},
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
rooms = (
    "config.compose", "config.defaults", "config.requirements", "metrics", "evaluation", "summary", "presentation",
    "privacy", "bounds",
)
print(sorted(name for name in sys.modules if name.startswith(tuple(f"mpinodes.{{room}}" for room in rooms))))
print(sorted(name for name in sys.modules if name.startswith(("mpinodes.sets.", "mpinodes.schedules."))))
"""
    code = "import sys, numpy, mpi4py.MPI\nbefore = set(sys.modules)" + code  # what any of them imports
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=PACKAGE.parent)
    own = ["mpinodes.schedules.strongly_convex", "mpinodes.sets.ball"]
    assert done.stdout.splitlines() == ["[]", "[]", repr(own)]


def test_what_runs_in_one_process_starts_without_what_draws():
    code = "import sys, mpinodes.running.job; print({'matplotlib', 'jinja2', 'xarray'} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=PACKAGE.parent)
    assert done.stdout == "set()\n"
