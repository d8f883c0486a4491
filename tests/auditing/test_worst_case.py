"""Games at the worst case of dp-dsgd: by an adversary who reads frames alone, and by the probes of the audit."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mpinodes.auditing.games import canary, pairs, prepare
from mpinodes.auditing.small_experiments import probes
from mpinodes.auditing.statistics import told_apart
from mpinodes.config.compose import compose
from mpinodes.rounds import step
from tests.helpers.worst_case import ALPHA, CASES, MU, least_mu, proven, scores

RUNS, SAMPLED_RUNS = 600, 1000  # of each data set; half of them choose the threshold
SHORT = 16  # rounds; the frames of T rounds hold T - 1 gradients


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw the keys of the operating system from a seed, so that these tests always have the same outcome.

    With other keys, a bound is below the least value of a test in about one of 500 repetitions.
    """
    monkeypatch.setattr(os, "urandom", np.random.default_rng(0).bytes)


def shown_mu(folder: Path) -> float:
    case = replace(CASES["+C against −C"], rounds=SHORT, multiplier=2 * SHORT**0.5 / MU)
    return least_mu(*(scores(case, folder, world, RUNS) for world in (0, 1)))


def test_public_batches(tmp_path: Path) -> None:
    assert 0.4 * MU <= shown_mu(tmp_path) <= MU


def test_half_of_the_noise_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepared = step.Releaser.__init__

    def halved(self, *arguments):
        prepared(self, *arguments)
        self._deviation /= 2

    monkeypatch.setattr(step.Releaser, "__init__", halved)
    assert shown_mu(tmp_path) > MU


def test_secret_batches(tmp_path: Path) -> None:
    case = CASES["q = 0.5, +C against 0"]
    own, other = (scores(case, tmp_path, world, SAMPLED_RUNS) for world in (0, 1))
    epsilon = proven(case, tmp_path)
    shown = told_apart(own, other, case.delta, ALPHA, gaussian=False, sampled=True).at_delta
    assert 0.15 * epsilon <= shown <= epsilon


@pytest.mark.parametrize(("label", "least"), [("clipped in every round", 1.7), ("secret batches", 1.0)])
def test_the_probes_of_the_audit_tell_the_data_sets_apart(tmp_path: Path, label: str, least: float) -> None:
    """The mean of the log-likelihood ratio is μ²/2 = 2 without sampling, and has the other sign on adjacent data."""
    probe = next(probe for probe in probes({"name": "dp-dsgd"}, 0, tmp_path) if probe.what == label)
    ready = prepare(probe, tmp_path / "run")
    target = canary(ready, 0)
    assert target.change.round == 1
    ratios = pairs(compose(probe.asked, None), target, range(60), 0)
    assert ratios[:, 0].mean() > least - 4 * ratios[:, 0].std() / 60**0.5
    assert ratios[:, 1].mean() < -least + 4 * ratios[:, 1].std() / 60**0.5
    assert ready.sampled == (label == "secret batches")
    assert np.isfinite(ratios).all()
