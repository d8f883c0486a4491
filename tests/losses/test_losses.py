"""Gradients, clipping and the sensitivity it makes real."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import approx_fprime
from scipy.sparse import csr_array

from mpinodes.core.seeds import Draws, Purpose
from mpinodes.losses.absolute import Absolute
from mpinodes.losses.hinge import Hinge
from mpinodes.losses.least_squares import LeastSquares
from mpinodes.losses.linear import NoisyGradient
from mpinodes.losses.logistic import Logistic

LOSSES = [Logistic, LeastSquares]
LINEAR = [Logistic, Hinge, Absolute, LeastSquares]


def sample(rng: np.random.Generator, k: int = 5, d: int = 8) -> tuple[np.ndarray, np.ndarray]:
    return rng.standard_normal((k, d)), rng.choice([-1.0, 1.0], k)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("divisor", [1.0, 5.0])
def test_gradient_is_the_derivative_of_the_value(loss, divisor):
    rng = np.random.default_rng(1)
    f = loss(*sample(rng), divisor=divisor)
    for _ in range(20):
        x = rng.standard_normal(8)
        np.testing.assert_allclose(f.grad(x), approx_fprime(x, f.value, 1e-7), rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(f.grad(x, slice(2, 5)), f.grad(x)[2:5], rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("whole", [False, True])
@given(seed=st.integers(0, 2**31), scale=st.floats(0.01, 100))
@settings(max_examples=100)
def test_a_replaced_sample_moves_the_block_by_at_most_two_clips(loss, average, whole, seed, scale):
    """With `whole` a whole round is replaced: the bound that DPSDA's sensitivity stands on."""
    rng = np.random.default_rng(seed)
    features, targets = sample(rng)
    features *= scale
    other_features, other_targets = features.copy(), targets.copy()
    rows = slice(None) if whole else rng.integers(5)
    other_features[rows] = scale * 10 * rng.standard_normal(other_features[rows].shape)
    other_targets[rows] *= -1
    divisor = 5.0 if average else 1.0
    x, block, clip = rng.standard_normal(8), slice(1, 6), 0.7
    one = loss(features, targets, clip, whole, divisor).grad(x, block)
    other = loss(other_features, other_targets, clip, whole, divisor).grad(x, block)
    change = 2 * clip / (1.0 if whole else divisor)
    assert np.linalg.norm(one - other) <= change * (1 + 1e-12)
    assert np.abs(one - other).sum() <= np.sqrt(5) * change * (1 + 1e-12)


def test_the_bound_on_a_replaced_sample_is_attained():
    a = np.array([[3.0, 4.0]])
    one = Logistic(a, np.array([1.0]), clip=0.1).grad(np.zeros(2))
    other = Logistic(a, np.array([-1.0]), clip=0.1).grad(np.zeros(2))
    assert np.linalg.norm(one - other) == pytest.approx(0.2, rel=1e-14)


def test_clipping_leaves_short_gradients_alone():
    a, b = np.array([[0.1, 0.2]]), np.array([1.0])
    np.testing.assert_array_equal(Logistic(a, b, clip=5.0).grad(np.ones(2)), Logistic(a, b).grad(np.ones(2)))


@pytest.mark.parametrize("loss", LOSSES)
def test_many_values_at_once_equal_one_by_one(loss):
    rng = np.random.default_rng(2)
    losses = [loss(*sample(rng), divisor=5.0) for _ in range(4)]
    points = rng.standard_normal((4, 3, 8))
    features, targets = np.concatenate([f.features for f in losses]), np.stack([f.targets for f in losses])
    found = loss.values(features, targets, points)
    wanted = [[f.value(x) for x in at] for f, at in zip(losses, points, strict=True)]
    np.testing.assert_allclose(found.sum(axis=2) / 5.0, wanted, rtol=1e-12)
    of_one = loss.values(losses[0].features, targets[:1], points)
    np.testing.assert_allclose(
        of_one.sum(axis=2) / 5.0, [[losses[0].value(x) for x in at] for at in points], rtol=1e-12
    )
    np.testing.assert_array_equal(of_one[2], loss.values(losses[0].features, targets[:1], points[2:3])[0])


