"""A budget for the whole run chooses the noise multiplier of an algorithm that noises gradients."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from msgspec.structs import replace

from mpinodes.core.errors import BadInput
from mpinodes.core.experiment import Experiment
from mpinodes.runlog.reader import load
from mpinodes.running import noise_free
from mpinodes.studies.plans import identity
from mpinodes.summary.summary import Summary
from tests.helpers.parts import run_of, setup_of

ASKED = {
    "algorithm": {"name": "dp-dsgd"}, "rounds": 20, "topology": {"name": "ring", "agents": 4}, "report": False,
    "data": {"name": "unit-ball", "total": 400, "dimension": 3, "sampling": "poisson", "rate": 0.1},
    "privacy": {"adjacency": "zero-out", "budget": {"epsilon": 2.0, "delta": 1e-5}},
}  # fmt: skip


@pytest.mark.parametrize("sampling", [{"sampling": "poisson", "rate": 0.1}, {"batch": 4}], ids=str)
@pytest.mark.parametrize("local_steps", [1, 3])
def test_the_budget_is_kept_and_nearly_used(tmp_path: Path, sampling: dict, local_steps: int) -> None:
    data = {"name": "unit-ball", "total": 400, "dimension": 3, **sampling}
    algorithm = {"name": "dp-dsgd", "local_steps": local_steps}
    where = run_of(tmp_path / "run", ASKED | {"data": data, "algorithm": algorithm})
    proven = Summary.read(where).privacy.network.proven
    assert 0.99 * 2.0 < proven <= 2.0
    multiplier = Experiment.read(where / "experiment.toml").privacy.noise_multiplier
    assert multiplier is not None
    scale = load(where).event_scale.values
    size = 100 * 0.1 if "rate" in sampling else 4
    assert scale == pytest.approx(multiplier / size, rel=1e-12)


def test_the_run_can_be_repeated_from_its_experiment(tmp_path: Path) -> None:
    first = run_of(tmp_path / "first", ASKED)
    again = run_of(tmp_path / "again", tomllib.loads((first / "experiment.toml").read_text()))
    assert (load(first).event_scale.values == load(again).event_scale.values).all()


def test_another_multiplier_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"privacy\.budget\.epsilon determines this key"):
        run_of(tmp_path / "run", ASKED | {"privacy": ASKED["privacy"] | {"noise_multiplier": 1.0}})


def test_the_run_without_noise_is_made(tmp_path: Path) -> None:
    data = {"name": "unit-ball", "total": 800, "dimension": 3, "batch": 4}
    where = run_of(tmp_path / "run", ASKED | {"data": data, "privacy": {"noise_multiplier": 1.0}})
    noise_free.make(where)
    assert (where / "noise_free.json").exists()


def test_a_study_does_not_plan_a_run_again_whose_multiplier_a_budget_has_chosen() -> None:
    e = setup_of(ASKED).experiment
    chosen = replace(e, privacy=replace(e.privacy, noise_multiplier=1.5))
    assert identity(chosen) == identity(e)
