"""The comparator's certificate: a true bound, and a close one, on ordinary and on degenerate problems."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from mpinodes.config.public_constants import shared_blocks
from mpinodes.evaluation.comparator import best
from mpinodes.losses.absolute import Absolute
from mpinodes.losses.hinge import Hinge
from mpinodes.losses.least_squares import LeastSquares
from mpinodes.losses.logistic import Logistic
from mpinodes.losses.softmax import Softmax
from mpinodes.losses.squared_distance import SquaredDistance
from mpinodes.sets.ball import Ball
from mpinodes.sets.box import Box
from mpinodes.sets.none import Unconstrained
from mpinodes.sets.product_of_balls import ProductOfBalls

D = 3
SETS = [Box(0.7), Ball(0.7), ProductOfBalls(0.7, shared_blocks(D, 2)), Unconstrained()]
KINDS = [Logistic, LeastSquares, SquaredDistance, Hinge, Absolute, Softmax]
CASES = ["ordinary", "one sample", "duplicates", "zero features", "tiny", "huge", "mixed sizes", "equal labels", "far"]


def problem(kind, case: str, regularizer: float, seed: int):
    """Return a loss of a few samples in three coordinates; a softmax of three classes of one feature."""
    rng = np.random.default_rng(seed)
    n, d = (1 if case == "one sample" else 14), (1 if kind is Softmax else D)
    a = rng.standard_normal((n, d))
    b = rng.integers(0, 3, n).astype(float) if kind is Softmax else np.where(rng.random(n) < 0.4, 1.0, -1.0)
    divisor = rng.uniform(0.2, 3, n)
    match case:
        case "duplicates":
            a, b = np.repeat(a[:2], n // 2, axis=0), np.repeat(b[:2], n // 2)
        case "zero features":
            a[:, -1], a[0] = 0.0, 0.0
        case "tiny" | "huge":
            a *= 1e-8 if case == "tiny" else 1e8
        case "mixed sizes":
            a *= np.array([1e-4, 1.0, 1e4])[:d]
        case "equal labels":
            b[:] = 1.0
        case "far":  # the best decision is on the boundary
            a = np.abs(a)
            b[:] = 1.0 if kind in (Logistic, Hinge) else 2.0
    return kind(a, b, divisor=divisor, regularizer=regularizer)


def least_by_scipy(f, feasible, near) -> float:
    """Return the least loss that scipy's methods come to from some starts, within the set."""
    rng = np.random.default_rng(1)

    def value(z):
        return f.value(feasible.project(z))

    starts = [near + 1e-3 * rng.standard_normal(D), rng.standard_normal(D)]
    return min(minimize(value, x, method=how).fun for x in starts for how in ("Powell", "Nelder-Mead"))


@pytest.mark.parametrize("feasible", SETS, ids=lambda s: type(s).__name__)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("case", CASES)
def test_a_certificate_is_a_true_bound_and_close(case, kind, feasible):
    for seed, regularizer in enumerate((0.0, 0.3)):
        f = problem(kind, case, regularizer, seed)
        found = best(f, feasible, np.zeros(D))
        assert found.value == f.value(found.point)
        np.testing.assert_allclose(feasible.project(found.point), found.point, atol=1e-12)
        with np.errstate(all="ignore"):
            other = least_by_scipy(f, feasible, found.point)
        rounding = 1e-11 * max(f.value(np.zeros(D)), found.value)
        assert other >= found.value - found.certificate - rounding
        assert found.value <= other * (1 + 1e-7) + rounding or found.certificate >= found.value - other
        is_strongly_convex = (regularizer and kind is not Softmax) or kind in (LeastSquares, SquaredDistance)
        if feasible.bounded or is_strongly_convex:
            assert 0 <= found.certificate <= 1e-6 * max(found.value, f.value(np.zeros(D)))


@pytest.mark.parametrize("feasible", SETS, ids=lambda s: type(s).__name__)
@pytest.mark.parametrize("kind", KINDS)
def test_a_comparator_is_as_good_from_any_start(kind, feasible):
    f = problem(kind, "ordinary", 0.1, 2)
    one, other = (best(f, feasible, x) for x in (np.zeros(D), np.array([30.0, -20, 10])))
    assert abs(one.value - other.value) <= one.certificate + other.certificate + 1e-13 * one.value
