"""The same run without noise, beside a run."""

from __future__ import annotations

import json

import numpy as np
import pytest

from mpinodes.core.errors import BadInput
from mpinodes.running import noise_free
from tests.helpers.parts import run_of, setup_of

SMALL = "rounds=6 data.total=600 topology.name=ring topology.agents=3"


@pytest.mark.parametrize("repeats", [1, 2])
def test_a_short_run_has_it_and_it_is_that_run_without_noise(tmp_path, undrawn, repeats):
    words = f"{SMALL} repeats={repeats}"
    run = run_of(tmp_path / "run", f"{words} report=true")
    without = run_of(tmp_path / "without", f"{words} privacy.epsilon=inf")
    found = json.loads((run / "noise_free.json").read_text())
    summary = json.loads((without / "summary.json").read_text())
    assert found["network_regret"][-1] == pytest.approx(summary["network_regret"], rel=1e-6)
    np.testing.assert_allclose(found["accuracy"][-1], summary["accuracy"]["test"])
    assert f"without noise {summary['accuracy']['test']:.1%}" in (run / "report.html").read_text("utf-8")


@pytest.mark.parametrize("words", [
    "rounds=700 data.total=60000",  # 2,100 rounds of agents
    "data.batch=100 data.dimension=2000 data.total=2000",
    "privacy.epsilon=inf",
    "algorithm.name=pp-admm data.total=3000",  # all samples in every round
    'record.metrics=["disagreement"]',
])  # fmt: skip
def test_what_is_long_or_has_nothing_to_leave_out_is_not_done_again(tmp_path, monkeypatch, words):
    monkeypatch.setattr(noise_free, "make", lambda _: pytest.fail("done again"))
    noise_free.make_if_short(setup_of(f"{SMALL} {words}"), tmp_path)


def test_a_run_that_cannot_be_done_so_is_reported_without(tmp_path, monkeypatch, undrawn):
    def refused(_):
        raise BadInput("no")

    monkeypatch.setattr(noise_free, "make", refused)
    run = run_of(tmp_path / "run", f"{SMALL} report=true")
    assert not (run / "noise_free.json").exists()
    assert "--noise-free" in (run / "report.html").read_text("utf-8")
