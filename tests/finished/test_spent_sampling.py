"""The joint privacy loss of finished runs with secret batches."""

from __future__ import annotations

from pathlib import Path

import pytest

from mpinodes.finished import joint_cost
from mpinodes.summary.summary import Summary
from tests.helpers.parts import run_of

ASKED = {
    "algorithm": {"name": "dp-dsgd"}, "rounds": 10, "topology": {"name": "ring", "agents": 4}, "comparator": False,
    "data": {"name": "unit-ball", "total": 400, "dimension": 3, "seed": 5, "sampling": "poisson", "rate": 0.1},
    "privacy": {"noise_multiplier": 2.0},
}  # fmt: skip
PUBLIC = {"name": "unit-ball", "total": 400, "dimension": 3, "seed": 5, "batch": 4}
FIXED = {**PUBLIC, "sampling": "fixed", "batch": 10}


def epsilon_of(where: Path, adjacency: str, **changes: object) -> tuple[Path, float]:
    asked = ASKED | {"privacy": ASKED["privacy"] | {"adjacency": adjacency}} | changes
    privacy = Summary.read(run_of(where, asked)).privacy
    return where, privacy.network.proven


@pytest.mark.parametrize(
    ("adjacency", "data"), [("zero-out", {}), ("one-sample", {}), ("one-sample", {"data": FIXED})], ids=str
)
def test_two_runs_cost_as_much_as_one_run_that_is_twice_as_long(tmp_path: Path, adjacency: str, data: dict) -> None:
    runs = [epsilon_of(tmp_path / str(seed), adjacency, seed=seed, **data)[0] for seed in (0, 1)]
    loss, _, delta = joint_cost.in_all(joint_cost.read(runs), None)
    _, longer = epsilon_of(tmp_path / "longer", adjacency, rounds=20, **data)
    assert delta == 1e-5
    assert loss.epsilon == pytest.approx(longer, rel=1e-9)
    assert f"adjacency {adjacency}" in joint_cost.text(joint_cost.read(runs), None)


def test_repeats_cost_as_much_together_as_one_longer_run(tmp_path: Path) -> None:
    where, _ = epsilon_of(tmp_path / "repeats", "zero-out", repeats=2)
    _, longer = epsilon_of(tmp_path / "longer", "zero-out", rounds=20)
    assert Summary.read(where).privacy.together.network.proven == pytest.approx(longer, rel=1e-9)


@pytest.mark.parametrize("adjacency", ["zero-out", "one-sample"])
def test_a_run_with_public_batches_adds_its_loss(tmp_path: Path, adjacency: str) -> None:
    runs = [epsilon_of(tmp_path / "secret", adjacency), epsilon_of(tmp_path / "public", adjacency, data=PUBLIC)]
    loss, *_ = joint_cost.in_all(joint_cost.read([where for where, _ in runs]), None)
    alone = [epsilon for _, epsilon in runs]
    assert max(alone) < loss.epsilon
    if adjacency == "zero-out":
        assert loss.epsilon < sum(alone)
    else:  # as two zeroed samples, each with the loss that a replaced sample has with public batches: an upper bound
        assert loss.epsilon < 2 * sum(alone)


def test_runs_of_different_adjacency_are_not_added(tmp_path: Path) -> None:
    runs = [epsilon_of(tmp_path / adjacency, adjacency)[0] for adjacency in ("zero-out", "one-sample")]
    with pytest.raises(joint_cost.BadInput, match="not comparable"):
        joint_cost.in_all(joint_cost.read(runs), None)
