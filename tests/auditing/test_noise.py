"""Tests of noise: exact where it is sound, whatever its law, and faults of every class found by the check for them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from mpinodes.auditing.noise import draws_needed, least_found, power, standardized
from mpinodes.core import Kind

SHAPE = (2, 30, 3, 2, 4)  # runs, rounds, agents, vectors, coordinates
LAWS = [Kind.LAPLACE, Kind.GAUSSIAN, Kind.PURE]


def drawn(rng, law, fault=None, shape=SHAPE, slack=0.0):
    """Noise of a law, of scale 3, standardized; `fault` changes it before."""
    noise = {Kind.LAPLACE: lambda: rng.laplace(size=shape), Kind.GAUSSIAN: lambda: rng.normal(size=shape)}.get(
        law, lambda: _with_norms(rng, shape)
    )()
    value = np.where(rng.random((1, *shape[1:])) < 0.5, -1.0, 1.0)
    if fault:
        noise = fault(noise, rng)
    scale, kind = np.full(shape[:4], 3.0), np.full(shape[:4], float(law))
    return standardized(3 * noise, np.full(shape, slack), value, scale, kind)


def _with_norms(rng, shape):
    direction = rng.normal(size=shape)
    return direction * (rng.gamma(shape[4], size=shape[:4]) / np.linalg.norm(direction, axis=-1))[..., None]


@pytest.mark.parametrize("law", LAWS)
def test_sizes_are_exponential_and_signs_fair_whatever_the_law(law):
    found = drawn(np.random.default_rng(0), law, shape=(20, 50, 5, 1, 5))
    assert stats.kstest(found.sizes.ravel(), "expon").pvalue > 1e-3
    assert stats.kstest(found.totals.ravel(), stats.chi2(found.freedom[0, 0, 0, 0]).cdf).pvalue > 1e-3
    assert abs(found.signs.mean()) < 4 / np.sqrt(found.number)
    assert found.ratio == pytest.approx(1, abs=0.03)


@pytest.mark.parametrize("law", LAWS)
def test_no_check_of_sound_noise_is_passed_less_often_than_it_says(law):
    rng, times = np.random.default_rng(1), 60
    p = {}
    for _ in range(times):
        for check in drawn(rng, law).checks:
            p.setdefault(check.name, []).append(check.p)
    assert {len(each) for each in p.values()} == {times}
    for name, each in p.items():
        low = int((np.array(each) < 0.1).sum())
        assert stats.binom.sf(low - 1, times, 0.1) > 1e-4, (name, low)


def test_noise_known_to_coarse_bits_alone_raises_no_alarm():
    """As on a lattice, where numbers come again by chance."""
    rng = np.random.default_rng(2)
    rounded = drawn(rng, Kind.LAPLACE, lambda e, _: np.rint(e * 2**12) / 2**12, (4, 100, 3, 1, 4), slack=3 * 2.0**-12)
    assert not rounded.fails(1e-3)
    again = drawn(rng, Kind.LAPLACE, _again, (4, 100, 3, 1, 4), slack=3 * 2.0**-20)
    assert "numbers that come again" not in [check.name for check in again.fails(1e-6)]
    assert "vectors that come again" in [check.name for check in again.fails(1e-6)]


def _again(e, rng):
    e[1, 40, 2] = -e[0, 3, 0][..., ::-1]
    return e


def _partly(e, rng, share=0.3):
    other = e[:, :, :1]
    return np.sqrt(1 - share) * e + np.sqrt(share) * np.where(np.arange(e.shape[2])[:, None, None] > 0, other, 0)


def _onwards(e, rng, share=0.3):
    return np.sqrt(1 - share) * e + np.sqrt(share) * np.roll(e, 1, axis=1)


def _lagged(e, rng):
    e[:, 5:, 2] = -e[:, :-5, 0]
    return e


def _one_zero(e, rng):
    e[1, 7, 1, 0, 2] = 0
    return e


def _slice(*index, factor):
    def fault(e, rng):
        e[index] *= factor
        return e

    return fault


ALL = slice(None)
FAULTS = {
    "one number left out": (_one_zero, "the smallest number"),
    "a round left out": (_slice(ALL, 9, factor=0), "scale of each round"),
    "every third round at half": (_slice(ALL, slice(2, None, 3), factor=0.5), "scale of each round"),
    "some rounds at half": (_slice(ALL, slice(11, 17), factor=0.5), "scale of each round"),
    "a coordinate at half": (_slice(..., 3, factor=0.5), "scale of each coordinate"),
    "a vector of an agent at 0.6": (_slice(ALL, ALL, 1, 1, factor=0.6), "scale of each vector"),
    "a vector again, turned and in another order": (_again, "numbers that come again"),
    "a common part": (_partly, "signs of each agent and the next"),
    "a part of the round before": (_onwards, "signs of each round and the next"),
    "a stream of another agent, later and turned": (_lagged, "numbers that come again"),
    "few values": (lambda e, _: np.rint(e * 100) / 100, "numbers that come again"),
    "one sign": (lambda e, _: np.abs(e), "signs"),
    "truncated": (lambda e, _: np.where(np.abs(e) > 1.5, np.sign(e) * 1.5, e), "law"),
    "not finite": (_slice(0, 0, 0, 0, 0, factor=np.nan), "numbers that are not finite"),
}


@pytest.mark.parametrize("law", [Kind.LAPLACE, Kind.GAUSSIAN])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found_by_the_check_for_it(fault, law):
    change, name = FAULTS[fault]
    found = drawn(np.random.default_rng(3), law, change, (4, 60, 4, 2, 4))
    assert name in [check.name for check in found.fails(1e-4)]


@pytest.mark.parametrize(("law", "other"), [(Kind.LAPLACE, "normal"), (Kind.GAUSSIAN, "laplace")])
def test_another_law_of_the_right_size_is_found(law, other):
    def fault(e, rng):
        drawn = getattr(rng, other)(size=e.shape)
        return drawn * (np.sqrt(np.pi / 2) if other == "normal" else np.sqrt(0.5))

    found = drawn(np.random.default_rng(4), law, fault, (20, 60, 4, 1, 4))
    assert "law" in [check.name for check in found.fails(1e-4)]


@pytest.mark.parametrize("linear", [True, False])
def test_power_is_what_is_printed(linear):
    rng, alpha, draws, tries = np.random.default_rng(5), 1e-3, 500, 20_000
    freedom = 2 * draws if linear else draws
    sums = stats.chi2(freedom).rvs(tries, random_state=rng) * (0.9 if linear else 0.9**2)
    law = stats.chi2(freedom)
    rejected = float(((sums < law.ppf(alpha / 2)) | (sums > law.isf(alpha / 2))).mean())
    assert power(0.9, draws, linear, alpha) == pytest.approx(rejected, abs=0.02)
    assert power(1.0, draws, linear, alpha) == pytest.approx(alpha)
    needed = draws_needed(0.05, linear, 4e-6, 0.999)
    assert 9_000 < needed < 30_000
    assert least_found(needed, linear, 4e-6, 0.999) == pytest.approx(0.05, rel=0.02)
