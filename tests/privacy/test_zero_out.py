"""The adjacency zero-out: one sample's gradient is replaced by zero, and the number of samples stays public."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import mpinodes
from mpinodes.auditing.adjacent_replay import replay
from mpinodes.auditing.changes import Change, changed
from mpinodes.auditing.transcripts import Recorded
from mpinodes.config.compose import compose
from mpinodes.core.errors import BadInput
from tests.helpers.parts import run_of

SMALL = {
    "rounds": 6, "data": {"name": "unit-ball", "total": 400, "dimension": 3, "batch": 2}, "report": False,
    "topology": {"name": "complete", "agents": 3},
}  # fmt: skip


def setup_of(adjacency: str, **sections: object):
    return compose({**SMALL, "privacy": {"adjacency": adjacency}, **sections}, None)


@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("clip", [0.1, 5.0])
def test_sensitivity_is_half_of_that_of_a_replaced_sample(clip: float, average: bool) -> None:
    changes = []
    for adjacency in ("one-sample", "zero-out"):
        privacy = {"adjacency": adjacency, "clip": clip}
        changes.append(setup_of(adjacency, privacy=privacy, problem={"average": average}).run.grad_sensitivity[0])
    assert changes[0] == 2 * changes[1]
    assert changes[1] == clip / (2 if average else 1)


def test_unknown_size_of_a_gradient_is_not_half_of_its_change() -> None:
    # ∇f = x − a changes by at most 2·norm if a is replaced, but x − a itself has no bound.
    e = {"algorithm": {"name": "huang-dp"}, "topology": {"name": "complete", "agents": 3}, "rounds": 5}
    with pytest.raises(BadInput, match=r"privacy\.clip = inf: nothing bounds how much one sample"):
        compose({**e, "privacy": {"adjacency": "zero-out"}}, None)
    run = compose({**e, "privacy": {"adjacency": "zero-out", "clip": 3.0}}, None).run
    assert run.grad_sensitivity[0] == 3.0 * run.sample_weight[0]


@pytest.mark.parametrize("name", ["admm", "m-admm", "pp-admm"])
def test_admm_methods_refuse(name: str) -> None:
    with pytest.raises(BadInput, match=r"privacy\.adjacency = 'zero-out'") as refused:
        compose({"algorithm": {"name": name}, "privacy": {"adjacency": "zero-out"}}, None)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("problem", [{"loss": "hinge"}, {"loss": "logistic", "average": True}], ids=str)
def test_replay_moves_each_message_by_at_most_what_is_stated(tmp_path: Path, problem: dict[str, object]) -> None:
    privacy = {"adjacency": "zero-out", "clip": 0.05}
    run = Recorded(
        run_of(tmp_path / "run", {**SMALL, "record": {"transcript": True}, "problem": problem, "privacy": privacy})
    )
    findings = [replay(run, agent, rounds=5, seed=1) for agent in run.agents]
    assert not any(finding.exceeded for finding in findings)
    assert max(finding.direct for finding in findings) > 0.999  # the clip is attained


def test_a_zeroed_sample_is_a_batch_without_it() -> None:
    setup = setup_of("zero-out")
    own, samples = setup.stream.of(0), setup.stream.samples(0)
    loss = own(2)
    zeroed = changed(own, samples, Change(2, samples(2)[1], None, np.nan))(2)
    x = np.array([0.3, -0.2, 0.5])
    alone = type(loss)(loss.features[:1], loss.targets[:1], loss.clip, loss.whole, loss.divisor, loss.regularizer)
    np.testing.assert_array_equal(zeroed.grad(x), alone.grad(x))


def test_epsilon_is_named_and_halved(tmp_path: Path) -> None:
    def run(adjacency: str):
        keys = {**SMALL, "output": {"dir": str(tmp_path / adjacency)}}
        return mpinodes.simulate({**keys, "privacy": {"adjacency": adjacency, "scale": 2.0, "clip": 0.5}})

    replaced, zeroed = run("one-sample"), run("zero-out")
    assert zeroed.summary["privacy"]["adjacency"] == "zero-out"
    pure = [result.summary["privacy"]["network"]["proven_pure"] for result in (replaced, zeroed)]
    assert pure[0] == pytest.approx(2 * pure[1])
