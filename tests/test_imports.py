"""Who may import what: the walls of the house."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "mpinodes"
ALLOWED = {
    "algorithms": {
        "mpinodes.core", "mpinodes.algorithms", "numpy",
        "msgspec",  # what a key means
    },
    "mixing": {"mpinodes.core.protocol", "numpy"},
}  # fmt: skip


def imported(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module or "")
    return {name for name in found if name.split(".")[0] not in sys.stdlib_module_names}


@pytest.mark.parametrize("path", [p for kind in ALLOWED for p in sorted((PACKAGE / kind).glob("*.py"))], ids=str)
def test_algorithms_and_mixings_have_no_handle_to_anything_else(path):
    allowed = ALLOWED[path.parent.name]
    for name in imported(path):
        assert any(name == a or name.startswith(f"{a}.") for a in allowed), f"{path.name} imports {name}"


def test_an_agent_starts_without_the_loggers_libraries():
    """What an agent of the main job imports, with all its parts built."""
    code = """
import sys
from mpinodes.config.resolve import resolve
from mpinodes.config.compose import build
from mpinodes.simulation.agent import Agent
import mpinodes.simulation.network, mpinodes.run
Agent(0, build(resolve({}, ranks=8)))
heavy = {"scipy", "networkx", "matplotlib", "h5py", "xarray", "pandas", "sklearn", "tqdm"}
print(sorted(heavy & {name.split(".")[0] for name in sys.modules}))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=PACKAGE.parent)
    assert done.stdout.strip() == "[]"