@pytest.mark.parametrize("loss", [Hinge, Logistic, LeastSquares, Absolute])
def test_values_on_sparse_samples_are_those_on_dense_ones(loss):
    """With rows of zeros, in groups of their own and in one for all."""
    rng = np.random.default_rng(4)
    features = np.where(rng.random((12, 9)) < 0.3, rng.standard_normal((12, 9)), 0.0)
    features[[0, 5, 11]] = 0
    targets, points = np.where(rng.random((4, 3)) < 0.5, 1.0, -1.0), rng.standard_normal((4, 2, 9))
    for some, of in ((features, targets), (features[:3], targets[:1])):
        found = loss.values(csr_array(some), of, points)
        np.testing.assert_allclose(found, loss.values(some, of, points), rtol=1e-13)


def test_the_logistic_loss_is_right_for_every_margin():
    """Against `logaddexp`, which is slower; both ends are exact."""
    margins = np.concatenate([np.linspace(-40, 40, 4001), [-1e300, -800.0, 800.0, 1e300, -np.inf, np.inf, 1e-300, 0.0]])
    for label in (-1.0, 1.0):
        found = Logistic.point(label * margins, np.full_like(margins, label))
        np.testing.assert_allclose(found, np.logaddexp(0.0, -margins), rtol=4e-16)
    assert found[-4] == np.inf
    assert found[-3] == 0
    assert np.isnan(Logistic.point(np.array([np.nan]), np.ones(1))).all()


def test_logistic_does_not_overflow():
    f = Logistic(np.array([[1.0], [-1.0]]), np.array([1.0, 1.0]))
    assert np.isfinite(f.value(np.array([1e4])))
    assert np.isfinite(f.grad(np.array([1e4]))).all()


def test_gradient_noise_has_the_stated_variance_and_does_not_depend_on_the_data():
    """20,000 draws: the variance within 4 standard errors (4·0.1·sqrt(2/20000))."""
    rng = np.random.default_rng(3)
    one, other = Logistic(*sample(rng, d=20_000)), Logistic(*sample(rng, d=20_000))
    x, noise = np.zeros(20_000), Draws(1, Purpose.GRADIENT_NOISE, 2)
    errors = [NoisyGradient(f, 0.1, 5, noise).grad(x) - f.grad(x) for f in (one, other)]
    assert errors[0].var() == pytest.approx(0.1, abs=4 * 0.1 * np.sqrt(2 / 20_000))
    np.testing.assert_allclose(errors[0], errors[1], atol=1e-13)


