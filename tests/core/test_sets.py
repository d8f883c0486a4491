"""Projections, the prox step of dual averaging, supports and blocks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import minimize

from mpinodes.config.public_constants import shared_blocks
from mpinodes.core import Set
from mpinodes.core.errors import BadInput
from mpinodes.sets.ball import Ball
from mpinodes.sets.box import Box
from mpinodes.sets.none import Unconstrained
from mpinodes.sets.product_of_balls import ProductOfBalls

D = 6
POINTS = arrays(np.float64, D, elements=st.floats(-50, 50, allow_subnormal=False))
SETS = [
    Box(2.0),
    Ball(2.0),
    ProductOfBalls(2.0, shared_blocks(D, 4)),
    Unconstrained(),
]


def inside(feasible: Set, x: np.ndarray) -> bool:
    slack = 1 + 1e-12
    match feasible:
        case Box(r):
            return bool(np.abs(x).max() <= r * slack)
        case ProductOfBalls(r, blocks):
            return all(np.linalg.norm(x[b]) <= r * slack for b in blocks)
        case Ball(r):
            return bool(np.linalg.norm(x) <= r * slack)
    return True


@pytest.mark.parametrize("feasible", SETS, ids=lambda s: type(s).__name__)
@given(x=POINTS, y=POINTS)
def test_projection_is_the_nearest_point(feasible, x, y):
    """P(x) ∈ 𝒳 and ⟨x − P(x), v − P(x)⟩ ≤ 0 for every v in 𝒳, which characterises it."""
    p, v = feasible.project(x), feasible.project(y)
    assert inside(feasible, p)
    assert (x - p) @ (v - p) <= 1e-9
    assert np.linalg.norm(p - v) <= np.linalg.norm(x - y) + 1e-12


@pytest.mark.parametrize("feasible", SETS, ids=lambda s: type(s).__name__)
@given(z=POINTS, y=POINTS, alpha=st.floats(0.01, 10))
def test_prox_step_minimises_its_definition(feasible, z, y, alpha):
    """Π(z, α) = argmin over 𝒳 of ⟨z, x⟩ + ‖x‖²/(2α)."""

    def objective(x):
        return z @ x + x @ x / (2 * alpha)

    best, other = feasible.prox_step(z, alpha), feasible.project(y)
    assert inside(feasible, best)
    assert objective(best) <= objective(other) + 1e-9 * (1 + abs(objective(other)))


@pytest.mark.parametrize("feasible", SETS[:3], ids=lambda s: type(s).__name__)
@given(g=POINTS, y=POINTS)
def test_support_bounds_every_inner_product_and_is_attained(feasible, g, y):
    assert g @ feasible.project(y) <= feasible.support(g) + 1e-9
    if np.linalg.norm(g) > 1e-3:
        assert g @ feasible.project(1e9 * g) == pytest.approx(feasible.support(g), rel=1e-6)


def test_projection_onto_the_product_agrees_with_a_solver():
    feasible, x = SETS[2], np.array([3.0, -4.0, 0.5, 0.1, 9.0, 2.0])
    constraints = [{"type": "ineq", "fun": lambda v, b=b: 4 - v[b] @ v[b]} for b in feasible.blocks]
    found = minimize(lambda v: (v - x) @ (v - x), np.zeros(D), constraints=constraints, method="SLSQP", tol=1e-12)
    np.testing.assert_allclose(feasible.project(x), found.x, atol=1e-5)


@given(d=st.integers(1, 500), n=st.integers(1, 60))
def test_blocks_share_out_all_coordinates_as_evenly_as_can_be(d, n):
    if d < n:
        with pytest.raises(BadInput, match="cannot be divided"):
            shared_blocks(d, n)
        return
    found = shared_blocks(d, n)
    assert np.concatenate([np.arange(d)[b] for b in found]).tolist() == list(range(d))
    sizes = {b.stop - b.start for b in found}
    assert max(sizes) - min(sizes) <= 1


def test_cifar_blocks():
    assert {b.stop - b.start for b in shared_blocks(3072, 7)} == {438, 439}
