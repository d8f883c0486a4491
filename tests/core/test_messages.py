"""What a message must say of itself."""

from __future__ import annotations

import numpy as np
import pytest

from mpinodes.core import RELEASED, UNKNOWN, Feedback, Hidden, Inbox, Payload, Queries, Query
from mpinodes.core.messages import HIDDEN_KIND, RELEASED_KIND, UNKNOWN_KIND

X = np.zeros(2)
TWO = Hidden(((1, 2), (3, 4)), (5, 6), 7, (8, 9), 10, 11, ((12, 13), (14, 15)))


def test_a_query_must_say_what_it_leaks():
    with pytest.raises(TypeError, match="leaks"):
        Query(X, 1.0, 1.0, 1)
    with pytest.raises(TypeError, match="leaks"):
        Queries({"x": Payload(X, 1.0, 1.0)}, 1)


@pytest.mark.parametrize("wrong", [{"l1": 0.0}, {"l2": -1.0}, {"l1": np.nan}, {"calibration": -1.0}])
def test_sensitivities_are_positive_and_calibrations_not_negative(wrong):
    with pytest.raises(ValueError, match="must be >"):
        Query(**{"value": X, "l1": 1.0, "l2": 1.0, "uses": 1, "leaks": RELEASED} | wrong)


def test_a_leakage_is_as_many_numbers_as_its_parts_and_vectors_ask_for():
    assert TWO.numbers(2, 2) == (HIDDEN_KIND, *range(1, 16), 0, 0)
    for leakage, kind in ((RELEASED, RELEASED_KIND), (UNKNOWN, UNKNOWN_KIND)):
        assert leakage.numbers(0, 1) == (kind,)
        assert leakage.numbers(2, 2) == (kind, *[0.0] * 17)


@pytest.mark.parametrize(("hidden", "vectors"), [(0, 1), (1, 1), (2, 1), (1, 2), (3, 2)])
def test_a_leakage_of_another_shape_says_what_would_fit(hidden, vectors):
    with pytest.raises(ValueError, match=rf"must fit {hidden} hidden parts and {vectors} vectors: transition"):
        TWO.numbers(hidden, vectors)


@pytest.mark.parametrize("name", ["sensitivity", "lipschitz", "largest"])
@pytest.mark.parametrize("value", [-1.0, np.nan])
def test_bounds_of_a_leakage_are_not_negative(name, value):
    with pytest.raises(ValueError, match="offset and coordinates must be >= 0"):
        TWO._replace(**{name: value}).numbers(2, 2)


def test_feedback_is_one_hidden_part_that_is_the_message():
    assert Feedback(2.0, 0.5, 3.0, linear=0.25).numbers(1, 1) == (
        HIDDEN_KIND, 0.25, 1, 2, 1, 0.5, 3, 1, 0, 0,
    )  # fmt: skip


def test_an_inbox_gives_each_named_vector_by_itself():
    one, other = np.arange(4.0), np.arange(4.0, 8.0)
    inbox = Inbox([one, other], [0.25, 0.75], 2.0, other, ("x", "y"))
    for name, part in (("x", slice(0, 2)), ("y", slice(2, 4))):
        np.testing.assert_array_equal(inbox[name].own, other[part])
        np.testing.assert_array_equal(inbox[name].mix(), 0.25 * one[part] + 0.75 * other[part])
        assert inbox[name].scale == 2.0
    with pytest.raises(ValueError, match="not in tuple"):
        inbox["z"]
