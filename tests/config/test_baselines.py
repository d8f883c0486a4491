"""Baselines: the same code with one curator, without messages, with one average, and without noise."""

from __future__ import annotations

import tomllib
from pathlib import Path

import numpy as np
import pytest

from mpinodes.core.errors import BadInput
from mpinodes.core.messages import HEADER
from mpinodes.runlog.reader import load
from mpinodes.summary.summary import Summary
from tests.helpers.parts import rows_of, run_of, setup_of
from tests.helpers.running import run_mpi

ASKED = {
    "algorithm": {"name": "dp-dsgd"}, "rounds": 10, "topology": {"name": "ring", "agents": 4}, "report": False,
    "comparator": False,
    "data": {"name": "unit-ball", "total": 400, "dimension": 3, "sampling": "poisson", "rate": 0.1},
    "privacy": {"adjacency": "zero-out", "noise_multiplier": 2.0},
}  # fmt: skip


def opened(**changes):
    setup = setup_of(ASKED | {"record": {"transcript": True}} | changes)
    return setup, *setup.layout.open(rows_of(setup))


def test_alone_agents_receive_nothing() -> None:
    setup, decisions, _, frames = opened(baseline="alone")
    own = frames[:, :, HEADER : HEADER + 3]
    np.testing.assert_array_equal(decisions, own)
    assert not any(setup.topology.sends(t).any() for t in range(1, 11))


def test_one_shot_is_the_average_of_models_trained_alone() -> None:
    *_, frames = opened(baseline="alone", noise={"key": "same"})
    _, decisions, _, _ = opened(baseline="one-shot", noise={"key": "same"})
    wanted = frames[-1, :, HEADER : HEADER + 3].mean(axis=0)
    np.testing.assert_allclose(decisions[-1], np.tile(wanted, (4, 1)), rtol=1e-12)
    np.testing.assert_array_equal(decisions[:-1], frames[:-1, :, HEADER : HEADER + 3])


def test_a_curator_has_all_data_and_an_eighth_of_the_noise() -> None:
    setup, _, events, _ = opened(baseline="curator")
    _, _, own, _ = opened()
    assert setup.topology.agents == 1
    assert setup.samples == (400,)
    assert (events.scale == own.scale[:, :1] / 4).all()
    assert (events.rate == own.rate[:, :1]).all()


def test_a_curator_of_agents_files_is_refused(tmp_path: Path) -> None:
    for agent in range(3):
        np.savez(tmp_path / f"part-{agent}.npz", features=[[0.5], [0.1]], targets=[1.0, -1.0])
    data = {"file": str(tmp_path / "part-{agent}.npz"), "columns": 1}
    with pytest.raises(BadInput, match=r"baseline = curator: data\.file names one file for each agent"):
        opened(baseline="curator", data=data)


def test_no_noise_is_none(tmp_path: Path) -> None:
    setup, _, events, _ = opened(baseline="no-noise")
    assert not setup.experiment.private
    assert (events.scale == 0).all()
    assert setup.experiment.clip == 1.0


def test_without_noise_gradients_are_clipped_in_the_same_way() -> None:
    privacy = ASKED["privacy"] | {"clipping": "agent", "clip": 0.3}
    changed = opened(baseline="no-noise", privacy=privacy)[0].experiment.privacy
    assert (changed.clipping, changed.clip, changed.adjacency) == ("agent", 0.3, "zero-out")


@pytest.mark.parametrize("baseline", ["curator", "alone", "one-shot"])
def test_they_are_priced_as_if_everything_was_sent(tmp_path: Path, baseline: str) -> None:
    own = Summary.read(run_of(tmp_path / "own", ASKED)).privacy.network.proven
    where = run_of(tmp_path / "run", ASKED | {"baseline": baseline})
    assert Summary.read(where).privacy.network.proven == pytest.approx(own, rel=1e-9)
    again = run_of(tmp_path / "again", tomllib.loads((where / "experiment.toml").read_text()))
    np.testing.assert_array_equal(load(where).event_scale.values, load(again).event_scale.values)


def test_a_run_that_asks_for_the_default_has_the_same_noise() -> None:
    assert setup_of(ASKED).noise_key == setup_of(ASKED | {"baseline": "none"}).noise_key


@pytest.mark.parametrize(("baseline", "ranks"), [("alone", 4), ("one-shot", 4), ("curator", 2)])
def test_over_mpi(tmp_path: Path, baseline: str, ranks: int) -> None:
    words = [
        "algorithm.name=dp-dsgd", "rounds=6", "data.name=unit-ball", "data.total=400", "data.dimension=3",
        "report=false", f"baseline={baseline}", "record.decisions=true", "output.dir=mpi",
    ]  # fmt: skip
    done = run_mpi(ranks, *words, "data.batch=4", cwd=tmp_path)
    assert done.code == 0, done.err
    asked = {
        "algorithm": {"name": "dp-dsgd"}, "rounds": 6, "record": {"decisions": True}, "baseline": baseline,
        "data": {"name": "unit-ball", "total": 400, "dimension": 3, "batch": 4}, "topology": {"agents": ranks - 1},
    }  # fmt: skip
    alone = load(run_of(tmp_path / "alone", asked))
    np.testing.assert_array_equal(load(tmp_path / "mpi").decision.values, alone.decision.values)