@pytest.mark.parametrize("loss", LINEAR)
@pytest.mark.parametrize("clip", [np.inf, 0.3])
@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("divisor", [1.0, 3.0, np.array([0.7])])
def test_the_gradient_of_one_sample_has_the_bits_of_the_plain_formula(loss, clip, whole, divisor):
    rng = np.random.default_rng(8)
    for d in (1, 2, 9, 64, 785):
        for block in (slice(None), slice(0, 1), slice(d // 2, d)):
            a, b, x = (
                rng.standard_normal((1, d)) * (rng.random((1, d)) < 0.8),
                rng.choice([-1.0, 1.0], 1),
                rng.random(d),
            )
            slopes, rows = loss.slope(a @ x, b), a[:, block]
            if clip < np.inf and not whole:
                norms = np.abs(slopes) * np.sqrt(rows[0].dot(rows[0]))
                slopes = slopes * (clip / np.maximum(norms, clip))
            plain = (slopes / divisor) @ rows
            if clip < np.inf and whole and (size := np.sqrt(plain.dot(plain))) > clip:
                plain = plain * (clip / size)
            np.testing.assert_array_equal(loss(a, b, clip, whole, divisor).data_grad(x, block), plain)


@pytest.mark.parametrize("loss", LINEAR)
@pytest.mark.parametrize("kind", [np.float32, np.float16, np.int8, np.uint8, ">f8"])
def test_the_gradient_of_one_sample_is_in_doubles_whatever_its_features_are(loss, kind):
    """Of 0, 1 and 2, which all kinds hold."""
    rng = np.random.default_rng(10)
    a, b, x = rng.integers(0, 3, (1, 6)).astype(float), np.array([-1.0]), rng.standard_normal(6)
    for clip in (np.inf, 0.3):
        found = loss(a.astype(kind), b, clip).data_grad(x)
        assert found.dtype == np.float64
        np.testing.assert_allclose(found, loss(a, b, clip).data_grad(x), rtol=1e-14)
    np.testing.assert_allclose(loss(a.astype(kind), b.astype(int)).grad(x), loss(a, b).grad(x), rtol=1e-14)
    np.testing.assert_array_equal(loss(a, b.astype(np.float32), 0.3).grad(x), loss(a, b, 0.3).grad(x))
    np.testing.assert_array_equal(loss(a, b.astype(int)).grad(x), loss(a, b).grad(x))


def test_a_loss_with_another_slope_does_not_take_its_parents_for_a_single_sample():

    @dataclass(frozen=True, slots=True)
    class Steeper(Logistic):
        @staticmethod
        def slope(prediction, target):
            return 3.0 * Logistic.slope(prediction, target)

    @dataclass(frozen=True, slots=True)
    class Same(Steeper):
        pass

    @dataclass(frozen=True, slots=True)
    class Both(Hinge):
        @staticmethod
        def slope(prediction, target):
            return np.full_like(prediction, 2.0)

    class Mixed:
        slope = staticmethod(Steeper.slope)

    @dataclass(frozen=True, slots=True)
    class Mixture(Mixed, Logistic):
        pass

    @dataclass(frozen=True, slots=True)
    class Assigned(Hinge):
        pass

    Assigned.slope = staticmethod(Steeper.slope)

    @dataclass(frozen=True, slots=True)
    class OfAnInstance(Logistic):
        def slope(self, prediction, target):
            return (3.0 + self.regularizer) * Logistic.slope(prediction, target)

    a, b = sample(np.random.default_rng(9), 1)
    wanted = 3.0 * Logistic(a, b).grad(np.ones(8))
    for kind in (Steeper, Same, Mixture, Assigned, OfAnInstance):
        np.testing.assert_allclose(kind(a, b).grad(np.ones(8)), wanted, rtol=1e-15)
    np.testing.assert_array_equal(Both(a, b).grad(np.ones(8)), 2.0 * a[0])


def test_the_error_of_a_gradient_is_the_same_however_often_and_for_whatever_block_it_is_asked_for():
    f, x, noise = Logistic(*sample(np.random.default_rng(3))), np.ones(8), Draws(1, Purpose.GRADIENT_NOISE, 2)
    fresh = {k: Draws(1, Purpose.GRADIENT_NOISE, 2).at(5).standard_normal(k) * np.sqrt(0.1) for k in (8, 3)}
    noisy = NoisyGradient(f, 0.1, 5, noise)
    for block in (slice(None), slice(2, 5), slice(None), slice(2, 5), slice(2, 5)):
        for ask in ("grad", "data_grad"):
            wanted = getattr(f, ask)(x, block)
            wanted += fresh[len(wanted)]
            np.testing.assert_array_equal(getattr(noisy, ask)(x, block), wanted)


def test_the_hinge_has_no_slope_at_its_kink_beyond_it_or_where_there_is_no_number():
    prediction, target = np.array([0.5, -2.0, 1.0, -1.5, np.nan]), np.array([1.0, 1.0, 1.0, -1.0, 1.0])
    np.testing.assert_array_equal(Hinge.slope(prediction, target), [-1.0, -1.0, 0.0, 0.0, 0.0])
    np.testing.assert_array_equal(target, [1.0, 1.0, 1.0, -1.0, 1.0])


@pytest.mark.parametrize("loss", [Logistic, Hinge, LeastSquares])
@pytest.mark.parametrize("clip", [1e300, 0.3])
@pytest.mark.parametrize("divisor", [1.0, 3.0, np.array([2.0])])
def test_a_round_of_one_sample_has_the_gradient_of_the_same_sample_among_others_of_no_weight(loss, clip, divisor):
    """One sample takes a way of its own; beside rows of zeros it takes that of many."""
    rng = np.random.default_rng(5)
    for _ in range(20):
        features, targets = sample(rng, 3)
        features[1:] = 0.0
        x, block = rng.standard_normal(8), slice(2, 7)
        many = loss(features, targets, clip, divisor=np.broadcast_to(divisor, 3)).grad(x, block)
        one = loss(features[:1], targets[:1], clip, divisor=divisor).grad(x, block)
        # The two ways round a·x differently on some processors, and 1 - tanh(·) of the slope cancels for large a·x.
        np.testing.assert_allclose(one, many, rtol=1e-14, atol=1e-15)
