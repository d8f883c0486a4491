"""Where the losses come from."""

from __future__ import annotations

import numpy as np
import pytest

from mpinodes.formats import Source
from mpinodes.losses.least_squares import LeastSquares
from mpinodes.losses.logistic import Logistic
from mpinodes.streams.digits import Digits
from mpinodes.streams.olr import OLR


def digits(seed: int = 0, agents: int = 7, **settings) -> Digits:
    return Digits(seed=seed, agents=agents, make_loss=Logistic, **settings)


def whole(source: Source) -> np.ndarray:
    return source.features(np.arange(len(source.targets)))


def rows(stream: Digits, rounds: range) -> np.ndarray:
    losses = stream.of(0)
    return np.concatenate([losses(t).features for t in rounds])


def test_the_digits_are_355_split_80_to_20():
    stream = digits()
    sets = stream.labelled()
    assert [len(sets[name].targets) for name in ("train", "test")] == [284, 71]
    assert stream.rounds == 284
    train = whole(sets["train"])
    assert (stream.dimension, train.min(), train.max()) == (64, 0.0, 1.0)
    assert sum((source.targets == 1).sum() for source in sets.values()) == 174
    assert set(np.unique(sets["train"].targets)) == {-1.0, 1.0}


def test_the_split_is_the_same_for_every_seed():
    one, other = (whole(digits(seed=s).labelled()["test"]) for s in (0, 1))
    np.testing.assert_array_equal(one, other)


def test_an_epoch_shows_every_training_sample_once_and_epochs_differ():
    stream = digits(seed=3, epochs=2)
    train = whole(stream.labelled()["train"])
    first, second = rows(stream, range(1, 285)), rows(stream, range(285, 569))
    for epoch in (first, second):
        np.testing.assert_array_equal(np.unique(epoch, axis=0), np.unique(train, axis=0))
    assert not np.array_equal(first, second)
    plain = digits(seed=3, shuffle=False)
    np.testing.assert_array_equal(rows(plain, range(1, 285)), train)


def test_batches_leave_the_rest_out():
    stream = digits(batch=100, epochs=3)
    assert stream.rounds == 6
    assert rows(stream, range(1, 3)).shape == (200, 64)


@pytest.mark.parametrize("stream", [digits(epochs=2), OLR(0, 7, LeastSquares)])
def test_rounds_are_random_access_and_alike_for_all_agents(stream):
    forward, backward, other = stream.of(0), stream.of(0), stream.of(3)
    ahead = {t: forward(t).features.copy() for t in (1, 2, 300, 5)}
    for t in (5, 300, 2, 1):
        np.testing.assert_array_equal(ahead[t], backward(t).features)
        np.testing.assert_array_equal(ahead[t], other(t).features)


def test_olr_has_the_papers_law():
    """10,000 rounds: features uniform on [−½, ½], noise of variance 0.2 (4 standard errors)."""
    losses = OLR(5, 7, LeastSquares).of(0)
    rounds = [losses(t) for t in range(1, 10_001)]
    a = np.concatenate([f.features for f in rounds])
    b = np.concatenate([f.targets for f in rounds])
    assert a.shape == (10_000, 21)
    assert (a.min(), a.max()) == pytest.approx((-0.5, 0.5), abs=1e-3)
    assert a.var() == pytest.approx(1 / 12, abs=4 * 0.075 / np.sqrt(a.size))
    truth, residual, *_ = np.linalg.lstsq(a, b)
    assert residual[0] / (10_000 - 21) == pytest.approx(0.2, abs=4 * 0.2 * np.sqrt(2 / 10_000))
    assert 0.3 < truth.std() < 2
