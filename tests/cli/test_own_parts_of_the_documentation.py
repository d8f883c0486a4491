"""The parts that docs/own shows, written from it alone and run together."""

from __future__ import annotations

import re
from pathlib import Path

from tests.helpers.records import read, summary_of
from tests.helpers.running import run_mpi

PAGES = (Path(__file__).parents[2] / "docs" / "own").glob("*.md")


def test_a_part_of_each_kind_in_one_run_under_mpi(tmp_path):
    files = dict(
        re.findall(r"```python\n# ((?:in )?\w+\.py)\n(.*?)```", "".join(page.read_text() for page in PAGES), re.DOTALL)
    )
    assert len(files) == 9
    mixing = files.pop("in my_algorithm.py").replace("from dataclasses import dataclass\n", "").strip()
    algorithm = files["my_algorithm.py"].replace('("metropolis", "laplacian")', '("metropolis", Equal)')
    files["my_algorithm.py"] = algorithm.replace("\n\n@dataclass", f"\n\n{mixing}\n\n\n@dataclass", 1)
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    words = [
        "algorithm.path=my_algorithm.py", "algorithm.mixing=Equal", "problem.path=my_loss.py", "data.path=my_data.py",
        "privacy.path=my_noise.py", "topology.path=my_graph.py", 'record.metrics=["my_metric.py", "disagreement"]',
        "problem.set=box", "problem.radius=5", "rounds=30", "report=false", "output.dir=run",
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
