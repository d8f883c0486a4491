"""The parts that docs/own shows, written from it alone and run together."""

from __future__ import annotations

import re
from math import inf
from pathlib import Path

import pytest

from tests.helpers.records import read, summary_of
from tests.helpers.running import run_mpi

PAGES = sorted((Path(__file__).parents[2] / "docs" / "own").glob("*.md"))


def documented() -> dict[str, str]:
    text = "".join(page.read_text() for page in PAGES)
    return dict(re.findall(r"```python\n# ((?:in )?\w+\.py)\n(.*?)```", text, re.DOTALL))


def test_a_part_of_each_kind_in_one_run_under_mpi(tmp_path):
    files = documented()
    del files["my_dpsgd.py"], files["my_adam.py"]
    assert len(files) == 11
    mixing = files.pop("in my_algorithm.py").replace("from dataclasses import dataclass\n", "").strip()
    algorithm = files["my_algorithm.py"].replace('("metropolis", "laplacian")', '("metropolis", Equal)')
    files["my_algorithm.py"] = algorithm.replace("\n\n@dataclass", f"\n\n{mixing}\n\n\n@dataclass", 1)
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    words = [
        "algorithm.path=my_algorithm.py", "algorithm.mixing=Equal", "problem.path=my_loss.py", "data.path=my_data.py",
        "privacy.path=my_noise.py", "topology.path=my_graph.py", 'record.metrics=["my_metric.py", "disagreement"]',
        "problem.set_path=my_set.py", "problem.radius=5", "step.path=my_steps.py", "step.power=0.5",
        "rounds=30", "report=false", "output.dir=run",
    ]  # fmt: skip
    done = run_mpi(5, *words, cwd=tmp_path)
    assert done.code == 0, done.err
    assert done.err == ""
    assert "mean ‖y_i‖" in done.out
    summary = summary_of(tmp_path / "run")
    assert summary["topology"] == "star"
    assert summary["data"] == "two clouds"
    assert 0 < summary["privacy"]["network"]["proven"] <= summary["privacy"]["network"]["proven_pure"] < 3
    assert read(tmp_path / "run", "size").shape == (30,)


def test_the_gaussian_example_spends_its_label_on_each_release(tmp_path):
    (tmp_path / "my_dpsgd.py").write_text(documented()["my_dpsgd.py"])
    words = ["algorithm.path=my_dpsgd.py", "privacy.epsilon=0.8", "report=false"]
    proven = []
    for rounds in (2, 200):
        done = run_mpi(4, *words, f"rounds={rounds}", f"output.dir=run-{rounds}", cwd=tmp_path)
        assert done.code == 0, done.err
        assert "for the label" not in done.out  # no paper claims anything here
        network = summary_of(tmp_path / f"run-{rounds}")["privacy"]["network"]
        assert network["rule"] == "GDP"
        proven.append(network["proven"])
    assert proven[0] == pytest.approx(0.8, rel=1e-6)
    assert 0.8 < proven[1] < inf


def test_the_adam_example_noises_its_gradients_alone(tmp_path):
    (tmp_path / "my_adam.py").write_text(documented()["my_adam.py"])
    words = ["algorithm.path=my_adam.py", "privacy.noise_multiplier=1", "privacy.adjacency=zero-out", "rounds=5"]
    done = run_mpi(4, *words, "report=false", "output.dir=run", cwd=tmp_path)
    assert done.code == 0, done.err
    assert summary_of(tmp_path / "run")["privacy"]["network"]["proven"] < inf
