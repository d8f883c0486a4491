"""Faults of algorithms that noise gradients, planted one by one. docs/auditing.md has a table of their outcomes.

Each fault cannot be written, is refused, has no effect, is found by the audit, or is priced honestly.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from mpinodes.algorithms.dola import DOLA
from mpinodes.algorithms.dp_dsgd import DPDSGD, State
from mpinodes.auditing.adjacent_replay import replays
from mpinodes.auditing.transcripts import simulate
from mpinodes.core import RELEASED, Query, SampleLoss, Say
from mpinodes.core.errors import BadInput
from mpinodes.losses.logistic import Logistic
from mpinodes.rounds.sampling import Batches
from tests.helpers.parts import rows_of, setup_of

ASKED = {
    "algorithm": {"name": "dp-dsgd"}, "rounds": 4, "topology": {"name": "ring", "agents": 4},
    "data": {"name": "unit-ball", "total": 400, "dimension": 3, "batch": 4},
}  # fmt: skip
SAMPLED = ASKED | {
    "data": {"name": "unit-ball", "total": 400, "dimension": 3, "sampling": "poisson", "rate": 0.3},
    "privacy": {"adjacency": "zero-out", "noise_multiplier": 1.0, "clip": 0.2}, "record": {"transcript": True},
}  # fmt: skip

OWN_LOSS = """
from dataclasses import dataclass
import numpy as np
from mpinodes.losses.logistic import Logistic
__all__ = ["Own"]

@dataclass(frozen=True, slots=True)
class Own(Logistic):
    {method}
"""
BY_SIZE = """def data_grad(self, x, block=slice(None)):
        slopes = self.slope(self.features @ x, self.targets)
        return (slopes / len(self.targets)) @ self.features[:, block]"""
CLIPPED_MEAN = """def data_grad(self, x, block=slice(None)):
        mean = (self.slope(self.features @ x, self.targets) / self.divisor) @ self.features[:, block]
        return mean * min(1.0, self.clip / np.linalg.norm(mean))"""
BY_TARGET = """def batch(self, draw, rate):
        rows = np.flatnonzero(self.targets > 0)
        return Logistic(self.features[rows], self.targets[rows], divisor=self.divisor * rate, clip=self.clip)"""


def own_loss(folder: Path, method: str) -> dict:
    (folder / "own.py").write_text(OWN_LOSS.format(method=method))
    return SAMPLED | {"problem": {"path": str(folder / "own.py"), "average": True, "set": "none"}}


def run(monkeypatch: pytest.MonkeyPatch, **methods: Any) -> np.ndarray:
    for name, method in methods.items():
        monkeypatch.setattr(DPDSGD, name, method)
    return rows_of(setup_of(ASKED))


def test_a_norm_of_the_gradient_before_noise_cannot_be_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    def update(self, s, here, inbox, loss):
        return State(inbox.mix(), np.full(3, np.linalg.norm(loss.grad(inbox.mix()))))

    with pytest.raises(AttributeError, match="no attribute 'grad'"):
        run(monkeypatch, update=update)


def test_a_loss_that_is_kept_gives_no_later_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[Any] = []

    def update(self, s, here, inbox, loss):
        kept.append(loss)
        loss.gradient(inbox.mix())
        kept[0].gradient(inbox.mix())
        return s

    with pytest.raises(ValueError, match="more gradients in a round than `gradients` = 1"):
        run(monkeypatch, update=update)


def test_a_number_of_calls_that_depends_on_data_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def update(self, s, here, inbox, loss):
        if loss.gradient(inbox.mix())[0] > 0:
            loss.gradient(inbox.mix())
        return s

    with pytest.raises(ValueError, match="more gradients in a round than `gradients` = 1"):
        run(monkeypatch, update=update)


def test_a_query_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def message(self, s, here):
        return Query(s.x, 1.0, 1.0, here.t - 1, RELEASED, 1.0)

    with pytest.raises(ValueError, match="may only return a Say, a Start or a Relay"):
        run(monkeypatch, message=message)


def test_other_algorithms_cannot_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DOLA, "message", lambda self, s, here: Say(s.x))
    with pytest.raises(ValueError, match="may only return a Say, a Start or a Relay"):
        rows_of(setup_of(ASKED | {"algorithm": {"name": "dola"}}))


def test_steps_on_one_batch_are_not_counted_as_fresh_ones() -> None:
    """Every local step has coins of its own, so that each may be priced as a subsampled release."""
    setup = setup_of(
        ASKED
        | {"algorithm": {"name": "dp-dsgd", "local_steps": 3}}
        | {"data": {"name": "unit-ball", "total": 400, "sampling": "poisson", "rate": 0.3}}
        | {"privacy": {"adjacency": "zero-out", "noise_multiplier": 1.0}}
    )
    batches, loss = Batches(setup.noise_key, 0, 0.3, 0, 3), setup.losses(0)(1)
    taken = [batches.drawn(loss, 1, part).features.tobytes() for part in range(3)]
    assert len(set(taken)) == 3


def test_copies_of_a_loss_share_its_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gradients of uncounted copies would have one batch and one noise."""

    def update(self, s, here, inbox, loss):
        for _ in range(3):
            deepcopy(loss).gradient(inbox.mix())
        return s

    with pytest.raises(ValueError, match="more gradients in a round than `gradients` = 1"):
        run(monkeypatch, update=update)


class Keeping(NamedTuple):
    x: Any
    made_with: float
    batch: Any


def later_rounds(self, s, here, inbox, loss):
    """Take the gradients of four rounds from one batch."""
    batch = loss if (here.t - 1) % 4 == 0 else s.batch
    return Keeping(inbox.mix() - 0.5 * batch.grad(inbox.mix()), 0.5, batch)


