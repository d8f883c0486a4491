"""Clipping at the ends of the doubles, against exact rational arithmetic."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from math import inf, isqrt

import numpy as np
import pytest
import scipy.sparse

from mpinodes.core import ALL
from mpinodes.core.norms import norm, shortened
from mpinodes.losses.absolute import Absolute
from mpinodes.losses.clipping import ROUNDING, clipped_sum, row_norms
from mpinodes.losses.enforced import Reclipped, enforced
from mpinodes.losses.hinge import Hinge
from mpinodes.losses.least_squares import LeastSquares
from mpinodes.losses.logistic import Logistic
from mpinodes.losses.squared_distance import SquaredDistance

LOSSES = [Logistic, Hinge, Absolute, LeastSquares, SquaredDistance]
SIZES = np.array([1.7e308, 1e300, 1e155, 1e30, 2.0, 0.3, 1e-30, 1e-155, 1e-170, 5e-324, 0.0])
CLIPS = [1e-100, 0.7, 1e100]


@pytest.fixture(autouse=True)
def quiet():
    """As in a run."""
    with np.errstate(all="ignore"):
        yield


def squared(v: np.ndarray) -> Fraction:
    return sum((Fraction(float(entry)) ** 2 for entry in v), Fraction(0))


def within(v: np.ndarray, most: float) -> bool:
    """Whether ‖v‖₂ ≤ most, up to the rounding that is stated: exact."""
    return bool(np.isfinite(v).all()) and squared(v) <= (Fraction(most) * (1 + Fraction(ROUNDING))) ** 2


def exact(v: np.ndarray) -> float:
    """‖v‖₂ to 17 digits."""
    square = squared(v)
    shift = 2 * (square.denominator.bit_length() + 64)
    return float(Fraction(isqrt(int(square * (1 << shift))), 1 << (shift // 2)))


def drawn(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Numbers of all sizes; rows of one size as well as mixed ones."""
    sizes = rng.choice(SIZES, shape) if rng.random() < 0.5 else rng.choice(SIZES)
    return sizes * rng.choice([-1.0, 1.0], shape)


