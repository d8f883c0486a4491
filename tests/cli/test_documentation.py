"""Every command and every file that README.md and docs/ show, page by page, in the order in which they stand there.

Commands run in this process, all agents in lockstep, and shortened; what cannot be run so is named in `ELSEWHERE`, with
where it is run. Kinds of blocks that are not run are in `NOT_RUN`, with the reason.
"""

from __future__ import annotations

import contextlib
import functools
import io
import json
import re
import shlex
import signal
from importlib import import_module
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import pytest

import mpinodes
from mpinodes.__main__ import commands
from mpinodes.config.compose import compose
from mpinodes.core.asked import asked_for, parse
from mpinodes.studies import pools
from mpinodes.studies.study import Study
from tests.helpers.records import summary_of
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
NOT_RUN = {  # kinds of blocks
    "text": "equations, values, and trees of directories",
    "latex": "tests have no LaTeX; test_compare.py parses the table that the block includes",
    "{": "Sphinx runs its own blocks, as an error (-W), in .ci/run",
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
    how = name + " --width" * ("--width" in words)
    if name in COVERED or {*words} & BY_PROCESSES or (name in ONCE and how in _done):
        return
    _done.add(how)
    if name == "run" and not {"--list", "--explain"} & {*words}:
        words = shortened(words, ranks)
    short = ["study.seeds=1", "rounds=5"] if words[:1] == ["methods.toml"] else SHORT.get(name, [])
    code = import_module(f"mpinodes.{name}").main([*words, *short])
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
    own = FENCE.findall((CHECKOUT / "docs" / "own" / "algorithm.md").read_text("utf-8"))
    for _, file, text in [*own, *fences]:
        if file:
            Path(file).write_text(text)
    for kind, file, text in fences:
        if kind == "sh":
            for line in text.splitlines():
                run(line)
        elif kind == "python" and not file:
            exec(compile(text, str(page), "exec"), space)
        elif kind == "toml" and not file:
            Path("study.toml").write_text(text)
            assert Study.of(["study.toml"]).points()
    if page.name == "README.md":  # the first examples end well
        assert space["result"].summary["warnings"] == {}
    if page.name == "tutorial.md":
        place = mpinodes.run_lockstep(parse("experiment.toml", ["topology.agents=8", "report=false"]))
        assert (summary := summary_of(place))["warnings"] == {}
        assert f"{summary['accuracy']['test']:.1%}".replace("%", " %") in page.read_text("utf-8")


def test_no_block_is_left_out():
    """Each block is of a kind that is run, or in `NOT_RUN`; each file is used; where else a command runs, exists."""
    folders = ("", "docs/", "examples/", "scripts/", "topologies/")
    pages = {page for folder in folders for page in CHECKOUT.glob(f"{folder}*.md")} | {*CHECKOUT.glob("docs/*/*.md")}
    for page in pages | {*CHECKOUT.glob("scripts/*/*.md")}:
        text = page.read_text("utf-8")
        starts = re.findall(r"^[ \t]*```(\S.*)$", text, re.MULTILINE)
        assert page in PAGES or not starts, page
        fences = [match.groups() for match in FENCE.finditer(text)]
        assert len(fences) == len([kind for kind in starts if not kind.startswith("{")]), page
        for kind, file, content in fences:
            assert kind in ("sh", "python", "toml", *NOT_RUN), page
            if kind in NOT_RUN:
                assert not re.search(r"^(mpinodes|mpirun|python|pip|>>>|import) ", content, re.MULTILINE), page
            if file and page.parent.name != "own":  # test_own_parts_of_the_documentation.py runs those of docs/own
                assert any(file in other for _, of, other in fences if of != file), (page, file)
        for name, words in re.findall(r"`(?:mpirun -n \w+ |python -m )?mpinodes[ .]([a-z]+)\b( [^`]*)?`", text):
            assert name in commands() or hasattr(mpinodes, name), (page, name)
            for option in re.findall(r"--[a-z-]+", words):
                assert option in helps(name) or option == "--help", (page, name, option)
    assert all((CHECKOUT / place).exists() for place in (*ELSEWHERE.values(), *COVERED.values()))


@functools.cache
def helps(name: str) -> str:
    """Return what `mpinodes NAME --help` prints."""
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.suppress(SystemExit):
        import_module(f"mpinodes.{name}").main(["--help"])
    return out.getvalue()


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
