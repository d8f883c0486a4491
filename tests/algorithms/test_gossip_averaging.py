"""Gossip averaging: an independent matrix computation, draw by draw."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from tests.helpers import reference
from tests.helpers.parts import rows_of, run_of, setup_of, told
from tests.helpers.running import run_mpi

GOSSIP = "algorithm.name=gossip-averaging record.transcript=true data.points=7 data.dimension=3 rounds=9"
WEIGHTS = {
    "metropolis": reference.metropolis,
    "lazy-metropolis": reference.lazy_metropolis,
    "laplacian": lambda n, edges: reference.laplacian(n, edges, reference.laplacian_max(n, edges)),
}


def sigma(epsilon: float, delta: float, sensitivity: float) -> float:
    """The least s with Φ(−εs/Δ + Δ/2s) − e^ε Φ(−εs/Δ − Δ/2s) <= δ."""

    def excess(m: float) -> float:
        return norm.cdf(-epsilon / m + m / 2) - np.exp(epsilon) * norm.cdf(-epsilon / m - m / 2) - delta

    return sensitivity / brentq(excess, 1e-3, 50)


@pytest.mark.parametrize("mixing", WEIGHTS)
@pytest.mark.parametrize(
    ("more", "sizes"),
    [
        ("topology.agents=6", [7] * 6),
        ("topology.name=torus topology.agents=9 privacy.epsilon=inf", [7] * 9),
        ("topology.name=erdos-renyi topology.agents=5 data.partition=uneven data.sizes=[3,4,8,9,11]", [3, 4, 8, 9, 11]),
    ],
)
def test_it_equals_products_of_matrices(mixing, more, sizes):
    parts = setup_of(f"{GOSSIP} algorithm.mixing={mixing} {more}")
    e, n = parts.experiment, parts.topology.agents
    found = told(parts)
    means = np.array([parts.stream.of(i)(1).features.mean(axis=0) for i in range(n)])
    assert [len(parts.stream.of(i)(1).features) for i in range(n)] == sizes
    far = 2 * e.data["radius"] * np.sqrt(3)  # two corners of the cube
    scales = np.array([sigma(e.privacy.epsilon, e.privacy.delta, far / k) if e.private else 0.0 for k in sizes])
    noise = np.array([reference.draws(parts.noise_key, reference.NOISE, i, 2).standard_normal(3) for i in range(n)])
    w = WEIGHTS[mixing](n, parts.topology.edges(1))
    said = means + scales[:, None] * noise
    close = {"rtol": 1e-9, "atol": 1e-11}
    assert not found["h"][0].any()
    np.testing.assert_allclose(found["scale"][1], scales, rtol=1e-9)
    np.testing.assert_allclose(found["x"][1], means, **close)
    for t in range(2, e.rounds):
        np.testing.assert_allclose(found["h"][t - 1], np.linalg.matrix_power(w, t - 2) @ said, **close)
        np.testing.assert_allclose(found["x"][t], np.linalg.matrix_power(w, t - 1) @ said, **close)
        assert not found["scale"][t].any()
    if not e.private and len(set(sizes)) == 1:
        assert np.abs(found["x"][-1] - means.mean(axis=0)).max() < np.abs(means - means.mean(axis=0)).max()


def test_clipped_values_move_by_twice_the_clip_over_the_number_of_points():
    parts = setup_of(f"{GOSSIP} topology.agents=4 privacy.clip=2")
    assert parts.run.grad_sensitivity == (4 / 7,) * 4
    _, events, _ = parts.layout.open(rows_of(parts))
    assert np.allclose(events.l2[1], 4 / 7)


def test_over_mpi_it_gives_the_same_bits(tmp_path):
    words = [*GOSSIP.split(), "report=false"]
    done = run_mpi(5, *words, f"output.dir={tmp_path / 'mpi'}", cwd=tmp_path)
    assert done.code == 0, done.err
    run_of(tmp_path / "alone", f"{GOSSIP} topology.agents=4")
    one, other = (json.loads((tmp_path / name / "summary.json").read_text()) for name in ("mpi", "alone"))
    assert one["privacy"] == other["privacy"]
    assert one["privacy"]["network"]["rule"] == "GDP"
    assert one["privacy"]["network"]["proven"] == pytest.approx(1.0, rel=1e-9)
    assert one["optimality_gap"] == other["optimality_gap"]
