"""Samples as the logger has them, and what all of them come to."""

from __future__ import annotations

import numpy as np
import pytest

from mpinodes.core.asked import asked_for
from mpinodes.evaluation import samples
from mpinodes.evaluation.samples import Samples
from mpinodes.losses.logistic import Logistic
from mpinodes.running.setup import set_up
from tests.helpers.parts import decisions, metered, setup_of

RING = "algorithm.name=dola topology.name=ring topology.agents=3"
AGAIN = "data.name=unit-ball data.dimension=4 data.total=17 data.batch=2 data.epochs=9 rounds=18"


def samples_of(words, rounds):
    return Samples(set_up(asked_for(f"{RING} rounds={rounds} {words}".split()), None).stream, 3, rounds)


@pytest.mark.parametrize("at_once", [100, 10**6])
@pytest.mark.parametrize(
    "words",
    [
        *(f"{AGAIN} problem.loss={loss}" for loss in ("hinge", "logistic", "least-squares", "squared-distance")),
        f"{AGAIN} data.partition=shared data.epochs=3",
        f"{AGAIN} problem.average=true problem.regularizer=0.1",
        "data.name=olr data.batch=2 rounds=18 problem.regularizer=0.1",
    ],
)
def test_however_many_rounds_a_total_has_their_losses_and_few_samples(words, at_once, monkeypatch):
    monkeypatch.setattr(samples, "KEPT", 0)
    monkeypatch.setattr(samples, "BYTES_AT_ONCE", at_once)
    some = samples_of(words, 18)
    setup = set_up(asked_for(f"{RING} {words}".split()), None)
    losses = [setup.stream.of(i) for i in range(3)]
    point = np.random.default_rng(1).standard_normal(setup.dimension)
    total = some.everything
    for first, last in ((1, 2), (1, 18), (1, 7), (3, 3)):
        every = [of(t) for of in losses for t in range(first, last + 1)]
        found = total.upto(last, first)
        assert found.value(point) == pytest.approx(sum(loss.value(point) for loss in every), rel=1e-12)
        grads = np.sum(
            [
                type(loss)(loss.features, loss.targets, divisor=loss.divisor, regularizer=loss.regularizer).grad(point)
                for loss in every
            ],
            axis=0,
        )  # unclipped
        np.testing.assert_allclose(found.grad(point), grads, rtol=1e-11, atol=1e-12)
        if isinstance(found, Logistic):
            hessian = np.sum([loss.hessian(point) for loss in every], axis=0)
            np.testing.assert_allclose(found.hessian(point), hessian, rtol=1e-11, atol=1e-12)
    assert len(total.upto(18).targets) <= 22


def test_samples_that_come_once_stand_there_once():
    some = samples_of(f"{AGAIN} data.total=120 data.epochs=1", 18)
    for last in (18, 5):
        total = some.everything.upto(last)
        features, targets, _ = some.of(1, last)
        rows, came = (
            np.unique(np.column_stack(pair), axis=0) for pair in ((total.features, total.targets), (features, targets))
        )
        np.testing.assert_array_equal(rows, came)
        assert len(total.targets) == len(targets)
        assert total.divisor == 1.0


@pytest.mark.parametrize("kept", [10**9, 0])
@pytest.mark.parametrize("loss", ["least-squares", "absolute", "squared-distance"])
@pytest.mark.parametrize("data", ["data.name=olr data.partition=even", AGAIN])
def test_a_total_is_the_same_to_the_bit_however_its_rounds_were_read(data, loss, kept, monkeypatch):
    """Cut into chunks in any way, or resumed in the middle, or never read before."""
    monkeypatch.setattr(samples, "KEPT", kept)
    totals = []
    for cuts in ([(1, 18)], [(1, 4), (5, 5), (6, 18)], [(9, 12), (13, 18)], []):
        some = samples_of(f"{data} problem.loss={loss} rounds=18", 18)
        for first, last in cuts:
            some.of(first, last)
        totals.append([some.everything.upto(last) for last in (3, 11, 18)])
    for others in totals[1:]:
        for one, other in zip(totals[0], others, strict=True):
            np.testing.assert_array_equal(one.features, other.features)
            np.testing.assert_array_equal(one.targets, other.targets)
            np.testing.assert_array_equal(one.divisor, other.divisor)


