"""Every command and every file that README.md and docs/ show, page by page, in the order in which they stand there.

Commands run in this process, all agents in lockstep, and shortened; what cannot be run so is named in `ELSEWHERE`, with
where it is run.
"""

from __future__ import annotations

import contextlib
import json
import re
import shlex
import signal
from importlib import import_module
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import pytest

from mpinodes.__main__ import commands
from mpinodes.config.compose import compose
from mpinodes.core.asked import asked_for
from mpinodes.studies import pools
from tests.helpers.running import CHECKOUT

PAGES = [CHECKOUT / "README.md", CHECKOUT / "CONTRIBUTING.md", *sorted((CHECKOUT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^```(\w+)\n(?:# ([\w.-]+\.(?:py|toml|csv))\n)?(.*?)^```$", re.DOTALL | re.MULTILINE)
ELSEWHERE = {  # a command's first words: what runs it
    "python3 -m venv": ".ci/run",
    "pip install": ".ci/run",
    ".venv/bin/pip install": ".ci/run",
    "python -m pytest": ".ci/run",
    "python -m sphinx": ".ci/run",
    "ruff check": ".ci/run",
    "sbatch": "tests/cluster",
    "scripts/cluster/hosts.sh": "tests/cluster",
    "podman": "tests/cluster",
}
SHORT = {
    "run": ["rounds=4", "report=false"],
    "sweep": [
        "rounds=5",
        "study.seeds=2",
        "algorithm.name=dola,dpps",
        "privacy.budget.epsilon=1,4",
        "topology.name=ring",
    ],
}
COVERED = {name: f"tests/cli/test_{name}.py" for name in ("audit", "check", "doctor")}
BY_PROCESSES = {"--mpi", "--slurm"}  # tests/studies/test_sweep.py
ONCE = {"compare"}  # draws pictures for seconds
_done: set[str] = set()


@pytest.fixture(autouse=True)
def _cheap(tmp_path, monkeypatch):
    """An empty directory, and one process for a study's runs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(pools, "processes", lambda _: contextlib.nullcontext(pools.one_by_one))
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)
    plt.close("all")


def words_of(line: str) -> tuple[int | None, list[str]]:
    """The ranks that mpirun is given, and the command's words."""
    words = shlex.split(line, comments=True)
    return (int(words[2]), words[3:]) if words[:2] == ["mpirun", "-n"] else (None, words)


def run(line: str) -> None:
    """One line of a shell fence."""
    ranks, (program, *words) = words_of(line)
    if program != "mpinodes":
        assert line.startswith(tuple(ELSEWHERE)), f"nothing runs this: {line}"
        return
    name, *words = words
    assert name in commands()
    if name in COVERED or {*words} & BY_PROCESSES or (name in ONCE & _done and "--width" not in words):
        return
    _done.add(name)
    if name == "run" and not {"--list", "--explain"} & {*words}:
        words = shortened(words, ranks)
    code = import_module(f"mpinodes.{name}").main([*words, *SHORT.get(name, [])])
    assert code == 0, line


def shortened(words: list[str], ranks: int | None) -> list[str]:
    """A run's words, once they were composed as they are shown."""
    plain = [word for word in words if not word.startswith("--")]
    if "data.name=adult" in plain:  # its files are not ours to give away
        plain = words = ["data.name=unit-ball" if word == "data.name=adult" else word for word in words]
    compose(asked_for(plain), ranks)
    if "--dry-run" in words:
        return words
    agents = [f"topology.agents={ranks - 1}"] if ranks not in (None, 8) else []  # seven are the default
    fewer = {"repeats": 2, "algorithm.gradient_rounds": 2}
    shown = {word.partition("=")[0] for word in plain}
    return [*words, *agents, *(f"{key}={count}" for key, count in fewer.items() if key in shown), "--lockstep"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(CHECKOUT)))
def test_what_a_page_shows_runs(page, capsys):
    fences = [match.groups() for match in FENCE.finditer(page.read_text("utf-8"))]
    space: dict[str, Any] = {}
    for _, file, text in fences:
        if file:
            Path(file).write_text(text)
    for kind, file, text in fences:
        if kind == "sh":
            for line in text.splitlines():
                run(line)
        elif kind == "python" and not file:
            exec(compile(text, str(page), "exec"), space)


@pytest.mark.parametrize("notebook", sorted((CHECKOUT / "examples").glob("*.ipynb")), ids=lambda path: path.stem)
def test_a_notebook_runs_from_top_to_bottom(notebook, capsys):
    """As its cells' code, without a kernel."""
    cells = json.loads(notebook.read_text("utf-8"))["cells"]
    space: dict[str, Any] = {}
    for cell in cells:
        if cell["cell_type"] == "code":
            assert (cell["outputs"], cell["execution_count"]) == ([], None), "kept without what it printed"
            exec(compile("".join(cell["source"]), str(notebook), "exec"), space)
    assert space["private"].summary["privacy"]["network"]["proven"] <= 1