def local_steps(self, s, here, inbox, loss):
    """Take four steps on one batch, and state the sensitivity of one."""
    x = inbox.mix()
    for _ in range(4):
        x = x - 0.5 * loss.grad(x)
    return Keeping(x, 0.5, None)


@pytest.mark.parametrize("update", [later_rounds, local_steps], ids=lambda update: update.__name__)
def test_a_batch_that_a_method_uses_again_is_found_by_the_audit(monkeypatch: pytest.MonkeyPatch, update: Any) -> None:
    """`check` compares the same runs. Their batches are public: with secret ones, later rounds are not told apart."""
    asked = ASKED | {"algorithm": {"name": "dola"}, "rounds": 6, "problem": {"loss": "logistic", "set": "none"}}
    asked |= {"step": {"kind": "constant", "value": 0.5}, "record": {"transcript": True}}
    assert not any(finding.exceeded for finding in replays(simulate(setup_of(asked)), seed=0))
    monkeypatch.setattr(DOLA, "init", lambda self, x: Keeping(x, 0.0, None))
    monkeypatch.setattr(DOLA, "update", update)
    assert any(finding.exceeded for finding in replays(simulate(setup_of(asked)), seed=0))


def test_the_clip_is_applied_to_each_sample_before_the_mean() -> None:
    setup = setup_of(ASKED | {"privacy": {"clip": 0.01}})
    loss = setup.losses(0)(1)
    assert np.linalg.norm(loss.data_grad(np.ones(3))) <= 0.01 * (1 + 1e-9)
    assert setup.run.grad_sensitivity[0] == 2 * 0.01 / 4


@pytest.mark.parametrize("method", [BY_SIZE, CLIPPED_MEAN], ids=["divided by the batch's size", "clipped as a mean"])
def test_a_loss_of_the_users_cannot_clip_or_divide_otherwise(tmp_path: Path, method: str) -> None:
    """The agent clips the gradient of every sample by itself, and divides the sum by the public constant."""
    setup, x = setup_of(own_loss(tmp_path, method)), np.array([3.0, -1.0, 2.0])
    whole = setup.losses(0)(1)
    batch: Any = Batches(setup.noise_key, 0, 0.3, 0, 1).drawn(whole, 1)
    rows, targets = batch.loss.features, batch.loss.targets
    each = [Logistic(rows[[k]], targets[[k]], clip=0.2).data_grad(x) for k in range(len(targets))]
    np.testing.assert_allclose(batch.data_grad(x), np.sum(each, axis=0) / (0.3 * 100), rtol=1e-9)


def test_a_loss_of_the_users_cannot_choose_its_batch(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="defines batch itself"):
        setup_of(own_loss(tmp_path, BY_TARGET))


def test_division_by_the_size_of_the_batch_is_found_by_the_audit(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not any(finding.exceeded for finding in replays(simulate(setup_of(SAMPLED)), seed=0))

    def batch(self, draw, rate):
        rows = draw(len(self.targets))
        divisor = np.where(np.isinf(np.broadcast_to(self.divisor, self.targets.shape)[rows]), np.inf, len(rows))
        return replace(self, features=self.features[rows], targets=self.targets[rows], divisor=divisor)

    monkeypatch.setattr(SampleLoss, "batch", batch)
    assert any(finding.exceeded for finding in replays(simulate(setup_of(SAMPLED)), seed=0))


def test_a_state_that_the_clean_gradient_reaches_is_found_by_the_audit(monkeypatch: pytest.MonkeyPatch) -> None:
    def update(self, s, here, inbox, loss):
        g = loss.gradient(inbox.mix())
        return State(inbox.mix() - 0.5 * g, loss._gradients.queries[0].value)

    monkeypatch.setattr(DPDSGD, "update", update)
    assert any(finding.exceeded for finding in replays(simulate(setup_of(SAMPLED)), seed=0))


def test_a_message_that_a_kept_loss_gives_is_found_by_the_audit(monkeypatch: pytest.MonkeyPatch) -> None:
    def update(self, s, here, inbox, loss):
        return State(inbox.mix() - 0.5 * loss.gradient(inbox.mix()), loss)

    def message(self, s, here):
        return Say(s.x + (0.1 * s.velocity._gradients.queries[0].value if here.t > 1 else 0.0))

    monkeypatch.setattr(DPDSGD, "update", update)
    monkeypatch.setattr(DPDSGD, "message", message)
    assert any(finding.exceeded for finding in replays(simulate(setup_of(SAMPLED)), seed=0))


def test_a_sensitivity_of_one_clip_under_replacement_is_found_by_the_audit() -> None:
    asked = ASKED | {"privacy": {"clip": 0.2}, "record": {"transcript": True}}
    setup = setup_of(asked)
    assert setup.run.grad_sensitivity[0] == pytest.approx(2 * 0.2 / 4)
    halved = replace(setup.run, grad_sensitivity=tuple(s / 2 for s in setup.run.grad_sensitivity))
    wrong = replace(setup, run=halved, algorithm=replace(setup.algorithm, run=halved))
    assert not any(finding.exceeded for finding in replays(simulate(setup), seed=0))
    assert any(finding.exceeded for finding in replays(simulate(wrong), seed=0))


def test_a_clip_of_the_mean_is_priced_honestly() -> None:
    """One sample may move a clipped mean from one side of the ball to the other."""
    for adjacency in ("one-sample", "zero-out"):
        setup = setup_of(ASKED | {"privacy": {"clip": 0.2, "clipping": "agent", "adjacency": adjacency}})
        assert setup.run.grad_sensitivity[0] == pytest.approx(2 * 0.2)
