"""Classes of a notebook, without IPython: cells are run in a module without a file, as IPython runs them."""

from __future__ import annotations

import importlib
import linecache
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas
import pytest

import mpinodes
from mpinodes.algorithms.dola import DOLA
from mpinodes.core.errors import BadInput
from mpinodes.core.messages import Diverged
from mpinodes.studies.study import Study
from tests.helpers.running import command

IMPORTS = """
import numpy as np
from dataclasses import dataclass
from math import sqrt as root
from typing import NamedTuple
from mpinodes.algorithms.dola import DOLA
from mpinodes.core import Metric, Vector
from mpinodes.losses.logistic import Logistic
from mpinodes.sets.ball import Ball
from mpinodes.streams.unit_ball import UnitBall
HALF, NAMES, table = root(0.25), ("a", "b"), 3
"""
CLASSES = '''
def shrink(x: Vector) -> Vector:
    return np.multiply(HALF, x)

@dataclass(frozen=True)
class Base(DOLA):
    factor: float = 1.0

class State(NamedTuple):
    x: Vector
    made_with: float

@dataclass(frozen=True)
class Mine(Base):
    """DOLA with smaller steps."""

    def update(self, s, here, inbox, loss):
        table = super().update(s, here, inbox, loss)
        return State(self.factor * shrink(table.x), table.made_with)
'''
PARTS = '''
@dataclass(frozen=True, slots=True)
class MyLoss(Logistic):
    """The logistic loss."""

@dataclass(frozen=True)
class MySet(Ball):
    """A ball."""

@dataclass(frozen=True)
class MyData(UnitBall):
    """Points of a ball."""

class Largest(Metric):
    name, dims, label = "largest", ("round",), "largest coordinate"

    def take(self, stretch):
        return abs(stretch.decisions).max(axis=(1, 2))
'''
SMALL = {"topology.agents": 2, "rounds": 5, "data.dimension": 3, "data.total": 40, "comparator": False}
Cell = Callable[[str], dict[str, Any]]


@pytest.fixture
def cell(tmp_path, monkeypatch) -> Iterator[Cell]:
    """Return a function that runs a cell, and returns the names of the notebook."""
    monkeypatch.chdir(tmp_path)
    notebook = ModuleType("notebook")
    monkeypatch.setitem(sys.modules, "notebook", notebook)
    names = set()

    def run(source: str) -> dict[str, Any]:
        name = f"/tmp/ipykernel_1/{hash(source)}.py"  # a cell that is run again keeps its place in the cache
        names.add(name)
        linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
        exec(compile(source, name, "exec", dont_inherit=True), vars(notebook))
        return vars(notebook)

    yield run
    for name in names:
        linecache.cache.pop(name)


def test_a_class_of_a_notebook_is_an_algorithm_whose_file_repeats_the_run(cell):
    cell(IMPORTS)
    for factor in ("1.0", "2.0", "1.0"):
        names = cell(CLASSES.replace("1.0", factor))
    first = mpinodes.simulate(SMALL, {"algorithm.factor": 0.5}, algorithm={"name": names["Mine"]})
    again = mpinodes.simulate(first.directory / "experiment.toml")
    np.testing.assert_array_equal(first.record.loss, again.record.loss)
    assert first.summary["algorithm"].endswith("/Mine.py")
    (copy,) = (first.directory / "sources").iterdir()
    assert "HALF, NAMES, table = root(0.25)" in copy.read_text()
    assert "factor: float = 1.0" in copy.read_text()
    path = Study.of([{"algorithm": names["Mine"]}, "seed=0,1"]).tree["algorithm"]["path"]
    assert Path(path).read_text() == copy.read_text()
    cases = [{"name": "mine", "algorithm": names["Mine"]}, {"name": "other", "algorithm.name": "dola"}]
    assert Study.of([{"study": {"cases": cases}}]).points()[0].asked["algorithm"]["path"] == path
    with pytest.raises(BadInput, match=r"unsupported; put a class of a study into study\.cases"):
        Study.of([{"study": {"grid": {"algorithm.name": [names["Mine"]]}}}])
    cell("HALF = 0.25")
    changed = mpinodes.simulate(SMALL, algorithm=names["Mine"])
    assert (changed.record.loss != first.record.loss).any()
    assert len(list(Path("runs/classes").iterdir())) == 2


def test_classes_take_the_place_of_the_names_of_other_parts(cell):
    cell(IMPORTS)
    names = cell(PARTS)
    run = mpinodes.simulate(
        SMALL,
        algorithm=DOLA,
        data=names["MyData"],
        problem={"loss": names["MyLoss"], "set": names["MySet"]},
        record={"metrics": [names["Largest"], "disagreement"]},
    )
    assert {"largest", "disagreement"} <= set(run.record)
    sources = {path.name for path in (run.directory / "sources").iterdir()}
    assert sources == {
        "data-path-MyData.py", "problem-path-MyLoss.py", "problem-set_path-MySet.py", "record-metrics-Largest.py"
    }  # fmt: skip


def test_a_class_of_a_script_is_an_algorithm(tmp_path, monkeypatch):
    """Unlike cells of a notebook, the text of the class also has the imports, which change how Python compiles it."""
    monkeypatch.chdir(tmp_path)
    run = f"import mpinodes\nprint(mpinodes.simulate({SMALL}, algorithm=Mine).summary['algorithm'])\n"
    Path("script.py").write_text(f"{IMPORTS}{CLASSES}{run}")
    done = command([sys.executable, "script.py"], tmp_path)
    assert (done.code, done.out.strip().endswith("/Mine.py")) == (0, True), done.err


def test_a_class_that_cannot_be_written_is_refused_in_a_line(cell):
    cell(IMPORTS)
    names = cell(CLASSES)
    names["HALF"] = pandas.DataFrame()
    with pytest.raises(BadInput, match=r"HALF: no single statement of a cell defines the present value"):
        mpinodes.simulate(SMALL, algorithm=names["Mine"])
    names["Unknown"] = type("Unknown", (DOLA,), {"__module__": "notebook"})
    with pytest.raises(BadInput, match=r"Unknown: no single statement .* of this name: put"):
        mpinodes.simulate(SMALL, algorithm=names["Unknown"])
    assert not Path("runs/classes").exists()


def test_a_class_of_a_module_is_imported(cell, tmp_path, monkeypatch):
    (tmp_path / "own_module.py").write_text(f"{IMPORTS}{CLASSES}")
    monkeypatch.syspath_prepend(tmp_path)
    run = mpinodes.simulate(SMALL, algorithm=importlib.import_module("own_module").Mine)
    (copy,) = (run.directory / "sources").iterdir()
    assert "from own_module import Mine" in copy.read_text()


@pytest.mark.parametrize("error", [BadInput("rounds = 0: too few"), Diverged("rounds = 0: too few")])
def test_a_notebook_shows_one_line_for_a_mistake(error):
    assert error._render_traceback_() == ["mpinodes: error: rounds = 0: too few"]
