"""Faults of algorithms that noise gradients, planted one by one: each is refused, or cannot be written."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mpinodes.algorithms.dp_dsgd import DPDSGD, State
from mpinodes.core import RELEASED, Query, Say
from tests.helpers.parts import rows_of, setup_of

ASKED = {
    "algorithm": {"name": "dp-dsgd"}, "rounds": 4, "topology": {"name": "ring", "agents": 4},
    "data": {"name": "unit-ball", "total": 400, "dimension": 3, "batch": 4},
}  # fmt: skip


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

    with pytest.raises(ValueError, match="more gradients than the 1"):
        run(monkeypatch, update=update)


def test_a_number_of_calls_that_depends_on_data_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def update(self, s, here, inbox, loss):
        if loss.gradient(inbox.mix())[0] > 0:
            loss.gradient(inbox.mix())
        return s

    with pytest.raises(ValueError, match="more gradients than the 1"):
        run(monkeypatch, update=update)


def test_a_query_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def message(self, s, here):
        return Query(s.x, 1.0, 1.0, here.t - 1, RELEASED, 1.0)

    with pytest.raises(ValueError, match="a Say is for algorithms that state"):
        run(monkeypatch, message=message)


def test_other_algorithms_cannot_say(monkeypatch: pytest.MonkeyPatch) -> None:
    from mpinodes.algorithms.dola import DOLA

    monkeypatch.setattr(DOLA, "message", lambda self, s, here: Say(s.x))
    with pytest.raises(ValueError, match="a Say is for algorithms that state"):
        rows_of(setup_of(ASKED | {"algorithm": {"name": "dola"}}))


def test_steps_on_one_batch_are_not_counted_as_fresh_ones() -> None:
    """Every local step has coins of its own, so that each may be priced as a subsampled release."""
    from mpinodes.rounds.sampling import Batches

    setup = setup_of(
        ASKED
        | {"algorithm": {"name": "dp-dsgd", "local_steps": 3}}
        | {"data": {"name": "unit-ball", "total": 400, "sampling": "poisson", "rate": 0.3}}
        | {"privacy": {"adjacency": "zero-out", "noise_multiplier": 1.0}}
    )
    batches, loss = Batches(setup.noise_key, 0, 0.3, 0, 3), setup.losses(0)(1)
    taken = [batches.drawn(loss, 1, part).features.tobytes() for part in range(3)]
    assert len(set(taken)) == 3


def test_the_clip_is_applied_to_each_sample_before_the_mean() -> None:
    setup = setup_of(ASKED | {"privacy": {"clip": 0.01}})
    loss = setup.losses(0)(1)
    assert np.linalg.norm(loss.data_grad(np.ones(3))) <= 0.01 * (1 + 1e-9)
    assert setup.run.grad_sensitivity[0] == 2 * 0.01 / 4