def samples(loss: type, rng: np.random.Generator, k: int, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    features = np.array([drawn(rng, x.shape) for _ in range(k)])
    if loss.needs_labels:
        return features, rng.choice([-1.0, 1.0], k)
    tied = features @ x  # on the kink of the absolute error
    return features, np.where((rng.random(k) < 0.2) & np.isfinite(tied), tied, drawn(rng, (k,)))


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("block", [ALL, slice(1, 3)], ids=["all", "block"])
def test_no_replaced_sample_moves_a_gradient_further_than_the_clip_says(loss, average, whole, block):
    """The sensitivity that all accounting rests on, in exact arithmetic, for samples and points of any size."""
    rng = np.random.default_rng(5)
    for _ in range(150):
        k, clip = int(rng.integers(1, 4)), float(rng.choice(CLIPS))
        x = drawn(rng, (4,))
        features, targets = samples(loss, rng, k, x)
        others = features.copy(), targets.copy()
        rows = slice(None) if whole else slice(0, 1)
        others[0][rows], others[1][rows] = (both[rows] for both in samples(loss, rng, k, x))
        divisor = float(k) if average else 1.0
        one = loss(features, targets, clip, whole, divisor).data_grad(x, block)
        other = loss(*others, clip, whole, divisor).data_grad(x, block)
        assert within(one, clip if whole else clip * k / divisor)
        moved = np.array([float(Fraction(float(a)) - Fraction(float(b))) for a, b in zip(one, other, strict=True)])
        assert within(moved, 2 * clip / (1.0 if whole else divisor))


@pytest.mark.parametrize("sparse", [False, True])
def test_a_clipped_gradient_keeps_its_direction_at_any_size(sparse):
    """Where the clip binds, the gradient is as long as the clip; where it does not, it is untouched."""
    clip = 0.5
    for a, target in [(1e-170, 1e300), (1e200, 1.0), (1e300, 1.7e308), (5e-324, 1e308), (1e-160, 1e160)]:
        rows = np.array([[a, -a, 0.0]])
        features = scipy.sparse.csr_array(rows) if sparse else rows
        g = LeastSquares(features, np.array([target]), clip).data_grad(np.zeros(3))
        wanted = min(clip, 2 * target * a * 2**0.5) if target * a < 1e300 else clip
        assert g == pytest.approx(-np.array([1.0, -1.0, 0.0]) * wanted / 2**0.5, rel=1e-12)
    tiny = LeastSquares(np.array([[1e-170, 1e-170]]), np.array([3.0]), clip).data_grad(np.zeros(2))
    np.testing.assert_array_equal(tiny, [-6.0 * 1e-170] * 2)


def test_ordinary_gradients_have_the_bits_of_the_plain_formula():
    rng = np.random.default_rng(2)
    for loss in (Logistic, Hinge, Absolute, LeastSquares):
        for k in (1, 5):
            a, b, x = rng.standard_normal((k, 6)), rng.choice([-1.0, 1.0], k), rng.standard_normal(6)
            slope = loss.slope(a @ x, b)
            norms = np.abs(slope) * np.sqrt(np.vecdot(a, a))
            plain = (slope * (0.7 / np.maximum(norms, 0.7)) / 3.0) @ a
            np.testing.assert_array_equal(loss(a, b, 0.7, divisor=3.0).data_grad(x), plain)
            whole = (slope / 3.0) @ a
            size = np.sqrt(whole @ whole)
            wanted = whole * (0.1 / size) if size > 0.1 else whole
            np.testing.assert_array_equal(loss(a, b, 0.1, True, 3.0).data_grad(x), wanted)


def test_the_two_ways_to_clip_agree_on_ordinary_rows():
    rng = np.random.default_rng(3)
    rows, slopes, shares = rng.standard_normal((7, 4)), 3 * rng.standard_normal(7), rng.uniform(1, 3, 7)
    rows[2] = 0.0
    plain = slopes * np.minimum(1, 0.9 / np.maximum(np.abs(slopes) * np.linalg.norm(rows, axis=1), 1e-9))
    np.testing.assert_allclose(clipped_sum(slopes, rows, 0.9, shares), (plain / shares) @ rows, rtol=1e-13)
    in_csr = clipped_sum(slopes, scipy.sparse.csr_array(rows), 0.9, shares)
    np.testing.assert_allclose(in_csr, (plain / shares) @ rows, rtol=1e-13)


def test_one_sample_that_is_no_number_does_not_touch_the_others():
    a = np.array([[1.0, 2.0], [np.nan, 1.0], [np.inf, 0.0]])
    f = LeastSquares(a, np.array([0.0, 1.0, 1.0]), 1.0)
    np.testing.assert_allclose(f.data_grad(np.full(2, 1e10)), np.array([1.0, 2.0]) / 5**0.5, rtol=1e-14)


@pytest.mark.parametrize("sparse", [False, True])
def test_norms_of_rows_of_any_size(sparse):
    rows = np.array([[s, -s, s / 2] for s in SIZES[1:]] + [[1e300, 1e-300, 0.0], [0.0, 0.0, 0.0]])
    found = row_norms(scipy.sparse.csr_array(rows) if sparse else rows)
    assert found == pytest.approx([exact(row) for row in rows], rel=1e-15)


def test_vectors_of_any_size_are_measured_and_shortened():
    for size in SIZES[1:]:
        v = size * np.array([3.0, -4.0, 0.5])
        assert norm(v) == pytest.approx(exact(v), rel=1e-15)
        short = shortened(v, 2.0)
        assert short is v or within(short, 2.0)
        assert (short is v) == (exact(v) <= 2.0)
        if short is not v:
            np.testing.assert_allclose(short, v / exact(v) * 2.0 if size < 1e308 else short, rtol=1e-14)
    assert norm(np.array([1.7e308, 1.7e308])) == inf
    assert within(shortened(np.array([1.7e308, -1.7e308]), 2.0), 2.0)
    assert np.isnan(norm(np.array([np.nan, 1.0])))


@dataclass(frozen=True, slots=True)
class Naive(LeastSquares):
    """A user's own clipping, sample by sample, by the norm that first comes to mind."""

    def data_grad(self, x, block=ALL):
        g = np.zeros_like(x[block])
        for a, b in zip(self.features, self.targets, strict=True):
            one = 2 * (a @ x - b) * a[block]
            g += one * min(1.0, self.clip / np.linalg.norm(one) if one @ one else 1.0)
        if self.whole and np.linalg.norm(g) > self.clip:
            g *= self.clip / np.linalg.norm(g)
        return g / self.divisor


@dataclass(frozen=True, slots=True)
class Unclipped(LeastSquares):
    """A user's gradient that forgets the clip, in `grad` too."""

    def grad(self, x, block=ALL):
        return replace(self, clip=inf).data_grad(x, block)

    def data_grad(self, x, block=ALL):
        return LeastSquares(self.features, self.targets, divisor=self.divisor).data_grad(x, block)


@pytest.mark.parametrize("loss", [Naive, Unclipped])
@pytest.mark.parametrize("whole", [False, True])
def test_a_loss_of_ones_own_is_clipped_whatever_it_does(loss, whole):
    rng = np.random.default_rng(7)
    for _ in range(200):
        k, clip, x = int(rng.integers(1, 4)), float(rng.choice(CLIPS)), drawn(rng, (3,))
        features, targets = samples(loss, rng, k, x)
        others = features.copy(), targets.copy()
        rows = slice(None) if whole else slice(0, 1)
        others[0][rows], others[1][rows] = (both[rows] for both in samples(loss, rng, k, x))
        one, other = (
            enforced(loss(*data, clip, whole), clip, clip, whole, 0.0) for data in ((features, targets), others)
        )
        assert isinstance(one, Reclipped)
        g, h = one.grad(x), other.grad(x)
        assert within(g, clip if whole else k * clip)
        moved = np.array([float(Fraction(float(a)) - Fraction(float(b))) for a, b in zip(g, h, strict=True)])
        assert within(moved, 2 * clip)


def test_what_is_enforced_leaves_our_losses_and_ordinary_gradients_alone():
    rng = np.random.default_rng(8)
    a, b, x = rng.standard_normal((1, 4)), np.ones(1), rng.standard_normal(4)
    ours = LeastSquares(a, b, 0.5)
    assert enforced(ours, 0.5, 0.5, False, 0.0) is ours
    forgotten = enforced(replace(ours, clip=inf), 0.5, 0.5, False, 0.0)  # by a stream
    np.testing.assert_array_equal(forgotten.grad(x), ours.grad(x))
    of_bytes = replace(ours, features=np.array([[200, 56, 0, 0]], np.uint8))  # whose squares add up to 0 in bytes
    assert within(enforced(of_bytes, 0.5, 0.5, False, 0.0).grad(x), 0.5)
    assert not within(of_bytes.grad(x), 0.5)
    own = Naive(a, b, 0.5, regularizer=0.1)
    np.testing.assert_array_equal(enforced(own, 0.5, 0.5, False, 0.1).grad(x), own.grad(x))