@pytest.mark.parametrize("loss", ["least-squares", "absolute"])
def test_of_many_least_squares_no_more_samples_than_coordinates_are_left(loss, monkeypatch):
    monkeypatch.setattr(samples, "KEPT", 100_000)
    for rounds in (100, 1000):
        some = samples_of(f"data.name=olr problem.loss={loss}", rounds)
        number = len(some.everything.upto(rounds).targets)
        assert number == (22 if loss == "least-squares" and rounds == 1000 else 3 * rounds)
        assert some.held_at_the_end == (0 if number == 22 else 8 * 22 * 3 * rounds)


UNEVEN = """
from dataclasses import dataclass, replace
import numpy as np
from scipy import sparse
from mpinodes.core.seeds import Draws, Purpose
from mpinodes.streams.labelled import LabelledStream, in_memory
__all__ = ["Uneven"]

@dataclass(frozen=True)
class Uneven(LabelledStream):
    name, feature_bound, drawn_from_seed = "uneven", 1.0, True
    defaults = {"problem": {"loss": "logistic"}}

    def open(self):
        draw = Draws(self.seed, Purpose.DATA).at(0)
        labels = np.where(draw.random(90) < 0.3, 1.0, -1.0)
        return in_memory(draw.uniform(-1, 1, (90, 2)), labels), None

    def samples(self, agent):
        return lambda t: [(3 * t + j) % len(self.shares[agent]) for j in range(COUNT)]

    def of(self, agent):
        features, targets = self._own(agent)
        features = FORM(features)
        def loss(t):
            rows = self.samples(agent)(t)
            made = self.make_loss(features[rows], targets[rows])
            return replace(made, divisor=made.divisor / WEIGHT)
        return loss
"""
COUNTS, WEIGHTS = (
    ["2", "1 + (t + agent) % 3", "4 if t == 5 else 1"],
    ["1.0", "np.where(made.targets > 0, 20.0, 1.0)", "t"],
)


@pytest.mark.parametrize("form", ["np.asarray", "sparse.csr_array"])
@pytest.mark.parametrize("weight", WEIGHTS)
@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("kept", [10**9, 0])
def test_rounds_that_differ_in_number_and_weight_of_samples_count_as_they_are(
    count, weight, form, kept, tmp_path, monkeypatch
):
    monkeypatch.setattr(samples, "KEPT", kept)
    text = UNEVEN.replace("COUNT", count).replace("WEIGHT", weight).replace("FORM", form)
    (tmp_path / "uneven.py").write_text(text)
    setup = setup_of(
        f"algorithm.name=dola topology.name=ring topology.agents=3 rounds=12 data.path={tmp_path / 'uneven.py'} "
        "problem.set=ball problem.radius=5"
    )
    made, losses = decisions(setup), [setup.stream.of(i) for i in range(3)]
    meter = metered(setup, np.array([7, 12]))
    meter.end()
    for horizon, total in zip((7, 12), meter.total, strict=True):
        by_agent = [
            sum(losses[i](t).value(made[t - 1, j]) for i in range(3) for t in range(1, horizon + 1)) for j in range(3)
        ]
        own = sum(losses[i](t).value(made[t - 1, i]) for i in range(3) for t in range(1, horizon + 1))
        np.testing.assert_allclose([total[0], *total[2:]], [own, *by_agent], rtol=1e-10)
    point = np.array([0.5, -1.5])
    every = [of(t) for of in losses for t in range(3, 10)]
    merged = meter.losses.everything.upto(9, 3)
    assert merged.value(point) == pytest.approx(sum(loss.value(point) for loss in every), rel=1e-12)
    np.testing.assert_allclose(merged.grad(point), sum(loss.grad(point) for loss in every), rtol=1e-10)
